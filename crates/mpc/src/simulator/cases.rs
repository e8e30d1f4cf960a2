//! Protocols whose views are simulated: each on copies of one extreme value, so that any trace of it in a
//! message shows.
use super::answer;
use super::link::Public;
use crate::channel::Link;
use crate::compare::negative;
use crate::linear::table::{TableClient, TableServer, TableShape};
use crate::linear::{share_times_share_with, share_times_weights_with, Dims, Options};
use crate::nonlinear::few::scaled_any;
use crate::nonlinear::{gelu, layer_norm, silu, softmax_parts, tanh, Fixed, Norm, SiluForm};
use crate::ot::CotKind;
use crate::products::{product, square_narrow};
use crate::{Party, Result, Ring, Role};
use tacita_bfv::matmul::plan::Plain;
use tacita_bfv::matmul::{Costs, Plan};
use tacita_bfv::parameters_olt;

type Run = Box<dyn Fn(&mut Party, u64) -> Result<Vec<u64>> + Sync>;
type Open = Box<dyn Fn(u64) -> Public + Sync>;

/// A protocol; both parties run it on shares that are all `extreme`. It returns what is opened, at the
/// client.
pub struct Case {
    pub name: &'static str,
    pub run: Run,
    /// Plans and output for an extreme.
    pub public: Open,
}

const COUNT: usize = 8192;
const WIDE: Fixed = Fixed::new(64, 18);

pub(super) fn copies(extreme: u64, ring: Ring, count: usize) -> Vec<u64> {
    vec![ring.reduce(extreme); count]
}

/// A case without matrix products.
pub(super) fn plain(
    name: &'static str,
    kind: CotKind,
    protocol: impl Fn(&mut Party, u64) -> Result<()> + Sync + 'static,
) -> Case {
    let run = move |party: &mut Party, extreme| {
        party.setup_ot(kind)?;
        party.setup_products()?;
        protocol(party, extreme)?;
        Ok(vec![])
    };
    Case {
        name,
        run: Box::new(run),
        public: Box::new(|_| Public::default()),
    }
}

pub fn all() -> Vec<Case> {
    let mut cases = elementwise();
    cases.extend([
        weights("weights", false),
        weights("opened logits", true),
        shares("attention", dims(32, 32, 32, 2), false),
        shares("opened mean", dims(1, 128, 384, 1), true),
        table(),
    ]);
    cases
}

pub fn transfers(kind: CotKind) -> Case {
    plain("transfers and look-ups", kind, |party, e| {
        let (bits, digits, indices) = (
            vec![e as u8 & 1; COUNT],
            vec![e as u8 & 3; COUNT],
            vec![e as u8 & 15; COUNT],
        );
        let chosen = party.choose(&bits)?;
        party.correlate(&vec![e; COUNT], Ring::new(64))?;
        party.take_correlated(chosen, Ring::new(64))?;
        let chosen = party.choose_of(4, &indices)?;
        party.offer(4, 2, &vec![e as u8 & 3; 16 * COUNT])?;
        party.take(chosen, 2)?;
        let chosen = party.choose_lanes(2, &digits, &vec![e as u8 & 1; 2 * COUNT])?;
        party.offer_lanes(2, COUNT, &vec![e as u8 & 1; 8 * 2 * COUNT])?;
        party.take_lanes(chosen)?;
        let chosen = party.choose_bits(&copies(e, Ring::new(20), 512), Ring::new(20))?;
        party.offer_multiples(&copies(e, Ring::new(20), 512), Ring::new(20))?;
        party.take_multiples(chosen).map(|_| ())
    })
}

fn elementwise() -> Vec<Case> {
    let compare = plain("comparison", CotKind::Ferret, |party, e| {
        negative(party, &copies(e, Ring::new(17), COUNT), Ring::new(17)).map(|_| ())
    });
    let activation = plain("gelu", CotKind::Ferret, |party, e| {
        gelu(
            party,
            &copies(e, WIDE.ring, COUNT),
            WIDE.ring,
            WIDE.frac,
            WIDE.ring,
        )
        .map(|_| ())
    });
    let pooler = plain("tanh", CotKind::Ferret, |party, e| {
        tanh(party, &copies(e, WIDE.ring, COUNT), WIDE, WIDE, 6).map(|_| ())
    });
    let attention = plain("softmax", CotKind::Ferret, |party, e| {
        let (power, inverse) = (Ring::new(44), Fixed::new(40, 24));
        softmax_parts(
            party,
            &copies(e, WIDE.ring, COUNT),
            64,
            128,
            WIDE,
            10,
            power,
            inverse,
        )
        .map(|_| ())
    });
    let norm = plain("layer norm", CotKind::Ferret, |party, e| {
        norm_of(party, e, 64, 128).map(|_| ())
    });
    let gate = plain("gate of SiLU, square", CotKind::Ferret, |party, e| {
        let x = copies(e, WIDE.ring, COUNT);
        silu(party, &x, WIDE, WIDE.ring, SiluForm::Abs16, 6)?;
        let (ring, narrow) = (Ring::new(30), Ring::new(18));
        let factor = copies(e, ring, COUNT);
        product(party, &factor, &factor, ring, 14)?;
        square_narrow(
            party,
            &copies(e, narrow, COUNT),
            [narrow, Ring::new(33)],
            14,
            true,
        )
        .map(|_| ())
    });
    let row = plain("rows of few values", CotKind::Ferret, |party, e| {
        let (rows, short, wide) = (copies(e, Ring::new(19), 9), Ring::new(19), Ring::new(32));
        scaled_any(party, &rows, [short; 2], &copies(e, wide, 9 * 400), wide, 15)?;
        norm_of(party, e, 6, 576)?;
        // squares beside comparisons, inverses by segments
        party.set_link(Link::FAR);
        let x = copies(e, WIDE.ring, 2048);
        silu(party, &x, WIDE, WIDE.ring, SiluForm::Abs8, 6)?;
        let to = (Ring::new(44), Fixed::new(32, 16));
        softmax_parts(party, &x, 64, 32, WIDE, 10, to.0, to.1).map(|_| ())
    });
    let transfers = [CotKind::Ferret, CotKind::SoftSpoken].map(transfers);
    transfers
        .into_iter()
        .chain([compare, activation, gate, pooler, attention, norm, row])
        .collect()
}

/// A layer norm of copies; beta is gamma.
fn norm_of(party: &mut Party, extreme: u64, rows: usize, cols: usize) -> Result<Vec<u64>> {
    let norm = Norm {
        rows,
        cols,
        centred: true,
        bound: 8.0,
        least: 0.05,
        gamma: 2.0,
        epsilon: 1e-5,
    };
    let gamma = vec![if extreme == 0 { 0.0 } else { 1.9 }; cols];
    let gamma = (!party.is_client()).then_some(gamma.as_slice());
    let x = copies(extreme, WIDE.ring, rows * cols);
    layer_norm(party, &x, WIDE, &norm, gamma, gamma, WIDE)
}

pub(super) fn dims(k: usize, m: usize, n: usize, batch: usize) -> Dims {
    Dims { k, m, n, batch }
}

/// The server reveals its share; the client adds its own.
fn open(party: &mut Party, share: &[u64], ring: Ring) -> Result<Vec<u64>> {
    let own = answer(share);
    if !party.is_client() {
        party.measured("reveal", |party| party.send(&own))?;
        return Ok(vec![]);
    }
    let theirs = party.measured("reveal", |party| party.receive(own.len()))?;
    let words = |bytes: &[u8]| -> Vec<u64> {
        let (words, _) = bytes.as_chunks();
        words.iter().map(|&word| u64::from_le_bytes(word)).collect()
    };
    let kept = Ring::new(ring.bits() - super::DROPPED);
    Ok(words(&own)
        .iter()
        .zip(words(&theirs))
        .map(|(a, b)| kept.add(*a, b))
        .collect())
}

/// Of 2 e each, times weights that are all alike.
fn weights(name: &'static str, opened: bool) -> Case {
    let (d, ring) = (dims(64, 96, 64, 1), Ring::new(64));
    let options = Options {
        opened,
        ..Options::default()
    };
    let weight = |e: u64| (e % 1000) as i64;
    let run = move |party: &mut Party, e| {
        let weights = vec![weight(e); d.m * d.n];
        let weights = (!party.is_client()).then_some(&weights[..]);
        let share = share_times_weights_with(party, &vec![e; d.k * d.m], weights, d, ring, options)?;
        if opened {
            return open(party, &share, ring);
        }
        Ok(vec![])
    };
    let public = move |e: u64| {
        let value = e
            .wrapping_mul(2)
            .wrapping_mul(weight(e) as u64)
            .wrapping_mul(d.m as u64);
        Public {
            plans: vec![vec![weight_plan(d, ring, options)]],
            output: vec![value; d.k * d.n],
            ring: Some(ring),
            table: None,
        }
    };
    Case {
        name,
        run: Box::new(run),
        public: Box::new(public),
    }
}

/// The plan of a product with weights.
pub(super) fn weight_plan(d: Dims, ring: Ring, options: Options) -> Plan {
    let (params, costs) = (parameters_olt().unwrap(), Costs::default());
    let (log_norm, opened) = (options.log_norm, options.opened);
    let plain = Plain::Weights { log_norm, opened };
    Plan::new(&params, d, ring.bits(), options.slack, plain, &costs).unwrap()
}

/// Of shares that are e each.
fn shares(name: &'static str, d: Dims, opened: bool) -> Case {
    let ring = Ring::new(46);
    let options = Options {
        opened,
        ..Options::default()
    };
    let run = move |party: &mut Party, e| {
        let (x, y) = (
            copies(e, ring, d.batch * d.k * d.m),
            copies(e, ring, d.batch * d.m * d.n),
        );
        let share = share_times_share_with(party, &x, &y, d, ring, options)?;
        if opened {
            return open(party, &share, ring);
        }
        Ok(vec![])
    };
    let public = move |e: u64| {
        let (link, _) = crate::channel::memory_pair(std::time::Duration::ZERO);
        let plans = Party::new(Role::Client, Box::new(link)).plans_of_shares(d, ring, options);
        let value = e
            .wrapping_mul(2)
            .wrapping_mul(e.wrapping_mul(2))
            .wrapping_mul(d.m as u64);
        Public {
            plans: vec![plans.unwrap()],
            output: copies(value, ring, d.batch * d.k * d.n),
            ring: Some(ring),
            table: None,
        }
    };
    Case {
        name,
        run: Box::new(run),
        public: Box::new(public),
    }
}

/// Rows of a hidden table, all tokens alike.
fn table() -> Case {
    let (rows, columns, bits, tokens) = (50, 128, 26, 32);
    let shape = TableShape { rows, columns, bits };
    let server = TableServer::new(&vec![12_345; rows * columns], shape).unwrap();
    let client = TableClient::from_message(server.message(), shape).unwrap();
    let (keys, kappa, kept) = shape.answer_form(tokens).unwrap();
    let form = (server.message()[..keys].to_vec(), kappa, kept);
    let run = move |party: &mut Party, e| {
        if party.is_client() {
            client.lookup(party, &vec![e as usize % rows; tokens])?;
        } else {
            server.lookup(party, tokens)?;
        }
        Ok(vec![])
    };
    let public = move |_| Public {
        table: Some(form.clone()),
        ..Public::default()
    };
    Case {
        name: "hidden table",
        run: Box::new(run),
        public: Box::new(public),
    }
}
