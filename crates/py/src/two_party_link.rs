//! The `link=` option: none, a named network, or (bits a second, round trip in seconds).
use crate::error::TacitaError;
use pyo3::prelude::*;
use std::time::Duration;
use tacita_mpc::channel::{Channel, Link, SimulatedClock, Throttled, WallClock};

/// A link as Python says it.
#[derive(FromPyObject)]
pub enum LinkOption {
    /// "lan", "wan" or "far".
    Named(String),
    /// Bits a second, and seconds of a round trip.
    Measures(f64, f64),
}

/// The channel behind this link; waits are slept, or with `simulate` only counted.
pub fn behind(
    channel: impl Channel + 'static,
    link: Option<&LinkOption>,
    simulate: bool,
) -> PyResult<Box<dyn Channel>> {
    let Some(option) = link else {
        return Ok(Box::new(channel));
    };
    let link = parse(option)?;
    Ok(if simulate {
        Box::new(Throttled::new(channel, link, SimulatedClock::default()))
    } else {
        Box::new(Throttled::new(channel, link, WallClock))
    })
}

pub fn parse(option: &LinkOption) -> PyResult<Link> {
    match option {
        LinkOption::Named(name) if name == "lan" => Ok(Link::LAN),
        LinkOption::Named(name) if name == "wan" => Ok(Link::WAN),
        LinkOption::Named(name) if name == "far" => Ok(Link::FAR),
        LinkOption::Named(name) => Err(TacitaError::new_err(format!(
            "link: {name:?} is not known; hint: \"lan\", \"wan\", \"far\" or (bits per second, round-trip \
            seconds)"
        ))),
        &LinkOption::Measures(bandwidth, rtt) => {
            let rtt = seconds("link", rtt)?;
            if !(bandwidth.is_finite() && bandwidth >= 1e3) {
                return Err(TacitaError::new_err(format!(
                    "link: {bandwidth} bits a second, at least 1000 are needed"
                )));
            }
            Ok(Link { bandwidth, rtt })
        }
    }
}

/// A duration from Python: not negative, at most a day.
pub fn seconds(op: &str, value: f64) -> PyResult<Duration> {
    if !(0.0..=86_400.0).contains(&value) {
        return Err(TacitaError::new_err(format!(
            "{op}: {value} seconds, 0 to 86400 are allowed"
        )));
    }
    Ok(Duration::from_secs_f64(value))
}
