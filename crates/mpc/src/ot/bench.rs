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
        let other = scope.spawn(move || {
            one_side(
                &mut Party::new(Role::Server, Box::new(right)),
                count,
                CotKind::Ferret,
            )
        });
        let mine = one_side(
            &mut Party::new(Role::Client, Box::new(left)),
            count,
            CotKind::Ferret,
        );
        let theirs = other.join().unwrap_or_else(|_| Err(panicked()));
        let rate = mine?;
        theirs?;
        Ok(CotRate {
            per_cpu_second: 2.0 * rate.per_cpu_second,
            ..rate
        })
    })
}

/// One party's part of the same, over the party's own channel, for two processes: the base OTs (not timed),
/// then `count` COTs with the client as the sender.
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
        } else {
            party.reserve_cots(0, piece)?;
        }
        take(party, piece, Role::Client)?;
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

/// Takes `count` COTs as a session does, piece by piece and without [`Party::reserve_cots`]: the receiver of
/// a refill computes its bits first, to announce choices, and its blocks when the answer comes. Returns how
/// many were made for it.
///
/// # Errors
/// Those of the protocol.
pub fn as_in_sessions(party: &mut Party, count: usize, sender: Role) -> Result<u64> {
    let made = |party: &Party| {
        let statistics = party.ot_statistics();
        if party.role() == sender {
            statistics.made_as_sender
        } else {
            statistics.made_as_receiver
        }
    };
    let before = made(party);
    for start in (0..count).step_by(PIECE) {
        take(party, PIECE.min(count - start), sender)?;
    }
    Ok(made(party) - before)
}

fn take(party: &mut Party, piece: usize, sender: Role) -> Result<()> {
    if party.role() == sender {
        party.cots_as_sender(piece)?;
    } else {
        let (_, ticket) = party.bits_as_receiver(piece)?;
        party.blocks_as_receiver(ticket)?;
    }
    Ok(())
}

/// How many of the next `count` COTs of a direction are wrong, told to both parties. Random choices between
/// public payloads are transferred and what came of them is shown, so these COTs serve for nothing else. A
/// payload is right only where all 128 bits of the block are: it goes through the hash. 17 bytes each on the
/// wire.
///
/// # Errors
/// Those of the protocol.
pub fn wrong(party: &mut Party, count: usize, sender: Role) -> Result<u64> {
    let mut wrong = 0;
    for start in (0..count).step_by(PIECE) {
        let piece = PIECE.min(count - start);
        wrong += if party.role() == sender {
            let kept = party.correlate(&vec![PAYLOAD; piece], Z64)?;
            judge(party, &kept)?
        } else {
            show(party, piece)?
        };
    }
    Ok(wrong)
}

/// What the sender adds where the choice is 1.
const PAYLOAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Receiver: random choices and what came of them, to the sender, who counts.
fn show(party: &mut Party, count: usize) -> Result<u64> {
    let mut choices = vec![0; count];
    tacita_ring::sample::Prng::from_os()?.fill(&mut choices);
    choices.iter_mut().for_each(|choice| *choice &= 1);
    let chosen = party.choose(&choices)?;
    let got = party.take_correlated(chosen, Z64)?;
    choices.extend(got.iter().flat_map(|y| y.to_le_bytes()));
    party.send(&choices)?;
    let found = party.receive(8)?;
    Ok(u64::from_le_bytes(found.try_into().expect("8 bytes")))
}

/// Sender: counts the results that are neither x nor x + payload as chosen, and tells.
fn judge(party: &mut Party, kept: &[u64]) -> Result<u64> {
    let shown = party.receive(9 * kept.len())?;
    let (choices, results) = shown.split_at(kept.len());
    let (results, _) = results.as_chunks();
    let right = |((choice, y), x): ((&u8, &[u8; 8]), &u64)| {
        let expected = x.wrapping_add(u64::from(*choice).wrapping_mul(PAYLOAD));
        u64::from_le_bytes(*y) == expected
    };
    let wrong = choices
        .iter()
        .zip(results)
        .zip(kept)
        .filter(|item| !right(*item))
        .count() as u64;
    party.send(&wrong.to_le_bytes())?;
    Ok(wrong)
}

/// CPU nanoseconds an element, both parties together, of what is built from correlated OTs that are at hand:
/// (1-of-4 lookups of 2 bits, 1-of-16 lookups of 3 bits, additive correlations in Z_{2^64}).
///
/// # Errors
/// Those of the protocol.
pub fn derived(count: usize) -> Result<[f64; 3]> {
    let (left, right) = memory_pair(Duration::from_secs(120));
    std::thread::scope(|scope| {
        let other =
            scope.spawn(move || receive_derived(&mut Party::new(Role::Server, Box::new(right)), count));
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
    fn taken_transfers_are_right_and_wrong_ones_are_counted() {
        use crate::testing::{run_both, run_pair};
        let (client, server) = run_both(((), ()), |party, ()| {
            party.setup_ot(CotKind::Ferret)?;
            let made = as_in_sessions(party, 700_000, Role::Server)?;
            Ok((made, wrong(party, 300_000, Role::Server)?))
        });
        assert_eq!(client, server);
        assert!(client.0 >= 700_000 && client.1 == 0);
        let (_, found) = run_pair(
            |party| {
                party.setup_ot(CotKind::SoftSpoken)?;
                let chosen = party.choose(&[1; 100])?;
                let mut got = party.take_correlated(chosen, Z64)?;
                got[3] ^= 1;
                got[50] = got[50].wrapping_sub(PAYLOAD);
                let mut shown = vec![1; 100];
                shown.extend(got.iter().flat_map(|y| y.to_le_bytes()));
                party.send(&shown)?;
                party.receive(8)
            },
            |party| {
                party.setup_ot(CotKind::SoftSpoken)?;
                wrong(party, 100, Role::Server)
            },
        );
        assert_eq!(found, 2);
    }

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
