//! How many answers a key may give where the server sees them (`tacita.plans.presets`).
use crate::program::Reading;
use tacita_rlwe::{security, Parameters};

/// Answers after which what a server can have read of the secret leaves fewer than 128 bits, if it chose what
/// was decrypted and sees what was shown; at least one. `None` for parameters that have no 128 bits.
pub fn answers_of_a_key(params: &Parameters, reading: &Reading, numbers: usize) -> Option<u64> {
    let limit = security::max_log_qp(params.log_n())?;
    let known = 1.0 - params.log_qp() / limit;
    let spare = f64::from(1u32 << params.log_n()) * known * 3f64.log2();
    let step = 10f64.powi(-(reading.decimals as i32)) / f64::from(reading.parts);
    let bits = numbers as f64 * (2.0 * reading.bound / step).log2().max(1.0);
    (known >= 0.0).then(|| ((spare / bits) as u64).max(1))
}

/// What is said of a key that gave more answers than its budget.
pub fn warning(answers: u64, budget: Option<u64>) -> Option<String> {
    budget.filter(|&budget| answers > budget).map(|budget| {
        format!(
            "{answers} answers were decrypted with this key; more than {budget} that the server sees can \
             tell it so much of the key that fewer than 128 bits of security are left: reload the page for a \
             new one"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacita_ckks::CkksParameters;

    #[test]
    fn two_logits_leave_37_answers_or_7_and_no_toy_has_a_budget() {
        let reading = Reading {
            name: "a".into(),
            task: "text".into(),
            problem: "single_label".into(),
            labels: vec![],
            decimals: 3,
            parts: 1,
            bound: 2.9,
            normalise: false,
        };
        let cases = [
            ("n16", Some(37)),
            ("n16_leveled", Some(7)),
            ("insecure_toy_n10", None),
        ];
        for (preset, wanted) in cases {
            let params = CkksParameters::preset(preset).unwrap();
            assert_eq!(answers_of_a_key(params.rlwe(), &reading, 2), wanted, "{preset}");
        }
        assert_eq!(warning(84, Some(84)), None);
        assert!(warning(85, Some(84)).unwrap().starts_with("85 answers"));
        assert_eq!(warning(1 << 40, None), None);
    }
}
