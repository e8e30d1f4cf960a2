//! **Insecure**: correlated OTs out of a seed that both test parties know, so that protocols above can be
//! tested alone.
use tacita_ring::sample::Prng;

/// One direction's correlations, the same at both ends.
pub(super) struct Dealer {
    prng: Prng,
    delta: u128,
}

impl Dealer {
    /// The direction with the client (or the server) as the sender.
    pub(super) fn new(sender_is_client: bool) -> Self {
        let mut prng = Prng::from_seed([b'0' + u8::from(sender_is_client); 32]);
        let delta = block(&mut prng) | 1;
        Self { prng, delta }
    }

    /// The sender's constant.
    pub(super) fn delta(&self) -> u128 {
        self.delta
    }

    /// The next (sender's, receiver's) blocks.
    pub(super) fn next(&mut self, count: usize) -> (Vec<u128>, Vec<u128>) {
        let draw = |_| {
            let (r, b) = (block(&mut self.prng) & !1, block(&mut self.prng) & 1);
            (r, r ^ (self.delta & b.wrapping_neg()))
        };
        (0..count).map(draw).unzip()
    }
}

fn block(prng: &mut Prng) -> u128 {
    let mut bytes = [0; 16];
    prng.fill(&mut bytes);
    u128::from_le_bytes(bytes)
}
