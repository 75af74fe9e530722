//! Processes that are quiesced while their page tables change under them: a leaf table that is converted, or any change on hardware that
//! wants idle address spaces (memory §4.2, §4.5). The memory manager says for which work; here all contexts of the process's devices
//! leave the hardware when that work's turn has come, and go on when the hardware has got past it. A device that comes in between is
//! quiesced, too.

use std::collections::BTreeSet;

use events::Event;
use gpu_fence::FenceId;
use vidmm::{Operation, SpaceId, Work};
use vidsch::SuspendReasons;
use wddm_types::{FencePoint, PhysicalAddress};

use crate::adapter::Adapter;
use crate::machine::Cx;
use crate::object::DeviceNumber;
use crate::suspension::Suspendable;

/// The spaces and devices that one work quiesces.
pub(super) struct Stillness {
    spaces: Vec<SpaceId>,
    devices: Vec<DeviceNumber>,
}

/// The spaces in which nothing may run during a work, each with its strongest reason.
pub(super) fn causes(work: &Work<FenceId>) -> Vec<(SpaceId, events::Stillness)> {
    let converts = |space: SpaceId| work.conversions.iter().any(|conversion| conversion.space == space);
    let switches = |space: SpaceId| {
        work.operations.iter().any(|what| matches!(what, Operation::SwitchRoot { space: of, .. } if *of == space))
    };
    let cause = |space| match (switches(space), converts(space)) {
        (true, _) => events::Stillness::Root,
        (false, true) => events::Stillness::Conversion,
        (false, false) => events::Stillness::Hardware,
    };
    work.idle_spaces.iter().map(|space| (*space, cause(*space))).collect()
}

impl Adapter {
    /// The work of this number comes next: stops the devices of these spaces. Answers with the points to wait for until
    /// they have stopped.
    // spec: memory §4.5, memory §8.6
    pub(super) fn idle_spaces(
        &mut self,
        cx: &mut Cx<'_>,
        work: u64,
        spaces: Vec<(SpaceId, events::Stillness)>,
    ) -> Vec<FencePoint<FenceId>> {
        for (space, why) in &spaces {
            let process = self.process_in(*space);
            cx.emit(self.index, Event::ProcessStandsStill { work, process, why: *why });
        }
        let spaces: Vec<SpaceId> = spaces.into_iter().map(|(space, _)| space).collect();
        let processes: BTreeSet<_> = spaces.iter().filter_map(|space| self.owners.process_in(*space)).collect();
        let devices = processes.into_iter().flat_map(|process| self.owners.devices_of(process));
        let devices: Vec<_> = devices.collect::<BTreeSet<_>>().into_iter().collect();
        for &device in &devices {
            self.devices[device].table_changes += 1;
        }
        self.ring.stillnesses.insert(work, Stillness { spaces, devices: devices.clone() });
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
                let device = &self.devices[number];
                contexts.extend(device.contexts.iter().map(|context| self.contexts[*context].kmd));
                let packets = device.packet_contexts.iter().map(|context| &self.packets[*context]);
                contexts.extend(packets.filter(|context| context.addresses).map(|context| context.kmd));
            }
        }
        let addressing = self.driver.call(cx).gpu_va().expect("checked at adapter start");
        for context in contexts {
            addressing.set_root_page_table(context, root, entries);
        }
    }

    /// Quiesces a new device of a quiesced process.
    pub fn quiesce_new_device(&mut self, number: DeviceNumber) {
        let space = self.owners.space_of(self.owners.process_of(number));
        for stillness in self.ring.stillnesses.values_mut().filter(|known| known.spaces.contains(&space)) {
            stillness.devices.push(number);
            // It has no context yet, so there is nothing to wait for.
            self.devices[number].table_changes += 1;
            self.vidsch.suspensions.quiesce(Suspendable::Device(number), SuspendReasons::PAGE_TABLES);
        }
    }

    /// The hardware has got past a work: the devices that it quiesced go on, unless another work needs them quiesced.
    pub fn stillness_over(&mut self, cx: &mut Cx<'_>, work: u64) {
        let Some(stillness) = self.ring.stillnesses.remove(&work) else { return };
        for number in stillness.devices {
            let Some(device) = self.devices.get_mut(number) else { continue };
            device.table_changes -= 1;
            if device.table_changes == 0 {
                self.resume_device(cx, number, SuspendReasons::PAGE_TABLES);
            }
        }
    }
}
