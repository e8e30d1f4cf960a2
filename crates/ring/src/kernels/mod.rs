//! Elementwise work on limbs. A limb is a slice of canonical residues stored in doubles.
//!
//! All slices of a call have the same length unless a function says otherwise (it panics if they do not).
//! Outputs are canonical, and the same on every path. Costs are in passes over memory: these kernels run at
//! cache or memory speed.

mod divided;
mod generic;
mod inner;
pub mod outer;
mod pairs;
pub(crate) mod reference;
mod rows;
mod runs;
mod view;

use crate::packed::Row;
use crate::simd::{dispatch, dispatch_packed};
use crate::Modulus;

/// Integers below this are reduced by [`residues`].
pub const INTEGERS: f64 = (1u64 << 51) as f64;

/// Values of a limb that lie together in the pairs of [`inner_products2`].
pub const PAIR: usize = 8;

dispatch! {
    /// out = a + b
    fn add(m: &Modulus, out: &mut [f64], a: &[f64], b: &[f64]);
    /// out = a - b
    fn sub(m: &Modulus, out: &mut [f64], a: &[f64], b: &[f64]);
    /// x = x + a
    fn add_assign(m: &Modulus, x: &mut [f64], a: &[f64]);
    /// x = x - a
    fn sub_assign(m: &Modulus, x: &mut [f64], a: &[f64]);
    /// x = -x
    fn neg_assign(m: &Modulus, x: &mut [f64]);
    /// out = a * b
    fn mul(m: &Modulus, out: &mut [f64], a: &[f64], b: &[f64]);
    /// x = x * a
    fn mul_assign(m: &Modulus, x: &mut [f64], a: &[f64]);
    /// x = x + a * b
    fn mul_add_assign(m: &Modulus, x: &mut [f64], a: &[f64], b: &[f64]);
    /// out = c * a
    fn mul_scalar(m: &Modulus, out: &mut [f64], a: &[f64], c: u64);
    /// x = c * x
    fn mul_scalar_assign(m: &Modulus, x: &mut [f64], c: u64);
    /// x = x + w * y and y = x - w * y, of the x and y before
    fn butterfly(m: &Modulus, x: &mut [f64], y: &mut [f64], w: &[f64]);
    /// x = x + c * a
    fn mul_scalar_add_assign(m: &Modulus, x: &mut [f64], a: &[f64], c: u64);
    /// out = c * (a - b): the last step of rescaling and of dividing by the special primes
    fn sub_mul_scalar(m: &Modulus, out: &mut [f64], a: &[f64], b: &[f64], c: u64);
    /// acc0 += d * k0 and acc1 += d * k1, reading d once
    fn mul_accumulate2(m: &Modulus, acc0: &mut [f64], acc1: &mut [f64], d: &[f64], k0: &[f64], k1: &[f64]);
    /// out0 = sum `ds[t]` * `k0s[t]` and out1 = sum `ds[t]` * `k1s[t]`: the inner product of key switching,
    /// one reduction at the end
    fn inner_product2(
        m: &Modulus, out0: &mut [f64], out1: &mut [f64],
        ds: &[&[f64]], k0s: &[&[f64]], k1s: &[&[f64]]
    );
    /// `outs[r][h]` = sum over t of `rows[r * terms + t]` * limb h of pair t (plus what was there, unless
    /// `replace`): inner products of several rows with the same pairs of limbs. pairs: for each [`PAIR`]
    /// values, and each term, those of the first limb and those of the second.
    fn inner_products2(
        m: &Modulus, outs: &mut [[&mut [f64]; 2]], rows: &[&[f64]], pairs: &[f64], replace: bool
    );
    /// out = c * (sum `ds[t]` * `ks[t]` - lift) + e * a, with (a, e) of `add` if there is one: the last step
    /// of a key switch, for one half. The ds and lift are what [`crate::NttTable::forward_block`] leaves; the
    /// rest is canonical.
    fn divided_product(
        m: &Modulus, out: &mut [f64], ds: &[&[f64]], ks: &[&[f64]], lift: &[f64], c: u64,
        add: Option<(&[f64], u64)>
    );
    /// `x[i]` += `a[i]` * w[i / run] with run = n / w.len(): a plaintext that is a sparse polynomial. w.len()
    /// divides n.
    fn mul_runs_add_assign(m: &Modulus, x: &mut [f64], a: &[f64], w: &[f64]);
    /// x += sum of a * w over the terms (a, w), each w in runs of its own as in [`mul_runs_add_assign`];
    /// fused per cache block
    fn mac_runs(m: &Modulus, x: &mut [f64], terms: &[(&[f64], &[f64])]);
    /// The same sum, in place of what x was.
    fn sum_runs(m: &Modulus, x: &mut [f64], terms: &[(&[f64], &[f64])]);
    /// d0 += a0*b0, d1 += a0*b1 + a1*b0, d2 += a1*b1: the tensor product of two ciphertexts
    fn tensor_accumulate(
        m: &Modulus, d0: &mut [f64], d1: &mut [f64], d2: &mut [f64],
        a0: &[f64], a1: &[f64], b0: &[f64], b1: &[f64]
    );
    /// out = a, of any integers below [`INTEGERS`] in size, none of them -0
    fn residues(m: &Modulus, out: &mut [f64], a: &[f64]);
    /// out = the centred representative of a mod `from`, canonical or centred, reduced mod `to`
    fn switch_modulus(from: &Modulus, to: &Modulus, out: &mut [f64], a: &[f64]);
}

dispatch_packed! {
    /// [`inner_product2`] with packed keys, which are unpacked in registers.
    fn inner_product2_packed(
        m: &Modulus, out0: &mut [f64], out1: &mut [f64],
        ds: &[&[f64]], k0s: &[Row<'_>], k1s: &[Row<'_>]
    );
    /// [`divided_product`] with packed keys.
    fn divided_product_packed(
        m: &Modulus, out: &mut [f64], ds: &[&[f64]], ks: &[Row<'_>], lift: &[f64], c: u64,
        add: Option<(&[f64], u64)>
    );
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod worst_signs;
