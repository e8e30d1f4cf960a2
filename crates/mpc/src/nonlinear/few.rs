//! Exact products of few shared values by oblivious transfer, and the choice between them and the lattice
//! products.
//!
//! A lattice product pays for whole ciphertexts of 8192 slots. With bits of one factor as choices and
//! multiples of the other as payloads (Gilboa 1999) a product in Z_{2^l} costs l(l+1)/2 + l bits for each
//! cross term, in rings that shrink by a bit with every bit of the factor, and no ciphertext: less than a
//! ciphertext and its keys below about [`FEW`] values. Results are exact.
use super::fixed::shape;
use super::short::{self, cross, Cross, Factors, Squares};
use crate::compare::extend;
use crate::ot::Multiples;
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
    rounded(party, x, y, ring, 0)
}

/// x*y without the cross terms' low bits, which are zero.
fn rounded(party: &mut Party, x: &[u64], y: &[u64], ring: Ring, drop: u32) -> Result<Vec<u64>> {
    if x.len() != y.len() {
        return shape("product", format!("{} and {} values", x.len(), y.len()));
    }
    // where this party chooses, it chooses by its x; the other's y is the payload
    let (choices, offers) = (x.to_vec(), y.to_vec());
    let how = Multiples { drop, ..ring.into() };
    let term = Cross { choices, offers, how };
    let crossed = party
        .measured("product_by_ot", |party| cross(party, &[term]))?
        .remove(0);
    let own = x.iter().zip(y).map(|(&x, &y)| x.wrapping_mul(y));
    Ok(own.zip(crossed).map(|(o, c)| ring.add(o, c << drop)).collect())
}

/// Bits that may be dropped from every payload where the result may be off by 2^slack: 29 of them round 29
/// times each way, by half a unit.
pub(super) fn droppable(op: &'static str, ring: Ring, slack: u32) -> Result<u32> {
    if slack >= ring.bits() {
        return shape(op, format!("a slack of {slack} bits in {ring:?}"));
    }
    Ok(slack.min(34).saturating_sub(5))
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
/// transfer on the bits of the narrow ring for few values, else by ciphertexts. One round.
///
/// # Errors
/// Those of [`products::square_narrow`], for few values too.
pub fn square_any(party: &mut Party, x: &[u64], from: Ring, to: Ring, slack: u32) -> Result<Vec<u64>> {
    Ok(square_growing(party, x, [from, to], slack, false, |_| Ok(()))?
        .0
         .0)
}

/// [`square_any`], and x in `to` where it `grows`, in the same round; and what `beside` returns, whose rounds
/// those of few values share ([`short::cross_beside`]).
///
/// # Errors
/// Those of [`square_any`] and of `beside`.
pub(super) fn square_growing<T>(
    party: &mut Party,
    x: &[u64],
    [from, to]: [Ring; 2],
    slack: u32,
    grows: bool,
    beside: impl FnOnce(&mut Party) -> Result<T>,
) -> Result<(Squares, T)> {
    if x.len() < FEW && to.bits() <= 2 * from.bits() {
        let drop = droppable("square", to, slack)?;
        return short::square_beside(party, &Factors::signed(x, from), to, drop, grows, beside);
    }
    let value = beside(party)?;
    Ok((
        products::square_narrow(party, x, [from, to], slack, grows)?,
        value,
    ))
}

/// x*y with errors below 2^slack, likewise; by oblivious transfer without the bits that need not be right.
///
/// # Errors
/// Those of the channel; [`crate::MpcError::Shape`] for two lengths and a slack of the whole ring.
pub fn product_any(party: &mut Party, x: &[u64], y: &[u64], ring: Ring, slack: u32) -> Result<Vec<u64>> {
    if x.len() < FEW {
        let drop = droppable("product", ring, slack)?;
        return rounded(party, x, y, ring, drop);
    }
    products::product(party, x, y, ring, slack)
}

/// x*y in y's ring with errors below 2^slack, for factors of few bits (`short`, |x| < 2^(short-2), in shares
/// of `from`), one for every y or for every row of them: by [`short::scaled`] for few values, else by
/// ciphertexts of the factors in y's ring.
///
/// # Errors
/// Those of [`product_any`]; [`crate::MpcError::Shape`] for rows of different lengths.
pub fn scaled_any(
    party: &mut Party,
    x: &[u64],
    [from, short]: [Ring; 2],
    y: &[u64],
    ring: Ring,
    slack: u32,
) -> Result<Vec<u64>> {
    if short > from {
        return shape("scaled", format!("factors of {short:?} in {from:?}"));
    }
    if y.len() < FEW {
        let drop = droppable("scaled", ring, slack)?;
        let x: Vec<u64> = x.iter().map(|&x| short.reduce(x)).collect();
        let mut out = short::scaled(party, &Factors::signed(&x, short), y, ring, drop)?;
        out.iter_mut().for_each(|v| *v <<= drop);
        return Ok(out);
    }
    if x.is_empty() || !y.len().is_multiple_of(x.len()) {
        return shape("scaled", format!("{} factors of {} values", x.len(), y.len()));
    }
    let x = extend(party, x, from, ring)?;
    let columns = y.len() / x.len();
    let spread: Vec<u64> = x.iter().flat_map(|&x| std::iter::repeat_n(x, columns)).collect();
    products::product(party, &spread, y, ring, slack)
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

    /// Largest distance from the product in the ring, of few values and many, with a factor of 17 bits and
    /// one of the ring.
    fn distance(count: usize, columns: usize, ring: Ring, slack: u32, short: bool) -> i64 {
        let from = if short { Ring::new(17) } else { ring };
        let rows = values(count / columns, Ring::new(15), 7);
        let (x, y) = (rows, values(count, ring, 8));
        let (x_shares, y_shares) = (split(from, &x, 3), split(ring, &y, 4));
        let inputs = ((x_shares.0, y_shares.0), (x_shares.1, y_shares.1));
        let (left, right) = run_both(inputs, |party, (x, y)| {
            party.setup_ot(CotKind::InsecureTestDealer)?;
            party.setup_products()?;
            match short {
                true => scaled_any(party, &x, [from; 2], &y, ring, slack),
                false => product_any(party, &x, &y, ring, slack),
            }
        });
        let off = |i: usize| {
            let exact = ring.from_signed(x[i / columns].wrapping_mul(y[i]));
            ring.signed(ring.sub(ring.add(left[i], right[i]), exact)).abs()
        };
        (0..count).map(off).max().unwrap_or(0)
    }

    #[test]
    fn few_values_and_many_stay_within_the_slack() {
        for (bits, slack) in [(32, 15), (32, 0), (47, 30), (64, 40), (20, 19)] {
            let ring = Ring::new(bits);
            for (count, columns) in [(1, 1), (40, 1), (65, 65), (FEW, 64)] {
                let off = distance(count, columns, ring, slack, true);
                assert!(off <= 1 << slack, "{count} factors in {bits} bits: {off}");
            }
            for count in [40, FEW] {
                let off = distance(count, 1, ring, slack, false);
                assert!(off <= 1 << slack, "{count} values in {bits} bits: {off}");
            }
        }
    }

    #[test]
    fn a_slack_of_the_whole_ring_and_broken_rows_are_refused() {
        let ring = Ring::new(20);
        let _ = run_both(((), ()), |party, ()| {
            party.setup_ot(CotKind::InsecureTestDealer)?;
            assert!(product_any(party, &[1], &[1], ring, 20).is_err());
            assert!(scaled_any(party, &[1], [ring, Ring::new(21)], &[1], ring, 5).is_err());
            assert!(scaled_any(party, &[1, 2], [ring; 2], &[1; 3], ring, 5).is_err());
            assert!(scaled_any(party, &[1; 3], [ring; 2], &[1; FEW], ring, 5).is_err());
            Ok(())
        });
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
