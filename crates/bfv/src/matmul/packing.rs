//! The merging tree of InterLeave, FFT style (BumbleBee, figure 6), over leaves that stream in.
//!
//! Merging x and y at h: x + X^h y + Auto(x - X^h y) with Auto: X -> X^(N/h + 1), which among multiples of h
//! flips the sign of the odd ones. At even multiples of h that is 2x (y's part cancels), at odd ones 2 X^h y.
//! So each level doubles the results; ciphertexts enter divided by 2^p modulo q. A node without a partner is
//! doubled only. Coefficients at non-multiples of h only move among themselves, so what is useless may stay.
use super::layout::Layout;
use super::switch::add_automorphism;
use crate::keys::Automorphism;
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

impl Node {
    /// Which response the node belongs to.
    pub fn response(&self, layout: &Layout) -> usize {
        self.start >> layout.pack
    }
}
