//! What profiles read their seconds from. WebAssembly without a host's help has no clock: there operations
//! are counted with all but their seconds, which are 0, and pages measure time themselves.
use std::time::Duration;

/// A point in time, on the wall and of the process.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    #[cfg(not(target_family = "wasm"))]
    wall: std::time::Instant,
    cpu: f64,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Self {
            #[cfg(not(target_family = "wasm"))]
            wall: std::time::Instant::now(),
            cpu: cpu_seconds(),
        }
    }

    /// Time since then.
    pub(crate) fn wall(self) -> Duration {
        #[cfg(not(target_family = "wasm"))]
        return self.wall.elapsed();
        #[cfg(target_family = "wasm")]
        Duration::ZERO
    }

    /// Seconds of all threads since then.
    pub(crate) fn cpu(self) -> f64 {
        cpu_seconds() - self.cpu
    }
}

/// CPU seconds of this process; 0 where the system is none of POSIX.
pub fn cpu_seconds() -> f64 {
    #[cfg(unix)]
    {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the pointer is to a live timespec that the call only writes.
        unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
        time.tv_sec as f64 + 1e-9 * time.tv_nsec as f64
    }
    #[cfg(not(unix))]
    0.0
}
