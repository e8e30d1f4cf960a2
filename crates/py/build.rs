//! Passes the commit on that is built, for `tacita --version`; empty outside a clone, as in an sdist. A
//! builder without git sets TACITA_COMMIT.
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=TACITA_COMMIT");
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]); // gets a line with each commit and checkout
    if Path::new(&log).exists() {
        println!("cargo:rerun-if-changed={log}");
    }
    let given = std::env::var("TACITA_COMMIT").unwrap_or_else(|_| git(&["rev-parse", "--short=12", "HEAD"]));
    println!("cargo:rustc-env=TACITA_COMMIT={given}");
}

fn git(arguments: &[&str]) -> String {
    let clone = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.git").exists();
    let output = clone
        .then(|| Command::new("git").args(arguments).output().ok())
        .flatten();
    let text = output
        .filter(|each| each.status.success())
        .map(|each| each.stdout);
    String::from_utf8(text.unwrap_or_default())
        .unwrap_or_default()
        .trim()
        .to_string()
}
