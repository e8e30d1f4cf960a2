//! What real and simulated messages are held to. A test is off by more than [`LIMIT`] deviations once in
//! 10^10 or less.

/// Standard deviations.
const LIMIT: f64 = 8.0;
/// Fewer bytes are not judged.
pub const LEAST: usize = 1024;

/// Every bit position is one half of the time, all byte values are as frequent, and neighbouring bytes do not
/// agree.
pub fn uniform(bytes: &[u8]) -> Result<(), String> {
    let neighbours: Vec<u8> = bytes.windows(2).map(|pair| pair[0] ^ pair[1]).collect();
    for (what, bytes) in [("bytes", bytes), ("neighbours", &neighbours)] {
        bits(bytes).map_err(|found| format!("{what}: {found}"))?;
        histogram(bytes).map_err(|found| format!("{what}: {found}"))?;
    }
    Ok(())
}

/// Two messages of the same place have nothing in common.
pub fn unrelated(one: &[u8], other: &[u8]) -> Result<(), String> {
    let difference: Vec<u8> = one.iter().zip(other).map(|(a, b)| a ^ b).collect();
    bits(&difference).and_then(|()| histogram(&difference))
}

/// Two messages have byte values as frequent: a chi-square of two samples.
pub fn alike(one: &[u8], other: &[u8]) -> Result<(), String> {
    let (a, b) = (counts(one), counts(other));
    let [n, m] = [one, other].map(|bytes| bytes.len() as f64);
    let term = |(a, b): (&f64, &f64)| {
        let difference = a * (m / n).sqrt() - b * (n / m).sqrt();
        if a + b > 0.0 {
            difference * difference / (a + b)
        } else {
            0.0
        }
    };
    let chi: f64 = a.iter().zip(&b).map(term).sum();
    judge("two samples", (chi - 255.0) / 510f64.sqrt())
}

fn bits(bytes: &[u8]) -> Result<(), String> {
    let n = bytes.len() as f64;
    (0..8).try_for_each(|bit| {
        let ones = bytes.iter().filter(|&&b| b >> bit & 1 == 1).count() as f64;
        judge(&format!("bit {bit}"), (ones - n / 2.0) / (n / 4.0).sqrt())
    })
}

fn histogram(bytes: &[u8]) -> Result<(), String> {
    let expected = bytes.len() as f64 / 256.0;
    let chi: f64 = counts(bytes)
        .iter()
        .map(|c| (c - expected).powi(2) / expected)
        .sum();
    judge("byte values", (chi - 255.0) / 510f64.sqrt())
}

fn counts(bytes: &[u8]) -> [f64; 256] {
    let mut counts = [0.0; 256];
    bytes.iter().for_each(|&b| counts[usize::from(b)] += 1.0);
    counts
}

fn judge(what: &str, deviations: f64) -> Result<(), String> {
    if deviations.abs() < LIMIT {
        return Ok(());
    }
    Err(format!("{what} is off by {deviations:.1} deviations"))
}
