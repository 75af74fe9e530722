//! Moves, as events; the residency that they add up to; and what was planned of them.

use events::{Cause, Event, Move};
use vidmm::{PlanReport, SpaceId};
use wddm_types::{PageRun, ProcessId, SegmentId};

use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::number::PagingWorkNumber;
use crate::store::ObjectNumber;

/// One allocation's pages within the GPU's reach, as the moves told add up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Residence {
    /// The allocation's number in events.
    pub allocation: u64,
    /// The segment; [`SegmentId::SYSTEM`] for its own pages of system memory.
    pub segment: SegmentId,
    /// Which pages of it.
    pub runs: Vec<PageRun>,
}

impl Adapter {
    /// Tells what has moved without work, before the memory manager's work of this serial. The hardware had nothing to do for
    /// it: the work's number is 0.
    pub(super) fn emit_untold(&mut self, cx: &mut Cx<'_>, process: ProcessId, before: u64) {
        let moves = self.vidmm.take_untold(before);
        if !moves.is_empty() {
            self.backings_used(cx, &moves);
            self.emit_moves(cx, None, process, &moves);
        }
    }

    /// Tells what moved, by a work if the hardware had something to do for it. Answers with the bytes copied in and out.
    pub(super) fn emit_moves(
        &mut self,
        cx: &mut Cx<'_>,
        work: Option<PagingWorkNumber>,
        process: ProcessId,
        moves: &[vidmm::Move],
    ) -> (u64, u64) {
        let (mut in_bytes, mut out_bytes) = (0, 0);
        let (mut segments, work) = (Vec::new(), work.map_or(0, ObjectNumber::raw));
        for moved in moves {
            let owner = self.memory.allocations.body(moved.allocation).map(|body| body.creator);
            self.tally.count_move(owner, moved.kind, moved.bytes);
            match event_move(moved.kind) {
                Move::PageIn => in_bytes += moved.bytes,
                Move::PageOut => out_bytes += moved.bytes,
                Move::Fill | Move::Discard | Move::Relocate | Move::Map | Move::Unmap => {}
            }
            // An aperture shows pages of the kernel's own, too: moves tell of the content there.
            if !moved.kind.is_quiet() && !segments.contains(&moved.segment) {
                segments.push(moved.segment);
            }
            cx.emit(
                self.index,
                Event::Moved {
                    work,
                    process: process.0,
                    allocation: self.memory.allocations.told_as(moved.allocation),
                    segment: moved.segment.0,
                    bytes: moved.bytes,
                    how: event_move(moved.kind),
                    why: self.event_cause(moved.cause),
                    runs: moved.runs.clone(),
                },
            );
        }
        for segment in segments {
            self.emit_resident(cx, segment);
        }
        (in_bytes, out_bytes)
    }

    /// Tells whose page tables left or came.
    pub(super) fn emit_table_moves(&mut self, cx: &mut Cx<'_>, work: PagingWorkNumber, tables: &[vidmm::TableMove]) {
        let work = work.raw();
        for moved in tables {
            let process = self.process_in(moved.space);
            cx.emit(
                self.index,
                match moved.came {
                    true => Event::TablesRestored { work, process, bytes: moved.bytes },
                    false => {
                        let for_process = moved.for_space.map_or(0, |space| self.process_in(space));
                        Event::TablesEvicted { work, process, bytes: moved.bytes, for_process }
                    }
                },
            );
        }
    }

    /// Tells whose leaf tables get another form, and why.
    // spec: memory §4.5
    pub(super) fn emit_conversions(
        &mut self,
        cx: &mut Cx<'_>,
        work: PagingWorkNumber,
        conversions: &[vidmm::Conversion],
    ) {
        for conversion in conversions {
            cx.emit(
                self.index,
                Event::LeafTableConverted {
                    work: work.raw(),
                    process: self.process_in(conversion.space),
                    va: conversion.va.0,
                    size_bytes: conversion.size_bytes,
                    why: match conversion.cause {
                        vidmm::ConversionCause::SystemMemory => events::Conversion::SystemMemory,
                        vidmm::ConversionCause::PartOfPage => events::Conversion::PartOfPage,
                        vidmm::ConversionCause::SmallPages => events::Conversion::SmallPages,
                    },
                },
            );
        }
    }

    /// The number of the process that a space is of; 0: of one that is being created, or has died.
    pub(super) fn process_in(&self, space: SpaceId) -> u32 {
        self.owners.process_in(space).map_or(0, |process| process.0)
    }

    /// All that is resident, by the numbers that events give.
    pub fn residences(&self) -> Vec<Residence> {
        let of = |known: vidmm::Residence| Residence {
            allocation: self.memory.allocations.told_as(known.allocation),
            segment: known.segment,
            runs: known.runs,
        };
        self.vidmm.residences().map(of).collect()
    }

    /// Planned against actual, of each memory segment whose evictions are planned. A stream whose process has ended has number 0, and says so.
    pub fn plans(&self) -> Vec<(SegmentId, PlanReport)> {
        let mut plans: Vec<(SegmentId, PlanReport)> = self.vidmm.plan_reports().collect();
        for stream in plans.iter_mut().flat_map(|(_, report)| &mut report.streams) {
            let space = self.vidmm.space_numbered(stream.process).filter(|_| !stream.ended);
            stream.process = space.map_or(0, |space| self.process_in(space));
        }
        plans
    }

    fn event_cause(&self, cause: vidmm::Cause) -> Cause {
        match cause {
            vidmm::Cause::MakeResident => Cause::MakeResident,
            vidmm::Cause::Pressure { for_allocation } => {
                Cause::Pressure { for_allocation: self.memory.allocations.told_as(for_allocation) }
            }
            vidmm::Cause::Evict => Cause::Evict,
            vidmm::Cause::Lock => Cause::Lock,
            vidmm::Cause::SystemCopy => Cause::SystemCopy,
            vidmm::Cause::Destroy => Cause::Destroy,
            vidmm::Cause::Resume => Cause::Resume,
            vidmm::Cause::Reclaim => Cause::Reclaim,
            vidmm::Cause::Ahead => Cause::Ahead,
            vidmm::Cause::Foreseen => Cause::Foreseen,
            vidmm::Cause::Reset => Cause::Reset,
            vidmm::Cause::Power => Cause::Power,
            vidmm::Cause::Compaction { for_allocation } => {
                Cause::Compaction { for_allocation: self.memory.allocations.told_as(for_allocation) }
            }
            vidmm::Cause::Promote => Cause::Promote,
            vidmm::Cause::Property => Cause::Property,
        }
    }
}

fn event_move(kind: vidmm::MoveKind) -> Move {
    match kind {
        vidmm::MoveKind::PageIn => Move::PageIn,
        vidmm::MoveKind::PageOut => Move::PageOut,
        vidmm::MoveKind::Discard => Move::Discard,
        vidmm::MoveKind::Fill => Move::Fill,
        vidmm::MoveKind::Relocate => Move::Relocate,
        vidmm::MoveKind::Map => Move::Map,
        vidmm::MoveKind::Unmap => Move::Unmap,
    }
}
