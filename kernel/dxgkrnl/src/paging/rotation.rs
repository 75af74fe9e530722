//! Works that move locked content: the ring stops around each of them (memory §6.3).
//!
//! ```text
//! turn of the work ──▶ protecting ──▶ building ──▶ moving ──▶ showing ──▶ the ring goes on
//!              CPU writes wait   outside says so   hardware done   outside says so, windows unmapped, ranges released
//! ```
//! Nothing behind such a work is built before its end: the frames that it gave up are still to be read by the CPU until it
//! is shown others. The same work, with nothing to move, lends a client its first pages and takes the last ones back. Copies out over a
//! system copy that the CPU goes on writing (memory §2.2) are cut when writes are held: the CPU's writes stay.
//!
//! Content that the next such work moves on is passed: the kernel tells its process only when it has got to where it stays, and the
//! process's stores wait until then without another change of the mapping. The places that the process sees meanwhile hold the same; no
//! value is signalled that says otherwise (`paging_queue`).
//!
//! Here is the stage; this part asks no other. `adapter::rotation` tells the outside of changes, and releases what was left.
//!
//! The kernel numbers the changes that it tells the outside, which answers by the number: an answer to an earlier change may be on its
//! way when the next is told, and each stage waits for its own.

use std::collections::{BTreeMap, BTreeSet};

use kmt_calls::MappingId;
use vidmm::{AllocationId, HeldRange, WindowPages};
use wddm_types::{CpuRun, PageRun, ProcessId};

use crate::number::{MappingChangeNumber, PagingWorkNumber};
use crate::paging::PagingRing;
use crate::paging::spare::spare;
use crate::store::ObjectNumber;

/// A locked allocation's change of medium, bound to the mapping that it had when the work was decided.
pub struct MediumChange {
    /// The mapping.
    pub mapping: MappingId,
    /// The process that has the mapping.
    pub process: ProcessId,
    /// The places that it shows behind the work.
    pub runs: Vec<CpuRun>,
    /// The window that its content leaves.
    pub unmap: Option<WindowPages>,
    /// The ranges that its content leaves.
    pub ranges: Vec<HeldRange>,
    /// The CPU writes what the work copies out to.
    pub writes: Option<Written>,
    /// It is unmapped, and leaves.
    pub leaves: bool,
}

/// A permanent system copy that the CPU writes (memory §2.2).
#[derive(Clone)]
pub struct Written {
    /// The allocation.
    pub allocation: AllocationId,
    /// It is copied whole or not at all.
    pub whole: bool,
    /// The frames that it had written when it was unlocked; `None`: it may write on.
    pub frames: Option<Vec<PageRun>>,
}

/// How far the work at the ring's head is.
#[derive(Default)]
pub(super) enum Stage {
    /// No locked content is being moved.
    #[default]
    None,
    /// These mappings are not protected yet.
    Protecting(Unanswered),
    /// The work may be built.
    Building,
    /// The work with this number is with the hardware.
    Moving(PagingWorkNumber, Vec<MediumChange>),
    /// These mappings do not show the new medium yet; then the windows and ranges go.
    Showing(Unanswered, Vec<WindowPages>, Vec<HeldRange>),
}

/// Mappings whose change is not known to hold.
pub type Unanswered = BTreeMap<MappingId, Awaited>;

/// A change of a mapping that the ring waits for.
pub struct Awaited {
    /// The change.
    pub number: MappingChangeNumber,
    /// By its process, too.
    pub seen: bool,
}

impl Awaited {
    /// Its process has to see it.
    pub fn seen(number: MappingChangeNumber) -> Awaited {
        Awaited { number, seen: true }
    }
}

impl MediumChange {
    /// Whether a process sees something else behind it.
    pub fn shows_to(&self, process: ProcessId) -> bool {
        self.process == process && !self.leaves
    }

    /// The windows and ranges that its content leaves.
    pub fn left(self) -> (Vec<WindowPages>, Vec<HeldRange>) {
        (self.unmap.into_iter().collect(), self.ranges)
    }
}

/// Whether the work at the head may be built.
pub enum Head {
    /// It may.
    Builds,
    /// Locked content is on its way.
    Stands,
    /// It moves the content of these mappings, which are to be protected first.
    Moves(Vec<MappingId>),
}

/// The step of a rotation that is due.
#[must_use = "the adapter takes the step"]
pub enum Due {
    /// The ring has nothing to do but wait, or no content is on its way.
    Nothing,
    /// All mappings are protected: the work may be built.
    Build,
    /// All mappings show the new medium: these windows and ranges go.
    Release(Vec<WindowPages>, Vec<HeldRange>),
}

impl PagingRing {
    /// Whether nothing is built now because locked content is on its way.
    pub(super) fn stands(&self) -> bool {
        matches!(self.stage, Stage::Protecting(_) | Stage::Moving(..) | Stage::Showing(..))
    }

    /// Whether what the last finished work has moved is not shown yet.
    pub(super) fn shows(&self) -> bool {
        matches!(self.stage, Stage::Showing(..))
    }

    /// The work that moves locked content and is with the hardware.
    pub(super) fn moving(&self) -> Option<PagingWorkNumber> {
        match &self.stage {
            Stage::Moving(number, _) => Some(*number),
            _ => None,
        }
    }

    /// The work queued last has this change of medium, too.
    pub fn turn_joins(&mut self, turn: MediumChange) {
        let work = self.held.back_mut().expect("it was just queued");
        debug_assert_eq!(work.number.raw(), self.last_queued, "a turn joins the work that was queued last");
        work.turns.push(turn);
    }

    /// Whether the work at the head may be built.
    pub fn head(&self) -> Head {
        match &self.stage {
            Stage::Building => Head::Builds,
            Stage::Protecting(_) | Stage::Moving(..) | Stage::Showing(..) => Head::Stands,
            Stage::None if self.building[0].turns.is_empty() => Head::Builds,
            Stage::None => Head::Moves(self.building[0].turns.iter().map(|turn| turn.mapping).collect()),
        }
    }

    /// Mappings of the work at the head are to be protected, and the outside has not answered.
    pub fn protects(&mut self, unanswered: Unanswered) {
        debug_assert!(matches!(self.stage, Stage::None), "one work moves locked content at a time");
        debug_assert!(!unanswered.is_empty(), "nothing is waited for without a mapping");
        self.stage = Stage::Protecting(unanswered);
    }

    /// No process can write the content that the work at the head moves. Answers with the system copies that the CPU writes.
    #[must_use = "the copies out spare what the CPU has written"]
    pub fn building_begins(&mut self) -> Vec<Written> {
        debug_assert!(
            match &self.stage {
                Stage::None => true,
                Stage::Protecting(unanswered) => unanswered.is_empty(),
                Stage::Building | Stage::Moving(..) | Stage::Showing(..) => false,
            },
            "a work is built when all that it moves is protected"
        );
        self.stage = Stage::Building;
        let turns = self.building.front().map(|work| &work.turns[..]).unwrap_or_default();
        turns.iter().filter_map(|turn| turn.writes.clone()).collect()
    }

    /// The copies out of the work at the head spare these frames.
    // spec: memory §2.2
    pub fn spare_frames(&mut self, frames: &[PageRun], whole: bool) {
        let operations = std::mem::take(&mut self.building[0].operations);
        let spared = operations.into_iter().flat_map(|operation| spare(operation, frames, whole));
        self.building[0].operations = spared.collect();
    }

    /// An allocation was unlocked, and had these frames written: works that are still to copy over them know that now.
    pub fn settle_written(&mut self, allocation: AllocationId, frames: &[PageRun]) {
        let works = self.held.iter_mut().chain(&mut self.building);
        for writes in works.flat_map(|work| &mut work.turns).filter_map(|turn| turn.writes.as_mut()) {
            if writes.allocation == allocation {
                writes.frames.get_or_insert_with(|| frames.to_vec());
            }
        }
    }

    /// The last buffer of the work at the head is with the hardware.
    pub(super) fn moves(&mut self, work: PagingWorkNumber, turns: Vec<MediumChange>) {
        if !turns.is_empty() {
            assert!(matches!(self.stage, Stage::Building), "it was protected before it was built");
            self.stage = Stage::Moving(work, turns);
        }
    }

    /// The changes of medium of a work that the hardware has finished, if it moved locked content.
    #[must_use = "the mappings show the new medium"]
    pub fn moved(&mut self, work: PagingWorkNumber) -> Option<Vec<MediumChange>> {
        self.moving().filter(|moving| *moving == work)?;
        match std::mem::take(&mut self.stage) {
            Stage::Moving(_, turns) => Some(turns),
            _ => unreachable!("it was just seen moving"),
        }
    }

    /// These changes of mappings do not hold yet; then the windows and ranges go.
    pub fn shows_new(&mut self, unanswered: Unanswered, windows: Vec<WindowPages>, ranges: Vec<HeldRange>) {
        debug_assert!(matches!(self.stage, Stage::None), "what is shown was moved, and nothing else is on its way");
        self.stage = Stage::Showing(unanswered, windows, ranges);
    }

    /// Whether the next work that moves locked content moves this mapping's, and it does not leave.
    pub fn next_moves(&self, mapping: MappingId) -> bool {
        let next = self.building.iter().find(|work| !work.turns.is_empty());
        next.is_some_and(|work| work.turns.iter().any(|turn| turn.mapping == mapping && !turn.leaves))
    }

    /// The changes of a mapping hold up to this one; `seen`: by its process, too. True: the ring has waited for that.
    #[must_use = "the ring goes on"]
    pub fn holds(&mut self, mapping: MappingId, number: MappingChangeNumber, seen: bool) -> bool {
        let (Stage::Protecting(unanswered) | Stage::Showing(unanswered, ..)) = &mut self.stage else { return false };
        let awaited = unanswered.get(&mapping);
        let over = awaited.is_some_and(|awaited| awaited.number <= number && (seen || !awaited.seen));
        if over {
            unanswered.remove(&mapping);
        }
        over
    }

    /// The step that is due when the outside has answered.
    pub fn rotation_due(&mut self) -> Due {
        match &self.stage {
            Stage::Protecting(unanswered) if unanswered.is_empty() => Due::Build,
            Stage::Showing(unanswered, ..) if unanswered.is_empty() => match std::mem::take(&mut self.stage) {
                Stage::Showing(_, windows, ranges) => Due::Release(windows, ranges),
                _ => unreachable!("it was just seen showing"),
            },
            _ => Due::Nothing,
        }
    }

    /// The adapter has stopped. Answers with the mappings in which threads may wait.
    pub fn stop_rotation(&mut self) -> BTreeSet<MappingId> {
        match std::mem::take(&mut self.stage) {
            Stage::Protecting(unanswered) => unanswered.into_keys().collect(),
            Stage::Building => self.building.iter().flat_map(|work| &work.turns).map(|turn| turn.mapping).collect(),
            Stage::Moving(_, turns) => turns.into_iter().map(|turn| turn.mapping).collect(),
            Stage::None | Stage::Showing(..) => BTreeSet::new(),
        }
    }
}
