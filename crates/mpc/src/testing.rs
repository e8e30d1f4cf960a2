//! Two parties in two threads, for tests.
use crate::channel::{memory_pair, Link, ManualClock, Throttled};
use crate::{Party, Result, Role};
use std::time::Duration;

/// Runs both sides over an in-memory link and returns (client's, server's) results; panics with the error of
/// a side that fails.
pub fn run_pair<A: Send, B: Send>(
    client: impl FnOnce(&mut Party) -> Result<A> + Send,
    server: impl FnOnce(&mut Party) -> Result<B> + Send,
) -> (A, B) {
    let (mut mine, mut theirs) = (None, None);
    run_tasks(
        Box::new(|party| client(party).map(|result| mine = Some(result))),
        Box::new(|party| server(party).map(|result| theirs = Some(result))),
    );
    (mine.expect("client"), theirs.expect("server"))
}

type Task<'a> = Box<dyn FnOnce(&mut Party) -> Result<()> + Send + 'a>;

/// The threads of `run_pair`, compiled once and not for every pair of closures.
fn run_tasks(client: Task<'_>, server: Task<'_>) {
    let (left, right) = memory_pair(Duration::from_secs(120));
    std::thread::scope(|scope| {
        let other = scope.spawn(move || server(&mut Party::new(Role::Server, Box::new(right))));
        let mine = client(&mut Party::new(Role::Client, Box::new(left)));
        let theirs = other.join().expect("the server's thread panicked");
        mine.expect("client");
        theirs.expect("server");
    });
}

/// Runs the same code on both sides, each with its own input: most protocols.
pub fn run_both<I: Send, O: Send>(
    inputs: (I, I),
    protocol: impl Fn(&mut Party, I) -> Result<O> + Sync + Send,
) -> (O, O) {
    let protocol = &protocol;
    run_pair(
        move |party| protocol(party, inputs.0),
        move |party| protocol(party, inputs.1),
    )
}

/// Runs the same code on both sides of a link on which nothing but its waits takes time.
pub fn run_behind<O: Send>(link: Link, protocol: impl Fn(&mut Party) -> Result<O> + Sync) -> [O; 2] {
    let (left, right) = memory_pair(Duration::from_secs(120));
    let run = |role, channel| {
        let channel = Throttled::new(channel, link, ManualClock::default());
        protocol(&mut Party::new(role, Box::new(channel))).expect("a side fails")
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| run(Role::Server, right));
        let mine = run(Role::Client, left);
        [mine, other.join().expect("the server's thread panicked")]
    })
}

/// Splits values into two random-looking shares (deterministic).
pub fn split(ring: crate::Ring, values: &[i64], seed: u64) -> (Vec<u64>, Vec<u64>) {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let left: Vec<u64> = values.iter().map(|_| ring.reduce(next())).collect();
    let right = values
        .iter()
        .zip(&left)
        .map(|(&v, &l)| ring.sub(ring.from_signed(v), l))
        .collect();
    (left, right)
}

/// The signed values of two shares.
pub fn join(ring: crate::Ring, left: &[u64], right: &[u64]) -> Vec<i64> {
    left.iter()
        .zip(right)
        .map(|(&l, &r)| ring.signed(ring.add(l, r)))
        .collect()
}
