//! Calls that public reports of this field have drawn, and that the other generators draw seldom or never: tiles that are mapped and copied by
//! contexts of any kind, allocations of whose evictions a driver wants to hear, lists with very many entries.

use kmt_calls::{
    AllocationCall, AllocationRequest, Call, EvictFlags, GpuVaCall, MakeResidentFlags, ResidencyCall, ResourceRequest,
    UpdateGpuVaFlags, UpdateGpuVaOperation,
};
use softgpu_spec::private_data::{AllocationRequest as PrivateData, Details, Kind as Place};
use wddm_types::{GpuVa, PAGE_BYTES};

use super::Generator;
use crate::known::Kind;

/// `NotifyEviction` of an allocation's second flags (memory §2.2).
const NOTIFY_EVICTION: u32 = 1 << 4;
/// Entries of a long list at most.
const ENTRIES_MAX: u64 = 3_000;
/// Bytes of a tile.
const TILE_BYTES: u64 = 65_536;

impl Generator<'_> {
    /// One of them; `None`: what it would name is not there.
    pub(super) fn reported(&mut self) -> Option<Call> {
        match self.dice.below(20) {
            0..8 if !self.old => self.tile(),
            0..8 => None,
            8..13 => Some(self.noticed()),
            13..17 => self.resident_or_not(),
            17 => Some(self.many()),
            _ => self.long_list(),
        }
    }

    /// A tile is mapped, or copied, by a context of a kind that there is.
    // spec: memory §4.8
    fn tile(&mut self) -> Option<Call> {
        let device = self.known.device;
        if self.known.reserved.is_empty() {
            return Some(Call::GpuVa(GpuVaCall::ReserveGpuVirtualAddress {
                device,
                base: GpuVa::NULL,
                minimum: GpuVa::NULL,
                maximum: GpuVa::NULL,
                size_bytes: 2 * TILE_BYTES,
                reservation_type: 0,
                driver_protection: 0,
            }));
        }
        let kinds = [Kind::HwContext, Kind::VirtualContext, Kind::ListContext];
        let there: Vec<Kind> = kinds.into_iter().filter(|kind| self.known.here(*kind) > 0).collect();
        let kind = self.dice.pick(&there)?;
        let (context, fence) = (self.handle(kind), self.handle(Kind::OwnFence));
        let (base, bytes) = self.dice.pick(&self.known.reserved)?;
        let (first, second) = (base, base.offset(bytes / 2 / PAGE_BYTES * PAGE_BYTES));
        let size_bytes = bytes / 2 / PAGE_BYTES * PAGE_BYTES;
        let operation = match self.dice.chance(40) {
            true => UpdateGpuVaOperation::Map {
                base: first,
                size_bytes: PAGE_BYTES,
                allocation: self.handle(Kind::Allocation),
                offset_bytes: 0,
                allocation_size_bytes: 0,
                protection: None,
            },
            false => UpdateGpuVaOperation::Copy { source: first, size_bytes, destination: second },
        };
        Some(Call::GpuVa(GpuVaCall::UpdateGpuVirtualAddress {
            device,
            context,
            fence,
            fence_value: if self.endless { self.dice.number(3) } else { 0 },
            operations: vec![operation],
            flags: UpdateGpuVaFlags::DO_NOT_WAIT,
        }))
    }

    /// An allocation of whose evictions the driver wants to hear, large where there is room.
    fn noticed(&mut self) -> Call {
        let kind = self.dice.pick(&[Place::Local, Place::LocalThenSystem, Place::System]).unwrap_or(Place::System);
        let pages = 1 + self.dice.below(self.reported_pages);
        let data = PrivateData {
            kind,
            cpu_visible: self.dice.chance(50),
            cached: false,
            accessed_physically: true,
            size_bytes: pages * PAGE_BYTES,
        };
        let private_data = data.encode_with(&Details { flags2: NOTIFY_EVICTION, ..Details::default() }).to_vec();
        self.create(vec![AllocationRequest { private_data, ..AllocationRequest::default() }])
    }

    /// The newest allocation comes or goes, so that what is large does both.
    fn resident_or_not(&mut self) -> Option<Call> {
        let (device, paging_queue) = (self.known.device, self.handle(Kind::PagingQueue));
        let allocations = vec![self.known.newest(Kind::Allocation)?];
        Some(Call::Residency(match self.dice.chance(50) {
            true => ResidencyCall::MakeResident { paging_queue, allocations, flags: MakeResidentFlags::empty() },
            false => ResidencyCall::Evict { device, allocations, flags: EvictFlags::empty() },
        }))
    }

    /// Very many allocations in one call.
    fn many(&mut self) -> Call {
        let data = PrivateData {
            kind: Place::LocalThenSystem,
            cpu_visible: false,
            cached: false,
            accessed_physically: self.old,
            size_bytes: PAGE_BYTES,
        };
        let request = AllocationRequest { private_data: data.encode().to_vec(), ..AllocationRequest::default() };
        // CAST: a few thousand.
        let count = 1 + self.dice.below(ENTRIES_MAX) as usize;
        self.create(vec![request; count])
    }

    /// The same allocation very many times.
    fn long_list(&mut self) -> Option<Call> {
        let (device, paging_queue) = (self.known.device, self.handle(Kind::PagingQueue));
        // CAST: a few thousand.
        let count = 1 + self.dice.below(ENTRIES_MAX) as usize;
        let listed = self.dice.chance(50);
        let kind = if listed { Kind::Listed } else { Kind::Allocation };
        let allocations = vec![self.known.newest(kind)?; count];
        Some(Call::Residency(match listed {
            false => ResidencyCall::MakeResident { paging_queue, allocations, flags: MakeResidentFlags::empty() },
            true => ResidencyCall::Evict { device, allocations, flags: EvictFlags::empty() },
        }))
    }

    fn create(&self, allocations: Vec<AllocationRequest>) -> Call {
        let (device, resource) = (self.known.device, ResourceRequest::default());
        Call::Allocation(AllocationCall::CreateAllocation { device, allocations, resource })
    }
}
