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
/// Doubles of a line.
const LINE: usize = 8;

/// Some slices, of which each step asks for the next lines.
#[derive(Default)]
pub struct Lines {
    /// First address and doubles; only addresses, since nothing is read.
    pieces: Vec<(*const f64, usize)>,
    piece: usize,
    at: usize,
}

impl Lines {
    /// Forgets what was not asked for yet and starts with these.
    pub fn set<'a>(&mut self, pieces: impl IntoIterator<Item = &'a [f64]>) {
        self.pieces.clear();
        self.pieces
            .extend(pieces.into_iter().map(|x| (x.as_ptr(), x.len())));
        (self.piece, self.at) = (0, 0);
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

/// Asks the second-level cache for a line, wherever it may lie: the first-level one is full of the block that is
/// being worked on.
#[inline(always)]
fn fetch(at: *const f64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint to the caches, which no address can make fail.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_pass_over_every_piece_and_end() {
        let (a, b) = ([0.0; 100], [0.0; 8]);
        let mut lines = Lines::default();
        lines.set([&a[..], &b[..]]);
        let mut seen = Vec::new();
        for _ in 0..8 {
            seen.push((lines.piece, lines.at));
            lines.step();
        }
        assert_eq!(
            seen,
            [(0, 0), (0, 32), (0, 64), (0, 96), (1, 0), (2, 0), (2, 0), (2, 0)]
        );
    }
}
