//! Messages of oblivious transfer. Points are checked; of everything else every string of the right length
//! is a message, which the bodies assert: a decoder that refused one, or read beyond it, would show.
use crate::hostile::Hostile;
use crate::lattice::of_length;
use crate::Target;
use tacita_mpc::fuzzing::{
    base_point, ferret_batch, insecure_party, soft_spoken_batch, soft_spoken_trees, FERRET_BYTES, SOFT_BYTES,
    TREES_BYTES,
};
use tacita_mpc::{MpcError, Party, Result, Ring, Role};

/// Group elements of the base transfers.
pub(crate) const BASE_POINTS: Target = Target {
    name: "base_points",
    cap: 1 << 12,
    longest: 64,
    body: |data| {
        for bytes in [data, &of_length(data, 32)] {
            match base_point(bytes) {
                Ok(()) => assert_eq!(bytes.len(), 32),
                Err(MpcError::Message { .. }) => {}
                Err(other) => panic!("not an error about the message: {other}"),
            }
        }
    },
};

/// What follows the base transfers: trees and steps of SoftSpoken, batches of Ferret (a small set).
pub(crate) const SET_UP: Target = Target {
    name: "ot_setup",
    cap: 1 << 20,
    longest: 1 << 13,
    body: |data| {
        let Some((first, rest)) = data.split_first() else {
            return;
        };
        match first % 3 {
            0 => drop(soft_spoken_trees(&of_length(rest, TREES_BYTES))),
            1 => assert_eq!(soft_spoken_batch(&of_length(rest, SOFT_BYTES)), 0),
            _ => drop(ferret_batch(&of_length(rest, FERRET_BYTES))),
        }
    },
};

/// Both sides of every kind of transfer that is made of correlations.
pub(crate) const TRANSFERS: Target = Target {
    name: "transfers",
    cap: 1 << 18,
    longest: 1 << 10,
    body: |data| {
        let Some((&kind, rest)) = data.split_first() else {
            return;
        };
        let leaves = kind & 1 == 0;
        let party = insecure_party(Role::Client, Hostile::new(rest, leaves));
        match party.and_then(|mut party| transfer(&mut party, kind >> 1)) {
            Ok(()) => {}
            Err(MpcError::Closed { .. }) if leaves => {}
            Err(other) => panic!("a message of the right length was refused: {other}"),
        }
    },
};

const COUNT: usize = 9;

fn transfer(party: &mut Party, kind: u8) -> Result<()> {
    let bits: [u8; COUNT] = [1, 0, 1, 1, 0, 0, 1, 0, 1];
    let index: [u8; COUNT] = [3, 0, 1, 2, 3, 3, 1, 0, 2];
    let (values, ring) = ([5; COUNT], Ring::new(1 + u32::from(kind) / 10 * 7 % 64));
    let rings = [ring, Ring::new(60)];
    match kind % 10 {
        0 => drop(party.correlate(&values, ring)?),
        1 => {
            let chosen = party.choose(&bits)?;
            assert!(party
                .take_correlated(chosen, ring)?
                .iter()
                .all(|x| ring.reduce(*x) == *x));
        }
        2 => drop(party.correlate_xor(&bits, 3)?),
        3 => {
            let chosen = party.choose(&bits)?;
            drop(party.take_xor(chosen, 3)?);
        }
        4 => drop(party.correlate_many(&[(&values, rings[0]), (&values, rings[1])])?),
        5 => {
            let chosen = party.choose(&bits)?;
            drop(party.take_many(chosen, &rings)?);
        }
        6 => drop(party.offer_multiples(&values, ring)?),
        7 => {
            let chosen = party.choose_bits(&values.map(|x| ring.reduce(x)), ring)?;
            drop(party.take_multiples(chosen)?);
        }
        8 => {
            drop(party.offer(2, 3, &[6; 4 * COUNT])?);
            drop(party.offer_lanes(2, COUNT, &[1; 2 * 8 * COUNT])?);
        }
        _ => {
            let chosen = party.choose_of(2, &index)?;
            drop(party.take(chosen, 3)?);
            let chosen = party.choose_lanes(2, &index, &[bits, bits].concat())?;
            drop(party.take_lanes(chosen)?);
        }
    }
    Ok(())
}
