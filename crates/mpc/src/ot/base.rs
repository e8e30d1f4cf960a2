//! The 128 base OTs of a session, both directions at once: random OT of Chou and Orlandi, *The Simplest
//! Protocol for Oblivious Transfer* (2015), figure 1, over Ristretto. Semi-honest security from computational
//! Diffie-Hellman in the random-oracle model.
//!
//! Per direction 32 + 128*32 bytes and about 128 * 3 scalar multiplications on either side (20 ms).
use crate::MpcError;
use crate::{Party, Result};
use curve25519_dalek::ristretto::{CompressedRistretto, RistrettoPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::Identity;
use tacita_ring::sample::Prng;
use zeroize::Zeroize;

/// Base OTs per direction: the bits of delta.
pub(super) const BASE: usize = 128;

/// What both directions leave: pairs of keys where one sends, the chosen keys where one receives.
pub(super) struct BaseKeys {
    /// (k_0, k_1) of every OT sent.
    pub(super) sent: Vec<[u128; 2]>,
    /// k_c of every OT received.
    pub(super) received: Vec<u128>,
    /// Public coins of the session, from which the keys of [`super::hash`] follow: a hash of the first points
    /// of both parties, each uniform if its party follows the protocol, so that no session's keys are known
    /// before it and no two sessions share them.
    pub(super) session: [u8; 32],
}

impl Drop for BaseKeys {
    fn drop(&mut self) {
        self.sent.zeroize();
        self.received.zeroize();
    }
}

/// Runs both directions; `choices` (0 or 1) are those of the OTs received. Two rounds.
pub(super) fn base_ots(party: &mut Party, choices: &[u8; BASE]) -> Result<BaseKeys> {
    let mut prng = Prng::from_os()?;
    let mut secret = scalar(&mut prng);
    let public = RistrettoPoint::mul_base(&secret);
    party.send(public.compress().as_bytes())?;
    let peer = point(&party.receive(32)?)?;
    if peer == RistrettoPoint::identity() {
        return Err(bad_point("the neutral element"));
    }

    let mut blinds: Vec<Scalar> = (0..BASE).map(|_| scalar(&mut prng)).collect();
    let answer = |(b, &c): (&Scalar, &u8)| {
        (RistrettoPoint::mul_base(b) + Scalar::from(c) * peer)
            .compress()
            .to_bytes()
    };
    let answers: Vec<[u8; 32]> = blinds.iter().zip(choices).map(answer).collect();
    party.send(answers.as_flattened())?;
    let theirs = party.receive(32 * BASE)?;

    let tag = |i: usize, sender: &RistrettoPoint, answer: &[u8], shared: RistrettoPoint| {
        key(i, sender, answer, &shared)
    };
    let received = (0..BASE)
        .map(|i| tag(i, &peer, &answers[i], blinds[i] * peer))
        .collect();
    let own = secret * public;
    let pair = |(i, answer): (usize, &[u8])| {
        let zero = secret * point(answer)?;
        Ok([tag(i, &public, answer, zero), tag(i, &public, answer, zero - own)])
    };
    let sent = theirs
        .chunks_exact(32)
        .enumerate()
        .map(pair)
        .collect::<Result<_>>();
    secret.zeroize();
    blinds.zeroize();
    let session = coins(party.is_client(), &public, &peer);
    Ok(BaseKeys {
        sent: sent?,
        received,
        session,
    })
}

/// See [`BaseKeys::session`].
fn coins(client: bool, own: &RistrettoPoint, peer: &RistrettoPoint) -> [u8; 32] {
    let order = if client { [own, peer] } else { [peer, own] };
    let mut hasher = blake3::Hasher::new_derive_key("tacita public coins of a session");
    for point in order {
        hasher.update(point.compress().as_bytes());
    }
    *hasher.finalize().as_bytes()
}

/// The key of one OT: BLAKE3 of everything that it depends on.
fn key(index: usize, sender: &RistrettoPoint, answer: &[u8], shared: &RistrettoPoint) -> u128 {
    let mut hasher = blake3::Hasher::new_derive_key("tacita base oblivious transfer");
    hasher.update(&(index as u64).to_le_bytes());
    hasher.update(sender.compress().as_bytes());
    hasher.update(answer);
    hasher.update(shared.compress().as_bytes());
    let mut out = [0; 16];
    hasher.finalize_xof().fill(&mut out);
    u128::from_le_bytes(out)
}

fn scalar(prng: &mut Prng) -> Scalar {
    let mut wide = [0; 64];
    prng.fill(&mut wide);
    let scalar = Scalar::from_bytes_mod_order_wide(&wide);
    wide.zeroize();
    scalar
}

fn point(bytes: &[u8]) -> Result<RistrettoPoint> {
    let compressed = CompressedRistretto::from_slice(bytes).map_err(|_| bad_point("not 32 bytes"))?;
    compressed
        .decompress()
        .ok_or_else(|| bad_point("not a canonical group element"))
}

/// Whether these bytes are a group element.
#[cfg(feature = "fuzzing")]
pub(super) fn check_point(bytes: &[u8]) -> Result<()> {
    point(bytes).map(drop)
}

fn bad_point(what: &str) -> MpcError {
    let detail = format!("a point of the base oblivious transfer is {what}");
    MpcError::Message {
        op: "setup_ot",
        detail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{run_both, run_pair};

    #[test]
    fn the_receiver_gets_the_key_he_chose_and_only_that() {
        let choices = |seed: usize| std::array::from_fn(|i| ((i * i + seed) / 3 % 2) as u8);
        let inputs: ([u8; BASE], [u8; BASE]) = (choices(1), choices(5));
        let (client, server) = run_both(inputs, |party, choices| base_ots(party, &choices));
        for (choices, got, pairs) in [(inputs.0, &client, &server), (inputs.1, &server, &client)] {
            for ((&c, key), pair) in choices.iter().zip(&got.received).zip(&pairs.sent) {
                assert_eq!(*key, pair[usize::from(c)]);
                assert_ne!(*key, pair[usize::from(1 - c)]);
            }
        }
    }

    #[test]
    fn both_parties_have_the_same_coins_and_no_two_sessions() {
        let session = || run_both(([0; BASE], [1; BASE]), |party, choices| base_ots(party, &choices));
        let ((client, server), (other, _)) = (session(), session());
        assert_eq!(client.session, server.session);
        assert_ne!(client.session, other.session);
    }

    #[test]
    fn hostile_points_are_refused() {
        for bad in [[0u8; 32], [0xff; 32]] {
            let (error, ()) = run_pair(
                |party| Ok(base_ots(party, &[0; BASE]).err().map(|e| e.to_string())),
                |party| {
                    party.send(&bad)?;
                    let _ = party.receive(32).and_then(|_| party.receive(1));
                    Ok(())
                },
            );
            assert!(error.expect("refused").contains("base oblivious transfer"));
        }
        let (error, _) = run_pair(
            |party| Ok(base_ots(party, &[1; BASE]).err().map(|e| e.to_string())),
            |party| {
                party.send(RistrettoPoint::mul_base(&Scalar::from(5u8)).compress().as_bytes())?;
                party.send(&[0xff; 32 * BASE])?;
                let _ = party
                    .receive(32)
                    .and_then(|_| party.receive(32 * BASE))
                    .and_then(|_| party.receive(1));
                Ok(())
            },
        );
        assert!(error.expect("refused").contains("canonical"));
    }
}
