//! The inner product of key switching, with packed keys.

use crate::limbs::{Basis, Limbs};
use crate::queue::Argument;
use crate::{OpenClError, Ring};
use opencl3::memory::Buffer;
use std::sync::Arc;
use tacita_ring::packed::packed_len;

/// Digits of a key: what lazy sums of integers have room for.
const MAX_DIGITS: usize = 1024;

/// A packed key on the device: two halves of some digits, each digit limbs of one basis.
pub struct Key {
    digits: usize,
    digit: Arc<Basis>,
    /// Both halves of a digit, as [`Ring::inner_product`] gives them.
    both: Arc<Basis>,
    words: Buffer<u64>,
    /// By half, digit and limb, the word at which its residues begin.
    rows: Buffer<u64>,
}

impl Ring {
    /// Uploads a key. rows: by half, digit and limb, the residues as [`tacita_ring::packed::pack`] packs
    /// them, canonical.
    ///
    /// # Errors
    /// When there are other numbers of rows or of bytes, or memory is short.
    pub fn key(&self, digit: &Arc<Basis>, digits: usize, rows: &[&[u8]]) -> Result<Key, OpenClError> {
        if !(1..=MAX_DIGITS).contains(&digits) || rows.len() != 2 * digits * digit.len() {
            let reason = format!("{} rows for {digits} digits of {} limbs", rows.len(), digit.len());
            return Err(OpenClError::mismatch("Ring::key", reason));
        }
        let (mut words, mut starts) = (Vec::new(), Vec::with_capacity(rows.len()));
        for (row, &prime) in rows.iter().zip(digit.indices.iter().cycle()) {
            let wanted = packed_len(self.n(), self.modulus(prime).p());
            if row.len() != wanted {
                let reason = format!("{} bytes in a row instead of {wanted}", row.len());
                return Err(OpenClError::mismatch("Ring::key", reason));
            }
            starts.push(words.len() as u64);
            let word = |bytes: &[u8]| {
                let mut word = [0; 8];
                word[..bytes.len()].copy_from_slice(bytes);
                u64::from_le_bytes(word)
            };
            words.extend(row.chunks(8).map(word));
        }
        // The last residue is read with the word behind it.
        words.push(0);
        Ok(Key {
            digits,
            digit: Arc::clone(digit),
            both: self.basis(&digit.indices.repeat(2))?,
            words: self.buffer_of(&words)?,
            rows: self.buffer_of(&starts)?,
        })
    }

    /// The sums over the digits of d * k for both halves k of the key, one after the other. digits: the limbs
    /// of the first digit, then of the second, and so on.
    ///
    /// # Errors
    /// As [`Ring::add`].
    pub fn inner_product(&self, digits: &Limbs, key: &Key) -> Result<Limbs, OpenClError> {
        let wanted = key.digit.indices.repeat(key.digits);
        if digits.basis.indices != wanted {
            let reason = format!("primes {:?} instead of {wanted:?}", digits.basis.indices);
            return Err(OpenClError::mismatch("Ring::inner_product", reason));
        }
        let out = self.scratch(&key.both)?;
        let more = [
            Argument::Number(key.digits as u32),
            Argument::Words(&key.words),
            Argument::Words(&key.rows),
        ];
        // A work-item makes a value of both halves.
        self.run_values("inner_product", &out, key.digit.len(), &[digits], &more)?;
        Ok(out)
    }
}
