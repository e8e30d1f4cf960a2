//! Every target: the program's name says which body runs.
#![no_main]
use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;
use tacita_fuzz::{one_thread, seeds::seeds, target, Counting, Target};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static TARGET: OnceLock<Target> = OnceLock::new();

/// The target of this program, which has run over honest inputs once: tables of a first call are not the
/// input's fault.
fn prepared() -> Target {
    one_thread();
    let target = target(env!("CARGO_BIN_NAME"));
    seeds(target.name).iter().for_each(|seed| target.run(seed));
    target
}

fuzz_target!(init: { let _ = TARGET.set(prepared()); }, |data: &[u8]| {
    if let Some(target) = TARGET.get() {
        target.run(data);
    }
});
