//! Key switching: digits of polynomials, and their inner products with keys of any level.

use crate::engine::{Engine, Made, Poly};
use crate::limbs::Limbs;
use crate::queue::Argument;
use opencl3::memory::Buffer;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tacita_ckks::backend::Pair;
use tacita_ckks::keys::KeyLimbs;
use tacita_ckks::CkksError;
use tacita_ring::packed::{pack, packed_len};
use tacita_rlwe::ciphertext::Polynomial;
use tacita_rlwe::switching::Gadget;
use tacita_rlwe::RlweError;

/// A key on a device: of both halves of every digit the packed residues.
pub struct SwitchingKey {
    seed: [u8; 32],
    limbs: usize,
    special: usize,
    gadget: Gadget,
    digits: usize,
    words: Buffer<u64>,
    /// By half, digit and limb, the word at which its residues begin.
    starts: Vec<u64>,
    /// These for some limbs and the number of digits.
    rows: Mutex<Rows>,
}

/// The starts of limbs and digits, by the limbs and the number of digits.
type Rows = HashMap<(Vec<usize>, usize), Arc<Buffer<u64>>>;

impl SwitchingKey {
    /// Special limbs.
    pub(crate) fn special(&self) -> usize {
        self.special
    }
}

impl KeyLimbs for SwitchingKey {
    fn limbs(&self) -> usize {
        self.limbs
    }
}

/// The digits of a polynomial, one after the other, each over Q and the special primes.
pub struct Digits {
    limbs: Limbs,
    q_len: usize,
    special: usize,
    count: usize,
}

impl Engine {
    /// A key to the device.
    ///
    /// # Errors
    /// When memory is short, or a residue is not canonical. Limbs that a joined key lacks stay out.
    pub fn upload_key(&self, key: &tacita_rlwe::SwitchingKey) -> Result<SwitchingKey, CkksError> {
        let rlwe = &self.rlwe;
        let digits = key.count();
        let chain = self.chain(key.limbs, key.special);
        let halves = (0..2).flat_map(|half| (0..digits).map(move |d| (half, d)));
        let (mut words, mut starts) = (Vec::new(), Vec::new());
        for (half, d) in halves {
            for (at, &index) in chain.iter().enumerate() {
                let (p, limb) = (rlwe.modulus(index).p(), key.limb(rlwe, half, d, at));
                let mut bytes = vec![0; packed_len(limb.len(), p)];
                if !pack(&limb, p, &mut bytes) {
                    let why = format!("limb {at} of a key is not canonical modulo {p}");
                    return Err(RlweError::Parameters(why).into());
                }
                starts.push(words.len() as u64);
                bytes.resize(bytes.len().next_multiple_of(8), 0);
                let (rows, _) = bytes.as_chunks::<8>();
                words.extend(rows.iter().map(|&row| u64::from_le_bytes(row)));
            }
        }
        // The last residue is read with the word behind it.
        words.push(0);
        Ok(SwitchingKey {
            seed: key.seed,
            limbs: key.limbs,
            special: key.special,
            gadget: key.gadget,
            digits,
            words: self.ring.buffer_of(&words)?,
            starts,
            rows: Mutex::default(),
        })
    }

    /// A key from the device.
    pub(crate) fn download_key(&self, key: &SwitchingKey) -> Result<tacita_rlwe::SwitchingKey, CkksError> {
        let (n, chain) = (self.rlwe.n(), self.chain(key.limbs, key.special));
        let mut words = vec![0u64; key.starts[key.digits * chain.len()] as usize];
        self.ring.read(&key.words, &mut words)?;
        let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let rows = key.starts.iter().zip(chain.repeat(key.digits));
        let row = |(&start, index): (&u64, usize)| {
            let len = packed_len(n, self.rlwe.modulus(index).p());
            &words[8 * start as usize..][..len]
        };
        let b: Vec<u8> = rows.flat_map(row).copied().collect();
        let shape = (key.limbs, key.special);
        let made = tacita_rlwe::SwitchingKey::from_packed(&self.rlwe, key.seed, shape, key.gadget, &b);
        made.map_err(|e| {
            let why = format!("limb {} of a key is not canonical modulo {}", e.limb, e.prime);
            RlweError::Parameters(why).into()
        })
    }

    /// The digits of x for keys with so many special primes.
    pub(crate) fn digits(&self, x: &Poly, special: usize) -> Made<Digits> {
        let (q_len, count) = (x.q_len, self.rlwe.digits(x.q_len, special));
        let chain = self.chain(q_len, special);
        let limbs = self.ring.scratch(&self.basis(&chain.repeat(count))?)?;
        for d in 0..count {
            let own = self.rlwe.digit(d, q_len, special);
            let first = d * chain.len();
            let source = self.part(&x.limbs, own.start, &chain[own.clone()])?;
            self.copy_to(
                &self.part(&limbs, first + own.start, &chain[own.clone()])?,
                &source,
            )?;
            let others = [&chain[..own.start], &chain[own.end..]].concat();
            let converter = self.converter(&chain[own.clone()], &others)?;
            let mut coefficients = self.ring.copy(&source, 0, &source.basis)?;
            let mut made = self.ring.convert(&mut coefficients, &converter)?;
            self.ring.forward(&mut made)?;
            for (from, to, part) in [
                (0, 0, &chain[..own.start]),
                (own.start, own.end, &chain[own.end..]),
            ] {
                if !part.is_empty() {
                    let out = self.part(&limbs, first + to, part)?;
                    self.copy_to(&out, &self.part(&made, from, part)?)?;
                }
            }
        }
        Ok(Digits {
            limbs,
            q_len,
            special,
            count,
        })
    }

    /// The inner product of digits with a key: a pair over QP.
    pub(crate) fn inner_product(&self, digits: &Digits, key: &SwitchingKey) -> Result<Pair<Poly>, CkksError> {
        if digits.special != key.special || !self.serves(key, digits.q_len) || digits.count > key.digits {
            return Err(RlweError::MissingKey(format!(
                "{} digits of {} limbs over {} special primes were given to a key with {}, {} and {}",
                digits.count, digits.q_len, digits.special, key.digits, key.limbs, key.special
            ))
            .into());
        }
        Ok(self.product(&digits.limbs, (digits.q_len, digits.count), key)?)
    }

    /// The same of a polynomial over QP that is small: one digit.
    pub(crate) fn small_product(&self, x: &Poly, key: &SwitchingKey) -> Result<Pair<Poly>, CkksError> {
        if x.p_len() != key.special || !self.serves(key, x.q_len) || key.digits != 1 {
            let why = format!("{} limbs of a small polynomial, a key of {}", x.q_len, key.limbs);
            return Err(RlweError::MissingKey(why).into());
        }
        Ok(self.product(&x.limbs, (x.q_len, 1), key)?)
    }

    /// Whether a key has the limbs of so many.
    fn serves(&self, key: &SwitchingKey, q_len: usize) -> bool {
        self.rlwe.key_limb(q_len - 1) < key.limbs
    }

    fn product(
        &self,
        digits: &Limbs,
        (q_len, count): (usize, usize),
        key: &SwitchingKey,
    ) -> Made<Pair<Poly>> {
        let chain = self.chain(q_len, key.special);
        let both = self.ring.scratch(&self.basis(&chain.repeat(2))?)?;
        let rows = self.rows(key, q_len, count)?;
        let more = [
            Argument::Number(count as u32),
            Argument::Words(&key.words),
            Argument::Words(&rows),
        ];
        self.ring
            .run_values("inner_product", &both, chain.len(), &[digits], &more)?;
        let half = |start| -> Made<Poly> {
            Ok(Poly {
                limbs: self.part(&both, start, &chain)?,
                q_len,
            })
        };
        Ok(Pair(half(0)?, half(chain.len())?))
    }

    fn rows(&self, key: &SwitchingKey, q_len: usize, count: usize) -> Made<Arc<Buffer<u64>>> {
        let lock = || key.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let each = key.limbs + key.special;
        let own = (0..q_len).map(|limb| self.rlwe.key_limb(limb));
        let limbs: Vec<usize> = own.chain(key.limbs..each).collect();
        let at = (limbs, count);
        if let Some(rows) = lock().get(&at) {
            return Ok(Arc::clone(rows));
        }
        let digits = (0..2).flat_map(|half| (0..count).map(move |d| (half * key.digits + d) * each));
        let rows: Vec<u64> = digits
            .flat_map(|first| at.0.iter().map(move |limb| first + limb))
            .map(|row| key.starts[row])
            .collect();
        let rows = Arc::new(self.ring.buffer_of(&rows)?);
        Ok(Arc::clone(lock().entry(at).or_insert(rows)))
    }
}
