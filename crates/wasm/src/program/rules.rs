//! What each step needs of what it reads, and what it writes: shapes and rings. A step that the engine would
//! refuse in the middle of a run is refused here, before anything is sent.
use super::{Bump, Do, Map};
use tacita_mpc::nonlinear::{check_activation, Fixed, GeluForm, SiluForm};
use tacita_mpc::Ring;

const WORD: u32 = 64;
const MOST_WIDTH: usize = 1 << 20;
/// Entries of a product's right matrices, of weights or shared: a count of 32 bits has room for them.
const MOST_RIGHT: usize = 1 << 31;
const MOST_GAP: i64 = 1 << 40;
const BOUNDS: std::ops::RangeInclusive<f64> = 1e-30..=1e30;
/// Size of a head that is turned, by which angles are made.
const MOST_TURNED: usize = 4096;
const BASES: std::ops::RangeInclusive<f64> = 1.0..=1e9;

/// What a register holds: (rows, columns) or (heads, rows, columns) residues modulo 2^ring.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Its shape.
    pub shape: Vec<usize>,
    /// Bits of its ring.
    pub ring: u32,
}

/// Where a walk of a program is. all_rows: of the text so far, those before this run included. stores: how
/// many were appended to. tile: heads, rows of queries and of keys of the tile that it is in; whole: heads
/// and rows of queries of all such tiles.
#[derive(Default)]
pub(super) struct Place {
    pub all_rows: usize,
    pub past: usize,
    pub stores: usize,
    pub tile: Option<[usize; 3]>,
    pub whole: [usize; 2],
}

fn one(shape: Vec<usize>, ring: u32) -> Vec<Value> {
    vec![Value { shape, ring }]
}

fn like(x: &Value, ring: u32) -> Vec<Value> {
    one(x.shape.clone(), ring)
}

impl Place {
    /// What a step writes; `None` where it does not fit what it reads.
    pub fn made(&mut self, what: &Do, read: &[Value]) -> Option<Vec<Value>> {
        match read {
            [] => self.source(what),
            [x] => self.local(what, x).or_else(|| shared(what, x)),
            [x, y] => self.pair(what, x, y),
            [q, k, v] => self.tiled(what, [q, k, v]),
            _ => None,
        }
    }

    /// What a tile has of queries, keys and values, of which the shapes were checked.
    fn tiled(&self, what: &Do, read: [&Value; 3]) -> Option<Vec<Value>> {
        let ([heads, rows, keys], Do::Tiles(_)) = (self.tile?, what) else {
            return None;
        };
        let groups = heads * read[1].shape[0] / read[0].shape[0];
        let sizes = [[heads, rows], [groups, keys], [groups, keys]];
        let part = |(x, [heads, rows]): (&Value, [usize; 2])| Value {
            shape: vec![heads, rows, x.shape[2]],
            ring: x.ring,
        };
        Some(read.into_iter().zip(sizes).map(part).collect())
    }

    fn source(&self, what: &Do) -> Option<Vec<Value>> {
        match *what {
            Do::Enter { .. } => Some(vec![]),
            Do::Average { fraction, ring } if fraction < ring => Some(one(vec![1, 1, self.all_rows], ring)),
            _ => None,
        }
    }

    fn local(&mut self, what: &Do, x: &Value) -> Option<Vec<Value>> {
        let shaped = |shape: Vec<usize>| Some(one(shape, x.ring));
        let (last, ring) = (*x.shape.last()?, x.ring);
        match (what, &x.shape[..]) {
            (&Do::ShiftDown { bits, ring: to }, _) if bits >= 1 && ring.checked_sub(bits) == Some(to) => {
                Some(like(x, to))
            }
            (&Do::ShiftUp { bits, ring: to }, _)
                if (1..WORD).contains(&bits) && to == WORD.min(ring + bits) =>
            {
                Some(like(x, to))
            }
            (&Do::Reduce { ring: to }, _) if to <= ring => Some(like(x, to)),
            (&Do::Scale { ring: to, .. } | &Do::Bias { ring: to }, _) if to == ring => Some(like(x, to)),
            (Do::Columns { widths }, [before @ .., _]) => {
                let total = widths.iter().try_fold(0usize, |sum, &w| sum.checked_add(w));
                let block = |&width: &usize| one([before, &[width]].concat(), ring);
                (total == Some(last) && !widths.contains(&0)).then(|| widths.iter().flat_map(block).collect())
            }
            (Do::Rows { count }, [before @ .., rows, _]) if (1..=*rows).contains(&count.unsigned_abs()) => {
                shaped([before, &[count.unsigned_abs(), last]].concat())
            }
            (&Do::Heads { count }, &[rows, _]) if count > 0 && last % count == 0 => {
                shaped(vec![count, rows, last / count])
            }
            (Do::Merge {}, &[heads, rows, _]) => shaped(vec![rows, heads.checked_mul(last)?]),
            (&Do::Group { heads: to }, &[heads, rows, _]) if to > 0 && (heads * rows) % to == 0 => {
                shaped(vec![to, heads * rows / to, last])
            }
            (
                Do::Turn {
                    bits,
                    ring: to,
                    base,
                    scales,
                },
                [_, _, _],
            ) => {
                let fits = *to == ring && (1..31).contains(bits) && *bits < ring && BASES.contains(base);
                let each = scales.is_empty() || scales.len() == last / 2;
                let slower = scales.iter().all(|scale| (0.0..=1.0).contains(scale));
                (fits && last % 2 == 0 && last <= MOST_TURNED && each && slower).then(|| like(x, ring))
            }
            (Do::Join {}, &[heads, rows, _]) => {
                let [all, queries] = self.whole;
                let own = self.tile.is_some_and(|tile| tile[..2] == [heads, rows]);
                own.then_some(())?;
                shaped(vec![all, queries, last])
            }
            (&Do::Append { store, ring: to }, &[heads, rows, _]) => {
                let fits = to == ring && store == self.stores && rows == self.all_rows - self.past;
                self.stores += 1;
                fits.then(|| one(vec![heads, self.all_rows, last], ring))
            }
            (Do::Hide(hide), &[_, queries, keys]) => {
                let all = self.tile.map_or(self.all_rows, |tile| tile[2]);
                let fits = queries <= keys && keys == all && (0..MOST_GAP).contains(&hide.gap);
                (fits && hide.ring == ring && hide.fraction < ring).then(|| like(x, ring))
            }
            _ => None,
        }
    }

    fn pair(&self, what: &Do, x: &Value, y: &Value) -> Option<Vec<Value>> {
        match *what {
            Do::Add { ring } if x.shape == y.shape && x.ring == ring && y.ring >= ring => Some(like(x, ring)),
            Do::Times {
                held,
                short,
                ring,
                slack,
            } => {
                let (last, before) = y.shape.split_last()?;
                let fits = x.shape == y.shape || x.shape == [before, &[1]].concat();
                let rings = x.ring == held && (1..=held).contains(&short) && y.ring == ring;
                (fits && rings && slack < WORD && *last > 0).then(|| like(y, ring))
            }
            Do::Product(ref product) => {
                let (&[heads, rows, inner], &[others, first, second]) = (&x.shape[..], &y.shape[..]) else {
                    return None;
                };
                let (meets, columns) = match product.transposed {
                    true => (second, first),
                    false => (first, second),
                };
                let fits = (heads, inner) == (others, meets) && multiplies(heads, inner, columns);
                let known = product.store.is_none_or(|store| store < self.stores);
                let (shape, ring) = (vec![heads, rows, columns], product.ring);
                (fits && known && [x.ring, y.ring] == [ring; 2]).then(|| one(shape, ring))
            }
            _ => None,
        }
    }
}

/// Steps with the other party.
fn shared(what: &Do, x: &Value) -> Option<Vec<Value>> {
    let few = |bits: u32| bits <= WORD;
    match *what {
        Do::Extend { ring, to } if x.ring == ring && ring <= to => Some(like(x, to)),
        Do::Linear(Map { outputs, ring, .. }) => match x.shape[..] {
            [rows, inner] if x.ring == ring && outputs <= MOST_WIDTH && multiplies(1, inner, outputs) => {
                Some(one(vec![rows, outputs], ring))
            }
            _ => None,
        },
        Do::Relu { ring } if x.ring == ring => Some(like(x, ring)),
        Do::Square { ring, to, slack } if x.ring == ring && slack < WORD => Some(like(x, to)),
        Do::Tanh(ref f) | Do::Elu(ref f) => {
            let fits = x.ring == f.ring && f.fraction < f.ring && f.finer < f.to && few(f.range);
            fits.then(|| like(x, f.to))
        }
        Do::Gelu(ref bump) => {
            gelu_form(&bump.form)?;
            activated(bump, x)
        }
        Do::Silu(ref bump) => {
            silu_form(&bump.form)?;
            activated(bump, x)
        }
        Do::Softmax(ref f) => {
            let &[heads, rows, _] = &x.shape[..] else {
                return None;
            };
            let fits = x.ring == f.ring && f.fraction < f.ring && few(f.range) && f.inverse < f.to;
            fits.then(|| [like(x, f.power), one(vec![heads, rows, 1], f.to)].concat())
        }
        Do::Norm(ref f) => {
            let bounds = [f.bound, f.least, f.gamma];
            let bounds = bounds.iter().all(|each| BOUNDS.contains(each)) && (0.0..=1.0).contains(&f.epsilon);
            let fits = x.ring == f.ring && f.fraction < f.ring && f.finer < f.to && f.to <= WORD;
            (fits && bounds).then_some(())?;
            let (&cols, before) = x.shape.split_last()?;
            let norm = f.norm(before.iter().product(), cols);
            norm.check(Fixed::new(f.ring, f.fraction)).ok()?;
            Some(like(x, f.to))
        }
        _ => None,
    }
}

/// Whether a product's sizes are numbers of 32 bits, as a page's are; what its registers hold is checked.
fn multiplies(batch: usize, inner: usize, columns: usize) -> bool {
    let right = batch.checked_mul(inner).and_then(|n| n.checked_mul(columns));
    right.is_some_and(|right| right <= MOST_RIGHT)
}

fn activated(bump: &Bump, x: &Value) -> Option<Vec<Value>> {
    let fits = x.ring == bump.ring && bump.fraction < bump.ring && (1..=WORD).contains(&bump.to);
    fits.then_some(())?;
    check_activation(
        Fixed::new(bump.ring, bump.fraction),
        Ring::new(bump.to),
        bump.range,
    )
    .ok()?;
    Some(like(x, bump.to))
}

/// A form of GELU by its name, of those that a page computes.
pub(crate) fn gelu_form(name: &str) -> Option<GeluForm> {
    match name {
        "abs4" => Some(GeluForm::Abs4),
        "abs8" => Some(GeluForm::Abs8),
        "tanh4" => Some(GeluForm::Tanh4),
        "tanh8" => Some(GeluForm::Tanh8),
        _ => None,
    }
}

/// The same of SiLU.
pub(crate) fn silu_form(name: &str) -> Option<SiluForm> {
    match name {
        "abs8" => Some(SiluForm::Abs8),
        "abs16" => Some(SiluForm::Abs16),
        _ => None,
    }
}
