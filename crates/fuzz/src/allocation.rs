//! Bytes in use, counted over all threads.
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator, counted: declare it as `#[global_allocator]` in a fuzz target or in the replay.
pub struct Counting;

static USED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grew(layout.size());
        System.alloc(layout)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grew(layout.size());
        System.alloc_zeroed(layout)
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        grew(size);
        USED.fetch_sub(layout.size(), Relaxed);
        System.realloc(pointer, layout, size)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Relaxed);
        System.dealloc(pointer, layout);
    }
}

fn grew(size: usize) {
    let used = USED.fetch_add(size, Relaxed).wrapping_add(size);
    PEAK.fetch_max(used, Relaxed);
}

/// The most bytes that `body` held at once beside those in use before (0 where [`Counting`] is not
/// installed), and its result.
pub(crate) fn peak<T>(body: impl FnOnce() -> T) -> (usize, T) {
    let before = USED.load(Relaxed);
    PEAK.store(before, Relaxed);
    let result = body();
    (PEAK.load(Relaxed).saturating_sub(before), result)
}
