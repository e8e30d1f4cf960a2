//! The keys that coefficient products need beside those of bootstrapping.
use crate::evaluate::{log_small, LIMBS};
use crate::{Arrangement, Result};
use tacita_bfv::keys::Automorphism;
use tacita_ckks::bootstrap::dft;
use tacita_ckks::encoding::Encoder;
use tacita_ckks::keys::{galois_of_rotation, KeySpec};
use tacita_ckks::linear::required_rotations;
use tacita_ckks::{CkksParameters, KeyKind};
use tacita_rlwe::{RingPair, RingSwitchingKeys, SecretKey};

/// The rotations of slots-to-coefficients and the highest native level of each: one limb more than a
/// bootstrap has there.
pub fn required_steps(p: &CkksParameters) -> Vec<(i64, usize)> {
    let encoder = Encoder::new(p.slots());
    let matrices = dft::slots_to_coefficients(&encoder, p.slots());
    let levels = (LIMBS..LIMBS + matrices.len()).rev();
    let steps = matrices.iter().zip(levels);
    steps
        .flat_map(|(matrix, level)| {
            required_rotations(matrix)
                .into_iter()
                .map(move |step| (step, level))
        })
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
    pub(crate) rings: RingSwitchingKeys,
    pub(crate) automorphisms: Vec<Automorphism>,
}

impl CoefficientKeys {
    /// Made by the client. Its small secret is drawn here and wiped at the end.
    ///
    /// # Errors
    /// For parameters or tokens that the small ring does not take; when the operating system gives no
    /// randomness.
    pub fn generate(p: &CkksParameters, secret: &SecretKey, tokens: usize) -> Result<Self> {
        let pair = RingPair::new(p.rlwe(), log_small(p), LIMBS)?;
        let arrangement = Arrangement::new(p.rlwe().log_n(), log_small(p), tokens)?;
        let small = SecretKey::generate(pair.small())?;
        let automorphism = |log_h| Automorphism::generate(pair.small(), &small, log_h, LIMBS);
        Ok(Self {
            rings: RingSwitchingKeys::generate(&pair, secret, &small)?,
            automorphisms: (0..arrangement.block().ilog2())
                .map(automorphism)
                .collect::<tacita_bfv::Result<_>>()?,
        })
    }

    /// Bytes held in memory: 6 MB to the small secret, 2 MB back and 0.8 MB an automorphism at N = 65536.
    pub fn bytes(&self, p: &CkksParameters) -> Result<usize> {
        let pair = RingPair::new(p.rlwe(), log_small(p), LIMBS)?;
        let tree = self.automorphisms.iter().map(|a| a.key.bytes(pair.small()));
        Ok(self.rings.bytes(&pair) + tree.sum::<usize>())
    }
}
