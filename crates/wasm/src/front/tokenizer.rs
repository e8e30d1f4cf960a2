//! WordPiece from a tokenizer.json, for single texts. Other kinds of tokenizers are refused by name.
use super::normalize::{words, BertNormalizer};
use crate::error::{damaged, ClientError, Result};
use serde::Deserialize;
use std::collections::HashMap;

const WHAT: &str = "tokenizer";
/// Characters of a text.
const MAX_CHARACTERS: usize = 1 << 20;

#[derive(Deserialize)]
struct File {
    added_tokens: Vec<Added>,
    normalizer: BertNormalizer,
    pre_tokenizer: Kind,
    post_processor: Post,
    model: Model,
}

#[derive(Clone, Deserialize)]
struct Added {
    id: u32,
    content: String,
    single_word: bool,
    lstrip: bool,
    rstrip: bool,
    normalized: bool,
}

#[derive(Deserialize)]
struct Kind {
    r#type: String,
}

#[derive(Deserialize)]
struct Model {
    r#type: Option<String>,
    vocab: HashMap<String, u32>,
    unk_token: String,
    continuing_subword_prefix: String,
    max_input_chars_per_word: usize,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Post {
    TemplateProcessing {
        single: Vec<Piece>,
        special_tokens: HashMap<String, Special>,
    },
    BertProcessing {
        sep: (String, u32),
        cls: (String, u32),
    },
}

#[derive(Deserialize)]
enum Piece {
    SpecialToken { id: String },
    Sequence { id: String },
}

#[derive(Deserialize)]
struct Special {
    ids: Vec<u32>,
}

/// A WordPiece tokenizer with what it puts around a text.
pub struct Tokenizer {
    normalizer: BertNormalizer,
    added: Vec<Added>,
    model: Model,
    unknown: u32,
    before: Vec<u32>,
    after: Vec<u32>,
}

impl Tokenizer {
    /// From the content of tokenizer.json, of a vocabulary of so many words.
    ///
    /// # Errors
    /// [`ClientError::Damaged`] for other files, kinds or numbers.
    pub fn parse(text: &str, vocab: usize) -> Result<Self> {
        let file: File = match serde_json::from_str(text) {
            Ok(file) => file,
            Err(e) => return damaged(WHAT, format!("no WordPiece of BERT's kind (line {})", e.line())),
        };
        let kind = file.model.r#type.as_deref().unwrap_or("WordPiece");
        if kind != "WordPiece" || file.pre_tokenizer.r#type != "BertPreTokenizer" {
            return damaged(WHAT, "no WordPiece of BERT's kind");
        }
        let plain =
            |a: &Added| !(a.single_word || a.lstrip || a.rstrip || a.normalized || a.content.is_empty());
        if !file.added_tokens.iter().all(plain) {
            return damaged(WHAT, "added tokens with options");
        }
        let Some(&unknown) = file.model.vocab.get(&file.model.unk_token) else {
            return damaged(WHAT, "no token for what is unknown");
        };
        let (before, after) = around(file.post_processor)?;
        let added = file.added_tokens.iter().map(|a| &a.id);
        let all = file
            .model
            .vocab
            .values()
            .chain(added)
            .chain(&before)
            .chain(&after);
        if all.copied().any(|id| id as usize >= vocab) {
            return damaged(WHAT, "ids beyond the vocabulary");
        }
        Ok(Self {
            normalizer: file.normalizer,
            added: file.added_tokens,
            model: file.model,
            unknown,
            before,
            after,
        })
    }

    /// Ids of a text, with those around it.
    ///
    /// # Errors
    /// [`ClientError::Text`] for an empty or huge text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        if text.trim().is_empty() {
            return Err(ClientError::Text("the text is empty".to_owned()));
        }
        if text.chars().nth(MAX_CHARACTERS).is_some() {
            return Err(ClientError::Text(format!(
                "the text has more than {MAX_CHARACTERS} characters"
            )));
        }
        let mut ids = vec![];
        let mut rest = text;
        while let Some((at, token)) = self.first_added(rest) {
            self.pieces(&rest[..at], &mut ids);
            ids.push(token.id);
            rest = &rest[at + token.content.len()..];
        }
        self.pieces(rest, &mut ids);
        if ids.is_empty() {
            return Err(ClientError::Text(
                "the text has no token of the vocabulary".to_owned(),
            ));
        }
        Ok([&self.before[..], &ids, &self.after].concat())
    }

    /// The leftmost token that is spelled out in a text, of several there the longest.
    fn first_added<'a>(&'a self, text: &str) -> Option<(usize, &'a Added)> {
        let found = self
            .added
            .iter()
            .filter_map(|a| Some((text.find(&a.content)?, a)));
        found.min_by_key(|(at, a)| (*at, std::cmp::Reverse(a.content.len())))
    }

    fn pieces(&self, text: &str, ids: &mut Vec<u32>) {
        for word in words(&self.normalizer.normalized(text)) {
            let before = ids.len();
            if self.split(word, ids).is_none() {
                ids.truncate(before);
                ids.push(self.unknown);
            }
        }
    }

    /// The longest pieces from the left; `None` where one is not in the vocabulary.
    fn split(&self, word: &str, ids: &mut Vec<u32>) -> Option<()> {
        if word.chars().count() > self.model.max_input_chars_per_word {
            return None;
        }
        let mut rest = word;
        let mut prefix = "";
        while !rest.is_empty() {
            let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8());
            let pieces = ends.collect::<Vec<_>>().into_iter().rev();
            let found = pieces.map(|end| (end, self.model.vocab.get(&format!("{prefix}{}", &rest[..end]))));
            let (end, &id) = found.into_iter().find_map(|(end, id)| Some((end, id?)))?;
            ids.push(id);
            rest = &rest[end..];
            prefix = &self.model.continuing_subword_prefix;
        }
        Some(())
    }
}

/// Ids before and behind a single text.
fn around(post: Post) -> Result<(Vec<u32>, Vec<u32>)> {
    let (single, special) = match post {
        Post::BertProcessing { sep, cls } => return Ok((vec![cls.1], vec![sep.1])),
        Post::TemplateProcessing {
            single,
            special_tokens,
        } => (single, special_tokens),
    };
    let text = |piece: &Piece| matches!(piece, Piece::Sequence { id } if id == "A");
    let places: Vec<usize> = (0..single.len()).filter(|&i| text(&single[i])).collect();
    let [place] = places[..] else {
        return damaged(WHAT, "a template without the text, or with more of it");
    };
    let ids = |pieces: &[Piece]| {
        let of = |piece: &Piece| match piece {
            Piece::SpecialToken { id } => special.get(id).map(|special| special.ids.clone()),
            Piece::Sequence { .. } => None,
        };
        pieces
            .iter()
            .map(of)
            .collect::<Option<Vec<_>>>()
            .map(|ids| ids.concat())
    };
    match (ids(&single[..place]), ids(&single[place + 1..])) {
        (Some(before), Some(after)) => Ok((before, after)),
        _ => damaged(WHAT, "a template of other pieces"),
    }
}
