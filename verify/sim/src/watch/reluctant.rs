//! A driver that is reluctant: it refuses what it may refuse, and hears its interrupts late, as a driver on a busy computer does.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use ddi::{DriverStatus, Miniport};
use miniport_filter::Filtered;

use super::Watched;
use crate::check::Shared;
use crate::random::Random;
use crate::sabotage::Sabotage;

/// How reluctant a driver is; its world shares it.
pub struct Reluctant {
    /// So many creations of a hundred are refused.
    percent: AtomicU64,
    random: Mutex<Random>,
    deaf: AtomicBool,
    missed: AtomicU64,
    missed_in_all: AtomicU64,
}

impl Reluctant {
    /// A driver that refuses nothing and hears its interrupts at once, until it is told otherwise.
    pub fn new(random: Random) -> Reluctant {
        let (percent, missed, missed_in_all) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        Reluctant { percent, random: Mutex::new(random), deaf: AtomicBool::new(false), missed, missed_in_all }
    }

    /// From now on it refuses so many creations of a hundred.
    pub fn refuse(&self, percent: u64) {
        self.percent.store(percent, Ordering::Relaxed);
    }

    /// From now on it hears no interrupts, or hears all that it has missed with the next one.
    pub fn be_deaf(&self, deaf: bool) {
        self.deaf.store(deaf, Ordering::Relaxed);
    }

    /// Whether there is an interrupt that it has not heard.
    pub fn is_behind(&self) -> bool {
        self.missed.load(Ordering::Relaxed) > 0
    }

    /// How often it has missed one.
    pub fn missed(&self) -> u64 {
        self.missed_in_all.load(Ordering::Relaxed)
    }

    /// Whether this interrupt is missed.
    pub(super) fn misses(&self) -> bool {
        let deaf = self.deaf.load(Ordering::Relaxed);
        if deaf {
            self.missed.fetch_add(1, Ordering::Relaxed);
            self.missed_in_all.fetch_add(1, Ordering::Relaxed);
        } else {
            self.missed.store(0, Ordering::Relaxed);
        }
        deaf
    }

    /// Whether a creation is refused.
    pub(super) fn refuses(&self) -> Result<(), DriverStatus> {
        let refused =
            self.random.lock().unwrap_or_else(PoisonError::into_inner).chance(self.percent.load(Ordering::Relaxed));
        if refused { Err(DriverStatus::NoMemory("the driver is reluctant")) } else { Ok(()) }
    }
}

impl Watched {
    /// In front of a driver that is reluctant.
    pub fn before_reluctant(
        driver: Box<dyn Miniport>,
        ledger: Shared,
        sabotage: Sabotage,
        reluctant: std::sync::Arc<Reluctant>,
    ) -> Box<dyn Miniport> {
        let mut watched = Watched::new(ledger, sabotage, true);
        watched.reluctant = Some(reluctant);
        Box::new(Filtered::new(driver, watched))
    }

    /// Refuses a creation, if the driver is reluctant.
    pub(super) fn reluctantly(&self) -> Result<(), DriverStatus> {
        self.reluctant.as_ref().map_or(Ok(()), |reluctant| reluctant.refuses())
    }
}
