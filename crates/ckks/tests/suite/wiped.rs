//! What encoding and decoding leave behind in recycled buffers.
use crate::toy::{values, worst};
use std::sync::Arc;
use tacita_ckks::{CkksParameters, EvaluationKeys, Evaluator};
use tacita_ring::AlignedVec;

/// The smallest ring whose buffers are recycled.
const RING: &str = "insecure_toy_leveled_n12";

#[test]
fn neither_plaintexts_nor_what_they_decode_to_go_back_to_the_pool() {
    let params = CkksParameters::preset(RING).unwrap();
    let scale = params.scale(1);
    let e = Evaluator::new(params, Arc::new(EvaluationKeys::default()));
    let text = values(e.params().slots(), 7, true);
    let mut plain = e.encode(&text, scale, 2).unwrap();
    assert!(worst(&e.decode(&plain, scale), &text) < 1e-8);
    let mut telling: Vec<Vec<f64>> = plain.limbs.iter().map(|limb| limb.to_vec()).collect();
    telling.extend((0..2).map(|i| {
        let mut coefficients = plain.limb_coefficients(e.rlwe(), i);
        let copy = coefficients.to_vec();
        coefficients.fill(0.0);
        copy
    }));
    plain.wipe();
    drop(plain);
    let recycled: Vec<_> = (0..256).map(|_| AlignedVec::scratch(e.rlwe().n())).collect();
    for buffer in recycled {
        assert!(
            !telling.iter().any(|t| t[..] == buffer[..]),
            "a plaintext is left in a recycled buffer"
        );
    }
}
