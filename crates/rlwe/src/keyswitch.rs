//! Hybrid key switching (Han, Ki, CT-RSA 2020): decompose into digits, extend each to the basis QP, inner
//! product with the key, divide by P. `decompose` is the part that hoisting shares between rotations.
use crate::switching::{special_product, Gadget, SwitchingKey};
use crate::{Parameters, RlweError, RnsPoly};
use rayon::prelude::*;
use tacita_ring::{kernels, AlignedVec, BaseConverter};

/// The digits of a polynomial, each extended to the ciphertext limbs and the special primes, in NTT form.
pub struct Decomposed {
    /// `digits[d]` has `limbs` ciphertext limbs, then all special limbs.
    pub digits: Vec<RnsPoly>,
    limbs: usize,
}

/// Splits `c` (NTT form, `L` limbs) into ceil(L / digit_limbs) digits.
///
/// Cost: L inverse and D*(L+k) - L forward NTTs.
pub fn decompose(params: &Parameters, c: &RnsPoly) -> Decomposed {
    let limbs = c.q_len;
    let dl = params.digit_limbs();
    let mut coefficients: Vec<AlignedVec> = c.limbs[..limbs].to_vec();
    coefficients.par_iter_mut().enumerate().for_each(|(i, x)| {
        params.table(i).inverse(x);
        let (d, len) = digit_of(i, dl, limbs);
        params.mod_up(d, len).scale_inputs(i - d * dl, x);
    });
    let digits = (0..limbs.div_ceil(dl))
        .map(|d| extend_digit(params, c, &coefficients, d))
        .collect();
    Decomposed { digits, limbs }
}

fn digit_of(i: usize, dl: usize, limbs: usize) -> (usize, usize) {
    let d = i / dl;
    (d, dl.min(limbs - d * dl))
}

fn extend_digit(params: &Parameters, c: &RnsPoly, ys: &[AlignedVec], d: usize) -> RnsPoly {
    let (limbs, dl) = (c.q_len, params.digit_limbs());
    let (_, len) = digit_of(d * dl, dl, limbs);
    let own = d * dl..d * dl + len;
    let converter = params.mod_up(d, len);
    let inputs: Vec<&[f64]> = own.clone().map(|i| &ys[i][..]).collect();
    let out = (0..limbs + params.p_len())
        .into_par_iter()
        .map(|i| {
            if own.contains(&i) {
                return c.limbs[i].clone();
            }
            let index = if i < limbs { i } else { params.p_index(i - limbs) };
            let mut x = AlignedVec::scratch(params.n());
            converter.convert(&inputs, index, &mut x);
            params.table(index).forward(&mut x);
            x
        })
        .collect();
    RnsPoly {
        limbs: out,
        q_len: limbs,
    }
}

/// Inner product of the digits with a key: a pair over QP (the result times P).
///
/// # Errors
/// [`RlweError::MissingKey`] when the key lives below the level of the digits.
pub fn inner_product(
    params: &Parameters,
    digits: &Decomposed,
    key: &SwitchingKey,
) -> Result<(RnsPoly, RnsPoly), RlweError> {
    if key.limbs < digits.limbs || key.special != params.p_len() || key.gadget != Gadget::Rns {
        return Err(RlweError::MissingKey(format!(
            "a key for {} limbs was asked of a key made for {}",
            digits.limbs, key.limbs
        )));
    }
    Ok(inner_product_any(params, &digits.digits, key))
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
    let pairs: Vec<(AlignedVec, AlignedVec)> = (0..total)
        .into_par_iter()
        .map(|i| {
            let (index, at) = if i < limbs {
                (i, i)
            } else {
                (params.p_index(i - limbs), key.limbs + i - limbs)
            };
            let ds: Vec<&[f64]> = digits.iter().map(|d| &d.limbs[i][..]).collect();
            let bs: Vec<&[f64]> = key.b[..ds.len()].iter().map(|k| &k.limbs[at][..]).collect();
            let ks: Vec<&[f64]> = key.a[..ds.len()].iter().map(|k| &k.limbs[at][..]).collect();
            let mut out0 = AlignedVec::scratch(params.n());
            let mut out1 = AlignedVec::scratch(params.n());
            kernels::inner_product2(params.modulus(index), &mut out0, &mut out1, &ds, &bs, &ks);
            (out0, out1)
        })
        .collect();
    let (l0, l1) = pairs.into_iter().unzip();
    let poly = |limbs_| RnsPoly {
        limbs: limbs_,
        q_len: limbs,
    };
    (poly(l0), poly(l1))
}

/// Divides by the special primes with rounding: QP -> Q.
///
/// Cost: np inverse and L forward NTTs. Error: at most half a unit plus conversion error.
pub fn mod_down(params: &Parameters, x: RnsPoly) -> RnsPoly {
    let np = x.p_len();
    let special = (0..np).map(|k| params.p_index(k)).collect::<Vec<_>>();
    let keep = x.q_len;
    divide(params, x, params.mod_down(np), &special, keep)
}

/// Divides by the special primes and the top ciphertext limb at once: QP -> Q / q_top.
///
/// Cost: np + 1 inverse and L - 1 forward NTTs; saves L NTTs against mod-down followed by rescale.
pub fn mod_down_rescale(params: &Parameters, x: RnsPoly) -> RnsPoly {
    let top = x.q_len - 1;
    let mut from: Vec<usize> = (0..x.p_len()).map(|k| params.p_index(k)).collect();
    from.push(top);
    divide(params, x, params.mod_down_rescale(top), &from, top)
}

/// Divides a polynomial over Q by its top limb with rounding.
///
/// Cost: 1 inverse and L - 1 forward NTTs.
pub fn rescale(params: &Parameters, mut x: RnsPoly) -> RnsPoly {
    let top = x.q_len - 1;
    let mut last = x.limbs.swap_remove(top);
    let (table, from) = (params.table(top), *params.modulus(top));
    table.inverse(&mut last);
    let limbs = (0..top)
        .into_par_iter()
        .map(|i| {
            let m = params.modulus(i);
            let mut lifted = AlignedVec::scratch(params.n());
            kernels::switch_modulus(&from, m, &mut lifted, &last);
            subtract_and_scale(params, i, &x.limbs[i], lifted, m.inv(from.p() % m.p()))
        })
        .collect();
    RnsPoly { limbs, q_len: top }
}

/// (x - NTT(lifted)) * c modulo ciphertext prime `i`.
fn subtract_and_scale(
    params: &Parameters,
    i: usize,
    x: &[f64],
    mut lifted: AlignedVec,
    c: u64,
) -> AlignedVec {
    params.table(i).forward(&mut lifted);
    let mut out = AlignedVec::scratch(params.n());
    kernels::sub_mul_scalar(params.modulus(i), &mut out, x, &lifted, c);
    out
}

/// Divides `x` by the product of the primes `from` (global indices) and keeps the first `keep` ciphertext
/// limbs.
fn divide(
    params: &Parameters,
    x: RnsPoly,
    converter: &BaseConverter,
    from: &[usize],
    keep: usize,
) -> RnsPoly {
    let q_len = x.q_len;
    let at = |index: usize| {
        if index < params.q_len() {
            index
        } else {
            q_len + index - params.q_len()
        }
    };
    let ys: Vec<AlignedVec> = from
        .par_iter()
        .enumerate()
        .map(|(k, &index)| {
            let mut y = x.limbs[at(index)].clone();
            params.table(index).inverse(&mut y);
            converter.scale_inputs(k, &mut y);
            y
        })
        .collect();
    let inputs: Vec<&[f64]> = ys.iter().map(|y| &y[..]).collect();
    let mut overflow = AlignedVec::scratch(params.n());
    converter.overflow(&inputs, &mut overflow);
    let limbs = (0..keep)
        .into_par_iter()
        .map(|i| {
            let m = params.modulus(i);
            let mut lifted = AlignedVec::scratch(params.n());
            converter.convert_exact(&inputs, &overflow, i, &mut lifted);
            let product = from
                .iter()
                .fold(1, |acc, &f| m.mul(acc, params.modulus(f).p() % m.p()));
            subtract_and_scale(params, i, &x.limbs[i], lifted, m.inv(product))
        })
        .collect();
    RnsPoly { limbs, q_len: keep }
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

    /// self += P * other on the ciphertext limbs; `self` is over QP.
    pub fn add_lifted(&mut self, params: &Parameters, other: &Self) {
        let q_len = self.q_len;
        self.limbs[..q_len].par_iter_mut().enumerate().for_each(|(i, x)| {
            let c = special_product(params, params.p_len(), i);
            kernels::mul_scalar_add_assign(params.modulus(i), x, &other.limbs[i], c);
        });
    }
}

/// Switches `c1` with `key`: returns (u0, u1) over Q with u0 + u1*s = c1*s'.
///
/// # Errors
/// [`RlweError::MissingKey`] as [`inner_product`].
pub fn switch(
    params: &Parameters,
    c1: &RnsPoly,
    key: &SwitchingKey,
) -> Result<(RnsPoly, RnsPoly), RlweError> {
    let (u0, u1) = inner_product(params, &decompose(params, c1), key)?;
    Ok((mod_down(params, u0), mod_down(params, u1)))
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
