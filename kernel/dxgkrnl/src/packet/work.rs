//! The content of a packet, and where the memory that it names is when it runs.

use std::collections::VecDeque;
use std::ops::Range;

use ddi::{KmdOpenAllocation, PatchLocation, SubmitFlags};
use vidmm::{AllocationId, WithheldPlace};
use wddm_types::{GpuVa, SegmentId};

use super::DmaBufferNumber;
use crate::number::PacketNumber;
use crate::paging::Binding;

/// A packet that waits for its turn.
pub struct Packet {
    pub(super) number: PacketNumber,
    pub(super) work: Work,
    /// It was handed over before.
    pub(super) preempted: bool,
}

/// The content of a packet.
pub enum Work {
    /// A DMA buffer with what its addresses are.
    Patched {
        /// The buffer's number.
        buffer: DmaBufferNumber,
        /// Words of it that are written.
        written: usize,
        /// Its allocation list.
        entries: Vec<Bound>,
        /// The places of addresses in it.
        places: Vec<PatchLocation>,
        /// What the driver is told of it.
        flags: SubmitFlags,
        /// Its parts that were not handed over; empty: it has none, and its entries' bindings hold.
        portions: VecDeque<Portion>,
    },
    /// Commands in the context's space, and the primaries that they write.
    Virtual {
        /// Where they are.
        commands: GpuVa,
        /// How long they are.
        bytes: u32,
        /// The user-mode driver's private data.
        private_data: Vec<u8>,
        /// The primaries that they write.
        primaries: Vec<AllocationId>,
        /// The DMA buffer of a Present, once the driver has written it.
        presented: Option<Presented>,
    },
}

/// A DMA buffer of a present in a context with addresses.
pub struct Presented {
    /// The buffer's number.
    pub buffer: DmaBufferNumber,
    /// Allocations that it uses, and whether it writes them.
    pub uses: Vec<(AllocationId, bool)>,
    /// The paging work after which they are where they are.
    pub serial: u64,
    /// The ring's position at which buffer and allocations are shown.
    pub shown_after: u64,
}

/// An entry of a packet's allocation list.
#[derive(Clone)]
pub struct Bound {
    /// The buffer writes it.
    pub write: bool,
    /// No residency list holds it: it is brought in for the buffer.
    pub unlisted: bool,
    /// The driver's name of the allocation: it lives as long as the packet, even when a process destroys the allocation.
    pub kmd: Option<KmdOpenAllocation>,
    /// The address that the DMA buffer holds since it was written.
    pub written: Option<(SegmentId, u64)>,
    /// The memory manager's name of it; lives as long as the packet, too.
    pub vidmm: Option<AllocationId>,
    /// Where it is when the packet runs.
    pub bindings: Bindings,
}

/// The places of content for a packet that waits: that of now, and those that come with turns of the packet's device.
#[derive(Clone)]
pub struct Bindings {
    /// The place of the packet among what its device may withhold: the packet has no content that the device withholds at this place or before.
    pub(super) behind: WithheldPlace,
    /// Where the content is when the packet runs.
    pub now: Binding,
    /// The places that the content gets with turns of the device which are decided and have not come, by their numbers.
    pub(super) turns: VecDeque<(u64, Binding)>,
}

impl Bindings {
    /// Content of a packet that is queued now. `withheld`: the place at which the packet's device withholds it.
    pub fn new(now: Binding, withheld: Option<WithheldPlace>) -> Bindings {
        let behind = withheld.unwrap_or_else(|| WithheldPlace::of(now.serial));
        Bindings { behind, now: now.unless(withheld.is_some()), turns: VecDeque::new() }
    }

    /// Where content at this place is for the packet, which its device withholds from this place on; `None`: it does not.
    pub(super) fn seen(&self, there: Binding, withheld: Option<WithheldPlace>) -> Binding {
        there.unless(withheld.is_some_and(|place| place <= self.behind))
    }
}

/// Content that a portion needs.
pub struct Needed {
    /// The memory manager's name of it.
    pub vidmm: AllocationId,
    /// The address that the portion's bytes of the DMA buffer hold since they were written.
    pub written: Option<(SegmentId, u64)>,
    /// Where it is when the portion runs.
    pub bindings: Bindings,
}

/// A part of a DMA buffer that is handed over by itself.
pub struct Portion {
    /// Its bytes in the buffer.
    pub bytes: Range<u32>,
    /// The patch locations in it.
    pub places: Range<usize>,
    /// The content that it needs, in the order of the list's entries; the others are nowhere.
    pub needs: Vec<Option<Needed>>,
    /// Its number on the context's fence of portions; `None`: it is the last.
    pub number: Option<u64>,
    /// It was handed over before.
    pub preempted: bool,
}

impl Packet {
    /// A part of it that was not done is its first again.
    pub(super) fn take_back(&mut self, mut portion: Portion) {
        portion.preempted = true;
        match &mut self.work {
            Work::Patched { portions, .. } => {
                debug_assert!(
                    portions.front().is_none_or(|behind| portion.bytes.end == behind.bytes.start),
                    "portions stand in their order: {:?} comes back",
                    portion.bytes
                );
                portions.push_front(portion);
            }
            Work::Virtual { .. } => unreachable!("only buffers with lists have parts"),
        }
    }
}

impl Work {
    /// Its DMA buffer, if it has one.
    pub(super) fn buffer(&self) -> Option<DmaBufferNumber> {
        match self {
            Work::Patched { buffer, .. } => Some(*buffer),
            Work::Virtual { presented, .. } => presented.as_ref().map(|presented| presented.buffer),
        }
    }

    /// The primaries, and other allocations, that it writes and a display may show.
    pub(super) fn writes(&self) -> Vec<AllocationId> {
        match self {
            Work::Virtual { primaries, .. } => primaries.clone(),
            // spec: memory §6.1, where there are lists they say it
            Work::Patched { entries, .. } => {
                entries.iter().filter(|bound| bound.write).filter_map(|bound| bound.vidmm).collect()
            }
        }
    }
}
