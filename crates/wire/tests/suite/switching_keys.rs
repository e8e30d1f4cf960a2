//! Keys of known shapes: what is written is read again, and nothing else is.
use crate::common::*;
use tacita_ckks::CkksParameters;
use tacita_rlwe::switching::Gadget;
use tacita_rlwe::SwitchingKey;
use tacita_wire::*;

fn shapes(params: &CkksParameters) -> Vec<KeyShape<'_>> {
    let shape = |limbs, gadget| KeyShape {
        ring: params.rlwe(),
        limbs,
        gadget,
    };
    vec![shape(1, Gadget::Single), shape(2, Gadget::Rns)]
}

fn made(shape: &KeyShape<'_>, salt: u64) -> SwitchingKey {
    let (ring, special) = (shape.ring, shape.ring.p_len());
    let digits = SwitchingKey::digits(ring, (shape.limbs, special), shape.gadget) as u64;
    let b = (0..digits).map(|d| poly(ring, shape.limbs, special, salt + d));
    SwitchingKey::from_parts(ring, SEED, shape.limbs, special, shape.gadget, b.collect())
}

fn written(params: &CkksParameters, shapes: &[KeyShape<'_>]) -> Vec<u8> {
    let keys: Vec<_> = shapes.iter().zip(1..).map(|(s, salt)| made(s, salt)).collect();
    let (mut out, each) = (Vec::new(), keys.iter().collect::<Vec<_>>());
    write_switching_keys(&mut out, *params.rlwe().hash(), OWNER, &each, shapes).unwrap();
    out
}

fn read(
    bytes: &[u8],
    params: &CkksParameters,
    shapes: &[KeyShape<'_>],
) -> Result<Vec<SwitchingKey>, WireError> {
    read_switching_keys(&mut &bytes[..], params.rlwe().hash(), OWNER, shapes)
}

macro_rules! refused {
    ($result:expr, $($pattern:tt)+) => {{
        let error = $result.err().expect("the keys must be refused");
        assert!(matches!(error, WireError::$($pattern)+), "{error}");
    }};
}

#[test]
fn what_is_written_is_read() {
    let params = insecure_toy_n8();
    let shapes = shapes(&params);
    let bytes = written(&params, &shapes);
    assert_eq!(bytes.len(), switching_keys_bytes(&shapes));
    let found = read(&bytes, &params, &shapes).unwrap();
    for ((key, shape), salt) in found.iter().zip(&shapes).zip(1..) {
        let wanted = made(shape, salt);
        assert_eq!(
            (key.seed, key.limbs, key.special),
            (wanted.seed, wanted.limbs, wanted.special)
        );
        for (half, other) in [(&key.b, &wanted.b), (&key.a, &wanted.a)] {
            assert_eq!(half.len(), other.len());
            let same = half
                .iter()
                .zip(other)
                .all(|(x, y)| x.limbs.iter().eq(y.limbs.iter()));
            assert!(same, "a half differs");
        }
    }
}

#[test]
fn other_keys_are_refused() {
    let params = insecure_toy_n8();
    let shapes = shapes(&params);
    let good = written(&params, &shapes);
    refused!(read(&good, &params, &shapes[..1]), Count { .. });
    refused!(
        read(&written(&params, &shapes[..1]), &params, &shapes),
        Count { .. }
    );
    let exchanged: Vec<_> = shapes.iter().rev().copied().collect();
    refused!(read(&good, &params, &exchanged), Length { .. });
    refused!(
        read(&written(&params, &exchanged), &params, &shapes),
        TooLarge { .. }
    );
    refused!(read(&good[..good.len() - 1], &params, &shapes), Truncated { .. });
    let with = |at: usize, value: u8, seal: bool| {
        let mut bytes = good.clone();
        bytes[at] = value;
        if seal {
            reseal(&mut bytes);
        }
        bytes
    };
    refused!(read(&with(6, 1, true), &params, &shapes), Kind { .. });
    refused!(read(&with(43, 0xee, true), &params, &shapes), Owner { .. });
    refused!(read(&with(11, 0xee, true), &params, &shapes), Parameters { .. });
    let body = body_of(&good, 0);
    refused!(
        read(&with(body.start + 40, 0xaa, false), &params, &shapes),
        Checksum { .. }
    );
    let mut beyond = good.clone();
    beyond[body.start + 32..body.start + 40].fill(0xff);
    reseal(&mut beyond);
    refused!(read(&beyond, &params, &shapes), Residue { .. });
}

#[test]
fn keys_of_another_shape_are_not_written() {
    let params = insecure_toy_n8();
    let shapes = shapes(&params);
    let keys = [made(&shapes[1], 1), made(&shapes[0], 2)];
    let hash = *params.rlwe().hash();
    let write = |keys: &[&SwitchingKey]| write_switching_keys(&mut Vec::new(), hash, OWNER, keys, &shapes);
    refused!(write(&[&keys[0], &keys[1]]), Shape { .. });
    refused!(write(&[&keys[1]]), Count { .. });
}
