//! Speed of the formats at full size: `cargo run --release -p tacita-wire --example speed`. GB/s counts
//! packed bytes. `RAYON_NUM_THREADS=1` gives figures of one core.
use std::time::Instant;
use tacita_ckks::keys::KeySpec;
use tacita_ckks::{Ciphertext, CkksParameters, KeyKind};
use tacita_rlwe::SwitchingKey;
use tacita_wire::mask::expand_mask;
use tacita_wire::{
    key_record_bytes, read_ciphertext, write_ciphertext, KeyReader, KeyWriter, Owner, WireError,
};

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

/// Several keys through one writer and one reader, as in a real file: buffers are used again.
fn keys(params: &CkksParameters, limbs: usize) -> Result<(), WireError> {
    let rlwe = params.rlwe();
    let spec = |i: usize| KeySpec {
        kind: KeyKind::Galois(2 * i as u64 + 1),
        limbs,
    };
    let (special, gadget) = spec(0).shape(params);
    let digits = SwitchingKey::digits(rlwe, (limbs, special), gadget);
    let expand = |b| SwitchingKey::from_parts(rlwe, [7; 32], limbs, special, gadget, b);
    // Any residues do for timing: uniform ones, as a key's.
    let zero = tacita_rlwe::RnsPoly::zero(rlwe, limbs, special);
    let mut key = expand(expand(vec![zero; digits]).a);
    let size = key_record_bytes(params, &spec(0));
    let count = ROUNDS + 1;
    let mut sink = KeyWriter::new(std::io::sink(), params, Owner::default(), count as u64)?;
    let mut specs = (0..count).map(spec);
    timed(&format!("write key, {limbs}"), size, || {
        specs.next().map_or(Ok(()), |s| sink.write(&s, &key))
    })?;
    let mut writer = KeyWriter::new(Vec::new(), params, Owner::default(), count as u64)?;
    (0..count).try_for_each(|i| writer.write(&spec(i), &key))?;
    let bytes = writer.finish()?;
    let mut reader = KeyReader::new(&bytes[..], params, None)?;
    timed(&format!("read key, {limbs}"), size, || {
        reader.next().transpose().map(drop)
    })?;
    timed("  of which uniform half", size, || {
        key = expand(std::mem::take(&mut key.b));
        Ok(())
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let params = CkksParameters::preset("n16")?;
    println!("{} threads", rayon::current_num_threads());
    ciphertext(&params, 16)?;
    keys(&params, 28)?;
    Ok(())
}
