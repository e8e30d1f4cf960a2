//! Measures the prices of `matmul::Costs` on one core, or prints the plans of a product k x m x n at several
//! link speeds: `cargo run --release -p tacita-bfv --example prices [k m n batch]`.
use tacita_bfv::matmul::plan::{Plain, Plan};
use tacita_bfv::matmul::{Costs, Dims};
use tacita_bfv::{parameters_olt, Result};

fn plans(dims: Dims) -> Result<()> {
    let params = parameters_olt()?;
    for mbits in [10_000.0, 1000.0, 400.0, 200.0, 100.0, 50.0, 10.0] {
        let costs = Costs {
            byte: 8e3 / mbits,
            ..Costs::default()
        };
        let (log_norm, opened) = (24, false);
        let cases = [
            (Plain::Weights { log_norm, opened }, 64),
            (Plain::OneShare { opened }, 46),
            (Plain::Shares { opened }, 46),
        ];
        for (plain, bits) in cases {
            let plan = Plan::new(&params, dims, bits, 12, plain, &costs)?;
            let [up, down] = plan.price.bytes.map(|b| b as f64 / 1e6);
            let (cpu, window, pack) = (plan.price.cpu / 1e9, plan.layout.grid.window, plan.layout.pack);
            println!(
                "{mbits} Mbit/s {plain:?}: {cpu:.3} CPU-s, {up:.2} + {down:.2} MB, {window:?}, packs \
                2^{pack}"
            );
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    let args: Vec<usize> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    if let [k, m, n, batch] = args[..] {
        return plans(Dims { k, m, n, batch });
    }
    println!("{:#?}", Costs::measure()?);
    Ok(())
}
