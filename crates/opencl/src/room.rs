//! What a ring takes of the memory of a device, known before anything is built.

use crate::{Device, OpenClError};

/// Bytes of a ring on a device. Keys, plaintexts and matrices come on top, each a buffer of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The slots, one buffer.
    pub slots: u64,
    /// The roots of all primes in one direction, one buffer.
    pub roots: u64,
    /// Everything: the slots, the roots of both directions and the constants of the primes.
    pub total: u64,
}

impl Room {
    /// For a ring of degree 2^`log_n` with so many primes, and slots for so many limbs.
    pub fn of(log_n: u32, primes: usize, slots: u32) -> Self {
        let primes = primes as u64;
        let (slots, roots) = (u64::from(slots) << (log_n + 3), primes << (log_n + 4));
        Self {
            slots,
            roots,
            total: slots + 2 * roots + 32 * primes,
        }
    }

    /// Bytes that slots may take of a device: one buffer, and at most half of the memory. The rest is for
    /// keys, plaintexts and roots.
    pub fn for_slots(device: &Device) -> u64 {
        device.buffer.min(device.memory / 2)
    }

    /// Slots for as many limbs of degree 2^`log_n` as these bytes hold.
    pub fn slots(device: &Device, log_n: u32) -> u32 {
        u32::try_from(Self::for_slots(device) >> (log_n + 3)).unwrap_or(u32::MAX)
    }

    /// # Errors
    /// [`OpenClError::Room`] when the device has too little memory, or makes no buffer so large.
    pub fn check(&self, device: &Device) -> Result<(), OpenClError> {
        check_buffer("the slots of a ring", self.slots, device.buffer)?;
        check_buffer("the roots of a ring", self.roots, device.buffer)?;
        check("a ring", self.total, device.memory, "memory")
    }
}

/// Fails when one buffer would be larger than the largest.
pub(crate) fn check_buffer(what: &'static str, wanted: u64, largest: u64) -> Result<(), OpenClError> {
    check(what, wanted, largest, "largest buffer")
}

fn check(what: &'static str, wanted: u64, has: u64, of: &'static str) -> Result<(), OpenClError> {
    if wanted <= has {
        return Ok(());
    }
    Err(OpenClError::Room {
        what,
        wanted,
        has,
        of,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_its_slots_and_its_roots() {
        let room = Room::of(16, 40, 1000);
        assert_eq!((room.slots, room.roots), (1000 * 65536 * 8, 40 * 65536 * 16));
        assert_eq!(room.total, room.slots + 2 * room.roots + 40 * 32);
    }

    #[test]
    fn what_is_too_large_is_named_with_both_sizes() {
        assert_eq!(check_buffer("the slots of a ring", 8, 8), Ok(()));
        let error = check_buffer("the slots of a ring", 9, 8).unwrap_err().to_string();
        let wanted = "the slots of a ring would take 9 bytes, and the device's largest buffer is 8; hint: ";
        assert!(error.starts_with(wanted), "{error}");
    }
}
