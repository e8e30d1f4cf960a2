//! Tiles of attention: some heads and rows of queries at a time, with the keys within their reach
//! (`tacita.two_party.program.tiles`).
use super::{Cut, Do, Program};
use crate::error::Result;
use crate::tensor::misfit;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Of a run; and steps of tiles that run, each as often as there are tiles.
pub(super) const MOST_TILES: usize = 1 << 18;
pub(super) const MOST_STEPS_OF_TILES: usize = 16 * MOST_TILES;

/// Some heads and rows of queries, and the keys that are in reach of them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tile {
    pub heads: Range<usize>,
    pub queries: Range<usize>,
    pub keys: Range<usize>,
    /// Row of the first query, counted from the first of these keys.
    pub first: usize,
}

impl Tile {
    /// Heads, rows of queries and of keys.
    pub fn shape(&self) -> [usize; 3] {
        [self.heads.len(), self.queries.len(), self.keys.len()]
    }
}

impl Cut {
    /// What a step says, which is one of tiles.
    pub(crate) fn of(what: &Do) -> Option<Self> {
        match *what {
            Do::Tiles(cut) if cut.heads > 0 && cut.rows > 0 => Some(cut),
            _ => None,
        }
    }

    /// How many tiles there are, at most.
    pub(crate) fn count(&self, heads: usize, queries: usize) -> usize {
        heads
            .div_ceil(self.heads)
            .saturating_mul(queries.div_ceil(self.rows))
    }

    /// The tiles of so many heads, queries and keys, head after head and then in the order of their queries;
    /// of a text without more rows than a tile there is one. Where nothing ahead is seen the queries are the
    /// last rows. There are not more queries than keys.
    pub(crate) fn tiles(self, heads: usize, queries: usize, keys: usize) -> impl Iterator<Item = Tile> {
        let one = queries <= self.rows;
        let first = if self.on == Some(0) { keys - queries } else { 0 };
        let (high, wide) = if one {
            (heads, heads)
        } else {
            (self.heads, self.rows)
        };
        let whole = (0..queries).step_by(if one { queries.max(1) } else { wide });
        let tile = move |head: usize, begin: usize| {
            let end = begin.saturating_add(self.rows).min(queries);
            let low = |back: usize| (first + begin).saturating_sub(back);
            let far = |on: usize| (first + end).saturating_add(on).min(keys);
            let within = self.back.map_or(0, low)..self.on.map_or(keys, far);
            let within = if one { 0..keys } else { within };
            Tile {
                heads: head..head.saturating_add(high).min(heads),
                queries: begin..end,
                first: first + begin - within.start,
                keys: within,
            }
        };
        let all = (0..heads).step_by(high.max(1));
        all.flat_map(move |head| whole.clone().map(move |begin| tile(head, begin)))
    }
}

/// Whether a step may be done with a tile: each row of queries alone.
fn of_tiles(what: &Do) -> bool {
    matches!(
        what,
        Do::ShiftDown { .. }
            | Do::ShiftUp { .. }
            | Do::Reduce { .. }
            | Do::Group { .. }
            | Do::Bias { .. }
            | Do::Hide(_)
            | Do::Extend { .. }
            | Do::Product(_)
            | Do::Times { .. }
            | Do::Softmax(_)
    )
}

/// The number of its `join` for each step of tiles. Every step writes the next registers.
///
/// # Errors
/// [`crate::ClientError::Damaged`] where one is missing, tiles are within tiles, a step within is none of
/// theirs, or a register of a tile is read by others or the answer.
pub(crate) fn joins(program: &Program) -> Result<HashMap<usize, usize>> {
    let (mut ends, mut inner) = (HashMap::new(), HashSet::new());
    let (mut written, mut begin) = (1, None);
    for (number, step) in program.steps.iter().enumerate() {
        let next = written + step.outputs.len();
        if !step.outputs.iter().copied().eq(written..next) {
            return misfit(format!("step {number} writes other registers"));
        }
        let fits = match begin {
            None => !matches!(step.what, Do::Join {}) && step.inputs.iter().all(|x| !inner.contains(x)),
            Some((_, own)) => {
                let joined = matches!(step.what, Do::Join {});
                (joined || of_tiles(&step.what)) && step.inputs.iter().all(|x| (own..written).contains(x))
            }
        };
        if !fits {
            return misfit(format!("step {number} is within tiles or behind them"));
        }
        match (begin, &step.what) {
            (None, Do::Tiles(_)) => begin = Some((number, written)),
            (Some((first, own)), Do::Join {}) => {
                inner.extend(own..written);
                ends.insert(first, number);
                begin = None;
            }
            _ => {}
        }
        written = next;
    }
    if begin.is_some() || inner.contains(&program.result) {
        return misfit("tiles without a join, or one as the answer");
    }
    Ok(ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Ends = [usize; 2];

    #[derive(serde::Deserialize)]
    struct Case {
        heads: usize,
        rows: usize,
        back: Option<usize>,
        on: Option<usize>,
        /// Heads, queries and keys of all.
        sizes: [usize; 3],
        /// Ends of heads, of queries and of keys, and the first row.
        tiles: Vec<(Ends, Ends, Ends, usize)>,
    }

    #[test]
    fn tiles_are_those_of_python() {
        let text = include_str!("../../../../tests/vectors/program/tiles-of.json");
        let cases: Vec<Case> = serde_json::from_str(text).unwrap();
        assert!(cases.iter().any(|case| case.tiles.len() > 4));
        for case in cases {
            let Case {
                heads,
                rows,
                back,
                on,
                sizes: [all, queries, keys],
                tiles,
            } = case;
            let cut = Cut {
                heads,
                rows,
                back,
                on,
            };
            let wanted = tiles.into_iter().map(|(heads, queries, keys, first)| Tile {
                heads: heads[0]..heads[1],
                queries: queries[0]..queries[1],
                keys: keys[0]..keys[1],
                first,
            });
            let found: Vec<Tile> = cut.tiles(all, queries, keys).collect();
            assert_eq!(found, wanted.collect::<Vec<_>>());
            assert!(found.len() <= cut.count(all, queries));
        }
    }

    #[test]
    fn numbers_of_any_size_make_tiles() {
        let cut = Cut {
            heads: usize::MAX,
            rows: 2,
            back: Some(usize::MAX),
            on: Some(usize::MAX),
        };
        let found: Vec<Tile> = cut.tiles(2, 3, 3).collect();
        assert_eq!((found.len(), found[1].keys.clone()), (2, 0..3));
    }
}
