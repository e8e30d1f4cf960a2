//! The page's side of WebAssembly: bytes by two functions that block, randomness, and texts both ways. One
//! session or client at a time, in one thread. Here is the session of two parties; [`files`] has the client
//! of ciphertexts.
//!
//! Texts and prompts come in through [`tacita_room`]: the page writes into what it returns. Answers and
//! events go out through `event`. The page's functions may not call back.
mod files;

use crate::framed::Transport;
use crate::session::{Cost, Event, Session};
use crate::writing::{Wish, Written};
use crate::{Answer, ClientError};
use serde::Serialize;
use std::cell::RefCell;
use tacita_mpc::{MpcError, Result};

#[link(wasm_import_module = "tacita")]
extern "C" {
    /// Queues bytes for the server; 0 when the link is closed.
    fn send(at: *const u8, len: usize) -> i32;
    /// Waits for so many bytes: 1 done, 0 closed, -1 silent for too long.
    fn receive(at: *mut u8, len: usize) -> i32;
    /// Fills with random bytes for keys; 0 when there are none.
    fn random(at: *mut u8, len: usize) -> i32;
    /// Milliseconds since some moment.
    fn now() -> f64;
    /// Takes a message in JSON.
    fn event(at: *const u8, len: usize);
}

/// What the page is told.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Told<'a> {
    Loaded {
        done: usize,
        total: usize,
    },
    Node {
        name: &'a str,
    },
    Ready {
        name: &'a str,
        tokens: usize,
        labels: &'a [String],
        writes: bool,
        layers: usize,
    },
    Written {
        text: &'a str,
        last: bool,
        #[serde(flatten)]
        cost: Cost,
    },
    Answer {
        answer: &'a Answer,
        #[serde(flatten)]
        cost: Cost,
    },
    Open {
        tokens: usize,
        security: u32,
        keys: u64,
    },
    Key {
        id: &'a str,
    },
    Made {
        sha256: &'a str,
    },
    Read {
        answer: &'a Answer,
    },
    Token {
        text: &'a str,
        last: bool,
        near: &'a [String],
        warning: Option<String>,
    },
    Failed {
        message: String,
        again: bool,
    },
}

thread_local! {
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static SESSION: RefCell<Option<Session>> = const { RefCell::new(None) };
}

struct Host;

impl Transport for Host {
    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        // SAFETY: the page only reads these bytes, before it returns.
        match unsafe { send(bytes.as_ptr(), bytes.len()) } {
            0 => Err(MpcError::Closed { op: "send" }),
            _ => Ok(()),
        }
    }

    fn receive(&mut self, out: &mut [u8]) -> Result<()> {
        // SAFETY: the page only writes these bytes, before it returns.
        match unsafe { receive(out.as_mut_ptr(), out.len()) } {
            1 => Ok(()),
            0 => Err(MpcError::Closed { op: "receive" }),
            _ => Err(MpcError::Io {
                op: "receive",
                detail: "the server was silent for too long".to_owned(),
            }),
        }
    }

    fn clock(&self) -> fn() -> f64 {
        // SAFETY: the page only reads its clock.
        || unsafe { now() }
    }
}

fn tell(told: &Told) {
    let text = serde_json::to_string(told).unwrap_or_default();
    // SAFETY: the page only reads these bytes, before it returns.
    unsafe { event(text.as_ptr(), text.len()) };
}

fn watch(event: Event) {
    tell(&match event {
        Event::Loaded(done, total) => Told::Loaded { done, total },
        Event::Node(name) => Told::Node { name },
    });
}

/// Whether the session goes on after an error: only where nothing was sent.
fn failed(error: &ClientError) -> i32 {
    let again = matches!(error, ClientError::Text(_));
    tell(&Told::Failed {
        message: error.to_string(),
        again,
    });
    0
}

/// Room for so many bytes from the page, until the next call.
#[no_mangle]
pub extern "C" fn tacita_room(len: usize) -> *mut u8 {
    ROOM.with_borrow_mut(|room| {
        *room = vec![0; len];
        room.as_mut_ptr()
    })
}

/// The text that lies in the room or, where `first` is not 0, a pair: its first of so many bytes.
fn texts(first: usize) -> Vec<String> {
    let given = ROOM.take();
    let spell = |bytes| String::from_utf8_lossy(bytes).into_owned();
    match given.split_at_checked(first) {
        Some((one, other)) if first > 0 => vec![spell(one), spell(other)],
        _ => vec![spell(&given)],
    }
}

/// Greets the server. 1 when a session is there.
#[no_mangle]
pub extern "C" fn tacita_greet() -> i32 {
    match Session::greet(Host, &mut watch) {
        Err(error) => failed(&error),
        Ok(session) => {
            let program = session.program();
            tell(&Told::Ready {
                name: &program.reading.name,
                tokens: program.tokens,
                labels: &program.reading.labels,
                writes: program.writes(),
                layers: program.layers,
            });
            SESSION.set(Some(session));
            1
        }
    }
}

/// Asks about the text that lies in the room; where `first` is not 0, about a question of so many bytes and
/// the context behind it. 1 when it was answered.
#[no_mangle]
pub extern "C" fn tacita_classify(first: usize) -> i32 {
    let texts = texts(first);
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    with_session(|session| {
        let answer = &session.classify(&texts, &mut watch)?;
        let cost = session.cost();
        tell(&Told::Answer { answer, cost });
        Ok(())
    })
}

/// Has a text written behind the prompt that lies in the room, of so many tokens at most. 1 when its first
/// token was told.
#[no_mangle]
pub extern "C" fn tacita_write(most: usize, thousandths: u32) -> i32 {
    let prompt = ROOM.with_borrow(|room| String::from_utf8_lossy(room).into_owned());
    token(|session| session.write(&prompt, Wish { most, thousandths }, &mut watch))
}

/// Goes on with the text. 1 when its next token was told.
#[no_mangle]
pub extern "C" fn tacita_next() -> i32 {
    token(|session| session.next(&mut watch))
}

/// Ends the text, so that the server waits for no further token of it. 1 when that was said.
#[no_mangle]
pub extern "C" fn tacita_enough() -> i32 {
    with_session(Session::enough)
}

fn token(write: impl FnOnce(&mut Session) -> crate::Result<Written>) -> i32 {
    with_session(|session| {
        let Written { text, last, .. } = write(session)?;
        let (text, cost) = (&*text, session.cost());
        tell(&Told::Written { text, last, cost });
        Ok(())
    })
}

/// Runs something of the session; 1 where it succeeded.
fn with_session(run: impl FnOnce(&mut Session) -> crate::Result<()>) -> i32 {
    SESSION.with_borrow_mut(|session| match session.as_mut().map(run) {
        None => failed(&ClientError::Peer("there is no session".to_owned())),
        Some(result) => result.map_or_else(|error| failed(&error), |()| 1),
    })
}

/// Says goodbye, so that the server turns to the next client at once.
#[no_mangle]
pub extern "C" fn tacita_end() -> i32 {
    match SESSION.take().map(|mut session| session.end()) {
        Some(Ok(())) => 1,
        _ => 0,
    }
}

/// Randomness for all crates, from the page.
#[no_mangle]
unsafe extern "Rust" fn __getrandom_v03_custom(
    at: *mut u8,
    len: usize,
) -> std::result::Result<(), getrandom::Error> {
    // SAFETY: the caller owns these bytes; the page writes them before it returns.
    match unsafe { random(at, len) } {
        0 => Err(getrandom::Error::UNSUPPORTED),
        _ => Ok(()),
    }
}
