//! Byte-level BPE of GPT-2's kind: words cut by rules, their bytes joined pair by pair, and back.
use crate::error::{damaged, Result};
use serde::Deserialize;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use unicode_categories::UnicodeCategories;

pub(super) const WHAT: &str = "tokenizer";
const ENDINGS: [&str; 7] = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"];

/// A pair of pieces as files of either age spell it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Merge {
    Spaced(String),
    Pair(String, String),
}

/// The `model` of a tokenizer.json.
#[derive(Deserialize)]
pub(super) struct Model {
    vocab: HashMap<String, u32>,
    merges: Vec<Merge>,
    dropout: Option<f64>,
    unk_token: Option<String>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    #[serde(default)]
    byte_fallback: bool,
    #[serde(default)]
    ignore_merges: bool,
}

/// The vocabulary and what is joined, the earliest first.
pub(super) struct Bpe {
    bytes: [u32; 256],
    /// A pair -> its place in the order, and what it becomes.
    pairs: HashMap<(u32, u32), (usize, u32)>,
    spelled: HashMap<u32, Vec<u8>>,
    whole: Option<HashMap<Vec<u8>, u32>>,
}

impl Bpe {
    /// # Errors
    /// For options of other kinds, and pairs or bytes that are not in the vocabulary.
    pub(super) fn new(model: Model) -> Result<Self> {
        let prefixed = [
            &model.unk_token,
            &model.continuing_subword_prefix,
            &model.end_of_word_suffix,
        ];
        let plain = prefixed
            .iter()
            .all(|each| each.as_deref().unwrap_or("").is_empty());
        if !plain || model.dropout.is_some() || model.byte_fallback {
            return damaged(WHAT, "a BPE with options");
        }
        let letters = letters();
        let byte_of: HashMap<char, u8> = letters.iter().enumerate().map(|(b, &c)| (c, b as u8)).collect();
        let bytes_of = |text: &str| {
            text.chars()
                .map(|c| byte_of.get(&c).copied())
                .collect::<Option<Vec<u8>>>()
        };
        let id = |text: &str| model.vocab.get(text).copied();
        let singles: Option<Vec<u32>> = letters.iter().map(|&c| id(&c.to_string())).collect();
        let Some(bytes) = singles.and_then(|ids| ids.try_into().ok()) else {
            return damaged(WHAT, "a byte without a token");
        };
        let mut pairs = HashMap::new();
        for (place, merge) in model.merges.iter().enumerate() {
            let halves = match merge {
                Merge::Spaced(text) => text.split_once(' '),
                Merge::Pair(left, right) => Some((&left[..], &right[..])),
            };
            let joined = halves.and_then(|(a, b)| Some(((id(a)?, id(b)?), (place, id(&format!("{a}{b}"))?))));
            let Some((pair, made)) = joined else {
                return damaged(WHAT, "a pair that is not in the vocabulary");
            };
            pairs.entry(pair).or_insert(made);
        }
        let spelled: HashMap<u32, Vec<u8>> = model
            .vocab
            .iter()
            .filter_map(|(text, &id)| Some((id, bytes_of(text)?)))
            .collect();
        let all = || spelled.iter().map(|(&id, bytes)| (bytes.clone(), id)).collect();
        let whole = model.ignore_merges.then(all);
        Ok(Self {
            bytes,
            pairs,
            spelled,
            whole,
        })
    }

    /// An id as the file spells it: a letter a byte.
    pub(super) fn piece(&self, id: u32) -> Option<String> {
        let letters = letters();
        let bytes = self.spelled.get(&id)?;
        Some(bytes.iter().map(|&byte| letters[usize::from(byte)]).collect())
    }

    /// All ids of the vocabulary.
    pub(super) fn ids(&self) -> impl Iterator<Item = &u32> {
        self.spelled.keys()
    }

    /// Gives the ids of each word of a text.
    pub(super) fn pieces<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (&'a str, Vec<u32>)> {
        words(text).into_iter().map(|word| {
            let whole = self.whole.as_ref().and_then(|whole| whole.get(word.as_bytes()));
            (word, whole.map_or_else(|| self.joined(word), |&id| vec![id]))
        })
    }

    /// The bytes of an id; none of one that is not spelled.
    pub(super) fn bytes(&self, id: u32) -> &[u8] {
        self.spelled.get(&id).map_or(&[], Vec::as_slice)
    }

    /// The pairs of a word, joined in their order, of the same one the first first; n log n for n bytes.
    fn joined(&self, word: &str) -> Vec<u32> {
        let mut parts: Vec<u32> = word.bytes().map(|byte| self.bytes[usize::from(byte)]).collect();
        let end = parts.len();
        // the parts before and behind each; `end` is behind the last, and behind those that are gone
        let mut before: Vec<usize> = (0..end).map(|at| at.saturating_sub(1)).collect();
        let mut behind: Vec<usize> = (1..=end).collect();
        let pair = |parts: &[u32], behind: &[usize], at: usize| {
            let &(place, made) = self.pairs.get(&(parts[at], *parts.get(behind[at])?))?;
            Some(Reverse((place, at, made)))
        };
        let mut pairs: BinaryHeap<_> = (0..end).filter_map(|at| pair(&parts, &behind, at)).collect();
        while let Some(first) = pairs.pop() {
            let Reverse((_, at, made)) = first;
            if pair(&parts, &behind, at) != Some(first) {
                continue; // one of its parts was joined with another
            }
            let (gone, next) = (behind[at], behind[behind[at]]);
            (parts[at], behind[at], behind[gone]) = (made, next, end);
            if next < end {
                before[next] = at;
            }
            pairs.extend(
                [before[at], at]
                    .into_iter()
                    .filter_map(|at| pair(&parts, &behind, at)),
            );
        }
        let starts = std::iter::successors(Some(0), |&at| behind.get(at).copied()).take_while(|&at| at < end);
        starts.map(|at| parts[at]).collect()
    }
}

/// The letter that stands for each byte: itself where it is printed, else one behind all bytes.
fn letters() -> [char; 256] {
    let printed = |byte: u32| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    let mut next = 256;
    std::array::from_fn(|byte| {
        let code = if printed(byte as u32) { byte as u32 } else { next };
        next += u32::from(!printed(byte as u32));
        char::from_u32(code).unwrap_or(' ')
    })
}

/// The words of `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`.
fn words(mut text: &str) -> Vec<&str> {
    let mut found = vec![];
    while !text.is_empty() {
        let (word, rest) = text.split_at(length(text));
        found.push(word);
        text = rest;
    }
    found
}

#[derive(PartialEq)]
enum Kind {
    Letter,
    Number,
    Space,
    Sign,
}

fn kind(c: char) -> Kind {
    match c {
        _ if c.is_letter() => Kind::Letter,
        _ if c.is_number() => Kind::Number,
        _ if c.is_whitespace() => Kind::Space,
        _ => Kind::Sign,
    }
}

/// Bytes of the first word of a text that is not empty.
fn length(text: &str) -> usize {
    if let Some(ending) = ENDINGS.iter().find(|ending| text.starts_with(**ending)) {
        return ending.len();
    }
    let body = text.strip_prefix(' ').unwrap_or(text);
    let run = |text: &str, wanted: &Kind| -> usize {
        text.chars()
            .take_while(|&c| kind(c) == *wanted)
            .map(char::len_utf8)
            .sum()
    };
    match body.chars().next().map(kind) {
        Some(Kind::Space) | None => {
            let spaces = run(text, &Kind::Space);
            let last = text[..spaces].chars().next_back().map_or(0, char::len_utf8);
            if spaces == text.len() || spaces == last {
                spaces
            } else {
                spaces - last
            }
        }
        Some(wanted) => text.len() - body.len() + run(body, &wanted),
    }
}

#[cfg(test)]
mod tests {
    use super::{words, Bpe};
    use std::collections::HashMap;

    /// Every pair looked at for each that is joined, which the rule says in fewest words.
    fn joined_one_by_one(bpe: &Bpe, word: &str) -> Vec<u32> {
        let mut parts: Vec<u32> = word.bytes().map(u32::from).collect();
        let pair = |parts: &[u32], at: usize| Some((*bpe.pairs.get(&(parts[at], parts[at + 1]))?, at));
        while let Some(((_, made), at)) = (1..parts.len()).filter_map(|end| pair(&parts, end - 1)).min() {
            parts.splice(at..at + 2, [made]);
        }
        parts
    }

    /// Random merges of few letters, as in which equal pairs overlap, and pairs come and go.
    #[test]
    fn pairs_are_joined_in_their_order() {
        let mut state = 1_u64;
        let mut below = |most: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % most
        };
        for _ in 0..200 {
            let mut pieces: Vec<u32> = "abc".bytes().map(u32::from).collect();
            let mut pairs = HashMap::new();
            for place in 0..12 {
                let made = 256 + place as u32;
                let (left, right) = (pieces[below(pieces.len())], pieces[below(pieces.len())]);
                pairs.entry((left, right)).or_insert((place, made));
                pieces.push(made);
            }
            let bpe = Bpe {
                bytes: std::array::from_fn(|byte| byte as u32),
                pairs,
                spelled: HashMap::new(),
                whole: None,
            };
            for length in [0, 1, 2, 3, 5, 50] {
                let letters: Vec<u8> = (0..length).map(|_| b"abc"[below(3)]).collect();
                let word = String::from_utf8(letters).unwrap();
                assert_eq!(bpe.joined(&word), joined_one_by_one(&bpe, &word), "{word}");
            }
        }
    }

    #[test]
    fn words_are_cut_as_the_rules_say() {
        let cases = [
            ("It's 3rd!", vec!["It", "'s", " 3", "rd", "!"]),
            ("a  b\n\nc ", vec!["a", " ", " b", "\n", "\n", "c", " "]),
            ("''tis  ", vec!["''", "tis", "  "]),
            ("été,x²", vec!["été", ",", "x", "²"]),
        ];
        for (text, wanted) in cases {
            assert_eq!(words(text), wanted);
        }
    }
}
