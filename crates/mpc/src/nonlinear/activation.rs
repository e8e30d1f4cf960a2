//! GELU and SiLU: max(x, 0) minus a bump of |x| that is fitted by two to four squares and vanishes further
//! out.
use super::chain::Chain;
use super::few::FEW;
use super::fits;
use super::fixed::{check_range, coarse, convert, rescale, shape, subtract, Fixed};
use super::seg4;
use crate::compare::{below_many, select, xor};
use crate::{Party, Result, Ring};

/// Ways to approximate GELU. The error is the largest distance to x*Phi(x), rounding included; bits are those
/// on the wire for each element of a Z_{2^64} sharing, correlations not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GeluForm {
    /// max(x, 0) - |x| Phi(-|x|), degree 4 on |x| < 3.25: 2 squares; error 3e-3.
    #[default]
    Abs4,
    /// The same with degree 8 on |x| < 4: 3 squares; error 1e-3.
    Abs8,
    /// Four segments with the paper's polynomials of degrees 3 and 6 (BumbleBee, appendix D), Z_{2^64}, 18
    /// fraction bits; error 3.4e-2, at -5 (the paper says 1.5e-2; its printed cubic is 0.033 there).
    Seg4,
    /// GELU in its form with tanh, as [`GeluForm::Abs4`]: error 3e-3.
    Tanh4,
    /// GELU in its form with tanh, as [`GeluForm::Abs8`]: error 1e-3.
    Tanh8,
    /// BOLT's 0.5 x + quartic in |x| on |x| < 2.7 (BumbleBee, appendix D): [`GeluForm::Abs4`]'s protocol with
    /// another chain; error 1.0e-2.
    P4,
}

/// Ways to approximate SiLU; errors as those of [`GeluForm`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SiluForm {
    /// max(x, 0) - |x| sigmoid(-|x|), degree 8 on |x| < 8.25: 3 squares; error 2.5e-3.
    #[default]
    Abs8,
    /// The same with degree 16 on |x| < 10: 4 squares; error 1e-3.
    Abs16,
}

/// Fraction bits of the copy that is compared with the thresholds.
const COARSE: u32 = 6;
/// Fraction bits of the result inside, before it is widened.
const FINE: u32 = 14;
/// Fraction bits of a chain.
const NARROW: u32 = 15;
/// Default bound on inputs: |x| <= 2^10 - 1.
pub const RANGE: u32 = 10;

/// Where an activation's bump is fitted.
#[derive(Clone, Copy)]
struct Bump {
    chain: &'static Chain,
    limit: f64,
}

/// GELU for |x| < 1023 by the default form, from `ring`/`frac` to the same fraction in `out`. See
/// [`gelu_with`].
///
/// # Errors
/// Those of [`gelu_with`].
pub fn gelu(party: &mut Party, x: &[u64], ring: Ring, frac: u32, out: Ring) -> Result<Vec<u64>> {
    gelu_with(party, x, Fixed { ring, frac }, out, GeluForm::default(), RANGE)
}

/// GELU for |x| <= 2^range - 1 by a form (nearer to 2^range, rounding may leave the ring).
///
/// Cost of the default for each element, Z_{2^64} in and out, range 10: two squares of 17-bit shares, 3
/// thresholds on 18 bits, multiplexers of 32, 26 and 15 bits, extensions: 920 bits on the wire and 40
/// correlated transfers, 8 rounds.
///
/// # Errors
/// [`crate::MpcError::Shape`] for formats or ranges that do not fit; those of the channel.
pub fn gelu_with(
    party: &mut Party,
    x: &[u64],
    from: Fixed,
    out: Ring,
    form: GeluForm,
    range: u32,
) -> Result<Vec<u64>> {
    let to = Fixed { ring: out, ..from };
    let (chain, limit) = match form {
        GeluForm::Abs4 => (&fits::GELU, 3.25),
        GeluForm::Abs8 => (&fits::GELU_FINE, 4.0),
        GeluForm::Tanh4 => (&fits::GELU_TANH, 3.25),
        GeluForm::Tanh8 => (&fits::GELU_TANH_FINE, 4.0),
        GeluForm::P4 => (&fits::P4, 2.75),
        GeluForm::Seg4 => return party.measured("gelu", |party| seg4::gelu(party, x, from, to, range)),
    };
    let bump = Bump { chain, limit };
    party.measured("gelu", |party| rectified(party, x, from, to, bump, range))
}

/// SiLU, x*sigmoid(x), for |x| <= 2^range - 1: max(x, 0) - |x| sigmoid(-|x|) by a form. Its bump decays as
/// x exp(-x), more slowly than GELU's, so that it is fitted further out and takes a square more: 1543 bits
/// for each element with three, 1920 with four.
///
/// # Errors
/// [`crate::MpcError::Shape`] for formats or ranges that do not fit; those of the channel.
pub fn silu(
    party: &mut Party,
    x: &[u64],
    from: Fixed,
    out: Ring,
    form: SiluForm,
    range: u32,
) -> Result<Vec<u64>> {
    let to = Fixed { ring: out, ..from };
    let (chain, limit) = match form {
        SiluForm::Abs8 => (&fits::SILU, 8.25),
        SiluForm::Abs16 => (&fits::SILU_FINE, 10.0),
    };
    let bump = Bump { chain, limit };
    party.measured("silu", |party| rectified(party, x, from, to, bump, range))
}

/// The format of max(x, 0): the result before it is widened.
fn middle(from: Fixed, range: u32) -> Fixed {
    let frac = FINE.min(from.frac);
    Fixed::new(range + frac + 2, frac)
}

/// Refuses what GELU and SiLU refuse, before anything is sent: formats or ranges that do not fit.
///
/// # Errors
/// [`crate::MpcError::Shape`].
pub fn check_activation(from: Fixed, out: Ring, range: u32) -> Result<()> {
    let op = "activation";
    check_range(op, range, FINE)?;
    let needed = range.saturating_add(from.frac).saturating_add(1);
    if needed > from.ring.bits().min(out.bits()) || from.frac < COARSE {
        return shape(op, format!("|x| < 2^{range} in {from:?} to {out:?}"));
    }
    Ok(())
}

/// Bits 1{x < t} from a coarse copy; thresholds are hit within 2/64.
fn thresholds(party: &mut Party, x: &[u64], from: Fixed, range: u32, at: &[f64]) -> Result<Vec<Vec<u8>>> {
    let coarse = coarse(range, COARSE);
    let low = rescale(party, x, from, 1.0, coarse)?;
    let at: Vec<i64> = at.iter().map(|t| coarse.ring.signed(coarse.encode(*t))).collect();
    below_many(party, &low, coarse.ring, &at)
}

/// max(x, 0) - 1{|x| < limit} * bump(|x|).
///
/// A wrong sign of a tiny x does no harm: max and bump then err together, and max(x, 0) - h(|x|) = x - h(-x)
/// continues the function smoothly through 0, for which the chains are fitted a little below 0.
///
/// Few values have the square of x made beside the thresholds: it is that of |x|.
fn rectified(
    party: &mut Party,
    x: &[u64],
    from: Fixed,
    to: Fixed,
    bump: Bump,
    range: u32,
) -> Result<Vec<u64>> {
    check_activation(from, to.ring, range)?;
    let (wide, rest) = (Chain::input(NARROW), middle(from, range));
    let mut size = rescale(party, x, from, bump.chain.sigma, wide)?;
    let compare = |party: &mut Party| thresholds(party, x, from, range, &[-bump.limit, 0.0, bump.limit]);
    let (squares, below) = if x.len() < FEW {
        let (squares, below) = Chain::squares(party, &size, NARROW, compare)?;
        (Some(squares), below)
    } else {
        (None, compare(party)?)
    };
    let mut result = rescale(party, x, from, 1.0, rest)?;
    let negative =
        crate::compare::select_many(party, &below[1], &[(&size, wide.ring), (&result, rest.ring)])?;
    let twice: Vec<u64> = negative[0].iter().map(|v| v.wrapping_mul(2)).collect();
    subtract(&mut size, &twice, wide.ring);
    subtract(&mut result, &negative[1], rest.ring);
    let height = match squares {
        Some(squares) => bump.chain.evaluate_from(party, squares, size, NARROW)?,
        None => bump.chain.evaluate(party, size, NARROW)?,
    };
    let inside = xor(&below[0], &below[2]);
    let height = inside_only(party, &inside, &height, bump.chain.output(NARROW), rest)?;
    subtract(&mut result, &height, rest.ring);
    convert(party, &result, rest, to)
}

/// bit*h brought to `rest`.
fn inside_only(party: &mut Party, bit: &[u8], h: &[u64], from: Fixed, rest: Fixed) -> Result<Vec<u64>> {
    let low = from.frac - rest.frac.min(from.frac);
    let narrow = Fixed::new(from.ring.bits() - low, from.frac - low);
    let h = crate::compare::shift_rounded(party, h, from.ring, low);
    let h = select(party, bit, &h, narrow.ring)?;
    convert(party, &h, narrow, rest)
}
