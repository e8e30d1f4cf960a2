//! The three products. Every message length follows from the plan, that is from public numbers.
use super::local::multiply;
use super::stages;
use super::state::{Keys, Options, SharesPlan};
use crate::{MpcError, Party, Result, Ring};
use std::borrow::Cow;
use tacita_bfv::matmul::{Dims, Plan};
use tacita_bfv::NARROW;
use tacita_rlwe::Ciphertext;

/// Shares of `left` (client's: batch x k x m) times `right` (server's: batch x m x n, small signed integers),
/// default options.
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
        let plan = party.linear.plan(dims, ring, options.slack, options.weights())?;
        check_norms(right.unwrap_or_default(), dims, log_norm)?;
        let work = Work {
            plan: &plan,
            encrypted: left.unwrap_or_default(),
            also_encrypted: None,
            plain: Cow::Borrowed(right.unwrap_or_default()),
            also_plain: None,
        };
        Ok(run(party, &[work])?.remove(0))
    })
}

/// Shares of X W for shares of X (`x`: batch x k x m, both parties) and the server's weights, default
/// options.
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

/// Shares of X Y for shares of both (`x`: batch x k x m, `y`: batch x m x n), default slack. Cheap for rings
/// of up to about 46 bits: reduce first (products of 64-bit shares need three primes and 8 MB of further
/// keys).
///
/// # Errors
/// As [`client_times_server`].
pub fn share_times_share(
    party: &mut Party,
    x: &[u64],
    y: &[u64],
    dims: Dims,
    ring: Ring,
) -> Result<Vec<u64>> {
    share_times_share_with(party, x, y, dims, ring, Options::default())
}

/// [`share_times_share`] with a slack of one's own, or opened next.
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
        let mut out = match party.linear.shares_plan(dims, ring, options)? {
            SharesPlan::Joint(plan) => run(party, &[Work::crossed(&plan, x, y, ring)])?.remove(0),
            SharesPlan::Apart(left, right) => apart(party, (&left, &right), x, y, ring)?,
        };
        add_local(x, &signed(y, ring), &mut out, dims, ring);
        Ok(out)
    })
}

/// X_1 Y_0 and the transpose of Y_1^T X_0^T, in one round.
fn apart(party: &mut Party, plans: (&Plan, &Plan), x: &[u64], y: &[u64], ring: Ring) -> Result<Vec<u64>> {
    let Dims { k, m, n, .. } = plans.0.layout.grid.dims;
    let (xt, yt) = (transpose(x, k, m), transpose(y, m, n));
    let work = [
        Work::shares(plans.0, x, y, ring),
        Work::shares(plans.1, &yt, &xt, ring),
    ];
    let parts = run(party, &work)?;
    let other = transpose(&parts[1], n, k);
    Ok(parts[0].iter().zip(other).map(|(&a, b)| ring.add(a, b)).collect())
}

/// Every rows x columns matrix of a batch, transposed.
fn transpose(x: &[u64], rows: usize, columns: usize) -> Vec<u64> {
    let mut out = Vec::with_capacity(x.len());
    for matrix in x.chunks_exact(rows * columns) {
        out.extend((0..rows * columns).map(|at| matrix[at % rows * columns + at / rows]));
    }
    out
}

fn signed(x: &[u64], ring: Ring) -> Vec<i64> {
    x.iter().map(|&v| ring.signed(v)).collect()
}

/// One product: what the client encrypts, what the server multiplies by (each side fills in its own).
struct Work<'a> {
    plan: &'a Plan,
    encrypted: &'a [u64],
    also_encrypted: Option<&'a [u64]>,
    plain: Cow<'a, [i64]>,
    also_plain: Option<Vec<i64>>,
}

impl<'a> Work<'a> {
    /// Client's shares of the left matrix times server's of the right one.
    fn shares(plan: &'a Plan, left: &'a [u64], right: &[u64], ring: Ring) -> Self {
        Self {
            plan,
            encrypted: left,
            also_encrypted: None,
            plain: Cow::Owned(signed(right, ring)),
            also_plain: None,
        }
    }

    /// Both ways at once.
    fn crossed(plan: &'a Plan, left: &'a [u64], right: &'a [u64], ring: Ring) -> Self {
        Self {
            also_encrypted: Some(right),
            also_plain: Some(signed(left, ring)),
            ..Self::shares(plan, left, right, ring)
        }
    }
}

/// One round for all products: the client's requests in one message, the server's responses in another.
fn run(party: &mut Party, work: &[Work<'_>]) -> Result<Vec<Vec<u64>>> {
    for w in work {
        party.linear_keys_for(w.plan)?;
    }
    party.with_linear_keys(|party, keys| {
        if party.is_client() {
            ask(party, keys, work)
        } else {
            answer(party, keys, work)
        }
    })
}

/// Requests leave as they are made, and responses are opened as they come. Before the first one the client
/// makes what it can of the next product's requests, of which there will be about as many.
fn ask(party: &mut Party, keys: &Keys, work: &[Work<'_>]) -> Result<Vec<Vec<u64>>> {
    let parts = work.iter().map(|w| {
        let narrow = w.plan.budget.rounding.limbs == NARROW;
        let zeros = if narrow {
            std::mem::take(&mut party.linear.zeros)
        } else {
            Vec::new()
        };
        stages::encrypt(keys, w.plan, w.encrypted, w.also_encrypted, zeros)
    });
    let mut parts = parts.collect::<Result<Vec<_>>>()?.into_iter().flatten();
    party.send_parts(&lengths(keys, work, stages::request_lengths), &mut parts)?;
    if party.linear.zeros.is_empty() {
        party.linear.zeros = stages::zeros(keys, work[0].plan)?;
    }
    let mut out = vec![Vec::new(); work.len()];
    let open = |w: usize, first, pieces: &[Vec<u8>]| {
        stages::open_some(keys, work[w].plan, first, pieces, &mut out[w])
    };
    receive_some(party, keys, work, stages::response_lengths, open)?;
    Ok(out)
}

/// Requests are decoded as they come, and responses leave as they are made.
fn answer(party: &mut Party, keys: &Keys, work: &[Work<'_>]) -> Result<Vec<Vec<u64>>> {
    let mut requests: Vec<Vec<Ciphertext>> = work.iter().map(|_| Vec::new()).collect();
    receive_some(party, keys, work, stages::request_lengths, |w, _, pieces| {
        requests[w].extend(stages::decode(keys, work[w].plan, pieces)?);
        Ok(())
    })?;
    let mut shares = vec![Vec::new(); work.len()];
    let mut parts = work
        .iter()
        .zip(requests)
        .zip(&mut shares)
        .flat_map(|((w, requests), share)| responses(keys, w, requests, share));
    party.send_parts(&lengths(keys, work, stages::response_lengths), &mut parts)?;
    drop(parts);
    Ok(shares)
}

/// The responses of one product, or why there are none.
fn responses<'a>(
    keys: &'a Keys,
    w: &'a Work<'_>,
    requests: Vec<Ciphertext>,
    share: &'a mut Vec<u64>,
) -> Box<dyn Iterator<Item = Result<Vec<u8>>> + 'a> {
    match stages::respond_all(keys, w.plan, requests, &w.plain, w.also_plain.as_deref(), share) {
        Ok(responses) => Box::new(responses),
        Err(error) => Box::new(std::iter::once(Err(error))),
    }
}

/// Lengths of what belongs to all products, one after the other.
fn lengths(keys: &Keys, work: &[Work<'_>], of: fn(&Keys, &Plan) -> Vec<usize>) -> Vec<usize> {
    work.iter().flat_map(|w| of(keys, w.plan)).collect()
}

/// Receives them, and calls `body` with the number of the product, that of its first piece and the pieces: as
/// many as there are threads, as soon as they are there.
fn receive_some(
    party: &mut Party,
    keys: &Keys,
    work: &[Work<'_>],
    of: fn(&Keys, &Plan) -> Vec<usize>,
    mut body: impl FnMut(usize, usize, &[Vec<u8>]) -> Result<()>,
) -> Result<()> {
    let each: Vec<Vec<usize>> = work.iter().map(|w| of(keys, w.plan)).collect();
    let (mut product, mut first, mut pieces) = (0, 0, Vec::new());
    party.receive_parts(&each.concat(), &mut |piece| {
        pieces.push(piece);
        let last = first + pieces.len() == each[product].len();
        if last || pieces.len() == rayon::current_num_threads() {
            body(product, first, &pieces)?;
            first += pieces.len();
            pieces.clear();
        }
        if last {
            (product, first) = (product + 1, 0);
        }
        Ok(())
    })
}

/// out += x y, head by head, modulo the ring.
fn add_local(x: &[u64], y: &[i64], out: &mut [u64], dims: Dims, ring: Ring) {
    let Dims { k, m, n, batch } = dims;
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
                "a column of the weights has norm 2^{:.1}, above the 2^{log_norm} of the options; raise \
                log_norm on both sides",
                largest.log2()
            );
            return Err(MpcError::Shape {
                op: "weights",
                detail,
            });
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
            Err(MpcError::Shape {
                op: "product",
                detail,
            })
        };
        match (left, right) {
            (Some(x), None) if want_left && x.len() != batch * k * m => wrong("left", x.len(), batch * k * m),
            (None, Some(y)) if !want_left && y.len() != batch * m * n => {
                wrong("right", y.len(), batch * m * n)
            }
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
