//! Clocks for the simulated link.
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time since an origin that both ends of a link share.
pub trait Clock: Send {
    /// Now.
    fn now(&self) -> Duration;

    /// Lets time pass until `at`, unless it has already.
    fn wait_until(&mut self, at: Duration);

    /// What was waited without sleeping: the part of [`Clock::now`] that a clock on the wall does not show.
    fn skipped(&self) -> Duration {
        Duration::ZERO
    }
}

/// Nanoseconds of the machine, the same in all its processes and never running backwards within one.
fn machine_time() -> Duration {
    static START: OnceLock<(Instant, Duration)> = OnceLock::new();
    let (instant, unix) = START.get_or_init(|| {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        (Instant::now(), unix)
    });
    *unix + instant.elapsed()
}

/// The machine's time; waits by sleeping.
#[derive(Default)]
pub struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Duration {
        machine_time()
    }

    fn wait_until(&mut self, at: Duration) {
        std::thread::sleep(at.saturating_sub(self.now()));
    }
}

/// The machine's time plus all the waits, none of which is slept: what a run *would* take, without taking it.
#[derive(Default)]
pub struct SimulatedClock(Duration);

impl Clock for SimulatedClock {
    fn now(&self) -> Duration {
        machine_time() + self.0
    }

    fn wait_until(&mut self, at: Duration) {
        self.0 += at.saturating_sub(self.now());
    }

    fn skipped(&self) -> Duration {
        self.0
    }
}

/// Time that passes only when told to: for tests and for counting a link alone, without the computation.
#[derive(Default)]
pub struct ManualClock(Duration);

impl ManualClock {
    /// Lets time pass.
    pub fn advance(&mut self, by: Duration) {
        self.0 += by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        self.0
    }

    fn wait_until(&mut self, at: Duration) {
        self.0 = self.0.max(at);
    }

    fn skipped(&self) -> Duration {
        self.0
    }
}
