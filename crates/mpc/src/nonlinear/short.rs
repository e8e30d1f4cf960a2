//! Exact or rounded products with factors of few bits, by oblivious transfer.
//!
//! With -B <= x < 2^(k-1) - B the top bit of x + B is zero, so the integers of a sharing a0 + a1 of x + B
//! modulo 2^k wrap unless both top bits are zero: x = a0 + a1 - 2^k - B + 2^k c0 c1 with the complemented top
//! bits c. Each party chooses by the k bits of its a from the other's share of y, and once more by its c; the
//! rest is local. So a factor costs its own bits, not those of the product's ring, and no extension of it; a
//! factor of a whole row chooses once for all columns ([`Multiples`]).
use crate::compare::shift_rounded;
use crate::ot::{ChosenBits, HeardBits, Multiples};
use crate::{Party, Result, Ring};

/// Shares in `ring` of x with -least <= x < 2^(bits-1) - least.
pub struct Factors<'a> {
    /// This party's share.
    pub shares: &'a [u64],
    /// Where the shares are.
    pub ring: Ring,
    /// Minus the least value that x may have.
    pub least: u64,
}

/// One's own part of [`Factors`].
struct Half {
    /// The share of x + least, below 2^bits.
    digits: Vec<u64>,
    /// 1 where its top bit is zero.
    clear: Vec<u64>,
    /// -2^bits - least.
    public: u64,
}

impl<'a> Factors<'a> {
    /// |x| < 2^(bits-2), as for an extension.
    pub fn signed(shares: &'a [u64], ring: Ring) -> Self {
        let least = (1 << (ring.bits() - 1)) >> 1;
        Self { shares, ring, least }
    }

    fn half(&self, party: &Party) -> Half {
        let least = if party.is_client() { 0 } else { self.least };
        let digits: Vec<u64> = self.shares.iter().map(|&x| self.ring.add(x, least)).collect();
        Half {
            clear: digits.iter().map(|&a| 1 ^ u64::from(self.ring.top(a))).collect(),
            public: 0u64.wrapping_sub(self.ring.mask()).wrapping_sub(1 + self.least),
            digits,
        }
    }
}

/// Cross terms, one or both ways: what this party chooses by and what it offers; either may be empty.
#[derive(Clone)]
pub(super) struct Cross {
    pub choices: Vec<u64>,
    pub offers: Vec<u64>,
    pub how: Multiples,
}

impl Cross {
    /// Only the client (or only the server) chooses.
    pub(super) fn one_way(chooses: bool, values: Vec<u64>, how: Multiples) -> Self {
        let (choices, offers) = if chooses {
            (values, vec![])
        } else {
            (vec![], values)
        };
        Self { choices, offers, how }
    }

    /// Transfers as the receiver.
    fn chosen(&self) -> usize {
        self.choices.len() * self.how.digits as usize
    }

    /// Transfers as the sender.
    fn offered(&self) -> usize {
        self.offers.len() / self.how.columns * self.how.digits as usize
    }
}

/// Shares of the sums of both directions of every term, in its `how.result()`; all in one round.
///
/// # Errors
/// Those of the channel.
pub(super) fn cross(party: &mut Party, terms: &[Cross]) -> Result<Vec<Vec<u64>>> {
    Ok(cross_beside(party, terms, |_| Ok(()))?.0)
}

/// [`cross`], and what `beside` returns: a protocol that the client begins with a choice, such as a
/// comparison. Its first choices go with these, and the last answers here wait for no more than its last.
///
/// All transfers are reserved first: a refill for a later term would come before the answer to an earlier
/// one, which its receiver reads first. All choices are heard before any is answered.
///
/// # Errors
/// Those of the channel and of `beside`.
pub(super) fn cross_beside<T>(
    party: &mut Party,
    terms: &[Cross],
    beside: impl FnOnce(&mut Party) -> Result<T>,
) -> Result<(Vec<Vec<u64>>, T)> {
    let offered = terms.iter().map(Cross::offered).sum();
    party.reserve_cots(offered, terms.iter().map(Cross::chosen).sum())?;
    let choose = |party: &mut Party| {
        let one = |term: &Cross| (term.chosen() > 0).then(|| party.choose_bits(&term.choices, term.how));
        let chosen = terms.iter().map(one).map(Option::transpose);
        chosen.collect::<Result<Vec<_>>>()
    };
    let shapes: Vec<(usize, Multiples)> = terms.iter().map(|term| (term.offers.len(), term.how)).collect();
    let hear = move |party: &mut Party| {
        let one = |(count, how)| (count > 0).then(|| party.hear_bits(count, how));
        let heard = shapes.into_iter().map(one).map(Option::transpose);
        heard.collect::<Result<Vec<_>>>()
    };
    let answer = |party: &mut Party, heard: Vec<Option<HeardBits>>| {
        let one = |(term, heard): (&Cross, Option<_>)| {
            heard.map_or(Ok(vec![]), |heard| party.answer_multiples(&term.offers, &heard))
        };
        terms.iter().zip(heard).map(one).collect::<Result<Vec<_>>>()
    };
    let take = |party: &mut Party, chosen: Vec<Option<ChosenBits>>| {
        let one = |chosen: Option<ChosenBits>| chosen.map_or(Ok(vec![]), |bits| party.take_multiples(bits));
        chosen.into_iter().map(one).collect::<Result<Vec<_>>>()
    };
    let (kept, taken, value) = if party.is_client() {
        let chosen = choose(party)?;
        let early = move |party: &mut Party| Ok((take(party, chosen)?, hear(party)?));
        let ((taken, heard), value) = party.beside(early, beside)?;
        (answer(party, heard)?, taken, value)
    } else {
        let heard = hear(party)?;
        let kept = answer(party, heard)?;
        let chosen = choose(party)?;
        let value = beside(party)?;
        (kept, take(party, chosen)?, value)
    };
    let sums = terms.iter().zip(kept.into_iter().zip(taken));
    let sums = sums.map(|(term, shares)| sum(shares, term.how.result()));
    Ok((sums.collect(), value))
}

/// The sum of what was kept and taken; either may be absent.
fn sum((kept, mut taken): (Vec<u64>, Vec<u64>), ring: Ring) -> Vec<u64> {
    if taken.is_empty() {
        return kept;
    }
    taken
        .iter_mut()
        .zip(&kept)
        .for_each(|(t, &k)| *t = ring.add(*t, k));
    taken
}

/// value * factor for every value of a factor's row.
fn by_rows(factors: &[u64], values: &[u64]) -> Vec<u64> {
    let columns = values.len() / factors.len().max(1);
    let rows = factors.iter().zip(values.chunks(columns.max(1)));
    rows.flat_map(|(&f, row)| row.iter().map(move |&y| f.wrapping_mul(y)))
        .collect()
}

/// Shares of x y / 2^drop modulo 2^(bits - drop), bits those of y's ring; a factor x for every y, or for
/// every row of them. Exact for drop = 0, else off by at most min(drop, x's bits) + 3 units, a tenth of that
/// as a rule.
///
/// Cost for each element: twice the sum over x's bits i of (bits - max(i, drop)), and bits - max(x's, drop)
/// twice; for each factor 2 (x's bits + 1) bits and as many correlated transfers. One round.
///
/// # Errors
/// [`crate::MpcError::Shape`] for rows of different lengths; those of the channel.
pub fn scaled(party: &mut Party, x: &Factors<'_>, y: &[u64], ring: Ring, drop: u32) -> Result<Vec<u64>> {
    if y.is_empty() && x.shares.is_empty() {
        return Ok(vec![]);
    }
    let (k, columns) = (x.ring.bits(), whole_rows(x.shares.len(), y.len())?);
    let how = Multiples {
        digits: k.min(ring.bits()),
        ring,
        drop,
        columns,
    };
    let half = x.half(party);
    let masked = by_rows(&half.clear, y);
    let mut terms = vec![Cross {
        choices: half.digits.clone(),
        offers: y.to_vec(),
        how,
    }];
    if k < ring.bits() {
        let how = Multiples {
            digits: 1,
            ring: Ring::new(ring.bits() - k),
            drop: drop.saturating_sub(k),
            columns,
        };
        terms.push(Cross {
            choices: half.clear,
            offers: masked,
            how,
        });
    }
    let crossed = party.measured("scaled_by_ot", |party| cross(party, &terms))?;
    let own: Vec<u64> = half.digits.iter().map(|&a| a.wrapping_add(half.public)).collect();
    let local: Vec<u64> = by_rows(&own, y).iter().map(|&p| ring.reduce(p)).collect();
    let mut sum = shift_rounded(party, &local, ring, drop);
    for (term, up) in crossed.iter().zip([0, k.saturating_sub(drop)]) {
        sum.iter_mut()
            .zip(term)
            .for_each(|(s, &t)| *s = how.result().add(*s, t << up));
    }
    Ok(sum)
}

fn whole_rows(factors: usize, values: usize) -> Result<usize> {
    if factors > 0 && values > 0 && values.is_multiple_of(factors) {
        return Ok(values / factors);
    }
    super::fixed::shape("scaled", format!("{factors} factors of {values} values"))
}

/// Squares, and what was squared in their ring or nothing.
pub(super) type Squares = (Vec<u64>, Vec<u64>);

/// Shares of x^2 in a ring, and of x there where it `grows`; exact for drop = 0, else the square is off by
/// less than (min(drop, x's bits) + 1) 2^drop. Cost for each element, of k bits to m: k + 2 (m - k) bits, the
/// sum over x's bits i of (m - 1 - max(i, drop)), and k + 2 correlated transfers; m - k + 1 bits and one
/// transfer more where x grows; one round.
///
/// # Errors
/// Those of the channel; [`crate::MpcError::Shape`] unless m > k + 1 and drop < m - 1.
pub(crate) fn square(
    party: &mut Party,
    x: &Factors<'_>,
    to: Ring,
    drop: u32,
    grows: bool,
) -> Result<Squares> {
    Ok(square_beside(party, x, to, drop, grows, |_| Ok(()))?.0)
}

/// What [`square`] costs: bits on the wire and correlated transfers.
pub(super) fn square_cost(from: Ring, to: Ring, drop: u32) -> (u64, u64) {
    let (digits, more) = (from.bits(), to.bits() - from.bits());
    let how = Multiples {
        digits,
        drop,
        ..Ring::new(to.bits() - 1).into()
    };
    (u64::from(how.bits() + digits + 2 * more), u64::from(digits + 2))
}

/// [`square`], and what `beside` returns ([`cross_beside`]).
///
/// # Errors
/// Those of [`square`] and of `beside`.
pub(super) fn square_beside<T>(
    party: &mut Party,
    x: &Factors<'_>,
    to: Ring,
    drop: u32,
    grows: bool,
    beside: impl FnOnce(&mut Party) -> Result<T>,
) -> Result<(Squares, T)> {
    let (k, m) = (x.ring.bits(), to.bits());
    if m <= k + 1 || drop + 1 >= m {
        return super::fixed::shape("square", format!("from {k} to {m} bits less {drop}"));
    }
    let (half, client) = (x.half(party), party.is_client());
    let mut terms = half.terms_of_square(client, k, m, drop).to_vec();
    if grows {
        terms.push(half.wrap(client, Ring::new(m - k)));
    }
    let (crossed, value) = party.measured("square_by_ot", |party| cross_beside(party, &terms, beside))?;
    let public = if client { half.public } else { 0 };
    let grown = crossed.get(2).map(|wraps| {
        let parts = half.digits.iter().zip(wraps);
        parts
            .map(|(&a, &w)| to.reduce(a.wrapping_add(public).wrapping_add(w << k)))
            .collect()
    });
    let own = |&a: &u64| match client {
        true => a.wrapping_add(half.public).wrapping_pow(2),
        false => a.wrapping_mul(a.wrapping_add(half.public << 1)),
    };
    let crossed = crossed[0]
        .iter()
        .zip(&crossed[1])
        .map(|(&c, &w)| (c << (drop + 1)).wrapping_add(w << (k + 1)));
    let own = half.digits.iter().map(own).zip(crossed);
    let squares = own.map(|(o, c)| to.reduce(o.wrapping_add(c))).collect();
    Ok(((squares, grown.unwrap_or_default()), value))
}

impl Half {
    /// c0 c1, which the client chooses by its own.
    fn wrap(&self, client: bool, ring: Ring) -> Cross {
        let how = Multiples {
            digits: 1,
            ..ring.into()
        };
        Cross::one_way(client, self.clear.clone(), how)
    }

    /// With the server's A = a0 and the client's b = a1 - 2^k - B, x^2 = A^2 + b^2 + 2 A b + 2^(k+1) c0 c1
    /// (A + b + 2^(k-1)): A a1 one way, and what counts where nothing wraps, both ways.
    fn terms_of_square(&self, client: bool, k: u32, m: u32, drop: u32) -> [Cross; 2] {
        let more = if client { self.public } else { 1 << (k - 1) };
        let unwrapped = self
            .digits
            .iter()
            .zip(&self.clear)
            .map(|(a, &c)| a.wrapping_add(more).wrapping_mul(c));
        let whole = Multiples {
            digits: k,
            drop,
            ..Ring::new(m - 1).into()
        };
        let wrap = Multiples {
            digits: 1,
            ..Ring::new(m - k - 1).into()
        };
        let (choices, offers) = (self.clear.clone(), unwrapped.collect());
        [
            Cross::one_way(client, self.digits.clone(), whole),
            Cross {
                choices,
                offers,
                how: wrap,
            },
        ]
    }
}
