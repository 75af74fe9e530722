//! A driver that is late: it keeps its fence interrupts for a while and tells of all by the next one that it lets through, as the contract
//! allows it (sync §3.10). Meanwhile logs run over.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ddi::{Interrupt, InterruptFlags, KmdQueue, Miniport, Notify, OsGlobalFence};
use miniport_filter::Filtered;
use wddm_types::{EngineId, NodeId};

use super::Watched;
use crate::check::Shared;
use crate::sabotage::Sabotage;

/// How it names what was signalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Fences or queues, whichever its cap says.
    Exact,
    /// It does not know.
    None,
}

/// Interrupts that were not told yet.
#[derive(Default)]
struct Kept {
    keeps: bool,
    count: u64,
    told_of_several: u64,
    queues: Vec<KmdQueue>,
    fences: Vec<OsGlobalFence>,
}

/// The state of a late driver that its world shares.
pub struct Folds {
    names: Names,
    /// Of what it has kept it tells nothing but the last.
    pub forgets: bool,
    kept: Mutex<Kept>,
}

impl Folds {
    /// A driver that keeps nothing yet.
    pub fn new(names: Names, forgets: bool) -> Folds {
        Folds { names, forgets, kept: Mutex::default() }
    }

    /// From now on it keeps interrupts, or lets the next one through with all that it has kept.
    pub fn keep(&self, keeps: bool) {
        self.kept().keeps = keeps;
    }

    /// Whether there is something that it has not told.
    pub fn is_behind(&self) -> bool {
        self.kept().count > 0
    }

    /// How often it has told of several at once.
    pub fn told_of_several(&self) -> u64 {
        self.kept().told_of_several
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands an interrupt on, or keeps it.
    pub(super) fn hand_on(&self, interrupt: Interrupt<'_>, notify: &mut dyn Notify) {
        let Interrupt::NativeFenceSignaled { node, engine, fences, queues, flags } = interrupt else {
            return notify.interrupt(interrupt);
        };
        let mut kept = self.kept();
        if self.forgets {
            (kept.queues, kept.fences) = (Vec::new(), Vec::new());
        }
        kept.count += 1;
        kept.queues.extend(queues);
        kept.fences.extend(fences.unwrap_or_default());
        if !kept.keeps {
            let (mut queues, mut fences) = (std::mem::take(&mut kept.queues), std::mem::take(&mut kept.fences));
            kept.told_of_several += u64::from(std::mem::take(&mut kept.count) > 1);
            drop(kept);
            queues.dedup();
            fences.dedup();
            self.tell(notify, (node, engine), (&queues, &fences), flags);
        }
    }

    fn tell(
        &self,
        notify: &mut dyn Notify,
        (node, engine): (NodeId, EngineId),
        (queues, fences): (&[KmdQueue], &[OsGlobalFence]),
        flags: InterruptFlags,
    ) {
        let interrupt = match self.names {
            Names::Exact => Interrupt::NativeFenceSignaled { node, engine, fences: Some(fences), queues, flags },
            Names::None => Interrupt::NativeFenceSignaled { node, engine, fences: None, queues: &[], flags },
        };
        notify.interrupt(interrupt);
    }
}

impl Watched {
    /// In front of a driver of a world without packets, which is late with its interrupts.
    pub fn before_late(
        driver: Box<dyn Miniport>,
        ledger: Shared,
        sabotage: Sabotage,
        folds: Arc<Folds>,
    ) -> Box<dyn Miniport> {
        let mut watched = Watched::new(ledger, sabotage, false);
        watched.tampering.folds = Some(folds);
        Box::new(Filtered::new(driver, watched))
    }
}

/// The `Notify` between such a driver and the kernel.
pub(super) struct Folding<'a> {
    pub folds: &'a Folds,
    pub notify: &'a mut dyn Notify,
}

impl Notify for Folding<'_> {
    fn interrupt(&mut self, interrupt: Interrupt<'_>) {
        self.folds.hand_on(interrupt, self.notify);
    }
}
