//! Decoded slots to numbers (`tacita.layouts.base`), and what tells that a decode is broken.
use super::description::Places;
use tacita_ckks::Complex64;

/// Of what belongs to be equal, zero or one: largest difference whatever the description says, beside the
/// largest number.
const LOOSE: f64 = 0.05;

/// The numbers of an answer, and whether they are those of a run that stayed in its calibrated intervals.
pub struct Read {
    pub values: Vec<f64>,
    pub sound: bool,
}

/// Reads the answer from the slots of its ciphertexts, whose sizes the description was checked for.
pub fn read(places: &Places, slots: &[Vec<Complex64>]) -> Read {
    let at = |&(ct, slot): &(usize, usize)| slots[ct][slot].re;
    let pairs = || places.numbers.iter().map(at).zip(places.copies.iter().map(at));
    let values: Vec<f64> = pairs().map(|(a, b)| 0.5 * (a + b) * places.bound).collect();
    let mut used: Vec<Vec<bool>> = slots.iter().map(|row| vec![false; row.len()]).collect();
    for &(ct, slot) in places.numbers.iter().chain(&places.copies).chain([&places.check]) {
        used[ct][slot] = true;
    }
    let free = slots.iter().flatten().zip(used.iter().flatten());
    let leak = largest(free.filter(|(_, &used)| !used).map(|(z, _)| z.norm()));
    let apart = largest(pairs().map(|(a, b)| (a - b).abs()));
    let loose = LOOSE * largest(values.iter().map(|v| v.abs())).max(1.0);
    let quiet = leak.max(apart) * places.bound <= loose.min(places.agreement);
    let checked = (2.0 * at(&places.check) - 1.0).abs() <= LOOSE;
    let finite = slots.iter().flatten().all(|z| z.is_finite());
    Read {
        sound: quiet && checked && finite,
        values,
    }
}

fn largest(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, f64::max)
}
