//! Files (`tacita-wire`): parameters, evaluation keys, ciphertexts (requests, responses, spilled ones),
//! opaque bytes.
use crate::seal::both;
use crate::Target;
use std::sync::OnceLock;
use tacita_ckks::CkksParameters;
use tacita_rlwe::switching::Gadget;
use tacita_wire::{
    read_blob, read_evaluation_keys, read_parameters, read_switching_keys, write_parameters, CiphertextFile,
    KeyShape, Kind, Owner,
};

/// N = 256: no security, small files.
pub(crate) fn insecure_toy_n8() -> &'static CkksParameters {
    static PARAMS: OnceLock<CkksParameters> = OnceLock::new();
    PARAMS.get_or_init(|| CkksParameters::preset("insecure_toy_n8").expect("a preset"))
}

const BLOB_CAP: u64 = 1 << 16;

pub(crate) const PARAMETERS: Target = Target {
    name: "parameters",
    cap: 32 << 20, // tables of the largest ring, which a literal of some hundred bytes may ask for by right
    longest: 1 << 11,
    body: |data| {
        both(data, |bytes| {
            if let Ok(params) = read_parameters(&mut &bytes[..], true) {
                let mut again = Vec::new();
                write_parameters(&mut again, &params).expect("what was read can be written");
                assert_eq!(again.len(), bytes.len(), "another length than what was read");
            }
        });
    },
};

pub(crate) const KEYS: Target = Target {
    name: "keys",
    cap: 4 << 20, // one key of all limbs at N = 256, packed and not, and a list of keys
    longest: 1 << 14,
    body: |data| {
        both(data, |bytes| {
            drop(read_evaluation_keys(bytes, insecure_toy_n8(), None, None))
        })
    },
};

/// Two keys of the toy ring, as keys of coefficient products follow the others.
pub(crate) fn insecure_shapes() -> [KeyShape<'static>; 2] {
    let ring = insecure_toy_n8().rlwe();
    let shape = |(limbs, gadget)| KeyShape { ring, limbs, gadget };
    [(1, Gadget::Single), (2, Gadget::Rns)].map(shape)
}

pub(crate) const COEFFICIENT_KEYS: Target = Target {
    name: "coefficient_keys",
    cap: 1 << 20, // the two keys, packed and not
    longest: 1 << 15,
    body: |data| {
        both(data, |bytes| {
            let (hash, owner) = (*insecure_toy_n8().rlwe().hash(), Owner([7; 16]));
            drop(read_switching_keys(
                &mut &bytes[..],
                &hash,
                owner,
                &insecure_shapes(),
            ))
        })
    },
};

pub(crate) const CIPHERTEXTS: Target = Target {
    name: "ciphertexts",
    cap: 1 << 20,
    longest: 1 << 13,
    body: |data| {
        both(data, |bytes| {
            drop(CiphertextFile::read(&mut &bytes[..], insecure_toy_n8(), None))
        })
    },
};

pub(crate) const BLOB: Target = Target {
    name: "blob",
    cap: 2 * BLOB_CAP as usize,
    longest: 1 << 10,
    body: |data| {
        both(data, |bytes| {
            drop(read_blob(&mut &bytes[..], Kind::PLAN, None, BLOB_CAP))
        })
    },
};
