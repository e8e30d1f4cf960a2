//! Element-wise products between a key holder's encrypted values and another party's plain ones, modulo
//! 2^bits with a small
//! error: batch oblivious linear evaluation (BumbleBee, section IV, Algorithm 2, Propositions 2 and 3).
//!
//! Values of Z_{2^bits} are *lifted* to Z_T, T a product of one to three primes, each of which is the
//! plaintext modulus of a ciphertext with N = 8192 slots. The evaluator multiplies by its plaintexts, adds a
//! fresh encryption of zero, a mask that is uniform in the slots and a flood of the noise, and drops the top
//! primes of the ciphertext before it answers. Both parties round their shares down to Z_{2^bits}.
//!
//! Wire cost per element with one 49-bit prime (bits = 32, slack = 15): 164 bits a request, 128 bits a
//! response; with one of 34 bits: 134 and 86.

mod bytes;
mod code;
mod keys;
mod lifting;
mod moduli;
mod request;
mod response;
mod round;

pub use keys::{PublicKey, Secret, SecretKey};
pub use lifting::{Lifting, MAX_BITS};
pub use moduli::{SlotRing, MOST_TERMS};
pub use request::{encrypt, EncryptedSlots};
pub use response::{open, respond, response_len, Sum};

#[cfg(test)]
mod tests;
