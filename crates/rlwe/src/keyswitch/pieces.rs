//! How several tasks share a limb where there are more threads than limbs. A transform has two stages, of
//! columns and of blocks ([`tacita_ring::Columns`]); all else concerns values one by one. The residues are
//! those of one task a limb.
use rayon::prelude::*;
use std::ops::Range;
use tacita_ring::{AlignedVec, Blocks, NttTable};

/// Threads that whole limbs keep busy: more of them share limbs.
const FEW: usize = 4;
/// Tasks a thread, at least where limbs are long enough, so that the last ones do not run alone.
const EACH: usize = 3;
/// Values of a piece, at least: some microseconds of work.
const LEAST: usize = 4096;

/// Returns how many tasks share a limb of n values, a power of two, where so many limbs are worked on at
/// once.
fn pieces(limbs: usize, n: usize, threads: usize) -> usize {
    let wanted = (EACH * threads).div_ceil(limbs.max(1)).next_power_of_two();
    if threads > FEW {
        wanted.min((n / LEAST).max(1))
    } else {
        1
    }
}

/// Limbs that are converted together, at most: the sources are read once for all of them.
const TOGETHER: usize = 4;

/// Returns in how many groups so many limbs are converted: as many for each thread; where pieces of a group
/// keep the threads busy, as few as can be.
fn groups(limbs: usize, threads: usize) -> usize {
    let each = if threads > FEW { 1 } else { threads };
    limbs.div_ceil(TOGETHER).next_multiple_of(each).min(limbs)
}

/// Returns how many tasks of equal size a phase of an operation on so many limbs of n values has. converted:
/// whether the limbs are targets of a conversion, which few threads take in groups.
pub fn tasks(limbs: usize, n: usize, threads: usize, converted: bool) -> usize {
    if converted && threads <= FEW {
        groups(limbs, threads)
    } else {
        limbs * pieces(limbs, n, threads)
    }
}

/// The numbers below `count`, in groups of sizes that differ by one at most.
pub(super) fn targets(count: usize) -> Vec<Vec<usize>> {
    let groups = groups(count, rayon::current_num_threads());
    let start = |g: usize| g * count / groups.max(1);
    (0..groups).map(|g| (start(g)..start(g + 1)).collect()).collect()
}

/// Of how many pieces a limb is.
#[derive(Clone, Copy)]
pub(super) struct Pieces(usize);

impl Pieces {
    /// Where so many limbs of n values are worked on at once by the threads of this pool.
    pub fn of(limbs: usize, n: usize) -> Self {
        Self(pieces(limbs, n, rayon::current_num_threads()))
    }

    pub fn count(self) -> usize {
        self.0
    }

    /// f of each task, side by side where limbs are shared at all.
    pub fn map<T: Send, R: Send>(self, tasks: Vec<T>, f: impl Fn(T) -> R + Sync + Send) -> Vec<R> {
        if self.0 == 1 {
            tasks.into_iter().map(f).collect()
        } else {
            tasks.into_par_iter().map(f).collect()
        }
    }

    /// The stage of columns of forward transforms.
    pub fn forward_columns(self, table: &NttTable, xs: &mut [&mut [f64]]) {
        let columns = xs.iter_mut().flat_map(|x| table.columns(x, self.0));
        self.map(columns.collect(), |x| table.forward_columns(x));
    }

    /// By piece, that piece of each limb, and which values it is.
    pub fn blocks<'a>(
        self,
        table: &NttTable,
        xs: impl IntoIterator<Item = &'a mut [f64]>,
    ) -> Vec<(Range<usize>, Vec<Blocks<'a>>)> {
        let count = self.0.min(table.block_count());
        let len = table.n() / count;
        let piece = |k: usize| (k * len..(k + 1) * len, Vec::new());
        let mut pieces: Vec<(Range<usize>, Vec<Blocks<'a>>)> = (0..count).map(piece).collect();
        for x in xs {
            let parts = pieces.iter_mut().zip(table.blocks(x, count));
            parts.for_each(|((_, piece), blocks)| piece.push(blocks));
        }
        pieces
    }

    /// Values to c times the coefficients, centred, of `from` or of x itself.
    pub fn inverse_centred(self, table: &NttTable, x: &mut [f64], from: Option<&[f64]>, c: u64) {
        self.map(table.blocks(x, self.0), |mut x| {
            table.inverse_blocks(&mut x, from, c)
        });
        self.inverse_columns(table, x, c);
    }

    /// The stage of columns of an inverse transform.
    pub fn inverse_columns(self, table: &NttTable, x: &mut [f64], c: u64) {
        self.map(table.columns(x, self.0), |x| table.inverse_columns(x, c));
    }

    /// Coefficients to values.
    pub fn forward(self, table: &NttTable, xs: &mut [&mut [f64]]) {
        if self.0 == 1 {
            return table.forward_all(xs);
        }
        self.forward_columns(table, xs);
        let pieces = self.blocks(table, xs.iter_mut().map(|x| &mut **x));
        self.map(pieces, |(_, mut xs)| table.forward_blocks(&mut xs));
    }

    /// f of each range of values, and of the same range of all outs.
    pub fn ranges<'a>(
        self,
        n: usize,
        outs: impl IntoIterator<Item = &'a mut AlignedVec>,
        f: impl Fn(Range<usize>, &mut [&mut [f64]]) + Sync + Send,
    ) {
        let len = n.div_ceil(self.0);
        let piece = |k: usize| (k * len..(k + 1) * len, Vec::new());
        let mut pieces: Vec<(Range<usize>, Vec<&mut [f64]>)> = (0..self.0).map(piece).collect();
        for out in outs {
            let parts = pieces.iter_mut().zip(out.chunks_mut(len));
            parts.for_each(|((_, piece), part)| piece.push(part));
        }
        self.map(pieces, |(range, mut outs)| f(range, &mut outs));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_small_and_even() {
        for threads in [1, 2, 3, 16] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            for count in 0..40 {
                let found = pool.as_ref().unwrap().install(|| targets(count));
                assert_eq!(found.concat(), (0..count).collect::<Vec<_>>());
                let sizes: Vec<usize> = found.iter().map(Vec::len).collect();
                let (least, most) = (sizes.iter().min(), sizes.iter().max());
                assert!(most <= Some(&TOGETHER) && least >= most.map(|m| m - 1).as_ref());
                assert!(found.len() == count || threads > FEW || found.len().is_multiple_of(threads));
            }
        }
    }

    #[test]
    fn many_threads_have_work_and_few_whole_limbs() {
        for limbs in [1, 7, 12, 28] {
            assert_eq!(
                [1, 2, 4].map(|threads| tasks(limbs, 1 << 16, threads, false)),
                [limbs; 3]
            );
            for threads in [8, 16, 64] {
                let tasks = tasks(limbs, 1 << 16, threads, true);
                assert!(
                    tasks >= (EACH * threads).min(limbs << 4),
                    "{limbs} limbs, {threads} threads"
                );
            }
        }
        assert_eq!((tasks(12, 1 << 16, 2, true), tasks(1, 1 << 11, 64, true)), (4, 1));
    }
}
