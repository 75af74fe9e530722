//! A driver that is late: it keeps its fence interrupts for a while and tells of all with the next one that it lets through, once for each
//! engine, as the contract allows it (sync §3.10). Meanwhile logs run over.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ddi::{Interrupt, InterruptFlags, KmdGlobalFence, KmdQueue, Miniport, Notify, OsGlobalFence};
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

/// What an engine has signalled.
#[derive(Default)]
struct Signalled {
    flags: InterruptFlags,
    queues: Vec<KmdQueue>,
    fences: Vec<OsGlobalFence>,
    /// One of the interrupts named nothing: the driver could not tell.
    unnamed: bool,
}

/// Interrupts that were not told yet.
#[derive(Default)]
struct Kept {
    keeps: bool,
    count: u64,
    told_of_several: u64,
    engines: BTreeMap<(NodeId, EngineId), Signalled>,
    /// The fences that the driver has made: it names no other.
    fences: BTreeMap<KmdGlobalFence, OsGlobalFence>,
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

    /// The driver has made a fence.
    pub(super) fn created(&self, fence: KmdGlobalFence, named: OsGlobalFence) {
        self.kept().fences.insert(fence, named);
    }

    /// The driver has destroyed a fence: it names that no more (sync §6 B18).
    pub(super) fn destroyed(&self, fence: KmdGlobalFence) {
        let mut kept = self.kept();
        let named = kept.fences.remove(&fence);
        kept.engines.values_mut().for_each(|engine| engine.fences.retain(|fence| Some(*fence) != named));
    }

    /// Hands an interrupt on, or keeps it.
    pub(super) fn hand_on(&self, interrupt: Interrupt<'_>, notify: &mut dyn Notify) {
        let Interrupt::NativeFenceSignaled { node, engine, fences, queues, flags } = interrupt else {
            return notify.interrupt(interrupt);
        };
        let mut kept = self.kept();
        if self.forgets {
            kept.engines.clear();
        }
        kept.count += 1;
        let engine = kept.engines.entry((node, engine)).or_default();
        engine.flags |= flags;
        engine.unnamed |= queues.is_empty() && fences.is_none_or(<[_]>::is_empty);
        engine.queues.extend(queues);
        engine.fences.extend(fences.unwrap_or_default());
        if !kept.keeps {
            let engines = std::mem::take(&mut kept.engines);
            kept.told_of_several += u64::from(std::mem::take(&mut kept.count) > 1);
            drop(kept);
            engines.into_iter().for_each(|(engine, signalled)| self.tell(notify, engine, signalled));
        }
    }

    fn tell(&self, notify: &mut dyn Notify, (node, engine): (NodeId, EngineId), signalled: Signalled) {
        let Signalled { flags, mut queues, mut fences, unnamed } = signalled;
        queues.dedup();
        fences.dedup();
        let (fences, queues) = match self.names {
            Names::Exact if !unnamed => (Some(&fences[..]), &queues[..]),
            Names::Exact | Names::None => (None, &[][..]),
        };
        notify.interrupt(Interrupt::NativeFenceSignaled { node, engine, fences, queues, flags });
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
