//! Lines of memory that the caches are asked for while something else is computed.
//!
//! A request costs a place among the few that a core can wait for, so a burst of them stops it; spread over
//! the butterflies of a block they are free.

/// Something to ask for between two steps of a computation.
pub(crate) trait Ahead {
    fn step(&mut self);
}

/// Nothing.
impl Ahead for () {
    #[inline(always)]
    fn step(&mut self) {}
}

/// Lines asked for in one step.
const BURST: usize = 4;
/// Bytes of a line.
const LINE: usize = 64;

/// Some slices, of which each step asks for the next lines.
#[derive(Default)]
pub struct Lines {
    /// First address and bytes; only addresses, since nothing is read.
    pieces: Vec<(*const u8, usize)>,
    piece: usize,
    at: usize,
}

impl Lines {
    /// Forgets what was not asked for yet.
    pub fn clear(&mut self) {
        self.pieces.clear();
        (self.piece, self.at) = (0, 0);
    }

    /// Asks for a slice after those before.
    pub fn add<T>(&mut self, piece: &[T]) {
        self.pieces.push((piece.as_ptr().cast(), size_of_val(piece)));
    }
}

impl Ahead for Lines {
    #[inline(always)]
    fn step(&mut self) {
        let Some(&(start, len)) = self.pieces.get(self.piece) else {
            return;
        };
        for line in 0..BURST {
            fetch(start.wrapping_add(self.at + line * LINE));
        }
        self.at += BURST * LINE;
        if self.at >= len {
            (self.piece, self.at) = (self.piece + 1, 0);
        }
    }
}

/// Asks the second-level cache for a line, wherever it may lie: the first-level one is full of the block in
/// work.
#[inline(always)]
pub(crate) fn fetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint to the caches, which no address can make fail.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(at.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above; it reads and writes nothing that the program sees.
    unsafe {
        std::arch::asm!("prfm pldl2keep, [{}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}

/// Asks the first-level cache for a line, wherever it may lie.
#[inline(always)]
pub(crate) fn fetch_near(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint to the caches, which no address can make fail.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above; it reads and writes nothing that the program sees.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_pass_over_every_piece_and_end() {
        let (a, b) = ([0.0; 100], [0.0; 8]);
        let mut lines = Lines::default();
        lines.add(&a);
        lines.add(&b);
        let mut seen = Vec::new();
        for _ in 0..8 {
            seen.push((lines.piece, lines.at));
            lines.step();
        }
        assert_eq!(
            seen,
            [
                (0, 0),
                (0, 256),
                (0, 512),
                (0, 768),
                (1, 0),
                (2, 0),
                (2, 0),
                (2, 0)
            ]
        );
    }
}
