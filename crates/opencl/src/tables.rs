//! Constants of the kernels, in the words of a flavour: doubles as their bits, integers as they are.

use crate::build::Flavour;
use tacita_ring::{Modulus, NttTable};

impl Flavour {
    /// A canonical residue as a word of the device.
    pub(crate) fn word(self, residue: f64) -> u64 {
        match self {
            Self::F64 => residue.to_bits(),
            Self::U64 => residue as u64,
        }
    }

    /// An integer of either sign, below 2^53.
    pub(crate) fn signed_word(self, integer: f64) -> u64 {
        match self {
            Self::F64 => integer.to_bits(),
            Self::U64 => integer as i64 as u64,
        }
    }

    pub(crate) fn residue(self, word: u64) -> f64 {
        match self {
            Self::F64 => f64::from_bits(word),
            Self::U64 => word as f64,
        }
    }

    /// `T4` of a modulus.
    pub(crate) fn modulus(self, m: &Modulus) -> [u64; 4] {
        let (p, bits) = (m.p(), m.p().ilog2() + 1);
        match self {
            Self::F64 => [p as f64, 1.0 / p as f64, 0.0, f64::from(bits)].map(f64::to_bits),
            Self::U64 => {
                let quotient = |shift: u32| ((1u128 << shift) / u128::from(p)) as u64;
                [p, quotient(64), quotient(bits + 62), u64::from(bits)]
            }
        }
    }

    /// `T2` of a factor, any integer.
    pub(crate) fn factor(self, m: &Modulus, w: u64) -> [u64; 2] {
        let w = w % m.p();
        match self {
            Self::F64 => {
                let centred = m.center(w) as f64;
                [centred, centred / m.p() as f64].map(f64::to_bits)
            }
            Self::U64 => [w, m.shoup(w)],
        }
    }

    /// The factors base^brv(i) for i < n: the roots of one direction in heap order.
    pub(crate) fn roots(self, table: &NttTable, base: u64) -> Vec<u64> {
        let (m, n) = (table.modulus(), table.n());
        let mut words = vec![0; 2 * n];
        let mut power = 1;
        for i in 0..n {
            let at = i.reverse_bits() >> (usize::BITS - table.log_n());
            words[2 * at..][..2].copy_from_slice(&self.factor(m, power));
            power = m.mul(power, base);
        }
        words
    }

    /// c/n and c/n times the root of the last level of the inverse, as factors.
    pub(crate) fn scale(self, table: &NttTable, c: u64) -> [u64; 4] {
        let m = table.modulus();
        let first = m.mul(m.inv(table.n() as u64), c);
        let root = m.pow(m.inv(table.psi()), table.n() as u64 / 2);
        let [a, b] = [first, m.mul(first, root)].map(|w| self.factor(m, w));
        [a[0], a[1], b[0], b[1]]
    }
}
