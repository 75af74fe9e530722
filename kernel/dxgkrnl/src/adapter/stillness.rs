//! Devices that quiesce for a work of the ring, from its turn until the hardware has got past it: because page tables change under their
//! processes, or because content that they list moves. `paging` has the works; the adapter has the devices suspended and resumed, and their
//! contexts and queued buffers told.

use std::collections::BTreeSet;

use events::Event;
use gpu_fence::FenceId;
use vidmm::{DeviceId, MoveKind, SpaceId};
use vidsch::SuspendReasons;
use wddm_types::{FencePoint, PhysicalAddress};

use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::number::{DeviceNumber, PagingWorkNumber};
use crate::paging::Relocation;
use crate::scheduling::Suspendable;
use crate::store::ObjectNumber;

impl Adapter {
    /// The work of this number comes next: stops the devices of these spaces. Answers with the points to wait for until
    /// they have stopped.
    // spec: memory §4.5, memory §8.6
    pub(super) fn idle_spaces(
        &mut self,
        cx: &mut Cx<'_>,
        work: PagingWorkNumber,
        spaces: Vec<(SpaceId, events::Stillness)>,
    ) -> Vec<FencePoint<FenceId>> {
        for (space, why) in &spaces {
            let process = self.process_in(*space);
            cx.emit(self.index, Event::ProcessStandsStill { work: work.raw(), process, why: *why });
        }
        let spaces: Vec<SpaceId> = spaces.into_iter().map(|(space, _)| space).collect();
        let processes: BTreeSet<_> = spaces.iter().filter_map(|space| self.owners.process_in(*space)).collect();
        let devices = processes.into_iter().flat_map(|process| self.owners.devices_of(process));
        let devices: Vec<_> = devices.collect::<BTreeSet<_>>().into_iter().collect();
        self.memory.ring.stillness_begins(work, spaces, devices.clone());
        let stop = |number| self.suspend_device(cx, number, SuspendReasons::PAGE_TABLES);
        devices.into_iter().filter_map(stop).collect()
    }

    /// Gives the contexts of a quiesced process another root. A lost device's contexts run no more.
    // spec: memory §4.6
    pub(super) fn switch_root(&mut self, cx: &Cx<'_>, space: SpaceId, root: PhysicalAddress, entries: u32) {
        self.vidmm.root_switched(space, root, entries);
        let process = self.owners.process_in(space);
        let devices = process.into_iter().flat_map(|process| self.owners.devices_of(process));
        let mut contexts = Vec::new();
        for number in devices {
            if self.owners.is_active(number) {
                contexts.extend(self.queues.contexts_of(number).map(|context| self.queues[context].kmd));
                let packets = self.packets.of_device(number).map(|context| &self.packets[context]);
                contexts.extend(packets.filter(|context| context.addresses).map(|context| context.kmd));
            }
        }
        let addressing = self.driver.call(cx).gpu_va().expect("checked at adapter start");
        for context in contexts {
            addressing.set_root_page_table(context, root, entries);
        }
    }

    /// Quiesces a new device of a quiesced process.
    pub(super) fn quiesce_new_device(&mut self, number: DeviceNumber) {
        let space = self.owners.space_of(self.owners.process_of(number));
        for _ in 0..self.memory.ring.device_comes(number, space) {
            // It has no context yet, so there is nothing to wait for.
            self.vidsch.suspensions.quiesce(Suspendable::Device(number), SuspendReasons::PAGE_TABLES);
        }
    }

    /// The hardware has got past a work: the devices that it quiesced go on, unless another work needs them quiesced.
    pub(super) fn stillness_over(&mut self, cx: &mut Cx<'_>, work: PagingWorkNumber) {
        for number in self.memory.ring.stillness_ends(work) {
            if self.memory.ring.needs_stillness_no_more(number) {
                self.resume_device(cx, number, SuspendReasons::PAGE_TABLES);
            }
        }
    }

    /// Binds the moves of a work that is being queued: later ones may be decided before its turn comes.
    pub(super) fn bind_relocation(&self, quiesced: &[DeviceId], moves: &[vidmm::Move]) -> Relocation {
        let number = |id: &DeviceId| self.owners.device_of(*id);
        let devices: Vec<_> = quiesced.iter().filter_map(number).collect();
        if devices.is_empty() {
            return Relocation::default();
        }
        let moves_on = |step: &&vidmm::Move| {
            use vidmm::Cause::{Compaction, Lock, Promote};
            step.kind == MoveKind::Relocate || matches!(step.cause, Promote | Lock | Compaction { .. })
        };
        let moved = moves.iter().filter(moves_on);
        Relocation { devices, moved: moved.map(|step| (step.allocation, self.binding_of(step.allocation))).collect() }
    }

    /// The turn of a work that moves content within segments: its devices stop. Answers with what to wait for.
    // spec: memory §8.2, memory §7.4
    pub(super) fn quiesce_relocated(&mut self, cx: &mut Cx<'_>, number: PagingWorkNumber) -> Vec<FencePoint<FenceId>> {
        let Relocation { devices, moved } = self.memory.ring.relocation_begins(number);
        let mut points = Vec::new();
        for device in devices {
            if self.owners.facts_of(device).is_none() {
                continue;
            }
            self.memory.ring.relocates(device);
            points.extend(self.suspend_device(cx, device, SuspendReasons::RELOCATION));
            self.packets_relocated(device, &moved);
        }
        points
    }

    /// The moves are over: the devices go on, unless another work needs them still.
    pub(super) fn relocated(&mut self, cx: &mut Cx<'_>, devices: Vec<DeviceNumber>) {
        for number in devices {
            if self.memory.ring.relocates_no_more(number) {
                self.resume_device(cx, number, SuspendReasons::RELOCATION);
            }
        }
    }
}
