//! The life of paging work as the events tell it: queued in order, submitted in order, completed in order, each once.

use crate::check::contract::Broken;

/// How far the ring has got.
#[derive(Debug, Default)]
pub struct Paging {
    queued: u64,
    submitted: u64,
    progress: u64,
    completed: u64,
}

impl Paging {
    /// Work was queued.
    pub fn queued(&mut self, work: u64) -> Result<(), Broken> {
        if work != self.queued + 1 {
            return Err(format!("work {work} is queued after {}", self.queued));
        }
        self.queued = work;
        Ok(())
    }

    /// A buffer of a work was handed to the driver.
    pub fn submitted(&mut self, work: u64, progress_value: u64) -> Result<(), Broken> {
        if work < self.submitted || work > self.queued || progress_value != self.progress + 1 {
            return Err(format!(
                "a buffer of work {work} at {progress_value}, after work {} at {}",
                self.submitted, self.progress
            ));
        }
        (self.submitted, self.progress) = (work, progress_value);
        Ok(())
    }

    /// A work is done.
    pub fn completed(&mut self, work: u64) -> Result<(), Broken> {
        if work != self.completed + 1 || work > self.submitted {
            return Err(format!(
                "work {work} is completed after {}, submitted up to {}",
                self.completed, self.submitted
            ));
        }
        self.completed = work;
        Ok(())
    }

    /// The hardware was reset: what was queued comes to an end without it.
    pub fn lost(&mut self) {
        self.submitted = self.queued;
    }

    /// Nothing is left to do.
    pub fn idle(&self) -> bool {
        self.completed == self.queued
    }
}
