//! Where one fence's words lie, and where its creator and its processes see them (sync §1.5). `adapter/fence` chooses the places; here they
//! are only noted.

use kmt_calls::CreatedFence;
use vidmm::AllocationId;
use wddm_types::{GpuVa, PageRun, ProcessId, WordAddress};

use crate::number::{CrossFenceNumber, DeviceNumber};

/// A word in local memory.
#[derive(Clone, Copy, Debug)]
pub struct LocalWord {
    pub device: DeviceNumber,
    pub allocation: AllocationId,
    pub index: u16,
    pub va: GpuVa,
    pub system_va: GpuVa,
}

/// Where one word lies.
#[derive(Clone, Copy, Debug)]
pub enum Home {
    /// Which page of its owner's, and which of its words.
    Packed { page: usize, index: u16 },
    /// A page that no other fence uses.
    Own(PageRun),
    /// The same, and no GPU reaches it.
    Apart(PageRun),
    /// Local memory.
    Local(LocalWord),
    /// A word that no GPU reaches.
    Unmapped,
    /// There is none: a monitored fence has one word.
    Nowhere,
}

/// Where one fence's words lie, and where its creator sees them.
#[derive(Clone, Copy, Debug)]
pub struct FenceSlot {
    pub owner: ProcessId,
    pub current_home: Home,
    pub monitored_home: Home,
    /// Which cross-adapter fence's word CurrentValue is: the machine's, not this adapter's.
    pub cross: Option<CrossFenceNumber>,
    /// And MonitoredValue too.
    pub linear: bool,
    pub current: WordAddress,
    pub monitored: WordAddress,
    /// In its owner's space; NULL for shareable ones, whose addresses are each process's own.
    pub current_va: GpuVa,
    pub monitored_va: GpuVa,
    /// In the paging process's space; NULL where no paging work needs them.
    pub system_current_va: GpuVa,
    pub system_monitored_va: GpuVa,
}

/// Where one process's GPU work sees a shareable fence.
#[derive(Clone, Copy, Debug)]
pub struct FenceView {
    pub current_va: GpuVa,
    pub monitored_va: GpuVa,
    /// How many opens of the process use it.
    pub opens: u32,
}

impl FenceSlot {
    /// Whether the CPU reaches CurrentValue.
    pub fn on_cpu(&self) -> bool {
        self.current != CreatedFence::NO_CPU_ADDRESS
    }

    /// CurrentValue's place in local memory, if that is where it is.
    pub fn local_current(&self) -> Option<LocalWord> {
        match self.current_home {
            Home::Local(word) => Some(word),
            _ => None,
        }
    }

    /// The same of MonitoredValue.
    pub fn local_monitored(&self) -> Option<LocalWord> {
        match self.monitored_home {
            Home::Local(word) => Some(word),
            _ => None,
        }
    }

    /// Whether one of its words is in this storage.
    pub fn stands_in(&self, storage: AllocationId) -> bool {
        [self.local_current(), self.local_monitored()].into_iter().flatten().any(|word| word.allocation == storage)
    }

    /// The one word of a monitored fence, which its owner sees.
    pub fn without_monitored(
        owner: ProcessId,
        home: Home,
        word: WordAddress,
        va: GpuVa,
        system_va: GpuVa,
    ) -> FenceSlot {
        FenceSlot {
            owner,
            current_home: home,
            monitored_home: Home::Nowhere,
            cross: None,
            linear: false,
            current: word,
            monitored: word,
            current_va: va,
            monitored_va: GpuVa::NULL,
            system_current_va: system_va,
            system_monitored_va: GpuVa::NULL,
        }
    }
}
