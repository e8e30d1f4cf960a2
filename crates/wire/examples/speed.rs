//! Speed of the formats at full size: `cargo run --release -p tacita-wire --example speed`. GB/s counts packed bytes.
//! `RAYON_NUM_THREADS=1` gives figures of one core.
use std::time::Instant;
use tacita_ckks::keys::KeySpec;
use tacita_ckks::{Ciphertext, CkksParameters, KeyKind};
use tacita_rlwe::SwitchingKey;
use tacita_wire::mask::expand_mask;
use tacita_wire::{key_file_bytes, read_ciphertext, write_ciphertext, KeyReader, KeyWriter, Owner, WireError};

const ROUNDS: usize = 5;

/// Best of a few rounds, printed with the rate.
fn timed<T>(what: &str, bytes: usize, mut f: impl FnMut() -> Result<T, WireError>) -> Result<T, WireError> {
    let mut best = f64::INFINITY;
    let mut out = f()?;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        out = f()?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    let (ms, rate) = (best * 1e3, bytes as f64 / best / 1e9);
    println!(
        "{what:<24} {:>7.1} MB {ms:>8.1} ms {rate:>6.2} GB/s",
        bytes as f64 / 1e6
    );
    Ok(out)
}

fn ciphertext(params: &CkksParameters, limbs: usize) -> Result<(), WireError> {
    let half = |seed: u8| expand_mask(params.rlwe(), &[seed; 32], limbs);
    let ct = Ciphertext {
        polys: vec![half(1), half(2)],
        scale: params.scale(0),
    };
    let mut bytes = Vec::new();
    write_ciphertext(&mut bytes, params, &ct)?;
    let size = bytes.len();
    timed(&format!("write ciphertext, {limbs}"), size, || {
        bytes.clear();
        write_ciphertext(&mut bytes, params, &ct)
    })?;
    timed(&format!("read ciphertext, {limbs}"), size, || {
        read_ciphertext(&mut &bytes[..], params)
    })?;
    let body = &bytes[8..size - 16];
    timed("checksum alone", size, || Ok(blake3::hash(body)))?;
    Ok(())
}

fn key(params: &CkksParameters, limbs: usize) -> Result<(), WireError> {
    let (rlwe, kind) = (params.rlwe(), KeyKind::Relinearise);
    let spec = KeySpec { kind, limbs };
    let (special, gadget) = spec.shape(params);
    let digits = SwitchingKey::digits(rlwe, limbs, gadget);
    let expand = |b| SwitchingKey::from_parts(rlwe, [7; 32], limbs, special, gadget, b);
    // Any residues do for timing: uniform ones, as a key's.
    let donor = expand(vec![tacita_rlwe::RnsPoly::zero(rlwe, limbs, special); digits]);
    let mut key = expand(donor.a);
    let mut bytes = Vec::new();
    let size = key_file_bytes(params, &[spec]);
    timed(&format!("write key, {limbs}"), size, || {
        bytes.clear();
        let mut w = KeyWriter::new(&mut bytes, params, Owner::default(), 1)?;
        w.write(&spec, &key)?;
        w.finish().map(drop)
    })?;
    timed(&format!("read key, {limbs}"), size, || {
        KeyReader::new(&bytes[..], params, None)?.try_for_each(|k| k.map(drop))
    })?;
    timed("  of which uniform half", size, || {
        key.a = expand(Vec::from(&key.b[..])).a;
        Ok(())
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let params = CkksParameters::preset("n16")?;
    println!("{} threads", rayon::current_num_threads());
    ciphertext(&params, 16)?;
    key(&params, 28)?;
    Ok(())
}
