//! Records the kernel's calls of a driver: each with its arguments and whether the driver refused it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::filter::Filter;
use crate::function::Function;
use crate::passes_on;

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Of this function.
    pub function: Function,
    /// Its arguments before the call, by name; `…` for the kernel's functions that a driver is lent for the call.
    pub arguments: String,
    /// The driver's refusal.
    pub refusal: Option<String>,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.function.name(), self.arguments)?;
        match &self.refusal {
            Some(why) => write!(f, " refused: {why}"),
            None => Ok(()),
        }
    }
}

/// A filter that records. Clones share their records: one goes in front of the driver, another stays with the test. The records
/// are kept until they are taken.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    records: Arc<Mutex<Vec<Record>>>,
}

impl Recorder {
    /// The records since the last time, oldest first.
    pub fn take(&self) -> Vec<Record> {
        std::mem::take(&mut *self.records.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

passes_on!(Recorder);

impl Filter for Recorder {
    fn called(&self, function: Function, arguments: &dyn Fn() -> String) {
        let record = Record { function, arguments: arguments(), refusal: None };
        self.records.lock().unwrap_or_else(PoisonError::into_inner).push(record);
    }

    fn answered(&self, function: Function, refusal: Option<String>) {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        // The kernel makes one call of a driver at a time, so the last record of the function is this call's, unless it was taken meanwhile.
        if let Some(record) = records.iter_mut().rev().find(|record| record.function == function) {
            record.refusal = refusal;
        }
    }
}
