//! What an answer says: rounded numbers, the label, scores, reasons for doubt (`tacita.plans.answers`).
use crate::front::{Token, Tokenizer};
use crate::program::{Format, Reading, MASKS, SPAN};
use crate::spans::{candidates, extracted, softmax, tagged, Span};
use serde::Serialize;
use tacita_mpc::Ring;

/// Below it a vector is divided by this.
const LEAST_LENGTH: f64 = 1e-12;
/// Steps of rounding that an answer should span at least.
const STEPS: f64 = 10.0;
const UNREADABLE: &str =
    "the model's tokenizer knows nothing of this text: any other such text gets the same answer";

/// A label and how likely it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Score {
    /// One of the model's.
    pub label: String,
    /// From 0 to 1.
    pub score: f64,
}

/// An answer. label: `None` where the model has no labels, or none holds. One that failed its checks is not
/// trusted, and has neither label, scores, logits nor spans.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Answer {
    pub label: Option<String>,
    /// Of all labels, the most likely first.
    pub scores: Vec<Score>,
    /// Rounded.
    pub logits: Option<Vec<f64>>,
    /// Places of a text, of a model that answers for every token.
    pub spans: Vec<Span>,
    pub warnings: Vec<String>,
    pub trusted: bool,
}

impl Answer {
    /// Reads what the numbers of a model that answers for every token say of these, and warns of a text that
    /// has none that is known. Of a model for masks the numbers of the whole vocabulary are not told.
    pub(crate) fn understand(&mut self, reading: &Reading, tokens: &[Token], tokenizer: &Tokenizer) {
        if tokenizer.knows_nothing_of(tokens) {
            self.warnings.push(UNREADABLE.to_owned());
        }
        let Some(logits) = self.logits.as_ref().filter(|_| !tokens.is_empty()) else {
            return;
        };
        let rows: Vec<&[f64]> = logits.chunks((logits.len() / tokens.len()).max(1)).collect();
        self.spans = match reading.task.as_str() {
            "tokens" if rows.len() == tokens.len() => tagged(&reading.labels, &rows, tokens),
            SPAN if rows.len() == tokens.len() => extracted(&rows, tokens).into_iter().collect(),
            MASKS if rows.len() == tokens.len() => match tokenizer.mask() {
                Some((mask, _)) => candidates(&rows, tokens, mask, |id| tokenizer.piece(id)),
                None => vec![],
            },
            _ => vec![],
        };
        if reading.task == MASKS {
            self.logits = None;
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
        return Answer {
            warnings: vec![warning],
            ..Answer::default()
        };
    }
    let (length, step) = units(reading, values);
    let logits: Vec<f64> = match reading.normalise {
        true => normalised(values, length, step),
        false => values.iter().map(|&v| shown(v, reading)).collect(),
    };
    let known = reading.task == "text" && reading.labels.len() == logits.len();
    let scores = match reading.problem.as_str() {
        "single_label" if known => softmax(&logits),
        "multi_label" if known => logits.iter().map(|v| 0.5 * (1.0 + (0.5 * v).tanh())).collect(),
        _ => vec![],
    };
    let mut warnings: Vec<String> = coarse(reading, values, length, step).into_iter().collect();
    if known && reading.problem == "single_label" {
        warnings.extend(tied(&logits));
    }
    let named = reading.labels.iter().cloned().zip(scores);
    let mut scores: Vec<Score> = named.map(|(label, score)| Score { label, score }).collect();
    scores.sort_by(|a, b| b.score.total_cmp(&a.score));
    let holds = |score: &&Score| reading.problem == "single_label" || score.score > 0.5;
    Answer {
        label: scores.first().filter(holds).map(|score| score.label.clone()),
        scores,
        logits: Some(logits),
        spans: vec![],
        warnings,
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

/// Warns of a step above a tenth of the largest answer or, of a vector, of its mean entry.
fn coarse(reading: &Reading, values: &[f64], length: f64, step: f64) -> Option<String> {
    let mean = values.iter().map(|v| v.abs()).sum::<f64>() / values.len() as f64 / length;
    let (size, what) = match reading.is_vector() {
        true => (mean, "the mean entry is"),
        false => (reading.bound, "no answer exceeds"),
    };
    let two_digits = |x: f64| format!("{x:.1e}").parse().unwrap_or(x);
    let (few, most) = (two_digits(step), two_digits(size));
    (size < STEPS * step).then(|| {
        format!(
            "rounded to multiples of {few}, and {what} {most}: the plan's noise leaves no more decimals; a \
             plan with --functions thor, of --packing multidiagonal or of another scheme may"
        )
    })
}

/// Warns of several labels that share the largest rounded logit.
fn tied(logits: &[f64]) -> Option<String> {
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let count = logits.iter().filter(|&&v| v == largest).count();
    (count > 1).then(|| {
        format!("{count} labels have the largest logit as it is rounded: the first of them is named")
    })
}

/// The length that a vector is divided by, where it is, and what numbers are rounded to multiples of:
/// divided by it too and rounded up to two digits (`tacita.plans.answers.rounded`), so that no digit is
/// finer than the vector's.
fn units(reading: &Reading, values: &[f64]) -> (f64, f64) {
    if !reading.normalise {
        return (1.0, reading.step());
    }
    let length = values.iter().map(|v| v * v).sum::<f64>().sqrt();
    let length = length.clamp(LEAST_LENGTH, 1.0 / LEAST_LENGTH);
    let size = 10f64.powi(-(reading.decimals as i32)) / length;
    let power = size.log10().floor() as i32 - 1;
    let digits = (size / 10f64.powi(power) * (1.0 - 1e-12)).ceil();
    (length, format!("{digits}e{power}").parse().unwrap_or(size))
}

/// A vector divided by its length, in multiples of a step.
fn normalised(values: &[f64], length: f64, step: f64) -> Vec<f64> {
    let places = usize::try_from(1 - f64::log10(step).floor() as i64).unwrap_or(0);
    let multiple = |v: &f64| rounded((v / length / step).round_ties_even() * step, places);
    values.iter().map(multiple).collect()
}

/// By the decimal expansion, as Python rounds; no negative zero.
fn rounded(value: f64, decimals: usize) -> f64 {
    format!("{value:.decimals$}").parse::<f64>().unwrap_or(value) + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(decimals: usize, parts: u8) -> Reading {
        Reading {
            labels: vec!["L0".into(), "L1".into()],
            parts,
            ..Reading::of_numbers(decimals, 10.0)
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
    fn a_vector_is_divided_by_its_length_and_its_step_too() {
        let reading = Reading {
            normalise: true,
            ..reading(3, 1)
        };
        let found = told(&reading, &[1.2, -1.6], true).logits.unwrap_or_default();
        assert_eq!(found, [0.6, -0.8], "multiples of 0.0005");
        let short = told(&reading, &[0.012, 0.016], true).logits.unwrap_or_default();
        assert_eq!(short, [0.6, 0.8], "multiples of 0.05");
        assert_eq!(told(&reading, &[0.0, 0.0], true).logits, Some(vec![0.0, 0.0]));
    }

    #[test]
    fn a_label_that_another_one_equals_is_warned_of() {
        let mut reading = reading(1, 1);
        let warnings = |reading: &Reading, values: &[f64]| told(reading, values, true).warnings;
        let said = warnings(&reading, &[1.41, 1.39]);
        assert_eq!(said.len(), 1);
        assert!(said[0].starts_with("2 labels have the largest logit"));
        assert!(warnings(&reading, &[1.41, 1.28]).is_empty());
        reading.problem = "multi_label".into();
        assert!(warnings(&reading, &[1.41, 1.39]).is_empty());
    }

    #[test]
    fn steps_that_are_hardly_smaller_than_answers_are_warned_of() {
        let warnings = |reading: &Reading, values: &[f64]| told(reading, values, true).warnings.concat();
        for (decimals, parts, coarse) in [(0, 1, true), (0, 2, false), (1, 1, false)] {
            let reading = Reading {
                bound: 9.96,
                ..reading(decimals, parts)
            };
            let said = warnings(&reading, &[1.3, -1.2]);
            assert_eq!(said.contains("multiples of 1, and no answer exceeds 10:"), coarse);
            assert_eq!(said.is_empty(), !coarse);
        }
        let mut vector = reading(1, 1);
        vector.labels.clear();
        assert!(warnings(&vector, &[1.2, -1.0]).is_empty());
        let said = warnings(&vector, &[0.9, -0.8]);
        assert!(said.contains("of 0.1, and the mean entry is 0.85:"), "{said}");
        vector.normalise = true;
        let said = warnings(&vector, &[0.9, -0.8]);
        assert!(said.contains("of 0.084, and the mean entry is 0.71:"), "{said}");
        assert!(warnings(&vector, &[3.0, -4.0]).is_empty());
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
