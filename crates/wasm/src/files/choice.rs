//! Which token a text goes on with, of the numbers of all words (`tacita.texts.generation`): logits, or of a
//! plan that tells the likeliest token alone each word's share of the choice.
use crate::error::{unasked, ClientError, Result};
use tacita_ring::sample::Prng;

/// Bound of a word's share, which is 1 at most, and its decimals at most: more would say more of two logits
/// that are near.
pub(super) const MOST_SHARE: f64 = 1.25;
pub(super) const MOST_DECIMALS: usize = 1;
/// That all shares have together: less is no choice, more is one of several words.
const SUMS: std::ops::RangeInclusive<f64> = 0.05..=1.5;
/// Other tokens that are named, at most.
const MOST_NEAR: usize = 8;

/// Refuses rounded shares that are those of no choice at all, or of several.
///
/// # Errors
/// [`ClientError::Text`].
pub(super) fn require_choice(shares: &[f64]) -> Result<()> {
    let sum = shares.iter().sum::<f64>();
    if SUMS.contains(&sum) {
        return Ok(());
    }
    let what = if sum > *SUMS.end() {
        "several words were"
    } else {
        "no word was"
    };
    unasked(format!(
        "outside the calibrated intervals: {what} chosen; do not trust the answer"
    ))
}

/// The number of one token: the likeliest, of several the first; at a temperature by chance, with weights of
/// exp(logit / temperature).
pub(super) fn choose(logits: &[f64], thousandths: u32) -> Result<usize> {
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let heat = f64::from(thousandths) / 1000.0;
    let weight = |logit: f64| match thousandths {
        0 => f64::from(u8::from(logit == most)),
        _ => ((logit - most) / heat).exp(),
    };
    let mut left = 0.0;
    if thousandths > 0 {
        let (mut word, total) = ([0; 8], logits.iter().map(|&l| weight(l)).sum::<f64>());
        Prng::from_os().map_err(ClientError::engine)?.fill(&mut word);
        left = (u64::from_le_bytes(word) >> 11) as f64 * (-53f64).exp2() * total;
    }
    let at = logits.iter().position(|&logit| {
        left -= weight(logit);
        left < 0.0
    });
    Ok(at.unwrap_or(logits.len().saturating_sub(1)))
}

/// The first few other tokens that numbers rounded to multiples of `step` do not tell from the chosen one: a
/// step apart at most.
pub(super) fn near(logits: &[f64], choice: usize, step: f64) -> Vec<u32> {
    let close = |&(at, logit): &(usize, &f64)| at != choice && (logit - logits[choice]).abs() < 1.5 * step;
    let others = logits.iter().enumerate().filter(close);
    others.map(|(at, _)| at as u32).take(MOST_NEAR).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_of_one_word() {
        for shares in [&[0.0, 1.0][..], &[0.5, 0.5], &[0.1], &[1.0, 0.5]] {
            assert!(require_choice(shares).is_ok(), "{shares:?}");
        }
        for (shares, why) in [
            (&[0.0, 0.0][..], "no word was"),
            (&[-1.0, 0.5], "no word was"),
            (&[1.0, 0.9], "several words were"),
        ] {
            let said = require_choice(shares).unwrap_err().to_string();
            assert!(said.contains(why), "{said}");
        }
        assert!(require_choice(&[f64::NAN]).is_err());
    }

    #[test]
    fn ties_are_a_step_apart() {
        let logits = [0.5, 2.0, 2.1, 1.9, 1.8, 2.0];
        assert_eq!(
            (choose(&logits, 0).unwrap(), near(&logits, 2, 0.1)),
            (2, vec![1, 5])
        );
        assert_eq!(near(&[1.0; 20], 3, 0.1), [0, 1, 2, 4, 5, 6, 7, 8]);
        assert_eq!(choose(&[2.0, 2.0], 0).unwrap(), 0);
        assert!([0, 1].contains(&choose(&[0.0, 1.0], 700).unwrap()));
    }
}
