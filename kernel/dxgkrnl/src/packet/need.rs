//! The needs of the packet that is next on a context, before it may start (memory §5.1, §7.4). `adapter::packets::need` knows what is met.

use vidmm::AllocationId;

use super::Packets;
use super::work::{Packet, Work};
use crate::number::PacketContextNumber;

/// The points of the paging ring that a packet needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Work of the ring by number: its buffer is shown behind it.
    pub shown_after: u64,
    /// Work of the memory manager by serial: what the packet names is behind it where it is bound.
    pub serial: u64,
}

impl Packets {
    /// The points of the paging ring that a context's next packet needs; `None`: none, or there is no packet.
    // spec: memory §5.1, memory §7.4
    pub fn needs(&self, context: PacketContextNumber) -> Option<Needs> {
        match &self.next_of(context)?.work {
            Work::Patched { buffer, entries, portions, .. } => {
                let serial = match portions.front() {
                    Some(portion) => portion.needs.iter().flatten().map(|needed| needed.bindings.now.serial).max(),
                    None => entries.iter().map(|bound| bound.bindings.now.serial).max(),
                };
                let shown_after = self.buffer_place(context, *buffer).shown_after;
                Some(Needs { shown_after, serial: serial.unwrap_or(0) })
            }
            Work::Virtual { presented, .. } => {
                let presented = presented.as_ref()?;
                Some(Needs { shown_after: presented.shown_after, serial: presented.serial })
            }
        }
    }

    /// Whether a context's next packet names memory that was taken from its device.
    pub fn names_taken_memory(&self, context: PacketContextNumber) -> bool {
        match self.next_of(context).map(|packet| &packet.work) {
            Some(Work::Patched { entries, portions, .. }) => match portions.front() {
                Some(portion) => portion.needs.iter().flatten().any(|needed| needed.bindings.now.place.is_none()),
                None => entries.iter().any(|bound| bound.vidmm.is_some() && bound.bindings.now.place.is_none()),
            },
            Some(Work::Virtual { .. }) | None => false,
        }
    }

    /// Whether it is decided where memory comes back that a context's next packet names.
    pub fn names_returning_memory(&self, context: PacketContextNumber) -> bool {
        match self.next_of(context).map(|packet| &packet.work) {
            Some(Work::Patched { entries, .. }) => entries.iter().any(|bound| !bound.bindings.turns.is_empty()),
            Some(Work::Virtual { .. }) | None => false,
        }
    }

    /// The primaries, and other allocations, that a context's next packet writes.
    // spec: memory §5.6, memory §10.1
    pub fn next_writes(&self, context: PacketContextNumber) -> Vec<AllocationId> {
        self.next_of(context).map(|packet| packet.work.writes()).unwrap_or_default()
    }

    fn next_of(&self, context: PacketContextNumber) -> Option<&Packet> {
        self.contexts[context].queued.front()
    }
}
