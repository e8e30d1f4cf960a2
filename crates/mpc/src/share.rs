//! Additive shares: x = x_client + x_server modulo 2^bits, kept in `u64`, canonical (below 2^bits).
//!
//! Three facts carry most of the protocols. Modulo a smaller power of two a sharing stays a sharing
//! ([`Ring::reduce`] is local). Dropping the low d bits *together with* the top of the ring is local too:
//! from 2^(k+d) to 2^k the wrap of the shares becomes a multiple of 2^k ([`Ring::shift_down`]), with an error
//! of one unit of the last place. Only growing the ring needs the other party.

/// The ring Z_{2^bits}, 1 <= bits <= 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ring(u32);

/// Z_{2^64}.
pub const Z64: Ring = Ring(64);
/// Z_{2^32}.
pub const Z32: Ring = Ring(32);

impl Ring {
    /// The ring of this many bits. Panics outside 1..=64 (callers check what comes from outside).
    pub const fn new(bits: u32) -> Self {
        assert!(bits >= 1 && bits <= 64);
        Self(bits)
    }

    /// log2 of the modulus.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// 2^bits - 1.
    pub const fn mask(self) -> u64 {
        u64::MAX >> (64 - self.0)
    }

    /// The representative of x.
    pub const fn reduce(self, x: u64) -> u64 {
        x & self.mask()
    }

    /// x + y.
    pub const fn add(self, x: u64, y: u64) -> u64 {
        self.reduce(x.wrapping_add(y))
    }

    /// x - y.
    pub const fn sub(self, x: u64, y: u64) -> u64 {
        self.reduce(x.wrapping_sub(y))
    }

    /// x * y.
    pub const fn mul(self, x: u64, y: u64) -> u64 {
        self.reduce(x.wrapping_mul(y))
    }

    /// -x.
    pub const fn neg(self, x: u64) -> u64 {
        self.reduce(x.wrapping_neg())
    }

    /// From a signed integer.
    pub const fn from_signed(self, x: i64) -> u64 {
        self.reduce(x as u64)
    }

    /// The representative in [-2^(bits-1), 2^(bits-1)).
    pub const fn signed(self, x: u64) -> i64 {
        let up = 64 - self.0;
        ((x << up) as i64) >> up
    }

    /// The top bit.
    pub const fn top(self, x: u64) -> u8 {
        ((x >> (self.0 - 1)) & 1) as u8
    }

    /// One party's step of dividing by 2^d while the ring shrinks by d bits: local, the sum is off by at most
    /// one.
    pub const fn shift_down(self, x: u64, d: u32) -> u64 {
        x >> d
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_wrap_at_the_top_bit() {
        let ring = Ring::new(8);
        assert_eq!(
            (ring.signed(0x7f), ring.signed(0x80), ring.signed(0xff)),
            (127, -128, -1)
        );
        assert_eq!(ring.from_signed(-3), 0xfd);
        assert_eq!(Z64.signed(u64::MAX), -1);
    }

    #[test]
    fn shrinking_and_shifting_together_is_local() {
        let (from, d) = (Ring::new(20), 6);
        let to = Ring::new(14);
        for x in (-(1i64 << 18)..(1 << 18)).step_by(977) {
            for share in (0..1u64 << 20).step_by(7919) {
                let other = from.sub(from.from_signed(x), share);
                let sum = to.add(from.shift_down(share, d), from.shift_down(other, d));
                let error = to.signed(to.sub(sum, to.from_signed(x >> d)));
                assert!((-1..=0).contains(&error), "x {x} error {error}");
            }
        }
    }
}
