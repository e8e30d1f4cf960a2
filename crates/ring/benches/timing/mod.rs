//! The least time of a call, of samples that take half a second together.
use std::hint::black_box;
use std::time::{Duration, Instant};

const TOTAL: Duration = Duration::from_millis(500);

/// Prints the least time of a call, where the first argument of the program is part of the name or absent.
pub fn time<T>(name: &str, mut call: impl FnMut() -> T) {
    let wanted = std::env::args().skip(1).find(|word| !word.starts_with("--"));
    if wanted.is_some_and(|part| !name.contains(&part)) {
        return;
    }
    black_box(call()); // roots, pages and caches are there then
    let (began, mut least) = (Instant::now(), Duration::MAX);
    while began.elapsed() < TOTAL {
        let start = Instant::now();
        black_box(call());
        least = least.min(start.elapsed());
    }
    println!("{name}: {:.2} us", least.as_secs_f64() * 1e6);
}
