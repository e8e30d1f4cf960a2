//! One body for each fuzz target: `fuzz/` at the root runs them under libFuzzer, `tests/corpus.rs` over
//! the corpus in the tree.
//!
//! A body takes any bytes and panics when a decoder breaks a promise: it must return, with an error of the
//! right kind for what it refuses, and hold no more memory than [`Target::cap`] says. Rings are toys, so
//! that one execution takes microseconds; the code is the one that runs on rings of full size.
//! `docs/fuzzing.md` says what is covered and what was run.
mod allocation;
mod files;
mod frames;
mod hostile;
mod lattice;
mod programs;
mod protocols;
mod seal;
pub mod seeds;
mod transfers;

pub use allocation::Counting;

/// A decoder under test.
#[derive(Clone, Copy)]
pub struct Target {
    /// As in `make fuzz FUZZ_TARGETS=...` and in the corpus' folder.
    pub name: &'static str,
    /// Bytes that it may hold beside its input, whatever the input says: derived from the parameters, at
    /// twice an honest object.
    pub cap: usize,
    /// Longest input that makes sense.
    pub longest: usize,
    body: fn(&[u8]),
}

impl Target {
    /// Runs the body once. Panics when a promise is broken.
    pub fn run(&self, data: &[u8]) {
        let (held, ()) = allocation::peak(|| (self.body)(data));
        let cap = self.cap + 4 * data.len();
        assert!(held <= cap, "{}: {held} bytes held, the cap is {cap}", self.name);
    }
}

/// All of them.
pub const TARGETS: [Target; 18] = [
    files::PARAMETERS,
    files::KEYS,
    files::COEFFICIENT_KEYS,
    files::CIPHERTEXTS,
    files::BLOB,
    lattice::SERVER_KEYS,
    lattice::REQUEST,
    lattice::RESPONSE,
    lattice::SLOTS_REQUEST,
    lattice::SLOTS_RESPONSE,
    frames::FRAMES,
    frames::STREAM,
    transfers::BASE_POINTS,
    transfers::SET_UP,
    transfers::TRANSFERS,
    protocols::COMPARISONS,
    protocols::FUNCTIONS,
    programs::PROGRAM,
];

/// The target of this name. Panics for a name that is none.
pub fn target(name: &str) -> Target {
    let found = TARGETS.into_iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("no fuzz target {name:?}"))
}

/// Keeps rayon on the calling thread: handing microseconds of work to another one would cost more than the
/// work. Call it first.
pub fn one_thread() {
    // An error means that a pool exists already, in a test process that runs several targets: then that
    // one is used.
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .use_current_thread();
    let _ = pool.build_global();
}
