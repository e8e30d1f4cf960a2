//! Non-linear functions. Formats are (bits of the ring, fraction bits); what is not said about the output is
//! that of the input.
use crate::error::TacitaError;
use crate::two_party::TwoParty;
use crate::two_party_arrays::{canonical, flat, matrix, ring, shaped, Array, Shares};
use numpy::{PyReadonlyArray1, PyUntypedArrayMethods};
use pyo3::prelude::*;
use tacita_mpc::nonlinear::{self, Fixed, GeluForm, Norm, SiluForm};
use tacita_mpc::Party;

/// Fraction bits in a ring.
fn format(op: &str, bits: u32, frac: u32) -> PyResult<Fixed> {
    let ring = ring(op, bits)?;
    if frac >= bits {
        return Err(TacitaError::new_err(format!(
            "{op}: {frac} fraction bits in a ring of {bits}"
        )));
    }
    Ok(Fixed { ring, frac })
}

fn gelu_form(name: &str) -> PyResult<GeluForm> {
    match name {
        "abs4" => Ok(GeluForm::Abs4),
        "abs8" => Ok(GeluForm::Abs8),
        "tanh4" => Ok(GeluForm::Tanh4),
        "tanh8" => Ok(GeluForm::Tanh8),
        "seg4" => Ok(GeluForm::Seg4),
        "p4" => Ok(GeluForm::P4),
        _ => Err(TacitaError::new_err(format!(
            "gelu: form {name:?} is not known; hint: abs4, abs8, tanh4, tanh8, seg4 or p4"
        ))),
    }
}

fn silu_form(name: &str) -> PyResult<SiluForm> {
    match name {
        "abs8" => Ok(SiluForm::Abs8),
        "abs16" => Ok(SiluForm::Abs16),
        _ => Err(TacitaError::new_err(format!(
            "silu: form {name:?} is not known; hint: abs8 or abs16"
        ))),
    }
}

/// An activation of several forms, with the fraction bits of its input.
macro_rules! activation {
    ($(#[$doc:meta])* $name:ident, $form:ident = $default:tt, $run:path) => {
        #[pymethods]
        impl TwoParty {
            $(#[$doc])*
            #[pyo3(signature = (x, bits=64, frac=18, out_bits=None, *, form=$default, range=10))]
            #[allow(clippy::too_many_arguments)] // arguments of Python
            fn $name<'py>(
                &self,
                py: Python<'py>,
                x: Shares<'py>,
                bits: u32,
                frac: u32,
                out_bits: Option<u32>,
                form: &str,
                range: u32,
            ) -> PyResult<Array<'py, u64>> {
                let op = stringify!($name);
                let (from, form) = (format(op, bits, frac)?, $form(form)?);
                let out = ring(op, out_bits.unwrap_or(bits))?;
                self.keep(py, op, &x, bits, |party, x, _| $run(party, x, from, out, form, range))
            }
        }
    };
}

activation! {
    /// GELU for |x| < 2^range, same fraction bits. form: abs4, abs8 (finer), tanh4 or tanh8 (of
    /// GELU in its form with tanh), seg4 or p4 (of the literature).
    gelu, gelu_form = "abs4", nonlinear::gelu_with
}
activation! {
    /// SiLU for |x| < 2^range, same fraction bits. form: abs8 or abs16 (finer).
    silu, silu_form = "abs8", nonlinear::silu
}

/// A function to a format of its own. run: of the party, the values, their shape, both formats and the range.
macro_rules! function {
    ($(#[$doc:meta])* $name:ident, $run:expr) => {
        #[pymethods]
        impl TwoParty {
            $(#[$doc])*
            #[pyo3(signature = (x, bits=64, frac=18, out_bits=None, out_frac=None, *, range=10))]
            #[allow(clippy::too_many_arguments)] // arguments of Python
            fn $name<'py>(
                &self,
                py: Python<'py>,
                x: Shares<'py>,
                bits: u32,
                frac: u32,
                out_bits: Option<u32>,
                out_frac: Option<u32>,
                range: u32,
            ) -> PyResult<Array<'py, u64>> {
                let op = stringify!($name);
                let from = format(op, bits, frac)?;
                let to = format(op, out_bits.unwrap_or(bits), out_frac.unwrap_or(frac))?;
                let run = ($run)(x.shape(), [from, to], range)?;
                self.keep(py, op, &x, bits, |party, x, _| run(party, x))
            }
        }
    };
}

function! {
    /// tanh for |x| < 2^range.
    tanh, |_: &[usize], [from, to]: [Fixed; 2], range| {
        PyResult::Ok(move |party: &mut Party, x: &[u64]| nonlinear::tanh(party, x, from, to, range))
    }
}
function! {
    /// ELU for |x| < 2^range.
    elu, |_: &[usize], [from, to]: [Fixed; 2], range| {
        PyResult::Ok(move |party: &mut Party, x: &[u64]| nonlinear::elu(party, x, from, to, range))
    }
}
function! {
    /// Softmax of every row of a matrix with |x| < 2^range.
    softmax, |shape: &[usize], [from, to]: [Fixed; 2], range| {
        let (rows, cols) = matrix("softmax", shape)?;
        PyResult::Ok(move |party: &mut Party, x: &[u64]| {
            nonlinear::softmax(party, x, rows, cols, from, range, to)
        })
    }
}

#[pymethods]
impl TwoParty {
    /// The halves of softmax: exp(x - max) with 14 fraction bits in the ring of `power_bits` (shape of x),
    /// and the inverses of the rows' sums (rows,) in (inverse_bits, inverse_frac).
    #[allow(clippy::too_many_arguments)] // arguments of Python
    fn softmax_parts<'py>(
        &self,
        py: Python<'py>,
        x: Shares<'py>,
        bits: u32,
        frac: u32,
        range: u32,
        power_bits: u32,
        inverse_bits: u32,
        inverse_frac: u32,
    ) -> PyResult<(Array<'py, u64>, Array<'py, u64>)> {
        let op = "softmax_parts";
        let (from, inverse) = (format(op, bits, frac)?, format(op, inverse_bits, inverse_frac)?);
        let (values, power, (rows, cols)) = (flat(op, &x)?, ring(op, power_bits)?, matrix(op, x.shape())?);
        canonical(op, values, from.ring)?;
        let (powers, inverses) = self.run(py, |party| {
            nonlinear::softmax_parts(party, values, rows, cols, from, range, power, inverse)
        })?;
        Ok((shaped(py, powers, x.shape())?, shaped(py, inverses, &[rows])?))
    }

    /// Layer normalisation of the rows of a matrix; gamma and beta (floats) at the server, None at the
    /// client. |x - mean| < bound, deviations of rows >= least, |gamma| < gamma_bound. centred: False for a
    /// norm that takes no mean off (RMSNorm).
    #[pyo3(signature = (x, gamma, beta, *, bits=64, frac=18, bound, least, gamma_bound,
                        epsilon=1e-12, out_bits=None, out_frac=None, centred=true))]
    #[allow(clippy::too_many_arguments)] // arguments of Python
    fn layer_norm<'py>(
        &self,
        py: Python<'py>,
        x: Shares<'py>,
        gamma: Option<PyReadonlyArray1<'py, f64>>,
        beta: Option<PyReadonlyArray1<'py, f64>>,
        bits: u32,
        frac: u32,
        bound: f64,
        least: f64,
        gamma_bound: f64,
        epsilon: f64,
        out_bits: Option<u32>,
        out_frac: Option<u32>,
        centred: bool,
    ) -> PyResult<Array<'py, u64>> {
        let op = "layer_norm";
        let from = format(op, bits, frac)?;
        let to = format(op, out_bits.unwrap_or(bits), out_frac.unwrap_or(frac))?;
        let (rows, cols) = matrix(op, x.shape())?;
        let norm = Norm {
            rows,
            cols,
            centred,
            bound,
            least,
            gamma: gamma_bound,
            epsilon,
        };
        let gamma = gamma.as_ref().map(|w| w.as_slice()).transpose()?;
        let beta = beta.as_ref().map(|w| w.as_slice()).transpose()?;
        self.keep(py, op, &x, bits, |party, x, _| {
            nonlinear::layer_norm(party, x, from, &norm, gamma, beta, to)
        })
    }
}
