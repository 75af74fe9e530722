//! Works that move content which stays on its lists, within its segment, up to a better one (memory §8.1) or out for a lock (memory
//! §6.3): devices that list it are quiesced from the work's turn in the ring until the work is done, and buffers that name it by physical
//! address learn the new one meanwhile.
//!
//! ```text
//! turn of the work ──▶ devices quiesce, their queued buffers re-bound ──▶ carried out ──▶ devices go on
//! ```
//! Buffers that were handed over before have run before the devices quiesce, at the old place. Buffers that are bound
//! after the decision know the new place already, and wait for this work.

use gpu_fence::FenceId;
use vidmm::{AllocationId, DeviceId, MoveKind};
use vidsch::SuspendReasons;
use wddm_types::FencePoint;

use crate::adapter::Adapter;
use crate::machine::Cx;
use crate::object::DeviceNumber;
use crate::packet::Binding;

/// The moves of one work of content that devices list.
#[derive(Default)]
pub(super) struct Relocation {
    devices: Vec<DeviceNumber>,
    /// Where content is from this work on.
    moved: Vec<(AllocationId, Binding)>,
}

impl Relocation {
    /// The devices that quiesce.
    pub fn devices(&self) -> &[DeviceNumber] {
        &self.devices
    }
}

impl Adapter {
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
    pub(super) fn quiesce_relocated(&mut self, cx: &mut Cx<'_>, number: u64) -> Vec<FencePoint<FenceId>> {
        let work = self.ring.held.iter_mut().find(|work| work.number == number).expect("its work stands behind it");
        let Relocation { devices, moved } = std::mem::take(&mut work.relocation);
        let mut points = Vec::new();
        for device in devices {
            let Some(known) = self.devices.get_mut(device) else { continue };
            known.relocations += 1;
            points.extend(self.suspend_device(cx, device, SuspendReasons::RELOCATION));
            self.packets_relocated(device, &moved);
        }
        points
    }

    /// The moves are over: the devices go on, unless another work needs them still.
    pub fn relocated(&mut self, cx: &mut Cx<'_>, devices: Vec<DeviceNumber>) {
        for number in devices {
            let Some(device) = self.devices.get_mut(number) else { continue };
            device.relocations -= 1;
            if device.relocations == 0 {
                self.resume_device(cx, number, SuspendReasons::RELOCATION);
            }
        }
    }
}
