//! The stages of a product under a plan: encrypting, evaluating, opening. Message lengths follow from the
//! plan.
use super::state::{key_limbs, Keys};
use crate::{Result, Ring};
use rayon::prelude::*;
use tacita_bfv::matmul::product::{evaluate, Inputs};
use tacita_bfv::matmul::{Dims, Plan};
use tacita_bfv::request::{decode_request, encrypt_message};
use tacita_bfv::response::response_len;
use tacita_bfv::{open, Response};
use tacita_rlwe::Ciphertext;
use zeroize::Zeroize;

/// All requests: left blocks by (head, alpha, beta), then right blocks by (head, beta, gamma).
pub fn encrypt(keys: &Keys, plan: &Plan, left: &[u64], right: Option<&[u64]>) -> Result<Vec<u8>> {
    let secret = &keys.client()?.secret;
    let grid = plan.layout.grid;
    let Dims { k, m, n, .. } = grid.dims;
    let [lefts, rights] = request_counts(plan);
    let one = |at: usize| {
        let mut message = if at < lefts {
            let (row, beta) = (at / grid.m_blocks(), at % grid.m_blocks());
            let (head, alpha) = (row / grid.k_blocks(), row % grid.k_blocks());
            grid.left_message(&left[head * k * m..][..k * m], alpha, beta, plan.bits)
        } else {
            let (row, gamma) = ((at - lefts) / grid.n_blocks(), (at - lefts) % grid.n_blocks());
            let (head, beta) = (row / grid.m_blocks(), row % grid.m_blocks());
            grid.right_message(&right.unwrap_or_default()[head * m * n..][..m * n], beta, gamma)
        };
        let bytes = encrypt_message(&keys.params, secret, &message, plan.bits, plan.budget.rounding);
        message.zeroize();
        bytes
    };
    let requests: Vec<Vec<u8>> = (0..lefts + rights)
        .into_par_iter()
        .map(one)
        .collect::<std::result::Result<_, _>>()?;
    Ok(requests.concat())
}

/// Requests for left and for right blocks.
fn request_counts(plan: &Plan) -> [usize; 2] {
    let grid = plan.layout.grid;
    let (batch, m) = (grid.dims.batch, grid.m_blocks());
    let right = if plan.crossed() {
        batch * m * grid.n_blocks()
    } else {
        0
    };
    [batch * grid.k_blocks() * m, right]
}

/// Bytes of all requests.
pub fn requests_len(keys: &Keys, plan: &Plan) -> usize {
    request_counts(plan).into_iter().sum::<usize>() * plan.budget.rounding.byte_len(&keys.params)
}

/// The server's part: all responses, and its shares of the outputs. `bytes` has [`requests_len`] bytes.
pub fn respond_all(
    keys: &Keys,
    plan: &Plan,
    bytes: &[u8],
    right: &[i64],
    crossed: Option<&[i64]>,
) -> Result<(Vec<u8>, Vec<u64>)> {
    let form = plan.budget.rounding;
    let one = form.byte_len(&keys.params);
    let decode = |bytes: &[u8]| -> Result<Vec<Ciphertext>> {
        let cts = bytes
            .par_chunks(one)
            .map(|b| decode_request(&keys.params, b, form));
        Ok(cts.collect::<std::result::Result<_, _>>()?)
    };
    let (left, other) = bytes.split_at(request_counts(plan)[0] * one);
    let inputs = Inputs {
        left: decode(left)?,
        right,
        crossed: crossed.map(|x| decode(other).map(|cts| (cts, x))).transpose()?,
    };
    let responses = evaluate(&keys.params, keys.server(key_limbs(plan))?, plan, inputs)?;
    let mut out = vec![0; outputs(plan)];
    let mut message = Vec::with_capacity(responses.iter().map(|r| r.bytes.len()).sum());
    for (r, Response { bytes, share }) in responses.into_iter().enumerate() {
        message.extend_from_slice(&bytes);
        place(plan, r, share, &mut out);
    }
    Ok((message, out))
}

fn outputs(plan: &Plan) -> usize {
    let Dims { k, n, batch, .. } = plan.layout.grid.dims;
    batch * k * n
}

fn response_lengths(keys: &Keys, plan: &Plan) -> Vec<usize> {
    let layout = plan.layout;
    let len = |r| response_len(&keys.params, plan.budget.kappa, layout.places(r).len());
    (0..layout.responses()).map(len).collect()
}

/// Bytes of all responses.
pub fn responses_len(keys: &Keys, plan: &Plan) -> usize {
    response_lengths(keys, plan).into_iter().sum()
}

/// The client's shares of the outputs. `bytes` has [`responses_len`] bytes.
pub fn open_all(keys: &Keys, plan: &Plan, bytes: &[u8]) -> Result<Vec<u64>> {
    let secret = &keys.client()?.secret;
    let mut rest = bytes;
    let pieces: Vec<&[u8]> = response_lengths(keys, plan)
        .into_iter()
        .map(|len| take(&mut rest, len))
        .collect();
    let open_one = |(r, piece)| {
        let keep: Vec<usize> = plan.layout.places(r).iter().map(|p| p.coefficient).collect();
        open(&keys.params, secret, piece, plan.budget.kappa, Some(&keep))
    };
    let opened: Vec<Vec<u128>> = pieces
        .into_par_iter()
        .enumerate()
        .map(open_one)
        .collect::<std::result::Result<_, _>>()?;
    let mut out = vec![0; outputs(plan)];
    for (r, shares) in opened.into_iter().enumerate() {
        place(plan, r, shares, &mut out);
    }
    Ok(out)
}

/// The first `len` bytes; the total was checked before.
pub fn take<'a>(rest: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (head, tail) = rest.split_at(len);
    *rest = tail;
    head
}

/// Puts the shares of response `r` (modulo 2^kappa) where they belong, modulo 2^bits.
fn place(plan: &Plan, r: usize, shares: Vec<u128>, out: &mut [u64]) {
    let (kappa, ring) = (plan.budget.kappa, Ring::new(plan.bits));
    for (place, share) in plan.layout.places(r).into_iter().zip(shares) {
        let value = if kappa >= plan.bits {
            (share >> (kappa - plan.bits)) as u64
        } else {
            (share as u64) << (plan.bits - kappa)
        };
        out[place.output] = ring.reduce(value);
    }
}
