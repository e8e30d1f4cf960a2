//! Cases of texts that are written: rows that were prepared, factors that both parties open, the likeliest k.
//!
//! The last two are Python (`two_party/arithmetic/masked.py`, `text_steps.py`): the cases make the same
//! calls of the engine and send what those send.
use super::cases::{copies, dims, plain, weight_plan, Case};
use super::link::Public;
use crate::bits::{pack, packed_len, unpack};
use crate::compare::{below_many, negative, to_arithmetic};
use crate::linear::prepared::{Prepared, Shape};
use crate::linear::{share_times_share_with, Options};
use crate::ot::CotKind;
use crate::{Party, Result, Ring, Role};
use tacita_ring::sample::Prng;

pub fn all() -> Vec<Case> {
    vec![prepared(), opened_factors(), likeliest()]
}

/// Two rows, one after the other, each x_1 - r.
fn prepared() -> Case {
    let (shape, options) = (
        Shape {
            rows: 2,
            inputs: 576,
            outputs: 64,
            ring: Ring::new(48),
        },
        Options::default(),
    );
    let run = move |party: &mut Party, e: u64| {
        let weights = vec![(e % 1000) as i64; shape.inputs * shape.outputs];
        let weights = (!party.is_client()).then_some(&weights[..]);
        let mut rows = Prepared::new(party, weights, shape, options)?;
        for _ in 0..shape.rows {
            rows.times(party, &copies(e, shape.ring, shape.inputs), weights)?;
        }
        Ok(vec![])
    };
    let public = move |_| {
        let d = dims(shape.rows, shape.inputs, shape.outputs, 1);
        Public {
            plans: vec![vec![weight_plan(d, shape.ring, options)]],
            ..Public::default()
        }
    };
    Case {
        name: "prepared rows",
        run: Box::new(run),
        public: Box::new(public),
    }
}

/// A product of masks ahead; then both parties open x - r and y - s.
fn opened_factors() -> Case {
    let (d, ring, options) = (dims(96, 64, 48, 2), Ring::new(38), Options::default());
    let run = move |party: &mut Party, e: u64| {
        let (left, right) = (d.batch * d.k * d.m, d.batch * d.m * d.n);
        let masks = [random(left, ring)?, random(right, ring)?];
        share_times_share_with(party, &masks[0], &masks[1], d, ring, options)?;
        for mask in masks {
            let own: Vec<u64> = mask.iter().map(|&r| ring.sub(ring.reduce(e), r)).collect();
            party.send(&pack(&own, ring.bits()))?;
            let theirs = party.receive(packed_len(own.len(), ring.bits()))?;
            unpack(&theirs, ring.bits(), own.len());
        }
        Ok(vec![])
    };
    let public = move |_| {
        let (link, _) = crate::channel::memory_pair(std::time::Duration::ZERO);
        let plans = Party::new(Role::Client, Box::new(link)).plans_of_shares(d, ring, options);
        Public {
            plans: vec![plans.unwrap()],
            ..Public::default()
        }
    };
    Case {
        name: "opened factors",
        run: Box::new(run),
        public: Box::new(public),
    }
}

/// One step of the search for the k-th largest, and the fall of those below it.
fn likeliest() -> Case {
    plain("the likeliest k", CotKind::Ferret, |party, e| {
        let (narrow, counts, wide, vocab) = (Ring::new(17), Ring::new(13), Ring::new(40), 4096);
        let x = copies(e, narrow, vocab);
        let below = below_many(party, &x, narrow, &[1 << 14, 2 << 14, 3 << 14])?.concat();
        let ones = to_arithmetic(party, &below, counts)?;
        let sums: Vec<u64> = ones
            .chunks(vocab)
            .map(|mark| counts.reduce(mark.iter().sum()))
            .collect();
        let enough = negative(party, &sums, counts)?;
        to_arithmetic(party, &enough, narrow)?;
        let beneath = negative(party, &x, narrow)?;
        to_arithmetic(party, &beneath, wide).map(|_| ())
    })
}

fn random(count: usize, ring: Ring) -> Result<Vec<u64>> {
    let mut bytes = vec![0; packed_len(count, ring.bits())];
    Prng::from_os()?.fill(&mut bytes);
    Ok(unpack(&bytes, ring.bits(), count))
}
