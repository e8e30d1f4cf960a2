//! A process-wide pool of limb-sized buffers, carved from 2 MiB slabs that the kernel may back with huge
//! pages.
//!
//! Buffers return to the pool when dropped and are never given back to the operating system, so memory stays
//! at the high water mark. Secrets are wiped by their owners before the buffer is dropped.

use crate::region::{Region, PAGE};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes that are taken from the operating system at once.
pub const SLAB: usize = PAGE;
/// Pooled sizes in bytes: 2^15 (N = 2^12) to 2^20 (N = 2^17).
const MIN_LOG: u32 = 15;
const MAX_LOG: u32 = 20;

/// Whether there are pooled sizes at all. Sanitizers see the ends of what the allocator gives, not those of
/// buffers inside a slab.
const POOLED: bool = !cfg!(any(miri, tacita_no_pool));

/// Starts of free buffers of one size.
struct Free(Vec<NonNull<f64>>);
// SAFETY: the pointers are unique owners of plain memory; the mutex hands each to one thread at a time.
unsafe impl Send for Free {}

static POOL: [Mutex<Free>; (MAX_LOG - MIN_LOG + 1) as usize] =
    [const { Mutex::new(Free(Vec::new())) }; (MAX_LOG - MIN_LOG + 1) as usize];

/// A buffer on loan from the pool: initialised memory of a power-of-two size, 64-byte aligned.
pub struct Buffer {
    start: NonNull<f64>,
    class: usize,
}

// SAFETY: a buffer is a unique owner of plain memory.
unsafe impl Send for Buffer {}
// SAFETY: shared references only read.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// A buffer for `len` doubles, when that is a pooled size.
    pub fn take(len: usize) -> Option<Self> {
        let class = class_of(len)?;
        let start = pop(class).or_else(|| {
            // Not under the lock: first touch is slow, and several threads do it at once.
            let mut made = slab(len * 8);
            let start = made.pop();
            free(class).0.append(&mut made);
            start
        })?;
        Some(Self { start, class })
    }

    /// First double.
    pub fn start(&self) -> *mut f64 {
        self.start.as_ptr()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        free(self.class).0.push(self.start);
    }
}

/// Takes one slab from the operating system, which serves buffers for `len` doubles from then on, and returns
/// its bytes; 0 where that is no pooled size. Callers that know what they will need make slabs on all threads
/// at once, before the first operation waits for its pages one by one.
pub fn add_slab(len: usize) -> usize {
    let Some(class) = class_of(len) else { return 0 };
    let mut made = slab(len * 8);
    free(class).0.append(&mut made);
    SLAB
}

/// Bytes that lie in the pool unused, in buffers for `len` doubles.
pub fn unused(len: usize) -> usize {
    class_of(len).map_or(0, |class| free(class).0.len() * len * 8)
}

fn class_of(len: usize) -> Option<usize> {
    let bytes = len.checked_mul(8)?;
    let log = bytes.trailing_zeros();
    let pooled = POOLED && bytes.is_power_of_two() && (MIN_LOG..=MAX_LOG).contains(&log);
    pooled.then(|| (log - MIN_LOG) as usize)
}

fn free(class: usize) -> MutexGuard<'static, Free> {
    POOL[class].lock().unwrap_or_else(PoisonError::into_inner)
}

fn pop(class: usize) -> Option<NonNull<f64>> {
    free(class).0.pop()
}

/// A zeroed slab cut into buffers of `bytes`, touched by the thread that asked for it.
fn slab(bytes: usize) -> Vec<NonNull<f64>> {
    let slab = Region::zeroed(SLAB);
    slab.prefault(0..SLAB);
    let whole = slab.leak();
    // SAFETY: every buffer lies in the slab, which is never freed.
    let cut = |i: usize| unsafe { whole.byte_add(i * bytes) }.cast();
    (0..SLAB / bytes).map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(not(any(miri, tacita_no_pool)))]
    fn a_slab_serves_buffers_without_asking_again() {
        let len = 1 << 17; // 1 MB: no other test of this crate takes these
        assert_eq!(add_slab(len), SLAB);
        let before = unused(len);
        let held: Vec<_> = (0..SLAB / (len * 8)).map(|_| Buffer::take(len)).collect();
        assert!(held.iter().all(Option::is_some));
        assert_eq!(before - unused(len), SLAB);
        drop(held);
        assert_eq!(unused(len), before);
    }

    #[test]
    fn other_sizes_have_no_slabs() {
        for len in [0, 1, 100, (1 << 17) + 1, 1 << 20] {
            assert_eq!((add_slab(len), unused(len)), (0, 0));
            assert!(Buffer::take(len).is_none());
        }
    }
}
