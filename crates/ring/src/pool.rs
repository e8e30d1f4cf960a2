//! A process-wide pool of limb-sized buffers, carved from 2 MiB slabs that the kernel may back with huge
//! pages.
//!
//! Buffers return to the pool when dropped and are never given back to the operating system, so memory stays
//! at the high water mark. Secrets are wiped by their owners before the buffer is dropped.

use std::alloc::{alloc, handle_alloc_error, Layout};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

const SLAB: usize = 1 << 21;
/// Pooled sizes in bytes: 2^15 (N = 2^12) to 2^20 (N = 2^17).
const MIN_LOG: u32 = 15;
const MAX_LOG: u32 = 20;

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
        let bytes = len.checked_mul(8)?;
        let log = bytes.trailing_zeros();
        if !bytes.is_power_of_two() || !(MIN_LOG..=MAX_LOG).contains(&log) {
            return None;
        }
        let class = (log - MIN_LOG) as usize;
        let mut free = POOL[class].lock().unwrap_or_else(PoisonError::into_inner);
        if free.0.is_empty() {
            free.0.extend(slab(bytes));
        }
        let start = free.0.pop()?;
        Some(Self { start, class })
    }

    /// First double.
    pub fn start(&self) -> *mut f64 {
        self.start.as_ptr()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut free = POOL[self.class].lock().unwrap_or_else(PoisonError::into_inner);
        free.0.push(self.start);
    }
}

/// A zeroed slab cut into buffers of `bytes`.
fn slab(bytes: usize) -> Vec<NonNull<f64>> {
    let Ok(layout) = Layout::from_size_align(SLAB, SLAB) else {
        return Vec::new();
    };
    // SAFETY: the layout has a non-zero size; the slab is never freed, so the buffers live as long as the
    // process.
    unsafe {
        let start = alloc(layout);
        let Some(whole) = NonNull::new(start) else {
            handle_alloc_error(layout)
        };
        advise_huge_pages(start);
        start.write_bytes(0, SLAB);
        let cut = |i: usize| whole.byte_add(i * bytes).cast();
        (0..SLAB / bytes).map(cut).collect()
    }
}

#[cfg(target_os = "linux")]
unsafe fn advise_huge_pages(start: *mut u8) {
    // SAFETY: the range is one slab that the caller owns; the call is advice and its failure harmless.
    unsafe { libc::madvise(start.cast(), SLAB, libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
unsafe fn advise_huge_pages(_: *mut u8) {}
