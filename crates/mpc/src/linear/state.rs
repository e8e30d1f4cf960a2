//! Keys, plans and options of the linear protocols.
use crate::channel::Link;
use crate::{MpcError, Party, Result, Ring};
use std::collections::HashMap;
use tacita_bfv::matmul::plan::Plain;
use tacita_bfv::matmul::{Costs, Dims, Plan, Price};
use tacita_bfv::request::Zero;
use tacita_bfv::{parameters_olt, ClientKeys, ServerKeys, NARROW, WIDE};
use tacita_rlwe::Parameters;

/// Public numbers that both parties set alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Results may be off by less than 2^slack units (at least 2). More slack, fewer bytes.
    pub slack: u32,
    /// Every column of the weights has Euclidean norm at most 2^log_norm, in units of their last place. 24 is
    /// a norm of 64 at f = 18, where trained layers have 1 to 10. A tighter bound saves one bit of every
    /// encrypted value per bit.
    pub log_norm: u32,
    /// The client learns the result next (logits, an embedding): noise must not tell anything about the
    /// weights or the server's shares. About twice the bytes.
    pub opened: bool,
}

impl Options {
    /// What the server's side of the plan is.
    pub(super) fn weights(self) -> Plain {
        let Self { log_norm, opened, .. } = self;
        Plain::Weights { log_norm, opened }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            slack: 16,
            log_norm: 24,
            opened: false,
        }
    }
}

/// What a party keeps between calls.
#[derive(Default)]
pub struct State {
    keys: Option<Keys>,
    costs: Costs,
    plans: HashMap<(Dims, u32, u32, Plain), Plan>,
    /// The client's, of [`NARROW`] primes, for requests to come: made while it waits for responses.
    pub(super) zeros: Vec<Zero>,
}

/// How a product of shares is done.
#[derive(Clone, Copy)]
pub(super) enum SharesPlan {
    /// Both products in the same responses, so both encodings have the same window: many requests, few
    /// responses.
    Joint(Plan),
    /// X_1 Y_0, and the transpose of X_0 Y_1 as Y_1^T X_0^T: each with its own window, so that requests are
    /// dense.
    Apart(Plan, Plan),
}

/// One side's keys.
pub(super) struct Keys {
    pub params: Parameters,
    pub side: Side,
}

pub(super) enum Side {
    /// The secret, and whether the server has wide keys.
    Client(ClientKeys, bool),
    /// Keys for two primes and, once asked for, for three.
    Server(ServerKeys, Option<ServerKeys>),
}

impl State {
    /// The plan of a product, remembered.
    pub(super) fn plan(&mut self, dims: Dims, ring: Ring, slack: u32, plain: Plain) -> Result<Plan> {
        let key = (dims, ring.bits(), slack, plain);
        if let Some(plan) = self.plans.get(&key) {
            return Ok(*plan);
        }
        let plan = Plan::new(&parameters_olt()?, dims, ring.bits(), slack, plain, &self.costs)?;
        self.plans.insert(key, plan);
        Ok(plan)
    }

    /// The cheaper way to multiply shares. The errors of two products add up, so each gets half.
    pub(super) fn shares_plan(&mut self, dims: Dims, ring: Ring, options: Options) -> Result<SharesPlan> {
        let Options { slack, opened, .. } = options;
        let transposed = Dims {
            k: dims.n,
            n: dims.k,
            ..dims
        };
        let joint = self.plan(dims, ring, slack, Plain::Shares { opened });
        let mut half = |dims| self.plan(dims, ring, slack - 1, Plain::OneShare { opened });
        let (Ok(left), Ok(right)) = (half(dims), half(transposed)) else {
            return joint.map(SharesPlan::Joint);
        };
        let costs = &self.costs;
        Ok(match joint {
            Ok(j) if j.price.total(costs) < left.price.total(costs) + right.price.total(costs) => {
                SharesPlan::Joint(j)
            }
            _ => SharesPlan::Apart(left, right),
        })
    }
}

/// What a product costs over a link: of shares with weights or, with `crossed`, with shares.
///
/// # Errors
/// Where no window leaves room for its noise.
pub fn price_over(link: Link, dims: Dims, ring: Ring, options: Options, crossed: bool) -> Result<Price> {
    let mut state = State {
        costs: costs_over(link),
        ..State::default()
    };
    if !crossed {
        return Ok(state.plan(dims, ring, options.slack, options.weights())?.price);
    }
    Ok(match state.shares_plan(dims, ring, options)? {
        SharesPlan::Joint(plan) => plan.price,
        SharesPlan::Apart(left, right) => Price {
            cpu: left.price.cpu + right.price.cpu,
            bytes: [0, 1].map(|way| left.price.bytes[way] + right.price.bytes[way]),
        },
    })
}

/// Prices of products over a link: a byte as long as it takes there, within 1 and 800 ns.
pub(crate) fn costs_over(link: Link) -> Costs {
    Costs {
        byte: (8e9 / link.bandwidth).clamp(1.0, 800.0),
        ..Costs::default()
    }
}

impl Party {
    /// Makes the client's lattice keys and sends the server what it needs: 4.1 MB, half a round. Runs once a
    /// session; the other functions of this module run it when it was not.
    ///
    /// # Errors
    /// Those of the channel; malformed keys.
    pub fn setup_linear(&mut self) -> Result<()> {
        if self.linear.keys.is_some() {
            return Ok(());
        }
        self.measured("linear keys", |party| {
            let params = parameters_olt()?;
            let side = if party.is_client() {
                let keys = ClientKeys::generate(&params)?;
                party.send(&keys.server_keys(&params, NARROW, true)?.to_bytes(&params))?;
                Side::Client(keys, false)
            } else {
                Side::Server(receive_keys(party, &params, NARROW)?, None)
            };
            party.linear.keys = Some(Keys { params, side });
            Ok(())
        })
    }

    /// Prices by which windows are chosen; both parties must set the same ones.
    pub fn set_linear_costs(&mut self, costs: Costs) {
        self.linear.costs = costs;
        self.linear.plans.clear();
    }

    /// The plans of a product of shares, in the order in which their messages are put together.
    #[cfg(test)]
    pub(crate) fn plans_of_shares(&mut self, dims: Dims, ring: Ring, options: Options) -> Result<Vec<Plan>> {
        Ok(match self.linear.shares_plan(dims, ring, options)? {
            SharesPlan::Joint(plan) => vec![plan],
            SharesPlan::Apart(left, right) => vec![left, right],
        })
    }

    /// Makes sure that both sides have the keys of a plan: another 8 MB to merge ciphertexts of three primes,
    /// at their first use.
    pub(super) fn linear_keys_for(&mut self, plan: &Plan) -> Result<()> {
        self.setup_linear()?;
        if key_limbs(plan) != WIDE {
            return Ok(());
        }
        let Some(mut keys) = self.linear.keys.take() else {
            return Err(missing());
        };
        let done = match &mut keys.side {
            Side::Client(client, sent @ false) => {
                let wide = client
                    .server_keys(&keys.params, WIDE, true)?
                    .to_bytes(&keys.params);
                *sent = true;
                self.send(&wide)
            }
            Side::Server(_, wide @ None) => receive_keys(self, &keys.params, WIDE).map(|k| *wide = Some(k)),
            _ => Ok(()),
        };
        self.linear.keys = Some(keys);
        done
    }

    /// Lends the lattice keys to `body` together with the party.
    pub(super) fn with_linear_keys<T>(
        &mut self,
        body: impl FnOnce(&mut Self, &Keys) -> Result<T>,
    ) -> Result<T> {
        let keys = self.linear.keys.take().ok_or_else(missing)?;
        let result = body(self, &keys);
        self.linear.keys = Some(keys);
        result
    }
}

impl Keys {
    /// The client's secret.
    pub fn client(&self) -> Result<&ClientKeys> {
        match &self.side {
            Side::Client(keys, _) => Ok(keys),
            Side::Server(..) => Err(missing()),
        }
    }

    /// The server's keys for `limbs` primes.
    pub fn server(&self, limbs: usize) -> Result<&ServerKeys> {
        match &self.side {
            Side::Server(_, Some(wide)) if limbs == WIDE => Ok(wide),
            Side::Server(narrow, _) if limbs == NARROW => Ok(narrow),
            _ => Err(missing()),
        }
    }
}

/// Primes of the keys that a plan needs. Where nothing is merged the public key is enough, and that has all
/// primes always.
pub(super) fn key_limbs(plan: &Plan) -> usize {
    if plan.layout.pack == 0 {
        NARROW
    } else {
        plan.budget.rounding.limbs
    }
}

fn missing() -> MpcError {
    MpcError::Shape {
        op: "linear",
        detail: "the lattice keys of this side are missing: setup_linear must have run on both sides".into(),
    }
}

fn receive_keys(party: &mut Party, params: &Parameters, limbs: usize) -> Result<ServerKeys> {
    let bytes = party.receive(ServerKeys::byte_len(params, limbs, true))?;
    Ok(ServerKeys::from_bytes(params, &bytes, limbs, true)?)
}
