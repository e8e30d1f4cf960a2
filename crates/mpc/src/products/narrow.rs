//! Squares of values that are small: the shares of a narrow ring as integers, so that the server's multiplier
//! is short and the plaintext prime with it.
//!
//! With |x| < 2^(k-2) and B = 2^(k-2), the top bit of x + B is zero, so the integers x0 + x1 of a sharing of
//! x + B wrap unless both top bits are zero: x = A + b + v 2^k with the server's A = x0 - 2^(k-1), the
//! client's b = x1 - 2^(k-1) - B and v the AND of the two complemented top bits. Then modulo 2^m, m <= 2k,
//!
//! x^2 = A^2 + b^2 + A (2b) + 2^(k+1) v (A + b).
//!
//! A (2b) is a batch of OLEs whose multiplier is below 2^(k-1) instead of 2^(m-1): the prime has k + m -
//! slack bits instead of 2m - slack. v (A + b) takes a correlated transfer each way, of m-k-1 bits. The same
//! transfer to the client may carry v too, with which x itself grows to m bits.
use super::operand::Part;
use super::{lattice, Operand};
use crate::{MpcError, Party, Result, Ring};

/// Shares of x^2 in `to` from shares of x in `from`, for |x| < 2^(from-2), and of x in `to` where it `grows`;
/// errors as in [`super::square`]. `to` has more than `from` + 1 and at most 2 `from` bits. One round.
///
/// From 17 to 32 bits with slack 15 (a 34-bit prime): 134 bits the request, 86 the response, 30 the
/// transfers: 250 and two transfers instead of 292 and an extension (16, and a transfer). Growth is 15 bits
/// more.
///
/// # Errors
/// [`MpcError::Shape`] for rings that do not fit; those of [`super::share_operand`] and of the transfers.
pub fn square_narrow(
    party: &mut Party,
    x: &[u64],
    [from, to]: [Ring; 2],
    slack: u32,
    grows: bool,
) -> Result<(Vec<u64>, Vec<u64>)> {
    let (k, m) = (from.bits(), to.bits());
    if k < 3 || m <= k + 1 || m > 2 * k {
        let detail = format!("from {k} to {m} bits");
        return Err(MpcError::Shape {
            op: "square_narrow",
            detail,
        });
    }
    party.measured("square_narrow", |party| {
        let (half, bound) = (1i64 << (k - 1), 1i64 << (k - 2));
        let shift = |x: &u64| {
            if party.is_client() {
                (*x, half + bound)
            } else {
                (from.add(*x, bound as u64), half)
            }
        };
        let shifted: Vec<(u64, i64)> = x.iter().map(shift).collect();
        let own: Vec<u64> = shifted
            .iter()
            .map(|&(x, less)| to.from_signed(x as i64 - less))
            .collect();
        let clear: Vec<u8> = shifted.iter().map(|&(x, _)| 1 - from.top(x)).collect();
        let operand = send_doubled(party, &own, to, slack + m - k)?;
        let parts = [Part::new(&operand, (!party.is_client()).then(|| own.clone()))];
        let rings: Vec<Ring> = [m - k - 1, m - k]
            .into_iter()
            .take(1 + usize::from(grows))
            .map(Ring::new)
            .collect();
        let (sums, products) = unwrapped(party, &own, &clear, &rings, |party| {
            lattice::evaluate(party, &parts, vec![0; own.len()])
        })?;
        let crossed = sums[0]
            .iter()
            .zip(products)
            .map(|(&s, p)| to.add(p, s << (k + 1)));
        let squares = own
            .iter()
            .zip(crossed)
            .map(|(&a, c)| to.add(to.mul(a, a), c))
            .collect();
        let grown = sums
            .get(1)
            .map(|wraps| own.iter().zip(wraps).map(|(&a, &w)| to.add(a, w << k)).collect());
        Ok((squares, grown.unwrap_or_default()))
    })
}

/// The client's 2b, ready to be multiplied.
fn send_doubled(party: &mut Party, own: &[u64], ring: Ring, slack: u32) -> Result<Operand> {
    let doubled: Vec<u64> = own.iter().map(|&b| ring.mul(2, b)).collect();
    lattice::share(party, &doubled, ring, slack)
}

/// Shares of v (A + b), v the AND of both parties' `clear` bits, and of v where `rings` has one for it: each
/// party's bit chooses whether the other's masked value counts. `response` runs once its request is there, so
/// that what it sends goes with the first answer.
fn unwrapped(
    party: &mut Party,
    own: &[u64],
    clear: &[u8],
    rings: &[Ring],
    response: impl Fn(&mut Party) -> Result<Vec<u64>>,
) -> Result<(Vec<Vec<u64>>, Vec<u64>)> {
    let (client, bits) = (
        party.is_client(),
        clear.iter().map(|&c| u64::from(c)).collect::<Vec<_>>(),
    );
    let offered: Vec<u64> = own.iter().zip(&bits).map(|(&a, &c)| rings[0].mul(a, c)).collect();
    let payloads: Vec<(&[u64], Ring)> = [&offered[..], &bits]
        .into_iter()
        .zip(rings.iter().copied())
        .collect();
    // v itself comes with the client's choice alone
    let (sent, taken) = if client {
        (1, rings.len())
    } else {
        (rings.len(), 1)
    };
    let ((kept, ahead), (got, answered)) = party.both_ways(
        |party| party.choose(clear),
        |party| {
            let kept = party.correlate_many(&payloads[..sent])?;
            Ok((kept, if client { vec![] } else { response(party)? }))
        },
        |party, chosen| {
            let got = party.take_many(chosen, &rings[..taken])?;
            Ok((got, if client { response(party)? } else { vec![] }))
        },
    )?;
    let nothing = vec![0; own.len()];
    let share = |(at, &ring): (usize, &Ring)| {
        let [got, kept] = [&got, &kept].map(|of| of.get(at).unwrap_or(&nothing));
        got.iter().zip(kept).map(|(&g, &k)| ring.sub(g, k)).collect()
    };
    Ok((
        rings.iter().enumerate().map(share).collect(),
        if client { answered } else { ahead },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ot::CotKind;
    use crate::testing::{join, run_both, split};

    fn run(x: &[i64], shares: (Vec<u64>, Vec<u64>), from: Ring, to: Ring, slack: u32) {
        let (left, right) = run_both(shares, |party, x| {
            party.setup_ot(CotKind::InsecureTestDealer)?;
            party.setup_products()?;
            square_narrow(party, &x, [from, to], slack, true)
        });
        assert_eq!(join(to, &left.1, &right.1), x, "grown from {from:?} to {to:?}");
        for (x, found) in x.iter().zip(join(to, &left.0, &right.0)) {
            let error = to.signed(to.sub(to.from_signed(found), to.from_signed(x * x)));
            assert!(
                error.abs() <= (1 << slack) / 4 + 1,
                "{x} from {from:?} to {to:?}: off by {error}"
            );
        }
    }

    #[test]
    fn every_value_and_sharing_of_a_small_ring() {
        let (from, to) = (Ring::new(5), Ring::new(10));
        let pairs: Vec<(i64, u64)> = (-8i64..8)
            .flat_map(|x| (0..32u64).map(move |share| (x, share)))
            .filter(|p| p.0 > -8)
            .collect();
        let x: Vec<i64> = pairs.iter().map(|p| p.0).collect();
        let client: Vec<u64> = pairs.iter().map(|p| p.1).collect();
        let server = pairs
            .iter()
            .map(|p| from.sub(from.from_signed(p.0), p.1))
            .collect();
        run(&x, (client, server), from, to, 0);
    }

    #[test]
    fn the_widths_that_activations_use_and_odd_ones() {
        for (from, to, slack) in [
            (17, 32, 15),
            (17, 32, 0),
            (16, 30, 14),
            (20, 37, 9),
            (32, 64, 30),
            (9, 12, 2),
        ] {
            let (from, to) = (Ring::new(from), Ring::new(to));
            let bound = 1i64 << (from.bits() - 2);
            let mut x = vec![0, 1, -1, bound - 1, 1 - bound];
            x.extend((0..200).map(|i: i64| (i * 7919 * 31) % bound));
            x.extend((0..200).map(|i: i64| -((i * 104_729) % bound)));
            run(&x, split(from, &x, 5), from, to, slack);
        }
        run(&[], (vec![], vec![]), Ring::new(17), Ring::new(32), 15);
    }

    #[test]
    fn costs_what_it_says() {
        let (x, len) = (vec![1u64; 8192], 8192.0);
        let (bits, _) = run_both((x.clone(), x), |party, x| {
            party.setup_ot(CotKind::InsecureTestDealer)?;
            party.setup_products()?;
            square_narrow(party, &x[..1], [17, 32].map(Ring::new), 15, false)?;
            let before = party.sent() + party.received();
            square_narrow(party, &x, [17, 32].map(Ring::new), 15, false)?;
            Ok((party.sent() + party.received() - before) as f64 * 8.0 / len)
        });
        assert!((248.0..252.0).contains(&bits), "{bits} bits an element");
    }

    #[test]
    fn refuses_rings_whose_square_does_not_fit() {
        let _ = run_both(((), ()), |party, ()| {
            for (from, to) in [(16, 33), (16, 17), (2, 4)] {
                assert!(square_narrow(party, &[1], [from, to].map(Ring::new), 0, false).is_err());
            }
            Ok(())
        });
    }
}
