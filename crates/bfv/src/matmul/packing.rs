//! The merging tree of InterLeave, FFT style (BumbleBee, figure 6), over leaves that stream in.
//!
//! Merging x and y at h: x + X^h y + Auto(x - X^h y) with Auto: X -> X^(N/h + 1), which among multiples of h
//! flips the sign of the odd ones. At even multiples of h that is 2x (y's part cancels), at odd ones 2 X^h y.
//! So each level doubles the results; ciphertexts enter divided by 2^p modulo q. A node without a partner is
//! doubled only. Coefficients at non-multiples of h only move among themselves, so what is useless may stay.
use super::layout::Layout;
use super::switch::add_automorphism;
use crate::keys::Automorphism;
use rayon::prelude::*;
use tacita_ring::kernels;
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
            RnsPoly::from_small(params, &x, limbs, 0)
        };
        Self {
            params,
            automorphisms,
            layout,
            monomials: (0..layout.pack).map(monomial).collect(),
        }
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

    /// A leaf by its number.
    pub fn leaf(&self, number: usize, ct: Ciphertext) -> Node {
        let (start, level) = (number, 0);
        Node { start, level, ct }
    }

    fn merge(&self, x: Node, y: Node) -> Node {
        let (level, params) = (x.level, self.params);
        let (mut sum, mut difference) = (x.ct, y.ct);
        for (x, y) in sum.polys.iter_mut().zip(&mut difference.polys) {
            for (i, (x, y)) in x.limbs.iter_mut().zip(&mut y.limbs).enumerate() {
                kernels::butterfly(params.modulus(i), x, y, &self.monomials[level as usize].limbs[i]);
            }
        }
        let automorphism = &self.automorphisms[self.layout.log_h(level) as usize];
        add_automorphism(params, &mut sum, &difference, automorphism);
        Node {
            start: x.start,
            level: level + 1,
            ct: sum,
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
        Some(last.ct)
    }

    fn double(&self, node: &mut Node) {
        for poly in &mut node.ct.polys {
            for (i, limb) in poly.limbs.iter_mut().enumerate() {
                kernels::mul_scalar_assign(self.params.modulus(i), limb, 2);
            }
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
    let mut sum = x.clone();
    add_automorphism(params, &mut sum, &x, automorphism);
    for (x, sum) in x.polys.iter_mut().zip(&sum.polys) {
        for (i, (x, sum)) in x.limbs.iter_mut().zip(&sum.limbs).enumerate() {
            let m = params.modulus(i);
            kernels::mul_scalar_assign(m, x, 2);
            kernels::sub_assign(m, x, sum);
            kernels::mul_assign(m, x, &down.limbs[i]);
        }
    }
    (sum, x)
}

impl Node {
    /// Which response the node belongs to.
    pub fn response(&self, layout: &Layout) -> usize {
        self.start >> layout.pack
    }
}
