//! What a tokenizer.json puts around a text, and around a pair.
use super::bytes::WHAT;
use crate::error::{damaged, Result};
use serde::Deserialize;
use std::collections::HashMap;

#[derive(Deserialize)]
#[serde(tag = "type")]
pub(super) enum Post {
    TemplateProcessing {
        single: Vec<Piece>,
        #[serde(default)]
        pair: Vec<Piece>,
        special_tokens: HashMap<String, Special>,
    },
    BertProcessing {
        sep: (String, u32),
        cls: (String, u32),
    },
    ByteLevel {},
}

#[derive(Deserialize)]
pub(super) enum Piece {
    SpecialToken { id: String, type_id: u32 },
    Sequence { id: String, type_id: u32 },
}

#[derive(Deserialize)]
pub(super) struct Special {
    ids: Vec<u32>,
}

/// What stands around texts: ids that are added, and the text of a number, each with the type of its tokens.
pub(super) enum Slot {
    Added(Vec<u32>, u32),
    Text(usize, u32),
}

/// Reads what stands around a text, and around a pair where there is a template of pairs.
///
/// # Errors
/// For templates of other pieces.
pub(super) fn templates(post: Option<Post>) -> Result<(Vec<Slot>, Option<Vec<Slot>>)> {
    let (single, pair, special) = match post {
        None | Some(Post::ByteLevel {}) => return Ok((vec![Slot::Text(0, 0)], None)),
        Some(Post::BertProcessing { sep, cls }) => {
            let begin = |kind| [Slot::Added(vec![cls.1], kind), Slot::Text(0, kind)];
            let end = |kind| Slot::Added(vec![sep.1], kind);
            let single = begin(0).into_iter().chain([end(0)]).collect();
            let second = [end(0), Slot::Text(1, 1), end(1)];
            return Ok((single, Some(begin(0).into_iter().chain(second).collect())));
        }
        Some(Post::TemplateProcessing {
            single,
            pair,
            special_tokens,
        }) => (single, pair, special_tokens),
    };
    let slot = |piece: &Piece| match piece {
        Piece::SpecialToken { id, type_id } => Some(Slot::Added(special.get(id)?.ids.clone(), *type_id)),
        Piece::Sequence { id, type_id } if id == "A" => Some(Slot::Text(0, *type_id)),
        Piece::Sequence { id, type_id } if id == "B" => Some(Slot::Text(1, *type_id)),
        Piece::Sequence { .. } => None,
    };
    let slots = |pieces: &[Piece], texts: &[usize]| {
        let slots = pieces.iter().map(slot).collect::<Option<Vec<_>>>()?;
        let held = slots.iter().filter_map(|slot| match slot {
            Slot::Text(part, _) => Some(*part),
            Slot::Added(..) => None,
        });
        held.eq(texts.iter().copied()).then_some(slots)
    };
    match slots(&single, &[0]) {
        Some(single) => Ok((single, slots(&pair, &[0, 1]))),
        None => damaged(
            WHAT,
            "a template without the text, with more of it, or of other pieces",
        ),
    }
}
