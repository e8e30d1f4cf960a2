//! What encoding and decoding leave behind in recycled buffers.
use crate::toy::{values, worst};
use std::sync::Arc;
use tacita_ckks::{CkksParameters, EvaluationKeys, Evaluator};
use tacita_ring::AlignedVec;

/// The smallest ring whose buffers are recycled.
const RING: &str = "insecure_toy_leveled_n12";

/// Fails when a buffer that was given back holds one of these limbs.
fn assert_forgotten(n: usize, telling: &[Vec<f64>]) {
    let recycled: Vec<_> = (0..256).map(|_| AlignedVec::scratch(n)).collect();
    for buffer in &recycled {
        let left = telling.iter().any(|limb| limb[..] == buffer[..]);
        assert!(!left, "a plaintext is left in a recycled buffer");
    }
}

#[test]
fn neither_plaintexts_nor_what_they_decode_to_go_back_to_the_pool() {
    let params = CkksParameters::preset(RING).unwrap();
    let (n, scale) = (params.rlwe().n(), params.scale(1));
    let e = Evaluator::new(params, Arc::new(EvaluationKeys::default()));
    let text = values(n / 2, 7, true);
    let mut plain = e.encode(&text, scale, 2).unwrap();
    let mut telling: Vec<Vec<f64>> = plain.limbs.iter().map(|limb| limb.to_vec()).collect();
    assert_forgotten(n, &telling);
    telling.extend((0..2).map(|i| {
        let mut coefficients = plain.limb_coefficients(e.rlwe(), i);
        let copy = coefficients.to_vec();
        coefficients.fill(0.0);
        copy
    }));
    assert!(worst(&e.decode(&plain, scale), &text) < 1e-8);
    plain.wipe();
    drop(plain);
    assert_forgotten(n, &telling);
}
