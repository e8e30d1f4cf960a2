//! The merging tree of InterLeave, FFT style (BumbleBee, figure 6), over leaves that stream in.
//!
//! Merging x and y at h: x + X^h y + Auto(x - X^h y) with Auto: X -> X^(N/h + 1), which among multiples of h
//! flips the sign of the odd ones. At even multiples of h that is 2x (y's part cancels), at odd ones 2 X^h y.
//! So each level doubles the results; ciphertexts enter divided by 2^p modulo q, and b times P (see
//! [`super::switch`]). A node without a partner is doubled only. Coefficients at non-multiples of h only move
//! among themselves, so what is useless may stay.
use super::layout::Layout;
use super::switch::{add_automorphism, automorphism_of, extend, mod_down};
use crate::keys::{galois_element, Automorphism};
use rayon::prelude::*;
use tacita_ring::kernels::{self, PAIR};
use tacita_ring::{AlignedVec, Permutation};
use tacita_rlwe::{Ciphertext, Parameters, RnsPoly};

/// Keys and the monomials X^h.
pub struct Packer<'a> {
    params: &'a Parameters,
    automorphisms: &'a [Automorphism],
    layout: Layout,
    /// X^h in NTT form by level.
    monomials: Vec<RnsPoly>,
}

/// A subtree: the leaves `[start, start + 2^level)`, as far as they exist.
pub struct Node {
    start: usize,
    level: u32,
    ct: Ciphertext,
}

impl<'a> Packer<'a> {
    /// For ciphertexts of `limbs` primes. automorphisms: by log2(h), those below log2(m_w) at least.
    pub fn new(
        params: &'a Parameters,
        automorphisms: &'a [Automorphism],
        layout: Layout,
        limbs: usize,
    ) -> Self {
        let monomial = |level| {
            let mut x = vec![0; params.n()];
            x[1 << layout.log_h(level)] = 1;
            RnsPoly::from_small(params, &x, limbs, 1)
        };
        Self {
            params,
            automorphisms,
            layout,
            monomials: (0..layout.pack).map(monomial).collect(),
        }
    }

    /// Joins 2^join ciphertexts x_t, of neighbouring block rows, before they meet a weight w.
    ///
    /// With the maps f_k, k below 2^join, that are made of the automorphisms of the levels in k's bits, the
    /// tree makes of the leaves w x_t the sum over k of f_k(w) u_k: at each level u_k becomes u_k + X^h u'_k,
    /// and the automorphism of u_k - X^h u'_k becomes a new one. These are the u_k. Every switch serves all
    /// weights, which have to be permuted instead ([`Packer::weights`]).
    pub fn join(&self, cts: Vec<Ciphertext>) -> Vec<Ciphertext> {
        let mut groups: Vec<Vec<Ciphertext>> = cts.into_iter().map(|ct| vec![ct]).collect();
        for level in 0..self.layout.join {
            let mut rest = groups.into_iter();
            groups = Vec::new();
            while let (Some(mut x), Some(y)) = (rest.next(), rest.next()) {
                let pairs = x.iter_mut().zip(y);
                let moved: Vec<_> = pairs.map(|(x, y)| self.moved(x, y, level)).collect();
                x.extend(moved);
                groups.push(x);
            }
        }
        groups.pop().unwrap_or_default()
    }

    /// x becomes x + X^h y; returns the automorphism of x - X^h y.
    fn moved(&self, x: &mut Ciphertext, mut y: Ciphertext, level: u32) -> Ciphertext {
        self.butterflies(x, &mut y, level);
        let automorphism = &self.automorphisms[self.layout.log_h(level) as usize];
        automorphism_of(self.params, y, automorphism)
    }

    /// What [`Packer::join`] calls f_k, k from 1 on, for the values of weights.
    pub fn weights(&self) -> Vec<Permutation> {
        let log_n = self.params.log_n();
        let element = |level| galois_element(log_n, self.layout.log_h(level));
        let bits = |k: u64| (0..self.layout.join).filter(move |level| k >> level & 1 == 1);
        (1..1 << self.layout.join)
            .map(|k| {
                bits(k)
                    .map(element)
                    .fold(1, |product, x| product * x % (2 << log_n))
            })
            .map(|galois| Permutation::new(log_n, galois))
            .collect()
    }

    fn scale(&self, ct: &mut Ciphertext, factors: [u64; 2]) {
        for (poly, factor) in ct.polys.iter_mut().zip(factors) {
            for (i, limb) in poly.limbs.iter_mut().enumerate() {
                let m = self.params.modulus(i);
                kernels::mul_scalar_assign(m, limb, factor % m.p());
            }
        }
    }

    /// The polynomials of ciphertexts divided by 2^p, b times P where leaves are merged, limb by limb in the
    /// order of `kernels::inner_products2`.
    pub fn pairs(&self, cts: &[&Ciphertext]) -> Vec<AlignedVec> {
        let (params, factors) = (self.params, self.lifts());
        let limb = |i: usize| {
            let m = params.modulus(i);
            let mut out = AlignedVec::scratch(2 * cts.len() * params.n());
            let mut scaled = AlignedVec::scratch(params.n());
            for (t, ct) in cts.iter().enumerate() {
                for (half, (poly, factor)) in ct.polys.iter().zip(factors).enumerate() {
                    kernels::mul_scalar(m, &mut scaled, &poly.limbs[i], factor % m.p());
                    let to = out.chunks_exact_mut(PAIR).skip(2 * t + half);
                    let to = to.step_by(2 * cts.len()).zip(scaled.chunks_exact(PAIR));
                    to.for_each(|(to, from)| to.copy_from_slice(from));
                }
            }
            out
        };
        (0..cts.first().map_or(0, |ct| ct.limbs())).map(limb).collect()
    }

    /// Adds the next leaf or subtree and merges as far as its neighbours are there. `nodes` are in order and
    /// adjacent.
    pub fn push(&self, nodes: &mut Vec<Node>, leaf: Node) {
        nodes.push(leaf);
        while self.partners(nodes) {
            if let (Some(y), Some(x)) = (nodes.pop(), nodes.pop()) {
                nodes.push(self.merge(x, y));
            }
        }
    }

    /// Do the last two nodes form one of the next level?
    fn partners(&self, nodes: &[Node]) -> bool {
        let [.., x, y] = nodes else { return false };
        x.level == y.level && x.level < self.layout.pack && (x.start >> x.level) & 1 == 0
    }

    /// A leaf by its number, divided by 2^p.
    pub fn leaf(&self, number: usize, mut ct: Ciphertext) -> Node {
        self.scale(&mut ct, self.lifts());
        Node {
            start: number,
            level: 0,
            ct,
        }
    }

    /// What b and a are taken times: by P, where leaves are merged.
    fn lifts(&self) -> [u64; 2] {
        let special = self.params.modulus(self.params.p_index(0)).p();
        [if self.layout.pack > 0 { special } else { 1 }, 1]
    }

    /// A node of 2^join leaves by its number, b times P.
    pub fn node(&self, number: usize, ct: Ciphertext) -> Node {
        let (start, level) = (number << self.layout.join, self.layout.join);
        Node { start, level, ct }
    }

    fn merge(&self, x: Node, y: Node) -> Node {
        let (level, params) = (x.level, self.params);
        let (mut sum, mut difference) = (x.ct, y.ct);
        self.butterflies(&mut sum, &mut difference, level);
        let automorphism = &self.automorphisms[self.layout.log_h(level) as usize];
        add_automorphism(params, &mut sum, &difference, automorphism);
        Node {
            start: x.start,
            level: level + 1,
            ct: sum,
        }
    }

    /// x + X^h y and x - X^h y in their places.
    fn butterflies(&self, x: &mut Ciphertext, y: &mut Ciphertext, level: u32) {
        let monomial = &self.monomials[level as usize];
        for (x, y) in x.polys.iter_mut().zip(&mut y.polys) {
            if x.limbs.len() != y.limbs.len() {
                [&mut *x, &mut *y]
                    .into_iter()
                    .for_each(|poly| extend(self.params, poly));
            }
            for (i, (x, y)) in x.limbs.iter_mut().zip(&mut y.limbs).enumerate() {
                kernels::butterfly(monomial.modulus(self.params, i), x, y, &monomial.limbs[i]);
            }
        }
    }

    /// Brings the nodes of one response (in order) to one ciphertext.
    pub fn finish(&self, nodes: Vec<Node>) -> Option<Ciphertext> {
        let mut stack = Vec::new();
        for node in nodes {
            self.push(&mut stack, node);
        }
        // From the right: the last node has no partner at its level until it has the level of the one before.
        let mut last = stack.pop()?;
        while let Some(before) = stack.pop() {
            while last.level < before.level {
                self.double(&mut last);
            }
            last = self.merge(before, last);
        }
        while last.level < self.layout.pack {
            self.double(&mut last);
        }
        if self.layout.pack > 0 {
            mod_down(self.params, &mut last.ct.polys[0]);
        }
        Some(last.ct)
    }

    fn double(&self, node: &mut Node) {
        for poly in &mut node.ct.polys {
            poly.for_each_limb(self.params, |i, limb| {
                kernels::mul_scalar_assign(self.params.modulus(i), limb, 2);
            });
        }
        node.level += 1;
    }
}

/// Divides by 2^levels modulo q: what so many doublings undo.
pub(super) fn divide(params: &Parameters, ct: &mut Ciphertext, levels: u32) {
    for poly in &mut ct.polys {
        for (i, limb) in poly.limbs.iter_mut().enumerate() {
            let m = params.modulus(i);
            kernels::mul_scalar_assign(m, limb, m.inv(1 << levels));
        }
    }
}

/// The tree from its root: a ciphertext for each place p of 2^levels, that has coefficient i 2^levels + p at
/// i 2^levels and encrypts zeros elsewhere. automorphisms: by log2(h), `levels` of them at least.
///
/// x + Auto(x) at h = 1 has what stands at even coefficients, x - Auto(x) what stands at odd ones; each is
/// split again at h = 2, the odd ones after a shift. Cost: 2^levels - 1 automorphisms. What they add is
/// doubled as in the tree: the noise of one, times 2^levels at most.
pub fn split(
    params: &Parameters,
    automorphisms: &[Automorphism],
    mut ct: Ciphertext,
    levels: u32,
) -> Vec<Ciphertext> {
    divide(params, &mut ct, levels);
    let limbs = ct.limbs();
    let mut all = vec![ct];
    for level in 0..levels {
        let mut x = vec![0; params.n()];
        x[params.n() - (1 << level)] = -1;
        let down = RnsPoly::from_small(params, &x, limbs, 0);
        let halves = |ct| halves(params, ct, &automorphisms[level as usize], &down);
        let (even, odd): (Vec<_>, Vec<_>) = all.into_par_iter().map(halves).unzip();
        all = even.into_iter().chain(odd).collect();
    }
    all
}

/// x + Auto(x), and x - Auto(x) times `down`.
fn halves(
    params: &Parameters,
    mut x: Ciphertext,
    automorphism: &Automorphism,
    down: &RnsPoly,
) -> (Ciphertext, Ciphertext) {
    let mut difference = automorphism_of(params, x.clone(), automorphism);
    for (x, y) in x.polys.iter_mut().zip(&mut difference.polys) {
        for (i, (x, y)) in x.limbs.iter_mut().zip(&mut y.limbs).enumerate() {
            let m = params.modulus(i);
            kernels::add_assign(m, x, y);
            kernels::mul_scalar_assign(m, y, m.p() - 2);
            kernels::add_assign(m, y, x);
            kernels::mul_assign(m, y, &down.limbs[i]);
        }
    }
    (x, difference)
}

impl Node {
    /// Which response the node belongs to.
    pub fn response(&self, layout: &Layout) -> usize {
        self.start >> layout.pack
    }
}
