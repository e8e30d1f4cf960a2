//! Honest inputs of every target: where its corpus begins. The same bytes on every run.
use crate::files::{insecure_shapes, insecure_toy_n8};
use crate::frames::LENGTHS;
use crate::lattice::{insecure_params, insecure_slots};
use tacita_bfv::slots::{response_len, EncryptedSlots};
use tacita_bfv::ServerKeys;
use tacita_ckks::keys::KeySpec;
use tacita_ckks::{Ciphertext, KeyKind};
use tacita_mpc::channel::frame::{encode, Side};
use tacita_rlwe::{RnsPoly, SwitchingKey};
use tacita_wire::{
    write_blob, write_parameters, write_switching_keys, CiphertextFile, KeyShape, KeyWriter, Kind, Owner,
};

const OWNER: Owner = Owner([7; 16]);

/// Inputs of the target of this name.
pub fn seeds(name: &str) -> Vec<Vec<u8>> {
    match name {
        "parameters" => vec![parameters()],
        "keys" => vec![
            keys(&[(KeyKind::ToSparse, 1)]),
            keys(&[(KeyKind::Raise(0), 2), (KeyKind::Raise(7), 2)]),
            keys(&[(KeyKind::Galois(5), 1), (KeyKind::Relinearise, 2)]),
        ],
        "coefficient_keys" => vec![coefficient_keys()],
        "ciphertexts" => vec![ciphertexts(&[1]), ciphertexts(&[2, 1])],
        "blob" => vec![blob()],
        "server_keys" => (0..4).map(|form| filled(form, server_keys_len(form))).collect(),
        "request" => [0, 1, 2, 13].map(|form| filled(form, 700)).to_vec(),
        "response" => [0, 40, 67, 200].map(|form| filled(form, 600)).to_vec(),
        "slots_request" => vec![filled(0, EncryptedSlots::bytes_len(insecure_slots()))],
        "slots_response" => vec![filled(0, response_len(insecure_slots()))],
        "frames" => vec![frame_and_expectation()],
        "stream" => vec![stream()],
        "base_points" => vec![GENERATOR.to_vec(), vec![0; 32], vec![0xff; 32]],
        "ot_setup" => (0..3).map(|kind| filled(kind, 5000)).collect(),
        "page_program" => vec![include_bytes!("../corpus/page_program/honest-0").to_vec()],
        "transfers" => (0..40).map(|kind| filled(kind, 300)).collect(),
        _ => (0..28).map(|first| filled(first, 400)).collect(),
    }
}

/// The base point of Ristretto: RFC 9496, section 4.
const GENERATOR: [u8; 32] = [
    0xe2, 0xf2, 0xae, 0x0a, 0x6a, 0xbc, 0x4e, 0x71, 0xa8, 0x84, 0xa9, 0x61, 0xc5, 0x00, 0x51, 0x5f, 0x58,
    0xe3, 0x0b, 0x6a, 0xa5, 0x82, 0xdd, 0x8d, 0xb6, 0xa6, 0x59, 0x45, 0xe0, 0x8d, 0x2d, 0x76,
];

/// A first byte and small residues behind it.
fn filled(first: u8, len: usize) -> Vec<u8> {
    let rest = (0..len).map(|i| (i * i % 251) as u8 & 0x0f);
    std::iter::once(first).chain(rest).collect()
}

fn server_keys_len(form: u8) -> usize {
    ServerKeys::byte_len(insecure_params(), 2 + usize::from(form & 1), form & 2 != 0)
}

fn poly(limbs: usize, special: usize) -> RnsPoly {
    let params = insecure_toy_n8().rlwe();
    let mut out = RnsPoly::zero(params, limbs, special);
    for limb in &mut out.limbs {
        limb.iter_mut().enumerate().for_each(|(i, x)| *x = (i * i) as f64);
    }
    out
}

fn parameters() -> Vec<u8> {
    let mut bytes = Vec::new();
    write_parameters(&mut bytes, insecure_toy_n8().rlwe()).expect("a vector takes it");
    bytes
}

fn keys(specs: &[(KeyKind, usize)]) -> Vec<u8> {
    let params = insecure_toy_n8();
    let mut writer =
        KeyWriter::new(Vec::new(), params, OWNER, specs.len() as u64).expect("a vector takes it");
    for &(kind, limbs) in specs {
        let spec = KeySpec { kind, limbs };
        let (special, gadget) = spec.shape(params);
        let digits = SwitchingKey::digits(params.rlwe(), (limbs, special), gadget);
        let b = (0..digits).map(|_| poly(limbs, special)).collect();
        let key = SwitchingKey::from_parts(params.rlwe(), [3; 32], limbs, special, gadget, b);
        writer.write(&spec, &key).expect("a vector takes it");
    }
    writer.finish().expect("all keys are written")
}

fn coefficient_keys() -> Vec<u8> {
    let shapes = insecure_shapes();
    let key = |shape: &KeyShape<'_>| {
        let (ring, limbs, special) = (shape.ring, shape.limbs, shape.ring.p_len());
        let digits = SwitchingKey::digits(ring, (limbs, special), shape.gadget);
        let b = (0..digits).map(|_| poly(limbs, special)).collect();
        SwitchingKey::from_parts(ring, [3; 32], limbs, special, shape.gadget, b)
    };
    let (keys, mut bytes) = (shapes.each_ref().map(key), Vec::new());
    let hash = *insecure_toy_n8().rlwe().hash();
    write_switching_keys(&mut bytes, hash, OWNER, &keys.each_ref(), &shapes).expect("a vector takes it");
    bytes
}

fn ciphertexts(limbs: &[usize]) -> Vec<u8> {
    let params = insecure_toy_n8();
    let one = |&limbs: &usize| Ciphertext {
        polys: vec![poly(limbs, 0), poly(limbs, 0)],
        scale: params.scale(params.top_level()),
    };
    let (cts, mut bytes) = (limbs.iter().map(one).collect::<Vec<_>>(), Vec::new());
    CiphertextFile::write(&mut bytes, params, OWNER, &cts).expect("a vector takes it");
    bytes
}

fn blob() -> Vec<u8> {
    let mut bytes = Vec::new();
    let parameters = *insecure_toy_n8().rlwe().hash();
    write_blob(&mut bytes, Kind::PLAN, &parameters, OWNER, &[9; 40]).expect("a vector takes it");
    bytes
}

fn frame_and_expectation() -> Vec<u8> {
    [&encode(Side::Dialled, 3, 40 << 2)[..], &[3, 40, 2]].concat()
}

fn stream() -> Vec<u8> {
    let frames = LENGTHS.iter().zip(0..).map(|(&len, number)| {
        let mut frame = encode(Side::Dialled, number, len as u32).to_vec();
        frame.resize(frame.len() + len, 7);
        frame
    });
    frames.collect::<Vec<_>>().concat()
}
