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
        let terms = vec![&ct.polys[0].limbs[0][..]; 12];
        let bodies: Vec<_> = (0..24).map(|_| ct.polys[1].limbs[0].clone()).collect();
        let views: Vec<&[f64]> = bodies.iter().map(|b| &b[..]).collect();
        let (mut b, mut a) = (limb()?, limb()?);
        let dims = Dims {
            k: 1,
            m: 2,
            n: 2,
            batch: 1,
        };
        let window = Window { kw: 1, mw: 2, nw: 1 };
        let layout = Layout {
            grid: Grid { dims, window },
            pack: 1,
        };
        let packer = Packer::new(&params, &server.automorphisms, layout, NARROW);
        let response = respond(&params, &server.public, ct.clone(), kappa, None)?;
        Ok(Self {
            transform: quickest(limb, |mut x| {
                params.table(0).forward(&mut x);
                Ok(x)
            })?,
            multiply: quickest(nothing, |()| {
                kernels::inner_product2(
                    params.modulus(0),
                    &mut b,
                    &mut a,
                    &terms,
                    &views[..12],
                    &views[12..],
                );
                Ok(())
            })? / 12.0,
            merge: quickest(
                || Ok(vec![packer.leaf(0, ct.clone()), packer.leaf(1, ct.clone())]),
                |nodes| Ok(packer.finish(nodes)),
            )?,
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
