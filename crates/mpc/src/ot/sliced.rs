//! AES-128 for processors without instructions for it: eight blocks at a time, as bits in vectors.
//!
//! Plane k holds bit k of all bytes of eight blocks: bit b of its byte i belongs to byte i of block b, in the
//! order of FIPS 197. Substitution is a circuit on planes, shifting rows and rotating columns are permutations
//! of a plane's bytes (Käsper, Schwabe, *Faster and Timing-Attack Resistant AES-GCM*, 2009). No table is
//! looked up and no branch taken by a value.
use super::plane::Plane;

const ROUNDS: usize = 10;
/// Blocks of one step.
const STEP: usize = 8;
/// What the circuit below leaves out of every substituted byte: 0x63, which the round keys add.
const LEFT_OUT: u8 = 0x63;

type State = [Plane; 8];

/// Round keys of AES-128 as planes.
pub(super) struct Sliced([State; ROUNDS + 1]);

impl Sliced {
    /// The key schedule of FIPS 197.
    pub(super) fn new(key: u128) -> Self {
        let mut keys = [key; ROUNDS + 1];
        let mut constant = 1u8;
        for round in 1..=ROUNDS {
            keys[round] = next_key(keys[round - 1], constant);
            constant = (constant << 1) ^ (if constant >> 7 == 1 { 0x1b } else { 0 });
        }
        let omitted = u128::from_le_bytes([LEFT_OUT; 16]);
        let planes = |round: usize| planes(&[keys[round] ^ if round > 0 { omitted } else { 0 }; STEP]);
        Self(std::array::from_fn(planes))
    }

    /// Encrypts every block.
    pub(super) fn encrypt(&self, blocks: &mut [u128]) {
        for chunk in blocks.chunks_mut(STEP) {
            let mut eight = [0; STEP];
            eight[..chunk.len()].copy_from_slice(chunk);
            let found = blocks_of(self.encrypted(planes(&eight)));
            chunk.copy_from_slice(&found[..chunk.len()]);
        }
    }

    fn encrypted(&self, start: State) -> State {
        let mut state = add(start, &self.0[0]);
        for key in &self.0[1..ROUNDS] {
            state = add(mixed(substituted(state).map(Plane::rows_shifted)), key);
        }
        add(substituted(state).map(Plane::rows_shifted), &self.0[ROUNDS])
    }
}

impl Drop for Sliced {
    fn drop(&mut self) {
        for key in self.0.as_flattened_mut() {
            // SAFETY: a live and aligned place; volatile, so that it is written although nobody reads it.
            unsafe { std::ptr::write_volatile(key, Plane::all(0)) };
        }
    }
}

/// One step of the key expansion: the last word, rotated and substituted, added to all words, then prefix
/// sums.
fn next_key(key: u128, constant: u8) -> u128 {
    let word = u128::from(((key >> 96) as u32).rotate_right(8));
    let new = blocks_of(substituted(planes(&[word; STEP])))[0] as u32 ^ u32::from_le_bytes([LEFT_OUT; 4]);
    let word = u128::from(new ^ u32::from(constant));
    let sums = key ^ (key << 32);
    let sums = sums ^ (sums << 64);
    sums ^ word ^ (word << 32) ^ (word << 64) ^ (word << 96)
}

fn add(state: State, key: &State) -> State {
    std::array::from_fn(|k| state[k] ^ key[k])
}

/// Eight blocks as planes. Its own inverse.
fn planes(blocks: &[u128; STEP]) -> State {
    turned(blocks.map(Plane::from_bits))
}

fn blocks_of(state: State) -> [u128; STEP] {
    turned(state).map(Plane::bits)
}

/// Transposes the 8 x 8 bits that stand in the same byte of eight planes.
fn turned(mut x: State) -> State {
    for (distance, kept) in [(1usize, 0x55), (2, 0x33), (4, 0x0f)] {
        for low in (0..8).filter(|i| i & distance == 0) {
            let high = low + distance;
            let moved = (x[low].down(distance as u32) ^ x[high]) & Plane::all(kept);
            x[high] = x[high] ^ moved;
            x[low] = x[low] ^ moved.up(distance as u32);
        }
    }
    x
}

/// Each column times the circulant of 2, 3, 1, 1: with t = a + (a one place on), 2 t + (a one place on) +
/// (t two places on).
fn mixed(a: State) -> State {
    let next = a.map(Plane::column_turned);
    let t: State = std::array::from_fn(|k| a[k] ^ next[k]);
    let top = t[7];
    let doubled = [top, t[0] ^ top, t[1], t[2] ^ top, t[3] ^ top, t[4], t[5], t[6]];
    std::array::from_fn(|k| doubled[k] ^ next[k] ^ t[k].column_halved())
}

/// The S-box without its constant: the circuit of Boyar, Peralta and Calik with 113 gates (*SLP_AES_113*, in
/// the order of the `aes` crate), whose four negations are left to the round keys.
fn substituted([u7, u6, u5, u4, u3, u2, u1, u0]: State) -> State {
    let y14 = u3 ^ u5;
    let y13 = u0 ^ u6;
    let y12 = y13 ^ y14;
    let t1 = u4 ^ y12;
    let y15 = t1 ^ u5;
    let t2 = y12 & y15;
    let y6 = y15 ^ u7;
    let y20 = t1 ^ u1;
    let y9 = u0 ^ u3;
    let y11 = y20 ^ y9;
    let t12 = y9 & y11;
    let y7 = u7 ^ y11;
    let y8 = u0 ^ u5;
    let t0 = u1 ^ u2;
    let y10 = y15 ^ t0;
    let y17 = y10 ^ y11;
    let t13 = y14 & y17;
    let t14 = t13 ^ t12;
    let y19 = y10 ^ y8;
    let t15 = y8 & y10;
    let t16 = t15 ^ t12;
    let y16 = t0 ^ y11;
    let y21 = y13 ^ y16;
    let t7 = y13 & y16;
    let y18 = u0 ^ y16;
    let y1 = t0 ^ u7;
    let y4 = y1 ^ u3;
    let t5 = y4 & u7;
    let t6 = t5 ^ t2;
    let t18 = t6 ^ t16;
    let t22 = t18 ^ y19;
    let y2 = y1 ^ u0;
    let t10 = y2 & y7;
    let t11 = t10 ^ t7;
    let t20 = t11 ^ t16;
    let t24 = t20 ^ y18;
    let y5 = y1 ^ u6;
    let t8 = y5 & y1;
    let t9 = t8 ^ t7;
    let t19 = t9 ^ t14;
    let t23 = t19 ^ y21;
    let y3 = y5 ^ y8;
    let t3 = y3 & y6;
    let t4 = t3 ^ t2;
    let t17 = t4 ^ y20;
    let t21 = t17 ^ t14;
    let t26 = t21 & t23;
    let t27 = t24 ^ t26;
    let t31 = t22 ^ t26;
    let t25 = t21 ^ t22;
    let t28 = t25 & t27;
    let t29 = t28 ^ t22;
    let z14 = t29 & y2;
    let z5 = t29 & y7;
    let t30 = t23 ^ t24;
    let t32 = t31 & t30;
    let t33 = t32 ^ t24;
    let t35 = t27 ^ t33;
    let t36 = t24 & t35;
    let t38 = t27 ^ t36;
    let t39 = t29 & t38;
    let t40 = t25 ^ t39;
    let t43 = t29 ^ t40;
    let z3 = t43 & y16;
    let tc12 = z3 ^ z5;
    let z12 = t43 & y13;
    let z13 = t40 & y5;
    let z4 = t40 & y1;
    let tc6 = z3 ^ z4;
    let t34 = t23 ^ t33;
    let t37 = t36 ^ t34;
    let t41 = t40 ^ t37;
    let z8 = t41 & y10;
    let z17 = t41 & y8;
    let t44 = t33 ^ t37;
    let z0 = t44 & y15;
    let z9 = t44 & y12;
    let z10 = t37 & y3;
    let z1 = t37 & y6;
    let tc5 = z1 ^ z0;
    let tc11 = tc6 ^ tc5;
    let z11 = t33 & y4;
    let t42 = t29 ^ t33;
    let t45 = t42 ^ t41;
    let z7 = t45 & y17;
    let tc8 = z7 ^ tc6;
    let z16 = t45 & y14;
    let z6 = t42 & y11;
    let tc16 = z6 ^ tc8;
    let z15 = t42 & y9;
    let tc20 = z15 ^ tc16;
    let tc1 = z15 ^ z16;
    let tc2 = z10 ^ tc1;
    let tc21 = tc2 ^ z11;
    let tc3 = z9 ^ tc2;
    let s0 = tc3 ^ tc16;
    let s3 = tc3 ^ tc11;
    let s1 = s3 ^ tc16;
    let tc13 = z13 ^ tc1;
    let z2 = t33 & u7;
    let tc4 = z0 ^ z2;
    let tc7 = z12 ^ tc4;
    let tc9 = z8 ^ tc7;
    let tc10 = tc8 ^ tc9;
    let tc17 = z14 ^ tc10;
    let s5 = tc21 ^ tc17;
    let tc26 = tc17 ^ tc20;
    let s2 = tc26 ^ z17;
    let tc14 = tc4 ^ tc12;
    let tc18 = tc13 ^ tc14;
    let s6 = tc10 ^ tc18;
    let s7 = z12 ^ tc18;
    let s4 = tc14 ^ s3;
    [s7, s6, s5, s4, s3, s2, s1, s0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use aes::cipher::{BlockEncrypt, KeyInit};
    use aes::{Aes128Enc, Block};

    fn numbers(seed: u128) -> impl Iterator<Item = u128> {
        let odd = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
        (1..).map(move |i: u128| (seed + i).wrapping_mul(odd).rotate_left(61).wrapping_mul(odd))
    }

    #[test]
    fn every_block_is_that_of_the_library() {
        for (round, key) in numbers(7).take(20).enumerate() {
            let library = Aes128Enc::new(&key.to_le_bytes().into());
            let mut blocks: Vec<u128> = numbers(key >> 1).take(round).collect();
            let expected: Vec<u128> = blocks
                .iter()
                .map(|block| {
                    let mut block = Block::from(block.to_le_bytes());
                    library.encrypt_block(&mut block);
                    u128::from_le_bytes(block.into())
                })
                .collect();
            Sliced::new(key).encrypt(&mut blocks);
            assert_eq!(blocks, expected);
        }
    }

    /// FIPS 197, appendix B.
    #[test]
    fn the_standard_s_example() {
        let bytes = |digits: u128| digits.swap_bytes();
        let mut block = [bytes(0x3243f6a8_885a308d_313198a2_e0370734)];
        Sliced::new(bytes(0x2b7e1516_28aed2a6_abf71588_09cf4f3c)).encrypt(&mut block);
        assert_eq!(block, [bytes(0x3925841d_02dc09fb_dc118597_196a0b32)]);
    }

    #[test]
    fn transposing_twice_changes_nothing() {
        let blocks: Vec<u128> = numbers(3).take(8).collect();
        let blocks: [u128; 8] = blocks.try_into().unwrap();
        assert_eq!(blocks_of(planes(&blocks)), blocks);
    }
}
