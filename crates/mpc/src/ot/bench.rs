//! How fast correlated OTs are made.
use super::CotKind;
use crate::channel::memory_pair;
use crate::profile::cpu_seconds;
use crate::share::Z64;
use crate::{MpcError, Party, Result, Role};
use std::time::{Duration, Instant};

/// COTs taken at once, as a protocol would.
const PIECE: usize = 1 << 18;

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
    for start in (0..count).step_by(PIECE) {
        let piece = PIECE.min(count - start);
        if party.is_client() {
            party.reserve_cots(piece, 0)?;
            party.cots_as_sender(piece)?;
        } else {
            party.reserve_cots(0, piece)?;
            let (_, ticket) = party.bits_as_receiver(piece)?;
            party.blocks_as_receiver(ticket)?;
        }
    }
    if party.is_client() {
        party.receive(1)?;
    } else {
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

/// CPU nanoseconds an element, both parties together, of what is built from correlated OTs that are at hand:
/// (1-of-4 lookups of 2 bits, 1-of-16 lookups of 3 bits, additive correlations in Z_{2^64}).
///
/// # Errors
/// Those of the protocol.
pub fn derived(count: usize) -> Result<[f64; 3]> {
    let (left, right) = memory_pair(Duration::from_secs(120));
    std::thread::scope(|scope| {
        let other = scope.spawn(move || receive_derived(&mut Party::new(Role::Server, Box::new(right)), count));
        let party = &mut Party::new(Role::Client, Box::new(left));
        party.setup_ot(CotKind::Ferret)?;
        let tables = vec![1; 16 * count];
        party.reserve_cots(7 * count, 0)?;
        party.receive(1)?;
        let lookups = timed(count, || party.offer(2, 2, &tables[..4 * count]))?;
        let wide = timed(count, || party.offer(4, 3, &tables))?;
        let additive = timed(count, || party.correlate(&vec![7; count], Z64))?;
        other.join().unwrap_or_else(|_| Err(panicked()))?;
        Ok([lookups, wide, additive])
    })
}

fn receive_derived(party: &mut Party, count: usize) -> Result<()> {
    party.setup_ot(CotKind::Ferret)?;
    party.reserve_cots(0, 7 * count)?;
    party.send(&[0])?;
    let chosen = party.choose_of(2, &vec![3; count])?;
    party.take(chosen, 2)?;
    let chosen = party.choose_of(4, &vec![3; count])?;
    party.take(chosen, 3)?;
    let chosen = party.choose(&vec![1; count])?;
    party.take_correlated(chosen, Z64)?;
    Ok(())
}

/// CPU nanoseconds of the process per element.
fn timed<T>(count: usize, body: impl FnOnce() -> Result<T>) -> Result<f64> {
    let began = cpu_seconds();
    body()?;
    Ok((cpu_seconds() - began) * 1e9 / count as f64)
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
