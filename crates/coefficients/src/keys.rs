//! The keys that coefficient products need beside those of bootstrapping.
use crate::arrangement::{log_small, LIMBS};
use crate::{Arrangement, CoefficientError, Result};
use tacita_bfv::keys::Automorphism;
use tacita_ckks::bootstrap::dft;
use tacita_ckks::keys::{galois_of_rotation, KeySpec};
use tacita_ckks::{CkksParameters, KeyKind};
use tacita_rlwe::switching::Gadget;
use tacita_rlwe::{Parameters, RingPair, RingSwitchingKeys, SecretKey, SwitchingKey};

/// The rotations of slots-to-coefficients and the highest native level of each: one limb more than a
/// bootstrap has there.
pub fn required_steps(p: &CkksParameters) -> Vec<(i64, usize)> {
    let rotations = dft::rotations_to_coefficients(p.slots());
    let levels = (LIMBS..LIMBS + rotations.len()).rev();
    let steps = rotations.into_iter().zip(levels);
    steps
        .flat_map(|(rotations, level)| rotations.into_iter().map(move |step| (step, level)))
        .collect()
}

/// The keys of [`required_steps`].
pub fn required_keys(p: &CkksParameters) -> Vec<KeySpec> {
    let spec = |(step, level)| KeySpec {
        kind: KeyKind::Galois(galois_of_rotation(p, step)),
        limbs: level + 1,
    };
    required_steps(p).into_iter().map(spec).collect()
}

/// Keys to and from the secret of degree n, and the automorphisms of the merging tree under it.
pub struct CoefficientKeys {
    rings: RingSwitchingKeys,
    automorphisms: Vec<Automorphism>,
}

/// The rings of the keys for one number of tokens, and what shape each key has: all that a reader of keys
/// knows before it reads them.
pub struct KeyShapes {
    pair: RingPair,
    automorphisms: u32,
}

impl KeyShapes {
    /// # Errors
    /// For parameters or tokens that the small ring does not take.
    pub fn new(p: &CkksParameters, tokens: usize) -> Result<Self> {
        let arrangement = Arrangement::new(p.rlwe().log_n(), log_small(p), tokens)?;
        Ok(Self {
            pair: RingPair::new(p.rlwe(), log_small(p), LIMBS)?,
            automorphisms: arrangement.block().ilog2(),
        })
    }

    /// (ring, limbs, gadget) of each key, in the order of [`CoefficientKeys::parts`].
    pub fn each(&self) -> Vec<(&Parameters, usize, Gadget)> {
        let rings = RingSwitchingKeys::shapes(&self.pair);
        let rings = rings.map(|(limbs, gadget)| (self.pair.large(), limbs, gadget));
        let tree = (0..self.automorphisms).map(|_| (self.pair.small(), LIMBS, Gadget::Rns));
        rings.into_iter().chain(tree).collect()
    }
}

impl CoefficientKeys {
    /// Made by the client. Its small secret is drawn here and wiped at the end.
    ///
    /// # Errors
    /// For parameters or tokens that the small ring does not take; when the operating system gives no
    /// randomness.
    pub fn generate(p: &CkksParameters, secret: &SecretKey, tokens: usize) -> Result<Self> {
        let KeyShapes { pair, automorphisms } = KeyShapes::new(p, tokens)?;
        let small = SecretKey::generate(pair.small())?;
        let automorphism = |log_h| Automorphism::generate(pair.small(), &small, log_h, LIMBS);
        Ok(Self {
            rings: RingSwitchingKeys::generate(&pair, secret, &small)?,
            automorphisms: (0..automorphisms)
                .map(automorphism)
                .collect::<tacita_bfv::Result<_>>()?,
        })
    }

    /// Down, up, and the automorphisms from the root of the tree: what travels.
    pub fn parts(&self) -> Vec<&SwitchingKey> {
        let tree = self.automorphisms.iter().map(|a| &a.key);
        self.rings.parts().into_iter().chain(tree).collect()
    }

    /// The inverse of [`Self::parts`], for keys of these shapes.
    ///
    /// # Errors
    /// [`CoefficientError::Shape`] for another number of keys.
    pub fn from_parts(shapes: &KeyShapes, keys: Vec<SwitchingKey>) -> Result<Self> {
        let (found, mut keys) = (keys.len(), keys.into_iter());
        let wanted = 2 + shapes.automorphisms as usize;
        let (Some(down), Some(up), true) = (keys.next(), keys.next(), found == wanted) else {
            return Err(CoefficientError::Shape {
                op: "keys of coefficient products",
                detail: format!("{found} keys, expected {wanted}; hint: those of other tokens?"),
            });
        };
        let tree = (0..).zip(keys);
        Ok(Self {
            rings: RingSwitchingKeys::from_parts([down, up]),
            automorphisms: tree
                .map(|(log_h, key)| Automorphism::new(shapes.pair.small(), log_h, key))
                .collect(),
        })
    }

    pub(crate) fn rings(&self) -> &RingSwitchingKeys {
        &self.rings
    }

    pub(crate) fn automorphisms(&self) -> &[Automorphism] {
        &self.automorphisms
    }

    /// Bytes held in memory: 6 MB to the small secret, 2 MB back and 0.8 MB an automorphism at N = 65536.
    pub fn bytes(&self, p: &CkksParameters) -> Result<usize> {
        let pair = RingPair::new(p.rlwe(), log_small(p), LIMBS)?;
        let tree = self.automorphisms.iter().map(|a| a.key.bytes(pair.small()));
        Ok(self.rings.bytes(&pair) + tree.sum::<usize>())
    }
}
