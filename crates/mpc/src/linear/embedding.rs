//! The two ways to look rows up in a table that stays hidden, and which one costs less.
//!
//! *Table* ([`super::table`]): the table travels once, encrypted; a lookup is one small message of the
//! client. *One-hot*: the client encrypts indicator vectors and the server multiplies them by the table;
//! nothing beforehand, but every lookup pays for all rows. Either gives shares modulo 2^bits of the shape,
//! off by less than 4 units.
use super::protocol::client_times_server_with;
use super::state::Options;
use super::table::TableShape;
use crate::{MpcError, Party, Result, Ring};
use tacita_bfv::matmul::{Costs, Dims, Plan};
use tacita_bfv::{parameters_olt, N};

/// How rows are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// From the encrypted table at the client.
    Table,
    /// By a product with one-hot rows.
    OneHot,
}

/// A predicted cost of all lookups, the table's transfer included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LookupPrice {
    /// CPU nanoseconds of both parties.
    pub cpu: f64,
    /// Bytes both ways.
    pub bytes: f64,
}

/// What one prime costs against the two of the price table.
const ONE_PRIME: f64 = 0.5;

/// The cheaper way for `lookups` lookups of `tokens` rows each, and the prices of `[table, one-hot]`.
///
/// # Errors
/// For shapes that are not supported.
pub fn cheaper_lookup(
    shape: TableShape,
    tokens: usize,
    lookups: usize,
    costs: &Costs,
) -> Result<(Lookup, [LookupPrice; 2])> {
    let prices = [
        table_price(shape, tokens, lookups, costs)?,
        one_hot_price(shape, tokens, lookups, costs)?,
    ];
    let [table, one_hot] = prices.map(|p| p.cpu + costs.byte * p.bytes);
    let best = if table <= one_hot {
        Lookup::Table
    } else {
        Lookup::OneHot
    };
    Ok((best, prices))
}

fn table_price(shape: TableShape, tokens: usize, lookups: usize, costs: &Costs) -> Result<LookupPrice> {
    let (stored, pieces) = (shape.ciphertexts() as f64, (tokens * shape.pieces().1) as f64);
    let responses = (pieces / shape.stride() as f64).ceil();
    let each = pieces * (costs.decode + costs.merge) + responses * (costs.respond + costs.open);
    let bytes = shape.table_len()? as f64 + lookups as f64 * shape.lookup_len(tokens)? as f64;
    Ok(LookupPrice {
        cpu: ONE_PRIME * (stored * costs.encrypt + lookups as f64 * each),
        bytes,
    })
}

fn one_hot_price(shape: TableShape, tokens: usize, lookups: usize, costs: &Costs) -> Result<LookupPrice> {
    let (dims, ring, options) = one_hot(shape, tokens);
    let plan = Plan::new(
        &parameters_olt()?,
        dims,
        ring.bits(),
        options.slack,
        options.weights(),
        costs,
    )?;
    Ok(LookupPrice {
        cpu: lookups as f64 * plan.price.cpu,
        bytes: lookups as f64 * plan.price.bytes.iter().sum::<usize>() as f64,
    })
}

/// The product of a one-hot lookup. The norm of a column is bounded by what the shape allows.
fn one_hot(shape: TableShape, tokens: usize) -> (Dims, Ring, Options) {
    let TableShape { rows, columns, bits } = shape;
    let dims = Dims {
        k: tokens,
        m: rows,
        n: columns,
        batch: 1,
    };
    let log_norm = bits - 2 + rows.next_power_of_two().ilog2().div_ceil(2);
    (
        dims,
        Ring::new(bits),
        Options {
            slack: 2,
            log_norm,
            opened: false,
        },
    )
}

/// Rows by a product with one-hot vectors: the client gives `tokens`, the server the `table` (row-major);
/// `count` is public.
///
/// # Errors
/// For tokens or tables that do not fit the shape; those of [`super::client_times_server`].
pub fn one_hot_lookup(
    party: &mut Party,
    tokens: Option<&[usize]>,
    table: Option<&[i64]>,
    shape: TableShape,
    count: usize,
) -> Result<Vec<u64>> {
    let (dims, ring, options) = one_hot(shape, count);
    let outside = |t: &[usize]| t.len() != count || t.iter().any(|&t| t >= shape.rows);
    if shape.rows.checked_mul(count.max(N)).is_none() || tokens.is_some_and(outside) {
        let detail = format!("{count} tokens below {} are needed", shape.rows);
        return Err(MpcError::Shape {
            op: "one-hot lookup",
            detail,
        });
    }
    let left = tokens.map(|tokens| {
        let mut left = vec![0u64; count * shape.rows];
        tokens
            .iter()
            .enumerate()
            .for_each(|(i, &t)| left[i * shape.rows + t] = 1);
        left
    });
    client_times_server_with(party, left.as_deref(), table, dims, ring, options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{join, run_pair};

    #[test]
    fn one_hot_rows_are_those_of_the_table() {
        let shape = TableShape {
            rows: 300,
            columns: 20,
            bits: 26,
        };
        let value = |i: usize| ((i as i64 * 0x5_1234_5671) >> 3) % (1 << 24);
        let table: Vec<i64> = (0..6000).map(value).collect();
        let tokens = [0, 299, 17];
        let (a, b) = run_pair(
            |p| one_hot_lookup(p, Some(&tokens), None, shape, 3),
            |p| one_hot_lookup(p, None, Some(&table), shape, 3),
        );
        let found = join(Ring::new(26), &a, &b);
        for (at, v) in found.into_iter().enumerate() {
            assert!(
                (v - table[tokens[at / 20] * 20 + at % 20]).abs() < 4,
                "value {at}"
            );
        }
    }

    #[test]
    fn tables_pay_off_for_real_vocabularies_and_one_hot_for_a_single_small_lookup() {
        let costs = Costs::default();
        let bert = TableShape {
            rows: 30522,
            columns: 768,
            bits: 26,
        };
        assert_eq!(cheaper_lookup(bert, 128, 10, &costs).unwrap().0, Lookup::Table);
        assert_eq!(cheaper_lookup(bert, 1, 1, &costs).unwrap().0, Lookup::OneHot);
        let [table, one_hot] = cheaper_lookup(bert, 128, 1, &costs).unwrap().1;
        assert!(
            table.bytes < 90e6 && one_hot.cpu > 5.0 * table.cpu,
            "{table:?} {one_hot:?}"
        );
    }
}
