//! Exact products of few shared values by oblivious transfer, and the choice between them and the lattice
//! products.
//!
//! A lattice product pays for whole ciphertexts of 8192 slots. With bits of one factor as choices and
//! multiples of the other as payloads (Gilboa 1999) a product in Z_{2^l} costs l(l+1)/2 + l bits for each
//! cross term, in rings that shrink by a bit with every bit of the factor, and no ciphertext: less than a
//! ciphertext and its keys below about [`FEW`] values. Results are exact.
use super::fixed::shape;
use super::short::{self, cross, Cross, Factors};
use crate::products;
use crate::{Party, Result, Ring};

/// Below this many values products go by oblivious transfer.
pub const FEW: usize = 4096;

/// Shares of x*y, exact. Cost for each element: l(l+3) bits on the wire and 2l correlated transfers for a
/// ring of l bits, one round.
///
/// # Errors
/// Those of the channel; [`crate::MpcError::Shape`] for two lengths.
pub fn product(party: &mut Party, x: &[u64], y: &[u64], ring: Ring) -> Result<Vec<u64>> {
    if x.len() != y.len() {
        return shape("product", format!("{} and {} values", x.len(), y.len()));
    }
    // where this party chooses, it chooses by its x; the other's y is the payload
    let (choices, offers, how) = (x.to_vec(), y.to_vec(), ring.into());
    let term = Cross { choices, offers, how };
    let crossed = party
        .measured("product_by_ot", |party| cross(party, &[term]))?
        .remove(0);
    let own = x.iter().zip(y).map(|(&x, &y)| x.wrapping_mul(y));
    Ok(own.zip(crossed).map(|(o, c)| ring.add(o, c)).collect())
}

/// Shares of x^2, exact: one cross term. Cost for each element: (l-1)(l+2)/2 bits and l-1 correlated
/// transfers.
///
/// # Errors
/// Those of the channel.
pub fn square(party: &mut Party, x: &[u64], ring: Ring) -> Result<Vec<u64>> {
    if ring.bits() == 1 {
        return Ok(x.to_vec());
    }
    // twice the cross term: one bit less will do
    let half = Ring::new(ring.bits() - 1);
    let reduced = x.iter().map(|&x| half.reduce(x)).collect();
    let term = Cross::one_way(party.is_client(), reduced, half.into());
    let crossed = party
        .measured("square_by_ot", |party| cross(party, &[term]))?
        .remove(0);
    let own = x.iter().map(|&x| x.wrapping_mul(x));
    Ok(own
        .zip(crossed)
        .map(|(o, c)| ring.add(o, c.wrapping_mul(2)))
        .collect())
}

/// x^2 in `to` from the narrow x in `from`, |x| < 2^(from-2), with errors below 2^slack: by oblivious
/// transfer on the bits of the narrow ring (exact) for few values, else by ciphertexts. `to` has more than
/// `from` + 1 bits.
///
/// # Errors
/// Those of the channel.
pub(crate) fn square_any(party: &mut Party, x: &[u64], from: Ring, to: Ring, slack: u32) -> Result<Vec<u64>> {
    if x.len() < FEW {
        return short::square(party, &Factors::signed(x, from), to);
    }
    products::square_narrow(party, x, from, to, slack)
}

/// x*y with errors below 2^slack, likewise.
///
/// # Errors
/// Those of the channel.
pub(crate) fn product_any(
    party: &mut Party,
    x: &[u64],
    y: &[u64],
    ring: Ring,
    slack: u32,
) -> Result<Vec<u64>> {
    if x.len() < FEW {
        return product(party, x, y, ring);
    }
    products::product(party, x, y, ring, slack)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ot::CotKind;
    use crate::testing::{run_both, split};

    fn values(count: usize, ring: Ring, seed: u64) -> Vec<i64> {
        let mut v: Vec<i64> = split(ring, &vec![0; count], seed)
            .0
            .iter()
            .map(|&v| ring.signed(v))
            .collect();
        let edges = [0, -1, 1, ring.signed(1 << (ring.bits() - 1))];
        v.iter_mut().zip(edges).for_each(|(v, e)| *v = e);
        v
    }

    #[test]
    fn products_and_squares_are_those_of_the_ring() {
        for (bits, count) in [(1u32, 5usize), (2, 7), (17, 0), (32, 33), (47, 1), (64, 40)] {
            let ring = Ring::new(bits);
            let (x, y) = (values(count, ring, 1), values(count, ring, 2));
            let (x_shares, y_shares) = (split(ring, &x, 3), split(ring, &y, 4));
            let inputs = ((x_shares.0, y_shares.0), (x_shares.1, y_shares.1));
            let (left, right) = run_both(inputs, |party, (x, y)| {
                party.setup_ot(CotKind::InsecureTestDealer)?;
                Ok((product(party, &x, &y, ring)?, square(party, &x, ring)?))
            });
            for i in 0..count {
                let (x, y) = (ring.from_signed(x[i]), ring.from_signed(y[i]));
                assert_eq!(ring.add(left.0[i], right.0[i]), ring.mul(x, y), "{bits} bits");
                assert_eq!(ring.add(left.1[i], right.1[i]), ring.mul(x, x), "{bits} bits");
            }
        }
    }

    #[test]
    fn a_product_of_32_bits_costs_what_it_says() {
        let ring = Ring::new(32);
        let (cost, _) = run_both((vec![1u64; 1000], vec![2u64; 1000]), |party, x| {
            party.setup_ot(CotKind::InsecureTestDealer)?;
            let before = party.sent() + party.received();
            product(party, &x, &x, ring)?;
            Ok(party.sent() + party.received() - before)
        });
        let bits = 8.0 * cost as f64 / 1000.0;
        assert!(bits < 32.0 * 35.0 * 1.03, "{bits} bits");
    }
}
