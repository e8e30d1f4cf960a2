//! Matrices of coefficient products, which evaluators on the same threads share.
use crate::error;
use pyo3::PyResult;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tacita_ckks::bootstrap::refresh::shallow::ShallowRefresh;
use tacita_coefficients as products;

/// Where evaluators keep the matrices made last.
pub type Place = Mutex<Option<Arc<Maps>>>;

/// Matrices for one number of tokens; evaluators that share their threads share these.
pub struct Maps {
    pub inner: products::Coefficients,
    tokens: usize,
    /// By depth of the function and native level of the result.
    shallow: Mutex<HashMap<(usize, usize), Arc<ShallowRefresh>>>,
}

impl Maps {
    /// Returns the matrices for so many tokens. They are made outside the lock: parallel work may wait for
    /// threads that want them too.
    pub fn shared(e: &tacita_ckks::Evaluator, place: &Place, tokens: usize) -> PyResult<Arc<Self>> {
        let ready = |made: &Option<Arc<Self>>| made.clone().filter(|maps| maps.tokens == tokens);
        if let Some(maps) = ready(&lock(place)) {
            return Ok(maps);
        }
        let maps = Arc::new(Self {
            inner: products::Coefficients::new(e, tokens).map_err(error::coefficients)?,
            tokens,
            shallow: Mutex::default(),
        });
        let mut made = lock(place);
        Ok(ready(&made).unwrap_or_else(|| made.insert(maps).clone()))
    }

    /// Returns the matrices of a shallow refresh, made outside the lock.
    pub fn shallow(
        &self,
        e: &tacita_ckks::Evaluator,
        depth: usize,
        level: usize,
    ) -> products::Result<Arc<ShallowRefresh>> {
        let key = (depth, level);
        if let Some(refresh) = lock(&self.shallow).get(&key) {
            return Ok(refresh.clone());
        }
        let refresh = Arc::new(ShallowRefresh::new(e, depth, level)?);
        Ok(lock(&self.shallow).entry(key).or_insert(refresh).clone())
    }
}

fn lock<T>(content: &Mutex<T>) -> MutexGuard<'_, T> {
    content.lock().unwrap_or_else(PoisonError::into_inner)
}
