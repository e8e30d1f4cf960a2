//! Equality.
use super::chain::{self, Rule};
use super::plan::{plan, Shape, LANES};
use super::sign::{parting_sender, same_length, shifted};
use crate::{Party, Result, Ring};

/// XOR shares of 1{x = c_j}, one vector for every public constant. Exact.
///
/// x = c is x0 - c = -x1: a chain of lookups over all bits, shared between constants below the lowest bit in
/// which they differ. Cost for each element and constant: [`super::comparison_cost`] of bits + 1.
///
/// # Errors
/// Those of the channel.
pub fn equal(party: &mut Party, x: &[u64], ring: Ring, constants: &[i64]) -> Result<Vec<Vec<u8>>> {
    let mut all = Vec::with_capacity(constants.len());
    for group in constants.chunks(LANES) {
        all.extend(party.measured("equal", |party| equal_group(party, x, ring, group))?);
    }
    Ok(all)
}

/// XOR shares of 1{x = y}. Cost: that of [`equal`] with one constant.
///
/// # Errors
/// Those of the channel; [`crate::MpcError::Shape`] for two lengths.
pub fn equal_shares(party: &mut Party, x: &[u64], y: &[u64], ring: Ring) -> Result<Vec<u8>> {
    same_length("equal", x.len(), y.len())?;
    let difference: Vec<u64> = x.iter().zip(y).map(|(&x, &y)| ring.sub(x, y)).collect();
    Ok(equal(party, &difference, ring, &[0])?.remove(0))
}

fn equal_group(party: &mut Party, x: &[u64], ring: Ring, constants: &[i64]) -> Result<Vec<Vec<u8>>> {
    let apart = constants.iter().fold(0, |bits, &c| bits | (c ^ constants[0]));
    let shape = Shape {
        bits: ring.bits(),
        lanes: constants.len(),
        common: apart.trailing_zeros().min(ring.bits()),
        carry: false,
    };
    let steps = plan(shape, x.len(), party.prices);
    let holds = party.role() == parting_sender(&steps);
    let mut lanes = shifted(x, ring, constants, holds);
    if !holds {
        lanes.iter_mut().flatten().for_each(|v| *v = ring.neg(*v));
    }
    let lanes: Vec<&[u64]> = lanes.iter().map(Vec::as_slice).collect();
    let bits = chain::run(party, Rule::Equal, &steps, &lanes, None)?;
    let at = |lane: usize| if bits.len() > x.len() { lane * x.len() } else { 0 };
    Ok((0..constants.len())
        .map(|lane| bits[at(lane)..at(lane) + x.len()].to_vec())
        .collect())
}

/// XOR shares of the one-hot rows of shared token ids: (ids, vocabulary), row by row. Ids outside
/// 0..vocabulary give a row of zeros.
///
/// **Expensive**: `vocabulary` equality tests for each id, with 30,522 words about 0.3 MB an id. Embeddings
/// never need it (the client knows the ids); it is here for ids that are themselves the result of a protocol.
///
/// # Errors
/// Those of the channel.
pub fn one_hot(party: &mut Party, ids: &[u64], ring: Ring, vocabulary: usize) -> Result<Vec<u8>> {
    let constants: Vec<i64> = (0..vocabulary as i64).collect();
    let columns = equal(party, ids, ring, &constants)?;
    let row = |id| columns.iter().map(move |column: &Vec<u8>| column[id]);
    Ok((0..ids.len()).flat_map(row).collect())
}
