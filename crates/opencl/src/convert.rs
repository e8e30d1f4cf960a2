//! Conversions between bases of primes, and rescaling.

use crate::limbs::{Basis, Factors, Limbs, Scales};
use crate::queue::Argument;
use crate::{OpenClError, Ring};
use opencl3::memory::Buffer;
use std::sync::Arc;
use tacita_ring::{BaseConverter, Modulus};

/// Sources of a conversion: what sums of integers have room for.
const MAX_SOURCES: usize = 1024;

/// The constants of [`tacita_ring::BaseConverter`] for two bases of a ring.
pub struct Converter {
    source: Arc<Basis>,
    target: Arc<Basis>,
    scales: Scales,
    /// By target, those of every source, then that of the overflow.
    weights: Buffer<u64>,
    /// 1/q of every source, as doubles in both flavours.
    inverses: Buffer<u64>,
}

/// The constants of [`Ring::rescale`].
pub struct Rescaler {
    basis: Arc<Basis>,
    rest: Arc<Basis>,
    last: Converter,
    inverses: Factors,
}

impl Ring {
    /// The conversion from one basis to another: see [`tacita_ring::BaseConverter`].
    ///
    /// # Errors
    /// When there are too many sources, or memory is short.
    pub fn converter(&self, source: &Arc<Basis>, target: &Arc<Basis>) -> Result<Converter, OpenClError> {
        if source.len() > MAX_SOURCES {
            let reason = format!("{} sources, at most {MAX_SOURCES}", source.len());
            return Err(OpenClError::mismatch("Ring::converter", reason));
        }
        let moduli = |basis: &Basis| {
            basis
                .indices
                .iter()
                .map(|&i| *self.modulus(i))
                .collect::<Vec<Modulus>>()
        };
        let [from, to] = [source, target].map(|basis| moduli(basis));
        let host = BaseConverter::new(&from, &to);
        let scales: Vec<u64> = (0..from.len()).map(|i| host.input_scale(i)).collect();
        let others = |i: usize, m: &Modulus| {
            let others = from.iter().enumerate().filter(|&(l, _)| l != i);
            others.fold(1, |product, (_, q)| m.mul(product, q.p()))
        };
        let weights = |m: &Modulus| -> Vec<u64> {
            let integers = (0..from.len()).map(|i| others(i, m));
            // No source has this index: all of them are others.
            let overflow = std::iter::once(m.neg(others(from.len(), m)));
            integers
                .chain(overflow)
                .flat_map(|w| self.flavour().factor(m, w))
                .collect()
        };
        let weights: Vec<u64> = to.iter().flat_map(weights).collect();
        let inverses: Vec<u64> = from.iter().map(|q| (1.0 / q.p() as f64).to_bits()).collect();
        Ok(Converter {
            source: Arc::clone(source),
            target: Arc::clone(target),
            scales: self.scales(source, &scales)?,
            weights: self.buffer_of(&weights)?,
            inverses: self.buffer_of(&inverses)?,
        })
    }

    /// Coefficients modulo the target of values modulo the source: the inverse transform, its scaling by
    /// [`BaseConverter::input_scale`], and [`BaseConverter::convert`]. What x holds becomes its scaled
    /// coefficients.
    ///
    /// # Errors
    /// As [`Ring::add`].
    pub fn convert(&self, x: &mut Limbs, converter: &Converter) -> Result<Limbs, OpenClError> {
        self.convert_by("convert", x, converter, &[])
    }

    /// The same with [`BaseConverter::convert_exact`]. Its sum of quotients is one of doubles, whose bits
    /// integers give too.
    ///
    /// # Errors
    /// As [`Ring::add`].
    pub fn convert_exact(&self, x: &mut Limbs, converter: &Converter) -> Result<Limbs, OpenClError> {
        let inverses = [Argument::Words(&converter.inverses)];
        self.convert_by("convert_exact", x, converter, &inverses)
    }

    fn convert_by(
        &self,
        kernel: &'static str,
        x: &mut Limbs,
        converter: &Converter,
        more: &[Argument<'_>],
    ) -> Result<Limbs, OpenClError> {
        self.inverse_scaled(x, &converter.scales)?;
        let out = self.scratch(&converter.target)?;
        let constants = [
            Argument::Indices(&converter.source.words),
            Argument::Number(converter.source.len() as u32),
            Argument::Words(&converter.weights),
        ];
        let arguments = [&constants, more].concat();
        self.run_values(kernel, &out, out.basis.len(), &[x], &arguments)?;
        Ok(out)
    }

    /// What divides limbs of this basis by its last prime.
    ///
    /// # Errors
    /// When it has one prime alone, or one twice, or memory is short.
    pub fn rescaler(&self, basis: &Arc<Basis>) -> Result<Rescaler, OpenClError> {
        let (&last, rest) = basis.indices.split_last().unwrap_or((&0, &[]));
        let rest = self.basis(rest)?;
        let q = self.modulus(last).p();
        let inverse = |&i: &usize| self.modulus(i).inv(q % self.modulus(i).p());
        let inverses: Vec<u64> = rest.indices.iter().map(inverse).collect();
        if inverses.contains(&0) {
            return Err(OpenClError::mismatch(
                "Ring::rescaler",
                format!("prime {last} comes twice"),
            ));
        }
        Ok(Rescaler {
            basis: Arc::clone(basis),
            last: self.converter(&self.basis(&[last])?, &rest)?,
            inverses: self.factors(&rest, &inverses)?,
            rest,
        })
    }

    /// (x - the centred last limb) / the last prime, values in and out, one limb fewer.
    ///
    /// # Errors
    /// As [`Ring::add`].
    pub fn rescale(&self, x: &Limbs, rescaler: &Rescaler) -> Result<Limbs, OpenClError> {
        Self::same_basis("Ring::rescale", &x.basis, &rescaler.basis)?;
        let mut last = self.copy(x, rescaler.rest.len(), &rescaler.last.source)?;
        let mut lift = self.convert(&mut last, &rescaler.last)?;
        self.forward(&mut lift)?;
        let first = self.copy(x, 0, &rescaler.rest)?;
        self.sub_mul_scalar(&first, &lift, &rescaler.inverses)
    }
}
