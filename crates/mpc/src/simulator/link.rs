//! The simulator: the other end of a party's link.
use super::Class;
use crate::channel::Channel;
use crate::{Result, Ring};
use curve25519_dalek::{RistrettoPoint, Scalar};
use std::collections::{HashMap, VecDeque};
use tacita_bfv::matmul::Plan;
use tacita_bfv::request::encrypt_message;
use tacita_bfv::slots::{self, PublicKey, Secret, SlotRing, Sum};
use tacita_bfv::{parameters_olt, respond, ClientKeys, Response, ServerKeys, N, NARROW, WIDE};
use tacita_ring::sample::Prng;
use tacita_ring::AlignedVec;
use tacita_rlwe::{Ciphertext, Parameters, RnsPoly};

/// What is public of a run, and the output.
#[derive(Clone, Default)]
pub struct Public {
    /// The plans of the matrix products, message by message.
    pub plans: Vec<Vec<Plan>>,
    /// What the client learns, exactly, in the ring of the last product.
    pub output: Vec<u64>,
    /// That ring.
    pub ring: Option<Ring>,
    /// Keys under which a hidden table is encrypted, with kappa and the kept coefficients of every response.
    pub table: Option<(Vec<u8>, u32, Vec<Vec<usize>>)>,
}

/// Answers a party without knowing what its peer has. Its own secrets are fresh.
pub struct Simulator {
    params: Parameters,
    prng: Prng,
    public: Public,
    plans: VecDeque<Vec<Plan>>,
    /// Classes and lengths of what the peer would send; classes of what the party sends.
    theirs: VecDeque<(Class, usize)>,
    own: VecDeque<Class>,
    /// Keys of its own, in the client's place.
    matrix: ClientKeys,
    secret: Secret,
    /// Keys that the party sent, in the server's place.
    matrix_keys: Option<ServerKeys>,
    slot_keys: HashMap<(u32, usize), Vec<u8>>,
    /// Its share of the last matrix product.
    share: Vec<u64>,
    /// What the party was given.
    pub given: super::Tape,
    received: u64,
}

impl Simulator {
    /// theirs: schedule of the peer's messages. own: of the party's.
    pub fn new(public: Public, theirs: Vec<(Class, usize)>, own: Vec<Class>, given: super::Tape) -> Self {
        let params = parameters_olt().unwrap();
        Self {
            prng: Prng::from_os().unwrap(),
            plans: public.plans.iter().cloned().collect(),
            public,
            theirs: theirs.into(),
            own: own.into(),
            matrix: ClientKeys::generate(&params).unwrap(),
            secret: Secret::generate(N).unwrap(),
            matrix_keys: None,
            slot_keys: HashMap::new(),
            share: vec![],
            given,
            received: 0,
            params,
        }
    }

    fn message(&mut self, class: Class, len: usize) -> Vec<u8> {
        match class {
            Class::Random => self.random(len),
            Class::Points => (0..len / 32).flat_map(|_| self.point()).collect(),
            Class::MatrixKeys => self.matrix_keys(len),
            Class::MatrixRequests => self.matrix_requests(),
            Class::MatrixResponses => self.matrix_responses(),
            Class::SlotKey { width, index } => {
                let ring = SlotRing::new(width, index).unwrap();
                PublicKey::generate(&ring, &self.secret.over(&ring)).unwrap()
            }
            Class::SlotRequest { width, count } => (0..count)
                .flat_map(|index| self.slot_zero(width, index))
                .collect(),
            Class::SlotResponse { width, count } => (0..count)
                .flat_map(|index| self.slot_answer(width, index))
                .collect(),
            Class::TableAnswer => self.table_answer(),
            Class::Opened => self.opened(),
        }
    }

    fn random(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.prng.fill(&mut bytes);
        bytes
    }

    fn point(&mut self) -> [u8; 32] {
        let mut wide = [0; 64];
        self.prng.fill(&mut wide);
        let point = RistrettoPoint::mul_base(&Scalar::from_bytes_mod_order_wide(&wide));
        point.compress().to_bytes()
    }

    fn matrix_keys(&self, len: usize) -> Vec<u8> {
        let narrow = len == ServerKeys::byte_len(&self.params, NARROW, true);
        let limbs = if narrow { NARROW } else { WIDE };
        let keys = self.matrix.server_keys(&self.params, limbs, true).unwrap();
        keys.to_bytes(&self.params)
    }

    /// Encryptions of zero, as many as the plans ask for.
    fn matrix_requests(&mut self) -> Vec<u8> {
        let plans = self.plans.pop_front().expect("a plan for every product");
        let zero = |plan: &Plan| {
            let form = plan.budget.rounding;
            encrypt_message(&self.params, &self.matrix.secret, &vec![0; N], plan.bits, form).unwrap()
        };
        let requests = |plan: &Plan| {
            let counts = plan.layout.grid.requests(plan.crossed());
            counts.into_iter().sum::<usize>()
        };
        let all = plans
            .iter()
            .flat_map(|plan| (0..requests(plan)).map(move |_| plan));
        all.flat_map(zero).collect()
    }

    /// Zeros, freshened and masked.
    fn matrix_responses(&mut self) -> Vec<u8> {
        let plans = self.plans.pop_front().expect("a plan for every product");
        let keys = self.matrix_keys.as_ref().expect("the party sent its keys");
        let dims = plans[0].layout.grid.dims;
        self.share = vec![0; dims.batch * dims.k * dims.n];
        let mut message = vec![];
        for plan in plans {
            let (layout, kappa) = (plan.layout, plan.budget.kappa);
            for r in 0..layout.responses() {
                let places = layout.places(r);
                let keep: Vec<usize> = places.iter().map(|place| place.coefficient).collect();
                let zero = zero(&self.params, plan.budget.rounding.limbs);
                let Response { bytes, share } =
                    respond(&self.params, &keys.public, zero, kappa, Some(&keep)).unwrap();
                message.extend(bytes);
                // A row's two products lie alike, so their shares add up (other shapes are not opened).
                for (place, share) in places.iter().zip(share) {
                    let share = (share << (128 - kappa) >> 64) as u64 >> (64 - plan.bits);
                    self.share[place.output] = self.share[place.output].wrapping_add(share);
                }
            }
        }
        message
    }

    fn slot_zero(&self, width: u32, index: usize) -> Vec<u8> {
        let ring = SlotRing::new(width, index).unwrap();
        slots::encrypt(&ring, &self.secret.over(&ring), AlignedVec::zeroed(N)).unwrap()
    }

    fn slot_answer(&self, width: u32, index: usize) -> Vec<u8> {
        let ring = SlotRing::new(width, index).unwrap();
        let key = PublicKey::from_bytes(&ring, &self.slot_keys[&(width, index)]).unwrap();
        slots::respond(&ring, &key, Sum::zero(&ring)).unwrap().0
    }

    fn table_answer(&self) -> Vec<u8> {
        let (keys, kappa, kept) = self.public.table.as_ref().expect("a table");
        let keys = ServerKeys::from_bytes(&self.params, keys, 1, true).unwrap();
        let answer = |keep: &Vec<usize>| {
            respond(
                &self.params,
                &keys.public,
                zero(&self.params, 1),
                *kappa,
                Some(keep),
            )
        };
        kept.iter().flat_map(|keep| answer(keep).unwrap().bytes).collect()
    }

    /// What the server would reveal if its share were the output less the client's.
    fn opened(&self) -> Vec<u8> {
        let ring = self.public.ring.expect("the ring of an answer");
        let total = self.share.iter().zip(&self.public.output);
        super::answer(&total.map(|(share, y)| ring.add(*share, *y)).collect::<Vec<_>>())
    }
}

/// A ciphertext that is zero.
fn zero(params: &Parameters, limbs: usize) -> Ciphertext {
    let polys = (0..2).map(|_| RnsPoly::zero(params, limbs, 0)).collect();
    Ciphertext { polys, scale: 1.0 }
}

impl Channel for Simulator {
    fn send(&mut self, message: &[u8]) -> Result<()> {
        match self.own.pop_front().expect("no more messages than in a real run") {
            Class::MatrixKeys => {
                let limbs = NARROW;
                let found = ServerKeys::from_bytes(&self.params, message, limbs, true)?;
                self.matrix_keys.get_or_insert(found);
            }
            Class::SlotKey { width, index } => {
                self.slot_keys.insert((width, index), message.to_vec());
            }
            _ => {}
        }
        Ok(())
    }

    fn receive(&mut self, len: usize) -> Result<Vec<u8>> {
        let (class, due) = self
            .theirs
            .pop_front()
            .expect("no more messages than in a real run");
        assert_eq!(len, due, "{class:?}");
        let message = self.message(class, len);
        assert_eq!(message.len(), len, "{class:?}");
        self.given.keep("", &message);
        self.received += len as u64;
        Ok(message)
    }

    fn sent(&self) -> u64 {
        0
    }

    fn received(&self) -> u64 {
        self.received
    }
}
