//! Hybrid key switching (Han, Ki, CT-RSA 2020): decompose into digits, extend each to the basis QP, inner
//! product with the key, divide by P.
//!
//! Two orders of the same work. `stationary` goes target limb by target limb and keeps no digit: a single
//! switch. `decompose` and `inner_product` keep the digits, which hoisting shares between rotations.
mod divide;
mod finish;
mod multiples;
mod pieces;
mod stationary;

use divide::within;
pub use divide::{mod_down, mod_down_rescale, rescale};
pub use multiples::{switch_products, Product, PLAIN_LIMBS};
pub use pieces::tasks;
use pieces::{targets, Pieces};
pub use stationary::{switch, switch_over, switch_rescale, Ending, Limbs};

use crate::switching::{special_product, Gadget, Rows, SwitchingKey};
use crate::{Parameters, RlweError, RnsPoly};
use rayon::prelude::*;
use std::ops::Range;
use tacita_ring::{kernels, AlignedVec, Modulus};

/// The digits of a polynomial, each extended to the ciphertext limbs and the special primes, in NTT form.
pub struct Decomposed {
    /// `digits[d]` has `limbs` ciphertext limbs, then all special limbs.
    pub digits: Vec<RnsPoly>,
    limbs: usize,
}

/// Splits `c` (NTT form, `L` limbs) into digits, for keys with all special primes.
///
/// Cost: L inverse and D*(L+k) - L forward NTTs.
pub fn decompose(params: &Parameters, c: &RnsPoly) -> Decomposed {
    decompose_for(params, c, params.p_len())
}

/// The same for keys with the first `special` special primes.
pub fn decompose_for(params: &Parameters, c: &RnsPoly, special: usize) -> Decomposed {
    let limbs = c.q_len;
    let coefficients = scaled_coefficients(params, c, special);
    let digits = (0..params.digits(limbs, special))
        .map(|d| extend_digit(params, c, &coefficients, (d, special)))
        .collect();
    Decomposed { digits, limbs }
}

/// The ciphertext limbs of `c` in coefficient form, as the conversions of their digits take them.
fn scaled_coefficients(params: &Parameters, c: &RnsPoly, special: usize) -> Vec<AlignedVec> {
    let digits = (0..params.digits(c.q_len, special)).map(|d| params.digit(d, c.q_len, special));
    let limbs: Vec<_> = digits
        .flat_map(|own| own.clone().map(move |i| (i, own.clone())))
        .collect();
    let pieces = Pieces::of(c.q_len, params.n());
    limbs
        .into_par_iter()
        .map(|(i, own)| {
            let scale = params.mod_up(&own).input_scale(i - own.start);
            let mut x = AlignedVec::scratch(params.n());
            pieces.inverse_centred(params.table(i), &mut x, Some(&c.limbs[i]), scale);
            x
        })
        .collect()
}

fn extend_digit(
    params: &Parameters,
    c: &RnsPoly,
    ys: &[AlignedVec],
    (d, special): (usize, usize),
) -> RnsPoly {
    let pieces = Pieces::of(c.q_len + special, params.n());
    let limbs = targets(c.q_len + special)
        .into_par_iter()
        .flat_map_iter(|group| {
            let own = params.digit(d, c.q_len, special);
            let made = extended(params, c.q_len, ys, (own, &group), pieces);
            let limb = |(&at, x): (&usize, Option<AlignedVec>)| x.unwrap_or_else(|| c.limbs[at].clone());
            group.iter().zip(made).map(limb).collect::<Vec<_>>()
        })
        .collect();
    RnsPoly {
        limbs,
        q_len: c.q_len,
    }
}

/// The prime of limb `at` of a polynomial over QP of `limbs` ciphertext limbs.
fn prime_of(params: &Parameters, limbs: usize, at: usize) -> usize {
    if at < limbs {
        at
    } else {
        params.p_index(at - limbs)
    }
}

/// The digit of the limbs `own` of a polynomial of `limbs` limbs in some limbs over QP, in NTT form; none
/// where a limb is its own. ys: all limbs as the conversions take them.
fn extended(
    params: &Parameters,
    limbs: usize,
    ys: &[AlignedVec],
    (own, targets): (Range<usize>, &[usize]),
    pieces: Pieces,
) -> Vec<Option<AlignedVec>> {
    let made = converted(params, limbs, ys, (own, targets), pieces);
    pieces.map(targets.iter().zip(made).collect(), |(&at, mut x)| {
        let table = params.table(prime_of(params, limbs, at));
        x.iter_mut().for_each(|x| pieces.forward(table, &mut [x]));
        x
    })
}

/// The same in coefficient form.
fn converted(
    params: &Parameters,
    limbs: usize,
    ys: &[AlignedVec],
    (own, targets): (Range<usize>, &[usize]),
    pieces: Pieces,
) -> Vec<Option<AlignedVec>> {
    let sources: Vec<&[f64]> = ys[own.clone()].iter().map(|y| &y[..]).collect();
    let others = targets.iter().filter(|at| !own.contains(at));
    let primes: Vec<usize> = others.map(|&at| prime_of(params, limbs, at)).collect();
    let mut made: Vec<AlignedVec> = primes.iter().map(|_| AlignedVec::scratch(params.n())).collect();
    pieces.ranges(params.n(), &mut made, |part, outs| {
        params
            .mod_up(&own)
            .convert(&within(&sources, &part), &primes, outs);
    });
    let mut made = made.into_iter();
    let limb = |at: &usize| if own.contains(at) { None } else { made.next() };
    targets.iter().map(limb).collect()
}

/// Inner product of the digits with a key: a pair over QP (the result times P).
///
/// # Errors
/// [`RlweError::MissingKey`] when the key lives below the level of the digits, or has other special primes.
pub fn inner_product(
    params: &Parameters,
    digits: &Decomposed,
    key: &SwitchingKey,
) -> Result<(RnsPoly, RnsPoly), RlweError> {
    digits.require(params, key)?;
    Ok(inner_product_any(params, &digits.digits, key))
}

/// An [`inner_product`] of which a part is asked for at a time, so that no limb of it need exist as a whole.
pub struct InnerProduct<'a> {
    params: &'a Parameters,
    digits: &'a Decomposed,
    key: &'a SwitchingKey,
}

impl<'a> InnerProduct<'a> {
    /// # Errors
    /// As [`inner_product`].
    pub fn new(
        params: &'a Parameters,
        digits: &'a Decomposed,
        key: &'a SwitchingKey,
    ) -> Result<Self, RlweError> {
        digits.require(params, key)?;
        Ok(Self { params, digits, key })
    }

    /// Values `part` of limb `at`: ciphertext limbs, then the special ones.
    pub fn part(&self, at: usize, part: Range<usize>, out: [&mut [f64]; 2]) {
        let digits = self.digits.digits.iter();
        let ds: Vec<&[f64]> = digits.map(|d| &d.limbs[at][part.clone()]).collect();
        products(self.params, self.key, self.digits.limbs, at, (&ds, part), out);
    }
}

impl Decomposed {
    fn require(&self, params: &Parameters, key: &SwitchingKey) -> Result<(), RlweError> {
        let special = self.digits.first().map_or(key.special, RnsPoly::p_len);
        if special != key.special {
            return Err(RlweError::MissingKey(format!(
                "digits over {special} special primes were given to a key with {}",
                key.special
            )));
        }
        require(params, key, self.limbs)
    }
}

/// Whether a key switches polynomials of so many limbs: it has them, and no digit is larger than the product
/// of its special primes. The key's error is multiplied by a digit and divided by that product, so it comes
/// out no larger than sqrt(N/12) times the error, far below the rounding of the division; no ciphertext prime
/// is longer than a special one, so counting them is enough.
fn require(params: &Parameters, key: &SwitchingKey, limbs: usize) -> Result<(), RlweError> {
    let digit = params.digit(0, limbs, key.special).len();
    let short = params.digit_limbs() > 0 && key.special < digit.min(params.p_len());
    if key.limbs <= params.key_limb(limbs - 1) || short || key.gadget != Gadget::Rns {
        return Err(RlweError::MissingKey(format!(
            "a key for {limbs} limbs was asked of a key made for {} with {} special primes",
            key.limbs, key.special
        )));
    }
    Ok(())
}

/// Inner product without the shape check; `digits` must cover a prefix of the key's limbs and all its special
/// limbs.
pub(crate) fn inner_product_any(
    params: &Parameters,
    digits: &[RnsPoly],
    key: &SwitchingKey,
) -> (RnsPoly, RnsPoly) {
    let limbs = digits[0].q_len;
    let total = digits[0].limbs.len();
    let pieces = Pieces::of(total, params.n());
    let pairs: Vec<Limbs> = (0..total)
        .into_par_iter()
        .map(|i| {
            let ds: Vec<&[f64]> = digits.iter().map(|d| &d.limbs[i][..]).collect();
            whole_products(params, key, limbs, (i, pieces), &ds)
        })
        .collect();
    stationary::pair(pairs, limbs)
}

/// Adds limb `at` of `other` to a limb over Q and the first `special` special primes: as it is where `other`
/// is over these too, times their product where it is over Q and has one.
pub fn add_to_limb(params: &Parameters, x: &mut [f64], at: usize, (other, special): (&RnsPoly, usize)) {
    if other.p_len() > 0 {
        kernels::add_assign(params.modulus(other.prime_index(params, at)), x, &other.limbs[at]);
    } else if at < other.q_len {
        let c = special_product(params, special, at);
        kernels::mul_scalar_add_assign(params.modulus(at), x, &other.limbs[at], c);
    }
}

/// Adds values `part` of limb `at` of a polynomial over Q, which has no special limbs, times the product of
/// the first `special` special primes.
pub fn add_part(
    params: &Parameters,
    x: &mut [f64],
    at: usize,
    (other, special, part): (&RnsPoly, usize, Range<usize>),
) {
    if at < other.q_len {
        let c = special_product(params, special, at);
        kernels::mul_scalar_add_assign(params.modulus(at), x, &other.limbs[at][part], c);
    }
}

impl RnsPoly {
    /// Multiplies the ciphertext limbs by P and appends zero special limbs: Q -> QP.
    pub fn lift_by_p(&self, params: &Parameters) -> Self {
        let np = params.p_len();
        let mut out = self.clone();
        out.for_each_limb(params, |i, x| {
            kernels::mul_scalar_assign(params.modulus(i), x, special_product(params, np, i));
        });
        out.limbs.extend((0..np).map(|_| AlignedVec::zeroed(params.n())));
        out
    }

    /// self += P * other on the ciphertext limbs; `self` is over QP, for P the product of its own special
    /// primes.
    pub fn add_lifted(&mut self, params: &Parameters, other: &Self) {
        let (q_len, special) = (self.q_len, self.p_len());
        self.limbs[..q_len].par_iter_mut().enumerate().for_each(|(i, x)| {
            let c = special_product(params, special, i);
            kernels::mul_scalar_add_assign(params.modulus(i), x, &other.limbs[i], c);
        });
    }
}

/// Limb `i` (of `limbs` ciphertext limbs, then the special ones) of the inner product with a key. ds: that
/// limb of every digit.
fn whole_products(
    params: &Parameters,
    key: &SwitchingKey,
    limbs: usize,
    (i, pieces): (usize, Pieces),
    ds: &[&[f64]],
) -> Limbs {
    let n = params.n();
    let (mut out0, mut out1) = (AlignedVec::scratch(n), AlignedVec::scratch(n));
    pieces.ranges(n, [&mut out0, &mut out1], |part, outs| {
        let [out0, out1] = outs else {
            unreachable!("two halves")
        };
        products(params, key, limbs, i, (&within(ds, &part), part), [out0, out1]);
    });
    (out0, out1)
}

/// The same for a part of the limb. ds: that part of the limb of every digit.
fn products(
    params: &Parameters,
    key: &SwitchingKey,
    limbs: usize,
    i: usize,
    (ds, part): (&[&[f64]], Range<usize>),
    [out0, out1]: [&mut [f64]; 2],
) {
    let (index, at) = if i < limbs {
        (i, params.key_limb(i))
    } else {
        (params.p_index(i - limbs), key.limbs + i - limbs)
    };
    let m = params.modulus(index);
    let rows = [0, 1].map(|half| key.rows(half, ds.len(), at, &part));
    multiply(m, ds, &rows, [out0, out1]);
}

/// The sums of products of a part of a limb with both halves of a key.
fn multiply(m: &Modulus, ds: &[&[f64]], rows: &[Rows<'_>; 2], [out0, out1]: [&mut [f64]; 2]) {
    match rows {
        [Rows::Packed(bs), Rows::Packed(ks)] => kernels::inner_product2_packed(m, out0, out1, ds, bs, ks),
        [Rows::Doubles(bs), Rows::Doubles(ks)] => kernels::inner_product2(m, out0, out1, ds, bs, ks),
        _ => unreachable!("a key has halves of one kind"),
    }
}

/// Switches a small polynomial given by its coefficients (centred, |c| < q0/2) with a single-digit key.
///
/// Cost: (L + np) forward and 2*(np) inverse, 2L forward NTTs. Source: only the small input makes one digit
/// enough.
pub fn switch_small(params: &Parameters, coefficients: &[i64], key: &SwitchingKey) -> (RnsPoly, RnsPoly) {
    let digit = RnsPoly::from_small(params, coefficients, key.limbs, key.special);
    let (u0, u1) = inner_product_any(params, &[digit], key);
    (mod_down(params, u0), mod_down(params, u1))
}
