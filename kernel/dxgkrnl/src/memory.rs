//! What an adapter's kernel keeps of memory beside the memory manager (`vidmm`): one owner for each matter, with private fields. None of
//! them asks another; what crosses two, or one and another part, is `adapter`'s.

use std::collections::BTreeMap;

use ddi::KmdProcess;
use vidmm::SpaceId;

use crate::allocations::Allocations;
use crate::cpu_view::CpuView;
use crate::evictions::WatchedEvictions;
use crate::gpu_va::Updates;
use crate::io_mmu::Pasids;
use crate::lock::WaitingLocks;
use crate::notification::Registrations;
use crate::paging::PagingRing;
use crate::paging_queue::PagingQueues;
use crate::quota::Committing;
use crate::turns::Turns;

/// Most allocations in one call.
pub const LIST_MAX: usize = 1 << 16;

/// The owners of an adapter's memory.
pub struct AdapterMemory {
    /// The driver's process of each address space.
    pub spaces: BTreeMap<SpaceId, KmdProcess>,
    pub pasids: Pasids,
    pub allocations: Allocations,
    /// What the CPU is shown of allocations.
    pub cpu_view: CpuView,
    /// Memory that processes commit in allocations.
    pub committing: Committing,
    /// Legacy locks that wait for the GPU.
    pub waiting_locks: WaitingLocks,
    /// Updates of mappings that wait for their turn.
    pub updates: Updates,
    pub ring: PagingRing,
    pub paging_queues: PagingQueues,
    pub turns: Turns,
    pub registrations: Registrations,
    /// Evictions that wait for the use of their content.
    pub evictions: WatchedEvictions,
}

impl AdapterMemory {
    /// An adapter has its paging process, whose ring is not started yet, and nothing besides.
    pub fn new(space: SpaceId, process: KmdProcess, pasids: Pasids, ring: PagingRing) -> AdapterMemory {
        AdapterMemory {
            spaces: BTreeMap::from([(space, process)]),
            pasids,
            allocations: Allocations::default(),
            cpu_view: CpuView::default(),
            committing: Committing::default(),
            waiting_locks: WaitingLocks::default(),
            updates: Updates::default(),
            ring,
            paging_queues: PagingQueues::default(),
            turns: Turns::default(),
            registrations: Registrations::default(),
            evictions: WatchedEvictions::default(),
        }
    }
}
