//! The three products. Every message length follows from the plan, that is from public numbers.
use super::local::multiply;
use super::state::Options;
use crate::{MpcError, Party, Result, Ring};
use rayon::prelude::*;
use tacita_bfv::matmul::plan::Plain;
use tacita_bfv::matmul::product::{evaluate, Inputs};
use tacita_bfv::matmul::{Dims, Plan};
use tacita_bfv::request::{decode_request, encrypt_message};
use tacita_bfv::response::response_len;
use tacita_bfv::{open, Response};
use tacita_rlwe::Ciphertext;
use zeroize::Zeroize;

/// Shares of `left` (client's: batch x k x m) times `right` (server's: batch x m x n, small signed integers), default options.
///
/// # Errors
/// For inputs of another size or on the wrong side, weights beyond the norm of the options, channel errors.
pub fn client_times_server(
    party: &mut Party,
    left: Option<&[u64]>,
    right: Option<&[i64]>,
    dims: Dims,
    ring: Ring,
) -> Result<Vec<u64>> {
    client_times_server_with(party, left, right, dims, ring, Options::default())
}

/// [`client_times_server`] with public bounds of one's own.
///
/// # Errors
/// As there.
pub fn client_times_server_with(
    party: &mut Party,
    left: Option<&[u64]>,
    right: Option<&[i64]>,
    dims: Dims,
    ring: Ring,
    options: Options,
) -> Result<Vec<u64>> {
    let log_norm = options.log_norm;
    let sizes = Sizes::check(dims, left, right, party.is_client())?;
    party.measured("client times server", |party| {
        if sizes.empty(dims) {
            return Ok(vec![0; sizes.out]);
        }
        let plan = party.linear_plan(dims, ring, options.slack, Plain::Weights { log_norm })?;
        match (left, right) {
            (Some(left), None) => ask(party, &plan, left, None),
            (None, Some(right)) => {
                check_norms(right, dims, log_norm)?;
                answer(party, &plan, right, None)
            }
            _ => Err(wrong_side()),
        }
    })
}

/// Shares of X W for shares of X (`x`: batch x k x m, both parties) and the server's weights, default options.
///
/// # Errors
/// As [`client_times_server`].
pub fn share_times_weights(
    party: &mut Party,
    x: &[u64],
    weights: Option<&[i64]>,
    dims: Dims,
    ring: Ring,
) -> Result<Vec<u64>> {
    share_times_weights_with(party, x, weights, dims, ring, Options::default())
}

/// [`share_times_weights`] with public bounds of one's own.
///
/// # Errors
/// As there.
pub fn share_times_weights_with(
    party: &mut Party,
    x: &[u64],
    weights: Option<&[i64]>,
    dims: Dims,
    ring: Ring,
    options: Options,
) -> Result<Vec<u64>> {
    party.measured("share times weights", |party| match weights {
        None if party.is_client() => client_times_server_with(party, Some(x), None, dims, ring, options),
        Some(weights) if !party.is_client() => {
            Sizes::check(dims, Some(x), None::<&[i64]>, true)?;
            let mut out = client_times_server_with(party, None, Some(weights), dims, ring, options)?;
            add_local(x, weights, &mut out, dims, ring);
            Ok(out)
        }
        _ => Err(wrong_side()),
    })
}

/// Shares of X Y for shares of both (`x`: batch x k x m, `y`: batch x m x n), default slack. Cheap for rings of up to about
/// 46 bits: reduce first (products of 64-bit shares need three primes and 8 MB of further keys).
///
/// # Errors
/// As [`client_times_server`].
pub fn share_times_share(party: &mut Party, x: &[u64], y: &[u64], dims: Dims, ring: Ring) -> Result<Vec<u64>> {
    share_times_share_with(party, x, y, dims, ring, Options::default())
}

/// [`share_times_share`] with a slack of one's own.
///
/// # Errors
/// As there.
pub fn share_times_share_with(
    party: &mut Party,
    x: &[u64],
    y: &[u64],
    dims: Dims,
    ring: Ring,
    options: Options,
) -> Result<Vec<u64>> {
    let sizes = Sizes::check(dims, Some(x), None::<&[i64]>, true)?;
    Sizes::check(dims, None::<&[u64]>, Some(y), false)?;
    party.measured("share times share", |party| {
        if sizes.empty(dims) {
            return Ok(vec![0; sizes.out]);
        }
        let plan = party.linear_plan(dims, ring, options.slack, Plain::Shares)?;
        let signed = |v: &[u64]| v.iter().map(|&v| ring.signed(v)).collect::<Vec<i64>>();
        let (mut out, right) = if party.is_client() {
            (ask(party, &plan, x, Some(y))?, signed(y))
        } else {
            let right = signed(y);
            (answer(party, &plan, &right, Some(&signed(x)))?, right)
        };
        add_local(x, &right, &mut out, dims, ring);
        Ok(out)
    })
}

/// The client's side: requests for `left` (and `right`), then its shares from the responses.
fn ask(party: &mut Party, plan: &Plan, left: &[u64], right: Option<&[u64]>) -> Result<Vec<u64>> {
    let form = plan.budget.rounding;
    party.linear_keys_for(form.limbs)?;
    let requests = encrypt(party, plan, left, right)?;
    party.send(&requests)?;
    drop(requests);
    let lengths = response_lengths(party, plan)?;
    let bytes = party.receive(lengths.iter().sum())?;
    let keys = party.linear_keys()?;
    let secret = &keys.client()?.secret;
    let mut out = vec![0; outputs(plan)];
    let mut rest = &bytes[..];
    let pieces: Vec<&[u8]> = lengths.into_iter().map(|len| take(&mut rest, len)).collect();
    let opened: Vec<Vec<u128>> = pieces
        .into_par_iter()
        .enumerate()
        .map(|(r, piece)| open(&keys.params, secret, piece, plan.budget.kappa, Some(&kept(plan, r))))
        .collect::<std::result::Result<_, _>>()?;
    opened
        .into_iter()
        .enumerate()
        .for_each(|(r, shares)| place(plan, r, shares, &mut out));
    Ok(out)
}

/// All requests: left blocks by (head, alpha, beta), then right blocks by (head, beta, gamma).
fn encrypt(party: &Party, plan: &Plan, left: &[u64], right: Option<&[u64]>) -> Result<Vec<u8>> {
    let keys = party.linear_keys()?;
    let secret = &keys.client()?.secret;
    let grid = plan.layout.grid;
    let Dims { k, m, n, .. } = grid.dims;
    let counts = request_counts(plan);
    let one = |at: usize| {
        let mut message = if at < counts[0] {
            let (row, beta) = (at / grid.m_blocks(), at % grid.m_blocks());
            let (head, alpha) = (row / grid.k_blocks(), row % grid.k_blocks());
            grid.left_message(&left[head * k * m..][..k * m], alpha, beta, plan.bits)
        } else {
            let (row, gamma) = ((at - counts[0]) / grid.n_blocks(), (at - counts[0]) % grid.n_blocks());
            let (head, beta) = (row / grid.m_blocks(), row % grid.m_blocks());
            grid.right_message(&right.unwrap_or_default()[head * m * n..][..m * n], beta, gamma)
        };
        let bytes = encrypt_message(&keys.params, secret, &message, plan.bits, plan.budget.rounding);
        message.zeroize();
        bytes
    };
    let requests: Vec<Vec<u8>> = (0..counts[0] + counts[1])
        .into_par_iter()
        .map(one)
        .collect::<std::result::Result<_, _>>()?;
    Ok(requests.concat())
}

/// The server's side: evaluates on the requests and keeps its shares.
fn answer(party: &mut Party, plan: &Plan, right: &[i64], crossed: Option<&[i64]>) -> Result<Vec<u64>> {
    let form = plan.budget.rounding;
    party.linear_keys_for(form.limbs)?;
    let counts = request_counts(plan);
    let one = form.byte_len(&party.linear_keys()?.params);
    let bytes = party.receive((counts[0] + counts[1]) * one)?;
    let keys = party.linear_keys()?;
    let decode = |bytes: &[u8]| -> Result<Vec<Ciphertext>> {
        let cts = bytes.par_chunks(one).map(|b| decode_request(&keys.params, b, form));
        Ok(cts.collect::<std::result::Result<_, _>>()?)
    };
    let (left, other) = bytes.split_at(counts[0] * one);
    let inputs = Inputs {
        left: decode(left)?,
        right,
        crossed: crossed.map(|x| decode(other).map(|cts| (cts, x))).transpose()?,
    };
    drop(bytes);
    let responses = evaluate(&keys.params, keys.server(form.limbs)?, plan, inputs)?;
    let mut out = vec![0; outputs(plan)];
    let mut message = Vec::with_capacity(responses.iter().map(|r| r.bytes.len()).sum());
    for (r, Response { bytes, share }) in responses.into_iter().enumerate() {
        message.extend_from_slice(&bytes);
        place(plan, r, share, &mut out);
    }
    party.send(&message)?;
    Ok(out)
}

/// Requests for left and for right blocks.
fn request_counts(plan: &Plan) -> [usize; 2] {
    let grid = plan.layout.grid;
    let (batch, m) = (grid.dims.batch, grid.m_blocks());
    let right = if plan.crossed() { batch * m * grid.n_blocks() } else { 0 };
    [batch * grid.k_blocks() * m, right]
}

fn outputs(plan: &Plan) -> usize {
    let Dims { k, n, batch, .. } = plan.layout.grid.dims;
    batch * k * n
}

fn kept(plan: &Plan, r: usize) -> Vec<usize> {
    plan.layout.places(r).iter().map(|p| p.coefficient).collect()
}

fn response_lengths(party: &Party, plan: &Plan) -> Result<Vec<usize>> {
    let params = &party.linear_keys()?.params;
    let layout = plan.layout;
    let len = |r| response_len(params, plan.budget.kappa, layout.places(r).len());
    Ok((0..layout.responses()).map(len).collect())
}

/// The first `len` bytes; the total was checked by the channel.
fn take<'a>(rest: &mut &'a [u8], len: usize) -> &'a [u8] {
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

/// out += x y, head by head, modulo the ring.
fn add_local(x: &[u64], y: &[i64], out: &mut [u64], dims: Dims, ring: Ring) {
    let Dims { k, m, n, batch } = dims;
    let y: Vec<u64> = y.iter().map(|&v| v as u64).collect();
    for head in 0..batch {
        let (x, y) = (&x[head * k * m..][..k * m], &y[head * m * n..][..m * n]);
        multiply(x, y, &mut out[head * k * n..][..k * n], (k, m, n));
    }
    out.iter_mut().for_each(|o| *o = ring.reduce(*o));
}

/// Fails when a column is longer than 2^log_norm.
fn check_norms(weights: &[i64], dims: Dims, log_norm: u32) -> Result<()> {
    for matrix in weights.chunks_exact(dims.m * dims.n) {
        let mut squares = vec![0f64; dims.n];
        for row in matrix.chunks_exact(dims.n) {
            squares
                .iter_mut()
                .zip(row)
                .for_each(|(s, &w)| *s += (w as f64) * (w as f64));
        }
        let largest = squares.into_iter().fold(0.0, f64::max).sqrt();
        if largest > f64::from(log_norm).exp2() {
            let detail = format!(
                "a column of the weights has norm 2^{:.1}, above the 2^{log_norm} of the options; raise log_norm on both sides",
                largest.log2()
            );
            return Err(MpcError::Shape { op: "weights", detail });
        }
    }
    Ok(())
}

fn wrong_side() -> MpcError {
    MpcError::Shape {
        op: "product",
        detail: "the client gives its matrix and no weights, the server the weights".into(),
    }
}

struct Sizes {
    out: usize,
}

impl Sizes {
    /// Do the matrices that are there have the right sizes, and is one there?
    fn check<A, B>(dims: Dims, left: Option<&[A]>, right: Option<&[B]>, want_left: bool) -> Result<Self> {
        let Dims { k, m, n, batch } = dims;
        let wrong = |what: &str, found: usize, expected: usize| {
            let detail = format!("the {what} matrix has {found} values where {dims:?} needs {expected}");
            Err(MpcError::Shape { op: "product", detail })
        };
        match (left, right) {
            (Some(x), None) if want_left && x.len() != batch * k * m => wrong("left", x.len(), batch * k * m),
            (None, Some(y)) if !want_left && y.len() != batch * m * n => wrong("right", y.len(), batch * m * n),
            (Some(_), None) if want_left => Ok(Self { out: batch * k * n }),
            (None, Some(_)) if !want_left => Ok(Self { out: batch * k * n }),
            _ => Err(wrong_side()),
        }
    }

    /// Nothing to multiply: zeros, without a message.
    fn empty(&self, dims: Dims) -> bool {
        self.out == 0 || dims.m == 0
    }
}
