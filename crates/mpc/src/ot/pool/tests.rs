use super::*;
use crate::ot::Chosen;
use crate::share::Z64;
use crate::testing::{run_both, run_pair};

const KINDS: [CotKind; 2] = [CotKind::SoftSpoken, CotKind::Ferret];

fn choices(count: usize, seed: usize) -> Vec<u8> {
    (0..count)
        .map(|i| ((i * i * 7 + i + seed) % 5 % 2) as u8)
        .collect()
}

/// Both directions in `steps` batches of `count`, all choices first when `at_once`.
fn exchange(kind: CotKind, counts: &[usize], at_once: bool, reserve: usize) {
    let inputs = (3usize, 11usize);
    let (client, server) = run_both(inputs, |party, seed| {
        party.setup_ot(kind)?;
        party.reserve_cots(reserve, reserve)?;
        let mut got = (Vec::new(), Vec::new());
        let mut waiting: Vec<Chosen> = Vec::new();
        let groups: Vec<&[usize]> = if at_once {
            vec![counts]
        } else {
            counts.chunks(1).collect()
        };
        for group in groups {
            for &count in group {
                waiting.push(party.choose(&choices(count, seed))?);
            }
            for &count in group {
                got.0.extend(party.correlate(&vec![5 << 40; count], Z64)?);
            }
            for chosen in waiting.drain(..) {
                got.1.extend(party.take_correlated(chosen, Z64)?);
            }
        }
        Ok((got, party.ot_statistics()))
    });
    for ((sender, receiver), seed) in [(&client.0 .0, &server.0 .1), (&server.0 .0, &client.0 .1)]
        .into_iter()
        .zip([11, 3])
    {
        let choices: Vec<u8> = counts.iter().flat_map(|&count| choices(count, seed)).collect();
        assert_eq!((sender.len(), receiver.len()), (choices.len(), choices.len()));
        for i in 0..choices.len() {
            assert_eq!(
                receiver[i],
                sender[i].wrapping_add((5 << 40) * u64::from(choices[i])),
                "{kind:?} {i}"
            );
        }
    }
    let total: u64 = counts.iter().map(|&c| c as u64).sum();
    assert_eq!(
        (client.1.used_as_sender, client.1.used_as_receiver),
        (total, total)
    );
    assert!(client.1.made_as_sender >= total && server.1 == client.1);
}

#[test]
fn pools_refill_in_both_directions_without_waiting_for_each_other() {
    for kind in KINDS {
        exchange(kind, &[1, 0, 700, 70_000, 9], false, 0);
        exchange(kind, &[5, 300_000, 8, 400_000], true, 0);
        exchange(kind, &[100_000, 20], true, 200_000);
    }
}

#[test]
fn large_batches_follow_the_small_ones() {
    exchange(CotKind::Ferret, &[600_000, 700_000, 500_000], true, 0);
    exchange(CotKind::Ferret, &[600_000, 700_000], false, 1_300_000);
}

/// A refill that keeps the reserve full while the blocks asked for are at hand: its message comes before
/// the answer all the same.
#[test]
fn refills_that_a_request_does_not_need_yet_keep_the_order() {
    for kind in KINDS {
        exchange(kind, &[30_000; 40], false, 0);
        exchange(kind, &[30_000; 40], true, 0);
    }
}

/// An empty choice begins where the next one does: taking it must not forget that the next one's answer
/// is still due. Before, the pool could be refilled then, which reads that answer as a refill and drops
/// the blocks to it.
#[test]
fn taking_a_choice_of_nothing_does_not_forget_the_next() {
    let (got, sent) = run_pair(
        |party| {
            party.setup_ot(CotKind::Ferret)?;
            let (nothing, chosen) = (party.choose(&[])?, party.choose(&[1; 1000])?);
            assert!(party.take_correlated(nothing, Z64)?.is_empty());
            let refused = party
                .reserve_cots(0, 0)
                .expect_err("an answer is due")
                .to_string();
            assert!(refused.contains("earlier choices"), "{refused}");
            party.take_correlated(chosen, Z64)
        },
        |party| {
            party.setup_ot(CotKind::Ferret)?;
            party.correlate(&[], Z64)?;
            party.correlate(&[5; 1000], Z64)
        },
    );
    assert!(got
        .iter()
        .zip(sent)
        .all(|(got, sent)| *got == sent.wrapping_add(5)));
}

#[test]
fn one_direction_alone() {
    for kind in KINDS {
        let (got, kept) = run_pair(
            |party| {
                party.setup_ot(kind)?;
                let chosen = party.choose_of(4, &[7; 1001])?;
                party.take(chosen, 1)
            },
            |party| {
                party.setup_ot(kind)?;
                let table: Vec<u8> = (0..16 * 1001).map(|i| u8::from(i % 16 == 7)).collect();
                party.offer(4, 1, &table)
            },
        );
        assert!(got.iter().zip(kept).all(|(g, k)| g ^ k == 1));
    }
}

#[test]
fn short_messages_of_the_peer_are_errors() {
    for at in 0..4 {
        let (error, _) = run_pair(
            |party| {
                let made = party.setup_ot(CotKind::Ferret).and_then(|()| party.choose(&[1]));
                let taken = made.and_then(|chosen| party.take_correlated(chosen, Z64));
                Ok(taken.err().map(|error| error.to_string()))
            },
            |party| {
                if at == 3 {
                    party.setup_ot(CotKind::Ferret)?;
                }
                for _ in 0..4 {
                    let _ = party.send(&vec![9; [31, 33, 0, 100][at]]);
                }
                Ok(())
            },
        );
        assert!(error.is_some(), "message {at}");
    }
}
