//! A tokenizer.json for single texts: WordPiece of BERT's kind, or byte-level BPE of GPT-2's. Other kinds are
//! refused by name.
use super::bytes::{self, Bpe, WHAT};
use super::normalize::{words, BertNormalizer};
use super::template::{templates, Post, Slot};
use crate::error::{damaged, unasked, Result};
use crate::program::{MASKS, SPAN};
use serde::Deserialize;
use std::collections::{BTreeSet, HashMap};

/// What tokenizers call the token of a word to fill in, and the one that stands for what they do not know.
const MASK: [&str; 2] = ["[MASK]", "<mask>"];
const UNKNOWN: [&str; 2] = ["[UNK]", "<unk>"];
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

/// Characters of a text, from start to before end.
pub type Place = std::ops::Range<usize>;

/// Where a token comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Origin {
    /// 0 for a text or the first of a pair, 1 for the second.
    pub part: usize,
    /// Its characters.
    pub place: Place,
    /// Those of the word that it is of.
    pub word: Place,
}

/// A token as the model takes it. origin: `None` of one that the tokenizer adds. kind: its type.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Token {
    pub id: u32,
    pub kind: u32,
    pub origin: Option<Origin>,
}

/// A tokenizer with what it puts around a text, and around a pair where it takes pairs.
pub struct Tokenizer {
    added: Vec<Added>,
    pieces: Pieces,
    single: Vec<Slot>,
    pair: Option<Vec<Slot>>,
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

    /// As the vocabulary spells it.
    fn piece(&self, id: u32) -> Option<String> {
        match self {
            Self::WordPiece { model, .. } => {
                let mut all = model.vocab.iter();
                all.find(|(_, &other)| other == id)
                    .map(|(piece, _)| piece.clone())
            }
            Self::Bytes(bpe) => bpe.piece(id),
        }
    }

    fn ids(&self) -> Vec<u32> {
        match self {
            Self::WordPiece { model, .. } => model.vocab.values().copied().collect(),
            Self::Bytes(bpe) => bpe.ids().copied().collect(),
        }
    }

    /// Appends the ids of a text, each with the places of itself and of its word. from: characters before it.
    fn split(&self, text: &str, from: usize, out: &mut Vec<(u32, Place, Place)>) {
        match self {
            Self::Bytes(bpe) => {
                let chars = text.char_indices().enumerate();
                let of: Vec<usize> = chars.flat_map(|(at, (_, c))| vec![at; c.len_utf8()]).collect();
                // the space before a word is of its place, as where no post-processor trims it
                let place = |start: usize, end: usize| place_of(&of, start, end, from);
                let mut at = 0;
                for (word, ids) in bpe.pieces(text) {
                    let whole = place(at, at + word.len());
                    for id in ids {
                        let end = at + bpe.bytes(id).len();
                        out.push((id, place(at, end), whole.clone()));
                        at = end;
                    }
                }
            }
            Self::WordPiece {
                normalizer,
                model,
                unknown,
            } => {
                let (normalized, of) = normalizer.normalized(text);
                for word in words(&normalized) {
                    let first = word.as_ptr() as usize - normalized.as_ptr() as usize;
                    let whole = place_of(&of, first, first + word.len(), from);
                    let ids = model.split(word).unwrap_or_else(|| vec![(*unknown, word.len())]);
                    let mut at = first;
                    for (id, end) in ids {
                        out.push((id, place_of(&of, at, first + end, from), whole.clone()));
                        at = first + end;
                    }
                }
            }
        }
    }
}

/// The characters of the bytes start to end, of which `of` has the character of each.
fn place_of(of: &[usize], start: usize, end: usize, from: usize) -> Place {
    match of.get(start..end) {
        Some([first, .., last]) => from + first..from + last + 1,
        Some([only]) => from + only..from + only + 1,
        _ => from..from,
    }
}

fn read<T: serde::de::DeserializeOwned>(model: serde_json::Value) -> Result<T> {
    serde_json::from_value(model).or_else(|_| damaged(WHAT, "a vocabulary of another kind"))
}

impl Tokenizer {
    /// From the content of tokenizer.json, of a vocabulary of so many words.
    ///
    /// # Errors
    /// [`crate::ClientError::Damaged`] for other files, kinds or numbers.
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
        let (single, pair) = templates(file.post_processor)?;
        let own = pieces.ids();
        let added = file.added_tokens.iter().map(|a| &a.id);
        let slots = single.iter().chain(pair.iter().flatten());
        let around = slots.flat_map(|slot| match slot {
            Slot::Added(ids, _) => &ids[..],
            Slot::Text(..) => &[],
        });
        let all = own.iter().chain(added).chain(around);
        if all.copied().any(|id| id as usize >= vocab) {
            return damaged(WHAT, "ids beyond the vocabulary");
        }
        Ok(Self {
            added: file.added_tokens,
            pieces,
            single,
            pair,
        })
    }

    /// The token of masks, where there is one.
    pub fn mask(&self) -> Option<(u32, &'static str)> {
        let added = |name: &str| self.added.iter().find(|added| added.content == name);
        MASK.iter().find_map(|&name| Some((added(name)?.id, name)))
    }

    /// Whether tokens are of a text of which none is known: any other such text is the same to the model.
    pub fn knows_nothing_of(&self, tokens: &[Token]) -> bool {
        let own = tokens.iter().filter(|token| token.origin.is_some());
        let ids: BTreeSet<u32> = own.map(|token| token.id).collect();
        !ids.is_empty() && ids.iter().all(|&id| UNKNOWN.contains(&&*self.piece(id)))
    }

    /// Refuses texts that a task cannot be about: a question without its context, a text without a mask.
    ///
    /// # Errors
    /// [`crate::ClientError::Text`], which spells the mask.
    pub fn require_fit(&self, task: &str, texts: &[&str]) -> Result<()> {
        if task == SPAN && texts.len() < 2 {
            return unasked("this model answers from a context: give one beside the question");
        }
        if task != MASKS {
            return Ok(());
        }
        let Some((mask, name)) = self.mask() else {
            return damaged(WHAT, "no mask token");
        };
        match self.tokens(texts)?.iter().any(|token| token.id == mask) {
            true => Ok(()),
            false => unasked(format!(
                "the text has no mask: write {name} where a word is wanted"
            )),
        }
    }

    /// The piece with this id as the vocabulary spells it, or the id where there is none.
    pub fn piece(&self, id: u32) -> String {
        let added = self.added.iter().find(|added| added.id == id);
        let own = || self.pieces.piece(id);
        added
            .map(|added| added.content.clone())
            .or_else(own)
            .unwrap_or_else(|| id.to_string())
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
    /// [`crate::ClientError::Text`] for an empty or huge text.
    pub fn encode(&self, text: &str, around: bool) -> Result<Vec<u32>> {
        match around {
            true => Ok(self.tokens(&[text])?.iter().map(|token| token.id).collect()),
            false => Ok(self.placed(text)?.into_iter().map(|(id, ..)| id).collect()),
        }
    }

    /// The tokens of a text, or of a pair, with those around.
    ///
    /// # Errors
    /// As [`Self::encode`]; for a pair where the tokenizer takes none.
    pub fn tokens(&self, texts: &[&str]) -> Result<Vec<Token>> {
        let slots = match (texts.len(), &self.pair) {
            (1, _) => &self.single,
            (2, Some(pair)) => pair,
            _ => return unasked("this model takes no such pair of texts"),
        };
        let mut tokens = vec![];
        let token = |id, kind, origin| Token { id, kind, origin };
        for slot in slots {
            match *slot {
                Slot::Added(ref ids, kind) => tokens.extend(ids.iter().map(|&id| token(id, kind, None))),
                Slot::Text(part, kind) => {
                    let placed = self.placed(texts[part])?.into_iter();
                    let own = |(id, place, word)| token(id, kind, Some(Origin { part, place, word }));
                    tokens.extend(placed.map(own));
                }
            }
        }
        Ok(tokens)
    }

    /// The ids of a text alone, with the places of each and of its word.
    fn placed(&self, text: &str) -> Result<Vec<(u32, Place, Place)>> {
        if text.trim().is_empty() {
            return unasked("the text is empty");
        }
        if text.chars().nth(MAX_CHARACTERS).is_some() {
            return unasked(format!("the text has more than {MAX_CHARACTERS} characters"));
        }
        let (mut found, mut rest, mut from) = (vec![], text, 0);
        while let Some((at, token)) = self.first_added(rest) {
            self.pieces.split(&rest[..at], from, &mut found);
            let start = from + rest[..at].chars().count();
            from = start + token.content.chars().count();
            found.push((token.id, start..from, start..from));
            rest = &rest[at + token.content.len()..];
        }
        self.pieces.split(rest, from, &mut found);
        if found.is_empty() {
            return unasked("the text has no token of the vocabulary");
        }
        Ok(found)
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
    /// The longest pieces from the left, each with its end in the word; `None` where one is not in the
    /// vocabulary.
    fn split(&self, word: &str) -> Option<Vec<(u32, usize)>> {
        if word.chars().count() > self.max_input_chars_per_word {
            return None;
        }
        let (mut ids, mut at, mut prefix) = (vec![], 0, "");
        while at < word.len() {
            let rest = &word[at..];
            let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8());
            let pieces = ends.collect::<Vec<_>>().into_iter().rev();
            let found = pieces.map(|end| (end, self.vocab.get(&format!("{prefix}{}", &rest[..end]))));
            let (end, &id) = found.into_iter().find_map(|(end, id)| Some((end, id?)))?;
            at += end;
            ids.push((id, at));
            prefix = &self.continuing_subword_prefix;
        }
        Some(ids)
    }
}
