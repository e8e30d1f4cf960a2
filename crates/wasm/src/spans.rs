//! What the numbers of a model that answers for every token say of a text (`tacita.texts.spans`).
use crate::front::{Origin, Token};
use serde::Serialize;

/// Of an answer, as in transformers' pipeline.
const MOST_TOKENS: usize = 15;
/// Of a mask that are told.
const CANDIDATES: usize = 5;
const CONTEXT: usize = 1;
const NOTHING: &str = "O";

/// Characters of a text, from start to before end, with a label and a score from 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Span {
    pub label: String,
    pub score: f64,
    pub start: usize,
    pub end: usize,
}

/// Finds spans of neighbours of one label. rows: logits of each token, (tokens, labels). B-PER begins a
/// span of PER; I-PER, and a label without a mark, go on with one.
pub fn tagged(labels: &[String], rows: &[&[f64]], tokens: &[Token]) -> Vec<Span> {
    let mut groups: Vec<(Span, usize, f64)> = vec![]; // with sums of scores, their parts, counts of tokens
    for (row, token) in rows.iter().zip(tokens) {
        let Some(Origin { part, place, .. }) = &token.origin else {
            continue;
        };
        let scores = softmax(row);
        let best = first_of_largest(&scores);
        let named = labels.get(best).map_or(NOTHING, String::as_str);
        let (begins, label) = match named.split_at_checked(2) {
            Some(("B-", label)) => (true, label),
            Some(("I-", label)) => (false, label),
            _ => (false, named),
        };
        match groups.last_mut() {
            Some((last, of, count)) if !begins && (&*last.label, *of) == (label, *part) => {
                last.end = place.end;
                last.score += scores[best];
                *count += 1.0;
            }
            _ => {
                let (label, score) = (label.to_owned(), scores[best]);
                let (start, end) = (place.start, place.end);
                let first = Span {
                    label,
                    score,
                    start,
                    end,
                };
                groups.push((first, *part, 1.0));
            }
        }
    }
    let spans = groups.into_iter().filter(|(span, ..)| span.label != NOTHING);
    let mean = |(span, _, count): (Span, usize, f64)| Span {
        score: span.score / count,
        ..span
    };
    spans.map(mean).collect()
}

/// The span of the context whose start and end are likeliest together, widened to whole words. rows: how well
/// an answer starts and ends at each token, (tokens, 2). `None` where there is no context.
pub fn extracted(rows: &[&[f64]], tokens: &[Token]) -> Option<Span> {
    let context = |token: &Token| token.origin.as_ref().is_some_and(|origin| origin.part == CONTEXT);
    let inside: Vec<bool> = tokens.iter().map(context).collect();
    let likely = |column: usize| {
        // the first token is where models point that find no answer
        let counted = |(at, row): (usize, &&[f64])| match at == 0 || inside[at] {
            true => row[column],
            false => f64::NEG_INFINITY,
        };
        softmax(&rows.iter().enumerate().map(counted).collect::<Vec<_>>())
    };
    let (starts, ends) = (likely(0), likely(1));
    let mut best: Option<(f64, usize, usize)> = None;
    for first in (0..rows.len()).filter(|&at| inside[at]) {
        let most = rows.len().min(first + MOST_TOKENS);
        for last in (first..most).filter(|&at| inside[at]) {
            let product = starts[first] * ends[last];
            if best.is_none_or(|(score, ..)| product > score) {
                best = Some((product, first, last));
            }
        }
    }
    let (score, first, last) = best?;
    let word = |at: usize| tokens[at].origin.as_ref().map(|origin| origin.word.clone());
    Some(Span {
        label: "answer".to_owned(),
        score,
        start: word(first)?.start,
        end: word(last)?.end,
    })
}

/// The likeliest pieces of the vocabulary for each token that is the mask, from the likeliest on, each a span
/// of the mask's place. rows: (tokens, vocabulary). spell: a piece by its number.
pub fn candidates(rows: &[&[f64]], tokens: &[Token], mask: u32, spell: impl Fn(u32) -> String) -> Vec<Span> {
    let mut spans = vec![];
    for (row, token) in rows.iter().zip(tokens).filter(|(_, token)| token.id == mask) {
        let Some(Origin { place, .. }) = &token.origin else {
            continue;
        };
        let scores = softmax(row);
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a])); // stable: of equal ones the first
        spans.extend(order.iter().take(CANDIDATES).map(|&id| Span {
            label: spell(id as u32),
            score: scores[id],
            start: place.start,
            end: place.end,
        }));
    }
    spans
}

/// Probabilities of logits.
pub(crate) fn softmax(logits: &[f64]) -> Vec<f64> {
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = logits.iter().map(|v| (v - largest).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|power| power / sum).collect()
}

fn first_of_largest(scores: &[f64]) -> usize {
    let largest = |best: usize, at: usize| if scores[at] > scores[best] { at } else { best };
    (0..scores.len()).fold(0, largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tokens of five characters each, of these parts; `None` for one that is added.
    fn tokens(parts: &[Option<usize>]) -> Vec<Token> {
        let origin = |at: usize, part: usize| Origin {
            part,
            place: 5 * at..5 * at + 4,
            word: 5 * at..5 * at + 5,
        };
        let token = |(at, part): (usize, &Option<usize>)| Token {
            id: 0,
            kind: 0,
            origin: part.map(|part| origin(at, part)),
        };
        parts.iter().enumerate().map(token).collect()
    }

    #[test]
    fn neighbours_of_one_label_are_a_span_and_a_beginning_begins_one() {
        let labels = ["O", "B-X", "I-X", "Y"].map(str::to_owned);
        let parts = [None, Some(0), Some(0), Some(0), Some(0), Some(0), Some(0), None];
        let best = [1, 1, 2, 1, 0, 3, 3, 1];
        let rows: Vec<[f64; 4]> = best
            .map(|best| std::array::from_fn(|at| f64::from(u8::from(at == best))))
            .to_vec();
        let rows: Vec<&[f64]> = rows.iter().map(|row| &row[..]).collect();
        let found = tagged(&labels, &rows, &tokens(&parts));
        let shown: Vec<_> = found.iter().map(|s| (s.label.as_str(), s.start, s.end)).collect();
        assert_eq!(shown, [("X", 5, 14), ("X", 15, 19), ("Y", 25, 34)]);
        let share = 1f64.exp() / (1f64.exp() + 3.0);
        assert!(found.iter().all(|span| (span.score - share).abs() < 1e-12));
    }

    #[test]
    fn a_mask_has_the_likeliest_pieces_and_other_tokens_have_none() {
        let mut tokens = tokens(&[None, Some(0), Some(0), None]);
        [7, 3, 1, 3]
            .iter()
            .zip(&mut tokens)
            .for_each(|(&id, token)| token.id = id);
        let row = [0.0, 2.0, 1.0, 2.0, -1.0, 0.5];
        let found = candidates(&[&row[..]; 4], &tokens, 3, |id| format!("piece {id}"));
        let shown: Vec<_> = found.iter().map(|s| (s.label.as_str(), s.start, s.end)).collect();
        let pieces = ["piece 1", "piece 3", "piece 2", "piece 5", "piece 0"];
        assert_eq!(
            shown,
            pieces.map(|piece| (piece, 5, 9)),
            "the added mask is no text's"
        );
        assert!(found.windows(2).all(|pair| pair[0].score >= pair[1].score));
        assert!((found[0].score - softmax(&row)[1]).abs() < 1e-12);
    }

    #[test]
    fn an_answer_lies_in_the_context_and_ends_behind_its_start() {
        let parts = [None, Some(0), None, Some(1), Some(1), Some(1), None];
        let starts = [0.0, 9.0, 9.0, 1.0, 4.0, 2.0, 9.0];
        let ends = [0.0, 9.0, 9.0, 5.0, 1.0, 3.0, 9.0];
        let rows: Vec<[f64; 2]> = starts
            .iter()
            .zip(ends)
            .map(|(&start, end)| [start, end])
            .collect();
        let rows: Vec<&[f64]> = rows.iter().map(|row| &row[..]).collect();
        let found = extracted(&rows, &tokens(&parts)).expect("there is a context");
        assert_eq!(
            (found.start, found.end),
            (20, 30),
            "the largest product of a start and an end behind it"
        );
        assert!(0.0 < found.score && found.score < 1.0);
        assert!(extracted(&rows, &tokens(&[Some(0); 7])).is_none());
    }
}
