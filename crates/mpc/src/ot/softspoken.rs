//! COT extension of Roy, *SoftSpokenOT* (2022), section 3, semi-honest, with fields of 2^4 elements.
//!
//! Each of 32 trees has 16 streams r_x, of which the sender lacks that of index a (4 bits of delta). The
//! receiver takes u = sum of r_x and v_b = sum of the r_x with bit b of x set; the sender w_b = sum of the
//! r_x with bit b of x + a set = v_b + a_b*u: four columns of the COT matrix. The 31 other trees' u are
//! brought to the first one's by sending the difference: 31 bits a COT, from receiver to sender. Costs 4 AES
//! blocks and a 128-bit row of a transposition per COT on either side.
use super::pprf::{DEPTH, LEAVES, TREES};
use super::prg::Stream;
use super::transpose::transpose;

/// COTs of one transposition.
const ROWS: usize = 128;
/// Transpositions a step: 1024 COTs, whose streams (64 KiB) fit the cache.
const WORDS: usize = 8;
/// COTs come in multiples of this.
pub(super) const STEP: usize = ROWS * WORDS;

type Word = [u128; WORDS];
type Columns = [Word; ROWS];

/// Bytes of the receiver's message for `count` COTs (a multiple of [`STEP`]).
pub(super) const fn message_len(count: usize) -> usize {
    count / 8 * (TREES - 1)
}

/// The side that knows all streams and gets random bits.
pub(super) struct Receiver {
    trees: Vec<[Stream; LEAVES]>,
}

/// The side that knows delta. Streams are kept at x + a, so that no address depends on delta once they are
/// made.
pub(super) struct Sender {
    trees: Vec<[Stream; LEAVES]>,
    points: [u8; TREES],
}

impl Receiver {
    /// From all leaves.
    pub(super) fn new(leaves: &[[u128; LEAVES]]) -> Self {
        Self {
            trees: streams(leaves),
        }
    }

    /// `count` blocks (a multiple of [`STEP`]), whose low bits are the random choices, and the message for
    /// the sender.
    pub(super) fn extend(&mut self, count: usize) -> (Vec<u128>, Vec<u8>) {
        let (mut blocks, mut message) = (Vec::with_capacity(count), Vec::with_capacity(message_len(count)));
        let mut columns: Columns = [[0; WORDS]; ROWS];
        for _ in 0..count / STEP {
            let mut first = [0; WORDS];
            for (tree, streams) in self.trees.iter_mut().enumerate() {
                let u = fold(streams, &mut columns[DEPTH * tree..]);
                if tree == 0 {
                    first = u;
                } else {
                    message.extend(add(&first, &u).iter().flat_map(|w| w.to_le_bytes()));
                }
            }
            columns[0] = first;
            rows(&columns, &mut blocks);
        }
        (blocks, message)
    }
}

impl Sender {
    /// From all leaves but those at `points`, the digits of delta (low digit first). The low bit of
    /// `points[0]` must be 1.
    pub(super) fn new(leaves: &[[u128; LEAVES]], points: [u8; TREES]) -> Self {
        let shift = |(leaves, &point): (&[u128; LEAVES], &u8)| {
            std::array::from_fn(|y| leaves[y ^ usize::from(point)])
        };
        let shifted: Vec<[u128; LEAVES]> = leaves.iter().zip(&points).map(shift).collect();
        let trees = streams(&shifted);
        Self { trees, points }
    }

    /// `count` blocks (a multiple of [`STEP`]) from the receiver's message of `message_len(count)` bytes;
    /// their low bits are 0.
    pub(super) fn extend(&mut self, count: usize, message: &[u8]) -> Vec<u128> {
        let mut blocks = Vec::with_capacity(count);
        let mut columns: Columns = [[0; WORDS]; ROWS];
        let mut corrections = message.chunks_exact(16 * WORDS);
        for _ in 0..count / STEP {
            for (tree, streams) in self.trees.iter_mut().enumerate() {
                let point = usize::from(self.points[tree]);
                let own = &mut columns[DEPTH * tree..DEPTH * (tree + 1)];
                fold(streams, own);
                if tree > 0 {
                    let correction = word(corrections.next().expect("as long as computed"));
                    correct(own, &correction, point);
                }
            }
            columns[0] = [0; WORDS];
            rows(&columns, &mut blocks);
        }
        blocks
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.points);
    }
}

fn streams(leaves: &[[u128; LEAVES]]) -> Vec<[Stream; LEAVES]> {
    leaves.iter().map(|tree| tree.map(Stream::new)).collect()
}

/// The four sums over streams whose index has bit b set, into `columns`; returns the sum of all streams. The
/// sender's stream 0, which he lacks, enters the latter only, and he drops it.
fn fold(streams: &mut [Stream; LEAVES], columns: &mut [Word]) -> Word {
    let mut values: [Word; LEAVES] = [[0; WORDS]; LEAVES];
    for (value, stream) in values.iter_mut().zip(streams) {
        stream.fill(value);
    }
    for b in (0..DEPTH).rev() {
        let (low, high) = values[..2 << b].split_at_mut(1 << b);
        columns[b] = high.iter().fold([0; WORDS], |sum, value| add(&sum, value));
        low.iter_mut().zip(high).for_each(|(l, h)| *l = add(l, h));
    }
    values[0]
}

/// Adds the correction to the columns whose bit of delta is set, without a branch.
fn correct(columns: &mut [Word], correction: &Word, point: usize) {
    for (b, column) in columns.iter_mut().enumerate() {
        let mask = ((point >> b & 1) as u128).wrapping_neg();
        *column = add(column, &correction.map(|c| c & mask));
    }
}

fn add(a: &Word, b: &Word) -> Word {
    std::array::from_fn(|i| a[i] ^ b[i])
}

fn word(bytes: &[u8]) -> Word {
    std::array::from_fn(|i| u128::from_le_bytes(bytes[16 * i..16 * i + 16].try_into().expect("16 bytes")))
}

fn rows(columns: &Columns, blocks: &mut Vec<u128>) {
    let squares = (0..WORDS).map(|w| columns.map(|column| column[w]));
    blocks.extend(squares.flat_map(|mut square| {
        transpose(&mut square);
        square
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_differ_by_delta_where_the_bit_is_set() {
        let points: [u8; TREES] = std::array::from_fn(|i| (i * 7 % 16) as u8 | u8::from(i == 0));
        let delta = (0..)
            .zip(points)
            .fold(0u128, |d, (i, p)| d | u128::from(p) << (DEPTH * i));
        let all: Vec<[u128; LEAVES]> = (0..TREES)
            .map(|t| std::array::from_fn(|x| (t * LEAVES + x + 1) as u128))
            .collect();
        let mut punctured = all.clone();
        punctured
            .iter_mut()
            .zip(points)
            .for_each(|(leaves, p)| leaves[usize::from(p)] = 0);
        let (mut receiver, mut sender) = (Receiver::new(&all), Sender::new(&punctured, points));
        for count in [STEP, 0, 3 * STEP] {
            let (got, message) = receiver.extend(count);
            assert_eq!(message.len(), message_len(count));
            let sent = sender.extend(count, &message);
            assert_eq!((got.len(), sent.len()), (count, count));
            let ones = got.iter().filter(|b| *b & 1 == 1).count();
            assert!(2 * ones >= count * 9 / 10 && 2 * ones <= count * 11 / 10);
            for (r, s) in got.iter().zip(&sent) {
                assert_eq!(s & 1, 0);
                assert_eq!(*r, s ^ (delta & (r & 1).wrapping_neg()));
            }
        }
    }
}
