//! The operations of the Backend contract, written once for the processor and for devices.
use crate::side::{Home, Residues, Side};
use num_complex::Complex64;
use tacita_ckks::backend::{Backend, CiphertextOf as Of};
use tacita_ckks::bootstrap::refresh::Harmonics;
use tacita_ckks::bootstrap::Content;
use tacita_ckks::linear::LinearTransform;
use tacita_ckks::matmul::Matrix;
use tacita_ckks::{CkksError, Evaluator};
use tacita_coefficients::Refresh;

/// What is done to ciphertexts, with what is public of it.
pub enum Operation<'a> {
    Add,
    Sub,
    Neg,
    AddConstant(Complex64),
    AddVector(&'a [Complex64]),
    Mul,
    Square,
    /// The first half of the operands by the second, brought to this native level and scale.
    Dot(usize, f64),
    MulConstant(Complex64),
    MulInteger(i64),
    MulI,
    MulVector(&'a [Complex64]),
    Conjugate,
    Rotate(i64),
    RotateMany(&'a [i64]),
    Linear(&'a LinearTransform<'a>),
    /// Plaintext matrix times operands.
    Matmul(&'a Matrix<'a>),
    Chebyshev(&'a [Complex64]),
    DropTo(usize),
    Bootstrap(&'a [Content]),
    BootstrapThrough(&'a [Content], &'a Harmonics),
    /// Slots to the coefficients of a product.
    ToCoefficients,
    /// Those of its results to slots: see [`Refreshed`].
    Refresh(Refreshed<'a>),
}

/// How coefficients become slots.
#[derive(Clone, Copy)]
pub struct Refreshed<'a> {
    /// Through this function of both parts.
    pub through: Option<&'a Harmonics>,
    /// And then at this native level, or as high as it can end.
    pub level: Option<usize>,
    /// How many beside each other: 0 for half the threads.
    pub at_once: usize,
}

impl Operation<'_> {
    /// The results where this side computes.
    pub fn on<B: Home>(&self, side: &Side<B>, operands: &[&Residues]) -> Result<Vec<Residues>, CkksError> {
        let home = side.evaluator.backend();
        let operands = operands.iter().map(|x| B::operand(home, x));
        let operands = operands.collect::<Result<Vec<_>, _>>()?;
        let operands: Vec<&Of<B>> = operands.iter().map(|x| &**x).collect();
        let results = self.results(side, &operands)?;
        Ok(results.into_iter().map(|x| B::residues(home, x)).collect())
    }

    fn results<B: Backend>(&self, side: &Side<B>, x: &[&Of<B>]) -> Result<Vec<Of<B>>, CkksError> {
        let e = &side.evaluator;
        let one = match *self {
            Self::RotateMany(steps) => return e.rotate_many(x[0], steps),
            Self::Linear(transform) => return e.linear(x, transform),
            Self::Matmul(matrix) => return e.matmul(x, matrix),
            Self::Bootstrap(contents) => {
                return side.bootstrapper()?.bootstrap_many(e, &inputs(x, contents));
            }
            Self::BootstrapThrough(contents, f) => {
                let bootstrapper = side.bootstrapper()?;
                return bootstrapper.bootstrap_through_many(e, &inputs(x, contents), f);
            }
            Self::ToCoefficients => {
                let lower = side.to_coefficients()?;
                return x.iter().map(|x| lower.apply(e, x)).collect();
            }
            Self::Refresh(how) => return refreshed(side, x, how),
            Self::Add => aligned(e, x, Evaluator::add),
            Self::Sub => aligned(e, x, Evaluator::sub),
            Self::Mul => aligned(e, x, Evaluator::mul),
            Self::Neg => e.neg(x[0]),
            Self::AddConstant(c) => e.add_constant(x[0], c),
            Self::AddVector(v) => e.add_vector(x[0], v),
            Self::Square => e.mul(x[0], x[0]),
            Self::Dot(level, scale) => dot(e, x, level, scale),
            Self::MulConstant(c) => e.mul_constant(x[0], c),
            Self::MulInteger(k) => e.mul_integer(x[0], k),
            Self::MulI => e.mul_i(x[0]),
            Self::MulVector(v) => e.mul_vector(x[0], v),
            Self::Conjugate => e.conjugate(x[0]),
            Self::Rotate(steps) => e.rotate(x[0], steps),
            Self::Chebyshev(c) => e.chebyshev(x[0], c, None),
            Self::DropTo(level) => e.drop_to(x[0], level),
        };
        Ok(vec![one?])
    }
}

fn refreshed<B: Backend>(side: &Side<B>, x: &[&Of<B>], how: Refreshed<'_>) -> Result<Vec<Of<B>>, CkksError> {
    let shallow = match (how.through, how.level) {
        (Some(f), Some(level)) => Some(side.shallow(f.depth(), level)?),
        _ => None,
    };
    let refresh = match (how.through, &shallow) {
        (Some(f), Some(shallow)) => Refresh::Shallow(shallow, f),
        (Some(f), None) => Refresh::Through(side.bootstrapper()?, f),
        (None, _) => Refresh::Whole(side.bootstrapper()?),
    };
    tacita_coefficients::refresh(&side.evaluator, &refresh, x, how.at_once)
}

fn aligned<B: Backend>(
    e: &Evaluator<B>,
    x: &[&Of<B>],
    f: impl Fn(&Evaluator<B>, &Of<B>, &Of<B>) -> Result<Of<B>, CkksError>,
) -> Result<Of<B>, CkksError> {
    let (a, b) = e.align(x[0], x[1])?;
    f(e, &a, &b)
}

fn dot<B: Backend>(e: &Evaluator<B>, x: &[&Of<B>], level: usize, scale: f64) -> Result<Of<B>, CkksError> {
    let aligned = x.iter().map(|c| e.aligned(c, level, scale));
    let aligned = aligned.collect::<Result<Vec<_>, _>>()?;
    let (a, b) = aligned.split_at(aligned.len() / 2);
    let pairs: Vec<_> = a.iter().zip(b).map(|(x, y)| (&**x, &**y)).collect();
    e.dot(&pairs)
}

fn inputs<P: Clone>(
    x: &[&tacita_rlwe::Ciphertext<P>],
    contents: &[Content],
) -> Vec<(tacita_rlwe::Ciphertext<P>, Content)> {
    x.iter()
        .map(|&c| c.clone())
        .zip(contents.iter().copied())
        .collect()
}
