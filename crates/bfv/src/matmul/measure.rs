//! Measuring the prices of [`Costs`].
use super::cost::Costs;
use super::layout::Layout;
use super::packing::Packer;
use super::window::{Dims, Grid, Window};
use crate::params::N;
use crate::request::{decode_request, encrypt_message, Rounding};
use crate::{open, parameters_olt, respond, ClientKeys, Result, NARROW};
use std::time::Instant;
use tacita_ring::kernels;

/// Runs of each operation; the quickest counts.
const RUNS: usize = 15;

/// Nanoseconds of the quickest run of `body` on an input made by `prepare`.
fn quickest<I, O>(
    mut prepare: impl FnMut() -> Result<I>,
    mut body: impl FnMut(I) -> Result<O>,
) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let input = prepare()?;
        let began = Instant::now();
        let output = body(input)?;
        best = best.min(began.elapsed().as_nanos() as f64);
        drop(output);
    }
    Ok(best)
}

impl Costs {
    /// Prices of this machine (the calling thread alone), for the default link. Takes about a second.
    ///
    /// # Errors
    /// When the operating system gives no randomness.
    pub fn measure() -> Result<Self> {
        let params = parameters_olt()?;
        let client = ClientKeys::generate(&params)?;
        let server = client.server_keys(&params, NARROW, true)?;
        let form = Rounding {
            limbs: NARROW,
            drop: 18,
        };
        let (message, kappa) = (vec![7u64; N], 61);
        let bytes = encrypt_message(&params, &client.secret, &message, 64, form)?;
        let ct = decode_request(&params, &bytes, form)?;
        let limb = || Ok(ct.polys[0].limbs[0].clone());
        let nothing = || Ok(());
        let limbs: Vec<_> = (0..48).map(|_| ct.polys[0].limbs[0].clone()).collect();
        let rows: Vec<&[f64]> = limbs.iter().map(|limb| &limb[..]).collect();
        let mut b = limb()?;
        let mut sums = [(); 4].map(|()| [ct.polys[0].limbs[0].clone(), ct.polys[1].limbs[0].clone()]);
        let dims = Dims {
            k: 1,
            m: 4,
            n: 4,
            batch: 1,
        };
        let window = Window {
            kw: 1,
            mw: 4,
            nw: 1,
            heads: 1,
        };
        let layout = Layout {
            grid: Grid { dims, window },
            pack: 2,
            join: 0,
        };
        let packer = Packer::new(&params, &server.automorphisms, layout, NARROW);
        let pairs = packer.pairs(&[&ct; 12]);
        let response = respond(&params, &server.public, ct.clone(), kappa, None)?;
        Ok(Self {
            transform: quickest(limb, |mut x| {
                params.table(0).forward(&mut x);
                Ok(x)
            })?,
            permute: quickest(limb, |x| {
                server.automorphisms[0].permutation.apply(&mut b, &x);
                Ok(x)
            })?,
            multiply: quickest(nothing, |()| {
                let mut outs: Vec<_> = sums
                    .iter_mut()
                    .map(|sum| sum.each_mut().map(|x| &mut x[..]))
                    .collect();
                kernels::inner_products2(params.modulus(0), &mut outs, &rows, &pairs[0], true);
                Ok(())
            })? / 48.0,
            merge: quickest(
                || Ok((0..4).map(|number| packer.node(number, ct.clone())).collect()),
                |nodes| Ok(packer.finish(nodes)),
            )? / 3.0,
            encrypt: quickest(nothing, |()| {
                encrypt_message(&params, &client.secret, &message, 64, form)
            })?,
            decode: quickest(nothing, |()| decode_request(&params, &bytes, form))?,
            respond: quickest(
                || Ok(ct.clone()),
                |ct| respond(&params, &server.public, ct, kappa, None),
            )?,
            open: quickest(nothing, |()| {
                open(&params, &client.secret, &response.bytes, kappa, None)
            })?,
            ..Self::default()
        })
    }
}
