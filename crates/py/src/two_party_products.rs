//! Element-wise products, and opening values to the peer.
use crate::two_party::TwoParty;
use crate::two_party_arrays::{canonical, flat, ring, Array, Shares};
use pyo3::prelude::*;
use tacita_mpc::nonlinear::few;

#[pymethods]
impl TwoParty {
    /// Shares of x*y modulo 2^bits for factors x modulo 2^held, |x| < 2^(short-2), one for every y or for
    /// every row of them; errors below 2^slack units. Few values by oblivious transfer on `short` bits.
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (x, y, *, held, short, bits, slack))]
    fn scaled<'py>(
        &self,
        py: Python<'py>,
        x: Shares<'py>,
        y: Shares<'py>,
        held: u32,
        short: u32,
        bits: u32,
        slack: u32,
    ) -> PyResult<Array<'py, u64>> {
        let op = "scaled";
        let (factors, rings) = (flat(op, &x)?, [ring(op, held)?, ring(op, short)?]);
        canonical(op, factors, rings[0])?;
        self.keep(py, op, &y, bits, |party, y, ring| {
            few::scaled_any(party, factors, rings, y, ring, slack)
        })
    }

    /// Shares of x^2 modulo 2^to, for |x| < 2^(bits-2) and bits + 1 < to <= 2 bits: no extension, and a
    /// shorter prime than that of `square`; errors below 2^slack units. Few values by oblivious transfer.
    fn square_narrow<'py>(
        &self,
        py: Python<'py>,
        x: Shares<'py>,
        bits: u32,
        to: u32,
        slack: u32,
    ) -> PyResult<Array<'py, u64>> {
        let to = ring("square_narrow", to)?;
        self.keep(py, "square_narrow", &x, bits, |party, x, from| {
            few::square_any(party, x, from, to, slack)
        })
    }

    /// log2 of a bound for the probability that a product of this session so far came out wrong by chance;
    /// -inf before the first.
    #[getter]
    fn failure_log2(&self, py: Python<'_>) -> PyResult<f64> {
        self.run(py, |party| Ok(party.failure_log2()))
    }

    /// Sends the own share of x: the peer learns the values.
    fn reveal(&self, py: Python<'_>, x: Shares<'_>) -> PyResult<()> {
        let values = flat("reveal", &x)?;
        self.run(py, |party| {
            let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            party.measured("reveal", |party| party.send(&bytes))
        })
    }

    /// The values that the peer reveals: the own share x plus the peer's.
    fn receive_revealed<'py>(&self, py: Python<'py>, x: Shares<'py>, bits: u32) -> PyResult<Array<'py, u64>> {
        self.keep(py, "receive_revealed", &x, bits, |party, x, ring| {
            let bytes = party.measured("reveal", |party| party.receive(8 * x.len()))?;
            let (words, _) = bytes.as_chunks();
            let theirs = words.iter().map(|&word| u64::from_le_bytes(word));
            Ok(x.iter()
                .zip(theirs)
                .map(|(&own, peer)| ring.add(own, peer))
                .collect())
        })
    }
}
