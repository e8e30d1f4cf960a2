//! Writing in the background: a bounded queue of messages and the thread that writes them.
use crate::{MpcError, Result};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes that may wait for the peer to read, unless a smaller bound is set: more than the requests of the
/// largest layer, less than a laptop's memory. A server, which has many peers that it does not know, sets one
/// by its plan.
pub const CAPACITY: usize = 1 << 30;

/// The writing half of a connection.
pub trait Sink: Write + Send {
    /// Tells the peer that nothing follows.
    fn end(&mut self);
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Vec<u8>>,
    /// Bytes queued or being written.
    bytes: usize,
    ended: bool,
    /// The thread has returned.
    done: bool,
    failure: Option<(io::ErrorKind, String)>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    // A panic of the other side of the lock leaves only counters behind, never a broken invariant.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, until: Instant) -> Option<MutexGuard<'a, State>> {
        let left = until.checked_duration_since(Instant::now())?;
        let (state, _) = self
            .changed
            .wait_timeout(state, left)
            .unwrap_or_else(PoisonError::into_inner);
        Some(state)
    }
}

/// The handle of a writing thread.
pub struct Writer {
    shared: Arc<Shared>,
    /// Bytes that may wait.
    pub capacity: usize,
}

impl Writer {
    /// Starts the thread. `capacity` bytes may wait.
    pub fn start(sink: impl Sink + 'static, capacity: usize) -> Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let theirs = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("tacita-writer".to_owned())
            .spawn(move || run(&theirs, sink))
            .map_err(|e| io_error("send", &e))?;
        Ok(Self { shared, capacity })
    }

    /// Queues one message, once there is room, but waits no longer than `until`; a failure of an earlier
    /// write shows here.
    pub fn push(&self, message: Vec<u8>, until: Instant) -> Result<()> {
        let mut state = self.shared.lock();
        loop {
            fail(&state)?;
            if state.bytes == 0 || state.bytes + message.len() <= self.capacity {
                break;
            }
            let waiting = state.bytes;
            state = self.shared.wait(state, until).ok_or_else(|| MpcError::Io {
                op: "send",
                detail: format!(
                    "{waiting} bytes wait and the peer reads none of them; the queue holds at most {}",
                    self.capacity
                ),
            })?;
        }
        state.bytes += message.len();
        state.waiting.push_back(message);
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Writes what is queued, ends the stream and waits for both, at most this long.
    pub fn finish(&self, within: Duration) -> Result<()> {
        let until = Instant::now() + within;
        let mut state = self.shared.lock();
        state.ended = true;
        self.shared.changed.notify_all();
        while !state.done {
            state = self.shared.wait(state, until).ok_or(MpcError::Timeout {
                op: "finish",
                seconds: within.as_secs_f64(),
            })?;
        }
        fail(&state)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.ended = true;
        state.waiting.clear();
        self.shared.changed.notify_all();
    }
}

fn fail(state: &State) -> Result<()> {
    match &state.failure {
        None => Ok(()),
        Some((kind, text)) => Err(io_error("send", &io::Error::new(*kind, text.clone()))),
    }
}

fn run(shared: &Shared, mut sink: impl Sink) {
    let result = pump(shared, &mut sink);
    let mut state = shared.lock();
    if let Err(e) = result {
        state.failure = Some((e.kind(), e.to_string()));
    }
    state.waiting.clear();
    state.bytes = 0;
    state.done = true;
    shared.changed.notify_all();
}

fn pump(shared: &Shared, sink: &mut impl Sink) -> io::Result<()> {
    while let Some(message) = next(shared) {
        sink.write_all(&message)?;
        sink.flush()?;
        shared.lock().bytes -= message.len();
        shared.changed.notify_all();
    }
    sink.end();
    Ok(())
}

fn next(shared: &Shared) -> Option<Vec<u8>> {
    let mut state = shared.lock();
    loop {
        if let Some(message) = state.waiting.pop_front() {
            return Some(message);
        }
        if state.ended {
            return None;
        }
        state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

/// An input/output error by kind; the text is the system's, never data.
pub fn io_error(op: &'static str, e: &io::Error) -> MpcError {
    use io::ErrorKind as Kind;
    match e.kind() {
        Kind::UnexpectedEof
        | Kind::ConnectionReset
        | Kind::ConnectionAborted
        | Kind::BrokenPipe
        | Kind::NotConnected => MpcError::Closed { op },
        _ => MpcError::Io {
            op,
            detail: e.to_string(),
        },
    }
}
