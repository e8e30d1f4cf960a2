//! Correlated OTs a second, and what is built from them:
//! `cargo run --release -p tacita-mpc --example ferret [COUNT]`.
use tacita_mpc::ot::bench;

fn main() -> tacita_mpc::Result<()> {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok());
    let rate = bench::ferret(count.unwrap_or(20_000_000))?;
    println!("{rate:#?}");
    let [four, sixteen, additive] = bench::derived(1 << 18)?;
    println!(
        "CPU nanoseconds of both parties: 1-of-4 lookup {four:.0}, 1-of-16 lookup {sixteen:.0}, \
        additive correlation {additive:.0}"
    );
    Ok(())
}
