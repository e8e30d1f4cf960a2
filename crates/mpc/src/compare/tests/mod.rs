//! Protocols against plaintext arithmetic, their costs, and what their messages look like.
mod bits;
mod costs;
mod order;
mod resizing;
mod rows;
mod uniform;

use crate::channel::Link;
use crate::ot::CotKind;
use crate::testing::run_both;
use crate::{Party, Result, Ring};
use std::time::Duration;

/// Links on which bytes alone count, on which both count, and on which rounds alone do.
pub(super) const LINKS: [Link; 3] = [
    Link {
        bandwidth: 1e7,
        rtt: Duration::ZERO,
    },
    Link::LAN,
    Link {
        bandwidth: 8e9,
        rtt: Duration::from_secs(2),
    },
];

/// Runs a protocol on both parties' inputs, correlated transfers dealt.
pub(super) fn both<I: Send, O: Send>(
    inputs: (I, I),
    protocol: impl Fn(&mut Party, I) -> Result<O> + Sync + Send,
) -> (O, O) {
    run_both(inputs, |party, input| {
        party.setup_ot(CotKind::InsecureTestDealer)?;
        protocol(party, input)
    })
}

/// Opens XOR shares.
pub(super) fn open(shares: (Vec<u8>, Vec<u8>)) -> Vec<u8> {
    assert_eq!(shares.0.len(), shares.1.len());
    let bits: Vec<u8> = shares.0.iter().zip(&shares.1).map(|(a, b)| a ^ b).collect();
    assert!(bits.iter().all(|&b| b <= 1));
    bits
}

/// All pairs of shares of a small ring.
pub(super) fn all_pairs(ring: Ring) -> (Vec<u64>, Vec<u64>) {
    let size = 1u64 << ring.bits();
    (0..size * size).map(|i| (i / size, i % size)).unzip()
}

/// Values near everything that can go wrong in a ring, and others.
pub(super) fn edges(ring: Ring) -> Vec<i64> {
    let half = 1i128 << (ring.bits() - 1);
    let near = |at: i128| (-2..=2).map(move |d| at + d);
    let points = [0, half, -half, half / 2, -half / 2, half / 3, -half / 5];
    let mut values: Vec<i64> = points
        .into_iter()
        .flat_map(near)
        .filter(|v| (-half..half).contains(v))
        .map(|v| v as i64)
        .collect();
    values.extend(
        (0..200u64).map(|i| ring.signed(ring.reduce(i.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31)))),
    );
    values
}

/// Shares of values: some split at random, some with an extreme share at the client.
pub(super) fn shares(ring: Ring, values: &[i64], seed: u64) -> (Vec<u64>, Vec<u64>) {
    let (mut left, mut right) = crate::testing::split(ring, values, seed);
    let extremes = [0, 1, ring.mask(), ring.mask() >> 1, (ring.mask() >> 1) + 1];
    for (i, &value) in values.iter().enumerate().filter(|(i, _)| i % 3 == 0) {
        left[i] = extremes[(i / 3 + seed as usize) % extremes.len()] & ring.mask();
        right[i] = ring.sub(ring.from_signed(value), left[i]);
    }
    (left, right)
}
