//! Writes the honest inputs of all targets below a folder and prints the targets' names and longest inputs:
//! `cargo run -p tacita-fuzz --example seeds -- FOLDER`.
use std::path::PathBuf;
use tacita_fuzz::{seeds::seeds, TARGETS};

fn main() -> std::io::Result<()> {
    let root = PathBuf::from(std::env::args().nth(1).expect("which folder?"));
    for target in TARGETS {
        let folder = root.join(target.name);
        std::fs::create_dir_all(&folder)?;
        for (index, bytes) in seeds(target.name).iter().enumerate() {
            std::fs::write(folder.join(format!("honest-{index}")), bytes)?;
        }
        println!("{} {}", target.name, target.longest);
    }
    Ok(())
}
