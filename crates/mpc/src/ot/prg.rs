//! AES-128 in counter mode: the streams that seeds of 128 bits stand for, and public words below a bound.
use super::cipher::Cipher;
#[cfg(target_arch = "x86_64")]
use super::vaes::{self, Keys};

/// An endless stream of blocks.
pub(super) struct Stream {
    cipher: Cipher,
    counter: u128,
}

impl Stream {
    /// The stream of this seed, from its start. A secret seed must be used for one stream only.
    pub(super) fn new(seed: u128) -> Self {
        let cipher = Cipher::new(seed);
        Self { cipher, counter: 0 }
    }

    /// The next blocks.
    pub(super) fn fill(&mut self, out: &mut [u128]) {
        for word in out.iter_mut() {
            *word = self.counter;
            self.counter += 1;
        }
        self.cipher.encrypt(out);
    }
}

/// Public pseudo-random words below a bound: floor(word * below / 2^32) for the little-endian 32-bit words of
/// a stream.
pub(super) struct Words {
    stream: Stream,
    below: u32,
    #[cfg(target_arch = "x86_64")]
    keys: Option<Keys>,
}

impl Words {
    /// The words of this (public) key's stream, from its start.
    pub(super) fn new(key: u128, below: u32) -> Self {
        Self {
            stream: Stream::new(key),
            below,
            #[cfg(target_arch = "x86_64")]
            keys: Keys::new(key),
        }
    }

    /// The next words.
    pub(super) fn fill(&mut self, out: &mut [[u32; 64]]) {
        #[cfg(target_arch = "x86_64")]
        if let Some(keys) = &self.keys {
            vaes::scaled_words(keys, self.stream.counter as u64, self.below, out);
            self.stream.counter += (16 * out.len()) as u128;
            return;
        }
        self.fill_portable(out);
    }

    fn fill_portable(&mut self, out: &mut [[u32; 64]]) {
        let below = u64::from(self.below);
        let scaled = |word: u64| ((word * below) >> 32) as u32;
        for out in out {
            let mut blocks = [0; 16];
            self.stream.fill(&mut blocks);
            // Whole halves and constant shifts: an iterator over the four words of a block, which shifted
            // 128 bits by a variable, took twice as long as the cipher.
            for (out, block) in out.as_chunks_mut::<4>().0.iter_mut().zip(blocks) {
                let (low, high) = (block as u64, (block >> 64) as u64);
                *out = [low as u32, (low >> 32) as u32, high as u32, (high >> 32) as u32]
                    .map(|word| scaled(word.into()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_paths_draw_the_same_words() {
        for below in [1, 1000, 1 << 17, u32::MAX] {
            let (mut fast, mut portable) = (Words::new(77, below), Words::new(77, below));
            for steps in [1usize, 3, 10] {
                let (mut a, mut b) = (vec![[0; 64]; steps], vec![[1; 64]; steps]);
                fast.fill(&mut a);
                portable.fill_portable(&mut b);
                assert_eq!(a, b);
                assert!(a.as_flattened().iter().all(|&word| word < below));
            }
        }
    }

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
