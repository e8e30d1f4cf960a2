//! Outer products with lazy relinearisation, on one side.
use crate::side::{Home, Residues, Side};
use std::borrow::Cow;
use std::sync::Arc;
use tacita_ckks::backend::CiphertextOf as Of;
pub use tacita_ckks::products::Products as Accumulators;
use tacita_ckks::CkksError;

/// Factors term by term, wherever they lie.
pub type Views<'a> = [Vec<&'a Residues>];

/// Adds to accumulators, or gives new ones.
pub fn added<B: Home>(
    side: &Side<B>,
    onto: Option<&mut Accumulators<B::Poly>>,
    left: &Views<'_>,
    right: &Views<'_>,
) -> Result<Option<Accumulators<B::Poly>>, CkksError> {
    let (e, home) = (&side.evaluator, side.evaluator.backend());
    let (left, right) = (moved(home, left)?, moved(home, right)?);
    let (left, right) = (borrowed(&left), borrowed(&right));
    match onto {
        Some(acc) => e.add_products(acc, &left, &right).map(|()| None),
        None => e.products(&left, &right).map(Some),
    }
}

/// The factors where this side computes.
fn moved<'a, B: Home>(
    home: &Arc<B>,
    terms: &[Vec<&'a Residues>],
) -> Result<Vec<Vec<Cow<'a, Of<B>>>>, CkksError> {
    let row = |row: &Vec<&'a Residues>| row.iter().map(|&x| B::operand(home, x)).collect();
    terms.iter().map(row).collect()
}

fn borrowed<'a, T: Clone>(terms: &'a [Vec<Cow<'a, T>>]) -> Vec<Vec<&'a T>> {
    terms
        .iter()
        .map(|row| row.iter().map(|x| &**x).collect())
        .collect()
}

/// Accumulators as ciphertexts where this side computes, row by row.
pub fn relinearised<B: Home>(
    side: &Side<B>,
    acc: Accumulators<B::Poly>,
) -> Result<Vec<Vec<Residues>>, CkksError> {
    let home = side.evaluator.backend();
    let rows = side.evaluator.relinearise(acc)?.into_iter();
    let wrap = |row: Vec<_>| row.into_iter().map(|x| B::residues(home, x)).collect();
    Ok(rows.map(wrap).collect())
}
