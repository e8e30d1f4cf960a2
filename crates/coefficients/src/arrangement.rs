//! Where the entries of a matrix of tokens and features lie: in slots, in coefficients, in the small ring.
//!
//! Slots-to-coefficients brings slot j, of s = N/2, to coefficients r = brv(j) (its real part) and r + N/2
//! (its imaginary part), brv reversing log2(s) bits. So the *lowest* bits of j become the highest of r. Ring
//! switching sends coefficient r to the small ciphertext r mod N/n, where it is coefficient r div N/n. The
//! product wants, in each small ciphertext, token i at stride m_w and the features of a block next to each
//! other, m_w = n/T of them.
//!
//! Take T = 128, N = 65536, n = 8192: N/n = 8, m_w = 64, and slot = 64 f + t with f < 512, t < 64.
//!
//! | bits of the coefficient | 15 | 14 .. 9 | 8 .. 3 | 2 .. 0 |
//! |---|---|---|---|---|
//! | come from | the part | t reversed | f mod 64 reversed | f div 64 reversed |
//! | in the small ring | token, high bit | token, low bits | place in the block | which ciphertext |
//!
//! So row i of the product is token (part, brv(i mod T/2)): the same permutation of tokens on both sides of
//! the product, which never mixes them. Block f div 64 is small ciphertext brv(f div 64), and its feature
//! f mod 64 has place brv(f mod 64). The results of a product's merging tree lie in the same way: leaf l, its
//! column, goes to place brv(l). Hence results, put back into the residue classes, are arranged as inputs
//! are, features in their natural order.
//!
//! Other packings: `rows` has slot = token * 256 + position. There the residue modulo 8 and the lowest places
//! are bits of the token and the features have stride 16: a product would leave its results in coefficients
//! 0 .. 15, which no automorphism separates from the rest, so merging them costs a product each. No window
//! of the product mends that; another order of the slots does, at no cost, since the layer before writes it.
use crate::{CoefficientError, Result};
use tacita_bfv::matmul::window::Grid;
use tacita_bfv::matmul::{Dims, Layout, Window};
use tacita_ckks::CkksParameters;

/// Limbs of coefficients before the product.
pub const LIMBS: usize = 2;
/// log2 of N/n: 8192 for N = 65536, which 134 of 214 bits leave secure.
const LOG_RATIO: u32 = 3;

/// log2 of the degree that products are done at.
pub fn log_small(p: &CkksParameters) -> u32 {
    p.rlwe().log_n() - LOG_RATIO
}

/// Native level that the inputs of products must have: one above that of a bootstrap.
pub(crate) fn input_level(p: &CkksParameters) -> usize {
    p.bottom_level() + LIMBS - 1
}

/// A ring, its subring and a number of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrangement {
    log_n: u32,
    log_small: u32,
    tokens: usize,
}

/// Where an entry of a matrix is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which ciphertext of the matrix.
    pub ciphertext: usize,
    /// Its slot.
    pub slot: usize,
    /// In the imaginary part?
    pub imaginary: bool,
}

/// The lowest log2(len) bits of i < len, reversed.
fn reversed(i: usize, len: usize) -> usize {
    i.reverse_bits()
        .checked_shr(usize::BITS - len.trailing_zeros())
        .unwrap_or(0)
}

impl Arrangement {
    /// For rings of degree 2^log_n and 2^log_small.
    ///
    /// # Errors
    /// [`CoefficientError::Shape`] for a number of tokens that is no power of two in 2 ..= 2^log_small.
    pub fn new(log_n: u32, log_small: u32, tokens: usize) -> Result<Self> {
        if !tokens.is_power_of_two() || tokens < 2 || tokens > 1 << log_small {
            return Err(CoefficientError::Shape {
                op: "coefficient products",
                detail: format!(
                    "{tokens} tokens; hint: a power of two from 2 to {}",
                    1u64 << log_small
                ),
            });
        }
        Ok(Self {
            log_n,
            log_small,
            tokens,
        })
    }

    /// T.
    pub fn tokens(&self) -> usize {
        self.tokens
    }
    /// Features of a small ciphertext: m_w = n/T.
    pub fn block(&self) -> usize {
        (1 << self.log_small) / self.tokens
    }
    /// Small ciphertexts of a large one.
    pub fn ratio(&self) -> usize {
        1 << (self.log_n - self.log_small)
    }
    /// Features of a large ciphertext: N/T.
    pub fn features(&self) -> usize {
        self.block() * self.ratio()
    }
    /// Small ciphertexts that hold so many features.
    pub fn blocks(&self, features: usize) -> usize {
        features.div_ceil(self.block())
    }
    /// Large ciphertexts that hold so many features.
    pub fn ciphertexts(&self, features: usize) -> usize {
        features.div_ceil(self.features())
    }

    /// Where feature `feature` of token `token` is.
    pub fn place(&self, token: usize, feature: usize) -> Place {
        let (half, each) = (self.tokens / 2, self.features());
        Place {
            ciphertext: feature / each,
            slot: feature % each * half + token % half,
            imaginary: token >= half,
        }
    }

    /// The residue class of block `block` of a large ciphertext.
    pub fn class(&self, block: usize) -> usize {
        reversed(block, self.ratio())
    }

    /// Whether a product splits its inputs by feature (`tacita_bfv::matmul::packing::split`) and merges
    /// nothing: an input block takes as many automorphisms as the tree of a result block, and the fewer
    /// blocks decide.
    pub fn splits(&self, inputs: usize, outputs: usize) -> bool {
        self.blocks(inputs) < self.blocks(outputs)
    }

    /// The feature of a block that row `inner` of the product's matrix is for. Split blocks come by place,
    /// and places are reversed; else places count up where the product's encoding counts down: see
    /// [`Self::shift`].
    pub fn feature_at(&self, inner: usize, split: bool) -> usize {
        let place = if split { inner } else { self.block() - 1 - inner };
        reversed(place, self.block())
    }

    /// The feature of a block of results that column `column` of the product's matrix gives: its leaves, or
    /// its places.
    pub fn result_at(&self, column: usize, split: bool) -> usize {
        if split {
            reversed(column, self.block())
        } else {
            column
        }
    }

    /// By how many coefficients blocks move down before the product: its encoding has entry j of row i at
    /// i m_w - j, blocks have place p at i m_w + p, so that j = m_w - 1 - p after a shift by m_w - 1.
    pub fn shift(&self) -> usize {
        self.block() - 1
    }

    /// The coefficients of a small ciphertext that hold feature `feature` of its block, token by token.
    pub fn coefficients(&self, feature: usize) -> impl Iterator<Item = usize> + use<> {
        let (block, place) = (self.block(), reversed(feature, self.block()));
        (0..self.tokens).map(move |row| row * block + place)
    }

    /// The product of so many features with a matrix to so many, both rounded up to blocks: every coefficient
    /// of a result is an entry of it. Of split inputs each is a block of its own.
    pub fn layout(&self, inputs: usize, outputs: usize, split: bool) -> Layout {
        let dims = Dims {
            k: self.tokens,
            m: self.blocks(inputs) * self.block(),
            n: self.blocks(outputs) * self.block(),
            batch: 1,
        };
        let (mw, nw) = if split {
            (1, self.block())
        } else {
            (self.block(), 1)
        };
        let window = Window {
            kw: self.tokens,
            mw,
            nw,
            heads: 1,
        };
        Layout {
            grid: Grid { dims, window },
            pack: mw.ilog2(),
            join: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Follows an entry from its slot through bit reversal and residues to the small ring.
    #[test]
    fn slots_reach_the_coefficients_of_the_table() {
        for (log_n, log_small, tokens) in [(16, 13, 128), (10, 7, 8), (8, 5, 32), (9, 6, 2)] {
            let a = Arrangement::new(log_n, log_small, tokens).unwrap();
            let (n, slots) = (1usize << log_n, 1usize << (log_n - 1));
            let mut seen = vec![false; n];
            for feature in 0..a.features() {
                let (block, inside) = (feature / a.block(), feature % a.block());
                for token in 0..tokens {
                    let place = a.place(token, feature);
                    assert_eq!(place.ciphertext, 0);
                    let r = reversed(place.slot, slots) + if place.imaginary { slots } else { 0 };
                    assert!(!std::mem::replace(&mut seen[r], true));
                    assert_eq!(r % a.ratio(), a.class(block));
                    let half = tokens / 2;
                    let row = token / half * half + reversed(token % half, half);
                    assert_eq!(r / a.ratio(), row * a.block() + reversed(inside, a.block()));
                    assert_eq!(a.coefficients(inside).nth(row), Some(r / a.ratio()));
                }
            }
        }
    }

    /// Leaves of the merging tree go where inputs are.
    #[test]
    fn results_are_arranged_as_inputs_are() {
        let a = Arrangement::new(10, 7, 8).unwrap();
        let layout = a.layout(40, 33, false);
        assert_eq!((layout.responses(), a.blocks(33), a.blocks(40)), (3, 3, 3));
        for l in 0..a.block() {
            assert_eq!(layout.offset(l), reversed(l, a.block()));
            let inner = a.block() - 1 - reversed(l, a.block());
            assert_eq!(a.feature_at(inner, false), l);
        }
        let mut used = vec![false; 1 << 7];
        layout.places(0).iter().for_each(|p| used[p.coefficient] = true);
        assert!(
            used.into_iter().all(|u| u),
            "a result has coefficients that hold nothing"
        );
    }

    #[test]
    fn odd_numbers_of_tokens_are_refused() {
        for tokens in [0, 1, 3, 96, 1 << 14] {
            assert!(Arrangement::new(16, 13, tokens).is_err());
        }
    }
}
