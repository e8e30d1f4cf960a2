//! Rows x times a matrix Y of shares that grows by a slice with each of them, prepared before the rows are
//! known (`tacita.two_party.arithmetic.masked`): both parties open x - r and the new slice's y - s, which say
//! nothing, and add up what is left locally.
use crate::error::Result;
use crate::tensor::{misfit, Tensor};
use tacita_mpc::linear::{share_times_share_with, Dims, Options};
use tacita_mpc::{Party, Ring};
use tacita_ring::sample::Prng;

/// Y (groups, m, n) in row-major order, or where it is `transposed` its rows are the columns: (groups, n, m).
pub struct MaskedProduct {
    /// Shares of r, (groups, group, rows, m).
    masks: Vec<u64>,
    /// Shares of the slices (groups, slices, width) that there were, and of the masks of those to come.
    known: Vec<u64>,
    /// Of the slices less their masks; 0 where they were there.
    opened: Vec<u64>,
    /// Shares of r Y: (groups, group, rows, n).
    products: Vec<u64>,
    shape: Sizes,
    ring: Ring,
    transposed: bool,
    used: usize,
}

/// groups: heads of Y. group: rows of x in each, at a time. rows: that are prepared. old: slices that there
/// were. width: of a slice.
#[derive(Clone, Copy)]
struct Sizes {
    groups: usize,
    group: usize,
    rows: usize,
    old: usize,
    width: usize,
}

impl MaskedProduct {
    /// Multiplies masks for `rows` rows, `group` of each head at a time, by the slices (groups, old, width)
    /// and by masks of those that will come. transposed: whether a slice is a column of Y.
    ///
    /// # Errors
    /// Those of the product; no randomness.
    pub fn prepare(
        party: &mut Party,
        old: &Tensor,
        transposed: bool,
        group: usize,
        rows: usize,
    ) -> Result<Self> {
        let &[groups, there, width] = old.shape() else {
            return misfit("a store of other sizes");
        };
        let (ring, slices) = (old.ring(), there + rows);
        let shape = Sizes {
            groups,
            group,
            rows,
            old: there,
            width,
        };
        let new = random(groups * rows * width, ring)?;
        let mut known = Vec::with_capacity(groups * slices * width);
        for head in 0..groups {
            known.extend(&old.values()[head * there * width..][..there * width]);
            known.extend(&new[head * rows * width..][..rows * width]);
        }
        let inner = if transposed { width } else { slices };
        let columns = if transposed { slices } else { width };
        let mut masks = random(groups * group * rows * inner, ring)?;
        if !transposed {
            // a row meets the slices up to its own
            for (line, mask) in masks.chunks_mut(inner).enumerate() {
                mask[there + line % rows + 1..].fill(0);
            }
        }
        let right = Tensor::new(vec![groups, slices, width], ring, known.clone())?;
        let right = if transposed { right.transposed()? } else { right };
        let dims = Dims {
            k: group * rows,
            m: inner,
            n: columns,
            batch: groups,
        };
        let options = Options::default();
        let products = share_times_share_with(party, &masks, right.values(), dims, ring, options)?;
        let opened = vec![0; known.len()];
        Ok(Self {
            masks,
            known,
            opened,
            products,
            shape,
            ring,
            transposed,
            used: 0,
        })
    }

    /// Rows for which there are masks.
    pub fn left(&self) -> usize {
        self.shape.rows - self.used
    }

    /// Shares of x Y, of as much of Y as there is with this slice. x: (groups, group, m) of rows m that there
    /// are; new: the slice, (groups, width).
    ///
    /// # Errors
    /// Where no row is left, for other sizes; those of the channel.
    pub fn times(&mut self, party: &mut Party, x: &Tensor, new: &[u64]) -> Result<Tensor> {
        let Sizes {
            groups,
            group,
            rows,
            old,
            width,
        } = self.shape;
        let (number, there, slices) = (self.used, old + self.used + 1, old + rows);
        let [inner, columns] = if self.transposed {
            [width, there]
        } else {
            [there, width]
        };
        if number >= rows || x.shape() != [groups, group, inner] || new.len() != groups * width {
            return misfit("a prepared product of other sizes");
        }
        self.used += 1; // before anything is sent: no mask serves twice
        let (all, wide) = match self.transposed {
            true => (width, slices),
            false => (slices, width),
        };
        let slice = |head: usize| (head * slices + there - 1) * width;
        let lines = (0..groups * group).flat_map(|at| {
            let row = x.values()[at * inner..][..inner].iter();
            let mask = &self.masks[(at * rows + number) * all..][..inner];
            row.zip(mask).map(|(&x, &r)| self.ring.sub(x, r))
        });
        let news = (0..groups).flat_map(|head| {
            let (new, known) = (&new[head * width..][..width], &self.known[slice(head)..][..width]);
            new.iter().zip(known).map(|(&y, &s)| self.ring.sub(y, s))
        });
        let own: Vec<u64> = lines.chain(news).collect();
        let total = open(party, &own, self.ring)?;
        let (e, f) = total.split_at(groups * group * inner);
        for head in 0..groups {
            self.opened[slice(head)..][..width].copy_from_slice(&f[head * width..][..width]);
        }
        let mut result = Vec::with_capacity(groups * group * columns);
        for at in 0..groups * group {
            let head = at / group;
            let product = &self.products[(at * rows + number) * wide..][..columns];
            let e = &e[at * inner..][..inner];
            let r = &self.masks[(at * rows + number) * all..][..inner];
            for (column, &start) in product.iter().enumerate() {
                let place = |row: usize| match self.transposed {
                    true => (head * slices + column) * width + row,
                    false => (head * slices + row) * width + column,
                };
                let add = |sum: u64, row: usize| {
                    let (secret, public) = (self.known[place(row)], self.opened[place(row)]);
                    let sum = sum
                        .wrapping_add(e[row].wrapping_mul(secret))
                        .wrapping_add(r[row].wrapping_mul(public));
                    match party.is_client() {
                        true => sum.wrapping_add(e[row].wrapping_mul(public)),
                        false => sum,
                    }
                };
                result.push((0..inner).fold(start, add));
            }
        }
        Tensor::new(vec![groups, group, columns], self.ring, result)
    }
}

/// The values of shares, revealed to both parties: one message each way, whole bytes a number.
fn open(party: &mut Party, own: &[u64], ring: Ring) -> Result<Vec<u64>> {
    let width = ring.bits().div_ceil(8) as usize;
    let bytes: Vec<u8> = own
        .iter()
        .flat_map(|v| v.to_le_bytes().into_iter().take(width))
        .collect();
    party.send(&bytes)?;
    let theirs = party.receive(bytes.len())?;
    let word = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0u64, |word, &byte| word << 8 | u64::from(byte))
    };
    let words = theirs.chunks(width).map(word);
    Ok(own
        .iter()
        .zip(words)
        .map(|(&own, word)| ring.add(own, word))
        .collect())
}

/// Uniform residues from the host.
fn random(count: usize, ring: Ring) -> Result<Vec<u64>> {
    let mut bytes = vec![0; 8 * count];
    let mut source = Prng::from_os().map_err(crate::ClientError::engine)?;
    source.fill(&mut bytes);
    let (words, _) = bytes.as_chunks();
    Ok(words
        .iter()
        .map(|&word| ring.reduce(u64::from_le_bytes(word)))
        .collect())
}
