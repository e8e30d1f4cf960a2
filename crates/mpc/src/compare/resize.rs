//! Growing and shrinking: ring extension and truncation.
//!
//! Write u = u0 + u1 - w*2^from with the wrap w in {0, 1}. When u is known to be below 2^(from-1), w = (top
//! bit of u0) OR (top bit of u1): one correlated transfer (Rathee et al., SIRNN, 2021, "known msb").
//! Otherwise w is the carry of a comparison over all bits. Bounds and errors together:
//! `docs/decisions/0011-shares-grow-only-when-they-must.md`.
use super::chain::{self, Rule};
use super::plan::{plan, Shape};
use super::select::{convert, one_way_products};
use crate::{Party, Result, Ring};

/// Shares of the same signed value in a larger ring, for -2^(from-2) <= x < 2^(from-2). Exact within the
/// bound (with x outside it the result is off by a multiple of 2^from). To a smaller ring: local, any x.
///
/// Cost for each element: (to - from) + 1 bits on the wire, 1 correlated transfer, the client receiving; one
/// round trip.
///
/// # Errors
/// Those of the channel.
pub fn extend(party: &mut Party, x: &[u64], from: Ring, to: Ring) -> Result<Vec<u64>> {
    if to <= from {
        return Ok(x.iter().map(|&v| to.reduce(v)).collect());
    }
    party.measured("extend", |party| {
        let offset = if from.bits() > 1 {
            1 << (from.bits() - 2)
        } else {
            0
        };
        let u = shifted(party, x, from, offset);
        let clear: Vec<u8> = u.iter().map(|&v| 1 ^ from.top(v)).collect();
        let none = one_way_products(party, &[(&clear, growth(from, to))])?.remove(0);
        let one = u64::from(party.is_client());
        let wrap = none.iter().map(|&p| one.wrapping_sub(p));
        Ok(unwrap(party, &u, wrap, from, to, offset))
    })
}

/// [`extend`] for every x. Cost for each element: a comparison of `from` bits ([`super::comparison_cost`] of
/// from + 1) and to - from bits and 1 correlated transfer more.
///
/// # Errors
/// Those of the channel.
pub fn extend_exact(party: &mut Party, x: &[u64], from: Ring, to: Ring) -> Result<Vec<u64>> {
    if to <= from {
        return Ok(x.iter().map(|&v| to.reduce(v)).collect());
    }
    party.measured("extend_exact", |party| {
        let offset = 1 << (from.bits() - 1);
        let u = shifted(party, x, from, offset);
        let steps = plan(Shape::single(from.bits()), x.len(), party.prices);
        let wrap = chain::run(party, Rule::Carry, &steps, &[&u], None)?;
        let wrap = convert(party, &[(&wrap, growth(from, to))])?.remove(0);
        Ok(unwrap(party, &u, wrap.into_iter(), from, to, offset))
    })
}

/// x / 2^shift in the same ring, for -2^(bits-2) <= x < 2^(bits-2) - 2^shift. The result is floor(x/2^shift)
/// or one more, with expectation x/2^shift over the shares: unbiased.
///
/// Cost for each element: shift + 1 bits on the wire, 1 correlated transfer; one round trip.
///
/// # Errors
/// Those of the channel.
pub fn truncate(party: &mut Party, x: &[u64], ring: Ring, shift: u32) -> Result<Vec<u64>> {
    truncate_to(party, x, ring, shift, ring)
}

/// x / 2^shift from one ring to any other: bound, error and bias as [`truncate`].
///
/// Cost for each element: (to - (from - shift)) + 1 bits on the wire and 1 correlated transfer; nothing where
/// `to` has at most from - shift bits (then there is no bound either: the result is right modulo 2^to). The
/// shift must be below `from`'s bits.
///
/// # Errors
/// Those of the channel.
pub fn truncate_to(party: &mut Party, x: &[u64], from: Ring, shift: u32, to: Ring) -> Result<Vec<u64>> {
    let low = shift_rounded(party, x, from, shift);
    extend(party, &low, Ring::new(from.bits() - shift), to)
}

/// x / 2^shift modulo 2^(bits - shift): local, floor(x/2^shift) or one more, unbiased.
pub fn shift_rounded(party: &Party, x: &[u64], from: Ring, shift: u32) -> Vec<u64> {
    let one = if shift > 0 && party.is_client() { 1 } else { 0 };
    let to = Ring::new(from.bits() - shift);
    x.iter()
        .map(|&v| to.add(from.shift_down(v, shift), one))
        .collect()
}

/// floor(x / 2^shift) in the same ring, exactly, for every x.
///
/// One chain of lookups gives the carry out of the low bits on its way to the wrap of the ring. Cost for each
/// element: about that of a comparison of `bits` bits, and bits + shift bits and 2 correlated transfers more.
///
/// # Errors
/// Those of the channel.
pub fn truncate_exact(party: &mut Party, x: &[u64], ring: Ring, shift: u32) -> Result<Vec<u64>> {
    if shift == 0 {
        return Ok(x.to_vec());
    }
    party.measured("truncate_exact", |party| {
        let offset = 1 << (ring.bits() - 1);
        let u = shifted(party, x, ring, offset);
        let low = plan(Shape::single(shift), x.len(), party.prices);
        let carry = chain::run(party, Rule::Carry, &low, &[&u], None)?;
        let high = Shape {
            carry: true,
            ..Shape::single(ring.bits() - shift)
        };
        let upper: Vec<u64> = u.iter().map(|&v| v >> shift).collect();
        let steps = plan(high, x.len(), party.prices);
        let wrap = chain::run(party, Rule::Carry, &steps, &[&upper], Some(carry.clone()))?;
        let terms = convert(party, &[(&carry, ring), (&wrap, Ring::new(shift))])?;
        let offset = shifted_offset(party, offset >> shift);
        let sum = upper.iter().zip(terms[0].iter().zip(&terms[1]));
        Ok(sum
            .map(|(&u, (&c, &w))| {
                let wrapped = w.wrapping_shl(ring.bits() - shift);
                ring.reduce(u.wrapping_add(c).wrapping_sub(wrapped).wrapping_sub(offset))
            })
            .collect())
    })
}

/// The ring of the wrap's share: 2^from times it fills the rest of `to`.
fn growth(from: Ring, to: Ring) -> Ring {
    Ring::new(to.bits() - from.bits())
}

/// Shares of x + offset.
fn shifted(party: &Party, x: &[u64], ring: Ring, offset: u64) -> Vec<u64> {
    let offset = shifted_offset(party, offset);
    x.iter().map(|&v| ring.add(v, offset)).collect()
}

/// A public value as a share: the client's.
fn shifted_offset(party: &Party, offset: u64) -> u64 {
    if party.is_client() {
        offset
    } else {
        0
    }
}

/// u - w*2^from - offset in the larger ring.
fn unwrap(
    party: &Party,
    u: &[u64],
    wrap: impl Iterator<Item = u64>,
    from: Ring,
    to: Ring,
    offset: u64,
) -> Vec<u64> {
    let offset = shifted_offset(party, offset);
    let one = |(&u, w): (&u64, u64)| to.reduce(u.wrapping_sub(w << from.bits()).wrapping_sub(offset));
    u.iter().zip(wrap).map(one).collect()
}
