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
//! The kernel numbers the changes that it tells the outside, which answers by the number: an answer to an earlier change may be on its
//! way when the next is told, and each stage waits for its own.

use std::collections::{BTreeMap, BTreeSet};

use kmt_calls::MappingId;
use vidmm::{AllocationId, HeldRange, Rotation, WindowPages};
use wddm_types::{CpuRun, PageRun, ProcessId};

use crate::adapter::Adapter;
use crate::cpu_view::WrittenPages;
use crate::effect::{Heard, MappingChange};
use crate::lock::spare;
use crate::machine::Cx;
use crate::paging::PagingRing;

/// A locked allocation's change of medium, bound to the mapping that it had when the work was decided.
pub struct MediumChange {
    mapping: MappingId,
    /// The process that has the mapping.
    process: ProcessId,
    runs: Vec<CpuRun>,
    unmap: Option<WindowPages>,
    ranges: Vec<HeldRange>,
    /// The CPU writes what the work copies out to.
    writes: Option<Written>,
    /// It is unmapped, and leaves.
    leaves: bool,
}

/// A permanent system copy that the CPU writes (memory §2.2).
struct Written {
    allocation: AllocationId,
    /// It is copied whole or not at all.
    whole: bool,
    /// The frames that it had written when it was unlocked; `None`: it may write on.
    frames: Option<Vec<PageRun>>,
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
    Moving(u64, Vec<MediumChange>),
    /// These mappings do not show the new medium yet; then the windows and ranges go.
    Showing(Unanswered, Vec<WindowPages>, Vec<HeldRange>),
}

/// Mappings whose change is not known to hold.
pub(super) type Unanswered = BTreeMap<MappingId, Awaited>;

/// A change of a mapping that the ring waits for.
pub(super) struct Awaited {
    /// The change.
    number: u64,
    /// By its process, too.
    seen: bool,
}

impl Awaited {
    /// Its process has to see it.
    pub(super) fn seen(number: u64) -> Awaited {
        Awaited { number, seen: true }
    }
}

impl MediumChange {
    /// Whether a process sees something else behind it.
    pub fn shows_to(&self, process: ProcessId) -> bool {
        self.process == process && !self.leaves
    }

    /// The windows and ranges that its content leaves.
    pub(super) fn left(self) -> (Vec<WindowPages>, Vec<HeldRange>) {
        (self.unmap.into_iter().collect(), self.ranges)
    }
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
    pub(super) fn moving(&self) -> Option<u64> {
        match &self.stage {
            Stage::Moving(number, _) => Some(*number),
            _ => None,
        }
    }
}

impl Adapter {
    /// Binds the changes of medium of a work that is being queued.
    pub fn bind_rotations(&mut self, cx: &Cx<'_>, rotations: Vec<Rotation>) -> Vec<MediumChange> {
        let mut bind = |rotation: Rotation| {
            let mapping = self.memory.cpu_view.of(rotation.allocation)?;
            let allocation = rotation.allocation;
            let runs = self.through_caches(cx, allocation, rotation.runs);
            let whole = self.vidmm.is_copied_whole(allocation);
            let writes = rotation.writes_backing.then_some(Written { allocation, whole, frames: None });
            if self.lends(cx, &runs) {
                self.memory.cpu_view.note_lent(mapping);
            }
            let (process, leaves) = (self.memory.allocations.body_of(allocation).creator, false);
            Some(MediumChange {
                mapping,
                process,
                runs,
                unmap: rotation.unmap,
                ranges: rotation.ranges,
                writes,
                leaves,
            })
        };
        rotations.into_iter().map(|rotation| bind(rotation).expect("what is locked is mapped")).collect()
    }

    /// Queues a work that moves nothing, at whose turn a mapping shows these; none: it leaves.
    pub fn queue_turn(&mut self, cx: &mut Cx<'_>, process: ProcessId, mapping: MappingId, runs: Vec<CpuRun>) {
        self.queue_work(cx, process, None, None, Vec::new());
        let leaves = runs.is_empty();
        let turn = MediumChange { mapping, process, runs, unmap: None, ranges: Vec::new(), writes: None, leaves };
        self.memory.ring.held.back_mut().expect("it was just queued").turns.push(turn);
    }

    /// Whether the work at the head may be built; asks for what is missing.
    pub(super) fn may_build(&mut self, cx: &mut Cx<'_>) -> bool {
        match &self.memory.ring.stage {
            Stage::Building => true,
            Stage::Protecting(_) | Stage::Moving(..) | Stage::Showing(..) => false,
            Stage::None => {
                let turns = &self.memory.ring.building[0].turns;
                if turns.is_empty() {
                    return true;
                }
                let written: BTreeSet<MappingId> =
                    turns.iter().map(|turn| turn.mapping).filter(|m| self.memory.cpu_view.is_written(*m)).collect();
                let mut tell = |mapping| {
                    (mapping, Awaited::seen(self.memory.cpu_view.tell(cx, mapping, MappingChange::Protected)))
                };
                let unanswered: Unanswered = written.into_iter().map(&mut tell).collect();
                let waits = !unanswered.is_empty();
                if waits {
                    self.memory.ring.stage = Stage::Protecting(unanswered);
                } else {
                    self.begin_building(cx);
                }
                !waits
            }
        }
    }

    /// No process can write the content that the work at the head moves: its copy out skips what was written into a system copy.
    // spec: memory §2.2
    fn begin_building(&mut self, cx: &Cx<'_>) {
        self.memory.ring.stage = Stage::Building;
        let Some(work) = self.memory.ring.building.front_mut() else { return };
        let turns = std::mem::take(&mut work.turns);
        for writes in turns.iter().filter_map(|turn| turn.writes.as_ref()) {
            let frames = match &writes.frames {
                Some(frames) => frames.clone(),
                None => self.frames_of(writes.allocation, &self.written_pages(cx, writes.allocation)),
            };
            if !frames.is_empty() {
                let operations = std::mem::take(&mut self.memory.ring.building[0].operations);
                let spared = operations.into_iter().flat_map(|operation| spare(operation, &frames, writes.whole));
                self.memory.ring.building[0].operations = spared.collect();
            }
        }
        self.memory.ring.building[0].turns = turns;
    }

    /// An allocation was unlocked: settles which pages it had written, for works that are still to copy over them.
    pub fn rotations_unlocked(&mut self, allocation: AllocationId, written: &WrittenPages) {
        let frames = self.frames_of(allocation, written);
        let works = self.memory.ring.held.iter_mut().chain(&mut self.memory.ring.building);
        for writes in works.flat_map(|work| &mut work.turns).filter_map(|turn| turn.writes.as_mut()) {
            if writes.allocation == allocation {
                writes.frames.get_or_insert_with(|| frames.clone());
            }
        }
    }

    /// The last buffer of the work at the head is with the hardware.
    pub(super) fn rotation_submitted(&mut self, number: u64, turns: Vec<MediumChange>) {
        if !turns.is_empty() {
            assert!(matches!(self.memory.ring.stage, Stage::Building), "it was protected before it was built");
            self.memory.ring.stage = Stage::Moving(number, turns);
        }
    }

    /// The hardware has finished a work.
    pub fn rotation_done(&mut self, cx: &mut Cx<'_>, work: u64) {
        if !matches!(&self.memory.ring.stage, Stage::Moving(moving, _) if *moving == work) {
            return;
        }
        let Stage::Moving(_, turns) = std::mem::take(&mut self.memory.ring.stage) else { unreachable!("just seen") };
        let (mut unanswered, mut windows, mut ranges) = (Unanswered::new(), Vec::new(), Vec::new());
        for turn in turns {
            windows.extend(turn.unmap);
            ranges.extend(turn.ranges);
            let (mapping, process) = (turn.mapping, turn.process);
            if turn.leaves {
                if self.memory.cpu_view.leave(mapping) {
                    let number = self.memory.cpu_view.tell(cx, mapping, MappingChange::Left);
                    unanswered.insert(mapping, Awaited { number, seen: false });
                }
            } else if self.memory.cpu_view.is_alive(mapping) {
                // A quiesced process goes on behind the ring's work: it must see the places that it is about to write.
                let seen = self.owners.devices_of(process).any(|device| self.is_suspended(device));
                let passes = !seen && self.moves_on(mapping);
                let change = if passes { MappingChange::Passed(turn.runs) } else { MappingChange::Shown(turn.runs) };
                let number = self.memory.cpu_view.show(cx, mapping, process, change, work);
                unanswered.insert(mapping, Awaited { number, seen });
            }
        }
        self.memory.ring.stage = Stage::Showing(unanswered, windows, ranges);
        self.advance_rotation(cx);
    }

    /// Whether what a mapping shows is moved by the next work that moves locked content, which nothing but the hardware keeps waiting. Not what
    /// has passed once: or the moves that others cause could hold a process's stores for as long as they go on.
    fn moves_on(&self, mapping: MappingId) -> bool {
        let next = self.memory.ring.building.iter().find(|work| !work.turns.is_empty());
        let is_moved = |turn: &MediumChange| turn.mapping == mapping && !turn.leaves;
        self.may_pump()
            && self.memory.cpu_view.is_written(mapping)
            && next.is_some_and(|work| work.turns.iter().any(is_moved))
    }

    /// The outside has carried out the changes of a mapping up to this one, and perhaps its process sees them; for a mapping that has
    /// gone, all of them.
    pub fn mapping_changed(&mut self, cx: &mut Cx<'_>, mapping: MappingId, number: u64, heard: Heard) {
        let seen = heard == Heard::Seen;
        if seen && self.memory.cpu_view.note_seen(mapping, number) {
            self.send_pending_remap_signals(cx);
        }
        if let Stage::Protecting(unanswered) | Stage::Showing(unanswered, ..) = &mut self.memory.ring.stage
            && unanswered.get(&mapping).is_some_and(|awaited| awaited.number <= number && (seen || !awaited.seen))
        {
            unanswered.remove(&mapping);
            self.memory.cpu_view.note_answer(mapping);
            self.advance_rotation(cx);
            self.pump_paging(cx);
        }
    }

    /// The adapter has stopped: releases the threads that wait in a mapping.
    pub fn release_mappings(&mut self, cx: &mut Cx<'_>) {
        let turns = match std::mem::take(&mut self.memory.ring.stage) {
            Stage::Protecting(unanswered) => unanswered.into_keys().collect(),
            Stage::Building => {
                self.memory.ring.building.iter().flat_map(|work| &work.turns).map(|turn| turn.mapping).collect()
            }
            Stage::Moving(_, turns) => turns.into_iter().map(|turn| turn.mapping).collect(),
            Stage::None | Stage::Showing(..) => BTreeSet::new(),
        };
        let mappings: BTreeSet<MappingId> = turns
            .into_iter()
            .chain(self.memory.cpu_view.take_leaving())
            .chain(self.memory.cpu_view.take_passed())
            .collect();
        for mapping in mappings {
            self.memory.cpu_view.tell(cx, mapping, MappingChange::Gone);
        }
    }

    pub(super) fn advance_rotation(&mut self, cx: &mut Cx<'_>) {
        match &self.memory.ring.stage {
            Stage::Protecting(unanswered) if unanswered.is_empty() => self.begin_building(cx),
            Stage::Showing(unanswered, ..) if unanswered.is_empty() => {
                let Stage::Showing(_, windows, ranges) = std::mem::take(&mut self.memory.ring.stage) else {
                    unreachable!("just seen")
                };
                for pages in windows {
                    // spec: memory §6.6, no process sees through it any more, and nothing has taken its memory pages
                    self.unmap_window(cx, &pages);
                    self.vidmm.window_unmapped(&pages);
                }
                // spec: memory §6.5, no process sees through them any more
                self.release_ranges(cx, &ranges);
                self.vidmm.ranges_released(&ranges);
            }
            _ => {}
        }
    }
}
