//! Circuits on a device of OpenCL, under names that are not generic: all code of them is compiled in this
//! crate, which a release compiles for size, because what takes time is in the kernels.
#![forbid(unsafe_code)]

use std::sync::Arc;
use tacita_ckks::{CkksError, CkksParameters, EvaluationKeys, Evaluator};
use tacita_opencl::{devices, Build, Engine, OpenClError, Poly, Room};
use tacita_sides::matmul::{self, Part, Sums};
use tacita_sides::products::{self, Accumulators, Views};
use tacita_sides::{Operation, Residues, Side};

/// An evaluator on a device, with the matrices of bootstrapping there.
pub struct Device(Side<Engine>);

impl Device {
    /// The device of this number, with as many slots for limbs as it has room for.
    pub fn open(params: &CkksParameters, number: usize) -> Result<Self, OpenClError> {
        let all = devices()?;
        let device = all.get(number).ok_or(OpenClError::NoDevice)?;
        let build = Build::new(device.flavours()[0]);
        let slots = Room::slots(device, params.rlwe().log_n());
        let engine = Engine::new(device, build, params.rlwe(), slots)?;
        let evaluator = Evaluator::on(Arc::new(engine), params.clone(), Arc::default());
        Ok(Self(Side::new(evaluator)))
    }

    /// The same with a client's keys, uploaded.
    pub fn with_keys(&self, keys: &EvaluationKeys) -> Result<Self, CkksError> {
        let engine = self.engine();
        let uploaded = keys.copied(|key| engine.upload_key(key))?;
        Ok(Self(self.0.over(Arc::new(uploaded))))
    }

    /// What computes there.
    pub fn engine(&self) -> &Arc<Engine> {
        self.0.evaluator.backend()
    }

    /// Makes the matrices of bootstrapping, unless they are there.
    pub fn prepare(&self) -> Result<(), CkksError> {
        self.0.bootstrapper().map(drop)
    }

    /// The results of an operation.
    pub fn run(&self, operation: &Operation<'_>, operands: &[&Residues]) -> Result<Vec<Residues>, CkksError> {
        operation.on(&self.0, operands)
    }

    /// Adds outer products to accumulators, or begins them.
    pub fn add_products(
        &self,
        onto: Option<&mut Accumulators<Poly>>,
        left: &Views<'_>,
        right: &Views<'_>,
    ) -> Result<Option<Accumulators<Poly>>, CkksError> {
        products::added(&self.0, onto, left, right)
    }

    /// Accumulators as ciphertexts, row by row.
    pub fn relinearise(&self, acc: Accumulators<Poly>) -> Result<Vec<Vec<Residues>>, CkksError> {
        products::relinearised(&self.0, acc)
    }

    /// Adds a part of the operands of a product with a matrix to its sums, or begins them.
    pub fn add_matmul(&self, sums: Option<Sums<Poly>>, part: &Part<'_>) -> Result<Sums<Poly>, CkksError> {
        matmul::added(&self.0, sums, part)
    }

    /// Those sums as ciphertexts.
    pub fn finish_matmul(&self, sums: Option<Sums<Poly>>) -> Result<Vec<Residues>, CkksError> {
        matmul::finished(&self.0, sums)
    }
}
