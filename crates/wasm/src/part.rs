//! The public part: what a server publishes of its model (`tacita.two_party.protocol.public_part`).
use crate::error::{damaged, Result};
use crate::program::{FrontConfig, Program};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Bytes of a public part, at most.
pub const MAX_BYTES: u64 = 1 << 30;
const MAGIC: &[u8; 10] = b"TACITA-PP\x01";
const HEAD: usize = 28;
const WHAT: &str = "public part of the model";

/// The part of a plan that publishes its embedding.
#[derive(Debug)]
pub struct PublicPart {
    program: Program,
    tokenizer: std::ops::Range<usize>,
    tables: Tables,
}

/// Published tables by name. They stay as they were sent, so that a page does not hold them twice.
#[derive(Debug)]
pub struct Tables {
    pub(crate) data: Vec<u8>,
    pub(crate) named: BTreeMap<String, Table>,
}

impl Tables {
    /// A row; `None` where there is no such table or row.
    pub fn row(&self, table: &str, row: usize) -> Option<Vec<f64>> {
        let Table {
            at,
            rows,
            columns,
            size,
        } = *self.named.get(table)?;
        let from = at + row * columns * size;
        let bytes = self
            .data
            .get(from..from + columns * size)
            .filter(|_| row < rows)?;
        Some(bytes.chunks_exact(size).map(float).collect())
    }
}

/// Where a table lies in the part.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub at: usize,
    pub rows: usize,
    pub columns: usize,
    /// Bytes an element: 2, 4 or 8.
    pub size: usize,
}

/// Whether all numbers of a table, which lies in `data`, are.
pub(crate) fn finite(data: &[u8], table: &Table) -> bool {
    let bytes = &data[table.at..table.at + table.rows * table.columns * table.size];
    bytes
        .chunks_exact(table.size)
        .all(|element| float(element).is_finite())
}

/// The hash by which parts and plans are known.
pub fn digest(data: &[u8]) -> [u8; 32] {
    Sha256::digest(data).into()
}

impl PublicPart {
    /// From the server's bytes.
    ///
    /// # Errors
    /// [`crate::ClientError::Damaged`] for other bytes, a program that fails its checks, hidden embeddings,
    /// numbers that are not finite.
    pub fn parse(data: Vec<u8>) -> Result<Self> {
        let mut reader = Reader { data: &data, at: 0 };
        let head = reader.take(HEAD)?;
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes")) as usize;
        let hidden = u64::from_le_bytes(head[18..26].try_into().expect("eight bytes"));
        if head[..10] != *MAGIC || hidden != 0 {
            return damaged(WHAT, "another layout, or a hidden embedding");
        }
        let count = usize::from(u16::from_le_bytes([head[26], head[27]]));
        let sizes = reader.take(count)?.to_vec();
        let program = Program::parse(reader.take(word(10))?)?;
        let tokenizer = reader.at..reader.at + word(14);
        reader.take(word(14))?;
        let shapes = shapes(&program.front, program.hidden);
        if shapes.len() != count {
            return damaged(WHAT, format!("{count} tables, the model has {}", shapes.len()));
        }
        let tables = shapes.into_iter().zip(sizes);
        let tables = tables.map(|(shape, size)| reader.table(shape, usize::from(size)));
        let named = tables.collect::<Result<_>>()?;
        if reader.at != data.len() {
            return damaged(WHAT, "bytes at its end");
        }
        Ok(Self {
            program,
            tokenizer,
            tables: Tables { data, named },
        })
    }

    /// The steps of the plan, and what else the server says of it.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Hash of the plan.
    pub fn plan_hash(&self) -> Vec<u8> {
        let digits = self.program.plan.as_bytes().chunks(2);
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap_or_default(), 16);
        digits.map(|pair| byte(pair).unwrap_or_default()).collect()
    }

    /// The content of tokenizer.json.
    ///
    /// # Errors
    /// When it is not text.
    pub fn tokenizer(&self) -> Result<&str> {
        let text = std::str::from_utf8(&self.tables.data[self.tokenizer.clone()]);
        text.or_else(|_| damaged(WHAT, "a tokenizer that is not text"))
    }

    /// Its tables.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }
}

/// Names and shapes of the tables, in alphabetical order (`tacita.texts.embedding.table_shapes`).
pub(crate) fn shapes(front: &FrontConfig, hidden: usize) -> BTreeMap<String, (usize, usize)> {
    let there = |yes: bool, rows: usize| if yes { rows } else { 0 };
    let (norm, projects) = (front.embedding_norm, front.embedding_size > 0);
    let size = there(projects, front.embedding_size) + there(!projects, hidden);
    let places = front.first_position.saturating_add(front.positions);
    let places = there(front.position_table, places);
    let named = [
        ("word_embeddings.weight", front.vocab, size),
        ("position_embeddings.weight", places, size),
        ("token_type_embeddings.weight", front.types, size),
        ("LayerNorm.weight", there(norm, 1), size),
        ("LayerNorm.bias", there(norm && front.embedding_beta, 1), size),
        ("projection.weight", there(projects, hidden), size),
        ("projection.bias", there(projects, 1), hidden),
    ];
    let kept = named.into_iter().filter(|&(_, rows, _)| rows > 0);
    kept.map(|(name, rows, columns)| (format!("embeddings.{name}"), (rows, columns)))
        .collect()
}

/// Takes pieces from the front; a piece that is not there is an error.
struct Reader<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        if count > self.data.len() - self.at {
            return damaged(WHAT, format!("it ends after {} bytes", self.data.len()));
        }
        self.at += count;
        Ok(&self.data[self.at - count..self.at])
    }

    fn table(
        &mut self,
        (name, (rows, columns)): (String, (usize, usize)),
        size: usize,
    ) -> Result<(String, Table)> {
        let at = self.at;
        let bytes = rows.checked_mul(columns).and_then(|n| n.checked_mul(size));
        let (true, Some(bytes)) = (matches!(size, 2 | 4 | 8), bytes) else {
            return damaged(WHAT, "a table of another size");
        };
        self.take(bytes)?;
        let table = Table {
            at,
            rows,
            columns,
            size,
        };
        if !finite(self.data, &table) {
            return damaged(WHAT, "a table that holds NaN or infinity");
        }
        Ok((name, table))
    }
}

/// An IEEE number of 2, 4 or 8 bytes, exactly.
fn float(bytes: &[u8]) -> f64 {
    match *bytes {
        [a, b] => half(u16::from_le_bytes([a, b])),
        [a, b, c, d] => f64::from(f32::from_le_bytes([a, b, c, d])),
        _ => f64::from_le_bytes(bytes.try_into().expect("sizes were checked")),
    }
}

fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let size = match exponent {
        0 => fraction * f64::from(-24).exp2(),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * f64::from(exponent - 25).exp2(),
    };
    if bits >> 15 == 1 {
        -size
    } else {
        size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_precision_is_read_exactly() {
        let of = |bits: u16| float(&bits.to_le_bytes());
        assert_eq!([of(0x3c00), of(0xc000), of(0x3555)], [1.0, -2.0, 0.333251953125]);
        assert_eq!(
            [of(0x7bff), of(0x0400), of(0x0001)],
            [65504.0, 2f64.powi(-14), 2f64.powi(-24)]
        );
        assert!(of(0x7c00).is_infinite() && of(0x7e00).is_nan());
    }
}
