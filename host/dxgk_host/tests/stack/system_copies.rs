//! Content with a system copy that stays, through the stack: memory that a caller brings along, and permanent copies, while
//! the GPU works on them in local memory.

use d3dkmt::{Allocation, EvictFlags, MakeResidentFlags, Resource, Section};
use kmt_calls::{AllocationRequest as Request, CreateAllocationFlags, ResourceRequest};
use softgpu_spec::private_data::{AllocationRequest, Details, Kind};
use wddm_types::{GpuVa, PAGE_BYTES};

use crate::ahead::{host as host_with, let_pass};
use crate::world::{Client, MIB, VIRTUAL, client, host};
use dxgk_host::{MemoryPolicy, Mode};
use events::{Cause, Move};
use softgpu_umd::SurfaceKind;

const PAGES: u64 = 4;

fn data(flags: u32, cpu_visible: bool) -> Vec<u8> {
    let request = AllocationRequest {
        kind: Kind::LocalThenSystem,
        cpu_visible,
        cached: false,
        accessed_physically: false,
        size_bytes: PAGES * PAGE_BYTES,
    };
    request.encode_with(&Details { flags, ..Details::default() }).to_vec()
}

fn arrive(client: &Client, allocation: &Allocation) {
    let made = client.gpu.paging().make_resident(vec![allocation.handle()], MakeResidentFlags::empty()).expect("room");
    if let d3dkmt::Residency::Pending { paging_fence_value } = made {
        client.gpu.device().wait(&[(client.gpu.paging().fence(), paging_fence_value)]).expect("it comes");
    }
}

fn mapped(client: &Client, allocation: &Allocation) -> GpuVa {
    let (va, value) = client.gpu.paging().map(allocation, PAGES, true).expect("addresses");
    client.gpu.device().wait(&[(client.gpu.paging().fence(), value)]).expect("mapped");
    va
}

fn evict(client: &Client, allocation: &Allocation) {
    client.gpu.device().evict(vec![allocation.handle()], EvictFlags::empty()).expect("it is on the list");
}

#[test]
fn memory_that_a_caller_brings_along_has_a_copy_in_local_memory() {
    // spec: memory §2.2, memory §2.7, memory §8.3
    for mode in [VIRTUAL, Mode::Real] {
        let host = host(mode, 8 * MIB);
        let mut client = client(&host);
        let section = Section::create(client.gpu.adapter(), PAGES * PAGE_BYTES).unwrap();
        section.bytes().write(PAGE_BYTES, &77u64.to_le_bytes());
        // 1 << 4: ExistingSysMem.
        let request = Request {
            private_data: data(1 << 4, false),
            existing: Some(section.range(0, PAGES * PAGE_BYTES)),
            ..Request::default()
        };
        let flags = CreateAllocationFlags::CREATE_RESOURCE | CreateAllocationFlags::EXISTING_SECTION;
        let call = ResourceRequest { flags, ..ResourceRequest::default() };
        let made = Resource::create(client.gpu.device(), vec![request], call).expect("over the section");
        let allocation = &made.allocations()[0];
        arrive(&client, allocation);
        let va = mapped(&client, allocation);
        let target = client.pinned(SurfaceKind::System, 4096);
        client.run(|commands| {
            commands.copy(va.offset(PAGE_BYTES), target.va(), 8).fill(va.offset(PAGE_BYTES), 8, 5);
        });
        assert_eq!(target.lock().unwrap().read_word(0), 77, "the GPU saw the caller's bytes");
        assert_eq!(section.bytes().read_word(PAGE_BYTES), 77, "and wrote its copy");
        evict(&client, allocation);
        // Its lock shows the caller's pages, once what the GPU wrote is there.
        assert_eq!(allocation.lock().expect("in system memory").read_word(PAGE_BYTES), 5 << 32 | 5);
        assert_eq!(section.bytes().read_word(PAGE_BYTES), 5 << 32 | 5, "{mode:?}");
    }
}

#[test]
fn a_lock_of_a_permanent_copy_shows_it_and_an_unlock_brings_it_back() {
    // spec: memory §2.2, memory §6.3
    for mode in [VIRTUAL, Mode::Real] {
        let host = host(mode, 8 * MIB);
        let mut client = client(&host);
        // 1 << 1: PermanentSysMem.
        let allocation = client.gpu.device().create_allocation(data(1 << 1, true)).expect("CPU-visible");
        arrive(&client, &allocation);
        let va = mapped(&client, &allocation);
        client.run(|commands| {
            commands.fill(va, PAGES * PAGE_BYTES, 9);
        });
        let lock = allocation.lock().expect("the system copy");
        assert_eq!(lock.read_word(8), 9 << 32 | 9, "with what the GPU wrote");
        lock.write_words(16, &[4711]);
        drop(lock);
        evict(&client, &allocation);
        arrive(&client, &allocation);
        let target = client.pinned(SurfaceKind::System, 4096);
        client.run(|commands| {
            commands.copy(va, target.va(), 4096);
        });
        let seen = target.lock().unwrap();
        assert_eq!([0, 16, 24].map(|at| seen.read_word(at)), [9 << 32 | 9, 4711, 9 << 32 | 9], "{mode:?}");
    }
}

/// Nobody calls anything about it after the unlock: what the CPU wrote is brought to where the content was.
#[test]
fn what_was_written_under_a_lock_is_uploaded_after_the_unlock() {
    // spec: memory §2.2
    for mode in [VIRTUAL, Mode::Real] {
        let (host, moves) = host_with(mode, MemoryPolicy::default());
        let (mut owner, mut other) = (client(&host), client(&host));
        let target = owner.pinned(SurfaceKind::System, 4096);
        let scrap = other.pinned(SurfaceKind::System, 65536);
        let allocation = owner.gpu.device().create_allocation(data(1 << 1, true)).expect("CPU-visible");
        arrive(&owner, &allocation);
        let va = mapped(&owner, &allocation);
        owner.run(|commands| {
            commands.fill(va, PAGES * PAGE_BYTES, 9);
        });
        let uploaded = || moves.bytes(Move::PageIn, Cause::Promote);
        let lock = allocation.lock().expect("the system copy");
        lock.write_words(16, &[4711]);
        let mut turns = 0;
        let_pass(&mut other, &scrap, || {
            turns += 1;
            turns > 8
        });
        assert_eq!(uploaded(), 0, "{mode:?}: the CPU may still write");
        drop(lock);
        let_pass(&mut other, &scrap, || uploaded() > 0);
        assert_eq!(uploaded(), PAGES * PAGE_BYTES, "{mode:?}: once");
        owner.run(|commands| {
            commands.copy(va, target.va(), 4096);
        });
        let seen = target.lock().unwrap();
        assert_eq!([0, 16, 24].map(|at| seen.read_word(at)), [9 << 32 | 9, 4711, 9 << 32 | 9], "{mode:?}");
    }
}
