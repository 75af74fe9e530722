//! Submissions that wait until their device runs again: only then can be said where what their buffers name finds room.
//! `adapter::packets::split` queues them in the order of the calls.

use kmt_calls::PatchLocationItem;
use vidmm::AllocationId;
use wddm_types::BltRectangle;

use super::{ListEntry, Packets};
use crate::effect::Token;
use crate::number::{DeviceNumber, FenceNumber, PacketContextNumber};

/// A submission that waits until its device runs again.
pub struct WaitingRender {
    /// The call that waits for the answer.
    pub token: Token,
    /// Its device.
    pub device: DeviceNumber,
    /// Its context.
    pub context: PacketContextNumber,
    /// Its allocation list.
    pub entries: Vec<ListEntry>,
    /// The submission.
    pub what: Submission,
    /// A fence of the kernel's own. Its value 1: the GPU is done with what was asked for, or it was refused.
    pub done: FenceNumber,
    /// The allocations of its device's list that its own process had locked when it asked.
    pub locked: Vec<AllocationId>,
}

/// A submission to be queued.
pub enum Submission {
    /// `D3DKMTRender`.
    Render {
        /// The commands.
        command: Vec<u64>,
        /// Its patch locations.
        places: Vec<PatchLocationItem>,
        /// The user-mode driver's private data.
        private_data: Vec<u8>,
    },
    /// `D3DKMTPresent`; the list carries source and destination.
    Present {
        /// The parts that are copied; none: all.
        rectangles: Vec<BltRectangle>,
    },
}

impl Packets {
    /// A submission waits, behind the others.
    pub fn wait_for_turn(&mut self, waiting: WaitingRender) {
        self.waiting.push_back(waiting);
    }

    /// The submission that has waited longest.
    pub fn take_waiting(&mut self) -> Option<WaitingRender> {
        self.waiting.pop_front()
    }

    /// How many wait.
    pub fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    /// Whether a submission on a context waits.
    pub fn has_waiting_on(&self, context: PacketContextNumber) -> bool {
        self.waiting.iter().any(|waiting| waiting.context == context)
    }

    /// The devices whose submissions wait, once for each.
    pub fn devices_of_waiting(&self) -> impl Iterator<Item = DeviceNumber> + '_ {
        self.waiting.iter().map(|waiting| waiting.device)
    }

    /// Whether a submission of a device waits.
    pub fn has_waiting(&self, device: DeviceNumber) -> bool {
        self.waiting.iter().any(|waiting| waiting.device == device)
    }

    /// The submissions that wait and use an allocation, or write it.
    pub fn waiting_for(&self, allocation: AllocationId, writes_only: bool) -> impl Iterator<Item = &WaitingRender> {
        let uses = move |entry: &ListEntry| {
            entry.allocation.is_some_and(|listed| listed.instance == allocation) && (entry.write || !writes_only)
        };
        self.waiting.iter().filter(move |waiting| waiting.entries.iter().any(uses))
    }
}
