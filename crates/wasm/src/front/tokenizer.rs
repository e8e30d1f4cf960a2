//! A tokenizer.json for single texts: WordPiece of BERT's kind, or byte-level BPE of GPT-2's. Other kinds are
//! refused by name.
use super::bytes::{self, Bpe};
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
    normalizer: Option<BertNormalizer>,
    pre_tokenizer: Kind,
    post_processor: Option<Post>,
    model: serde_json::Value,
}

#[derive(Clone, Deserialize)]
struct Added {
    id: u32,
    content: String,
    single_word: bool,
    lstrip: bool,
    rstrip: bool,
    normalized: bool,
    #[serde(default)]
    special: bool,
}

#[derive(Deserialize)]
struct Kind {
    r#type: String,
    #[serde(default)]
    add_prefix_space: bool,
    #[serde(default = "yes")]
    use_regex: bool,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
struct WordPiece {
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
    ByteLevel {},
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

/// A tokenizer with what it puts around a text.
pub struct Tokenizer {
    added: Vec<Added>,
    pieces: Pieces,
    before: Vec<u32>,
    after: Vec<u32>,
}

/// How words become ids.
enum Pieces {
    WordPiece {
        normalizer: BertNormalizer,
        model: WordPiece,
        unknown: u32,
    },
    Bytes(Box<Bpe>),
}

impl Pieces {
    /// # Errors
    /// For kinds that are not known, and for options of those that are.
    fn new(model: serde_json::Value, normalizer: Option<BertNormalizer>, cutter: &Kind) -> Result<Self> {
        let kind = model
            .get("type")
            .and_then(|kind| kind.as_str())
            .unwrap_or("WordPiece")
            .to_owned();
        let (by_bytes, by_words) = (cutter.r#type == "ByteLevel", cutter.r#type == "BertPreTokenizer");
        match (&kind[..], normalizer) {
            ("BPE", None) if by_bytes && cutter.use_regex && !cutter.add_prefix_space => {
                Ok(Self::Bytes(Box::new(Bpe::new(read::<bytes::Model>(model)?)?)))
            }
            ("WordPiece", Some(normalizer)) if by_words => {
                let model = read::<WordPiece>(model)?;
                let Some(&unknown) = model.vocab.get(&model.unk_token) else {
                    return damaged(WHAT, "no token for what is unknown");
                };
                Ok(Self::WordPiece {
                    normalizer,
                    model,
                    unknown,
                })
            }
            _ => damaged(
                WHAT,
                "neither WordPiece of BERT's kind nor byte-level BPE of GPT-2's",
            ),
        }
    }

    fn ids(&self) -> Vec<u32> {
        match self {
            Self::WordPiece { model, .. } => model.vocab.values().copied().collect(),
            Self::Bytes(bpe) => bpe.ids().copied().collect(),
        }
    }

    /// Appends the ids of a text.
    fn split(&self, text: &str, ids: &mut Vec<u32>) {
        match self {
            Self::Bytes(bpe) => bpe.pieces(text, ids),
            Self::WordPiece {
                normalizer,
                model,
                unknown,
            } => {
                for word in words(&normalizer.normalized(text)) {
                    let before = ids.len();
                    if model.split(word, ids).is_none() {
                        ids.truncate(before);
                        ids.push(*unknown);
                    }
                }
            }
        }
    }
}

fn read<T: serde::de::DeserializeOwned>(model: serde_json::Value) -> Result<T> {
    serde_json::from_value(model).or_else(|_| damaged(WHAT, "a vocabulary of another kind"))
}

impl Tokenizer {
    /// From the content of tokenizer.json, of a vocabulary of so many words.
    ///
    /// # Errors
    /// [`ClientError::Damaged`] for other files, kinds or numbers.
    pub fn parse(text: &str, vocab: usize) -> Result<Self> {
        let file: File = match serde_json::from_str(text) {
            Ok(file) => file,
            Err(e) => return damaged(WHAT, format!("of a kind that is not known (line {})", e.line())),
        };
        let normalizes = file.normalizer.is_some(); // or it is the same whether a token is normalized
        let plain = |a: &Added| {
            !(a.single_word || a.lstrip || a.rstrip || a.normalized && normalizes || a.content.is_empty())
        };
        if !file.added_tokens.iter().all(plain) {
            return damaged(WHAT, "added tokens with options");
        }
        let pieces = Pieces::new(file.model, file.normalizer, &file.pre_tokenizer)?;
        let (before, after) = around(file.post_processor)?;
        let own = pieces.ids();
        let added = file.added_tokens.iter().map(|a| &a.id);
        let all = own.iter().chain(added).chain(&before).chain(&after);
        if all.copied().any(|id| id as usize >= vocab) {
            return damaged(WHAT, "ids beyond the vocabulary");
        }
        Ok(Self {
            added: file.added_tokens,
            pieces,
            before,
            after,
        })
    }

    /// What ids spell, without special tokens: bytes that are no whole character become U+FFFD. Empty for a
    /// tokenizer that is for texts to read alone.
    pub fn decode(&self, ids: &[u32]) -> String {
        let Pieces::Bytes(bpe) = &self.pieces else {
            return String::new();
        };
        let bytes = |&id: &u32| match self.added.iter().find(|added| added.id == id) {
            Some(added) if added.special => vec![],
            Some(added) => added.content.clone().into_bytes(),
            None => bpe.bytes(id).to_vec(),
        };
        String::from_utf8_lossy(&ids.iter().flat_map(bytes).collect::<Vec<_>>()).into_owned()
    }

    /// Ids of a text, with those around it where they are wanted.
    ///
    /// # Errors
    /// [`ClientError::Text`] for an empty or huge text.
    pub fn encode(&self, text: &str, around: bool) -> Result<Vec<u32>> {
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
            self.pieces.split(&rest[..at], &mut ids);
            ids.push(token.id);
            rest = &rest[at + token.content.len()..];
        }
        self.pieces.split(rest, &mut ids);
        if ids.is_empty() {
            return Err(ClientError::Text(
                "the text has no token of the vocabulary".to_owned(),
            ));
        }
        match around {
            true => Ok([&self.before[..], &ids, &self.after].concat()),
            false => Ok(ids),
        }
    }

    /// The leftmost token that is spelled out in a text, of several there the longest.
    fn first_added<'a>(&'a self, text: &str) -> Option<(usize, &'a Added)> {
        let found = self
            .added
            .iter()
            .filter_map(|a| Some((text.find(&a.content)?, a)));
        found.min_by_key(|(at, a)| (*at, std::cmp::Reverse(a.content.len())))
    }
}

impl WordPiece {
    /// The longest pieces from the left; `None` where one is not in the vocabulary.
    fn split(&self, word: &str, ids: &mut Vec<u32>) -> Option<()> {
        if word.chars().count() > self.max_input_chars_per_word {
            return None;
        }
        let mut rest = word;
        let mut prefix = "";
        while !rest.is_empty() {
            let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8());
            let pieces = ends.collect::<Vec<_>>().into_iter().rev();
            let found = pieces.map(|end| (end, self.vocab.get(&format!("{prefix}{}", &rest[..end]))));
            let (end, &id) = found.into_iter().find_map(|(end, id)| Some((end, id?)))?;
            ids.push(id);
            rest = &rest[end..];
            prefix = &self.continuing_subword_prefix;
        }
        Some(())
    }
}

/// Ids before and behind a single text.
fn around(post: Option<Post>) -> Result<(Vec<u32>, Vec<u32>)> {
    let (single, special) = match post {
        None | Some(Post::ByteLevel {}) => return Ok((vec![], vec![])),
        Some(Post::BertProcessing { sep, cls }) => return Ok((vec![cls.1], vec![sep.1])),
        Some(Post::TemplateProcessing {
            single,
            special_tokens,
        }) => (single, special_tokens),
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
