//! The client's half: secret keys, key generation, encryption, decryption. No method of the server takes
//! these types.
use crate::ciphertext::Ciphertext;
use crate::parameters::{hex, native_level, Parameters};
use crate::side::Residues;
use crate::small_keys::SmallKeys;
use crate::{error, keys, secret_file};
use num_complex::Complex64;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::Arc;
use tacita_ckks::generator::KeyGenerator;
use tacita_ckks::{CkksParameters, Evaluator};
use tacita_rlwe::encrypt as rlwe_encrypt;
use tacita_wire::{KeyWriter, Owner};
use zeroize::Zeroize;

/// A secret key. No repr of its content, no pickling, no copy; wiped when dropped.
#[pyclass(frozen, module = "tacita._native")]
pub struct SecretKey {
    pub(crate) key: tacita_rlwe::SecretKey,
    pub(crate) owner: Owner,
    pub(crate) encoder: Evaluator,
}

#[pymethods]
impl SecretKey {
    /// Reads a secret-key file; raises FormatError.
    #[staticmethod]
    fn load(py: Python<'_>, path: &str, params: &Parameters) -> PyResult<Self> {
        let params = params.0.clone();
        py.detach(|| {
            let (owner, key) = secret_file::read(path, &params)?;
            let encoder = Evaluator::new(params, Arc::default());
            Ok(Self { key, owner, encoder })
        })
    }

    /// Random public id shared by all files of this client.
    #[getter]
    fn key_id(&self) -> String {
        hex(&self.owner.0)
    }
    #[getter]
    fn params(&self) -> Parameters {
        Parameters(self.encoder.params().clone())
    }

    /// The slots of a ciphertext: approximate, and as sensitive as the key when published unrounded
    /// (docs/threat-model).
    fn decrypt<'py>(&self, py: Python<'py>, ct: &Ciphertext) -> PyResult<Bound<'py, PyArray1<Complex64>>> {
        if ct.params.rlwe().hash() != self.encoder.rlwe().hash() {
            return Err(error::ParameterError::new_err(
                "decrypt: the ciphertext and the key have different parameters",
            ));
        }
        if ct.owner != self.owner {
            return Err(error::FormatError::new_err(format!(
                "decrypt: the ciphertext belongs to client {}, this key to client {}; hint: use the key \
                that encrypted the request",
                ct.owner, self.owner
            )));
        }
        let values = py.detach(|| {
            let low = ct.inner.here()?;
            let low = low.truncated(low.limbs().min(2));
            let mut plain = rlwe_encrypt::decrypt(self.encoder.rlwe(), &self.key, &low);
            let slots = self.encoder.decode(&plain, low.scale);
            plain.wipe();
            Ok(slots)
        });
        let values = values.map_err(error::ckks)?;
        Ok(values.into_pyarray(py))
    }

    fn __repr__(&self) -> String {
        format!("SecretKey(key_id={})", self.key_id())
    }
}

/// Encrypts slots (complex128; a power-of-two length dividing the slots, repeated over them) at a user level
/// under the secret key, with a seeded uniform half.
#[pyfunction]
pub fn encrypt(
    py: Python<'_>,
    secret: &SecretKey,
    slots: PyReadonlyArray1<'_, Complex64>,
    level: usize,
) -> PyResult<Ciphertext> {
    let mut values = slots.as_slice()?.to_vec();
    let params = secret.encoder.params().clone();
    let native = native_level("encrypt", &params, level)?;
    py.detach(|| {
        let scale = params.scale(native);
        let encoded = secret.encoder.encode(&values, scale, native + 1);
        wipe(&mut values);
        let mut plain = encoded.map_err(error::ckks)?;
        let encrypted = rlwe_encrypt::encrypt_secret(params.rlwe(), &secret.key, &plain, scale);
        plain.wipe();
        let (inner, seed) = encrypted.map_err(error::rlwe)?;
        Ok(Ciphertext {
            inner: Residues::Processor(inner),
            params: params.clone(),
            owner: secret.owner,
            seed: Some(seed),
        })
    })
}

fn wipe(values: &mut [Complex64]) {
    for z in values {
        z.re.zeroize();
        z.im.zeroize();
    }
}

/// Makes a secret key and the evaluation keys of a plan, streamed to disk one at a time. `rotations` lists
/// (steps, highest user level); `coefficients` the tokens of coefficient products, whose keys come last.
/// Relinearisation and conjugation keys are always made, and those of bootstrapping where the preset has it.
/// `progress(done, total)` is called after each key of the large ring and may raise to interrupt.
#[pyfunction]
#[pyo3(signature = (params, rotations, secret_path, keys_path, progress, coefficients = None))]
pub fn keygen(
    py: Python<'_>,
    params: &Parameters,
    rotations: Vec<(i64, usize)>,
    secret_path: &str,
    keys_path: &str,
    progress: Py<PyAny>,
    coefficients: Option<usize>,
) -> PyResult<()> {
    let params: CkksParameters = params.0.clone();
    let owner = Owner::random().map_err(error::wire)?;
    let secret = py
        .detach(|| tacita_rlwe::SecretKey::generate(params.rlwe()))
        .map_err(error::rlwe)?;
    secret_file::write(secret_path, &params, owner, &secret)?;
    write_keys(
        py,
        &params,
        owner,
        &secret,
        &rotations,
        keys_path,
        &progress,
        coefficients,
    )
}

/// Makes evaluation keys for a secret key that exists, with fresh errors. Arguments as of [`keygen`].
#[pyfunction]
#[pyo3(signature = (secret, rotations, keys_path, progress, coefficients = None))]
pub fn evaluation_keys(
    py: Python<'_>,
    secret: &SecretKey,
    rotations: Vec<(i64, usize)>,
    keys_path: &str,
    progress: Py<PyAny>,
    coefficients: Option<usize>,
) -> PyResult<()> {
    let (params, owner) = (secret.encoder.params(), secret.owner);
    write_keys(
        py,
        params,
        owner,
        &secret.key,
        &rotations,
        keys_path,
        &progress,
        coefficients,
    )
}

#[allow(clippy::too_many_arguments)]
fn write_keys(
    py: Python<'_>,
    params: &CkksParameters,
    owner: Owner,
    secret: &tacita_rlwe::SecretKey,
    rotations: &[(i64, usize)],
    keys_path: &str,
    progress: &Py<PyAny>,
    coefficients: Option<usize>,
) -> PyResult<()> {
    let specs = keys::specs(params, rotations, coefficients)?;
    let file = File::create(keys_path).map_err(|e| error::io(keys_path, e))?;
    let out = BufWriter::with_capacity(1 << 20, file);
    let mut writer = KeyWriter::new(out, params, owner, specs.len() as u64).map_err(error::wire)?;
    let generator = KeyGenerator::new(params, secret).map_err(error::ckks)?;
    for (done, spec) in specs.iter().enumerate() {
        py.detach(|| {
            let key = generator.generate(*spec).map_err(error::ckks)?;
            writer.write(spec, &key).map_err(error::wire)
        })?;
        py.check_signals()?;
        progress.call1(py, (done + 1, specs.len()))?;
    }
    let mut out = writer.finish().map_err(error::wire)?;
    let Some(tokens) = coefficients else {
        return Ok(());
    };
    py.detach(|| {
        SmallKeys::generate(params, secret, tokens)?.write(&mut out, params, owner)?;
        out.flush().map_err(|e| error::io(keys_path, e))
    })
}
