//! BERT's normaliser and pre-tokeniser, character by character as Hugging Face's library has them.
use serde::Deserialize;
use unicode_categories::UnicodeCategories;
use unicode_normalization::UnicodeNormalization;

/// The options of `BertNormalizer`.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct BertNormalizer {
    clean_text: bool,
    handle_chinese_chars: bool,
    strip_accents: Option<bool>,
    lowercase: bool,
}

impl BertNormalizer {
    /// The text as the vocabulary spells it.
    pub fn normalized(self, text: &str) -> String {
        let mut text = text.to_owned();
        if self.clean_text {
            let kept = text
                .chars()
                .filter(|&c| c != '\0' && c != '\u{fffd}' && !control(c));
            text = kept.map(|c| if space(c) { ' ' } else { c }).collect();
        }
        if self.handle_chinese_chars {
            text = text.chars().flat_map(apart).collect();
        }
        if self.strip_accents.unwrap_or(self.lowercase) {
            text = text.nfd().filter(|c| !c.is_mark_nonspacing()).collect();
        }
        if self.lowercase {
            text = text.chars().flat_map(char::to_lowercase).collect();
        }
        text
    }
}

/// Words and signs: cut at white space, which is dropped, and around punctuation, which is kept.
pub fn words(text: &str) -> Vec<&str> {
    let mut found = vec![];
    for word in text.split(char::is_whitespace) {
        let mut rest = word;
        while let Some((at, sign)) = rest.char_indices().find(|&(_, c)| punctuation(c)) {
            found.extend([&rest[..at], &rest[at..at + sign.len_utf8()]]);
            rest = &rest[at + sign.len_utf8()..];
        }
        found.push(rest);
    }
    found.retain(|word| !word.is_empty());
    found
}

fn space(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r') || c.is_whitespace()
}

fn control(c: char) -> bool {
    !matches!(c, '\t' | '\n' | '\r') && c.is_other()
}

fn punctuation(c: char) -> bool {
    c.is_ascii_punctuation() || c.is_punctuation()
}

fn apart(c: char) -> impl Iterator<Item = char> {
    let around = chinese(c).then_some(' ');
    around.into_iter().chain([c]).chain(around)
}

fn chinese(c: char) -> bool {
    matches!(
        u32::from(c),
        0x4e00..=0x9fff
            | 0x3400..=0x4dbf
            | 0x20000..=0x2a6df
            | 0x2a700..=0x2b73f
            | 0x2b740..=0x2b81f
            | 0x2b920..=0x2ceaf
            | 0xf900..=0xfaff
            | 0x2f800..=0x2fa1f
    )
}
