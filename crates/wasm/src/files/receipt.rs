//! The server's signature over the hashes of plan, request and response (`tacita.plans.wire`):
//! Ed25519 (RFC 8032), checked without secrets.
use crate::error::{strange, Result};
use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use curve25519_dalek::scalar::Scalar;
use serde::Deserialize;
use sha2::{Digest, Sha512};

const PURPOSE: &[u8] = b"tacita-receipt-1\0";

/// A receipt, and the key by which the server said that it signs; all in hexadecimal digits.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // the names are Python's, and explained there
pub struct Receipt {
    pub plan: String,
    pub request: String,
    pub response: String,
    pub signature: String,
    pub signer: String,
}

impl Receipt {
    /// Fails unless it is this signer's, about these hashes.
    ///
    /// # Errors
    /// [`crate::ClientError::Peer`].
    pub fn check(&self, plan: &str, request: &str, response: &str) -> Result<()> {
        let about = (&*self.plan, &*self.request, &*self.response) == (plan, request, response);
        if about && self.signed() == Some(true) {
            return Ok(());
        }
        strange("the answer is not the one that this server signed: ask again, and tell its operator")
    }

    /// None for what is no receipt at all.
    fn signed(&self) -> Option<bool> {
        let hashes = [&self.plan, &self.request, &self.response].map(|text| bytes::<32>(text));
        let mut message = PURPOSE.to_vec();
        for hash in hashes {
            message.extend_from_slice(&hash?);
        }
        verified(
            &bytes::<32>(&self.signer)?,
            &message,
            &bytes::<64>(&self.signature)?,
        )
    }
}

/// Whether s B = R + k A, R as it is spelled. None for points and scalars that are not, or not in their one
/// spelling, and for keys of small order, which would sign everything.
fn verified(public: &[u8; 32], message: &[u8], signature: &[u8; 64]) -> Option<bool> {
    let (r, s) = signature.split_first_chunk::<32>()?;
    let s = Option::<Scalar>::from(Scalar::from_canonical_bytes(s.try_into().ok()?))?;
    let key = CompressedEdwardsY(*public).decompress()?;
    if key.is_small_order() || key.compress().0 != *public {
        return None;
    }
    let digest = Sha512::new()
        .chain_update(r)
        .chain_update(public)
        .chain_update(message)
        .finalize();
    let k = Scalar::from_bytes_mod_order_wide(&digest.into());
    let found = EdwardsPoint::vartime_double_scalar_mul_basepoint(&k, &-key, &s);
    Some(found.compress().0 == *r)
}

fn bytes<const N: usize>(hex: &str) -> Option<[u8; N]> {
    let digits = hex.len() == 2 * N && hex.bytes().all(|b| b.is_ascii_hexdigit());
    let mut out = [0; N];
    for (byte, pair) in out.iter_mut().zip(hex.as_bytes().chunks(2)).filter(|_| digits) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    digits.then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8032, section 7.1, tests 1 and 2.
    #[test]
    fn signatures_of_the_standard_are_accepted_and_others_not() {
        for (public, message, signature) in [
            (
                "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
                &[][..],
                "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155\
                5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
            ),
            (
                "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
                &[0x72][..],
                "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da\
                085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
            ),
        ] {
            let (key, mut signed) = (bytes(public).unwrap(), bytes::<64>(signature).unwrap());
            assert_eq!(verified(&key, message, &signed), Some(true));
            assert_eq!(verified(&key, b"other", &signed), Some(false));
            signed[40] ^= 1;
            assert_ne!(verified(&key, message, &signed), Some(true));
            signed[63] |= 0xf0;
            assert_eq!(verified(&key, message, &signed), None);
        }
        let neutral = bytes::<32>(&format!("01{}", "00".repeat(31))).unwrap();
        assert_eq!(verified(&neutral, b"", &[0; 64]), None);
    }

    #[test]
    fn what_is_no_receipt_is_refused() {
        let hash = "0".repeat(64);
        for (signature, signer) in [("", ""), ("zz", "é"), (&*"0".repeat(128), &*hash)] {
            let (signature, signer) = (signature.to_owned(), signer.to_owned());
            let receipt = Receipt {
                plan: hash.clone(),
                request: hash.clone(),
                response: hash.clone(),
                signature,
                signer,
            };
            assert!(receipt.check(&hash, &hash, &hash).is_err());
        }
    }
}
