//! Compares every kernel on every device with the processor: `cargo run --release --example verify`, with the
//! degrees and the logarithm of the radix as arguments, if others than the default are wanted.

use tacita_opencl::{devices, verify_build, Build};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers: Vec<u32> = std::env::args()
        .skip(1)
        .map(|word| word.parse())
        .collect::<Result<_, _>>()?;
    let (&log_radix, log_ns) = numbers.split_first().unwrap_or((&4, &[10, 13, 16]));
    let mut differ = 0;
    for device in devices()? {
        println!("{} ({}, {})", device.name, device.maker, device.driver);
        for &flavour in device.flavours() {
            let build = Build {
                log_radix,
                ..Build::new(flavour)
            };
            for check in verify_build(&device, &build, log_ns)? {
                differ += check.differ;
                println!(
                    "{} n = 2^{} {}: {} of {} residues differ",
                    flavour.name(),
                    check.log_n,
                    check.kernel,
                    check.differ,
                    check.residues
                );
            }
        }
    }
    if differ > 0 {
        return Err(format!("{differ} residues differ").into());
    }
    Ok(())
}
