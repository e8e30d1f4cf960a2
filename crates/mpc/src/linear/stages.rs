//! The stages of a product under a plan: encrypting, evaluating, opening. Message lengths follow from the
//! plan.
use super::state::{key_limbs, Keys};
use crate::{Result, Ring};
use rayon::prelude::*;
use tacita_bfv::matmul::product::Inputs;
use tacita_bfv::matmul::rounds::evaluate;
use tacita_bfv::matmul::{Dims, Plan};
use tacita_bfv::request::{decode_request, Zero};
use tacita_bfv::response::response_len;
use tacita_bfv::{open, Response, NARROW};
use tacita_rlwe::Ciphertext;
use zeroize::Zeroize;

/// Zeros at once: 128 KiB each.
const MOST_ZEROS: usize = 128;

/// All requests, as they are asked for, of zeros as long as there are such.
///
/// # Errors
/// At the server.
pub fn encrypt<'a>(
    keys: &'a Keys,
    plan: &'a Plan,
    left: &'a [u64],
    right: Option<&'a [u64]>,
    mut zeros: Vec<Zero>,
) -> Result<impl Iterator<Item = Result<Vec<u8>>> + 'a> {
    let secret = &keys.client()?.secret;
    let grid = plan.layout.grid;
    let form = plan.budget.rounding;
    let one = move |(at, zero): (usize, Option<Zero>)| -> Result<Vec<u8>> {
        let zero = zero.map_or_else(|| Zero::new(&keys.params, secret, form.limbs), Ok)?;
        let mut message = grid.message(at, left, right.unwrap_or_default(), plan.bits);
        let bytes = zero.encrypt(&keys.params, &message, plan.bits, form);
        message.zeroize();
        Ok(bytes)
    };
    let (all, step) = (request_count(plan), rayon::current_num_threads());
    let some = move |first| {
        let numbers = first..all.min(first + step);
        let with_zeros: Vec<_> = numbers.map(|at| (at, zeros.pop())).collect();
        with_zeros.into_par_iter().map(&one).collect::<Vec<_>>()
    };
    Ok((0..all).step_by(step).flat_map(some))
}

/// Zeros for as many requests as a plan has, within [`MOST_ZEROS`]; none for one of other primes.
pub fn zeros(keys: &Keys, plan: &Plan) -> Result<Vec<Zero>> {
    let secret = &keys.client()?.secret;
    if plan.budget.rounding.limbs != NARROW {
        return Ok(Vec::new());
    }
    let count = request_count(plan).min(MOST_ZEROS);
    let one = |_| Zero::new(&keys.params, secret, NARROW);
    Ok((0..count)
        .into_par_iter()
        .map(one)
        .collect::<std::result::Result<_, _>>()?)
}

fn request_count(plan: &Plan) -> usize {
    plan.layout.grid.requests(plan.crossed()).into_iter().sum()
}

/// Bytes of each request.
pub fn request_lengths(keys: &Keys, plan: &Plan) -> Vec<usize> {
    vec![plan.budget.rounding.byte_len(&keys.params); request_count(plan)]
}

/// Some requests of a product: each of its [`request_lengths`] bytes.
pub fn decode(keys: &Keys, plan: &Plan, bytes: &[Vec<u8>]) -> Result<Vec<Ciphertext>> {
    let one = |bytes: &Vec<u8>| decode_request(&keys.params, bytes, plan.budget.rounding);
    Ok(bytes.par_iter().map(one).collect::<std::result::Result<_, _>>()?)
}

/// The server's part, from all decoded requests: the responses, as they are asked for, whose shares of the
/// outputs go to `out`.
///
/// # Errors
/// At the client; for inputs that do not fit the plan.
pub fn respond_all<'a>(
    keys: &'a Keys,
    plan: &'a Plan,
    mut requests: Vec<Ciphertext>,
    right: &'a [i64],
    crossed: Option<&'a [i64]>,
    out: &'a mut Vec<u64>,
) -> Result<impl Iterator<Item = Result<Vec<u8>>> + 'a> {
    let other = requests.split_off(plan.layout.grid.requests(false)[0]);
    let inputs = Inputs {
        left: requests,
        right,
        crossed: crossed.map(|x| (other, x)),
    };
    let responses = evaluate(&keys.params, keys.server(key_limbs(plan))?, plan, inputs)?;
    out.resize(outputs(plan), 0);
    Ok(responses
        .enumerate()
        .map(move |(r, response)| -> Result<Vec<u8>> {
            let Response { bytes, share } = response?;
            place(plan, r, share, out);
            Ok(bytes)
        }))
}

fn outputs(plan: &Plan) -> usize {
    let Dims { k, n, batch, .. } = plan.layout.grid.dims;
    batch * k * n
}

/// Bytes of each response.
pub fn response_lengths(keys: &Keys, plan: &Plan) -> Vec<usize> {
    let layout = plan.layout;
    let len = |r| response_len(&keys.params, plan.budget.kappa, layout.places(r).len());
    (0..layout.responses()).map(len).collect()
}

/// The client's shares of some outputs into `out`, which is made when it is empty: responses from number
/// `first` on, each of its [`response_lengths`] bytes.
pub fn open_some(
    keys: &Keys,
    plan: &Plan,
    first: usize,
    pieces: &[Vec<u8>],
    out: &mut Vec<u64>,
) -> Result<()> {
    let secret = &keys.client()?.secret;
    out.resize(outputs(plan), 0);
    let open_one = |(i, piece): (usize, &Vec<u8>)| {
        let places = plan.layout.places(first + i);
        let keep: Vec<usize> = places.iter().map(|p| p.coefficient).collect();
        open(&keys.params, secret, piece, plan.budget.kappa, Some(&keep))
    };
    let opened: Vec<Vec<u128>> = pieces
        .par_iter()
        .enumerate()
        .map(open_one)
        .collect::<std::result::Result<_, _>>()?;
    for (i, shares) in opened.into_iter().enumerate() {
        place(plan, first + i, shares, out);
    }
    Ok(())
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
