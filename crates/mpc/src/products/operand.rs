//! Values ready to be multiplied.
use crate::{MpcError, Result, Ring};
use std::sync::Arc;
use tacita_bfv::slots::{EncryptedSlots, Lifting};
use zeroize::Zeroize;

/// One's own share and, at the server, the client's under encryption. May be used in any number of products.
pub struct Operand {
    pub(super) share: Vec<u64>,
    pub(super) ring: Ring,
    pub(super) slack: u32,
    pub(super) lifting: Arc<Lifting>,
    /// By block of 8192 elements, then by plaintext prime; empty at the client.
    pub(super) encrypted: Vec<Vec<EncryptedSlots>>,
}

impl Operand {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.share.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.share.is_empty()
    }

    /// The ring.
    pub fn ring(&self) -> Ring {
        self.ring
    }

    /// log2 of the error that the caller tolerates.
    pub fn slack(&self) -> u32 {
        self.slack
    }

    /// One's own share.
    pub fn share_values(&self) -> &[u64] {
        &self.share
    }

    /// The own share times `others`, element by element.
    pub(super) fn times(&self, others: &[u64]) -> Vec<u64> {
        let products = self.share.iter().zip(others);
        products.map(|(x, y)| self.ring.mul(*x, *y)).collect()
    }
}

impl Drop for Operand {
    fn drop(&mut self) {
        self.share.zeroize();
    }
}

/// One cross term: the client's values of an operand times what the server multiplies them by (`None` at the
/// client).
pub(super) struct Part<'a> {
    pub(super) operand: &'a Operand,
    /// The operand's ciphertext that serves every block of the result; `None`: the one in the block's own
    /// place.
    pub(super) only: Option<usize>,
    pub(super) multiplier: Option<Vec<u64>>,
}

impl<'a> Part<'a> {
    pub(super) fn new(operand: &'a Operand, multiplier: Option<Vec<u64>>) -> Self {
        Self {
            operand,
            only: None,
            multiplier,
        }
    }
}

/// The cross terms, operand by operand: each term x y gives y0 to x and x0 to y, a square 2 x0 to x.
pub(super) fn multipliers<'a>(terms: &[(&'a Operand, &'a Operand)], client: bool) -> Vec<Part<'a>> {
    let mut parts: Vec<Part<'a>> = vec![];
    for (x, y) in terms.iter().flat_map(|&(x, y)| [(x, y), (y, x)]) {
        let known = parts.iter().position(|part| std::ptr::eq(part.operand, x));
        let at = known.unwrap_or_else(|| {
            parts.push(Part::new(x, (!client).then(|| vec![0; x.len()])));
            parts.len() - 1
        });
        if let Some(sum) = &mut parts[at].multiplier {
            for (sum, y) in sum.iter_mut().zip(&y.share) {
                *sum = x.ring.add(*sum, *y);
            }
        }
    }
    parts
}

/// The first operand, if all have its length, ring and slack.
pub(super) fn check_alike<'a>(
    op: &'static str,
    operands: impl IntoIterator<Item = &'a Operand>,
) -> Result<&'a Operand> {
    let describe = |o: &Operand| (o.len(), o.ring.bits(), o.slack);
    let mut operands = operands.into_iter();
    let fail = |detail| Err(MpcError::Shape { op, detail });
    let Some(first) = operands.next() else {
        return fail("no terms".to_owned());
    };
    match operands.find(|o| describe(o) != describe(first)) {
        None => Ok(first),
        Some(other) => fail(format!(
            "(elements, ring bits, slack) are {:?} and {:?}",
            describe(first),
            describe(other)
        )),
    }
}
