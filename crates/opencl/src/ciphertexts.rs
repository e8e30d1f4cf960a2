//! What a device does for the evaluator of `tacita-ckks`: see [`Backend`].

use crate::engine::{Engine, Made, Poly};
use crate::limbs::Limbs;
use crate::queue::Argument;
use crate::switching::{Digits, SwitchingKey};
use opencl3::memory::Buffer;
use tacita_ckks::backend::{
    CiphertextOf, Context, Entries, Factors, Halves, Inputs, Lanes, Made as Result, Pair, Sum, Weights,
};
use tacita_ckks::linear::EncodedTransform;
use tacita_ckks::{Backend, Ciphertext};
use tacita_ring::{gemm, AlignedVec};
use tacita_rlwe::ciphertext::Polynomial;
use tacita_rlwe::keyswitch::PLAIN_LIMBS;
use tacita_rlwe::{Parameters, RnsPoly};

/// The periodic vectors of a transform on a device.
pub struct Vectors {
    /// The runs of every limb of every vector.
    words: Buffer<u64>,
    /// By vector, where it begins, and the logarithm of the values of a run.
    places: Vec<[u32; 2]>,
}

/// A diagonal of the first factor of coefficients-to-slots on a device.
pub struct Diagonal {
    galois: u64,
    plain: Poly,
}

impl Backend for Engine {
    type Poly = Poly;
    type Key = SwitchingKey;
    type Digits = Digits;
    type Vectors = Vectors;
    type Diagonal = Diagonal;

    fn over(&self, rlwe: &Parameters) -> Result<Self> {
        Ok(self.beside(rlwe)?)
    }

    fn joined(&self, key: &SwitchingKey, from: &Parameters, to: &Parameters) -> Result<SwitchingKey> {
        self.upload_key(&self.download_key(key)?.joined(from, to))
    }

    fn truncated(&self, x: &Poly, limbs: usize) -> Result<Poly> {
        Ok(self.first(x, limbs)?)
    }

    fn add(&self, a: &Poly, b: &Poly) -> Result<Poly> {
        Ok(a.with(self.ring.add(&a.limbs, &b.limbs)?))
    }

    fn sub(&self, a: &Poly, b: &Poly) -> Result<Poly> {
        Ok(a.with(self.ring.sub(&a.limbs, &b.limbs)?))
    }

    fn add_lifted(&self, x: Poly, y: &Poly) -> Result<Poly> {
        Ok(self.sum_lifted(&x, y)?)
    }

    fn mul_halves(&self, x: Poly, constants: &Halves) -> Result<Poly> {
        let factors = self.half_factors(constants.iter().copied())?;
        Ok(self.mapped("multiply_halves", &x, &[Argument::Words(&factors)])?)
    }

    fn add_halves(&self, x: Poly, constants: &Halves) -> Result<Poly> {
        let words = self.half_words(constants.iter().copied())?;
        Ok(self.mapped("add_halves", &x, &[Argument::Words(&words)])?)
    }

    fn mul_runs(&self, x: Poly, runs: &[AlignedVec]) -> Result<Poly> {
        Ok(self.with_runs("multiply_runs", &x, runs)?)
    }

    fn add_runs(&self, x: Poly, runs: &[AlignedVec]) -> Result<Poly> {
        Ok(self.with_runs("add_runs", &x, runs)?)
    }

    fn sum(&self, sum: &Sum<'_, Poly>, weights: &Weights, limbs: usize) -> Result<Vec<Poly>> {
        Ok(self.sum_of(sum, weights, limbs)?)
    }

    fn add_outer(
        &self,
        acc: &mut Entries<Poly>,
        [left, right]: Factors<'_, Poly>,
        rows: usize,
        limbs: usize,
    ) -> Result<()> {
        let columns = right.len() * rows / left.len();
        let mut sums = Vec::with_capacity(rows * columns);
        for at in 0..rows * columns {
            let factors = left[at / columns..].iter().step_by(rows);
            let pairs = factors.zip(right[at % columns..].iter().step_by(columns));
            sums.push(self.sum_tensors(pairs.map(|(a, b)| [&**a, &**b]), limbs)?);
        }
        for (sum, old) in sums.iter_mut().zip(&*acc) {
            for (sum, old) in sum.iter_mut().zip(old) {
                *sum = self.add(sum, old)?;
            }
        }
        *acc = sums;
        Ok(())
    }

    fn add_matrix(
        &self,
        sums: &mut Vec<Poly>,
        inputs: Inputs<'_, Poly>,
        lanes: &Lanes,
        matrix: &gemm::Weights,
    ) -> Result<()> {
        Ok(self.add_matrix_products(sums, inputs, lanes, matrix)?)
    }

    fn rescale(&self, x: Poly) -> Result<Poly> {
        Ok(self.rescaled(&x)?)
    }

    fn mod_down_rescale(&self, x: Poly) -> Result<Poly> {
        Ok(self.mod_down(&x, true)?)
    }

    fn decompose(&self, x: &Poly, special: usize) -> Result<Digits> {
        Ok(self.digits(x, special)?)
    }

    fn rotate_digits(
        &self,
        x: &Poly,
        digits: &Digits,
        (key, galois): (&SwitchingKey, u64),
        lifted: bool,
    ) -> Result<Pair<Poly>> {
        let Pair(mut u0, mut u1) = self.inner_product(digits, key)?;
        u0 = self.sum_lifted(&u0, x)?;
        if !lifted {
            u0 = self.mod_down(&u0, false)?;
            u1 = self.mod_down(&u1, false)?;
        }
        Ok(self.permuted(&Pair(u0, u1), galois)?)
    }

    fn rotate(&self, x: [&Poly; 2], key: (&SwitchingKey, u64)) -> Result<Pair<Poly>> {
        let digits = self.digits(x[1], self.rlwe.p_len())?;
        self.rotate_digits(x[0], &digits, key, false)
    }

    fn rotate_lifted(&self, x: Pair<Poly>, (key, galois): (&SwitchingKey, u64)) -> Result<Pair<Poly>> {
        let c1 = if x.1.p_len() > 0 {
            self.mod_down(&x.1, false)?
        } else {
            x.1
        };
        let digits = self.digits(&c1, key.special())?;
        let Pair(u0, u1) = self.inner_product(&digits, key)?;
        Ok(self.permuted(&Pair(self.sum_lifted(&u0, &x.0)?, u1), galois)?)
    }

    fn relinearise_rescale(&self, x: [&Poly; 3], key: &SwitchingKey) -> Result<Pair<Poly>> {
        let digits = self.digits(x[2], key.special())?;
        let Pair(u0, u1) = self.inner_product(&digits, key)?;
        let down = |u: &Poly, x: &Poly| self.mod_down(&self.sum_lifted(u, x)?, true);
        Ok(Pair(down(&u0, x[0])?, down(&u1, x[1])?))
    }

    fn vectors(&self, vectors: Vec<Vec<AlignedVec>>) -> Result<Vectors> {
        let (mut words, mut places) = (Vec::new(), Vec::with_capacity(vectors.len()));
        for vector in &vectors {
            let run = self.ring.n() / vector[0].len();
            places.push([words.len() as u32, run.ilog2()]);
            words.extend(vector.iter().flat_map(|runs| self.words_of(runs)));
        }
        let words = self.ring.buffer_of(&words)?;
        Ok(Vectors { words, places })
    }

    fn transform(
        context: &Context<'_, Self>,
        inputs: &[&CiphertextOf<Self>],
        t: &EncodedTransform<Vectors>,
    ) -> Result<Vec<Pair<Poly>>> {
        let engine = context.backend;
        context.hoisted_sums(
            inputs,
            t,
            |x| Ok(engine.lifted_by_p(x)?),
            |terms| Ok(engine.sum_runs(terms, t.vectors())?),
        )
    }

    fn diagonal(&self, galois: u64, integers: &[i64]) -> Result<Diagonal> {
        let plain = RnsPoly::from_small(&self.rlwe, integers, PLAIN_LIMBS, 1);
        let plain = self.upload_poly(&plain)?;
        Ok(Diagonal { galois, plain })
    }

    fn raise(
        &self,
        [x0, x1]: [&Poly; 2],
        to_sparse: &SwitchingKey,
        terms: &[(&SwitchingKey, &Diagonal)],
        limbs: usize,
    ) -> Result<Pair<Poly>> {
        let small = self.spread(x1, 1, to_sparse.special())?;
        let Pair(u0, u1) = self.small_product(&small, to_sparse)?;
        let c0 = self.add(&self.mod_down(&u0, false)?, x0)?;
        let c1 = self.mod_down(&u1, false)?;
        let (c0, c1) = (self.spread(&c0, PLAIN_LIMBS, 1)?, self.spread(&c1, limbs, 1)?);
        let mut plain = self.cleared(&c0)?;
        let mut sum: Option<Pair<Poly>> = None;
        for (key, diagonal) in terms {
            let rotated = self.ring.permute(&c1.limbs, diagonal.galois)?;
            let part = self.small_product(&c1.with(rotated), key)?;
            sum = Some(match sum {
                Some(sum) => Pair(self.add(&sum.0, &part.0)?, self.add(&sum.1, &part.1)?),
                None => part,
            });
            let rotated = self.ring.permute(&c0.limbs, diagonal.galois)?;
            self.ring
                .mul_add_assign(&mut plain.limbs, &rotated, &diagonal.plain.limbs)?;
        }
        let Pair(u0, u1) = match sum {
            Some(sum) => sum,
            None => Pair(self.cleared(&c1)?, self.cleared(&c1)?),
        };
        Ok(Pair(self.divided_sum(&u0, &plain)?, self.mod_down(&u1, false)?))
    }
}

impl Poly {
    fn with(&self, limbs: Limbs) -> Self {
        Self { limbs, ..*self }
    }
}

impl Engine {
    fn first(&self, x: &Poly, q_len: usize) -> Made<Poly> {
        let limbs = self.part(&x.limbs, 0, &self.chain(q_len, 0))?;
        Ok(Poly { limbs, q_len })
    }

    fn cleared(&self, like: &Poly) -> Made<Poly> {
        let limbs = self.ring.scratch(&like.limbs.basis)?;
        self.ring
            .run_values("clear", &limbs, limbs.basis.len(), &[], &[])?;
        Ok(like.with(limbs))
    }

    fn mapped(&self, kernel: &'static str, x: &Poly, more: &[Argument<'_>]) -> Made<Poly> {
        let out = self.ring.scratch(&x.limbs.basis)?;
        self.ring
            .run_values(kernel, &out, out.basis.len(), &[&x.limbs], more)?;
        Ok(x.with(out))
    }

    fn permuted(&self, x: &Pair<Poly>, galois: u64) -> Made<Pair<Poly>> {
        let one = |x: &Poly| -> Made<Poly> { Ok(x.with(self.ring.permute(&x.limbs, galois)?)) };
        Ok(Pair(one(&x.0)?, one(&x.1)?))
    }

    /// (u + plain) / P', the special limb of u without that of plain: as `keyswitch::switch_products`.
    fn divided_sum(&self, u: &Poly, plain: &Poly) -> Made<Poly> {
        let (q_len, special) = (u.q_len, self.rlwe.p_index(0));
        let limb = |x: &Poly| self.part(&x.limbs, x.q_len, &[special]);
        let rest = self.ring.add(&limb(u)?, &limb(plain)?)?;
        let wide = self
            .ring
            .scratch(&self.basis(&[&[special][..], &self.chain(PLAIN_LIMBS, 0)].concat())?)?;
        self.copy_to(&self.part(&wide, 0, &[special])?, &limb(plain)?)?;
        let lowest = self.chain(PLAIN_LIMBS, 0);
        self.copy_to(
            &self.part(&wide, 1, &lowest)?,
            &self.part(&plain.limbs, 0, &lowest)?,
        )?;
        let lift = self
            .ring
            .sub(&self.lifted(rest, q_len)?, &self.lifted(wide, q_len)?)?;
        self.divided(u, lift, &[special], q_len)
    }

    fn words_of(&self, residues: &[f64]) -> Vec<u64> {
        residues.iter().map(|&x| self.ring.flavour().word(x)).collect()
    }

    /// The halves of each limb in order, as residues.
    fn half_words(&self, halves: impl Iterator<Item = [u64; 2]>) -> Made<Buffer<u64>> {
        let words: Vec<f64> = halves.flatten().map(|w| w as f64).collect();
        self.ring.buffer_of(&self.words_of(&words))
    }

    /// The same as factors.
    fn half_factors(&self, halves: impl Iterator<Item = [u64; 2]>) -> Made<Buffer<u64>> {
        let of = |(i, w): (usize, [u64; 2])| w.map(|w| self.ring.flavour().factor(self.rlwe.modulus(i), w));
        let words: Vec<u64> = halves.enumerate().flat_map(of).flatten().collect();
        self.ring.buffer_of(&words)
    }

    fn with_runs(&self, kernel: &'static str, x: &Poly, runs: &[AlignedVec]) -> Made<Poly> {
        let words: Vec<u64> = runs.iter().flat_map(|runs| self.words_of(runs)).collect();
        let (words, run) = (self.ring.buffer_of(&words)?, self.ring.n() / runs[0].len());
        let more = [Argument::Words(&words), Argument::Number(run.ilog2())];
        self.mapped(kernel, x, &more)
    }

    fn sum_of(&self, sum: &Sum<'_, Poly>, weights: &Weights, limbs: usize) -> Made<Vec<Poly>> {
        let basis = self.basis(&self.chain(limbs, 0))?;
        let count = if sum.products.is_empty() { 2 } else { 3 };
        let mut out = Vec::with_capacity(count);
        for _ in 0..count {
            let limbs = self.ring.scratch(&basis)?;
            self.ring.run_values("clear", &limbs, basis.len(), &[], &[])?;
            out.push(limbs);
        }
        for (t, (x, _)) in sum.multiples.iter().enumerate() {
            let factors = self.half_factors(weights.iter().map(|row| row[t]))?;
            for (out, x) in out.iter().zip(&x.polys) {
                let more = [Argument::Words(&factors)];
                let x = self.first(x, limbs)?.limbs;
                self.ring
                    .run_values("multiply_halves_add", out, limbs, &[&x], &more)?;
            }
        }
        let constant = weights.iter().map(|row| row[sum.multiples.len()]);
        if constant.clone().flatten().any(|w| w != 0) {
            let words = self.half_words(constant)?;
            let more = [Argument::Words(&words)];
            self.ring
                .run_values("add_halves", &out[0], limbs, &[&out[0]], &more)?;
        }
        for (a, b) in &sum.products {
            let half = |x: &Poly| -> Made<Limbs> { Ok(self.first(x, limbs)?.limbs) };
            let [a0, a1] = [half(&a.polys[0])?, half(&a.polys[1])?];
            let [b0, b1] = [half(&b.polys[0])?, half(&b.polys[1])?];
            for (k, x, y) in [(0, &a0, &b0), (1, &a0, &b1), (1, &a1, &b0), (2, &a1, &b1)] {
                self.ring.mul_add_assign(&mut out[k], x, y)?;
            }
        }
        let q_len = limbs;
        Ok(out.into_iter().map(|limbs| Poly { limbs, q_len }).collect())
    }

    /// A sum of products of ciphertexts, in one launch.
    fn sum_tensors<'a>(
        &self,
        pairs: impl Iterator<Item = [&'a Ciphertext<Poly>; 2]>,
        q_len: usize,
    ) -> Made<[Poly; 3]> {
        let halves = |x: &'a Ciphertext<Poly>| [&x.polys[0].limbs, &x.polys[1].limbs];
        let term = |[a, b]: [&'a Ciphertext<Poly>; 2]| {
            let ([a0, a1], [b0, b1]) = (halves(a), halves(b));
            [a0, a1, b0, b1]
        };
        let terms: Vec<[&Limbs; 4]> = pairs.map(term).collect();
        let basis = self.basis(&self.chain(q_len, 0))?;
        let sums = self.ring.sum_tensors(&basis, &terms)?;
        Ok(sums.map(|limbs| Poly { limbs, q_len }))
    }

    /// A sum of products with vectors, in both halves.
    fn sum_runs(&self, terms: &[(&Pair<Poly>, usize)], vectors: &Vectors) -> Made<Pair<Poly>> {
        let half = |of: fn(&Pair<Poly>) -> &Poly| -> Made<Poly> {
            let like = of(terms[0].0);
            let out = self.ring.scratch(&like.limbs.basis)?;
            let all: Vec<_> = terms.iter().map(|(baby, _)| &of(baby).limbs).collect();
            self.ring.owns("sum_runs", &all)?;
            let entry = |(baby, vector): &(&Pair<Poly>, usize)| {
                let [at, log_run] = vectors.places[*vector];
                [of(baby).limbs.lease.first(), at, log_run]
            };
            let table: Vec<u32> = terms.iter().flat_map(entry).collect();
            let table = self.ring.buffer_of(&table)?;
            let more = [
                Argument::Number(terms.len() as u32),
                Argument::Indices(&table),
                Argument::Words(&vectors.words),
            ];
            self.ring
                .run_values("sum_runs", &out, out.basis.len(), &[], &more)?;
            Ok(like.with(out))
        };
        Ok(Pair(half(|pair| &pair.0)?, half(|pair| &pair.1)?))
    }
}
