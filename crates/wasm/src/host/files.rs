//! The client of ciphertexts, step by step. What it writes leaves by `send`, as a session's bytes do; the
//! page says in which step it is.
use super::{failed, send, tell, texts, Told, ROOM};
use crate::files::{Client, Receipt};
use crate::writing::Wish;
use crate::ClientError;
use std::cell::RefCell;
use std::io::{self, Write};

/// What is given before a step: plan, tokenizer, tables; then the server's receipt.
const PARTS: usize = 4;
const RECEIPT: usize = 3;

thread_local! {
    static GIVEN: RefCell<[Vec<u8>; PARTS]> = const { RefCell::new([const { Vec::new() }; PARTS]) };
    static CLIENT: RefCell<Option<Client>> = const { RefCell::new(None) };
}

struct Out;

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: the page only reads these bytes, before it returns.
        match unsafe { send(bytes.as_ptr(), bytes.len()) } {
            0 => Err(io::ErrorKind::ConnectionAborted.into()),
            _ => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs a step with the texts in the room; see `texts`.
fn step_with(first: usize, run: impl FnOnce(&mut Client, &[&str]) -> Result<(), ClientError>) -> i32 {
    let texts = texts(first);
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    step(|client| run(client, &texts))
}

/// Runs a step of the client; 1 where it succeeded.
fn step(run: impl FnOnce(&mut Client) -> Result<(), ClientError>) -> i32 {
    CLIENT.with_borrow_mut(|client| match client.as_mut().map(run) {
        None => failed(&ClientError::Peer("there is no client".to_owned())),
        Some(result) => result.map_or_else(|error| failed(&error), |()| 1),
    })
}

/// Keeps what lies in the room as one of the parts. 0 for a part that there is not.
#[no_mangle]
pub extern "C" fn files_give(part: usize) -> i32 {
    GIVEN.with_borrow_mut(|given| {
        let Some(place) = given.get_mut(part) else {
            return 0;
        };
        *place = ROOM.take();
        1
    })
}

/// Makes the client of the parts. allow_insecure: 1 to admit parameters for tests.
#[no_mangle]
pub extern "C" fn files_open(allow_insecure: i32) -> i32 {
    let [plan, tokenizer, tables, _] = GIVEN.take();
    match Client::new(&plan, &tokenizer, tables, allow_insecure == 1) {
        Err(error) => failed(&error),
        Ok(client) => {
            tell(&Told::Open {
                tokens: client.plan().tokens,
                security: client.security_bits(),
                keys: client.key_bytes(),
            });
            CLIENT.set(Some(client));
            1
        }
    }
}

/// Refuses the text in the room, or the pair of which the first has so many bytes, where it cannot be asked
/// about.
#[no_mangle]
pub extern "C" fn files_check(first: usize) -> i32 {
    step_with(first, |client, texts| client.check(texts))
}

/// Draws a secret and makes its evaluation keys; all of their bytes are sent before it returns.
#[no_mangle]
pub extern "C" fn files_keys() -> i32 {
    step(|client| {
        let id = client.draw()?;
        tell(&Told::Key { id: &id });
        let sha256 = client.write_keys(Out)?;
        tell(&Told::Made { sha256: &sha256 });
        Ok(())
    })
}

/// Encrypts the text in the room, or the pair; the bytes of the request are sent before it returns.
#[no_mangle]
pub extern "C" fn files_encrypt(first: usize) -> i32 {
    step_with(first, |client, texts| {
        let request = client.encrypt(texts)?;
        Out.write_all(&request).map_err(ClientError::engine)
    })
}

/// Begins a text behind the prompt in the room, of so many tokens at most.
#[no_mangle]
pub extern "C" fn files_write(most: usize, thousandths: u32) -> i32 {
    step_with(0, |client, texts| {
        client.write(texts[0], Wish { most, thousandths })
    })
}

/// Encrypts the text that is written, as far as it is; the bytes are sent before it returns.
#[no_mangle]
pub extern "C" fn files_next() -> i32 {
    step(|client| {
        let request = client.encrypt_next()?;
        Out.write_all(&request).map_err(ClientError::engine)
    })
}

/// Checks the receipt and decrypts the response in the room.
#[no_mangle]
pub extern "C" fn files_decrypt() -> i32 {
    receive(|client, response, receipt| {
        let answer = client.decrypt(response, receipt)?;
        tell(&Told::Read { answer: &answer });
        Ok(())
    })
}

/// Has the text that is written read anew, which the server keeps no more.
#[no_mangle]
pub extern "C" fn files_restart() -> i32 {
    step(|client| {
        client.restart();
        Ok(())
    })
}

/// The same as `files_decrypt`, of a text that is written: its next token is told, unless the response is
/// of a row before.
#[no_mangle]
pub extern "C" fn files_token() -> i32 {
    receive(|client, response, receipt| {
        let Some((written, warning)) = client.token(response, receipt)? else {
            return Ok(());
        };
        tell(&Told::Token {
            text: &written.text,
            last: written.last,
            near: &written.near,
            warning,
        });
        Ok(())
    })
}

/// Runs a step with the response in the room and the receipt that was given.
fn receive(run: impl FnOnce(&mut Client, &[u8], &Receipt) -> Result<(), ClientError>) -> i32 {
    let (response, receipt) = (
        ROOM.take(),
        GIVEN.with_borrow_mut(|given| std::mem::take(&mut given[RECEIPT])),
    );
    step(|client| {
        let receipt: Receipt =
            serde_json::from_slice(&receipt).map_err(|_| ClientError::Peer("not a receipt".to_owned()))?;
        run(client, &response, &receipt)
    })
}
