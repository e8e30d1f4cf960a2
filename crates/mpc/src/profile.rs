//! Calls, bytes, rounds and seconds by operation.
use std::collections::BTreeMap;
use std::time::Instant;

/// What one operation cost, in all its calls, that of the operations inside it included.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cost {
    /// Times it ran.
    pub calls: u64,
    /// Bytes sent, framing included.
    pub sent: u64,
    /// Bytes received, framing included.
    pub received: u64,
    /// Times a message was awaited after one had been sent (or at the start).
    pub rounds: u64,
    /// Seconds by the clock.
    pub wall: f64,
    /// CPU seconds of the process, all its threads.
    pub cpu: f64,
}

struct Running {
    path: String,
    began: Instant,
    cpu: f64,
    sent: u64,
    received: u64,
    rounds: u64,
}

/// Costs by path ("gelu", "gelu/less").
#[derive(Default)]
pub struct Profile {
    costs: BTreeMap<String, Cost>,
    running: Vec<Running>,
    rounds: u64,
    awaiting: bool,
}

impl Profile {
    /// Costs by path.
    pub fn costs(&self) -> &BTreeMap<String, Cost> {
        &self.costs
    }

    /// Rounds of the session so far.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    pub(crate) fn sending(&mut self) {
        self.awaiting = false;
    }

    pub(crate) fn receiving(&mut self) {
        if !self.awaiting {
            self.rounds += 1;
        }
        self.awaiting = true;
    }

    pub(crate) fn enter(&mut self, name: &'static str, sent: u64, received: u64) {
        let path = self
            .running
            .last()
            .map_or_else(|| name.to_owned(), |outer| format!("{}/{name}", outer.path));
        let (began, cpu, rounds) = (Instant::now(), cpu_seconds(), self.rounds);
        self.running.push(Running {
            path,
            began,
            cpu,
            sent,
            received,
            rounds,
        });
    }

    pub(crate) fn leave(&mut self, sent: u64, received: u64) {
        let Some(run) = self.running.pop() else { return };
        let cost = self.costs.entry(run.path).or_default();
        cost.calls += 1;
        cost.sent += sent - run.sent;
        cost.received += received - run.received;
        cost.rounds += self.rounds - run.rounds;
        cost.wall += run.began.elapsed().as_secs_f64();
        cost.cpu += cpu_seconds() - run.cpu;
    }
}

/// CPU seconds of this process.
pub fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec that the call only writes.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + 1e-9 * time.tv_nsec as f64
}
