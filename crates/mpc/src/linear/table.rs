//! Embedding lookup in a table that stays hidden: encrypted once under the *server's* key, chosen from by the
//! client (`docs/decisions/0010-embedding-lookup.md` argues the privacy of both).
//!
//! A row of d values is cut into pieces of a power of two (one padded piece where d has no large one). A
//! ciphertext holds `stride` = N / piece pieces: value l of the piece in slot s at coefficient l * stride +
//! s. The client turns the slot it wants to multiples of the stride (times X^-s), interleaves `stride` such
//! pieces into one ciphertext, masks it and returns it; the server opens. One prime of 49 bits is enough: the
//! only noise is that of encryption and of the merges.
//!
//! Cost: once rows * d * (bits + 2) bits (28 bits a value for 26-bit values), kept by the client; per token 2
//! (bits + 5) bits a value, half a round, one merge a piece.
use crate::{MpcError, Party, Result, Ring};
use rayon::prelude::*;
use std::sync::OnceLock;
use tacita_bfv::matmul::layout::Layout;
use tacita_bfv::matmul::packing::Packer;
use tacita_bfv::matmul::window::Grid;
use tacita_bfv::matmul::{Budget, Dims, Operands, Window};
use tacita_bfv::request::{decode_request, encrypt_message};
use tacita_bfv::response::response_len;
use tacita_bfv::{open, parameters_olt, respond, ClientKeys, Response, ServerKeys, N};
use tacita_ring::kernels;
use tacita_rlwe::{Ciphertext, Parameters, RnsPoly};

/// Primes of a table's ciphertexts.
const LIMBS: usize = 1;
/// Most pieces of a row; rows that would need more are padded to one.
const MOST_PIECES: usize = 4;
/// Least values of a piece: each halving is a merge more, and one prime carries the noise of about seven.
const LEAST_PIECE: usize = 64;
/// log2 of the bound on the error, in units of the last place.
const SLACK: u32 = 2;

/// What both sides know of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableShape {
    /// Rows (size of the vocabulary).
    pub rows: usize,
    /// Values of a row.
    pub columns: usize,
    /// Values v have |v| < 2^(bits - 2): shares come modulo 2^bits and `compare::extend` takes them to larger
    /// rings.
    pub bits: u32,
}

impl TableShape {
    fn check(self) -> Result<Self> {
        let Self { rows, columns, bits } = self;
        let fits = rows.checked_mul(columns).is_some_and(|v| v as u64 <= 1 << 32);
        if rows > 0 && columns > 0 && columns <= N && fits && (4..=32).contains(&bits) {
            return Ok(self);
        }
        Err(shape(format!(
            "{self:?}: up to {N} columns, 2^32 values, 4 to 32 bits"
        )))
    }

    /// Values of a piece, a power of two, and pieces of a row.
    pub(super) fn pieces(self) -> (usize, usize) {
        let piece = 1 << self.columns.trailing_zeros();
        if piece >= LEAST_PIECE && self.columns / piece <= MOST_PIECES {
            (piece, self.columns / piece)
        } else {
            (self.columns.next_power_of_two().max(LEAST_PIECE), 1)
        }
    }

    /// Pieces of a ciphertext.
    pub(super) fn stride(self) -> usize {
        N / self.pieces().0
    }

    /// Ciphertexts of the table.
    pub(super) fn ciphertexts(self) -> usize {
        (self.rows * self.pieces().1).div_ceil(self.stride())
    }

    fn layout(self, tokens: usize) -> Layout {
        let (piece, pieces) = self.pieces();
        let (k, n) = (tokens * pieces, piece.min(self.columns));
        let grid = Grid {
            dims: Dims { k, m: 1, n, batch: 1 },
            window: Window {
                kw: 1,
                mw: self.stride(),
                nw: piece,
                heads: 1,
            },
        };
        let pack = self.stride().ilog2();
        Layout { grid, pack, join: 0 }
    }

    fn budget(self, params: &Parameters) -> Result<Budget> {
        let operands = Operands {
            bits: self.bits,
            slack: SLACK,
            norm: 1.0,
            pack: self.stride().ilog2(),
            join: 0,
        };
        Budget::with_primes(params, LIMBS, operands)
            .ok_or_else(|| shape(format!("{self:?} leaves no room for noise")))
    }

    /// Bytes of the encrypted table with its keys.
    ///
    /// # Errors
    /// For shapes that are not supported.
    pub fn table_len(self) -> Result<usize> {
        let params = parameters_olt()?;
        let one = self.check()?.budget(&params)?.rounding.byte_len(&params);
        Ok(ServerKeys::byte_len(&params, LIMBS, true) + self.ciphertexts() * one)
    }

    /// Bytes of the answer for `tokens` tokens.
    ///
    /// # Errors
    /// For shapes that are not supported.
    pub fn lookup_len(self, tokens: usize) -> Result<usize> {
        let params = parameters_olt()?;
        let kappa = self.check()?.budget(&params)?.kappa;
        Ok(lengths(&params, self.layout(tokens), kappa).into_iter().sum())
    }
}

fn shape(detail: String) -> MpcError {
    MpcError::Shape {
        op: "embedding table",
        detail,
    }
}

fn lengths(params: &Parameters, layout: Layout, kappa: u32) -> Vec<usize> {
    let len = |r| response_len(params, kappa, layout.places(r).len());
    (0..layout.responses()).map(len).collect()
}

fn kept(layout: Layout, r: usize) -> Vec<usize> {
    layout.places(r).iter().map(|p| p.coefficient).collect()
}

#[cfg(test)]
impl TableShape {
    /// What is public of an answer: bytes of the keys before the table, kappa, and the kept coefficients of
    /// every response.
    pub(crate) fn answer_form(self, tokens: usize) -> Result<(usize, u32, Vec<Vec<usize>>)> {
        let (params, layout) = (parameters_olt()?, self.layout(tokens));
        let keep = (0..layout.responses()).map(|r| kept(layout, r)).collect();
        Ok((
            ServerKeys::byte_len(&params, LIMBS, true),
            self.budget(&params)?.kappa,
            keep,
        ))
    }
}

/// The server's side: its key and the encrypted table. One serves all sessions.
pub struct TableServer {
    params: Parameters,
    keys: ClientKeys,
    shape: TableShape,
    message: Vec<u8>,
}

impl TableServer {
    /// Encrypts a table (row-major, |v| < 2^(bits - 2)) under a fresh key.
    ///
    /// Cost: one encryption (about 0.2 ms) for N values.
    ///
    /// # Errors
    /// For another size or values out of range; when the operating system gives no randomness.
    pub fn new(table: &[i64], shape_: TableShape) -> Result<Self> {
        let params = parameters_olt()?;
        let shape_ = shape_.check()?;
        let limit = 1u64 << (shape_.bits - 2);
        if table.len() != shape_.rows * shape_.columns || table.iter().any(|v| v.unsigned_abs() >= limit) {
            return Err(shape(format!(
                "{} values of up to 2^{} are needed",
                shape_.rows * shape_.columns,
                shape_.bits - 2
            )));
        }
        let keys = ClientKeys::generate(&params)?;
        let form = shape_.budget(&params)?.rounding;
        let encrypt = |c| encrypt_message(&params, &keys.secret, &slots(table, shape_, c), shape_.bits, form);
        let parts: Vec<Vec<u8>> = (0..shape_.ciphertexts())
            .into_par_iter()
            .map(encrypt)
            .collect::<std::result::Result<_, _>>()?;
        let mut message = keys.server_keys(&params, LIMBS, true)?.to_bytes(&params);
        message.reserve(shape_.table_len()? - message.len());
        parts.iter().for_each(|p| message.extend_from_slice(p));
        Ok(Self {
            params,
            keys,
            shape: shape_,
            message,
        })
    }

    /// What the client gets once: evaluation keys, then the ciphertexts; [`TableShape::table_len`] bytes.
    pub fn message(&self) -> &[u8] {
        &self.message
    }

    /// The server's shares modulo 2^bits of `tokens` rows, off by less than 4 units; it learns how many there
    /// are.
    ///
    /// # Errors
    /// Those of the channel.
    pub fn lookup(&self, party: &mut Party, tokens: usize) -> Result<Vec<u64>> {
        let (layout, kappa) = (self.shape.layout(tokens), self.shape.budget(&self.params)?.kappa);
        let lengths = lengths(&self.params, layout, kappa);
        party.measured("embedding", |party| {
            let bytes = party.receive(lengths.iter().sum())?;
            let (mut rest, mut out) = (&bytes[..], vec![0; tokens * self.shape.columns]);
            for (r, len) in lengths.into_iter().enumerate() {
                let piece = super::stages::take(&mut rest, len);
                let opened = open(
                    &self.params,
                    &self.keys.secret,
                    piece,
                    kappa,
                    Some(&kept(layout, r)),
                )?;
                place(layout, self.shape, r, kappa, opened, &mut out);
            }
            Ok(out)
        })
    }
}

/// The message of ciphertext `c`.
fn slots(table: &[i64], shape: TableShape, c: usize) -> Vec<u64> {
    let ((piece, pieces), stride) = (shape.pieces(), shape.stride());
    let mut out = vec![0; N];
    for slot in 0..stride.min(shape.rows * pieces - c * stride) {
        let (row, part) = ((c * stride + slot) / pieces, (c * stride + slot) % pieces);
        let values = &table[row * shape.columns + part * piece..(row + 1) * shape.columns];
        for (l, &v) in values.iter().take(piece).enumerate() {
            out[l * stride + slot] = Ring::new(shape.bits).from_signed(v);
        }
    }
    out
}

fn place(layout: Layout, shape: TableShape, r: usize, kappa: u32, shares: Vec<u128>, out: &mut [u64]) {
    for (place, share) in layout.places(r).into_iter().zip(shares) {
        out[place.output] = (share >> (kappa - shape.bits)) as u64;
    }
}

/// The client's side: the encrypted table as it came. One serves all sessions with the server that made it.
pub struct TableClient {
    params: Parameters,
    keys: ServerKeys,
    shape: TableShape,
    ciphertexts: Vec<u8>,
    /// X^-slot / 2^pack by slot, NTT form.
    turns: Vec<OnceLock<RnsPoly>>,
}

impl TableClient {
    /// Takes [`TableServer::message`].
    ///
    /// # Errors
    /// For another length or malformed keys.
    pub fn from_message(message: &[u8], shape_: TableShape) -> Result<Self> {
        let params = parameters_olt()?;
        let expected = shape_.check()?.table_len()?;
        if message.len() != expected {
            let detail = format!("{} bytes where {expected} were expected", message.len());
            return Err(MpcError::Message {
                op: "embedding table",
                detail,
            });
        }
        let (keys, ciphertexts) = message.split_at(ServerKeys::byte_len(&params, LIMBS, true));
        Ok(Self {
            keys: ServerKeys::from_bytes(&params, keys, LIMBS, true)?,
            params,
            shape: shape_,
            ciphertexts: ciphertexts.to_vec(),
            turns: (0..shape_.stride()).map(|_| OnceLock::new()).collect(),
        })
    }

    /// The client's shares modulo 2^bits of the rows of `tokens`.
    ///
    /// Cost per piece: one decoding, one merge; per stride of pieces one response.
    ///
    /// # Errors
    /// For tokens outside the table, malformed ciphertexts, errors of the channel.
    pub fn lookup(&self, party: &mut Party, tokens: &[usize]) -> Result<Vec<u64>> {
        if tokens.iter().any(|&t| t >= self.shape.rows) {
            return Err(shape(format!(
                "a token is not below the {} rows of the table",
                self.shape.rows
            )));
        }
        let (layout, kappa) = (
            self.shape.layout(tokens.len()),
            self.shape.budget(&self.params)?.kappa,
        );
        party.measured("embedding", |party| {
            let packer = Packer::new(&self.params, &self.keys.automorphisms, layout, LIMBS);
            let responses: Vec<Response> = (0..layout.responses())
                .into_par_iter()
                .map(|r| self.response(&packer, layout, tokens, r))
                .collect::<Result<_>>()?;
            let (mut message, mut out) = (Vec::new(), vec![0; tokens.len() * self.shape.columns]);
            for (r, Response { bytes, share }) in responses.into_iter().enumerate() {
                message.extend_from_slice(&bytes);
                place(layout, self.shape, r, kappa, share, &mut out);
            }
            party.send(&message)?;
            Ok(out)
        })
    }

    /// The pieces of response `r`, interleaved, freshened and masked.
    fn response(&self, packer: &Packer<'_>, layout: Layout, tokens: &[usize], r: usize) -> Result<Response> {
        let (first, pieces) = (r << layout.pack, self.shape.pieces().1);
        let mut nodes = Vec::new();
        for leaf in first..layout.leaves().min(first + (1 << layout.pack)) {
            let piece = tokens[leaf / pieces] * pieces + leaf % pieces;
            packer.push(&mut nodes, packer.leaf(leaf, self.turned(piece)?));
        }
        let none = || shape("a response without tokens".into());
        let ct = packer.finish(nodes).ok_or_else(none)?;
        let kappa = self.shape.budget(&self.params)?.kappa;
        Ok(respond(
            &self.params,
            &self.keys.public,
            ct,
            kappa,
            Some(&kept(layout, r)),
        )?)
    }

    /// The ciphertext of a piece with the piece at multiples of the stride, divided by 2^pack.
    fn turned(&self, piece: usize) -> Result<Ciphertext> {
        let stride = self.shape.stride();
        let form = self.shape.budget(&self.params)?.rounding;
        let len = form.byte_len(&self.params);
        let mut ct = decode_request(
            &self.params,
            &self.ciphertexts[piece / stride * len..][..len],
            form,
        )?;
        let turn = self.turns[piece % stride].get_or_init(|| self.turn(piece % stride));
        for poly in &mut ct.polys {
            kernels::mul_assign(self.params.modulus(0), &mut poly.limbs[0], &turn.limbs[0]);
        }
        Ok(ct)
    }

    fn turn(&self, slot: usize) -> RnsPoly {
        let m = self.params.modulus(0);
        let scale = m.center(m.inv(self.shape.stride() as u64));
        let mut x = vec![0; N];
        match slot {
            0 => x[0] = scale,
            _ => x[N - slot] = -scale,
        }
        RnsPoly::from_small(&self.params, &x, LIMBS, 0)
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
