//! How the client makes evaluation keys, one at a time.
use crate::bootstrap::raise::{diagonals, Diagonal};
use crate::encoding::Encoder;
use crate::keys::{KeyKind, KeySpec};
use crate::{CkksError, CkksParameters};
use std::sync::OnceLock;
use tacita_rlwe::{RnsPoly, SecretKey, SwitchingKey};

/// The client's key maker: holds the secret and the sparse one, makes one key per call so that keys can be
/// streamed to disk. There is one sparse secret per key set, for as long as that set is used.
pub struct KeyGenerator<'a> {
    params: &'a CkksParameters,
    secret: &'a SecretKey,
    sparse: SecretKey,
    /// Of the first factor: made for the first key that needs them.
    diagonals: OnceLock<Vec<Diagonal>>,
}

impl<'a> KeyGenerator<'a> {
    /// A generator with a fresh sparse secret. All keys of one client come from one generator.
    ///
    /// # Errors
    /// When the operating system gives no randomness.
    pub fn new(params: &'a CkksParameters, secret: &'a SecretKey) -> Result<Self, CkksError> {
        Ok(Self {
            params,
            secret,
            sparse: SecretKey::generate_sparse(params.rlwe())?,
            diagonals: OnceLock::new(),
        })
    }

    /// Makes one key.
    ///
    /// # Errors
    /// As [`KeySpec::check`]; when the operating system gives no randomness.
    pub fn generate(&self, spec: KeySpec) -> Result<SwitchingKey, CkksError> {
        spec.check(self.params)?;
        let rlwe = self.params.rlwe();
        let (special, gadget) = spec.shape(self.params);
        let s = self.secret.ntt();
        let make = |from: &RnsPoly, to: &RnsPoly| {
            SwitchingKey::generate(rlwe, from, to, spec.limbs, special, gadget)
        };
        Ok(match spec.kind {
            KeyKind::Relinearise => {
                let mut square = s.clone();
                square.mul_assign(rlwe, s);
                let key = make(&square, s)?;
                square.wipe();
                key
            }
            KeyKind::Galois(g) | KeyKind::LowGalois(g) => {
                let inverse = inverse_mod_power_of_two(g, 2 * rlwe.n() as u64);
                let rotated = self.secret.automorphism(rlwe, inverse);
                make(s, rotated.ntt())?
            }
            KeyKind::ToSparse => make(s, self.sparse.ntt())?,
            KeyKind::Raise(place) => {
                let diagonal = &self.diagonals()?[place as usize];
                let rotated = self.sparse.automorphism(rlwe, diagonal.galois);
                let mut from = RnsPoly::from_small(rlwe, &diagonal.integers, rlwe.q_len(), special);
                from.mul_assign(rlwe, rotated.ntt());
                let key = make(&from, s)?;
                from.wipe();
                key
            }
        })
    }

    fn diagonals(&self) -> Result<&[Diagonal], CkksError> {
        if self.diagonals.get().is_none() {
            let made = diagonals(self.params, &Encoder::new(self.params.slots()))?;
            self.diagonals.get_or_init(|| made);
        }
        Ok(self.diagonals.get().map_or(&[], |made| made))
    }
}

fn inverse_mod_power_of_two(g: u64, m: u64) -> u64 {
    let mut x = 1u64;
    for _ in 0..6 {
        x = x.wrapping_mul(2u64.wrapping_sub(g.wrapping_mul(x)));
    }
    x % m
}
