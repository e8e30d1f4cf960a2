//! One party of a two-party session: messages, counters, keys. The operations are in the files `two_party_*`.
use crate::error::{self, TacitaError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tacita_mpc::channel::{Channel, Closer};
use tacita_mpc::{MpcError, Party, Role};

/// One party of a session. Calls run one at a time and without the GIL; after a PeerError the session is
/// over.
#[pyclass(frozen, module = "tacita._native")]
pub struct TwoParty {
    party: Mutex<Party>,
    /// `None`: the pool of the process, which all such parties share.
    pool: Option<ThreadPool>,
    role: Role,
    closer: Option<Closer>,
    /// SHA-256 of the peer's certificate, in hexadecimal digits.
    peer: Option<String>,
}

/// How often a step that runs looks for an interrupt.
const LOOK: Duration = Duration::from_millis(100);

impl TwoParty {
    /// A party that computes on this many threads (0: one for each core it may use).
    pub fn new(role: Role, channel: Box<dyn Channel>, threads: usize) -> PyResult<Self> {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.map_err(|e| TacitaError::new_err(format!("threads: {e}")))?;
        let mut party = Self::sharing(role, channel, None);
        party.pool = Some(pool);
        Ok(party)
    }

    /// A party that waits in the calling thread and computes on the pool of the process. A pool of its own
    /// would hold a thread for each core in every session; one pool for sessions to wait in would be full of
    /// those whose peers are silent.
    pub fn sharing(role: Role, channel: Box<dyn Channel>, peer: Option<String>) -> Self {
        let closer = channel.closer();
        Self {
            party: Mutex::new(Party::new(role, channel)),
            pool: None,
            role,
            closer,
            peer,
        }
    }

    // A panic inside leaves a session out of step with its peer, which the peer's or our next message shows;
    // never broken memory.
    fn lock(&self) -> MutexGuard<'_, Party> {
        self.party.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one step without the GIL on the party's threads. A panic becomes an error and ends the session.
    /// An interrupt closes the link, so that a step that waits for the peer ends, and is raised; a party that
    /// shares the pool of the process is for other threads than the main one, where interrupts do not come.
    pub fn run<T: Send>(
        &self,
        py: Python<'_>,
        step: impl FnOnce(&mut Party) -> Result<T, MpcError> + Send,
    ) -> PyResult<T> {
        let (outcome, interrupt) = py.detach(|| {
            let party = &mut *self.lock();
            let guarded = move || {
                let outcome = catch_unwind(AssertUnwindSafe(|| step(party)));
                if outcome.is_err() {
                    let _ = party.finish();
                }
                outcome
            };
            match &self.pool {
                Some(pool) => self.watched(pool, guarded),
                None => (Some(guarded()), None),
            }
        });
        match (outcome, interrupt) {
            (_, Some(interrupt)) => Err(interrupt),
            (Some(Ok(result)), None) => result.map_err(error::mpc),
            _ => Err(TacitaError::new_err(
                "the engine failed inside a two-party step, the session is closed; hint: this is a defect, \
                please report it",
            )),
        }
    }

    /// Runs `step` on the pool while the calling thread looks for signals, as only the main thread of Python
    /// can.
    fn watched<T: Send>(
        &self,
        pool: &ThreadPool,
        step: impl FnOnce() -> T + Send,
    ) -> (Option<T>, Option<PyErr>) {
        let (mut outcome, mut interrupt) = (None, None);
        let place = &mut outcome;
        pool.in_place_scope(|scope| {
            let (done, waiting) = channel();
            scope.spawn(move |_| {
                *place = Some(step());
                let _ = done.send(());
            });
            while waiting.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                if interrupt.is_none() {
                    interrupt = Python::attach(|py| py.check_signals()).err();
                    if interrupt.is_some() {
                        self.shut();
                    }
                }
            }
        });
        (outcome, interrupt)
    }

    fn shut(&self) {
        if let Some(close) = &self.closer {
            close();
        }
    }

    /// Whether this is the client, known without waiting for a step that runs.
    pub fn client(&self) -> bool {
        self.role == Role::Client
    }

    fn read_mut(&self, py: Python<'_>, f: impl FnOnce(&mut Party) + Send) {
        py.detach(|| f(&mut self.lock()));
    }

    fn read<T: Send>(&self, py: Python<'_>, f: impl FnOnce(&Party) -> T + Send) -> T {
        py.detach(|| f(&self.lock()))
    }
}

#[pymethods]
impl TwoParty {
    /// Whether this party holds the input (and the secret key); the other holds the model.
    #[getter]
    fn is_client(&self) -> bool {
        self.client()
    }
    /// "client" or "server".
    #[getter]
    fn role(&self) -> &'static str {
        match self.role {
            Role::Client => "client",
            Role::Server => "server",
        }
    }
    /// Times this party has waited for a message since it last sent one.
    #[getter]
    fn rounds(&self, py: Python<'_>) -> u64 {
        self.read(py, |party| party.profile().rounds())
    }
    /// SHA-256 of the certificate that the peer showed, 64 hexadecimal digits; None when it showed none.
    #[getter]
    fn peer(&self) -> Option<&str> {
        self.peer.as_deref()
    }
    /// Bytes sent, headers of messages included.
    #[getter]
    fn bytes_sent(&self, py: Python<'_>) -> u64 {
        self.read(py, Party::sent)
    }
    /// Bytes received, headers of messages included.
    #[getter]
    fn bytes_received(&self, py: Python<'_>) -> u64 {
        self.read(py, Party::received)
    }
    /// Seconds of a simulated link that were not slept.
    #[getter]
    fn skipped_seconds(&self, py: Python<'_>) -> f64 {
        self.read(py, Party::skipped_seconds)
    }

    /// Greets the peer: same version, other role, same 32-byte hash of everything public. Raises PeerError on
    /// both sides otherwise.
    fn handshake(&self, py: Python<'_>, plan: &[u8]) -> PyResult<()> {
        let found = plan.len();
        let plan: [u8; 32] = plan.try_into().map_err(|_| {
            TacitaError::new_err(format!("handshake: a plan hash of {found} bytes, 32 are needed"))
        })?;
        self.run(py, |party| party.handshake(&plan))
    }

    /// Sends one message.
    fn send(&self, py: Python<'_>, data: &[u8]) -> PyResult<()> {
        self.run(py, |party| party.send(data))
    }

    /// Receives one message of exactly `count` bytes.
    fn receive<'py>(&self, py: Python<'py>, count: usize) -> PyResult<Bound<'py, PyBytes>> {
        let data = self.run(py, |party| party.receive(count))?;
        Ok(PyBytes::new(py, &data))
    }

    /// From now on no wait for the peer goes on for longer than this in all, whatever it sends or reads
    /// meanwhile: it ends with LateError. None: only the timeout of each wait holds. Over memory it does
    /// nothing.
    #[pyo3(signature = (seconds))]
    fn limit(&self, py: Python<'_>, seconds: Option<f64>) -> PyResult<()> {
        let within = seconds
            .map(|value| crate::two_party_link::seconds("limit", value))
            .transpose()?;
        self.read_mut(py, |party| {
            party.limit(within.map(|within| Instant::now() + within))
        });
        Ok(())
    }

    /// Bytes that may wait for the peer to read them; a send beyond waits. One message may always wait,
    /// however long.
    fn capacity(&self, py: Python<'_>, bytes: usize) {
        self.read_mut(py, |party| party.capacity(bytes));
    }

    /// Writes what is queued, tells the peer and closes; the counters stay. A second call does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, Party::finish)
    }

    /// Closes the link at once, also while another thread waits in a call: that call raises PeerError.
    /// Nothing in memory is shared with anybody, so over memory this does nothing.
    fn abort(&self) {
        self.shut();
    }

    /// Books what follows under `name` in the profile, until the matching end().
    fn begin(&self, py: Python<'_>, name: &str) {
        py.detach(|| self.lock().begin(name));
    }
    /// Ends the innermost name begun.
    fn end(&self, py: Python<'_>) {
        py.detach(|| self.lock().end());
    }

    /// What every operation cost: dicts of path ("outer/inner"), calls, sent, received, rounds, wall and cpu
    /// seconds. The outer's figures include the inner's.
    fn profile<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let costs = self.read(py, |party| party.profile().costs().clone());
        let entry = |(path, cost): (&String, &tacita_mpc::profile::Cost)| {
            let entry = PyDict::new(py);
            entry.set_item("path", path)?;
            entry.set_item("calls", cost.calls)?;
            entry.set_item("sent", cost.sent)?;
            entry.set_item("received", cost.received)?;
            entry.set_item("rounds", cost.rounds)?;
            entry.set_item("wall", cost.wall)?;
            entry.set_item("cpu", cost.cpu)?;
            Ok(entry)
        };
        costs.iter().map(entry).collect()
    }

    fn __repr__(&self) -> String {
        format!("TwoParty({})", self.role())
    }
}
