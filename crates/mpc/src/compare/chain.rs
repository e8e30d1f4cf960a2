//! The chain of lookups behind comparisons and equality tests.
//!
//! Both parties hold a private value and walk through its digits from the lowest. Between two steps they hold
//! an XOR share of one bit, the *carry* (that of x + y, or "equal so far"). In a step the sender offers the
//! table of the next carry over all digits and carry shares of the receiver, his own digit and carry share
//! being fixed; the lookup's output is a fresh XOR sharing. A chain needs no second bit ("equal") a digit as
//! the tree of CrypTFlow2's millionaire does (Rathee et al. 2020, section 3.1): 5 bits and 1.5 correlated
//! transfers a bit of the values with 2-bit digits, against about 7 and 2 of the tree with the same tables.
//! The price is depth; half of it is won back because the roles alternate: who answers step i knows its
//! result at once and sends the choice of step i+1 along, so a step takes one message of latency, not two.
use super::plan::Step;
use crate::{Party, Result, Role};

/// What the chained bit means.
#[derive(Clone, Copy)]
pub(super) enum Rule {
    /// The carry of x + y.
    Carry,
    /// 1 while x = y.
    Equal,
}

impl Rule {
    /// The bit after a digit; `before` is `None` in the first step.
    const fn apply(self, x: u8, y: u8, before: Option<u8>, bits: u32) -> u8 {
        match self {
            Self::Carry => {
                let carry = match before {
                    Some(bit) => bit,
                    None => 0,
                };
                (x + y + carry) >> bits & 1
            }
            Self::Equal => (x == y) as u8 & !matches!(before, Some(0)) as u8,
        }
    }

    /// The table that answers a sender with this digit and carry share; the index is receiver's digit +
    /// 2^bits * his carry share.
    fn table(self, step: Step, digit: u8, share: u8) -> Vec<u8> {
        let mask = (1 << step.digit) - 1;
        (0..1u8 << step.index())
            .map(|index| {
                let before = step.carry.then_some(index >> step.digit ^ share);
                self.apply(digit, index & mask, before, step.digit)
            })
            .collect()
    }
}

/// Who answers the step of this number. Once lanes have parted it stays the party whose values differ: the
/// other's digit serves all lanes.
pub(super) fn sender(steps: &[Step], number: usize) -> Role {
    let alternating = steps
        .iter()
        .take(number)
        .take_while(|step| step.payload == 1)
        .count();
    if alternating.is_multiple_of(2) {
        Role::Server
    } else {
        Role::Client
    }
}

/// Runs the steps. `lanes` holds this party's values (u64, only the low bits that the steps cover are used):
/// one slice, or one for every threshold, all of one length n; before the lanes part the first is used. Only
/// the sender from the parting step on may have lanes that differ. `carry` is the share that comes in where
/// the first step expects one. Returns n bits, or n for every lane (lane by lane) once they parted. Wire and
/// transfers: [`Step::wire`], [`Step::transfers`].
pub(super) fn run(
    party: &mut Party,
    rule: Rule,
    steps: &[Step],
    lanes: &[&[u64]],
    carry: Option<Vec<u8>>,
) -> Result<Vec<u8>> {
    let mut carry = carry.unwrap_or_default();
    let mut low = 0;
    for (number, &step) in steps.iter().enumerate() {
        let digits = digits(&lanes[..step.lookups.max(1)], low, step.digit);
        let answer = if party.role() == sender(steps, number) {
            let tables = if step.payload > 1 {
                parting_tables(rule, step, lanes, low, &carry)
            } else {
                tables(rule, step, &digits, &carry)
            };
            if step.lookups > 1 {
                party.offer_lanes(step.digit, lanes[0].len(), &tables)?
            } else {
                party.offer(step.index(), step.payload, &tables)?
            }
        } else if step.lookups > 1 {
            let chosen = party.choose_lanes(step.digit, &digits[..lanes[0].len()], &carry)?;
            party.take_lanes(chosen)?
        } else {
            let chosen = party.choose_of(step.index(), &indices(step, digits, &carry))?;
            party.take(chosen, step.payload)?
        };
        carry = part(answer, step.payload);
        low += step.digit;
    }
    Ok(carry)
}

/// Digits of `bits` bits from bit `low`, lane by lane.
fn digits(lanes: &[&[u64]], low: u32, bits: u32) -> Vec<u8> {
    let mask = (1 << bits) - 1;
    let mut digits = Vec::with_capacity(lanes.iter().map(|lane| lane.len()).sum());
    for lane in lanes {
        digits.extend(lane.iter().map(|&v| (v >> low) as u8 & mask));
    }
    digits
}

fn indices(step: Step, mut digits: Vec<u8>, carry: &[u8]) -> Vec<u8> {
    if step.carry {
        digits
            .iter_mut()
            .zip(carry)
            .for_each(|(d, c)| *d |= c << step.digit);
    }
    digits
}

/// All tables of a sender, one a row: at digit + 2^bits * carry share.
fn all_tables(rule: Rule, step: Step) -> Vec<u8> {
    let shares = 0..=u8::from(step.carry);
    shares
        .flat_map(|share| (0..1u8 << step.digit).flat_map(move |digit| rule.table(step, digit, share)))
        .collect()
}

fn tables(rule: Rule, step: Step, digits: &[u8], carry: &[u8]) -> Vec<u8> {
    let (all, size) = (all_tables(rule, step), 1usize << step.index());
    let rows = indices(step, digits.to_vec(), carry);
    let mut out = Vec::with_capacity(rows.len() * size);
    for row in rows {
        out.extend_from_slice(&all[usize::from(row) * size..][..size]);
    }
    out
}

/// Tables with one bit for every lane.
fn parting_tables(rule: Rule, step: Step, lanes: &[&[u64]], low: u32, carry: &[u8]) -> Vec<u8> {
    let mut joined = vec![0u8; lanes[0].len() << step.index()];
    for (lane, values) in lanes.iter().enumerate() {
        let tables = tables(rule, step, &digits(&[values], low, step.digit), carry);
        joined
            .iter_mut()
            .zip(tables)
            .for_each(|(j, bit)| *j |= bit << lane);
    }
    joined
}

/// Payloads of several bits, apart: lane by lane.
fn part(answer: Vec<u8>, payload: u32) -> Vec<u8> {
    if payload == 1 {
        return answer;
    }
    (0..payload)
        .flat_map(|lane| answer.iter().map(move |bits| bits >> lane & 1))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_follow_the_rules() {
        let step = Step {
            digit: 2,
            carry: true,
            lookups: 1,
            payload: 1,
        };
        for digit in 0..4u8 {
            for share in 0..2u8 {
                let (carry, equal) = (
                    Rule::Carry.table(step, digit, share),
                    Rule::Equal.table(step, digit, share),
                );
                for index in 0..8u8 {
                    let (other, before) = (index % 4, (index / 4) ^ share);
                    assert_eq!(carry[usize::from(index)], u8::from(digit + other + before >= 4));
                    assert_eq!(equal[usize::from(index)], u8::from(digit == other && before == 1));
                }
            }
        }
    }
}
