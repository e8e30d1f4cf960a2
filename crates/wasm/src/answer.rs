//! What an answer says: rounded numbers, the label, scores, reasons for doubt (`tacita.plans.answers`).
use crate::program::{Format, Reading};
use serde::Serialize;
use tacita_mpc::Ring;

/// A label and how likely it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Score {
    /// One of the model's.
    pub label: String,
    /// From 0 to 1.
    pub score: f64,
}

/// An answer. label: `None` where the model has no labels, or none holds. One that failed its checks is not
/// trusted, and has neither label, scores nor logits.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Answer {
    pub label: Option<String>,
    /// Of all labels, the most likely first.
    pub scores: Vec<Score>,
    /// Rounded.
    pub logits: Option<Vec<f64>>,
    pub warnings: Vec<String>,
    pub trusted: bool,
}

impl Answer {
    /// Of which nothing is shown but the reason.
    fn without(warning: String) -> Self {
        Self {
            label: None,
            scores: vec![],
            logits: None,
            warnings: vec![warning],
            trusted: false,
        }
    }
}

/// The answer's numbers from both shares, (rows * outputs,).
pub fn opened(values: &[u64], format: Format) -> Vec<f64> {
    let (ring, unit) = (Ring::new(format.ring), (-f64::from(format.fraction)).exp2());
    values.iter().map(|&v| ring.signed(v) as f64 * unit).collect()
}

/// Reads the numbers as the plan says. sound: whether they passed the checks that they came with. A model
/// that answers for every token, or with a vector, gives its numbers alone.
pub fn told(reading: &Reading, values: &[f64], sound: bool) -> Answer {
    if let Some(doubt) = doubt(reading, values, sound) {
        let warning = format!("outside the calibrated intervals: {doubt}; do not trust the answer");
        return Answer::without(warning);
    }
    let logits: Vec<f64> = values.iter().map(|&v| shown(v, reading)).collect();
    let known = reading.task == "text" && reading.labels.len() == logits.len();
    let scores = match reading.problem.as_str() {
        "single_label" if known => softmax(&logits),
        "multi_label" if known => logits.iter().map(|v| 0.5 * (1.0 + (0.5 * v).tanh())).collect(),
        _ => vec![],
    };
    let named = reading.labels.iter().zip(scores);
    let mut scores: Vec<Score> = named
        .map(|(label, score)| Score {
            label: label.clone(),
            score,
        })
        .collect();
    scores.sort_by(|a, b| b.score.total_cmp(&a.score));
    let holds = |score: &&Score| reading.problem == "single_label" || score.score > 0.5;
    Answer {
        label: scores.first().filter(holds).map(|score| score.label.clone()),
        scores,
        logits: Some(logits),
        warnings: vec![],
        trusted: true,
    }
}

/// Why an answer is not shown, without its size: what is not shown is not told by the warning either.
fn doubt(reading: &Reading, values: &[f64], sound: bool) -> Option<String> {
    if !sound {
        return Some("the response fails its own checks".to_owned());
    }
    let inside = values.iter().all(|v| v.abs() <= reading.bound); // which NaN is not
    (!inside).then(|| format!("an answer beyond its calibrated bound of {:.1}", reading.bound))
}

/// A multiple of the last decimal's unit or of a part of it.
fn shown(value: f64, reading: &Reading) -> f64 {
    let parts = f64::from(reading.parts);
    let multiple = rounded(value * parts, reading.decimals) / parts;
    rounded(multiple, reading.decimals + 1)
}

/// By the decimal expansion, as Python rounds; no negative zero.
fn rounded(value: f64, decimals: usize) -> f64 {
    format!("{value:.decimals$}").parse::<f64>().unwrap_or(value) + 0.0
}

fn softmax(logits: &[f64]) -> Vec<f64> {
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = logits.iter().map(|v| (v - largest).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|power| power / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(decimals: usize, parts: u8) -> Reading {
        Reading {
            name: "a".into(),
            task: "text".into(),
            problem: "single_label".into(),
            labels: vec!["L0".into(), "L1".into()],
            decimals,
            parts,
            bound: 10.0,
            normalise: false,
        }
    }

    #[test]
    fn numbers_are_multiples_of_a_part_of_the_last_decimal() {
        let logits = |decimals, parts| {
            told(&reading(decimals, parts), &[1.3, -1.234], true)
                .logits
                .unwrap_or_default()
        };
        assert_eq!(logits(0, 2), [1.5, -1.0]);
        assert_eq!(logits(1, 5), [1.3, -1.24]);
        assert_eq!(logits(2, 1), [1.3, -1.23]);
    }

    #[test]
    fn an_answer_that_failed_its_checks_is_not_shown() {
        let cases = [
            (2.0, false),
            (-10.1, true),
            (f64::NAN, true),
            (f64::INFINITY, true),
        ];
        for (value, sound) in cases {
            let found = told(&reading(3, 1), &[1.0, value], sound);
            assert_eq!((found.label, found.scores, found.logits), (None, vec![], None));
            assert!(!found.trusted && found.warnings[0].contains("do not trust the answer"));
            assert!(!found.warnings[0].contains("10.1"));
        }
        assert!(told(&reading(3, 1), &[1.0, -10.0], true).trusted);
    }

    #[test]
    fn of_equal_rounded_numbers_the_first_wins() {
        let found = told(&reading(0, 2), &[1.24, 1.26], true);
        assert_eq!(found.label.as_deref(), Some("L1"));
        let found = told(&reading(0, 2), &[1.26, 1.4], true);
        assert_eq!(found.label.as_deref(), Some("L0"));
    }
}
