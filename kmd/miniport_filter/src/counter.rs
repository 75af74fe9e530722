//! Counts the kernel's calls of a driver, by function.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::filter::Filter;
use crate::function::Function;
use crate::passes_on;

/// A filter that counts. Clones share their counts: one goes in front of the driver, another stays with the test.
#[derive(Clone, Debug, Default)]
pub struct Counter {
    counts: Arc<Mutex<BTreeMap<Function, u64>>>,
}

impl Counter {
    /// Calls of this function until now.
    pub fn count(&self, function: Function) -> u64 {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).get(&function).copied().unwrap_or(0)
    }

    /// All functions that were called.
    pub fn counts(&self) -> BTreeMap<Function, u64> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

passes_on!(Counter);

impl Filter for Counter {
    fn called(&self, function: Function, _arguments: &dyn Fn() -> String) {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner).entry(function).or_default() += 1;
    }
}
