//! CPU seconds (both parties), bytes and memory of matrix products, both parties in one process:
//! `RAYON_NUM_THREADS=1 cargo run --release -p tacita-mpc --example linear_cost [k m n]`.
use std::time::Duration;
use tacita_mpc::channel::memory_pair;
use tacita_mpc::linear::table::{TableClient, TableServer, TableShape};
use tacita_mpc::linear::{client_times_server, share_times_weights, Dims};
use tacita_mpc::profile::cpu_seconds;
use tacita_mpc::share::Z64;
use tacita_mpc::{Party, Result, Role};

fn noise(count: usize, seed: u64) -> impl Iterator<Item = u64> {
    (0..count as u64).map(move |i| (i + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ i)
}

fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line
        .and_then(|l| l.split_whitespace().next())
        .and_then(|v| v.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

/// Both sides, each after its keys are there; the second run is reported.
fn case(name: &str, dims: Dims, private: bool) -> Result<()> {
    let Dims { k, m, n, .. } = dims;
    let x: Vec<u64> = noise(k * m, 1).collect();
    let weights: Vec<i64> = noise(m * n, 2)
        .map(|v| (v % (1 << 15)) as i64 - (1 << 14))
        .collect();
    let (left, right) = memory_pair(Duration::from_secs(300));
    let product = |party: &mut Party, w: Option<&[i64]>| match (private, party.is_client()) {
        (true, true) => client_times_server(party, Some(&x), None, dims, Z64),
        (true, false) => client_times_server(party, None, w, dims, Z64),
        _ => share_times_weights(party, &x, w, dims, Z64),
    };
    let run = |party: &mut Party, w: Option<&[i64]>| -> Result<f64> {
        party.setup_linear()?;
        product(party, w)?;
        let began = cpu_seconds();
        product(party, w)?;
        Ok(began)
    };
    let (client, server) = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut party = Party::new(Role::Server, Box::new(right));
            run(&mut party, Some(&weights)).map(|began| (party, began))
        });
        let mut party = Party::new(Role::Client, Box::new(left));
        let mine = run(&mut party, None).map(|began| (party, began));
        (mine, other.join().expect("the server's thread panicked"))
    });
    let ((client, began), (_, other)) = (client?, server?);
    let cpu = cpu_seconds() - began.min(other);
    let name_of = if private {
        "client times server"
    } else {
        "share times weights"
    };
    let [sent, received] = client
        .profile()
        .costs()
        .get(name_of)
        .map_or([0, 0], |c| [c.sent / 2, c.received / 2]);
    println!(
        "{name}: {cpu:.3} CPU-s for both parties, {:.3} MB to the server, {:.3} MB back, peak {} MiB",
        sent as f64 / 1e6,
        received as f64 / 1e6,
        peak_mib()
    );
    Ok(())
}

/// An encrypted table of BERT-tiny's shape: making it, and looking 128 tokens up.
fn lookup() -> Result<()> {
    let (rows, columns, bits) = (30522, 128, 26);
    let shape = TableShape { rows, columns, bits };
    let values: Vec<i64> = noise(rows * columns, 3)
        .map(|v| (v % (1 << 19)) as i64 - (1 << 18))
        .collect();
    let began = cpu_seconds();
    let server = TableServer::new(&values, shape)?;
    let client = TableClient::from_message(server.message(), shape)?;
    let made = cpu_seconds() - began;
    let tokens: Vec<usize> = noise(128, 4).map(|v| v as usize % rows).collect();
    let (left, right) = memory_pair(Duration::from_secs(300));
    let began = cpu_seconds();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| server.lookup(&mut Party::new(Role::Server, Box::new(right)), 128));
        client.lookup(&mut Party::new(Role::Client, Box::new(left)), &tokens)?;
        other.join().expect("the server's thread panicked")
    })?;
    println!(
        "embedding of 128 tokens ({rows} x {columns}): once {made:.3} CPU-s and {:.2} MB; {:.3} CPU-s and \
        {:.3} MB a lookup, peak {} MiB",
        shape.table_len()? as f64 / 1e6,
        cpu_seconds() - began,
        shape.lookup_len(128)? as f64 / 1e6,
        peak_mib()
    );
    Ok(())
}

fn main() -> Result<()> {
    let args: Vec<usize> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let dims = |k, m, n| Dims { k, m, n, batch: 1 };
    if let [k, m, n] = args[..] {
        return case("product", dims(k, m, n), false);
    }
    case(
        "(128 x 768) x (768 x 768), share times weights",
        dims(128, 768, 768),
        false,
    )?;
    case(
        "(1 x 50257) x (50257 x 768), client times server",
        dims(1, 50257, 768),
        true,
    )?;
    lookup()
}
