//! Words of fences: where each process sees them, and the frames that the kernel keeps for itself. Part of the frames model.

use ddi::{KmdGlobalFence, KmdProcess, OsGlobalFence, TransferEnd};
use wddm_types::{GpuVa, PAGE_BYTES};

use super::{Frame, Frames, lead_together};
use crate::check::contract::Broken;

impl Frames {
    /// The driver has a fence.
    pub fn fence(&mut self, global: KmdGlobalFence, os: OsGlobalFence) {
        self.fences.insert(global, os);
    }

    /// A process sees a fence's words at these addresses: other processes that see this fence may map the same pages.
    // spec: sync §1.5 (cross-process isolation)
    pub fn fence_shown(&mut self, process: KmdProcess, global: KmdGlobalFence, addresses: [GpuVa; 2]) {
        let Some(os) = self.fences.get(&global).copied() else { return };
        for va in addresses {
            self.words.insert((process, va.0 / PAGE_BYTES), os);
        }
    }

    /// The kernel keeps something of its own in frames, or clears them for an owner to come: no translation may lead there.
    pub(super) fn keep(&mut self, frames: Vec<Frame>) -> Result<(), Broken> {
        for frame in frames {
            let seen = self.reached.get(&frame).and_then(|spots| self.viewer(spots));
            self.unseen(frame, seen, "what the kernel keeps")?;
            self.owner.remove(&frame);
            self.kept.insert(frame);
        }
        Ok(())
    }

    /// The same at the end of a copy, unless that is system memory.
    pub(super) fn keep_at(&mut self, end: TransferEnd<'_>, offset: u64, bytes: u64) -> Result<(), Broken> {
        match end {
            TransferEnd::Segment { segment, address } => self.keep(self.frames(segment, address + offset, bytes)?),
            TransferEnd::Mdl(_) => Ok(()),
        }
    }

    /// System pages to which two processes lead: the words of a fence that both have open, of which the driver hears behind the
    /// entries. Asked when the calls that wrote them are over.
    // spec: sync §1.5 (cross-process isolation)
    pub fn doubts(&mut self) -> Result<(), Broken> {
        for (spot, other, frame) in std::mem::take(&mut self.doubts) {
            let fence = self.words.get(&spot);
            if fence.is_none() || self.words.get(&other) != fence {
                return Err(lead_together(spot, other, frame));
            }
        }
        Ok(())
    }
}
