//! Encoding: complex slots <-> integer coefficients.
//!
//! Slot j is the value of the polynomial at zeta^(5^j), zeta = exp(i*pi/N). A vector whose length p divides
//! the number of slots is repeated over them: it is a polynomial in X^(N/2p), so its NTT has only 2p
//! different values, each repeated in a run of N/2p. Such *periodic* plaintexts are stored as those 2p
//! values.
use crate::CkksError;
use num_complex::Complex64;
use std::f64::consts::PI;
use zeroize::Zeroize;

/// Special FFT (Cheon, Han, Kim, Kim, Song, ePrint 2018/1043) for every power of two up to `slots`.
pub struct Encoder {
    slots: usize,
    /// Of butterflies of length 2, 4, 8 and so on, one after the other: 1, 2, 4, ... twiddle factors.
    twiddles: Vec<Complex64>,
}

impl Encoder {
    /// Tables for a ring of degree 2*slots.
    pub fn new(slots: usize) -> Self {
        let m = 4 * slots;
        let root = |k: usize| Complex64::from_polar(1.0, 2.0 * PI * k as f64 / m as f64);
        let mut twiddles = Vec::with_capacity(slots);
        let mut len = 2;
        while len <= slots {
            let (period, mut power) = (4 * len, 1);
            for _ in 0..len / 2 {
                twiddles.push(root(power * (m / period)));
                power = power * 5 % period;
            }
            len *= 2;
        }
        Self { slots, twiddles }
    }

    /// The twiddle factors of a butterfly of length `len`: exp(2*pi*i * 5^j / (4*len)) at j < len / 2.
    pub fn twiddles(&self, len: usize) -> &[Complex64] {
        &self.twiddles[len / 2 - 1..len - 1]
    }

    /// Coefficients (first real parts, then imaginary parts; 2p values) of the polynomial with the given p
    /// slots.
    pub fn coefficients(&self, values: &[Complex64]) -> Vec<f64> {
        let mut v = values.to_vec();
        let n = v.len();
        let mut len = n;
        while len >= 2 {
            let half = len / 2;
            for block in v.chunks_exact_mut(len) {
                let (low, high) = block.split_at_mut(half);
                for ((x, y), w) in low.iter_mut().zip(high).zip(self.twiddles(len)) {
                    (*x, *y) = (*x + *y, (*x - *y) * w.conj());
                }
            }
            len /= 2;
        }
        bit_reverse(&mut v);
        let scale = 1.0 / n as f64;
        let (re, im): (Vec<f64>, Vec<f64>) = v.iter().map(|z| (z.re * scale, z.im * scale)).unzip();
        [re, im].concat()
    }

    /// The same times `scale`, rounded, for a vector that repeats over the slots; at least 32 values.
    ///
    /// # Errors
    /// [`CkksError::Shape`] for a bad length or a value too large for the scale.
    pub(crate) fn integers(&self, v: &[Complex64], scale: f64) -> Result<Vec<i64>, CkksError> {
        let mut rounded = self.rounded(v, scale)?;
        let integers = rounded.iter().map(|&c| c as i64).collect();
        rounded.zeroize();
        Ok(integers)
    }

    /// [`Self::integers`] as doubles, below 4e18.
    ///
    /// # Errors
    /// The same.
    pub(crate) fn rounded(&self, v: &[Complex64], scale: f64) -> Result<Vec<f64>, CkksError> {
        let (p, slots) = (v.len(), self.slots);
        if !p.is_power_of_two() || p > slots {
            return Err(CkksError::Shape {
                op: "encode",
                detail: format!(
                    "a vector of length {p} does not repeat over {slots} slots; hint: pad it to a power of \
                    two"
                ),
            });
        }
        let tiled = if p < 16 {
            v.iter().copied().cycle().take(16).collect()
        } else {
            v.to_vec()
        };
        let mut coefficients = self.coefficients(&tiled);
        for c in &mut coefficients {
            *c = (*c * scale).round() + 0.0; // never -0
        }
        if !coefficients.iter().all(|c| c.abs() < 4e18) {
            coefficients.zeroize();
            return Err(CkksError::Shape {
                op: "encode",
                detail: format!(
                    "a value is not finite or too large for log2 scale {:.1}",
                    scale.log2()
                ),
            });
        }
        Ok(coefficients)
    }

    /// The slots of the polynomial with these 2p coefficients.
    pub fn slots(&self, coefficients: &[f64]) -> Vec<Complex64> {
        let n = coefficients.len() / 2;
        let mut v: Vec<Complex64> = (0..n)
            .map(|k| Complex64::new(coefficients[k], coefficients[k + n]))
            .collect();
        bit_reverse(&mut v);
        let mut len = 2;
        while len <= n {
            let half = len / 2;
            for block in v.chunks_exact_mut(len) {
                let (low, high) = block.split_at_mut(half);
                for ((x, y), w) in low.iter_mut().zip(high).zip(self.twiddles(len)) {
                    let turned = *y * w;
                    (*x, *y) = (*x + turned, *x - turned);
                }
            }
            len *= 2;
        }
        v
    }
}

fn bit_reverse<T>(v: &mut [T]) {
    let bits = v.len().trailing_zeros();
    if bits == 0 {
        return;
    }
    for i in 0..v.len() {
        let j = i.reverse_bits() >> (usize::BITS - bits);
        if i < j {
            v.swap(i, j);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_evaluations_at_powers_of_five() {
        let e = Encoder::new(8);
        let c: Vec<f64> = (0..16).map(|i| (i * i % 7) as f64 - 3.0).collect();
        let s = e.slots(&c);
        for (j, &got) in s.iter().enumerate() {
            let zeta = Complex64::from_polar(1.0, PI / 16.0).powu(5u32.pow(j as u32) % 32);
            let want: Complex64 = c.iter().enumerate().map(|(k, &x)| x * zeta.powu(k as u32)).sum();
            assert!((got - want).norm() < 1e-9);
        }
        let back = e.coefficients(&s);
        assert!(back.iter().zip(&c).all(|(a, b)| (a - b).abs() < 1e-9));
    }
}
