//! Refuses chosen calls in the driver's place: the kernel's way back out of half a creation, tried on purpose.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use ddi::DriverStatus;

use crate::filter::Filter;
use crate::function::Function;
use crate::passes_on;

/// Which calls of one function are refused, and how. A function whose refusals are of another kind answers with the nearest one:
/// `Fatal` of paging, `NoMemory` of rendering, `Unavailable` of swizzling ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The function.
    pub function: Function,
    /// The first call that is refused, counted from 1.
    pub first: u64,
    /// So many are refused from there on.
    pub count: u64,
    /// The driver's status.
    pub status: DriverStatus,
}

/// A refusal of a function in which the contract lets no driver fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} must succeed: a driver cannot refuse it; choose a function of which Function::may_fail is true", .0.name())]
pub struct MustSucceed(pub Function);

/// A filter that refuses.
#[derive(Debug)]
pub struct Refusals {
    refusals: Vec<Refusal>,
    calls: Mutex<BTreeMap<Function, u64>>,
}

impl Refusals {
    /// With these; several of one function are added up.
    ///
    /// # Errors
    /// [`MustSucceed`] for the first that no driver may give.
    pub fn new(refusals: Vec<Refusal>) -> Result<Refusals, MustSucceed> {
        match refusals.iter().find(|refusal| !refusal.function.may_fail()) {
            Some(wrong) => Err(MustSucceed(wrong.function)),
            None => Ok(Refusals { refusals, calls: Mutex::default() }),
        }
    }
}

passes_on!(Refusals);

impl Filter for Refusals {
    fn refuses(&self, function: Function) -> Option<DriverStatus> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let call = calls.entry(function).or_default();
        *call += 1;
        let hit = |refusal: &&Refusal| {
            refusal.function == function && *call >= refusal.first && *call - refusal.first < refusal.count
        };
        self.refusals.iter().find(hit).map(|refusal| refusal.status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: DriverStatus = DriverStatus::NoMemory("as the test wants");

    #[test]
    fn the_chosen_calls_are_refused_and_no_others() {
        let refusal = Refusal { function: Function::CreateDevice, first: 2, count: 2, status: FULL };
        let refusals = Refusals::new(vec![refusal]).expect("a device may be refused");
        let answers: Vec<bool> = (0..5).map(|_| refusals.refuses(Function::CreateDevice).is_some()).collect();
        assert_eq!(answers, [false, true, true, false, false]);
        assert_eq!(refusals.refuses(Function::CreateProcess), None, "another function has its own count");
    }

    #[test]
    fn a_function_that_must_succeed_is_not_taken() {
        let refusal = Refusal { function: Function::DestroyDevice, first: 1, count: 1, status: FULL };
        let wrong = Refusals::new(vec![refusal]).expect_err("it must succeed");
        assert_eq!(wrong, MustSucceed(Function::DestroyDevice));
        assert!(wrong.to_string().starts_with("DxgkDdiDestroyDevice must succeed"), "{wrong}");
    }
}
