//! BERT's normaliser and pre-tokeniser, character by character as Hugging Face's library has them.
use serde::Deserialize;
use unicode_categories::UnicodeCategories;
use unicode_normalization::char::decompose_canonical;

/// The options of `BertNormalizer`.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct BertNormalizer {
    clean_text: bool,
    handle_chinese_chars: bool,
    strip_accents: Option<bool>,
    lowercase: bool,
}

impl BertNormalizer {
    /// The text as the vocabulary spells it, and for each of its bytes the character that it came from.
    ///
    /// Accents are taken off character by character: what the whole text's NFD would put in another order are
    /// accents, but for a few signs of music.
    pub fn normalized(self, text: &str) -> (String, Vec<usize>) {
        let (mut normalized, mut sources) = (String::new(), vec![]);
        let strip = self.strip_accents.unwrap_or(self.lowercase);
        for (source, c) in text.chars().enumerate() {
            let kept = !self.clean_text || c != '\0' && c != '\u{fffd}' && !control(c);
            let c = if self.clean_text && space(c) { ' ' } else { c };
            let chinese = self.handle_chinese_chars && chinese(c);
            let around = (kept && chinese).then_some(' ');
            let own = kept.then_some(c);
            for c in around.into_iter().chain(own).chain(around) {
                let mut add = |c: char| {
                    normalized.push(c);
                    sources.resize(normalized.len(), source);
                };
                let mut lowered = |c: char| match self.lowercase {
                    true => c.to_lowercase().for_each(&mut add),
                    false => add(c),
                };
                match strip {
                    true => decompose_canonical(c, |c| {
                        if !c.is_mark_nonspacing() {
                            lowered(c);
                        }
                    }),
                    false => lowered(c),
                }
            }
        }
        (normalized, sources)
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
