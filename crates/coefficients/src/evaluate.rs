//! The steps of a coefficient product in the small ring, on the processor.
use crate::arrangement::{input_level, log_small, LIMBS};
use crate::weights::Target;
use crate::{Arrangement, CoefficientError, CoefficientKeys, Result, Weights};
use rayon::prelude::*;
use tacita_bfv::matmul::packing::split;
use tacita_bfv::matmul::product::Inputs;
use tacita_bfv::matmul::rounds::products;
use tacita_ckks::{Ciphertext, CkksParameters};
use tacita_rlwe::{keyswitch, RingPair, RnsPoly};

/// Input blocks that are split at once: of 64 features each they take 64 MB at n = 8192.
const AT_ONCE: usize = 4;

/// Rings and scales of coefficient products for one number of tokens.
pub struct Coefficients {
    params: CkksParameters,
    pair: RingPair,
    arrangement: Arrangement,
    /// X^-shift over the small ring's primes, in NTT form.
    monomial: RnsPoly,
}

impl Coefficients {
    /// # Errors
    /// For a preset without bootstrapping, a small ring below 128 bits that is not called insecure, or a
    /// number of tokens that is no power of two.
    pub fn new(p: &CkksParameters, tokens: usize) -> Result<Self> {
        if !p.can_bootstrap() {
            return Err(CoefficientError::Shape {
                op: "coefficient products",
                detail: format!("preset {} does not bootstrap; hint: preset n16", p.rlwe().name()),
            });
        }
        let pair = RingPair::new(p.rlwe(), log_small(p), LIMBS)?;
        let arrangement = Arrangement::new(p.rlwe().log_n(), log_small(p), tokens)?;
        Ok(Self {
            monomial: downwards(&pair, arrangement.shift()),
            params: p.clone(),
            pair,
            arrangement,
        })
    }

    /// Which slot holds what.
    pub fn arrangement(&self) -> &Arrangement {
        &self.arrangement
    }
    /// The rings.
    pub fn pair(&self) -> &RingPair {
        &self.pair
    }
    /// Native level that inputs must have: one above that of a bootstrap.
    pub fn input_level(&self) -> usize {
        input_level(&self.params)
    }
    /// Scale of results: what modular reduction expects.
    pub fn result_scale(&self) -> f64 {
        self.params.coefficient_scale()
    }
    /// Scale of weights: leads from the scale of coefficients to that of results by the second prime.
    pub fn weight_scale(&self) -> f64 {
        self.result_scale() * self.params.prime(LIMBS - 1) / self.params.scale(self.input_level())
    }

    /// A plain matrix as the integers that the product takes.
    ///
    /// matrix: (outputs, inputs), row-major. bias: by output, or empty. For messages in [-1, 1] results must
    /// lie there too: what is larger goes into a scale of the matrix.
    ///
    /// # Errors
    /// [`CoefficientError::Shape`] for lengths that do not fit together and values that are not finite or too
    /// large.
    pub fn weights(&self, shape: (usize, usize), matrix: &[f64], bias: &[f64]) -> Result<Weights> {
        let to = Target {
            arrangement: &self.arrangement,
            weight_scale: self.weight_scale(),
            result_scale: self.result_scale(),
        };
        Weights::new(to, shape, matrix, bias)
    }

    /// Ciphertexts of `features` features in coefficients -> their blocks in the small ring, in order.
    ///
    /// # Errors
    /// [`CoefficientError::Shape`] for another number of ciphertexts.
    pub fn descend(
        &self,
        keys: &CoefficientKeys,
        cts: &[Ciphertext],
        features: usize,
    ) -> Result<Vec<Ciphertext>> {
        let a = &self.arrangement;
        if cts.len() != a.ciphertexts(features) {
            let (found, each) = (cts.len(), a.features());
            let detail = format!("{found} ciphertexts for {features} features, {each} in each");
            return Err(CoefficientError::Shape {
                op: "coefficient product",
                detail,
            });
        }
        let mut blocks = Vec::with_capacity(cts.len() * a.ratio());
        for ct in cts {
            let mut classes: Vec<_> = self
                .pair
                .descend(keys.rings(), ct)?
                .into_iter()
                .map(Some)
                .collect();
            blocks.extend((0..a.ratio()).filter_map(|block| classes[a.class(block)].take()));
        }
        blocks.truncate(a.blocks(features));
        Ok(blocks)
    }

    /// Blocks of inputs -> blocks of results, rescaled to the lowest prime. W x + bias.
    ///
    /// Cost for b blocks in and c out of m_w features: b c m_w plain transforms and products a limb, and
    /// min(b, c) (m_w - 1) automorphisms: see [`Arrangement::splits`].
    ///
    /// # Errors
    /// For blocks that do not fit the weights.
    pub fn multiply(
        &self,
        keys: &CoefficientKeys,
        blocks: Vec<Ciphertext>,
        weights: &Weights,
    ) -> Result<Vec<Ciphertext>> {
        let sums = if weights.split {
            self.split_products(keys, &blocks, weights)?
        } else {
            self.merged_products(keys, blocks, weights)?
        };
        let finish = |(block, ct)| self.finish(ct, weights, block);
        Ok(sums.into_par_iter().enumerate().map(finish).collect())
    }

    /// Many results of few inputs: each feature becomes a ciphertext, and a product fills a block of results.
    fn split_products(
        &self,
        keys: &CoefficientKeys,
        blocks: &[Ciphertext],
        weights: &Weights,
    ) -> Result<Vec<Ciphertext>> {
        let (a, small) = (&self.arrangement, self.pair.small());
        if blocks.len() != a.blocks(weights.inputs) {
            let detail = format!("{} blocks do not fit {} features", blocks.len(), weights.inputs);
            return Err(CoefficientError::Shape {
                op: "coefficient product",
                detail,
            });
        }
        let one = |ct: &Ciphertext| split(small, keys.automorphisms(), ct.clone(), a.block().ilog2());
        let mut sums: Vec<Ciphertext> = Vec::new();
        let rows = weights.integers.len() / blocks.len();
        for (part, right) in blocks
            .chunks(AT_ONCE)
            .zip(weights.integers.chunks(AT_ONCE * rows))
        {
            let layout = a.layout(part.len() * a.block(), weights.outputs, true);
            let inputs = Inputs {
                left: part.par_iter().flat_map_iter(one).collect(),
                right,
                crossed: None,
            };
            let more = products(small, keys.automorphisms(), &layout, LIMBS, inputs)?;
            if sums.is_empty() {
                sums = more;
                continue;
            }
            let polys = |ct: Vec<Ciphertext>| ct.into_iter().flat_map(|ct| ct.polys);
            let onto = sums.iter_mut().flat_map(|ct| &mut ct.polys);
            onto.zip(polys(more))
                .for_each(|(sum, poly)| sum.add_assign(small, &poly));
        }
        Ok(sums)
    }

    /// Few results of many inputs: a product gives one feature, and a tree merges those of a block.
    fn merged_products(
        &self,
        keys: &CoefficientKeys,
        mut blocks: Vec<Ciphertext>,
        weights: &Weights,
    ) -> Result<Vec<Ciphertext>> {
        let small = self.pair.small();
        blocks
            .par_iter_mut()
            .flat_map(|ct| &mut ct.polys)
            .for_each(|poly| poly.mul_assign(small, &self.monomial));
        let layout = self.arrangement.layout(weights.inputs, weights.outputs, false);
        let inputs = Inputs {
            left: blocks,
            right: &weights.integers,
            crossed: None,
        };
        Ok(products(small, keys.automorphisms(), &layout, LIMBS, inputs)?)
    }

    /// Rescales a block of results and adds its biases.
    fn finish(&self, ct: Ciphertext, weights: &Weights, block: usize) -> Ciphertext {
        let small = self.pair.small();
        let rescaled = ct.polys.into_iter().map(|poly| keyswitch::rescale(small, poly));
        let mut polys: Vec<RnsPoly> = rescaled.collect();
        if !weights.bias.is_empty() {
            polys[0].add_assign(small, &self.biases(weights, block));
        }
        Ciphertext {
            polys,
            scale: self.result_scale(),
        }
    }

    fn biases(&self, weights: &Weights, block: usize) -> RnsPoly {
        let (a, small) = (&self.arrangement, self.pair.small());
        let mut coefficients = vec![0i64; small.n()];
        for (feature, &bias) in weights.bias[block * a.block()..][..a.block()].iter().enumerate() {
            a.coefficients(feature).for_each(|at| coefficients[at] = bias);
        }
        RnsPoly::from_small(small, &coefficients, 1, 0)
    }

    /// Blocks of results -> large ciphertexts of one limb, ready to be raised; missing blocks count as zero.
    ///
    /// # Errors
    /// For blocks that were not rescaled to one limb.
    pub fn ascend(&self, keys: &CoefficientKeys, blocks: &[Ciphertext]) -> Result<Vec<Ciphertext>> {
        let a = &self.arrangement;
        let one = |part: &[Ciphertext]| {
            let class = |class: usize| part.get(a.class(class)).cloned().unwrap_or_else(|| self.zero());
            let classes: Vec<Ciphertext> = (0..a.ratio()).map(class).collect();
            Ok(self.pair.ascend(keys.rings(), &classes)?)
        };
        blocks.par_chunks(a.ratio()).map(one).collect()
    }

    fn zero(&self) -> Ciphertext {
        let poly = || RnsPoly::zero(self.pair.small(), 1, 0);
        Ciphertext {
            polys: vec![poly(), poly()],
            scale: self.result_scale(),
        }
    }
}

/// X^-shift = -X^(n - shift).
fn downwards(pair: &RingPair, shift: usize) -> RnsPoly {
    let mut x = vec![0i64; pair.small().n()];
    match shift {
        0 => x[0] = 1,
        _ => x[pair.small().n() - shift] = -1,
    }
    RnsPoly::from_small(pair.small(), &x, LIMBS, 0)
}
