//! The two switching keys between the secret of a ring and that of its subring.
use super::polys::centred;
use super::{RingPair, BACK_LIMBS};
use crate::keyswitch::{self, Ending};
use crate::switching::Gadget;
use crate::{Ciphertext, Parameters, RlweError, RnsPoly, SecretKey, SwitchingKey};

/// Keys down to the small secret and up from it. The server holds them; neither secret.
pub struct RingSwitchingKeys {
    down: SwitchingKey,
    up: SwitchingKey,
}

impl RingSwitchingKeys {
    /// Made by the holder of both secrets: `secret` of degree N under any parameters, `small` of the pair's
    /// small ring.
    ///
    /// # Errors
    /// When the operating system gives no randomness.
    pub fn generate(pair: &RingPair, secret: &SecretKey, small: &SecretKey) -> Result<Self, RlweError> {
        let (s, embedded) = (pair.large_secret(secret), pair.embedded_secret(small));
        let large = pair.large();
        let make = |from: &SecretKey, to: &SecretKey, limbs, gadget| {
            SwitchingKey::generate(large, from.ntt(), to.ntt(), limbs, large.p_len(), gadget)
        };
        let [down, up] = Self::shapes(pair);
        Ok(Self {
            down: make(&s, &embedded, down.0, down.1)?,
            up: make(&embedded, &s, up.0, up.1)?,
        })
    }

    /// Down and up, as they were made: see [`Self::shapes`].
    pub fn parts(&self) -> [&SwitchingKey; 2] {
        [&self.down, &self.up]
    }

    /// The inverse of [`Self::parts`], for keys that have the shapes.
    pub fn from_parts([down, up]: [SwitchingKey; 2]) -> Self {
        Self { down, up }
    }

    /// (limbs, gadget) of the parts, under the large ring of the pair.
    pub fn shapes(pair: &RingPair) -> [(usize, Gadget); 2] {
        [(pair.large().q_len(), Gadget::Rns), (BACK_LIMBS, Gadget::Single)]
    }

    /// Bytes held in memory.
    pub fn bytes(&self, pair: &RingPair) -> usize {
        self.down.bytes(pair.large()) + self.up.bytes(pair.large())
    }

    /// From s to s'(X^r): (b, a) over the limbs of `ct`.
    pub(super) fn switch_down(&self, large: &Parameters, ct: &Ciphertext) -> Result<[RnsPoly; 2], RlweError> {
        let ending = Ending {
            add: [Some(&ct.polys[0]), None],
            permutation: None,
        };
        let (b, a) = keyswitch::switch(large, &ct.polys[1], &self.down, &ending)?;
        Ok([b, a])
    }

    /// From s'(X^r) to s: small ciphertexts of one limb joined to a large one.
    pub(super) fn switch_up(&self, pair: &RingPair, parts: &[Ciphertext]) -> Vec<RnsPoly> {
        let half = |h: usize| parts.iter().map(|ct| &ct.polys[h]).collect::<Vec<_>>();
        let small = centred(pair.large(), &pair.joined_coefficients(&half(1), 0), 0);
        let (mut b, a) = keyswitch::switch_small(pair.large(), &small, &self.up);
        b.add_assign(pair.large(), &pair.join(&half(0)));
        vec![b, a]
    }
}
