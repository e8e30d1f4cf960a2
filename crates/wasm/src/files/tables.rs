//! embedding.safetensors: the tables between token ids and hidden states, each of the shape that the
//! description says. They stay as they came.
use crate::error::{damaged, Result};
use crate::part::{finite, shapes, Table, Tables};
use crate::program::FrontConfig;
use serde::Deserialize;
use std::collections::BTreeMap;

const WHAT: &str = "embedding tables";
const MOST_HEADER: usize = 1 << 20;

/// Of a tensor, as the file's header says.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (usize, usize),
}

impl Tables {
    /// From the server's bytes: exactly the tables of such a front.
    ///
    /// # Errors
    /// [`crate::ClientError::Damaged`] for other tables, types, places; for numbers that are not finite.
    pub fn of_file(data: Vec<u8>, front: &FrontConfig, hidden: usize) -> Result<Self> {
        let Some((mut entries, begin)) = header(&data) else {
            return damaged(WHAT, "no safetensors file");
        };
        entries.remove("__metadata__");
        let (wanted, room) = (shapes(front, hidden), data.len() - begin);
        if entries.len() != wanted.len() {
            return damaged(
                WHAT,
                format!("{} tables, expected {}", entries.len(), wanted.len()),
            );
        }
        let mut named = BTreeMap::new();
        for (name, (rows, columns)) in wanted {
            let entry = entries.remove(&name).map(serde_json::from_value::<Entry>);
            let Some(Ok(entry)) = entry else {
                return damaged(WHAT, "other tables than the model has");
            };
            let Some(table) = placed(&entry, (rows, columns), room) else {
                return damaged(WHAT, "a table of another shape, type or place");
            };
            let table = Table {
                at: begin + table.at,
                ..table
            };
            if !finite(&data, &table) {
                return damaged(WHAT, "a table that holds NaN or infinity");
            }
            named.insert(name, table);
        }
        Ok(Self { data, named })
    }
}

/// The header's object, and where the numbers begin.
fn header(data: &[u8]) -> Option<(serde_json::Map<String, serde_json::Value>, usize)> {
    let (length, rest) = data.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let text = rest.get(..length).filter(|_| length <= MOST_HEADER)?;
    Some((serde_json::from_slice(text).ok()?, 8 + length))
}

/// The table, where it has this shape and lies in so many bytes.
fn placed(entry: &Entry, (rows, columns): (usize, usize), room: usize) -> Option<Table> {
    let size = match entry.dtype.as_str() {
        "F16" => 2,
        "F32" => 4,
        "F64" => 8,
        _ => return None,
    };
    let (from, to) = entry.data_offsets;
    let shaped = match entry.shape[..] {
        [c] => rows == 1 && c == columns,
        [r, c] => (r, c) == (rows, columns),
        _ => false,
    };
    let bytes = rows.checked_mul(columns)?.checked_mul(size)?;
    let right = shaped && to <= room && from.checked_add(bytes) == Some(to);
    right.then_some(Table {
        at: from,
        rows,
        columns,
        size,
    })
}
