//! Sizes of batches. `docs/decisions/0009-oblivious-transfer.md` gives their security,
//! `python -m bench lpn-security` computes it.

/// One batch: n = t * 2^log COTs out of k + t*log.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::ot) struct Set {
    /// log2 of the leaves of a tree.
    pub(in crate::ot) log: usize,
    /// Trees: the weight of the noise.
    pub(in crate::ot) t: usize,
    /// Columns of the matrix: the dimension of the secret.
    pub(in crate::ot) k: usize,
}

impl Set {
    /// COTs that come out.
    pub(in crate::ot) const fn n(&self) -> usize {
        self.t << self.log
    }

    /// COTs that go in.
    pub(in crate::ot) const fn need(&self) -> usize {
        self.k + self.t * self.log
    }

    /// Bytes of the sender's message.
    pub(in crate::ot) const fn message_len(&self) -> usize {
        16 * self.t * self.log
    }
}

/// Inputs per output of the matrix.
pub(in crate::ot) const D: usize = 10;

/// First batch of a session, and all of a short one: 132 bits.
pub(in crate::ot) const SMALL: Set = Set {
    log: 9,
    t: 1024,
    k: 65_536,
};

/// Every later batch: 133 bits.
pub(in crate::ot) const LARGE: Set = Set {
    log: 10,
    t: 2048,
    k: 143_360,
};

/// For tests of the algebra only: no security.
#[cfg(test)]
pub(in crate::ot) const TINY: Set = Set {
    log: 6,
    t: 50,
    k: 512,
};

/// For fuzzing: a batch in microseconds.
#[cfg(feature = "fuzzing")]
pub(in crate::ot) const SPECK: Set = Set { log: 4, t: 12, k: 64 };
