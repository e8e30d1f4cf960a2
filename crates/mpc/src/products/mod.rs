//! Element-wise products of shares: batch oblivious linear evaluation with error (BumbleBee, section IV,
//! Algorithm 2).
//!
//! x y = x0 y0 + x1 y1 + x1 y0 + y1 x0 with the client's shares x1, y1 and the server's x0, y0. The client
//! sends Enc(Lift(x1)) and Enc(Lift(y1)) once ([`share_operand`]); every sum of products over operands that
//! were sent costs one response, whatever its number of terms. So a product costs two requests and a
//! response, a square one and one, and x^3 from x and x^2, both sent already, a response alone. Multiplying
//! by a public constant is local.
//!
//! Bits on the wire per element with one 49-bit plaintext prime (2 ring bits - slack <= 49; else two or three
//! primes of that or a smaller width): request 164, response 128; that is 292 a square, 456 a product.
//! Ciphertexts hold 8192 elements.
//!
//! Slack: the results may be off by less than 2^slack units of the last place (at most 2^(slack-2) a cross
//! term, and one of rounding), in exchange for `slack` bits of plaintext modulus. A truncation that follows
//! makes it harmless.
//!
//! Failure: the shares of a whole ciphertext come apart with probability 2^-77.9 a coefficient of a response
//! ([`tacita_bfv::slots::SlotRing::failure_log2`]). [`Party::failure_log2`] is what a session adds up to.
//!
//! Disclosure: what a response tells the client beyond its share is within a statistical distance that grows
//! by the root of coefficients times products, 2^-40.2 for 2^27 of them
//! ([`tacita_bfv::slots::SlotRing::distance_log2`]). A sum of more than 8192 products is refused.
mod key_exchange;
mod lattice;
mod narrow;
mod operand;
mod rows;
mod state;

pub use narrow::square_narrow;
pub use operand::Operand;
pub use rows::{scaled_rows_by_server, sums_of_squares, Rows};
pub use state::State;

use crate::{MpcError, Party, Result, Ring};
use operand::{check_alike, multipliers};

impl Party {
    /// Makes the client's lattice secret. Public keys (about 168 kB for each width of plaintext primes)
    /// travel when first used.
    ///
    /// # Errors
    /// When the operating system gives no randomness.
    pub fn setup_products(&mut self) -> Result<()> {
        key_exchange::set_up(self)
    }

    /// log2 of a bound for the probability that any element-wise product of this session so far came out
    /// wrong by chance (a whole ciphertext spoiled); -inf before the first one.
    pub fn failure_log2(&self) -> f64 {
        self.products.failure_log2()
    }
}

/// Makes values ready to be multiplied: the client encrypts and sends its share, the server receives.
/// `ring.bits() > slack`. 164 bits an element with one plaintext prime; no answer is awaited.
///
/// # Errors
/// [`MpcError::Shape`] for a slack that does not fit the ring; those of the channel; [`MpcError::Message`]
/// for bytes that are no ciphertexts.
pub fn share_operand(party: &mut Party, x: &[u64], ring: Ring, slack: u32) -> Result<Operand> {
    party.measured("operand", |party| lattice::share(party, x, ring, slack))
}

/// Shares of the sum of x*y over the terms, element by element modulo 2^bits; 128 bits an element with one
/// plaintext prime, one message from the server. Off by at most 2^(slack-2) for every distinct operand (and
/// by a unit).
///
/// # Errors
/// [`MpcError::Shape`] unless there is a term and all operands have one length, ring and slack; those of the
/// channel.
pub fn sum_of_products(party: &mut Party, terms: &[(&Operand, &Operand)]) -> Result<Vec<u64>> {
    let first = check_alike("sum_of_products", terms.iter().flat_map(|(x, y)| [*x, *y]))?;
    let ring = first.ring();
    let mut local = vec![0; first.len()];
    for (x, y) in terms {
        for (sum, (x, y)) in local
            .iter_mut()
            .zip(x.share_values().iter().zip(y.share_values()))
        {
            *sum = ring.add(*sum, ring.mul(*x, *y));
        }
    }
    let parts = multipliers(terms, party.is_client());
    party.measured("products", |party| lattice::evaluate(party, &parts, local))
}

/// Shares of x*y: 456 bits an element with one plaintext prime; see [`sum_of_products`].
///
/// # Errors
/// As [`share_operand`] and [`sum_of_products`].
pub fn product(party: &mut Party, x: &[u64], y: &[u64], ring: Ring, slack: u32) -> Result<Vec<u64>> {
    if x.len() != y.len() {
        let detail = format!("{} values times {}", x.len(), y.len());
        return Err(MpcError::Shape {
            op: "product",
            detail,
        });
    }
    let (x, y) = (
        share_operand(party, x, ring, slack)?,
        share_operand(party, y, ring, slack)?,
    );
    sum_of_products(party, &[(&x, &y)])
}

/// Shares of x^2: 292 bits an element with one plaintext prime; see [`sum_of_products`].
///
/// # Errors
/// As [`share_operand`] and [`sum_of_products`].
pub fn square(party: &mut Party, x: &[u64], ring: Ring, slack: u32) -> Result<Vec<u64>> {
    let x = share_operand(party, x, ring, slack)?;
    sum_of_products(party, &[(&x, &x)])
}

fn check_weights(op: &'static str, party: &Party, w: Option<&[u64]>, len: usize) -> Result<()> {
    let fits = if party.is_client() {
        w.is_none()
    } else {
        w.is_some_and(|w| w.len() == len)
    };
    if fits {
        return Ok(());
    }
    let found = w.map_or("none".to_owned(), |w| w.len().to_string());
    let detail = format!("{len} weights are due at the server and none at the client, but there are {found}");
    Err(MpcError::Shape { op, detail })
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod speed;
