//! Coefficient products on toy rings: every step decrypted, the whole with the bootstrap behind it.
use std::sync::Arc;
use tacita_ckks::bootstrap::refresh::shallow::{ShallowMatrices, ShallowRefresh};
use tacita_ckks::bootstrap::refresh::{phase, Harmonics};
use tacita_ckks::bootstrap::{self, Bootstrapper};
use tacita_ckks::generator::KeyGenerator;
use tacita_ckks::keys::KeySpec;
use tacita_ckks::{Ciphertext, CkksParameters, Complex64, EvaluationKeys, Evaluator};
use tacita_coefficients::{
    refresh, required_keys, Arrangement, CoefficientKeys, Coefficients, Refresh, Result, ToCoefficients,
    Weights,
};
use tacita_rlwe::{encrypt, SecretKey};

struct Toy {
    evaluator: Evaluator,
    secret: SecretKey,
    keys: CoefficientKeys,
    lower: ToCoefficients,
    maps: Coefficients,
}

impl Toy {
    fn new(name: &str, tokens: usize) -> Self {
        let params = CkksParameters::preset(name).unwrap();
        let secret = SecretKey::generate(params.rlwe()).unwrap();
        let mut specs: Vec<KeySpec> = bootstrap::required_keys(&params);
        for wanted in required_keys(&params) {
            match specs.iter_mut().find(|s| s.kind == wanted.kind) {
                Some(found) => found.limbs = found.limbs.max(wanted.limbs),
                None => specs.push(wanted),
            }
        }
        let mut keys = EvaluationKeys::default();
        let generator = KeyGenerator::new(&params, &secret).unwrap();
        for spec in specs {
            keys.insert(spec.kind, generator.generate(spec).unwrap());
        }
        let own = CoefficientKeys::generate(&params, &secret, tokens).unwrap();
        let evaluator = Evaluator::new(params, Arc::new(keys));
        let maps = Coefficients::new(evaluator.params(), tokens).unwrap();
        Self {
            lower: ToCoefficients::new(&evaluator).unwrap(),
            evaluator,
            secret,
            keys: own,
            maps,
        }
    }

    /// All steps before the refresh.
    fn apply(&self, cts: &[Ciphertext], weights: &Weights) -> Result<Vec<Ciphertext>> {
        let low = cts.iter().map(|ct| self.lower.apply(&self.evaluator, ct));
        let low = low.collect::<std::result::Result<Vec<_>, _>>()?;
        let blocks = self.maps.descend(&self.keys, &low, weights.inputs())?;
        let results = self.maps.multiply(&self.keys, blocks, weights)?;
        self.maps.ascend(&self.keys, &results)
    }

    fn encrypt(&self, matrix: &[f64], features: usize) -> Vec<Ciphertext> {
        let (e, a) = (&self.evaluator, self.maps.arrangement());
        let (p, level) = (e.params(), self.maps.input_level());
        let encrypt = |slots: Vec<Complex64>| {
            let plain = e.encode(&slots, p.scale(level), level + 1).unwrap();
            encrypt::encrypt_secret(p.rlwe(), &self.secret, &plain, p.scale(level))
                .unwrap()
                .0
        };
        pack(a, matrix, features).into_iter().map(encrypt).collect()
    }

    fn decrypt(&self, cts: &[Ciphertext], features: usize) -> Vec<f64> {
        let slots = cts.iter().map(|c| {
            let plain = encrypt::decrypt(self.evaluator.rlwe(), &self.secret, c);
            self.evaluator.decode(&plain, c.scale)
        });
        unpack(self.maps.arrangement(), &slots.collect::<Vec<_>>(), features)
    }
}

/// (tokens, features), row-major, to slots.
fn pack(a: &Arrangement, matrix: &[f64], features: usize) -> Vec<Vec<Complex64>> {
    let slots = a.features() * a.tokens() / 2;
    let mut out = vec![vec![Complex64::new(0.0, 0.0); slots]; a.ciphertexts(features)];
    for (at, &x) in matrix.iter().enumerate() {
        let place = a.place(at / features, at % features);
        let slot = &mut out[place.ciphertext][place.slot];
        *slot += if place.imaginary {
            Complex64::new(0.0, x)
        } else {
            Complex64::new(x, 0.0)
        };
    }
    out
}

fn unpack(a: &Arrangement, slots: &[Vec<Complex64>], features: usize) -> Vec<f64> {
    let entry = |at: usize| {
        let place = a.place(at / features, at % features);
        let slot = slots[place.ciphertext][place.slot];
        if place.imaginary {
            slot.im
        } else {
            slot.re
        }
    };
    (0..a.tokens() * features).map(entry).collect()
}

fn values(n: usize, salt: u64, size: f64) -> Vec<f64> {
    let mut x = salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        ((x >> 11) as f64 / (1u64 << 52) as f64 - 1.0) * size
    };
    (0..n).map(|_| next()).collect()
}

/// x (tokens, inputs) -> x W^T + bias (tokens, outputs).
fn linear(x: &[f64], w: &[f64], bias: &[f64], inputs: usize) -> Vec<f64> {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let row = |x: &[f64]| {
        let outputs = w.chunks_exact(inputs).enumerate();
        outputs
            .map(|(o, w)| dot(x, w) + bias.get(o).unwrap_or(&0.0))
            .collect::<Vec<_>>()
    };
    x.chunks_exact(inputs).flat_map(row).collect()
}

fn worst(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max)
}

/// The refresh behind the product.
fn refreshed(toy: &Toy, low: &[Ciphertext]) -> Vec<Ciphertext> {
    let b = Bootstrapper::new(&toy.evaluator).unwrap();
    let low: Vec<&Ciphertext> = low.iter().collect();
    refresh(&toy.evaluator, &Refresh::Whole(&b), &low, 0).unwrap()
}

#[test]
fn two_products_with_a_refresh_between_them_are_those_of_floats() {
    const TOKENS: usize = 16;
    let toy = Toy::new("insecure_toy_n10", TOKENS);
    let a = toy.maps.arrangement();
    assert_eq!((a.features(), a.block(), a.ratio()), (64, 8, 8));
    // More than one ciphertext, and numbers that no block divides.
    let (inputs, inner, outputs) = (83, 130, 9);
    let x = values(TOKENS * inputs, 1, 0.9);
    let (w1, b1) = (values(inner * inputs, 2, 0.1), values(inner, 3, 0.05));
    let (w2, b2) = (values(outputs * inner, 4, 0.1), values(outputs, 5, 0.05));
    let first = toy.maps.weights((inner, inputs), &w1, &b1).unwrap();
    let second = toy.maps.weights((outputs, inner), &w2, &b2).unwrap();

    let low = toy.apply(&toy.encrypt(&x, inputs), &first).unwrap();
    assert_eq!((low.len(), low[0].limbs()), (3, 1));
    let fresh = refreshed(&toy, &low);
    assert_eq!(fresh[0].level(), toy.evaluator.params().top_level());
    let y = linear(&x, &w1, &b1, inputs);
    let error = worst(&toy.decrypt(&fresh, inner), &y);
    assert!(error.log2() < -17.0, "2^{:.1}", error.log2());

    let low = toy.apply(&fresh, &second).unwrap();
    let z = linear(&y, &w2, &b2, inner);
    let error = worst(&toy.decrypt(&refreshed(&toy, &low), outputs), &z);
    assert!(error.log2() < -16.0, "2^{:.1}", error.log2());
}

/// sin(2 x) by one harmonic of the angle of z, which is not calibrated.
#[test]
fn a_refresh_through_a_function_follows_a_product() {
    const TOKENS: usize = 8;
    let toy = Toy::new("insecure_toy_n8", TOKENS);
    let (inputs, outputs) = (32, 32);
    let x = values(TOKENS * inputs, 1, 1.0);
    let w = values(outputs * inputs, 2, 0.1);
    let weights = toy.maps.weights((outputs, inputs), &w, &[]).unwrap();
    let cts = toy.encrypt(&x, inputs);
    let low = toy.apply(&cts, &weights).unwrap();
    let (zero, minus_i) = (Complex64::new(0.0, 0.0), Complex64::new(0.0, -1.0));
    let sine = Harmonics::new(&[zero, zero, minus_i]).unwrap();
    let e = &toy.evaluator;
    let b = Bootstrapper::new(e).unwrap();
    let angle = 2.0 * phase(e.params());
    let wanted: Vec<f64> = linear(&x, &w, &[], inputs)
        .iter()
        .map(|y| (angle * y).sin())
        .collect();
    let matrices = ShallowMatrices::new(e, sine.depth(), toy.maps.input_level()).unwrap();
    let shallow = ShallowRefresh::new(e, Arc::new(matrices)).unwrap();
    let low: Vec<&Ciphertext> = low.iter().collect();
    for (how, level) in [
        (Refresh::Through(&b, &sine), e.params().top_level() - 1),
        (Refresh::Shallow(&shallow, &sine), toy.maps.input_level()),
    ] {
        let found = refresh(e, &how, &low, 1).unwrap();
        assert_eq!(found[0].level(), level);
        let error = worst(&toy.decrypt(&found, outputs), &wanted);
        assert!(error.log2() < -20.0, "2^{:.1}", error.log2());
    }
}

/// Before the refresh adds its own error: coefficients, decrypted, against the stated one. Merged, and with
/// split inputs in two parts.
#[test]
fn the_product_alone_is_right_to_the_stated_error() {
    const TOKENS: usize = 16;
    let toy = Toy::new("insecure_toy_n10", TOKENS);
    assert!(!toy.maps.arrangement().splits(64, 64) && toy.maps.arrangement().splits(40, 64));
    // A lowest prime of 44 bits holds messages at a scale of 2^36.5: far below a bootstrap's 2^-22.
    for (inputs, least, most) in [(64, -36.0, -28.0), (40, -36.0, -24.0)] {
        let error = error_of_product(&toy, inputs, 64);
        assert!((least..most).contains(&error), "2^{error:.1}");
    }
}

/// log2 of the largest error of a product whose results fill one ciphertext.
fn error_of_product(toy: &Toy, inputs: usize, outputs: usize) -> f64 {
    const TOKENS: usize = 16;
    let x = values(TOKENS * inputs, 1, 1.0);
    let w = values(outputs * inputs, 2, 0.1);
    let weights = toy.maps.weights((outputs, inputs), &w, &[]).unwrap();
    let cts = toy.encrypt(&x, inputs);
    let low = toy.apply(&cts, &weights).unwrap();
    // Coefficients r and r + N/2 are the parts of slot brv(r).
    let plain = encrypt::decrypt(toy.evaluator.rlwe(), &toy.secret, &low[0]);
    let m = toy.evaluator.rlwe().modulus(0);
    let found: Vec<f64> = plain
        .limb_coefficients(toy.evaluator.rlwe(), 0)
        .iter()
        .map(|&c| m.center(c as u64) as f64 / low[0].scale)
        .collect();
    let slots = found.len() / 2;
    let bits = usize::BITS - slots.trailing_zeros();
    let slot = |j: usize| {
        let r = j.reverse_bits() >> bits;
        Complex64::new(found[r], found[r + slots])
    };
    let y = unpack(toy.maps.arrangement(), &[(0..slots).map(slot).collect()], outputs);
    worst(&y, &linear(&x, &w, &[], inputs)).log2()
}

#[test]
fn what_does_not_fit_is_refused() {
    let toy = Toy::new("insecure_toy_n8", 4);
    let (e, maps) = (&toy.evaluator, &toy.maps);
    let weights = |shape, matrix: &[f64], bias: &[f64]| maps.weights(shape, matrix, bias);
    let cts = toy.encrypt(&values(4 * 8, 1, 1.0), 8);
    let eight = weights((8, 8), &[0.1; 64], &[]).unwrap();
    assert!(toy.apply(&cts, &eight).is_ok());
    assert!(toy.apply(&[cts[0].clone(), cts[0].clone()], &eight).is_err());
    let low = e.drop_to(&cts[0], maps.input_level() - 1).unwrap();
    let refused = toy.apply(&[low], &eight).err();
    let error = refused.map(|e| e.to_string()).unwrap();
    assert!(error.contains("needs 1 more level"), "{error}");
    assert!(maps.multiply(&toy.keys, vec![], &eight).is_err());
    let (block, matrix) = (maps.arrangement().block(), values(20 * 8, 2, 0.1));
    let many = weights((20 * 8 / block, block), &matrix, &[]).unwrap();
    assert!(maps.arrangement().splits(block, 20 * 8 / block));
    assert!(maps.multiply(&toy.keys, vec![], &many).is_err());
    for (matrix, bias) in [
        (&[0.1; 63][..], &[][..]),
        (&[0.1; 64], &[0.1; 7]),
        (&[f64::NAN; 64], &[]),
        (&[f64::INFINITY; 64], &[]),
        (&[1e9; 64], &[]),
        (&[0.1; 64], &[f64::NAN; 8]),
    ] {
        assert!(weights((8, 8), matrix, bias).is_err());
    }
    assert!(weights((0, 8), &[], &[]).is_err());
    assert!(Coefficients::new(e.params(), 5).is_err());
    let leveled = CkksParameters::preset("insecure_toy_leveled_n9").unwrap();
    assert!(Coefficients::new(&leveled, 4).is_err());
}

#[test]
fn the_small_ring_of_the_full_preset_is_secure() {
    let params = CkksParameters::preset("n16").unwrap();
    let pair = tacita_rlwe::RingPair::new(params.rlwe(), 13, 2).unwrap();
    assert_eq!((pair.small().security_bits(), pair.ratio()), (128, 8));
    assert!((pair.small().log_qp() - 133.9).abs() < 0.1);
    let toy = CkksParameters::preset("insecure_toy_n10").unwrap();
    assert!(tacita_rlwe::RingPair::new(toy.rlwe(), 7, 2)
        .unwrap()
        .small()
        .name()
        .starts_with("insecure_"));
}
