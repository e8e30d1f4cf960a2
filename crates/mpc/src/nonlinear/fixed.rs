//! Fixed-point formats and the moves between them. Going to a smaller ring is local; growing a ring takes one
//! correlated transfer.
use crate::compare::{extend, shift_rounded};
use crate::{MpcError, Party, Result, Ring};

/// A ring and the fraction bits of the values in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    /// The ring of the shares.
    pub ring: Ring,
    /// Fraction bits.
    pub frac: u32,
}

impl Fixed {
    /// Values of `frac` fraction bits in Z_{2^bits}.
    pub const fn new(bits: u32, frac: u32) -> Self {
        Self {
            ring: Ring::new(bits),
            frac,
        }
    }

    /// Nearest representable integer to a real value.
    pub fn encode(self, value: f64) -> u64 {
        self.ring
            .from_signed((value * (self.frac as f64).exp2()).round() as i64)
    }

    /// The real value of a ring element.
    pub fn decode(self, value: u64) -> f64 {
        self.ring.signed(value) as f64 / (self.frac as f64).exp2()
    }
}

/// Relative error that a rounded public factor may have.
const FACTOR_ERROR: f64 = 1.0 / 16384.0;

pub(crate) fn shape<T>(op: &'static str, detail: String) -> Result<T> {
    Err(MpcError::Shape { op, detail })
}

/// Adds a public constant.
pub(crate) fn add_public(party: &Party, x: &mut [u64], ring: Ring, constant: u64) {
    if !party.is_client() {
        x.iter_mut().for_each(|x| *x = ring.add(*x, constant));
    }
}

/// The integer M and shift e that multiply by `factor` between two formats: x*M, then e bits off. The ring
/// shrinks by e. A power of two is exact; another factor takes as many bits as there is room for.
fn multiplier(from: Fixed, to: Fixed, factor: f64) -> Option<(u64, u32)> {
    let room = from.ring.bits().checked_sub(to.ring.bits())?;
    let exact = |e: u32| factor * (to.frac as f64 - from.frac as f64 + e as f64).exp2();
    let within = |e: u32, error: f64| {
        let whole = exact(e).round();
        whole != 0.0 && (whole / exact(e) - 1.0).abs() <= error && whole.abs() < 9e15
    };
    let plain = (0..=room).find(|&e| within(e, 0.0));
    let e = plain.or_else(|| (0..=room).rev().find(|&e| within(e, FACTOR_ERROR)))?;
    Some((exact(e).round() as i64 as u64, e))
}

/// x * factor in another format; local where the ring has the room for it, else the ring is first extended
/// (|x| < 2^(bits-2) then).
///
/// The result is x*factor up to one unit of `to` and a relative error of 2^-14 in the factor (none for powers
/// of two). It is right modulo `to.ring`, also where the value does not fit. Cost: nothing, or one [`extend`]
/// by at most `to - from + 16` bits.
///
/// # Errors
/// [`MpcError::Shape`] when more than 64 bits would be needed; those of the channel.
pub fn rescale(party: &mut Party, x: &[u64], from: Fixed, factor: f64, to: Fixed) -> Result<Vec<u64>> {
    if let Some((whole, e)) = multiplier(from, to, factor) {
        let scaled: Vec<u64> = x.iter().map(|&x| from.ring.mul(x, whole)).collect();
        let mut out = shift_rounded(party, &scaled, from.ring, e);
        out.iter_mut().for_each(|x| *x = to.ring.reduce(*x));
        return Ok(out);
    }
    let least = (from.ring.bits() + 1).max(to.ring.bits());
    let wide = (least..=64).find(|&bits| {
        multiplier(
            Fixed {
                ring: Ring::new(bits),
                ..from
            },
            to,
            factor,
        )
        .is_some()
    });
    let Some(bits) = wide else {
        return shape(
            "rescale",
            format!("no ring up to 64 bits takes {from:?} times {factor} to {to:?}"),
        );
    };
    let ring = Ring::new(bits);
    let extended = extend(party, x, from.ring, ring)?;
    rescale(party, &extended, Fixed { ring, ..from }, factor, to)
}

/// The same value in another format, for |x| < 2^(bits-2) of `from`: an extension where the ring grows, zeros
/// below where `to` is finer.
///
/// Cost: at most to.bits - from.bits + |to.frac - from.frac| + 1 bits and one correlated transfer for each
/// element.
///
/// # Errors
/// [`MpcError::Shape`] when `to` has no bits left above the finer fraction; those of the channel.
pub fn convert(party: &mut Party, x: &[u64], from: Fixed, to: Fixed) -> Result<Vec<u64>> {
    if to.frac <= from.frac {
        let drop = from.frac - to.frac;
        let low = shift_rounded(party, x, from.ring, drop);
        return extend(party, &low, Ring::new(from.ring.bits() - drop), to.ring);
    }
    let up = to.frac - from.frac;
    if to.ring.bits() <= up {
        return shape("convert", format!("{from:?} does not fit into {to:?}"));
    }
    let mut out = extend(party, x, from.ring, Ring::new(to.ring.bits() - up))?;
    out.iter_mut().for_each(|x| *x <<= up);
    Ok(out)
}

/// Subtracts y from x in place.
pub(crate) fn subtract(x: &mut [u64], y: &[u64], ring: Ring) {
    x.iter_mut().zip(y).for_each(|(x, &y)| *x = ring.sub(*x, y));
}

/// The format of a copy that is compared with thresholds up to 16.
pub(crate) fn coarse(range: u32, frac: u32) -> Fixed {
    Fixed::new(range.max(4) + frac + 2, frac)
}

/// Bits that a signed range and what the extension needs take: |x| < 2^range in a ring of range + 2 bits.
pub(crate) fn check_range(op: &'static str, range: u32, frac: u32) -> Result<()> {
    if (1..=40).contains(&range) && frac <= 60 - range {
        return Ok(());
    }
    shape(op, format!("a range of 2^{range} with {frac} fraction bits"))
}
