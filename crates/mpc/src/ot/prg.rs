//! AES-128 in counter mode: the streams that seeds of 128 bits stand for.
use aes::cipher::{BlockEncrypt, KeyInit};
use aes::{Aes128Enc, Block};

/// Blocks encrypted at once.
const BATCH: usize = 16;

/// An endless stream of blocks.
pub(super) struct Stream {
    cipher: Aes128Enc,
    counter: u128,
}

impl Stream {
    /// The stream of this seed, from its start. A secret seed must be used for one stream only.
    pub(super) fn new(seed: u128) -> Self {
        let cipher = Aes128Enc::new(&seed.to_le_bytes().into());
        Self { cipher, counter: 0 }
    }

    /// The next blocks.
    pub(super) fn fill(&mut self, out: &mut [u128]) {
        for batch in out.chunks_mut(BATCH) {
            let mut blocks = [Block::default(); BATCH];
            let blocks = &mut blocks[..batch.len()];
            for block in blocks.iter_mut() {
                *block = self.counter.to_le_bytes().into();
                self.counter += 1;
            }
            self.cipher.encrypt_blocks(blocks);
            for (word, block) in batch.iter_mut().zip(blocks) {
                *word = u128::from_le_bytes((*block).into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continues_where_it_stopped() {
        let (mut whole, mut parts) = ([0; 40], [0; 40]);
        Stream::new(7).fill(&mut whole);
        let mut stream = Stream::new(7);
        stream.fill(&mut parts[..3]);
        stream.fill(&mut parts[3..]);
        assert_eq!(whole, parts);
        // FIPS 197's cipher of the zero block under the zero key.
        let mut first = [0];
        Stream::new(0).fill(&mut first);
        assert_eq!(first[0].to_le_bytes()[..4], [0x66, 0xe9, 0x4b, 0xd4]);
    }
}
