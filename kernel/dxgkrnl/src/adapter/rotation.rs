//! Locked content that the ring moves, among the other parts: the CPU's view is told of changes, its processes answer, and the memory
//! manager gets the windows and ranges that were left. `paging` has the stage of the ring meanwhile.

use std::collections::BTreeSet;

use kmt_calls::MappingId;
use vidmm::{AllocationId, Rotation};
use wddm_types::{CpuRun, ProcessId};

use crate::adapter::Adapter;
use crate::cpu_view::WrittenPages;
use crate::effect::{Cx, Heard, MappingChange};
use crate::number::{MappingChangeNumber, PagingWorkNumber};
use crate::paging::{Awaited, Due, Head, MediumChange, Unanswered, Written};

impl Adapter {
    /// Binds the changes of medium of a work that is being queued.
    pub(super) fn bind_rotations(&mut self, cx: &Cx<'_>, rotations: Vec<Rotation>) -> Vec<MediumChange> {
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
    pub(super) fn queue_turn(&mut self, cx: &mut Cx<'_>, process: ProcessId, mapping: MappingId, runs: Vec<CpuRun>) {
        self.queue_work(cx, process, None, None, Vec::new());
        let leaves = runs.is_empty();
        let turn = MediumChange { mapping, process, runs, unmap: None, ranges: Vec::new(), writes: None, leaves };
        self.memory.ring.turn_joins(turn);
    }

    /// Whether the work at the head may be built; asks for what is missing.
    pub(super) fn may_build(&mut self, cx: &mut Cx<'_>) -> bool {
        let mappings = match self.memory.ring.head() {
            Head::Builds => return true,
            Head::Stands => return false,
            Head::Moves(mappings) => mappings,
        };
        let cpu_view = &mut self.memory.cpu_view;
        let written: BTreeSet<MappingId> =
            mappings.into_iter().filter(|mapping| cpu_view.is_written(*mapping)).collect();
        let mut tell = |mapping| (mapping, Awaited::seen(cpu_view.tell(cx, mapping, MappingChange::Protected)));
        let unanswered: Unanswered = written.into_iter().map(&mut tell).collect();
        let waits = !unanswered.is_empty();
        if waits {
            self.memory.ring.protects(unanswered);
        } else {
            self.begin_building(cx);
        }
        !waits
    }

    /// No process can write the content that the work at the head moves: its copy out skips what was written into a system copy.
    // spec: memory §2.2
    fn begin_building(&mut self, cx: &Cx<'_>) {
        for writes in self.memory.ring.building_begins() {
            let frames = match writes.frames {
                Some(frames) => frames,
                None => self.frames_of(writes.allocation, &self.written_pages(cx, writes.allocation)),
            };
            if !frames.is_empty() {
                self.memory.ring.spare_frames(&frames, writes.whole);
            }
        }
    }

    /// An allocation was unlocked: settles which pages it had written, for works that are still to copy over them.
    pub(super) fn rotations_unlocked(&mut self, allocation: AllocationId, written: &WrittenPages) {
        let frames = self.frames_of(allocation, written);
        self.memory.ring.settle_written(allocation, &frames);
    }

    /// The hardware has finished a work.
    pub(super) fn rotation_done(&mut self, cx: &mut Cx<'_>, work: PagingWorkNumber) {
        let Some(turns) = self.memory.ring.moved(work) else { return };
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
        self.memory.ring.shows_new(unanswered, windows, ranges);
        self.advance_rotation(cx);
    }

    /// Whether what a mapping shows is moved by the next work that moves locked content, which nothing but the hardware keeps waiting.
    /// Not what has passed once: or the moves that others cause could hold a process's stores for as long as they go on.
    fn moves_on(&self, mapping: MappingId) -> bool {
        self.may_pump() && self.memory.cpu_view.is_written(mapping) && self.memory.ring.next_moves(mapping)
    }

    /// The outside has carried out the changes of a mapping up to this one, and perhaps its process sees them; for a mapping that has
    /// gone, all of them.
    pub fn mapping_changed(&mut self, cx: &mut Cx<'_>, mapping: MappingId, number: MappingChangeNumber, heard: Heard) {
        let seen = heard == Heard::Seen;
        if seen && self.memory.cpu_view.note_seen(mapping, number) {
            self.send_pending_remap_signals(cx);
        }
        if self.memory.ring.holds(mapping, number, seen) {
            self.memory.cpu_view.note_answer(mapping);
            self.advance_rotation(cx);
            self.pump_paging(cx);
        }
    }

    /// The adapter has stopped: releases the threads that wait in a mapping.
    pub(super) fn release_mappings(&mut self, cx: &mut Cx<'_>) {
        let turns = self.memory.ring.stop_rotation();
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
        match self.memory.ring.rotation_due() {
            Due::Nothing => {}
            Due::Build => self.begin_building(cx),
            Due::Release(windows, ranges) => {
                for pages in windows {
                    // spec: memory §6.6, no process sees through it any more, and nothing has taken its memory pages
                    self.unmap_window(cx, &pages);
                    self.vidmm.window_unmapped(&pages);
                }
                // spec: memory §6.5, no process sees through them any more
                self.release_ranges(cx, &ranges);
                self.vidmm.ranges_released(&ranges);
            }
        }
    }
}
