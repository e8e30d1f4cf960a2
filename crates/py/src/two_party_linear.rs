//! Matrix products.
use crate::error::TacitaError;
use crate::two_party::TwoParty;
use crate::two_party_arrays::{canonical, flat, ring, shaped, Array, Shares};
use crate::two_party_link::{parse, LinkOption};
use numpy::PyReadonlyArrayDyn;
use pyo3::prelude::*;
use tacita_mpc::linear::{self, Dims, Options};

type Weights<'py> = PyReadonlyArrayDyn<'py, i64>;

/// (k, m, n) or (batch, k, m, n), and the shape of the result.
fn dims(op: &str, shape: &[usize]) -> PyResult<(Dims, Vec<usize>)> {
    let (batch, k, m, n, result) = match *shape {
        [k, m, n] => (1, k, m, n, vec![k, n]),
        [batch, k, m, n] => (batch, k, m, n, vec![batch, k, n]),
        _ => {
            return Err(TacitaError::new_err(format!(
                "{op}: shape {shape:?}, (k, m, n) or (batch, k, m, n) is needed"
            )))
        }
    };
    let most = 1usize << 40;
    let sizes = [&[batch, k, m], &[batch, m, n], &[batch, k, n]];
    let fits = |sizes: &[usize; 3]| {
        sizes
            .iter()
            .try_fold(1usize, |p, &s| p.checked_mul(s))
            .is_some_and(|p| p <= most)
    };
    if !sizes.iter().all(|s| fits(s)) {
        return Err(TacitaError::new_err(format!(
            "{op}: a product of shape {shape:?} is too large"
        )));
    }
    Ok((Dims { k, m, n, batch }, result))
}

/// Public bounds of a product with weights.
pub fn options(slack: u32, log_norm: u32, opened: bool) -> PyResult<Options> {
    if !(2..=40).contains(&slack) || !(1..=64).contains(&log_norm) {
        return Err(TacitaError::new_err(format!(
            "slack {slack} and log_norm {log_norm}: 2 to 40 and 1 to 64 are allowed"
        )));
    }
    Ok(Options {
        slack,
        log_norm,
        opened,
    })
}

/// A matrix of one party, if it is there.
fn optional<'a, T: numpy::Element>(
    op: &str,
    x: Option<&'a PyReadonlyArrayDyn<'_, T>>,
) -> PyResult<Option<&'a [T]>> {
    x.map(|x| flat(op, x)).transpose()
}

/// What a product costs over a link, with weights or with shares: bytes both ways, and seconds of both
/// parties' work by the table of prices.
#[pyfunction]
#[pyo3(signature = (shape, bits, link, *, opened=false, crossed=false))]
pub fn product_cost(
    shape: Vec<usize>,
    bits: u32,
    link: LinkOption,
    opened: bool,
    crossed: bool,
) -> PyResult<(u64, f64)> {
    let op = "product_cost";
    let (dims, _) = dims(op, &shape)?;
    let options = Options {
        opened,
        ..Options::default()
    };
    let price = linear::price_over(parse(&link)?, dims, ring(op, bits)?, options, crossed)
        .map_err(|error| TacitaError::new_err(format!("{op}: {error}")))?;
    Ok((price.bytes.iter().sum(), 1e-9 * price.cpu))
}

#[pymethods]
impl TwoParty {
    /// Shares of x times the server's integer weights (None at the client), errors below 2^slack units;
    /// columns of the weights have norms up to 2^log_norm.
    #[pyo3(signature = (x, weights, shape, bits, *, slack=16, log_norm=24, opened=false))]
    #[allow(clippy::too_many_arguments)] // arguments of Python
    fn share_times_weights<'py>(
        &self,
        py: Python<'py>,
        x: Shares<'py>,
        weights: Option<Weights<'py>>,
        shape: Vec<usize>,
        bits: u32,
        slack: u32,
        log_norm: u32,
        opened: bool,
    ) -> PyResult<Array<'py, u64>> {
        let op = "share_times_weights";
        let (ring, (dims, result), options) = (
            ring(op, bits)?,
            dims(op, &shape)?,
            options(slack, log_norm, opened)?,
        );
        let (values, weights) = (flat(op, &x)?, optional(op, weights.as_ref())?);
        canonical(op, values, ring)?;
        let product = self.run(py, |party| {
            linear::share_times_weights_with(party, values, weights, dims, ring, options)
        })?;
        shaped(py, product, &result)
    }

    /// Shares of the client's matrix times the server's integers: `left` at the client, `right` at the
    /// server, None elsewhere.
    #[pyo3(signature = (left, right, shape, bits, *, slack=16, log_norm=24, opened=false))]
    #[allow(clippy::too_many_arguments)] // arguments of Python
    fn client_times_server<'py>(
        &self,
        py: Python<'py>,
        left: Option<Shares<'py>>,
        right: Option<Weights<'py>>,
        shape: Vec<usize>,
        bits: u32,
        slack: u32,
        log_norm: u32,
        opened: bool,
    ) -> PyResult<Array<'py, u64>> {
        let op = "client_times_server";
        let (ring, (dims, result), options) = (
            ring(op, bits)?,
            dims(op, &shape)?,
            options(slack, log_norm, opened)?,
        );
        let (left, right) = (optional(op, left.as_ref())?, optional(op, right.as_ref())?);
        canonical(op, left.unwrap_or_default(), ring)?;
        let product = self.run(py, |party| {
            linear::client_times_server_with(party, left, right, dims, ring, options)
        })?;
        shaped(py, product, &result)
    }

    /// Shares of the product of two shared matrices, or of a batch of them. opened: the client learns the
    /// result next.
    #[pyo3(signature = (x, y, shape, bits, *, slack=16, opened=false))]
    #[allow(clippy::too_many_arguments)] // arguments of Python
    fn share_times_share<'py>(
        &self,
        py: Python<'py>,
        x: Shares<'py>,
        y: Shares<'py>,
        shape: Vec<usize>,
        bits: u32,
        slack: u32,
        opened: bool,
    ) -> PyResult<Array<'py, u64>> {
        let op = "share_times_share";
        let (ring, (dims, result)) = (ring(op, bits)?, dims(op, &shape)?);
        let options = options(slack, Options::default().log_norm, opened)?;
        let (left, right) = (flat(op, &x)?, flat(op, &y)?);
        canonical(op, left, ring)?;
        canonical(op, right, ring)?;
        let product = self.run(py, |party| {
            linear::share_times_share_with(party, left, right, dims, ring, options)
        })?;
        shaped(py, product, &result)
    }
}
