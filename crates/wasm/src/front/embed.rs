//! Token ids to the input: sum of the tables, norm, projection, padding (`tacita.texts.embed`).
use super::{Token, Tokenizer};
use crate::error::{damaged, unasked, Result};
use crate::part::Tables;
use crate::program::{Format, FrontConfig, Program};
use crate::tensor::{ring, Tensor};

/// What a text enters the model as.
pub struct Embedded {
    /// (tokens, hidden); padding's are copies of the first real one.
    pub states: Vec<Vec<f64>>,
    /// Which rows are real.
    pub mask: Vec<bool>,
    /// Of the real rows.
    pub tokens: Vec<Token>,
}

/// Rows as a share that holds all of them.
///
/// # Errors
/// For rows of another width.
pub fn share_of(states: &[Vec<f64>], program: &Program) -> Result<Tensor> {
    let values = states.iter().flatten().map(|&x| whole(x, program.entered));
    Tensor::new(
        vec![states.len(), program.hidden],
        ring(program.entered.ring)?,
        values.collect(),
    )
}

/// The rows of tokens, of which the first stands at the position `first`.
///
/// # Errors
/// [`crate::ClientError::Damaged`] where a table has no such row.
pub fn prompted(tables: &Tables, front: &FrontConfig, ids: &[u32], first: usize) -> Result<Vec<Vec<f64>>> {
    let row = |(at, &id): (usize, &u32)| row_of(tables, front, first + at, id as usize, 0);
    sound(ids.iter().enumerate().map(row).collect())
}

fn sound(rows: Option<Vec<Vec<f64>>>) -> Result<Vec<Vec<f64>>> {
    match rows.filter(|rows| rows.iter().flatten().all(|x| x.is_finite())) {
        Some(rows) => Ok(rows),
        None => damaged("public part of the model", "a token without an embedding"),
    }
}

/// A text, or a pair, as rows of so many tokens.
///
/// # Errors
/// [`crate::ClientError::Text`] for a text that is empty or too long.
pub fn embedded(
    texts: &[&str],
    tokenizer: &Tokenizer,
    tables: &Tables,
    front: &FrontConfig,
    tokens: usize,
) -> Result<Embedded> {
    if front.backwards {
        return damaged("program", "an input that is no text");
    }
    let found = tokenizer.tokens(texts)?;
    let most = tokens.min(front.positions);
    if found.len() > most {
        let count = found.len();
        return unasked(format!(
            "the text has {count} tokens, this model takes {most}: shorten it"
        ));
    }
    let row =
        |(at, token): (usize, &Token)| row_of(tables, front, at, token.id as usize, token.kind as usize);
    let rows = sound(found.iter().enumerate().map(row).collect())?;
    let padding = tokens - rows.len();
    let first = if front.last_token { padding } else { 0 };
    let real = first..first + rows.len();
    let row = |at: usize| {
        at.checked_sub(first)
            .and_then(|at| rows.get(at))
            .unwrap_or(&rows[0])
    };
    Ok(Embedded {
        states: (0..tokens).map(|at| row(at).clone()).collect(),
        mask: (0..tokens).map(|at| real.contains(&at)).collect(),
        tokens: found,
    })
}

/// The tokens of a text that is written as rows in reverse, with padding behind them: as slots hold those of
/// a decoder.
///
/// # Errors
/// As [`prompted`].
pub fn reversed(ids: &[u32], tables: &Tables, front: &FrontConfig, tokens: usize) -> Result<Embedded> {
    let mut states = prompted(tables, front, ids, 0)?;
    states.reverse();
    if let Some(first) = states.last().cloned() {
        states.resize(tokens, first);
    }
    Ok(Embedded {
        mask: (0..tokens).map(|at| at < ids.len()).collect(),
        states,
        tokens: vec![],
    })
}

/// One row, of a token of this type; `None` where a table has no such row.
fn row_of(tables: &Tables, front: &FrontConfig, at: usize, id: usize, kind: usize) -> Option<Vec<f64>> {
    let table = |name: &str, row: usize| tables.row(&format!("embeddings.{name}"), row);
    let mut x = table("word_embeddings.weight", id)?;
    if front.position_table {
        add(
            &mut x,
            &table("position_embeddings.weight", front.first_position + at)?,
        );
    }
    if front.types > 0 {
        let kind = kind.min(front.types - 1);
        add(&mut x, &table("token_type_embeddings.weight", kind)?);
    }
    if front.embedding_norm {
        normalise(&mut x, front.norm_eps);
        let weight = table("LayerNorm.weight", 0)?;
        x.iter_mut().zip(weight).for_each(|(x, w)| *x *= w);
        if front.embedding_beta {
            add(&mut x, &table("LayerNorm.bias", 0)?);
        }
    }
    if front.embedding_size == 0 {
        return Some(x);
    }
    let bias = table("projection.bias", 0)?;
    let entry = |(row, bias): (usize, &f64)| Some(bias + dot(&x, &table("projection.weight", row)?));
    bias.iter().enumerate().map(entry).collect()
}

fn add(x: &mut [f64], y: &[f64]) {
    x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

fn normalise(x: &mut [f64], epsilon: f64) {
    let n = x.len() as f64;
    let mean = x.iter().sum::<f64>() / n;
    x.iter_mut().for_each(|x| *x -= mean);
    let deviation = (dot(x, x) / n + epsilon).sqrt();
    x.iter_mut().for_each(|x| *x /= deviation);
}

/// Fixed point, halves to the even number.
fn whole(x: f64, format: Format) -> u64 {
    (x * f64::from(format.fraction).exp2()).round_ties_even() as i64 as u64
}
