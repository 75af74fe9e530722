//! Calls about allocations, residency, addresses and the CPU's view.

use kmt_calls::{
    AllocationCall, AllocationInfoFlags, AllocationRequest, Call, CreateAllocationFlags, DestroyFlags, EvictFlags,
    GpuVaCall, GpuVaProtection, LockCall, LockFlags, MakeResidentFlags, OfferFlags, OfferList, PropertyCall,
    PropertyFlags, PropertyMask, PropertyRequest, ResidencyCall, ResourceRequest, SectionCall, SectionRange,
    UpdateGpuVaFlags, UpdateGpuVaOperation,
};
use softgpu_spec::private_data::{AllocationRequest as PrivateData, Details, Kind as Place};
use wddm_types::{PAGE_BYTES, RawHandle, SegmentSet};

use super::Generator;
use crate::known::Kind;

/// The flags of locks: the first six on every adapter, the rest where there are ranges and renames.
const LOCKS: [LockFlags; 10] = [
    LockFlags::empty(),
    LockFlags::READ_ONLY,
    LockFlags::WRITE_ONLY,
    LockFlags::DONOT_WAIT,
    LockFlags::DONOT_EVICT,
    LockFlags::IGNORE_SYNC,
    LockFlags::DISCARD,
    LockFlags::DISCARD.union(LockFlags::NO_EXISTING_REFERENCE),
    LockFlags::ACQUIRE_APERTURE,
    LockFlags::ACQUIRE_APERTURE.union(LockFlags::DONOT_WAIT),
];
/// Bytes of a row of tiles, and of a surface of two bands.
const TILED_PITCH: u32 = 2048;
const TILED_BYTES: u64 = 2 * 8 * TILED_PITCH as u64;
/// Most pages of an allocation that is meant to succeed.
const PAGES_MAX: u64 = 48;

impl Generator<'_> {
    pub(super) fn create_allocation(&mut self) -> Call {
        use CreateAllocationFlags as F;
        let device = self.handle(Kind::Device);
        let count = if self.dice.odd() { self.dice.below(2) * 80 } else { 1 + self.dice.below(2) };
        let mut resource = ResourceRequest::default();
        match self.dice.below(10) {
            0 => resource.flags = F::CREATE_RESOURCE,
            1 => resource.flags = F::CREATE_RESOURCE | F::CREATE_SHARED,
            2 => resource.flags = F::CREATE_RESOURCE | F::CREATE_SHARED | F::NT_SECURITY_SHARING,
            3 => resource.resource = self.handle(Kind::Resource),
            _ => {}
        }
        if self.dice.odd() {
            // CAST: any bits will do.
            resource.flags |= F::from_bits_retain(1 << self.dice.below(32) as u32);
        }
        let mut allocations: Vec<AllocationRequest> = (0..count).map(|_| self.request()).collect();
        if self.dice.chance(5) {
            resource.flags |= F::STANDARD_ALLOCATION | F::EXISTING_SECTION;
            allocations.truncate(1);
            for request in &mut allocations {
                request.private_data.clear();
                request.existing = Some(self.section_range());
            }
        }
        Call::Allocation(AllocationCall::CreateAllocation { device, allocations, resource })
    }

    fn section_range(&mut self) -> SectionRange {
        let offset_bytes = if self.dice.odd() { self.dice.edge() } else { self.dice.below(2) * PAGE_BYTES };
        SectionRange { section: self.handle(Kind::Section), offset_bytes, size_bytes: self.dice.bytes(3) }
    }

    fn request(&mut self) -> AllocationRequest {
        let kind = *[Place::Local, Place::Local, Place::LocalThenSystem, Place::System]
            .get(self.dice.below(4) as usize)
            .unwrap_or(&Place::Local);
        let cpu_visible = self.dice.chance(60);
        let data = PrivateData {
            kind,
            cpu_visible,
            cached: cpu_visible && self.dice.chance(40),
            accessed_physically: self.old || self.dice.chance(20),
            size_bytes: self.dice.bytes(PAGES_MAX),
        };
        let mut private_data = match self.old && self.dice.chance(30) {
            _ if self.dice.odd() => self.detailed(&data),
            true => self.of_first_generation(data),
            false => data.encode().to_vec(),
        };
        if self.dice.odd() && self.dice.chance(40) {
            let length = self.dice.number(100).min(5000);
            // CAST: at most 5000.
            private_data.resize(length as usize, 0xA5);
        }
        let flags = if self.dice.odd() { self.dice.flags32(7) } else { 0 };
        AllocationRequest {
            private_data,
            flags: AllocationInfoFlags::from_bits_retain(flags),
            video_source: self.dice.number32(0),
            priority: self.dice.number32(0),
            existing: (self.dice.odd() && self.dice.chance(15)).then(|| self.section_range()),
        }
    }

    /// Surfaces that only drivers of the first generation make: a surface in tiles, one that is renamed at a discard.
    fn of_first_generation(&mut self, data: PrivateData) -> Vec<u8> {
        let tiled = self.dice.chance(60);
        let data = PrivateData {
            kind: Place::LocalThenSystem,
            cpu_visible: true,
            cached: false,
            size_bytes: if tiled { TILED_BYTES } else { data.size_bytes },
            ..data
        };
        let tile_pitch = if tiled { TILED_PITCH } else { 0 };
        data.encode_with(&Details { tile_pitch, ..Details::default() }).to_vec()
    }

    /// The details that a driver would hand on to the kernel unchecked.
    fn detailed(&mut self, data: &PrivateData) -> Vec<u8> {
        let mut word = |most: u32| if self.dice.chance(70) { 0 } else { self.dice.number32(most) };
        let (flags, flags2, tile_pitch) = (word(u32::MAX), word(u32::MAX), word(8192));
        let (preferred_segment, hinted_bank) = (word(31), word(63));
        let (supported_segments, eviction_segments, priority) = (word(7), word(7), word(u32::MAX));
        let mut long = || if self.dice.chance(70) { 0 } else { self.dice.number(1 << 20) };
        let (pitch_aligned_size_bytes, alignment_bytes) = (long(), long());
        let details = Details {
            flags,
            flags2,
            preferred_segment,
            hinted_bank,
            supported_segments,
            eviction_segments,
            priority,
            tile_pitch,
            pitch_aligned_size_bytes,
            alignment_bytes,
            ..Details::default()
        };
        data.encode_with(&details).to_vec()
    }

    pub(super) fn allocation_call(&mut self) -> Call {
        let device = self.handle(Kind::Device);
        match self.dice.below(20) {
            0..7 => self.create_allocation(),
            7..11 => {
                let flags = DestroyFlags::from_bits_retain(self.dice.flags32(3));
                Call::Allocation(AllocationCall::DestroyAllocation { device, target: self.target(), flags })
            }
            11..13 => {
                let target = self.target();
                let count = if self.dice.odd() { self.dice.below(5) } else { target.allocations.len().max(1) as u64 };
                let priorities = (0..count).map(|_| self.dice.number32(u32::MAX)).collect();
                Call::Property(PropertyCall::SetAllocationPriority { device, target, priorities })
            }
            13 => Call::Property(PropertyCall::GetAllocationPriority { device, target: self.target() }),
            14..16 => Call::Property(PropertyCall::QueryAllocationResidency { device, target: self.target() }),
            16..18 => {
                let request = PropertyRequest {
                    supported_segments: SegmentSet(self.dice.number32(7)),
                    preferred_segment: self.dice.number32(63),
                    flags: PropertyFlags::from_bits_retain(self.dice.flags32(3)),
                    mask: PropertyMask::from_bits_retain(self.dice.flags32(15)),
                };
                let paging_queue = self.handle(Kind::PagingQueue);
                Call::Property(PropertyCall::UpdateAllocationProperty {
                    paging_queue,
                    allocation: self.handle(Kind::Allocation),
                    request,
                })
            }
            18 if self.dice.chance(90) => Call::Section(SectionCall::Create {
                adapter: self.handle(Kind::Adapter),
                size_bytes: self.dice.bytes(8),
            }),
            18 => Call::Section(SectionCall::CreateOver {
                adapter: self.handle(Kind::Adapter),
                size_bytes: self.dice.bytes(8),
                given: self.dice.below(3),
            }),
            _ if self.dice.odd() => Call::Section(SectionCall::IsInUse { section: self.handle(Kind::Section) }),
            _ => Call::Section(SectionCall::Close { section: self.handle(Kind::Section) }),
        }
    }

    pub(super) fn residency_call(&mut self) -> Call {
        let (device, paging_queue) = (self.handle(Kind::Device), self.handle(Kind::PagingQueue));
        match self.dice.below(24) {
            0..8 => {
                let allocations = self.known.list(self.dice, Kind::Allocation, 4);
                let known = if self.dice.chance(50) { 1 } else { 3 };
                let flags = MakeResidentFlags::from_bits_retain(self.dice.flags32(known));
                Call::Residency(ResidencyCall::MakeResident { paging_queue, allocations, flags })
            }
            8..13 => {
                let allocations = self.known.list(self.dice, Kind::Listed, 4);
                let flags = EvictFlags::from_bits_retain(self.dice.flags32(3));
                Call::Residency(ResidencyCall::Evict { device, allocations, flags })
            }
            17.. if self.known.here(Kind::Offered) > 0 || self.dice.odd() => self.reclaim(),
            _ => self.offer(),
        }
    }

    fn offer(&mut self) -> Call {
        let list = match self.dice.below(4) {
            0 => OfferList::Resources(self.known.list(self.dice, Kind::Resource, 2)),
            1 => OfferList::Allocations(self.known.list(self.dice, Kind::Allocation, 4)),
            // Of a list each name has to be right.
            _ => OfferList::Allocations(self.known.offerable(self.dice)),
        };
        let priority = if self.dice.odd() { self.dice.number32(9) } else { 1 + self.dice.number32(3) % 4 };
        let flags = OfferFlags::from_bits_retain(self.dice.flags32(3));
        Call::Residency(ResidencyCall::OfferAllocations { device: self.handle(Kind::Device), list, priority, flags })
    }

    fn reclaim(&mut self) -> Call {
        let list = match self.dice.below(6) {
            0 => OfferList::Resources(self.known.list(self.dice, Kind::Resource, 2)),
            1 => OfferList::Allocations(self.known.list(self.dice, Kind::Offered, 4)),
            _ => OfferList::Allocations(vec![self.handle(Kind::Offered)]),
        };
        match self.dice.chance(50) {
            true => {
                let device = self.handle(Kind::Device);
                Call::Residency(ResidencyCall::ReclaimAllocations { device, list, asks: self.dice.chance(50) })
            }
            false => Call::Residency(ResidencyCall::ReclaimAllocations2 {
                paging_queue: self.handle(Kind::PagingQueue),
                list,
            }),
        }
    }

    pub(super) fn address_call(&mut self) -> Call {
        let (device, addresses) = (self.handle(Kind::Device), &self.known.addresses);
        match self.dice.below(20) {
            0..8 => {
                let exact = self.dice.chance(25);
                let base = if exact { self.dice.address(addresses) } else { wddm_types::GpuVa::NULL };
                let window = self.dice.chance(10);
                let bound = |this: &mut Self| if window { this.dice.address(&this.known.addresses) } else { base };
                let (minimum, maximum) =
                    if exact { (wddm_types::GpuVa::NULL, wddm_types::GpuVa::NULL) } else { (bound(self), bound(self)) };
                let special = self.dice.chance(10);
                let protection = if special { self.dice.flags(0x1F, 64) } else { self.dice.flags(3, 64) };
                let allocation = if special { RawHandle::NONE } else { self.handle(Kind::Allocation) };
                Call::GpuVa(GpuVaCall::MapGpuVirtualAddress {
                    paging_queue: self.handle(Kind::PagingQueue),
                    allocation,
                    base,
                    minimum,
                    maximum,
                    offset_in_pages: self.dice.number(2),
                    size_in_pages: if self.dice.odd() { self.dice.edge() } else { 1 + self.dice.below(8) },
                    protection: GpuVaProtection::from_bits_retain(protection),
                    driver_protection: if self.dice.odd() { self.dice.edge() } else { 0 },
                })
            }
            8..11 => {
                let base = if self.dice.chance(20) { self.dice.address(addresses) } else { wddm_types::GpuVa::NULL };
                let size_bytes = if self.dice.odd() { self.dice.edge() } else { (1 + self.dice.below(3)) * 65536 };
                Call::GpuVa(GpuVaCall::ReserveGpuVirtualAddress {
                    device,
                    base,
                    minimum: wddm_types::GpuVa::NULL,
                    maximum: if self.dice.odd() { self.dice.address(addresses) } else { wddm_types::GpuVa::NULL },
                    size_bytes,
                    reservation_type: self.dice.number32(1),
                    driver_protection: if self.dice.odd() { self.dice.edge() } else { 0 },
                })
            }
            11..15 => self.update(),
            _ => {
                let base = self.dice.address(addresses);
                let whole = addresses.iter().find(|(known, _)| *known == base).map(|(_, bytes)| *bytes);
                let size_bytes = match whole {
                    Some(bytes) if self.dice.chance(60) => bytes,
                    _ => self.dice.bytes(16),
                };
                Call::GpuVa(GpuVaCall::FreeGpuVirtualAddress { device, base, size_bytes })
            }
        }
    }

    fn update(&mut self) -> Call {
        let kind = match self.dice.below(8) {
            0 => Kind::ListContext,
            1 => Kind::VirtualContext,
            _ => Kind::HwContext,
        };
        let count = if self.dice.odd() { self.dice.below(2) * 40 } else { 1 + self.dice.below(3) };
        let operations = (0..count).map(|_| self.update_operation()).collect();
        let fence = if self.dice.chance(90) { Kind::OwnFence } else { Kind::Fence };
        // A value that is never reached holds the update, and what it pins, for ever.
        let fence_value = if self.endless { self.dice.number(3) } else { 0 };
        Call::GpuVa(GpuVaCall::UpdateGpuVirtualAddress {
            device: self.handle(Kind::Device),
            context: self.handle(kind),
            fence: self.handle(fence),
            fence_value,
            operations,
            flags: UpdateGpuVaFlags::from_bits_retain(self.dice.flags32(1)),
        })
    }

    fn update_operation(&mut self) -> UpdateGpuVaOperation {
        let base = self.dice.address(&self.known.reserved);
        let size_bytes = if self.dice.odd() { self.dice.edge() } else { 65536 };
        match self.dice.below(6) {
            0..3 => UpdateGpuVaOperation::Map {
                base,
                size_bytes,
                allocation: self.handle(Kind::Allocation),
                offset_bytes: self.dice.number(0),
                allocation_size_bytes: if self.dice.odd() { self.dice.edge() } else { 0 },
                protection: self.dice.odd().then(|| {
                    let bits = self.dice.flags(0x1F, 64);
                    (GpuVaProtection::from_bits_retain(bits), self.dice.edge())
                }),
            },
            3 | 4 => {
                let bits = if self.dice.odd() { self.dice.flags(0x1F, 64) } else { 8 };
                UpdateGpuVaOperation::Unmap { base, size_bytes, protection: GpuVaProtection::from_bits_retain(bits) }
            }
            _ => {
                let destination = self.dice.address(&self.known.reserved);
                UpdateGpuVaOperation::Copy { source: base, size_bytes, destination }
            }
        }
    }

    pub(super) fn cpu_call(&mut self) -> Call {
        let (device, allocation) = (self.handle(Kind::Device), self.handle(Kind::Allocation));
        match self.dice.below(20) {
            0..7 => {
                let flags = if self.dice.odd() { self.dice.flags32(u32::MAX) } else { 0 };
                Call::Lock(LockCall::Lock2 { device, allocation, flags })
            }
            13..15 | 7..10 if self.dice.chance(if self.old { 100 } else { 40 }) => {
                let flags = if self.dice.odd() {
                    LockFlags::from_bits_retain(self.dice.flags32(0x7FF))
                } else {
                    self.dice.pick(&LOCKS[..if self.old { LOCKS.len() } else { 6 }]).unwrap_or(LockFlags::empty())
                };
                let flags = flags | LockFlags::LOCK_ENTIRE;
                let odd = self.dice.odd();
                let pages = if odd { (0..self.dice.below(5)).map(|_| self.dice.number32(9)).collect() } else { vec![] };
                let private_driver_data = self.dice.number32(0);
                Call::Lock(LockCall::Lock { device, allocation, private_driver_data, pages, flags })
            }
            7..13 => Call::Lock(LockCall::Unlock2 { device, allocation: self.handle(Kind::Locked) }),
            13..17 => Call::Lock(LockCall::Unlock { device, allocations: self.known.list(self.dice, Kind::Locked, 2) }),
            _ => {
                let offset_bytes = self.dice.number(4096);
                Call::Property(PropertyCall::InvalidateCache {
                    device,
                    allocation,
                    offset_bytes,
                    length_bytes: self.dice.number(8192),
                })
            }
        }
    }
}
