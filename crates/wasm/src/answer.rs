//! What an answer says: rounded numbers, the label, scores, reasons for doubt (`tacita.client.answer`).
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

/// An answer. label: `None` where the model has no labels, or none holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Answer {
    pub label: Option<String>,
    /// Of all labels, the most likely first.
    pub scores: Vec<Score>,
    /// Rounded.
    pub logits: Vec<f64>,
    pub warnings: Vec<String>,
}

/// The answer's numbers from both shares, (rows * outputs,).
pub fn opened(values: &[u64], format: Format) -> Vec<f64> {
    let (ring, unit) = (Ring::new(format.ring), (-f64::from(format.fraction)).exp2());
    values.iter().map(|&v| ring.signed(v) as f64 * unit).collect()
}

/// Reads the numbers as the plan says. sound: whether they passed the checks that they came with. A model
/// that answers for every token, or with a vector, gives its numbers alone.
pub fn told(reading: &Reading, values: &[f64], sound: bool) -> Answer {
    let logits: Vec<f64> = values.iter().map(|&v| rounded(v, reading.decimals)).collect();
    let largest = values.iter().fold(0.0, |most: f64, v| most.max(v.abs()));
    let doubt = match sound {
        false => Some("the response fails its own checks".to_owned()),
        true => (largest > reading.bound).then(|| {
            format!(
                "an answer of magnitude {largest:.1}, calibrated up to {:.1}",
                reading.bound
            )
        }),
    };
    let warnings =
        doubt.map(|doubt| format!("outside the calibrated intervals: {doubt}; do not trust the answer"));
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
        logits,
        warnings: warnings.into_iter().collect(),
    }
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
