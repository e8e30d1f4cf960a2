//! Equality.
use super::chain::{self, Rule};
use super::plan::{plan, Shape, LANES};
use super::sign::{parting_sender, same_length, shifted};
use crate::{Party, Result, Ring};

/// Values whose tests go at once.
const AT_ONCE: usize = 1 << 20;

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
        all.extend(equal_groups(party, x, ring, &[group.to_vec()])?);
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

/// The bits of groups of constants one after another, all groups in the same messages. The constants of each
/// are as many, and differ from its first in the same bits.
fn equal_groups(party: &mut Party, x: &[u64], ring: Ring, groups: &[Vec<i64>]) -> Result<Vec<Vec<u8>>> {
    let (first, count) = (&groups[0], x.len() * groups.len());
    let apart = first.iter().fold(0, |bits, &c| bits | (c ^ first[0]));
    let shape = Shape {
        bits: ring.bits(),
        lanes: first.len(),
        common: apart.trailing_zeros().min(ring.bits()),
        carry: false,
    };
    let steps = plan(shape, count, party.prices);
    let holds = party.role() == parting_sender(&steps);
    let lane = |lane: usize| {
        let constants: Vec<i64> = groups.iter().map(|group| group[lane]).collect();
        let mut values = shifted(x, ring, &constants, holds).concat();
        if !holds {
            values.iter_mut().for_each(|v| *v = ring.neg(*v));
        }
        values
    };
    let lanes: Vec<Vec<u64>> = (0..first.len()).map(lane).collect();
    let lanes: Vec<&[u64]> = lanes.iter().map(Vec::as_slice).collect();
    let bits = party.measured("equal", |party| {
        chain::run(party, Rule::Equal, &steps, &lanes, None)
    })?;
    let parted = bits.len() > count;
    let at = |group: usize, lane: usize| group * x.len() + if parted { lane * count } else { 0 };
    let one = |group, lane| bits[at(group, lane)..at(group, lane) + x.len()].to_vec();
    Ok((0..groups.len())
        .flat_map(|group| (0..first.len()).map(move |lane| (group, lane)))
        .map(|(group, lane)| one(group, lane))
        .collect())
}

/// XOR shares of the one-hot rows of shared token ids: (ids, vocabulary), row by row. Ids outside
/// 0..vocabulary give a row of zeros.
///
/// **Expensive**: `vocabulary` equality tests for each id. Constants that differ in their highest bits alone
/// are tested together, which share the lookups of all bits below. Embeddings never need it where the client
/// knows the ids; it is here for ids that are themselves the result of a protocol.
///
/// # Errors
/// Those of the channel.
pub fn one_hot(party: &mut Party, ids: &[u64], ring: Ring, vocabulary: usize) -> Result<Vec<u8>> {
    let stride = (vocabulary.next_power_of_two() / LANES).max(1);
    let lanes = vocabulary.div_ceil(stride);
    let group = |low: usize| (0..lanes).map(|lane| (low + lane * stride) as i64).collect();
    let groups: Vec<Vec<i64>> = (0..stride.min(vocabulary)).map(group).collect();
    let mut rows = vec![0; ids.len() * vocabulary];
    for groups in groups.chunks((AT_ONCE / ids.len().max(1)).max(1)) {
        let columns = equal_groups(party, ids, ring, groups)?;
        for (&constant, column) in groups.iter().flatten().zip(&columns) {
            let row = rows.iter_mut().skip(constant as usize).step_by(vocabulary);
            if (constant as usize) < vocabulary {
                row.zip(column).for_each(|(at, &bit)| *at = bit);
            }
        }
    }
    Ok(rows)
}
