//! Large zeroed memory on large pages, given back to the operating system when it is dropped.
//!
//! Touching memory for the first time costs 0.2 to 3 seconds a gigabyte, most of it on virtual machines, one
//! thread at a time: callers prefault the parts of a region in parallel.

use std::fs::File;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;

/// Bytes of a large page, which every region starts on, where there are such pages.
pub const PAGE: usize = 1 << 21;

/// Bytes that begin on a large page.
pub struct Region {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a region is a unique owner of plain memory.
unsafe impl Send for Region {}
// SAFETY: shared references only read.
unsafe impl Sync for Region {}

impl Region {
    /// `len` zeros, untouched; at least one byte. Aborts when there is no memory, as `Vec` does.
    pub fn zeroed(len: usize) -> Self {
        let len = len.max(1);
        let start = system::map(len);
        Self { start, len }
    }

    /// Has the operating system provide these bytes now rather than at their first use. Advice: where it is
    /// not understood, nothing happens.
    pub fn prefault(&self, part: Range<usize>) {
        let whole = part.start / PAGE * PAGE..part.end.min(self.len);
        if whole.start < whole.end {
            // SAFETY: the range lies in the region.
            unsafe { system::populate(self.start.as_ptr().add(whole.start), whole.len()) };
        }
    }

    /// Gives up ownership: the memory then lives as long as the process.
    pub fn leak(self) -> NonNull<u8> {
        let start = self.start;
        std::mem::forget(self);
        start
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: made by `map` with this length, and never used again.
        unsafe { system::unmap(self.start, self.len) };
    }
}

impl Deref for Region {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the region owns `len` initialised bytes.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Region {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes the borrow unique.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

/// Gives what was allocated and freed elsewhere back to the operating system, where the allocator would keep
/// it: after work that took much of it once. Cost: milliseconds a gigabyte.
pub fn trim_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: the allocator locks itself; nothing that is in use moves.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Lets the operating system reuse at once the memory that it cached the first `bytes` of a file in, where
/// these are not read again soon: on virtual machines taking other memory costs 2 seconds a gigabyte. Advice.
pub fn release_cache(file: &File, bytes: u64) {
    #[cfg(target_os = "linux")]
    // SAFETY: the descriptor is open; the call changes no contents and its failure is harmless.
    unsafe {
        use std::os::fd::AsRawFd;
        libc::posix_fadvise(
            file.as_raw_fd(),
            0,
            bytes as libc::off_t,
            libc::POSIX_FADV_DONTNEED,
        );
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, bytes);
}

#[cfg(all(target_os = "linux", not(any(miri, tacita_no_pool))))]
mod system {
    use super::PAGE;
    use std::alloc::{handle_alloc_error, Layout};
    use std::ptr::{null_mut, NonNull};

    /// Anonymous pages: zeros without anyone writing them.
    pub fn map(len: usize) -> NonNull<u8> {
        let whole = len.div_ceil(PAGE) * PAGE;
        // SAFETY: a fresh mapping at an address of the system's choice; what is cut off is part of it.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let raw = libc::mmap(null_mut(), whole + PAGE, access, flags, -1, 0);
            if raw == libc::MAP_FAILED {
                handle_alloc_error(Layout::from_size_align_unchecked(whole, PAGE));
            }
            let raw = raw.cast::<u8>();
            let before = raw.align_offset(PAGE);
            if before > 0 {
                libc::munmap(raw.cast(), before);
            }
            let start = raw.add(before);
            libc::munmap(start.add(whole).cast(), PAGE - before);
            libc::madvise(start.cast(), whole, libc::MADV_HUGEPAGE);
            NonNull::new_unchecked(start)
        }
    }

    /// # Safety
    /// The range was mapped by `map`.
    pub unsafe fn populate(start: *mut u8, len: usize) {
        // SAFETY: the caller's range is mapped; the call changes no contents and its failure is harmless.
        unsafe { libc::madvise(start.cast(), len, libc::MADV_POPULATE_WRITE) };
    }

    /// # Safety
    /// `start` was made by `map(len)` and is not used afterwards.
    pub unsafe fn unmap(start: NonNull<u8>, len: usize) {
        // SAFETY: the whole of what `map` left.
        unsafe { libc::munmap(start.as_ptr().cast(), len.div_ceil(PAGE) * PAGE) };
    }
}

/// The allocator, which sanitizers watch.
#[cfg(any(not(target_os = "linux"), miri, tacita_no_pool))]
mod system {
    use super::PAGE;
    use std::alloc::{alloc_zeroed, dealloc, handle_alloc_error, Layout};
    use std::ptr::NonNull;

    /// WebAssembly has no large pages, and an allocator that leaves a hole beside every block on one.
    const BEGIN: usize = if cfg!(target_family = "wasm") { 64 } else { PAGE };

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len, BEGIN).expect("a region is smaller than the address space")
    }

    pub fn map(len: usize) -> NonNull<u8> {
        // SAFETY: a region is never empty.
        let start = unsafe { alloc_zeroed(layout(len)) };
        NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout(len)))
    }

    pub unsafe fn populate(_: *mut u8, _: usize) {}

    pub unsafe fn unmap(start: NonNull<u8>, len: usize) {
        // SAFETY: made by `map` with this length.
        unsafe { dealloc(start.as_ptr(), layout(len)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begins_on_a_large_page_with_zeros_that_can_be_written() {
        for len in [0, 1, 4096, PAGE - 1, PAGE, 3 * PAGE + 5] {
            let mut region = Region::zeroed(len);
            assert_eq!((region.len(), region.as_ptr() as usize % PAGE), (len.max(1), 0));
            region.prefault(0..usize::MAX);
            region.prefault(len..len);
            assert!(region.iter().all(|&b| b == 0));
            let last = region.len() - 1;
            region[last] = 7;
            assert_eq!(region[last], 7);
        }
    }

    #[test]
    #[cfg(not(miri))]
    fn a_file_without_its_cache_reads_as_before() {
        let path = std::env::temp_dir().join(format!("tacita-region-{}", std::process::id()));
        std::fs::write(&path, b"weights").unwrap();
        let file = File::open(&path).unwrap();
        release_cache(&file, 0);
        release_cache(&file, u64::MAX);
        assert_eq!(std::io::read_to_string(&file).unwrap(), "weights");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn regions_are_apart() {
        let mut regions: Vec<Region> = (0..8).map(|_| Region::zeroed(PAGE + 1)).collect();
        for (i, region) in regions.iter_mut().enumerate() {
            region.fill(i as u8);
        }
        drop(regions.remove(3));
        for (region, i) in regions.iter().zip([0, 1, 2, 4, 5, 6, 7]) {
            assert!(region.iter().all(|&b| b == i));
        }
    }
}
