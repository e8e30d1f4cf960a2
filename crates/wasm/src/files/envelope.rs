//! request.ct and response.ct (`tacita.plans.envelope`): named tensors of ciphertexts, bound to a plan and
//! a key, with a hash over all.
use crate::error::{damaged, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

const MAGIC: &[u8; 10] = b"TACITA-CT\0";
const VERSION: u16 = 1;
const PREFIX: usize = 16;
const MOST_HEADER: usize = 1 << 20;
const HASH: usize = 32;
const WHAT: &str = "response";

/// Fields in the order of the one spelling. after: of a request that is a row of a text, the hash of the one
/// before it, empty for the first; of a response, that of its request, which the receipt binds here.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Header {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    key: String,
    kind: String,
    plan: String,
    tensors: BTreeMap<String, Vec<usize>>,
}

/// The bytes of a request. after: see the header.
pub fn request(
    plan: &str,
    key: &str,
    after: Option<String>,
    tensors: &BTreeMap<String, Vec<Vec<u8>>>,
) -> Vec<u8> {
    let lengths = |cts: &Vec<Vec<u8>>| cts.iter().map(Vec::len).collect();
    let header = Header {
        after,
        key: key.to_owned(),
        kind: "request".to_owned(),
        plan: plan.to_owned(),
        tensors: tensors
            .iter()
            .map(|(name, cts)| (name.clone(), lengths(cts)))
            .collect(),
    };
    let header = serde_json::to_vec(&header).unwrap_or_default();
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&(header.len() as u32).to_le_bytes());
    out.extend_from_slice(&header);
    tensors
        .values()
        .flatten()
        .for_each(|ct| out.extend_from_slice(ct));
    let hash = Sha256::digest(&out);
    out.extend_from_slice(&hash);
    out
}

/// The ciphertexts of a response of one tensor, after hash, plan, key, name and number were compared.
///
/// # Errors
/// [`crate::ClientError::Damaged`] naming what differs.
pub fn response<'a>(data: &'a [u8], plan: &str, key: &str, tensor: (&str, usize)) -> Result<Vec<&'a [u8]>> {
    let Some((header, begin)) = header(data) else {
        return damaged(WHAT, "not a file of ciphertexts of this release");
    };
    let (name, count) = tensor;
    let lengths = header.tensors.get(name).filter(|_| header.tensors.len() == 1);
    let right = [
        (header.kind == "response", "another kind of file"),
        (header.plan == plan, "made under another plan"),
        (header.key == key, "made with other keys"),
        (
            lengths.is_some_and(|lengths| lengths.len() == count),
            "other ciphertexts",
        ),
    ];
    if let Some((_, problem)) = right.iter().find(|(right, _)| !right) {
        return damaged(WHAT, *problem);
    }
    let lengths = lengths.map_or(&[][..], Vec::as_slice);
    let whole = lengths
        .iter()
        .try_fold(begin + HASH, |sum, &length| sum.checked_add(length));
    if whole != Some(data.len()) {
        return damaged(WHAT, "another size than its header says");
    }
    let (body, hash) = data.split_at(data.len() - HASH);
    if Sha256::digest(body)[..] != *hash {
        return damaged(WHAT, "its hash does not match");
    }
    let mut rest = &body[begin..];
    let mut next = |&length: &usize| {
        let (ct, tail) = rest.split_at(length);
        rest = tail;
        ct
    };
    Ok(lengths.iter().map(&mut next).collect())
}

fn header(data: &[u8]) -> Option<(Header, usize)> {
    let prefix = data.get(..PREFIX).filter(|p| p[..10] == *MAGIC)?;
    let version = u16::from_le_bytes([prefix[10], prefix[11]]);
    let length = u32::from_le_bytes(prefix[12..].try_into().ok()?) as usize;
    if version != VERSION || length > MOST_HEADER {
        return None;
    }
    let text = data.get(PREFIX..PREFIX + length)?;
    Some((serde_json::from_slice(text).ok()?, PREFIX + length))
}
