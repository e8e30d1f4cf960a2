//! A whole toy bootstrap on the device and on the processor.

use super::Check;
use crate::{Build, Device, Engine, OpenClError};
use std::sync::Arc;
use tacita_ckks::backend::{Backend, CiphertextOf as Of};
use tacita_ckks::bootstrap::{required_keys, Bootstrapper, Content};
use tacita_ckks::generator::KeyGenerator;
use tacita_ckks::{CkksError, CkksParameters, Complex64, EvaluationKeys, Evaluator};
use tacita_rlwe::{encrypt, SecretKey};

/// Limbs that it holds at once, and room.
const SLOTS: u32 = 8192;

/// Compares a bootstrap of complex values under a key of its own, which is dropped.
///
/// # Errors
/// When the device fails.
pub fn verify_bootstrap(device: &Device, build: Build) -> Result<Check, OpenClError> {
    compared(device, build).map_err(|error| match error {
        CkksError::Device(error) => error.downcast().map_or_else(failure, |error| *error),
        error => failure(error),
    })
}

fn failure(error: impl std::fmt::Display) -> OpenClError {
    OpenClError::mismatch("bootstrap", error.to_string())
}

fn compared(device: &Device, build: Build) -> Result<Check, CkksError> {
    let params = CkksParameters::preset("insecure_toy_n10")?;
    let (rlwe, flavour) = (params.rlwe(), build.flavour);
    let secret = SecretKey::generate(rlwe)?;
    let generator = KeyGenerator::new(&params, &secret)?;
    let mut keys = EvaluationKeys::default();
    for spec in required_keys(&params) {
        keys.insert(spec.kind, generator.generate(spec)?);
    }
    let engine = Engine::new(device, build, rlwe, SLOTS)?;
    let copies = keys.copied(|key| engine.upload_key(key))?;
    let device = Evaluator::on(Arc::new(engine), params.clone(), Arc::new(copies));
    let host = Evaluator::new(params.clone(), Arc::new(keys));
    let level = params.bottom_level();
    let value = |j: usize| (j % 13) as f64 / 7.5 - 0.8;
    let values = (0..params.slots()).map(|j| Complex64::new(value(j), value(3 * j)));
    let values: Vec<Complex64> = values.collect();
    let plain = host.encode(&values, params.scale(level), level + 1)?;
    let (input, _) = encrypt::encrypt_secret(rlwe, &secret, &plain, params.scale(level))?;
    let expected = bootstrap(&host, &input)?;
    let made = bootstrap(&device, &device.backend().upload(&input)?)?;
    let made = device.backend().download(&made)?;
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

fn bootstrap<B: Backend>(e: &Evaluator<B>, input: &Of<B>) -> Result<Of<B>, CkksError> {
    Ok(Bootstrapper::new(e)?
        .bootstrap(e, input, Content::Complex)?
        .swap_remove(0))
}
