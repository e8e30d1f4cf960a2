//! Large zeroed memory on large pages, given back to the operating system when it is dropped.
//!
//! Touching memory for the first time costs 0.2 to 3 seconds a gigabyte, most of it on virtual machines, one
//! thread at a time: callers prefault the parts of a region in parallel.

use std::alloc::{handle_alloc_error, Layout};
use std::fs::File;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

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
    /// `len` zeros, of what is [set aside](set_aside) or else untouched; at least one byte. Aborts when there
    /// is no memory, as `Vec` does.
    pub fn zeroed(len: usize) -> Self {
        let len = len.max(1);
        let start = aside().take(len).or_else(|| system::map(len));
        let layout = || Layout::from_size_align(len, PAGE).expect("smaller than the address space");
        let start = start.unwrap_or_else(|| handle_alloc_error(layout()));
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

    /// The bytes as whole words.
    pub fn words(&self) -> &[u128] {
        // SAFETY: the region owns `len` initialised bytes from a multiple of 64 on; all bits are words.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.len / 16) }
    }

    /// The same, to be written.
    pub fn words_mut(&mut self) -> &mut [u128] {
        // SAFETY: as in `words`, and `&mut self` makes the borrow unique.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.len / 16) }
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

/// Zeros for regions to come: what none has taken yet, whole large pages, of which the first `provided` bytes
/// are there.
struct Aside {
    rest: Option<Region>,
    provided: usize,
}

static ASIDE: Mutex<Aside> = Mutex::new(Aside {
    rest: None,
    provided: 0,
});

fn aside() -> MutexGuard<'static, Aside> {
    ASIDE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Aside {
    fn set(&mut self, bytes: usize) {
        let len = bytes.div_ceil(PAGE) * PAGE;
        let start = (system::MAPS && len > 0).then(|| system::map(len)).flatten();
        self.rest = start.map(|start| Region { start, len });
        self.provided = 0;
    }

    /// The next bytes to provide, which count as provided from now on.
    fn next(&mut self, bytes: usize) -> Option<(NonNull<u8>, usize)> {
        let rest = self.rest.as_ref()?;
        let len = bytes.min(rest.len - self.provided);
        // SAFETY: inside the mapping, or one past its end.
        let start = unsafe { rest.start.add(self.provided) };
        self.provided += len;
        Some((start, len))
    }

    fn take(&mut self, len: usize) -> Option<NonNull<u8>> {
        let whole = len.div_ceil(PAGE) * PAGE;
        let rest = self.rest.as_mut().filter(|rest| rest.len >= whole)?;
        let start = rest.start;
        // SAFETY: inside the mapping, or one past its end; the front now belongs to the caller alone.
        rest.start = unsafe { start.add(whole) };
        rest.len -= whole;
        if rest.len == 0 {
            std::mem::forget(self.rest.take());
        }
        self.provided = self.provided.saturating_sub(whole);
        Some(start)
    }
}

/// Sets `bytes` aside for the regions to come, which take them from the front: addresses alone, until
/// [`provide`] is called. What was left of those set aside before goes. Only where regions are mapped.
pub fn set_aside(bytes: usize) {
    aside().set(bytes);
}

/// Has the operating system provide the next `bytes` of what is set aside, on this thread, and returns how
/// many it was asked for: callers that have time do it on all threads, before the memory is wanted.
pub fn provide(bytes: usize) -> usize {
    let Some((start, len)) = aside().next(bytes) else {
        return 0;
    };
    // Not under the lock. A region that takes these bytes meanwhile keeps its contents, and where it is gone
    // already the call fails.
    // SAFETY: the range was mapped, and nothing in it changes.
    unsafe { system::populate(start.as_ptr(), len) };
    len
}

/// Bytes that are provided and that no region has taken.
pub fn provided() -> usize {
    aside().provided
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
    use std::ptr::{null_mut, NonNull};

    /// Whether a part of what was mapped can be unmapped alone.
    pub const MAPS: bool = true;

    /// Anonymous pages: zeros without anyone writing them; None where the system gives none.
    pub fn map(len: usize) -> Option<NonNull<u8>> {
        let whole = len.div_ceil(PAGE) * PAGE;
        // SAFETY: a fresh mapping at an address of the system's choice; what is cut off is part of it.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let raw = libc::mmap(null_mut(), whole + PAGE, access, flags, -1, 0);
            if raw == libc::MAP_FAILED {
                return None;
            }
            let raw = raw.cast::<u8>();
            let before = raw.align_offset(PAGE);
            if before > 0 {
                libc::munmap(raw.cast(), before);
            }
            let start = raw.add(before);
            libc::munmap(start.add(whole).cast(), PAGE - before);
            libc::madvise(start.cast(), whole, libc::MADV_HUGEPAGE);
            NonNull::new(start)
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
    use std::alloc::{alloc_zeroed, dealloc, Layout};
    use std::ptr::NonNull;

    pub const MAPS: bool = false;

    /// WebAssembly has no large pages, and an allocator that leaves a hole beside every block on one.
    const BEGIN: usize = if cfg!(target_family = "wasm") { 64 } else { PAGE };

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len, BEGIN).expect("a region is smaller than the address space")
    }

    pub fn map(len: usize) -> Option<NonNull<u8>> {
        // SAFETY: a region is never empty.
        NonNull::new(unsafe { alloc_zeroed(layout(len)) })
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
    fn regions_take_what_is_set_aside_from_its_front() {
        let mut aside = Aside {
            rest: None,
            provided: 0,
        };
        assert!(aside.next(PAGE).is_none() && aside.take(1).is_none());
        aside.set(PAGE);
        aside.next(PAGE);
        aside.set(4 * PAGE - 1); // in place of these
        if !system::MAPS {
            return assert!(aside.rest.is_none());
        }
        let (front, len) = aside.next(3 * PAGE).unwrap();
        let (_, last) = aside.next(usize::MAX).unwrap();
        assert_eq!((len, last, aside.provided), (3 * PAGE, PAGE, 4 * PAGE));
        let mut taken = |len| aside.take(len).map(|start| Region { start, len });
        let mut both = [taken(PAGE + 1).unwrap(), taken(9).unwrap()];
        assert!(taken(PAGE + 1).is_none());
        assert_eq!(both[0].start, front);
        for region in &mut both {
            assert!(region.iter().all(|&b| b == 0));
            region.fill(1);
        }
        drop(both); // and the rest stays
        let end = taken(PAGE).unwrap();
        assert!(end.iter().all(|&b| b == 0) && taken(1).is_none());
        assert_eq!((aside.provided, aside.rest.is_none()), (0, true));
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
