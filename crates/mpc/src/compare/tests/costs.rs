//! Bytes and correlated transfers as documented.
use super::{both, LINKS};
use crate::compare::*;
use crate::{Party, Result, Ring};

const COUNT: usize = 800;

/// Bits on the wire (both directions), correlated transfers (both directions) and times the client waits, for
/// each of `COUNT` elements.
fn cost<O>(protocol: impl Fn(&mut Party) -> Result<O> + Sync + Send) -> (f64, f64, u64) {
    let measure = |party: &mut Party, ()| {
        party.measured("whole", |party| protocol(party).map(|_| ()))?;
        let whole = party.profile().costs()["whole"].clone();
        let used = party.ot_statistics();
        Ok((
            whole.sent,
            whole.received,
            used.used_as_sender + used.used_as_receiver,
            whole.rounds,
        ))
    };
    let (client, server) = both(((), ()), measure);
    assert_eq!((client.0, client.1, client.2), (server.1, server.0, server.2));
    let each = |total: u64| total as f64 / COUNT as f64;
    (8.0 * each(client.0 + client.1), each(client.2), client.3)
}

#[test]
fn comparisons_cost_their_formula() {
    let x = vec![3u64; COUNT];
    for bits in [16, 20, 32, 37, 64] {
        for link in LINKS {
            let (wire, transfers) = comparison_cost(bits, COUNT, Prices::of(link));
            let (got, used, _) = cost(|party| {
                party.set_link(link);
                negative(party, &x, Ring::new(bits))
            });
            assert_eq!((got, used), (wire as f64, transfers as f64), "{bits} bits");
        }
    }
}

/// Roles alternate, so the 31 steps of a 64-bit comparison take about 16 rounds, and the 5 of a tree 3.
#[test]
fn a_step_takes_half_a_round() {
    let x = vec![3u64; COUNT];
    let [slow, _, long] = LINKS;
    for (bits, link, most) in [(64, slow, 16), (16, slow, 4), (64, long, 3), (16, long, 2)] {
        let (_, _, rounds) = cost(|party| {
            party.set_link(link);
            negative(party, &x, Ring::new(bits))
        });
        assert!(rounds <= most, "{rounds} rounds for {bits} bits");
    }
}

#[test]
fn thresholds_cost_less_than_comparisons() {
    let (many, ring) = (16, Ring::new(16)); // of few values each threshold is a tree: fewer rounds
    let x = vec![3u64; many * COUNT];
    let each = |(wire, used, rounds): (f64, f64, u64)| (wire / many as f64, used / many as f64, rounds);
    let (wire, used, rounds) = each(cost(|party| below_many(party, &x, ring, &[-1, 0, 1])));
    assert_eq!((wire, used), (228.0, 27.0));
    let (wire, used, _) = each(cost(|party| {
        below_many(party, &x, ring, &[-2048 * 4, -2048, 2048 * 3])
    }));
    assert_eq!((wire, used), (132.0, 21.0)); // in digits of three bits
    let (wire, used, fewer) = cost(|party| below_many(party, &x[..COUNT], ring, &[-1, 0, 1]));
    assert_eq!((wire, used), (3.0 * 238.0, 3.0 * 28.0));
    assert!(fewer + 2 <= rounds, "{fewer} rounds, {rounds} in one group");
}

#[test]
fn the_rest_costs_its_documentation() {
    let (x, b, ring) = (vec![3u64; COUNT], vec![1u8; COUNT], Ring::new(32));
    assert_eq!(cost(|party| and(party, &b, &b)).0, 4.0);
    assert_eq!(cost(|party| select(party, &b, &x, ring)), (66.0, 2.0, 1));
    let payloads = [
        (x.as_slice(), Ring::new(20)),
        (&x, Ring::new(64)),
        (&x, Ring::new(44)),
    ];
    assert_eq!(
        cost(|party| select_many(party, &b, &payloads)),
        (2.0 * 129.0, 2.0, 1)
    );
    assert_eq!(cost(|party| to_arithmetic(party, &b, ring)), (32.0, 1.0, 1));
    assert_eq!(
        cost(|party| extend(party, &x, ring, Ring::new(64))),
        (33.0, 1.0, 1)
    );
    assert_eq!(cost(|party| truncate(party, &x, ring, 18)), (19.0, 1.0, 1));
    assert_eq!(
        cost(|party| truncate_to(party, &x, ring, 12, Ring::new(20))).0,
        0.0
    );
}
