//! Correlated OTs a second: `cargo run --release -p tacita-mpc --example ferret [COUNT]`, best pinned to one core.
fn main() -> tacita_mpc::Result<()> {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(20_000_000);
    let rate = tacita_mpc::ot::bench::ferret(count)?;
    println!("{rate:#?}");
    Ok(())
}
