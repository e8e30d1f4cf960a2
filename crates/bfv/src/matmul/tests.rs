//! The evaluator against plain arithmetic, with one secret key in the room.
use super::*;
use crate::crt::Crt;
use crate::matmul::plan::Plain;
use crate::matmul::product::Inputs;
use crate::matmul::rounds::{ciphertexts, evaluate};
use crate::matmul::window::Grid;
use crate::params::log_q;
use crate::request::{decode_request, encrypt_message, Rounding};
use crate::response::open;
use crate::{parameters_olt, ClientKeys, ServerKeys, N, NARROW, WIDE};
use std::sync::OnceLock;
use tacita_ring::kernels;
use tacita_rlwe::{Ciphertext, Parameters};

const SHARES: Plain = Plain::Shares { opened: false };

fn weights(log_norm: u32) -> Plain {
    let opened = false;
    Plain::Weights { log_norm, opened }
}

fn keys() -> &'static (Parameters, ClientKeys, ServerKeys) {
    static KEYS: OnceLock<(Parameters, ClientKeys, ServerKeys)> = OnceLock::new();
    KEYS.get_or_init(|| {
        let params = parameters_olt().unwrap();
        let client = ClientKeys::generate(&params).unwrap();
        let server = client.server_keys(&params, WIDE, true).unwrap();
        (params, client, server)
    })
}

fn noise(seed: u64, i: usize) -> u64 {
    let z = (seed + i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 27)
}

fn encrypt(plan: &Plan, message: &[u64]) -> Ciphertext {
    let (params, client, _) = keys();
    let form = plan.budget.rounding;
    let bytes = encrypt_message(params, &client.secret, message, plan.bits, form).unwrap();
    decode_request(params, &bytes, form).unwrap()
}

/// Random shares: the client's x and y1, the server's x0 and y (weights, or its shares).
struct Sample {
    x: Vec<u64>,
    y1: Vec<u64>,
    x0: Vec<i64>,
    y: Vec<i64>,
}

fn sample(plan: &Plan) -> Sample {
    let bits = plan.bits;
    let Dims { k, m, n, batch } = plan.layout.grid.dims;
    let mask = u64::MAX >> (64 - bits);
    let signed = |v: u64| ((v << (64 - bits)) as i64) >> (64 - bits);
    let share = |seed, i| signed(noise(seed, i) & mask);
    let weight = |i| (noise(4, i) % (1 << 15)) as i64 - (1 << 14);
    let weights = matches!(plan.plain, Plain::Weights { .. });
    Sample {
        x: (0..batch * k * m).map(|i| noise(1, i) & mask).collect(),
        y1: (0..batch * m * n).map(|i| noise(2, i) & mask).collect(),
        x0: (0..batch * k * m).map(|i| share(3, i)).collect(),
        y: (0..batch * m * n)
            .map(|i| if weights { weight(i) } else { share(4, i) })
            .collect(),
    }
}

/// The evaluator's inputs: requests of x (and y1).
fn encrypted<'a>(plan: &Plan, sample: &'a Sample) -> Inputs<'a> {
    let (grid, crossed) = (plan.layout.grid, plan.crossed());
    let [lefts, rights] = grid.requests(crossed);
    let one = |number| encrypt(plan, &grid.message(number, &sample.x, &sample.y1, plan.bits));
    let mut left: Vec<Ciphertext> = (0..lefts + rights).map(one).collect();
    let right = left.split_off(lefts);
    Inputs {
        left,
        right: &sample.y,
        crossed: crossed.then_some((right, &sample.x0[..])),
    }
}

/// Runs a plan on random shares and returns the largest error of any result, in units of the ring.
fn run(plan: &Plan) -> u64 {
    let (params, client, server) = keys();
    let bits = plan.bits;
    let Dims { k, m, n, .. } = plan.layout.grid.dims;
    let sample = sample(plan);
    let responses = evaluate(params, server, plan, encrypted(plan, &sample)).unwrap();
    let responses: Vec<_> = responses.map(Result::unwrap).collect();
    assert_eq!(responses.len(), plan.layout.responses());
    let Sample { x, y1, x0, y } = &sample;
    let mut worst = 0;
    for (r, response) in responses.iter().enumerate() {
        let places = plan.layout.places(r);
        let keep: Vec<usize> = places.iter().map(|p| p.coefficient).collect();
        let kappa = plan.budget.kappa;
        let opened = open(params, &client.secret, &response.bytes, kappa, Some(&keep)).unwrap();
        for ((place, theirs), mine) in places.iter().zip(opened).zip(&response.share) {
            let (h, at) = (place.output / (k * n), place.output % (k * n));
            let (i, l) = (at / n, at % n);
            let expected = (0..m).fold(0u64, |sum, j| {
                let (xi, yi) = ((h * k + i) * m + j, (h * m + j) * n + l);
                let term = x[xi].wrapping_mul(y[yi] as u64);
                let cross = if plan.crossed() {
                    (x0[xi] as u64).wrapping_mul(y1[yi])
                } else {
                    0
                };
                sum.wrapping_add(term).wrapping_add(cross)
            });
            // Both as fractions of the ring, to 2^-64.
            let found = (theirs.wrapping_add(*mine) << (128 - kappa) >> 64) as u64;
            let error = found.wrapping_sub(expected << (64 - bits)) as i64;
            worst = worst.max(error.unsigned_abs() >> (64 - bits));
        }
    }
    worst
}

fn planned(dims: (usize, usize, usize, usize), bits: u32, slack: u32, plain: Plain) -> Plan {
    let (k, m, n, batch) = dims;
    let dims = Dims { k, m, n, batch };
    Plan::new(&keys().0, dims, bits, slack, plain, &Costs::default()).unwrap()
}

#[test]
fn odd_shapes_and_rings_are_right_within_the_slack() {
    let weights = weights(24);
    for (dims, bits, slack) in [
        ((1, 1, 1, 1), 64, 12),
        ((3, 5, 7, 1), 64, 4),
        ((3, 5, 7, 2), 32, 8),
        ((129, 65, 33, 1), 64, 12),
        ((1, 8193, 3, 1), 64, 12),
        ((2, 100, 900, 1), 40, 10),
    ] {
        let plan = planned(dims, bits, slack, weights);
        let error = run(&plan);
        assert!(error < 1 << slack, "{dims:?}, {bits} bits: {error}, {plan:?}");
    }
}

#[test]
fn every_depth_of_packing_and_both_moduli() {
    let (params, _, _) = keys();
    let (k, m, n, batch) = (3, 70, 50, 1);
    for (mw, kw, nw, heads) in [(64, 3, 25, 1), (16, 1, 7, 1)] {
        let (dims, window) = (Dims { k, m, n, batch }, Window { kw, mw, nw, heads });
        let grid = Grid { dims, window };
        for pack in 0..=mw.ilog2() {
            let layout = Layout { grid, pack, join: 0 };
            let weights = weights(18);
            for (bits, slack, plain) in [(64, 12, weights), (60, 10, SHARES)] {
                let plan = Plan::with_layout(params, layout, bits, slack, plain, &Costs::default()).unwrap();
                let wide = plan.budget.rounding.limbs == WIDE;
                assert_eq!(wide, plain == SHARES);
                let error = run(&plan);
                assert!(error < 1 << slack, "pack {pack}, {plain:?}: {error}");
            }
        }
    }
}

/// Eight block rows, whose leaves are joined by none, two, four and eight, in trees of all depths: windows
/// whose plain blocks are transformed in parts and as a whole, both moduli, several heads.
#[test]
fn requests_are_joined_at_every_level() {
    let (params, _, _) = keys();
    for ((k, m, n, batch), (kw, mw, nw, heads), bits) in [
        ((15, 70, 50, 2), (2, 64, 25, 1), 64),
        ((15, 70, 50, 3), (2, 64, 25, 2), 64),
        ((8, 300, 9, 1), (1, 256, 8, 1), 64),
        ((8, 40, 70, 1), (1, 64, 64, 1), 64),
        ((8, 4100, 2, 1), (1, 4096, 2, 1), 60),
    ] {
        let (dims, window) = (Dims { k, m, n, batch }, Window { kw, mw, nw, heads });
        let grid = Grid { dims, window };
        for (pack, join) in (0..=mw.ilog2()).flat_map(|pack| (0..=pack.min(3)).map(move |join| (pack, join)))
        {
            let (layout, weights) = (Layout { grid, pack, join }, weights(20));
            let plan = Plan::with_layout(params, layout, bits, 12, weights, &Costs::default()).unwrap();
            let error = run(&plan);
            assert!(error < 1 << 12, "{dims:?} pack {pack}, join {join}: {error}");
        }
    }
}

/// Switches before the weights add noise that grows with the weights: the bound counts it. Requests without
/// dropped bits have next to no noise of their own, so what is measured are the switches.
#[test]
fn noise_of_joined_requests_is_within_its_bound() {
    let (params, _, _) = keys();
    let [(k, m, n, batch), (kw, mw, nw, heads)] = [(16, 256, 8, 1), (1, 256, 8, 1)];
    let (dims, window) = (Dims { k, m, n, batch }, Window { kw, mw, nw, heads });
    let grid = Grid { dims, window };
    let noise = |join| {
        let layout = Layout { grid, pack: 6, join };
        let mut plan = Plan::with_layout(params, layout, 64, 12, weights(18), &Costs::default()).unwrap();
        plan.budget.rounding.drop = 0;
        // In units of the phase, to which 8 standard deviations are compared.
        noise_log2(&plan) - f64::from(plan.budget.kappa) + log_q(params, NARROW)
    };
    let bound = |join| {
        let norm = 18f64.exp2() * 8f64.sqrt();
        let operands = |norm| Operands {
            bits: 64,
            slack: 12,
            norm,
            pack: 6,
            join,
        };
        (operands(norm).variance(params, NARROW) * 64.0).log2() / 2.0
    };
    let found: Vec<f64> = (0..=4).map(noise).collect();
    for (join, &found) in found.iter().enumerate() {
        let bound = bound(join as u32);
        assert!(
            found < bound && found > bound - 3.5,
            "join {join}: 2^{found:.1} of 2^{bound:.1}"
        );
    }
    assert!(found[1] > found[0] + 3.0, "{found:?}");
}

#[test]
fn heads_share_responses() {
    let plan = planned((128, 32, 128, 12), 46, 10, SHARES);
    assert_eq!(plan.budget.rounding.limbs, NARROW);
    assert!(plan.layout.responses() <= 2 * 12 * 128 * 128 / N);
    assert!(run(&plan) < 1 << 10);
}

/// Eight rows of 32 heads fill an eighth of a ciphertext a head, one row less: heads lie side by side in
/// requests, each of which has results of its own.
#[test]
fn heads_share_requests() {
    for (dims, least) in [((8, 128, 8, 32), 4), ((8, 8, 128, 32), 4), ((1, 64, 16, 12), 12)] {
        for plain in [SHARES, Plain::OneShare { opened: false }] {
            let plan = planned(dims, 40, 10, plain);
            assert!(
                plan.layout.grid.window.heads >= least && run(&plan) < 1 << 10,
                "{plan:?}"
            );
        }
    }
}

#[test]
fn wrong_inputs_are_refused() {
    let (params, _, server) = keys();
    let plan = planned((3, 5, 7, 1), 64, 12, weights(20));
    let inputs = Inputs {
        left: vec![],
        right: &[0; 35],
        crossed: None,
    };
    assert!(evaluate(params, server, &plan, inputs).is_err());
    let dims = Dims {
        k: 0,
        m: 1,
        n: 1,
        batch: 1,
    };
    assert!(Plan::new(params, dims, 64, 12, SHARES, &Costs::default()).is_err());
}

/// The peer's chooser prices transforms of weights at nothing, and takes (128, 64, 1) for 128 x 768 x 768:
/// 9216 transforms a prime.
#[test]
fn the_chooser_prices_weight_transforms() {
    let (params, _, _) = keys();
    let dims = Dims {
        k: 128,
        m: 768,
        n: 768,
        batch: 1,
    };
    let plan = |costs: &Costs| Plan::new(params, dims, 64, 12, weights(24), costs).unwrap();
    let transforms = |plan: &Plan| plan.layout.grid.m_blocks() * plan.layout.grid.n_blocks();
    let costs = Costs {
        byte: 1.0,
        ..Costs::default()
    };
    let free = Costs {
        transform: 0.0,
        encode: 0.0,
        merge: 0.0,
        ..costs
    };
    let dear = Costs {
        transform: 40.0 * costs.transform,
        ..costs
    };
    let (usual, blind) = (plan(&costs), plan(&free));
    assert!(
        usual.price.cpu < with_prices(&blind, &costs),
        "{usual:?} against {blind:?}"
    );
    assert!(transforms(&plan(&dear)) < transforms(&usual));
    // The price is what its parts cost: 40 transforms instead of one, for every plain polynomial and both
    // primes.
    let same = |costs: &Costs| with_prices(&usual, costs);
    let per_polynomial = (same(&dear) - same(&costs)) / (transforms(&usual) * NARROW) as f64;
    assert!(
        (10.0..39.01).contains(&(per_polynomial / costs.transform)),
        "{per_polynomial}"
    );
}

fn with_prices(plan: &Plan, costs: &Costs) -> f64 {
    costs
        .price(&keys().0, &plan.layout, &plan.budget, plan.crossed())
        .cpu
}

#[test]
fn the_target_shapes_are_planned_within_their_bytes() {
    let weights = weights(24);
    for (dims, most) in [
        ((128, 768, 768, 1), 4e6),
        ((1, 50257, 768, 1), 1.3e6),
        ((16, 768, 3072, 1), 2.5e6),
    ] {
        let price = planned(dims, 64, 12, weights).price;
        let bytes = (price.bytes[0] + price.bytes[1]) as f64;
        assert!(bytes < most && price.cpu < 1e9, "{dims:?}: {price:?}");
    }
}

/// log2 of the largest lattice noise of any result before the masks, in the units of 2^-kappa to which
/// responses are rounded.
///
/// The phase is q v / 2^bits + noise with integers v, so 2^bits times it is 2^bits noise modulo q: the values
/// drop out.
fn noise_log2(plan: &Plan) -> f64 {
    const DIGITS: u32 = 72;
    let (params, client, server) = keys();
    let mut worst = 0;
    let sample = sample(plan);
    let cts: Vec<_> = ciphertexts(params, server, plan, encrypted(plan, &sample))
        .unwrap()
        .flatten()
        .collect();
    for (r, ct) in cts.iter().enumerate() {
        let mut useful = vec![false; N];
        plan.layout
            .places(r)
            .iter()
            .for_each(|place| useful[place.coefficient] = true);
        let (mut phase, limbs) = (ct.polys[1].clone(), ct.limbs());
        for (i, limb) in phase.limbs.iter_mut().enumerate() {
            let m = params.modulus(i);
            kernels::mul_assign(m, limb, &client.secret.ntt().limbs[i]);
            kernels::add_assign(m, limb, &ct.polys[0].limbs[i]);
            kernels::mul_scalar_assign(m, limb, m.pow(2, plan.bits.into()));
            params.table(i).inverse(limb);
        }
        Crt::new(params, limbs).scale_down(&mut phase, DIGITS, |at, x| {
            worst = worst.max(if useful[at] { x.min((1 << DIGITS) - x) } else { 0 });
        });
    }
    (worst as f64).log2() - f64::from(DIGITS + plan.bits) + f64::from(plan.budget.kappa)
}

/// The client knows the errors of its requests, so what they do to an opened value would tell it about
/// weights or the other party's shares. Measured: with `opened` they stay below 2^-40 of what the mask's
/// rounding takes; without, they do not.
#[test]
fn opened_products_hide_their_noise() {
    let (mean, row) = ((1, 128, 384, 1), (1, 768, 2, 1));
    let shares = [Plain::OneShare { opened: true }, Plain::Shares { opened: true }];
    let logits = Plain::Weights {
        log_norm: 24,
        opened: true,
    };
    let cases = shares.map(|plain| (mean, 46, plain)).into_iter();
    for (dims, bits, plain) in cases.chain([(row, 64, logits)]) {
        let plan = planned(dims, bits, 12, plain);
        assert_eq!(
            (plan.budget.rounding, plan.layout.pack),
            (Rounding { limbs: WIDE, drop: 0 }, 0)
        );
        let noise = noise_log2(&plan);
        assert!(noise < -40.0 && noise > -90.0, "{plain:?}: 2^{noise:.1}");
        assert!(run(&plan) < 1 << 12);
    }
    let half = Plain::OneShare { opened: false };
    for (dims, bits, plain) in [(mean, 46, half), (mean, 46, SHARES), (row, 64, weights(24))] {
        let noise = noise_log2(&planned(dims, bits, 12, plain));
        assert!(noise > -10.0, "{plain:?}: 2^{noise:.1}, nothing to find");
    }
}
