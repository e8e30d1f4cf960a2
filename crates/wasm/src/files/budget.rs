//! How many answers a key may give where the server sees them (`tacita.plans.presets`).
use crate::program::Reading;
use tacita_rlwe::{security, Parameters};

/// Answers of so many bits after which what a server can have read of the secret leaves fewer than 128 bits,
/// if it chose what was decrypted and sees what was shown; at least one. `None` for parameters that have no
/// 128 bits.
pub fn answers_of_a_key(params: &Parameters, bits: f64) -> Option<u64> {
    let limit = security::max_log_qp(params.log_n())?;
    let known = 1.0 - params.log_qp() / limit;
    let spare = f64::from(1u32 << params.log_n()) * known * 3f64.log2();
    (known >= 0.0).then(|| ((spare / bits) as u64).max(1))
}

/// What an answer shows, in bits: each of `rows` times `size` numbers, within the bound and in multiples of
/// the step; of a choice the word and its share.
pub fn bits(reading: &Reading, rows: usize, size: usize, chooses: bool) -> f64 {
    let number = (2.0 * reading.bound / reading.step()).log2().max(1.0);
    if chooses {
        return number + (size as f64).log2();
    }
    number * rows as f64 * size as f64
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
        let shown = bits(&Reading::of_numbers(3, 2.9), 1, 2, false);
        let cases = [
            ("n16", Some(37)),
            ("n16_leveled", Some(7)),
            ("insecure_toy_n10", None),
        ];
        for (preset, wanted) in cases {
            let params = CkksParameters::preset(preset).unwrap();
            assert_eq!(answers_of_a_key(params.rlwe(), shown), wanted, "{preset}");
        }
        assert_eq!(warning(84, Some(84)), None);
        assert!(warning(85, Some(84)).unwrap().starts_with("85 answers"));
        assert_eq!(warning(1 << 40, None), None);
    }

    /// As in `tests/unit/plans/test_presets.py`.
    #[test]
    fn a_row_a_token_shows_more_and_a_choice_of_2048_words_hardly_more_than_one_number() {
        let params = CkksParameters::preset("n16").unwrap();
        let budget = |shown| answers_of_a_key(params.rlwe(), shown);
        let (logits, share) = (Reading::of_numbers(3, 2.9), Reading::of_numbers(1, 1.25));
        assert_eq!(budget(bits(&logits, 16, 2, false)), Some(2));
        assert_eq!(budget(bits(&logits, 1, 2048, false)), Some(1));
        assert_eq!(budget(bits(&share, 1, 2048, true)), Some(59));
    }
}
