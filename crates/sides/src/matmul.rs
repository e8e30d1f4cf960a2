//! Products with a matrix in clear whose operands come part by part, on one side.
use crate::side::{Home, Residues, Side};
use std::borrow::Cow;
use tacita_ckks::backend::CiphertextOf as Of;
use tacita_ckks::matmul::Matrix;
pub use tacita_ckks::matmul::Sums;
use tacita_ckks::CkksError;

/// Operands of a product, wherever they lie.
pub struct Part<'a> {
    /// The matrix of all operands.
    pub matrix: &'a Matrix<'a>,
    /// How many they are.
    pub inputs: usize,
    /// Those of this part in the matrix.
    pub columns: &'a [usize],
    pub operands: &'a [&'a Residues],
}

/// Adds a part to sums, or begins them. An error ends the product.
pub fn added<B: Home>(
    side: &Side<B>,
    sums: Option<Sums<B::Poly>>,
    part: &Part<'_>,
) -> Result<Sums<B::Poly>, CkksError> {
    let (e, home) = (&side.evaluator, side.evaluator.backend());
    let operands = part.operands.iter().map(|x| B::operand(home, x));
    let operands: Vec<Cow<'_, Of<B>>> = operands.collect::<Result<_, _>>()?;
    let operands: Vec<&Of<B>> = operands.iter().map(|x| &**x).collect();
    let sums = match (sums, operands.first()) {
        (None, Some(first)) => e.begin_matmul(part.matrix, part.inputs, first)?,
        (Some(sums), _) => sums,
        (None, None) => return Err(none()),
    };
    e.add_matmul(sums, part.columns, &operands)
}

/// Sums as ciphertexts where this side computes.
pub fn finished<B: Home>(side: &Side<B>, sums: Option<Sums<B::Poly>>) -> Result<Vec<Residues>, CkksError> {
    let (e, home) = (&side.evaluator, side.evaluator.backend());
    let outputs = e.finish_matmul(sums.ok_or_else(none)?)?;
    Ok(outputs.into_iter().map(|x| B::residues(home, x)).collect())
}

fn none() -> CkksError {
    CkksError::Shape {
        op: "matmul",
        detail: "no operands in a part; hint: at least one in each".into(),
    }
}
