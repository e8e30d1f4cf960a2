//! What the processor does for the evaluator: the fused paths of `tacita-rlwe`.
use crate::backend::{
    Backend, CiphertextOf, Context, Entries, Factors, Halves, Inputs, Lanes, Made, Pair, Sum, Weights,
};
use crate::linear::transform::EncodedTransform;
use crate::processor::{add_runs, add_scalar, Processor};
use crate::{matmul, products, sums};
use std::sync::Arc;
use tacita_ring::{gemm, kernels, AlignedVec, Permutation};
use tacita_rlwe::keyswitch::{self, Decomposed, Ending, Product, PLAIN_LIMBS};
use tacita_rlwe::{Parameters, RnsPoly, SwitchingKey};

impl Backend for Processor {
    type Poly = RnsPoly;
    type Key = SwitchingKey;
    type Digits = Decomposed;
    type Vectors = Vec<Vec<AlignedVec>>;
    type Diagonal = (Arc<Permutation>, RnsPoly);

    fn over(&self, rlwe: &Parameters) -> Made<Self> {
        Ok(Self::new(rlwe.clone()))
    }

    fn joined(&self, key: &SwitchingKey, from: &Parameters, to: &Parameters) -> Made<SwitchingKey> {
        Ok(key.joined(from, to))
    }

    fn truncated(&self, x: &RnsPoly, limbs: usize) -> Made<RnsPoly> {
        Ok(x.truncated(limbs))
    }

    fn add(&self, a: &RnsPoly, b: &RnsPoly) -> Made<RnsPoly> {
        Ok(RnsPoly::combined(self.rlwe(), (a, b), kernels::add))
    }

    fn sub(&self, a: &RnsPoly, b: &RnsPoly) -> Made<RnsPoly> {
        Ok(RnsPoly::combined(self.rlwe(), (a, b), kernels::sub))
    }

    fn add_lifted(&self, mut x: RnsPoly, y: &RnsPoly) -> Made<RnsPoly> {
        if x.p_len() == y.p_len() {
            x.add_assign(self.rlwe(), y);
        } else {
            x.add_lifted(self.rlwe(), y);
        }
        Ok(x)
    }

    fn mul_halves(&self, mut x: RnsPoly, constants: &Halves) -> Made<RnsPoly> {
        x.for_each_limb(self.rlwe(), |i, limb| {
            let (m, half) = (self.rlwe().modulus(i), limb.len() / 2);
            kernels::mul_scalar_assign(m, &mut limb[..half], constants[i][0]);
            kernels::mul_scalar_assign(m, &mut limb[half..], constants[i][1]);
        });
        Ok(x)
    }

    fn add_halves(&self, mut x: RnsPoly, constants: &Halves) -> Made<RnsPoly> {
        x.for_each_limb(self.rlwe(), |i, limb| {
            let (m, half) = (self.rlwe().modulus(i), limb.len() / 2);
            add_scalar(m, &mut limb[..half], constants[i][0]);
            add_scalar(m, &mut limb[half..], constants[i][1]);
        });
        Ok(x)
    }

    fn mul_runs(&self, mut x: RnsPoly, runs: &[AlignedVec]) -> Made<RnsPoly> {
        x.for_each_limb(self.rlwe(), |i, limb| {
            let mut product = AlignedVec::zeroed(limb.len());
            kernels::mul_runs_add_assign(self.rlwe().modulus(i), &mut product, limb, &runs[i]);
            limb.copy_from_slice(&product);
        });
        Ok(x)
    }

    fn add_runs(&self, mut x: RnsPoly, runs: &[AlignedVec]) -> Made<RnsPoly> {
        x.for_each_limb(self.rlwe(), |i, limb| {
            add_runs(self.rlwe().modulus(i), limb, &runs[i]);
        });
        Ok(x)
    }

    fn sum(&self, sum: &Sum<'_, RnsPoly>, weights: &Weights, limbs: usize) -> Made<Vec<RnsPoly>> {
        Ok(sums::sum(self.rlwe(), sum, weights, limbs))
    }

    fn add_outer(
        &self,
        acc: &mut Entries<RnsPoly>,
        factors: Factors<'_, RnsPoly>,
        rows: usize,
        limbs: usize,
    ) -> Made<()> {
        products::add_outer(self.rlwe(), acc, factors, rows, limbs);
        Ok(())
    }

    fn add_matrix(
        &self,
        sums: &mut Vec<RnsPoly>,
        inputs: Inputs<'_, RnsPoly>,
        lanes: &Lanes,
        matrix: &gemm::Weights,
    ) -> Made<()> {
        matmul::add_matrix(self.rlwe(), sums, inputs, lanes, matrix);
        Ok(())
    }

    fn rescale(&self, x: RnsPoly) -> Made<RnsPoly> {
        Ok(keyswitch::rescale(self.rlwe(), x))
    }

    fn mod_down_rescale(&self, x: RnsPoly) -> Made<RnsPoly> {
        Ok(keyswitch::mod_down_rescale(self.rlwe(), x))
    }

    fn decompose(&self, x: &RnsPoly, special: usize) -> Made<Decomposed> {
        Ok(keyswitch::decompose_for(self.rlwe(), x, special))
    }

    fn rotate_digits(
        &self,
        x: &RnsPoly,
        digits: &Decomposed,
        (key, galois): (&SwitchingKey, u64),
        lifted: bool,
    ) -> Made<Pair<RnsPoly>> {
        let rlwe = self.rlwe();
        let (mut u0, mut u1) = keyswitch::inner_product(rlwe, digits, key)?;
        if lifted {
            u0.add_lifted(rlwe, x);
        } else {
            u0 = keyswitch::mod_down(rlwe, u0);
            u1 = keyswitch::mod_down(rlwe, u1);
            u0.add_assign(rlwe, x);
        }
        let perm = self.permutation(galois);
        Ok(Pair(u0.permuted(&perm), u1.permuted(&perm)))
    }

    fn rotate(&self, x: [&RnsPoly; 2], (key, galois): (&SwitchingKey, u64)) -> Made<Pair<RnsPoly>> {
        let perm = self.permutation(galois);
        let ending = Ending {
            add: [Some(x[0]), None],
            permutation: Some(&perm),
        };
        let (c0, c1) = keyswitch::switch(self.rlwe(), x[1], key, &ending)?;
        Ok(Pair(c0, c1))
    }

    fn rotate_lifted(&self, x: Pair<RnsPoly>, (key, galois): (&SwitchingKey, u64)) -> Made<Pair<RnsPoly>> {
        let rlwe = self.rlwe();
        let c1 = if x.1.p_len() > 0 {
            keyswitch::mod_down(rlwe, x.1)
        } else {
            x.1
        };
        let perm = self.permutation(galois);
        let (u0, u1) = keyswitch::switch_over(rlwe, &c1, key, |at, (mut u0, u1)| {
            keyswitch::add_to_limb(rlwe, &mut u0, at, (&x.0, key.special));
            (permuted(&u0, &perm), permuted(&u1, &perm))
        })?;
        Ok(Pair(u0, u1))
    }

    fn relinearise_rescale(&self, x: [&RnsPoly; 3], key: &SwitchingKey) -> Made<Pair<RnsPoly>> {
        let (c0, c1) = keyswitch::switch_rescale(self.rlwe(), x, key)?;
        Ok(Pair(c0, c1))
    }

    fn vectors(&self, vectors: Vec<Vec<AlignedVec>>) -> Made<Vec<Vec<AlignedVec>>> {
        Ok(vectors)
    }

    fn transform(
        context: &Context<'_, Self>,
        inputs: &[&CiphertextOf<Self>],
        t: &EncodedTransform<Self::Vectors>,
    ) -> Made<Vec<Pair<RnsPoly>>> {
        context.fused_sums(inputs, t)
    }

    fn diagonal(&self, galois: u64, integers: &[i64]) -> Made<Self::Diagonal> {
        let plain = RnsPoly::from_small(self.rlwe(), integers, PLAIN_LIMBS, 1);
        Ok((self.permutation(galois), plain))
    }

    fn raise(
        &self,
        [x0, x1]: [&RnsPoly; 2],
        to_sparse: &SwitchingKey,
        terms: &[(&SwitchingKey, &Self::Diagonal)],
        limbs: usize,
    ) -> Made<Pair<RnsPoly>> {
        let rlwe = self.rlwe();
        let centred = |x: &RnsPoly| -> Vec<i64> {
            let (m, x) = (rlwe.modulus(0), x.limb_coefficients(rlwe, 0));
            x.iter().map(|&v| m.center(v as u64)).collect()
        };
        let (mut c0, c1) = keyswitch::switch_small(rlwe, &centred(x1), to_sparse);
        c0.add_assign(rlwe, x0);
        let products = terms.iter().map(|&(key, (permutation, plain))| Product {
            key,
            permutation,
            plain,
        });
        let terms: Vec<Product<'_>> = products.collect();
        let (u0, u1) = keyswitch::switch_products(rlwe, [&centred(&c0), &centred(&c1)], &terms, limbs);
        Ok(Pair(u0, u1))
    }
}

/// A limb with its values in the order of an automorphism.
fn permuted(x: &[f64], perm: &Permutation) -> AlignedVec {
    let mut out = AlignedVec::scratch(x.len());
    perm.apply(&mut out, x);
    out
}
