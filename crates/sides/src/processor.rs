//! What the processor computes, under names that are not generic.
use crate::matmul::{self, Part, Sums};
use crate::operations::Operation;
use crate::products::{self, Accumulators, Views};
use crate::side::{Residues, Side};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tacita_ckks::bootstrap::Bootstrapper;
use tacita_ckks::{Ciphertext, CkksError, CkksParameters, EvaluationKeys, Evaluator, Processor};

impl Side<Processor> {
    /// Without keys yet.
    pub fn open(params: &CkksParameters) -> Self {
        Self::new(Evaluator::new(params.clone(), Arc::default()))
    }

    /// The same with a client's keys.
    pub fn with_keys(&self, keys: Arc<EvaluationKeys>) -> Self {
        self.over(keys)
    }

    /// Makes the matrices of bootstrapping, unless they are there.
    pub fn prepare(&self) -> Result<&Bootstrapper, CkksError> {
        self.bootstrapper()
    }

    /// The results of an operation.
    pub fn run(&self, operation: &Operation<'_>, operands: &[&Residues]) -> Result<Vec<Residues>, CkksError> {
        operation.on(self, operands)
    }

    /// Adds outer products to accumulators, or begins them.
    pub fn add_products(
        &self,
        onto: Option<&mut Accumulators>,
        left: &Views<'_>,
        right: &Views<'_>,
    ) -> Result<Option<Accumulators>, CkksError> {
        products::added(self, onto, left, right)
    }

    /// Accumulators as ciphertexts, row by row.
    pub fn relinearise(&self, acc: Accumulators) -> Result<Vec<Vec<Residues>>, CkksError> {
        products::relinearised(self, acc)
    }

    /// Adds a part of the operands of a product with a matrix to its sums, or begins them.
    pub fn add_matmul(&self, sums: Option<Sums>, part: &Part<'_>) -> Result<Sums, CkksError> {
        matmul::added(self, sums, part)
    }

    /// Those sums as ciphertexts.
    pub fn finish_matmul(&self, sums: Option<Sums>) -> Result<Vec<Residues>, CkksError> {
        matmul::finished(self, sums)
    }

    /// The best time of one rescale.
    pub fn rescale_time(&self, x: &Ciphertext, repeats: usize) -> Result<Duration, CkksError> {
        let mut best = Duration::MAX;
        for _ in 0..repeats.max(1) {
            let copy = x.clone();
            let start = Instant::now();
            drop(self.evaluator.rescale(copy)?);
            best = best.min(start.elapsed());
        }
        Ok(best)
    }
}
