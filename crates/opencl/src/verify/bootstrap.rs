//! Whole bootstraps on the device and on the processor: of a toy ring, or at parameters in use.

use super::Check;
use crate::{Build, Device, Engine, OpenClError, Room};
use std::sync::Arc;
use tacita_ckks::backend::{Backend, CiphertextOf as Of};
use tacita_ckks::bootstrap::{required_keys, Bootstrapper, Content};
use tacita_ckks::generator::KeyGenerator;
use tacita_ckks::{Ciphertext, CkksError, CkksParameters, Complex64, EvaluationKeys, Evaluator};
use tacita_rlwe::{encrypt, SecretKey, SwitchingKey};

/// Limbs that it holds at once, and room.
const SLOTS: u32 = 8192;
/// Bytes of the matrices a coefficient of the ring, and of what else a processor holds meanwhile: 1 GB each
/// at N = 2^16.
const MATRICES: u64 = 16_000;
const WORKING: u64 = 16_000;

/// A bootstrap of complex values on the processor, under a key of its own that is dropped: what devices are
/// compared with.
pub struct ReferenceBootstrap {
    params: CkksParameters,
    keys: Arc<EvaluationKeys>,
    input: Ciphertext,
    expected: Ciphertext,
}

impl ReferenceBootstrap {
    /// Bytes that a comparison takes at most: of the processor, and of the device.
    pub fn memory(params: &CkksParameters) -> [u64; 2] {
        let (rlwe, mut keys) = (params.rlwe(), [0, 0]);
        for spec in required_keys(params) {
            let (special, gadget) = spec.shape(params);
            let digits = SwitchingKey::digits(rlwe, (spec.limbs, special), gadget);
            // As they are made, and packed.
            keys[0] += (2 * digits * (spec.limbs + special) * rlwe.n() * size_of::<f64>()) as u64;
            keys[1] += spec.bytes(params) as u64;
        }
        let [matrices, working] = [MATRICES, WORKING].map(|each| each << rlwe.log_n());
        let room = Room::of(rlwe.log_n(), rlwe.q_len() + rlwe.p_len(), SLOTS).total;
        [keys[0] + matrices + working, keys[1] + matrices + room]
    }

    /// Makes keys, encrypts and bootstraps on the processor.
    ///
    /// # Errors
    /// For parameters without bootstrapping, or when the operating system gives no randomness.
    pub fn new(params: CkksParameters) -> Result<Self, CkksError> {
        let secret = SecretKey::generate(params.rlwe())?;
        let generator = KeyGenerator::new(&params, &secret)?;
        let mut keys = EvaluationKeys::default();
        for spec in required_keys(&params) {
            keys.insert(spec.kind, generator.generate(spec)?);
        }
        let keys = Arc::new(keys);
        let host = Evaluator::new(params.clone(), keys.clone());
        let level = params.bottom_level();
        let value = |j: usize| (j % 13) as f64 / 7.5 - 0.8;
        let values = (0..params.slots()).map(|j| Complex64::new(value(j), value(3 * j)));
        let values: Vec<Complex64> = values.collect();
        let plain = host.encode(&values, params.scale(level), level + 1)?;
        let (input, _) = encrypt::encrypt_secret(params.rlwe(), &secret, &plain, params.scale(level))?;
        let expected = bootstrap(&host, &input)?;
        Ok(Self {
            params,
            keys,
            input,
            expected,
        })
    }

    /// The same bootstrap on a device, compared bit for bit.
    ///
    /// # Errors
    /// When the device fails or is too small.
    pub fn compare(&self, device: &Device, build: Build) -> Result<Check, OpenClError> {
        self.compared(device, build).map_err(device_error)
    }

    fn compared(&self, device: &Device, build: Build) -> Result<Check, CkksError> {
        let (rlwe, flavour) = (self.params.rlwe(), build.flavour);
        let engine = Engine::new(device, build, rlwe, SLOTS)?;
        let copies = self.keys.copied(|key| engine.upload_key(key))?;
        let device = Evaluator::on(Arc::new(engine), self.params.clone(), Arc::new(copies));
        let made = bootstrap(&device, &device.backend().upload(&self.input)?)?;
        let made = device.backend().download(&made)?;
        let expected = &self.expected;
        let pairs = || {
            let polys = expected.polys.iter().zip(&made.polys);
            polys
                .flat_map(|(a, b)| a.limbs.iter().zip(&b.limbs))
                .flat_map(|(a, b)| a.iter().zip(&**b))
        };
        let same_shape = expected.limbs() == made.limbs() && expected.scale.to_bits() == made.scale.to_bits();
        let residues = pairs().count() as u64;
        Ok(Check {
            kernel: "bootstrap",
            flavour,
            log_n: rlwe.log_n(),
            residues,
            differ: if same_shape {
                pairs().filter(|(a, b)| a != b).count() as u64
            } else {
                residues
            },
        })
    }
}

/// The toy one.
///
/// # Errors
/// When the operating system gives no randomness.
pub(super) fn toy() -> Result<ReferenceBootstrap, OpenClError> {
    let params = CkksParameters::preset("insecure_toy_n10").map_err(device_error)?;
    ReferenceBootstrap::new(params).map_err(device_error)
}

fn device_error(error: CkksError) -> OpenClError {
    let failure = |error: &dyn std::fmt::Display| OpenClError::mismatch("bootstrap", error.to_string());
    match error {
        CkksError::Device(error) => error
            .downcast()
            .map_or_else(|error| failure(&error), |error| *error),
        error => failure(&error),
    }
}

fn bootstrap<B: Backend>(e: &Evaluator<B>, input: &Of<B>) -> Result<Of<B>, CkksError> {
    Ok(Bootstrapper::new(e)?
        .bootstrap(e, input, Content::Complex)?
        .swap_remove(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_memory_has_the_keys_that_it_makes() {
        let reference = toy().expect("a processor");
        let params = &reference.params;
        let [here, there] = ReferenceBootstrap::memory(params);
        let rest = (MATRICES + WORKING) << params.rlwe().log_n();
        assert_eq!(here - rest, reference.keys.bytes(params) as u64);
        assert!(there > u64::from(SLOTS) << (params.rlwe().log_n() + 3));
    }
}
