//! What a session makes once, and its correlated oblivious transfers.
use crate::error::TacitaError;
use crate::two_party::TwoParty;
use crate::two_party_link::{parse, LinkOption};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tacita_mpc::ot::{bench, CotKind};
use tacita_mpc::Role;

fn kind(name: &str) -> PyResult<CotKind> {
    match name {
        "ferret" => Ok(CotKind::Ferret),
        "softspoken" => Ok(CotKind::SoftSpoken),
        _ => Err(TacitaError::new_err(format!(
            "setup: correlations {name:?} are not known; hint: \"ferret\" (few bytes) or \"softspoken\" \
            (fast links)"
        ))),
    }
}

#[pymethods]
impl TwoParty {
    /// Base transfers and lattice keys, once a session, at both parties. `products`: also the keys of
    /// element-wise products.
    #[pyo3(signature = (cot="ferret", *, products=true))]
    fn setup(&self, py: Python<'_>, cot: &str, products: bool) -> PyResult<()> {
        let kind = kind(cot)?;
        self.run(py, |party| {
            party.measured("setup", |party| {
                party.setup_ot(kind)?;
                party.setup_linear()?;
                if products {
                    party.setup_products()?;
                }
                Ok(())
            })
        })
    }

    /// Chooses windows of products and look-ups of comparisons for a link, at both parties alike: "lan",
    /// "wan", "far", or bits a second and seconds of a round trip.
    fn set_link(&self, py: Python<'_>, link: LinkOption) -> PyResult<()> {
        let link = parse(&link)?;
        self.run(py, |party| {
            party.set_link(link);
            Ok(())
        })
    }

    /// Fills the pools of correlated transfers; one's sender is the other's receiver.
    fn reserve_cots(&self, py: Python<'_>, as_sender: usize, as_receiver: usize) -> PyResult<()> {
        self.run(py, |party| party.reserve_cots(as_sender, as_receiver))
    }

    /// Correlated transfers made and used so far, by this party's part in them.
    fn cots<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts = self.run(py, |party| Ok(party.ot_statistics()))?;
        let out = PyDict::new(py);
        out.set_item("made_as_sender", counts.made_as_sender)?;
        out.set_item("made_as_receiver", counts.made_as_receiver)?;
        out.set_item("used_as_sender", counts.used_as_sender)?;
        out.set_item("used_as_receiver", counts.used_as_receiver)?;
        Ok(out)
    }

    /// Takes `count` correlated transfers, the server as their sender, as the protocols of a session do, and
    /// says how many were made for them. For benchmarks.
    fn take_cots(&self, py: Python<'_>, count: usize) -> PyResult<u64> {
        self.run(py, |party| bench::as_in_sessions(party, count, Role::Server))
    }

    /// How many of the next `count` correlated transfers, the server as their sender, are wrong: both parties
    /// show theirs.
    fn wrong_cots(&self, py: Python<'_>, count: usize) -> PyResult<u64> {
        self.run(py, |party| bench::wrong(party, count, Role::Server))
    }
}
