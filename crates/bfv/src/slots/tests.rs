//! Both halves together: exactness modulo t, freshness and uniformity of messages, refusal of bad bytes.
use super::*;
use tacita_ring::AlignedVec;

struct Session {
    ring: SlotRing,
    secret: SecretKey,
    public: PublicKey,
}

fn session(width: u32) -> Session {
    let ring = SlotRing::new(width, 0).unwrap();
    let secret = Secret::generate(ring.n()).unwrap().over(&ring);
    let public = PublicKey::from_bytes(&ring, &PublicKey::generate(&ring, &secret).unwrap()).unwrap();
    Session { ring, secret, public }
}

impl Session {
    fn slots(&self, f: impl Fn(u64) -> u64) -> AlignedVec {
        let values: Vec<f64> = (0..self.ring.n() as u64)
            .map(|i| (f(i) % self.ring.t().p()) as f64)
            .collect();
        AlignedVec::from_slice(&values)
    }

    fn request(&self, slots: AlignedVec) -> EncryptedSlots {
        let bytes = encrypt(&self.ring, &self.secret, slots).unwrap();
        assert_eq!(bytes.len(), EncryptedSlots::bytes_len(&self.ring));
        EncryptedSlots::from_bytes(&self.ring, &bytes).unwrap()
    }

    fn respond(&self, terms: &[(&EncryptedSlots, &AlignedVec)]) -> (Vec<u8>, AlignedVec) {
        let mut sum = Sum::zero(&self.ring);
        for (ct, plain) in terms {
            sum.add_product(&self.ring, ct, (*plain).clone());
        }
        respond(&self.ring, &self.public, sum).unwrap()
    }
}

fn scramble(i: u64) -> u64 {
    let z = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (z ^ (z >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

#[test]
fn shares_of_sums_of_products_are_exact_modulo_t() {
    for width in moduli::MIN_PLAIN_WIDTH..=moduli::MAX_PLAIN_WIDTH {
        let s = session(width);
        let t = s.ring.t();
        let edge = |i: u64| [0, 1, t.p() - 1, t.p() / 2][i as usize % 4];
        let (x, y) = (s.slots(scramble), s.slots(edge));
        let (v, w) = (s.slots(|i| edge(i / 4)), s.slots(|i| scramble(i + 99)));
        let (cx, cv) = (s.request(x.clone()), s.request(v.clone()));
        let (message, own) = s.respond(&[(&cx, &y), (&cv, &w)]);
        let theirs = open(&s.ring, &s.secret, &message).unwrap();
        for i in 0..s.ring.n() {
            let product = |a: f64, b: f64| t.mul(a as u64, b as u64);
            let expected = t.add(product(x[i], y[i]), product(v[i], w[i]));
            assert_eq!(
                t.add(own[i] as u64, theirs[i] as u64),
                expected,
                "{width} bits, slot {i}"
            );
        }
    }
}

/// Standard deviation about zero.
fn root_mean_square(x: impl ExactSizeIterator<Item = f64>) -> f64 {
    let n = x.len() as f64;
    (x.map(|x| x * x).sum::<f64>() / n).sqrt()
}

/// What a response decrypts with is the flood and the rounding, whatever it answers; never half a step.
#[test]
fn the_noise_of_a_response_is_that_of_the_flood_and_the_rounding() {
    for width in [22, 34, 41, 42, 49] {
        let s = session(width);
        let ct = s.request(s.slots(scramble));
        let log2 = |primes: &[u64]| primes.iter().map(|&p| (p as f64).log2()).sum::<f64>();
        let (low, dropped) = s.ring.params().q().split_at(s.ring.low());
        // three uniform integers below W have the deviation W / 2
        let flood = (f64::from(s.ring.flood_log2()) - 1.0 - log2(dropped)).exp2();
        let rounding = ((1.0 + 2.0 / 3.0 * s.ring.n() as f64) / 12.0).sqrt();
        let step = (log2(low) - (s.ring.t().p() as f64).log2()).exp2();
        for plain in [s.slots(|_| 0), s.slots(|i| scramble(i + 7))] {
            let (message, _) = s.respond(&[(&ct, &plain)]);
            let noise = round::noise(&s.ring, response::phase(&s.ring, &s.secret, &message));
            let ratio = root_mean_square(noise.iter().copied()) * step / flood.hypot(rounding);
            assert!((0.94..1.06).contains(&ratio), "{width} bits: {ratio:.3} times");
            assert!(noise.iter().all(|&x| x < 0.4), "{width} bits");
        }
    }
}

/// Eight products at their worst, all coefficients of the evaluator's polynomials t/2 or -t/2: the noise that
/// the flood has to hide is what [`SlotRing::distance_log2`] says it is.
#[test]
fn the_noise_of_products_at_their_worst_is_what_the_distance_says() {
    for width in [22, 34, 49] {
        let s = session(width);
        let half = s.ring.t().p() / 2;
        let mut sum = Sum::zero(&s.ring);
        for j in 0..8 {
            let ct = s.request(s.slots(|_| 0));
            let mut worst = s.slots(|i| half + (scramble(i + j * 10_000) >> 40 & 1));
            s.ring.plain().forward(&mut worst);
            sum.add_product(&s.ring, &ct, worst);
        }
        let noise = response::noise_of_products(&s.ring, &s.public, &s.secret, sum);
        // zeros are encrypted without rounding
        let ratio = root_mean_square(noise.iter().map(|&x| x as f64)) / s.ring.products_noise(8);
        assert!((0.93..1.05).contains(&ratio), "{width} bits: {ratio:.3} times");
    }
}

/// Deviation W / 2 and a fourth moment of 2.6 of its fourth powers, where a normal distribution has 3 and a
/// uniform one 1.8; and low bits that are uniform.
#[test]
fn the_flood_is_a_sum_of_three_uniform_integers() {
    for log2 in [84, 96, 111] {
        let mut prng = tacita_ring::sample::Prng::from_seed([log2 as u8; 32]);
        let flood = response::flood(&mut prng, 1 << 16, log2);
        let unit = f64::from(log2 - 1).exp2();
        let scaled = || flood.iter().map(|&x| x as f64 / unit);
        assert!((0.99..1.01).contains(&root_mean_square(scaled())));
        let fourth = scaled().map(|x| x.powi(4)).sum::<f64>() / flood.len() as f64;
        assert!((2.5..2.7).contains(&fourth), "{fourth}");
        assert!(scaled().all(|x| x.abs() <= 3.0) && scaled().any(|x| x > 2.5) && scaled().any(|x| x < -2.5));
        assert!((scaled().sum::<f64>() / flood.len() as f64).abs() < 0.02);
        let bytes: Vec<u8> = flood.iter().map(|&x| x as u8).collect();
        assert!(deviation(&bytes) < 6.0, "low bits {}", deviation(&bytes));
    }
}

#[test]
fn residues_of_wide_integers_are_those_of_a_division() {
    let ring = SlotRing::new(34, 0).unwrap();
    let mut wide = response::flood(&mut tacita_ring::sample::Prng::from_seed([3; 32]), 500, 115);
    wide.extend([0, 1, -1, 1 << 56, -(1 << 56), (1 << 118) - 1, -(1 << 118)]);
    for i in 0..ring.params().q_len() {
        let m = ring.params().modulus(i);
        let mut out = vec![0.0; wide.len()];
        response::residues(m, &wide, &mut out);
        for (x, found) in wide.iter().zip(out) {
            assert_eq!(found as u64, m.from_i128(*x), "{x}");
        }
    }
}

/// Chi-square over byte values, as a number of standard deviations from its mean.
fn deviation(bytes: &[u8]) -> f64 {
    let mut counts = [0f64; 256];
    bytes.iter().for_each(|&b| counts[b as usize] += 1.0);
    let expected = bytes.len() as f64 / 256.0;
    let chi: f64 = counts.iter().map(|c| (c - expected).powi(2) / expected).sum();
    (chi - 255.0) / (2.0f64 * 255.0).sqrt()
}

/// Whole limbs of two messages, compared residue by residue: independent uniform ones of 41 bits never agree.
fn agreements(left: &[u8], right: &[u8]) -> usize {
    left.chunks_exact(41)
        .zip(right.chunks_exact(41))
        .filter(|(l, r)| l == r)
        .count()
}

#[test]
fn messages_look_uniform_even_for_zeros() {
    let s = session(49);
    let zero = s.slots(|_| 0);
    let request = encrypt(&s.ring, &s.secret, zero.clone()).unwrap();
    assert!(deviation(&request) < 6.0, "request {}", deviation(&request));
    let ct = EncryptedSlots::from_bytes(&s.ring, &request).unwrap();
    let (message, _) = s.respond(&[(&ct, &zero)]);
    let (a, b) = message.split_at(message.len() / 2);
    assert!(
        deviation(a) < 6.0 && deviation(b) < 6.0,
        "response {} {}",
        deviation(a),
        deviation(b)
    );
}

#[test]
fn every_request_and_response_is_fresh() {
    let s = session(49);
    let (zero, one) = (s.slots(|_| 0), s.slots(|_| 1));
    let requests = [(); 2].map(|()| encrypt(&s.ring, &s.secret, one.clone()).unwrap());
    assert_eq!(agreements(&requests[0], &requests[1]), 0);
    let ct = EncryptedSlots::from_bytes(&s.ring, &requests[0]).unwrap();
    for plain in [&zero, &one] {
        let (first, second) = (s.respond(&[(&ct, plain)]), s.respond(&[(&ct, plain)]));
        assert_eq!(
            agreements(&first.0, &second.0),
            0,
            "both halves are new in every response"
        );
        assert_ne!(first.1, second.1, "and so is the mask");
    }
}

/// The a-half of a response without the fresh zero is a known function of the plaintext: the test above must
/// see that.
#[test]
fn without_the_fresh_zero_the_halves_would_repeat() {
    let s = session(49);
    let mut public = session(49).public;
    public
        .a
        .iter_mut()
        .chain(&mut public.b)
        .for_each(|limb| limb.fill(0.0));
    let zero = s.slots(|_| 0);
    let ct = s.request(zero.clone());
    let messages = [(); 2].map(|()| {
        let mut sum = Sum::zero(&s.ring);
        sum.add_product(&s.ring, &ct, zero.clone());
        respond(&s.ring, &public, sum).unwrap().0
    });
    let half = messages[0].len() / 2;
    assert!(agreements(&messages[0][..half], &messages[1][..half]) > 0);
}

#[test]
fn bytes_of_a_wrong_length_or_with_residues_too_large_are_refused() {
    let s = session(38);
    let mut bytes = encrypt(&s.ring, &s.secret, s.slots(scramble)).unwrap();
    assert!(EncryptedSlots::from_bytes(&s.ring, &bytes[1..]).is_none());
    assert!(PublicKey::from_bytes(&s.ring, &[]).is_none());
    bytes[32..].fill(0xff);
    assert!(EncryptedSlots::from_bytes(&s.ring, &bytes).is_none());
    assert!(open(&s.ring, &s.secret, &vec![0xff; response_len(&s.ring)]).is_none());
    assert!(open(&s.ring, &s.secret, &[0; 5]).is_none());
}
