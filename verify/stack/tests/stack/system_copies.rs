//! Content with a system copy that stays, through the stack: memory that a caller brings along, and permanent copies, while
//! the GPU works on them in local memory.

use std::sync::Arc;

use d3dkmt::{Allocation, EvictFlags, MakeResidentFlags, NativeFenceRequest, Resource, Section};
use kmt_calls::{AllocationRequest as Request, CreateAllocationFlags, ResourceRequest};
use softgpu_spec::private_data::{AllocationRequest, Details, Kind};
use wddm_types::{GpuVa, PAGE_BYTES};

use crate::ahead::{host as host_with, let_pass};
use crate::bystanders::BOUND_NS;
use dxgk_host::{Host, HostConfig, MemoryPolicy, Mode, Profile};
use events::{Cause, Move};
use kmt_link::Link;
use softgpu_umd::{Commands, GpuWait, SurfaceKind};
use stack::world::{Client, MIB, VIRTUAL, client, host};

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
    if let d3dkmt::Residency::Pending { paging_fence_value, .. } = made {
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

/// Content with a permanent copy, at addresses, which the GPU has filled with nines.
fn permanent_copy(client: &mut Client) -> (Arc<Allocation>, GpuVa) {
    // 1 << 1: PermanentSysMem.
    let allocation = client.gpu.device().create_allocation(data(1 << 1, true)).expect("CPU-visible");
    arrive(client, &allocation);
    let va = mapped(client, &allocation);
    client.run(|commands| {
        commands.fill(va, PAGES * PAGE_BYTES, 9);
    });
    (allocation, va)
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
        // Its lock shows the caller's pages, once the GPU's writes are there.
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
        let (allocation, va) = permanent_copy(&mut client);
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

/// The unlock alone brings the CPU's writes to the content's place: no further call is needed.
#[test]
fn what_was_written_under_a_lock_is_uploaded_after_the_unlock() {
    // spec: memory §2.2
    for mode in [VIRTUAL, Mode::Real] {
        let (host, moves) = host_with(mode, MemoryPolicy::default());
        let (mut owner, mut other) = (client(&host), client(&host));
        let target = owner.pinned(SurfaceKind::System, 4096);
        let scrap = other.pinned(SurfaceKind::System, 65536);
        let (allocation, va) = permanent_copy(&mut owner);
        let copied = |how| moves.bytes(how, Cause::SystemCopy) / PAGE_BYTES;
        let lock = allocation.lock().expect("the system copy");
        assert_eq!(copied(Move::PageOut), PAGES, "{mode:?}: pages that the GPU may have written");
        let [second, last] = [PAGE_BYTES + 16, (PAGES - 1) * PAGE_BYTES];
        lock.write_words(second, &[4711]);
        lock.write_words(last, &[4712]);
        // Another part of it is the GPU's meanwhile: it stays where it is.
        owner.run(|commands| {
            commands.fill(va, 64, 7);
        });
        let mut turns = 0;
        let_pass(&mut other, &scrap, || {
            turns += 1;
            turns > 8
        });
        assert_eq!(copied(Move::PageIn), 0, "{mode:?}: the CPU may still write");
        drop(lock);
        assert_eq!(copied(Move::PageIn), 2, "{mode:?}: the pages written, before the unlock returns");
        let read = [0, second - 8, second, last, last + 8];
        owner.run(|commands| {
            for (slot, at) in (0..).zip(read) {
                commands.copy(va.offset(at), target.va().offset(slot * 8), 8);
            }
        });
        let seen = target.lock().unwrap();
        let nine = 9 << 32 | 9;
        let words: Vec<u64> = (0..5).map(|slot| seen.read_word(slot * 8)).collect();
        assert_eq!(words, [7 << 32 | 7, nine, 4711, 4712, nine], "{mode:?}: bytes of both");
        // Nothing was written under this one.
        drop(allocation.lock().expect("the system copy"));
        assert_eq!(copied(Move::PageIn), 2, "{mode:?}");
        for cause in [Cause::Lock, Cause::Promote] {
            assert_eq!((moves.bytes(Move::PageOut, cause), moves.bytes(Move::PageIn, cause)), (0, 0), "it never moved");
        }
    }
}

/// The CPU writes a permanent copy while queued work waits that uses the content, and the content is evicted: the upload behind the unlock
/// holds no other process.
#[test]
fn an_upload_behind_queued_work_holds_no_other_process() {
    // spec: memory §2.2, memory §8.6, memory §10.1
    let host = host(VIRTUAL, 8 * MIB);
    let (mut owner, mut other) = (client(&host), client(&host));
    let target = owner.pinned(SurfaceKind::System, 4096);
    let (allocation, va) = permanent_copy(&mut owner);
    let lock = allocation.lock().expect("the system copy");
    let go = owner.gpu.device().create_native_fence(NativeFenceRequest::default()).expect("a fence");
    let mut commands = Commands::new();
    commands.copy(va, target.va(), 4096);
    let last =
        owner.stream.submit(&owner.gpu, &[GpuWait { fence: (&go).into(), value: 1 }], &commands).expect("it waits");
    lock.write_words(16, &[4711]);
    evict(&owner, &allocation);
    drop(lock);
    let began = other.link.now_ns();
    let surface = other.pinned(SurfaceKind::Local, MIB);
    other.run(|commands| {
        commands.fill(surface.va(), 4096, 7);
    });
    let took = other.link.now_ns() - began;
    assert!(took <= BOUND_NS, "{took} ns");
    host.check_invariants().expect("each hold has its end");
    owner.gpu.device().signal(&go, 1).expect("the work goes on");
    owner.stream.wait(&owner.gpu, last).expect("it has its turn");
    let seen = target.lock().unwrap();
    assert_eq!([8, 16].map(|at| seen.read_word(at)), [9 << 32 | 9, 4711], "the CPU has written before the work ran");
}

/// The GPU has written one part and the CPU is writing another when the content has to leave: the copy gets both.
#[test]
fn what_the_cpu_has_written_under_a_lock_is_not_written_over_when_the_content_leaves() {
    // spec: memory §2.2, memory §6.3
    for (mode, unlocked_first) in [(VIRTUAL, false), (VIRTUAL, true), (Mode::Real, false), (Mode::Real, true)] {
        let (host, moves) = host_with(mode, MemoryPolicy::default());
        let mut client = client(&host);
        let target = client.pinned(SurfaceKind::System, 4096);
        let allocation = client.gpu.device().create_allocation(data(1 << 1, true)).expect("CPU-visible");
        arrive(&client, &allocation);
        let va = mapped(&client, &allocation);
        let lock = allocation.lock().expect("the system copy");
        lock.write_words(PAGE_BYTES, &[4711]);
        client.run(|commands| {
            commands.fill(va, PAGE_BYTES, 5).fill(va.offset(2 * PAGE_BYTES), 64, 6);
        });
        evict(&client, &allocation);
        assert!(moves.bytes(Move::PageOut, Cause::Evict) > 0, "{mode:?}: the GPU may have written");
        let lock = if unlocked_first {
            drop(lock);
            allocation.lock().expect("in system memory")
        } else {
            lock
        };
        let words = |lock: &d3dkmt::Lock| [0, PAGE_BYTES, 2 * PAGE_BYTES].map(|at| lock.read_word(at));
        arrive(&client, &allocation);
        assert_eq!(words(&lock), [5 << 32 | 5, 4711, 6 << 32 | 6], "{mode:?} {unlocked_first}");
        lock.write_words(8, &[1]);
        drop(lock);
        client.run(|commands| {
            commands.copy(va, target.va(), 16);
        });
        let seen = target.lock().unwrap();
        assert_eq!(
            [seen.read_word(0), seen.read_word(8)],
            [5 << 32 | 5, 1],
            "{mode:?}: the GPU reads what the CPU wrote"
        );
    }
}

/// Copies out, uploads and evictions of several permanent copies while threads count in them, lock after lock.
#[test]
fn no_store_into_a_permanent_copy_is_lost() {
    // spec: memory §2.2, memory §6.3
    const WRITERS: u64 = 3;
    const ROUNDS: u64 = 30;
    for memory_files in [true, false] {
        let config = HostConfig {
            vram_bytes: 4 * MIB,
            page_table_bytes: 16 * MIB,
            system_bytes: 64 * MIB,
            memory_files,
            ..HostConfig::new(Profile::named("discrete-4k").expect("a built-in profile"), Mode::Real)
        };
        let host = Host::start(config).expect("the host starts");
        let mut client = client(&host);
        let target = client.pinned(SurfaceKind::System, 4096);
        let allocation = client.gpu.device().create_allocation(data(1 << 1, true)).expect("CPU-visible");
        let va = mapped(&client, &allocation);
        let words = PAGES * PAGE_BYTES / 8 / WRITERS;
        let count = |writer: u64| {
            for round in 0..ROUNDS {
                let lock = allocation.lock().expect("the system copy");
                let at = ((round * 701 % words) * WRITERS + writer) * 8;
                match lock.addresses() {
                    Some(range) => _ = range.word(at).fetch_add(1, std::sync::atomic::Ordering::Relaxed),
                    None => lock.write_words(at, &[lock.read_word(at) + 1]),
                }
            }
        };
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS).map(|writer| scope.spawn(move || count(writer))).collect();
            while writers.iter().any(|writer| !writer.is_finished()) {
                arrive(&client, &allocation);
                evict(&client, &allocation);
            }
        });
        // As the GPU reads it, wherever it is now.
        arrive(&client, &allocation);
        let mut found = 0;
        for page in 0..PAGES {
            client.run(|commands| {
                commands.copy(va.offset(page * PAGE_BYTES), target.va(), PAGE_BYTES);
            });
            let seen = target.lock().expect("in system memory");
            found += (0..PAGE_BYTES / 8).map(|word| seen.read_word(word * 8)).sum::<u64>();
        }
        assert_eq!(found, ROUNDS * WRITERS, "{memory_files}: every increment is there");
    }
}
