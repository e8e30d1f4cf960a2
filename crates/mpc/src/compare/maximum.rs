//! Maxima of rows, by a tournament in which all columns of a group meet at once.
//!
//! Of up to sixteen columns all pairs are compared together. A column's bit, whether it is its group's
//! largest, is the AND of its comparisons, looked up at up to four bits a time; the bits of all but the last
//! column choose what is added to that one. How many columns meet follows from the link and from how many
//! values there are: in groups of four 128 columns take three or four levels of a comparison, one or two
//! look-ups and a choice, with 2.3 comparisons a column where pairs would take seven levels and one; few
//! columns, or such over a link of long round trips, meet in larger groups and fewer levels.
use super::boolean::{all, all_cost, not};
use super::plan::cheapest;
use super::prices::Prices;
use super::select::select_many;
use super::sign::{negative, next_sender, Window};
use crate::{MpcError, Party, Result, Ring};
use std::collections::BTreeMap;
use std::ops::Range;

/// Columns of which groups are made. None are smaller, so that levels, of which each may lose dropped bits,
/// are few.
const WAYS: [usize; 3] = [4, 8, 16];

/// Shares of the maximum of every row of a (rows, cols) matrix; differences within the window.
///
/// Exact for a window without dropped bits. With `drop`, a level compares copies without their low bits and
/// may keep a value that is less than 2^(drop+1) below the largest: the result is one of the row's values, at
/// most ceil(log4 cols) * (2^(drop+1) - 1) below the maximum, never above; differences then stay 2^(drop+1)
/// within the window. Cost for each column: 1.5 to 7.5 comparisons of the window's bits, as many look-ups of
/// at most 19 bits as columns are chosen from, 2*(ring bits + 1) bits and 2 correlated transfers. Rounds: at
/// each of those levels those of a comparison and 1.5 to 2.
///
/// # Errors
/// Those of the channel; [`MpcError::Shape`] for cols = 0 or another number of elements.
pub fn max_rows(
    party: &mut Party,
    x: &[u64],
    rows: usize,
    cols: usize,
    ring: Ring,
    window: Window,
) -> Result<Vec<u64>> {
    check(x.len(), rows, cols)?;
    let kinds = vec![Columns::of(x, cols, ring)];
    Ok(party
        .measured("max", |party| largest(party, kinds, window))?
        .remove(0))
}

/// Shares of every row's maximum and of its column (the column in `index`, which must hold cols - 1; of equal
/// values the lowest column wins when nothing is dropped). Errors of dropped bits as in [`max_rows`]. Cost:
/// that of [`max_rows`] and 2*(index bits) bits for each column.
///
/// # Errors
/// Those of [`max_rows`].
pub fn argmax_rows(
    party: &mut Party,
    x: &[u64],
    rows: usize,
    cols: usize,
    ring: Ring,
    window: Window,
    index: Ring,
) -> Result<(Vec<u64>, Vec<u64>)> {
    check(x.len(), rows, cols)?;
    let own = u64::from(party.is_client());
    let ids = (0..cols as u64).map(|c| vec![index.reduce(c * own); rows]);
    let ids = Columns {
        ring: index,
        all: ids.collect(),
    };
    let kinds = vec![Columns::of(x, cols, ring), ids];
    let mut found = party.measured("argmax", |party| largest(party, kinds, window))?;
    Ok((found.remove(0), found.remove(0)))
}

/// What is left of the tournament: of every column a value a row.
struct Columns {
    ring: Ring,
    all: Vec<Vec<u64>>,
}

impl Columns {
    fn of(x: &[u64], cols: usize, ring: Ring) -> Self {
        let column = |c| x.iter().skip(c).step_by(cols).copied().collect();
        let all = (0..cols).map(column).collect();
        Self { ring, all }
    }

    /// What each column but a group's last differs from the last by, one column after the other.
    fn gains(&self, groups: &[Range<usize>]) -> Vec<u64> {
        let gain = |(one, last): (usize, usize)| subtract(&self.all[one], &self.all[last], self.ring);
        candidates(groups).flat_map(gain).collect()
    }

    /// A column for every group: its last one, and what was chosen of the gains.
    fn next(&mut self, groups: &[Range<usize>], chosen: &[u64]) {
        let (rows, ring) = (self.all[0].len(), self.ring);
        for (at, (_, last)) in candidates(groups).enumerate() {
            let gains = &chosen[at * rows..][..rows];
            let column = self.all[last].iter_mut().zip(gains);
            column.for_each(|(sum, &gain)| *sum = ring.add(*sum, gain));
        }
        self.all = groups
            .iter()
            .map(|g| std::mem::take(&mut self.all[g.end - 1]))
            .collect();
    }
}

/// So many groups of the columns, as even as they go.
fn groups(cols: usize, count: usize) -> Vec<Range<usize>> {
    (0..count)
        .map(|g| g * cols / count..(g + 1) * cols / count)
        .collect()
}

/// What the levels of a tournament cost: of so many rows, of comparisons of `bits` bits, with `chosen` bits
/// of a column that its bit chooses.
struct Levels {
    prices: Prices,
    rows: usize,
    bits: u32,
    chosen: u64,
}

impl Levels {
    /// How many groups so many columns make, so that their level and those behind it cost least, and that.
    fn cheapest(&self, cols: usize, known: &mut BTreeMap<usize, (u64, usize)>) -> (u64, usize) {
        if cols <= 1 {
            return (0, 1);
        }
        if let Some(&found) = known.get(&cols) {
            return found;
        }
        let each = WAYS.map(|ways| cols.div_ceil(ways));
        let each = each.map(|count| (self.price(cols, count) + self.cheapest(count, known).0, count));
        let found = each.into_iter().min().unwrap_or((0, 1));
        known.insert(cols, found);
        found
    }

    /// What one level costs.
    fn price(&self, cols: usize, count: usize) -> u64 {
        let sizes = || groups(cols, count).into_iter().map(|group| group.len());
        let pairs: usize = sizes().map(|size| size * (size - 1) / 2).sum();
        let candidates = self.rows * (cols - count);
        let (all, messages) = all_cost(sizes().max().unwrap_or(1) as u64 - 1);
        let choice = (2 * self.chosen + 2, 2);
        cheapest(self.bits, self.rows * pairs, self.prices).0
            + self.prices.total(candidates, all, messages)
            + self.prices.total(candidates, choice, 2)
    }
}

/// Every column but the last of its group, and that one.
fn candidates(groups: &[Range<usize>]) -> impl Iterator<Item = (usize, usize)> + '_ {
    let of = |g: &Range<usize>| (g.start..g.end - 1, g.end - 1);
    groups
        .iter()
        .map(of)
        .flat_map(|(some, last)| some.map(move |one| (one, last)))
}

/// The largest of the first kind, and what stands in its place in the others.
fn largest(party: &mut Party, mut kinds: Vec<Columns>, window: Window) -> Result<Vec<Vec<u64>>> {
    let levels = Levels {
        prices: party.prices,
        rows: kinds[0].all[0].len(),
        bits: window.ring().bits() - 1,
        chosen: kinds.iter().map(|kind| u64::from(kind.ring.bits())).sum(),
    };
    let mut known = BTreeMap::new();
    while kinds[0].all.len() > 1 {
        let cols = kinds[0].all.len();
        let groups = groups(cols, levels.cheapest(cols, &mut known).1);
        let bits = winners(party, &kinds[0].all, &groups, window)?;
        let gains: Vec<Vec<u64>> = kinds.iter().map(|kind| kind.gains(&groups)).collect();
        let rings = kinds.iter().map(|kind| kind.ring);
        let payloads: Vec<(&[u64], Ring)> = gains.iter().map(Vec::as_slice).zip(rings).collect();
        let chosen = select_many(party, &bits, &payloads)?;
        let each = kinds.iter_mut().zip(&chosen);
        each.for_each(|(kind, chosen)| kind.next(&groups, chosen));
    }
    Ok(kinds.into_iter().map(|mut kind| kind.all.remove(0)).collect())
}

/// XOR shares of whether a column holds its group's largest value (of equal ones the first), for the
/// [`candidates`], one column after the other.
fn winners(
    party: &mut Party,
    columns: &[Vec<u64>],
    groups: &[Range<usize>],
    window: Window,
) -> Result<Vec<u8>> {
    let (rows, ring) = (columns[0].len(), window.ring());
    let cut: Vec<Vec<u64>> = columns.iter().map(|column| window.cut(column)).collect();
    let pairs: Vec<(usize, usize)> = groups
        .iter()
        .flat_map(|g| g.clone().flat_map(|i| (i + 1..g.end).map(move |j| (i, j))))
        .collect();
    let differences: Vec<u64> = pairs
        .iter()
        .flat_map(|&(i, j)| subtract(&cut[i], &cut[j], ring))
        .collect();
    let less = negative(party, &differences, ring)?;
    let rest = not(party, &less);
    let most = groups.iter().map(Range::len).max().unwrap_or(1);
    let true_share = vec![u8::from(party.is_client()); rows];
    let (mut operands, mut before) = (vec![vec![]; most - 1], 0);
    for size in groups.iter().map(Range::len) {
        let bits_of = |bits: &'_ [u8], i: usize, j: usize| {
            let pair = before + i * (2 * size - i - 1) / 2 + j - i - 1;
            bits[pair * rows..][..rows].to_vec()
        };
        for one in 0..size - 1 {
            // a column against each of its group: not less than those behind it, more than those ahead
            for (place, operand) in operands.iter_mut().enumerate() {
                let other = place + usize::from(place >= one);
                operand.extend(match other {
                    _ if other >= size => true_share.clone(),
                    _ if one < other => bits_of(&rest, one, other),
                    _ => bits_of(&less, other, one),
                });
            }
        }
        before += size * (size - 1) / 2;
    }
    let offers = next_sender(party, differences.len(), ring);
    all(party, operands, offers)
}

fn subtract(x: &[u64], y: &[u64], ring: Ring) -> Vec<u64> {
    x.iter().zip(y).map(|(&x, &y)| ring.sub(x, y)).collect()
}

fn check(len: usize, rows: usize, cols: usize) -> Result<()> {
    if cols > 0 && rows.checked_mul(cols) == Some(len) {
        return Ok(());
    }
    let detail = format!("{len} elements are not {rows} rows of {cols} columns");
    Err(MpcError::Shape {
        op: "max_rows",
        detail,
    })
}
