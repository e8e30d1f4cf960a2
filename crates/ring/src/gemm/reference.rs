//! The product in integers: the definition that the SIMD paths must match bit for bit.

use super::{check, Input, Weights};
use crate::Modulus;

pub fn product(m: &Modulus, weights: &Weights, inputs: &[Input<'_>], first: usize, out: &mut [&mut [f64]]) {
    let len = check(weights, inputs, first, out);
    for i in 0..len {
        let column: Vec<i128> = inputs.iter().map(|x| residue(m, x, first + i)).collect();
        for (o, out) in out.iter_mut().enumerate() {
            let terms = column
                .iter()
                .enumerate()
                .map(|(k, x)| weights.weight(o, k) as i128 * x);
            let c = m.from_i128(weights.multiplier(o));
            out[i] = m.mul(m.from_i128(terms.sum()), c) as f64;
        }
    }
}

fn residue(m: &Modulus, input: &Input<'_>, at: usize) -> i128 {
    let x = input.limb[at] as u64;
    i128::from(input.factor(at).map_or(x, |w| m.mul(x, w)))
}
