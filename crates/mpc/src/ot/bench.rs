//! How fast correlated OTs are made.
use super::CotKind;
use crate::channel::memory_pair;
use crate::profile::cpu_seconds;
use crate::{MpcError, Party, Result, Role};
use std::time::{Duration, Instant};

/// What a run made and cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CotRate {
    /// COTs made in each direction run.
    pub cots: u64,
    /// COTs a second of the clock. With both parties on one core, twice the work of one party is in it.
    pub per_second: f64,
    /// COTs a CPU second of one party (in one process: of both parties' average).
    pub per_cpu_second: f64,
    /// Bytes of both parties together per COT, set-up batches included.
    pub bytes_per_cot: f64,
}

/// Makes `count` COTs with the client as the sender, over a link in memory with one thread a party.
///
/// # Errors
/// Those of the protocol.
pub fn ferret(count: usize) -> Result<CotRate> {
    let (left, right) = memory_pair(Duration::from_secs(120));
    std::thread::scope(|scope| {
        let other =
            scope.spawn(move || one_side(&mut Party::new(Role::Server, Box::new(right)), count, CotKind::Ferret));
        let mine = one_side(&mut Party::new(Role::Client, Box::new(left)), count, CotKind::Ferret);
        let theirs = other.join().unwrap_or_else(|_| Err(panicked()));
        let rate = mine?;
        theirs?;
        Ok(CotRate {
            per_cpu_second: 2.0 * rate.per_cpu_second,
            ..rate
        })
    })
}

/// One party's part of the same, over the party's own channel, for two processes: the base OTs (not timed), then `count` COTs with the
/// client as the sender.
///
/// # Errors
/// Those of the protocol.
pub fn one_side(party: &mut Party, count: usize, kind: CotKind) -> Result<CotRate> {
    party.setup_ot(kind)?;
    let traffic = |party: &Party| party.sent() + party.received();
    let (began, cpu, before) = (Instant::now(), cpu_seconds(), traffic(party));
    if party.is_client() {
        party.reserve_cots(count, 0)?;
        party.receive(1)?;
    } else {
        party.reserve_cots(0, count)?;
        party.send(&[0])?;
    }
    let (wall, cpu) = (began.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let statistics = party.ot_statistics();
    let cots = statistics.made_as_sender.max(statistics.made_as_receiver);
    Ok(CotRate {
        cots,
        per_second: cots as f64 / wall,
        per_cpu_second: cots as f64 / cpu,
        bytes_per_cot: (traffic(party) - before) as f64 / cots as f64,
    })
}

fn panicked() -> MpcError {
    let detail = "the server's thread panicked".to_owned();
    MpcError::Io { op: "ferret", detail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_run_reports_what_it_made() {
        let rate = ferret(100_000).unwrap();
        assert!(rate.cots >= 100_000 && rate.per_second > 0.0 && rate.per_cpu_second > 0.0);
        assert!(
            rate.bytes_per_cot > 0.1 && rate.bytes_per_cot < 2.0,
            "{}",
            rate.bytes_per_cot
        );
    }
}
