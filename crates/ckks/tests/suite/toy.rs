//! A toy client and server for tests: insecure rings, keys from the operating system's randomness.
use num_complex::Complex64;
use std::sync::Arc;
use tacita_ckks::generator::KeyGenerator;
use tacita_ckks::keys::{galois_of_conjugation, galois_of_rotation, KeySpec};
use tacita_ckks::{bootstrap, Ciphertext, CkksParameters, EvaluationKeys, Evaluator, KeyKind};
use tacita_rlwe::{encrypt, SecretKey};

pub struct Toy {
    pub evaluator: Evaluator,
    pub secret: SecretKey,
}

impl Toy {
    pub fn new(name: &str, rotations: &[i64], with_bootstrap: bool) -> Self {
        let params = CkksParameters::preset(name).unwrap();
        let secret = SecretKey::generate(params.rlwe()).unwrap();
        let mut keys = EvaluationKeys::default();
        {
            let generator = KeyGenerator::new(&params, &secret).unwrap();
            let all = params.rlwe().q_len();
            let mut specs = if with_bootstrap {
                bootstrap::required_keys(&params)
            } else {
                vec![]
            };
            let mut want = vec![
                KeyKind::Relinearise,
                KeyKind::Galois(galois_of_conjugation(&params)),
            ];
            want.extend(
                rotations
                    .iter()
                    .map(|&r| KeyKind::Galois(galois_of_rotation(&params, r))),
            );
            for kind in want {
                match specs.iter_mut().find(|s| s.kind == kind) {
                    Some(s) => s.limbs = all,
                    None => specs.push(KeySpec { kind, limbs: all }),
                }
            }
            for spec in specs {
                keys.insert(spec.kind, generator.generate(spec).unwrap());
            }
        }
        Self {
            evaluator: Evaluator::new(params, Arc::new(keys)),
            secret,
        }
    }

    pub fn encrypt(&self, v: &[Complex64], level: usize) -> Ciphertext {
        let p = self.evaluator.params();
        let plain = self.evaluator.encode(v, p.scale(level), level + 1).unwrap();
        encrypt::encrypt_secret(p.rlwe(), &self.secret, &plain, p.scale(level))
            .unwrap()
            .0
    }

    pub fn decrypt(&self, c: &Ciphertext) -> Vec<Complex64> {
        let plain = encrypt::decrypt(self.evaluator.rlwe(), &self.secret, c);
        self.evaluator.decode(&plain, c.scale)
    }
}

/// Deterministic values in the square [-1, 1] x [-i, i].
pub fn values(n: usize, salt: u64, complex: bool) -> Vec<Complex64> {
    let mut x = salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..n)
        .map(|_| {
            let re = next();
            Complex64::new(re, if complex { next() } else { 0.0 })
        })
        .collect()
}

pub fn worst(a: &[Complex64], b: &[Complex64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(x, y)| (x - y).norm()).fold(0.0, f64::max)
}

pub fn average(a: &[Complex64], b: &[Complex64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| (x - y).norm()).sum::<f64>() / a.len() as f64
}
