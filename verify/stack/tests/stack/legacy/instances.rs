//! Instances under their names: recorded commands that are not submitted keep the instance that they name, until a list has a later one; an
//! instance that no list names any more is the first to go.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use d3dkmt::{
    AllocationListFlags, AllocationRequest as AllocationRequested, Context, CreateAllocationFlags, LockFlags, Resource,
    ResourceRequest,
};
use ddi::SwizzlingError;
use dxgk_host::{Host, HostConfig, Mode};
use events::{Event, Move};
use softgpu_spec::private_data::AllocationRequest;
use softgpu_umd::{LegacyResource, ListedCommands, MapKind, SurfaceKind};
use wddm_types::NtStatus;

use super::{BYTES, COPY, DISCARD, ENTIRE, PITCH, RANGE, config, copy, linear, old, private_data, rows, tiles};
use crate::stubborn::{Whims, wrapped};
use stack::heard::Heard;
use stack::world::{MIB, VIRTUAL};

const FLUSHED: LockFlags = DISCARD.union(LockFlags::NO_EXISTING_REFERENCE);

/// One buffer draws from a resource that the CPU writes anew before each draw, without a flush or a wait.
#[test]
fn what_is_recorded_keeps_the_instance_that_it_names() {
    // spec: memory §6.5, memory §6.4
    for (mode, busy) in [(VIRTUAL, false), (VIRTUAL, true), (Mode::Real, false), (Mode::Real, true)] {
        let host = Host::start(config(mode)).expect("the host starts");
        let client = old(&host);
        let allocation = linear(&client);
        let dynamic = LegacyResource { allocation: Arc::clone(&allocation), swizzled: false, aperture: false };
        let targets: Vec<_> = (0..6).map(|_| linear(&client)).collect();
        let go = client.fence();
        for round in [10u64, 20] {
            if busy {
                client.context.wait(&go, round).expect("a wait");
            }
            let mut pending = ListedCommands::new();
            for (seed, target) in (round..).zip(&targets) {
                let map = dynamic.map(MapKind::WriteDiscard, true, Some((&client.context, &mut pending)));
                map.expect("an instance").fill_words(0, BYTES / 8, |index| seed + index);
                pending.copy((&allocation, 0), (target, 0), BYTES);
            }
            assert_eq!(pending.allocations.len(), 1 + 2 * targets.len(), "nothing was flushed, each has its own");
            pending.render(&client.context).expect("a buffer");
            client.gpu.device().signal(&go, round).expect("the GPU goes on");
            client.run(|commands| _ = commands.fill((&targets[5], BYTES as u32 - 8), 8, 0));
            for (seed, target) in (round..).zip(&targets).take(5) {
                assert!(client.read(target, ENTIRE) == rows(seed), "{mode:?} {busy} {seed}");
            }
        }
        host.check_invariants().expect("in order");
    }
}

/// A buffer that names an instance and a later one, for two contexts one after the other.
#[test]
fn an_instance_is_retired_by_a_list_with_a_later_one_unless_the_list_keeps_it() {
    // spec: memory §6.5, memory §7.2
    let host = Host::start(config(VIRTUAL)).expect("the host starts");
    let client = old(&host);
    let other = Context::create(client.gpu.device(), COPY, Vec::new()).expect("a context");
    let (dynamic, first, second) = (linear(&client), linear(&client), linear(&client));
    client.write(&dynamic, FLUSHED, 100);
    let given = dynamic.handle();
    let mut both = ListedCommands::new();
    both.copy((&dynamic, 0), (&first, 0), BYTES);
    client.write(&dynamic, DISCARD, 200);
    assert_ne!(dynamic.handle(), given, "another instance has another name");
    both.copy((&dynamic, 0), (&second, 0), BYTES);
    let mut kept = both.clone();
    let at = kept.allocations.iter().position(|item| item.allocation == given).expect("it is named");
    kept.allocations[at].flags |= AllocationListFlags::DO_NOT_RETIRE_INSTANCE;
    kept.render(&client.context).expect("a buffer");
    client.run(|commands| _ = commands.fill((&first, 0), BYTES, 0));
    // The same for the other context: the kept instance is there still, and is not kept any more.
    both.render(&other).expect("it is named once more");
    client.run(|commands| _ = commands.fill((&second, 0), 8, 0));
    let done = client.fence();
    other.signal(&done, 1).expect("a signal");
    client.gpu.device().wait(&[(&done, 1)]).expect("it completes");
    assert!(client.read(&first, ENTIRE) == rows(100), "as it was when it was recorded");
    let refused = both.render(&other).expect_err("a list has named a later one");
    assert_eq!(refused.status, NtStatus::INVALID_PARAMETER, "{refused}");
    // Retired and idle, it is the next to be given; its name is good again then, and is that of other content.
    let lock = dynamic.lock_legacy(Vec::new(), DISCARD).expect("a retired one");
    assert_eq!(dynamic.handle(), given);
    drop(lock);
    // Whatever name a call has, it means the allocation.
    client.unlist(&dynamic, d3dkmt::EvictFlags::empty());
    dynamic.destroy(d3dkmt::DestroyFlags::empty()).expect("by any of its names");
    let gone = both.render(&client.context).expect_err("all names are gone");
    assert_eq!(gone.status, NtStatus::INVALID_PARAMETER);
    host.check_invariants().expect("in order");
}

/// Under a limit of two instances both of which a buffer that was not submitted may name, there is nothing to wait for.
#[test]
fn a_discard_is_refused_when_only_a_flush_can_help() {
    // spec: memory §6.5
    let whims = crate::stubborn::Whims {
        describe: Box::new(|info| info.renaming_list_length_max = 2),
        packets: true,
        ..Default::default()
    };
    let wrap_miniport = Some(crate::stubborn::wrapped(whims));
    let host = Host::start(HostConfig { wrap_miniport, ..config(VIRTUAL) }).expect("the host starts");
    let client = old(&host);
    let dynamic = linear(&client);
    client.write(&dynamic, DISCARD, 1);
    let before = host.state_digest();
    let refused = dynamic.lock_legacy(Vec::new(), DISCARD).map(drop).expect_err("both may be named");
    assert_eq!(refused.status, NtStatus::NO_MEMORY, "{refused}");
    assert_eq!(host.state_digest(), before);
    let name = dynamic.handle();
    client.write(&dynamic, FLUSHED, 2);
    assert_eq!(dynamic.handle(), name, "the current one is idle");
    host.check_invariants().expect("in order");
}

/// The kernel does not rename a shared resource: a process that opens it at any time finds its creator's content.
#[test]
fn what_is_shared_is_not_renamed() {
    // spec: memory §6.5
    let host = Host::start(config(VIRTUAL)).expect("the host starts");
    let client = old(&host);
    let request = AllocationRequested { private_data: private_data(0, 0), ..AllocationRequested::default() };
    let flags = CreateAllocationFlags::CREATE_RESOURCE | CreateAllocationFlags::CREATE_SHARED;
    let call = ResourceRequest { flags, ..ResourceRequest::default() };
    let resource = Resource::create(client.gpu.device(), vec![request], call).expect("a resource");
    let (shared, target) = (Arc::clone(&resource.allocations()[0]), linear(&client));
    client.list(&shared);
    let own = shared.handle();
    client.write(&shared, DISCARD, 1);
    copy(&client, &shared, &target);
    client.write(&shared, DISCARD, 2);
    assert_eq!(shared.handle(), own, "no process has opened it yet, and it is shared");
    let second = old(&host);
    let opened = Resource::open(second.gpu.device(), resource.global_share()).expect("it opens");
    drop((shared, resource));
    client.run(|commands| _ = commands.fill((&target, 0), 8, 0));
    assert!(client.read(&target, ENTIRE)[1..] == rows(1)[1..], "the lock waited for the GPU");
    drop(opened);
    drop((second, target, client));
    host.check_invariants().expect("in order");
}

/// A refused lock has renamed nothing: the kernel checks before that the CPU may lock an instance at all.
#[test]
fn a_refused_lock_leaves_the_instances_alone() {
    // spec: memory §6.5
    let host = Host::start(config(VIRTUAL)).expect("the host starts");
    let client = old(&host);
    let request = AllocationRequest {
        kind: SurfaceKind::Local,
        cpu_visible: false,
        cached: false,
        accessed_physically: true,
        size_bytes: BYTES,
    };
    let hidden = client.gpu.device().create_allocation(request.encode().to_vec()).expect("an allocation");
    let before = host.state_digest();
    let refused = hidden.lock_legacy(Vec::new(), DISCARD).map(drop).expect_err("it is not for the CPU");
    assert_eq!(refused.status, NtStatus::GRAPHICS_CANT_LOCK_MEMORY);
    assert_eq!(host.state_digest(), before);
}

/// The driver has no range for the instance that a rename has made: the lock is refused, the rename stands, and lists name the former
/// instance by the handle that it had.
#[test]
fn a_rename_stands_behind_a_refused_lock_and_each_instance_keeps_its_name() {
    // spec: memory §6.5
    let asked = AtomicU32::new(0);
    let whims = Whims {
        acquire: Box::new(move |driver, acquire| match asked.fetch_add(1, Ordering::Relaxed) {
            0 => driver.acquire_swizzling_range(acquire),
            _ => Err(SwizzlingError::Unsupported),
        }),
        packets: true,
        ..Whims::default()
    };
    let host = Host::start(HostConfig { wrap_miniport: Some(wrapped(whims)), ..config(VIRTUAL) });
    let host = host.expect("the host starts");
    let client = old(&host);
    let (surface, target) = (client.surface(PITCH, 0), linear(&client));
    client.list(&surface);
    client.write(&surface, RANGE, 1);
    let refused = client.places(&surface, RANGE | DISCARD | LockFlags::DONOT_EVICT).expect_err("it has no range");
    assert_eq!(refused.status, NtStatus::GRAPHICS_CANT_LOCK_MEMORY, "{refused}");
    copy(&client, &surface, &target);
    assert_eq!(client.read(&target, ENTIRE), tiles(1), "its own handle names the instance that it named");
    host.check_invariants().expect("in order");
}

/// Retired instances go before needed content, out of their segment without a copy, and then their backing stores.
#[test]
fn pressure_trims_the_list() {
    // spec: memory §6.5, memory §5.9
    let heard = Heard::of(|event| matches!(event, Event::Moved { .. }));
    let tracer = Box::new(heard.clone());
    let host = Host::start(HostConfig { tracer, system_bytes: 24 * MIB, ..config(VIRTUAL) }).expect("the host starts");
    let client = old(&host);
    let request = AllocationRequest {
        kind: SurfaceKind::Local,
        cpu_visible: true,
        cached: false,
        accessed_physically: true,
        size_bytes: MIB / 2,
    };
    let make = || client.gpu.device().create_allocation(request.encode().to_vec());
    let dynamic = make().expect("an allocation");
    let target = linear(&client);
    client.list(&dynamic);
    let go = client.fence();
    client.context.wait(&go, 1).expect("a wait");
    for seed in 1..=4 {
        client.write(&dynamic, DISCARD, seed);
        let mut commands = ListedCommands::new();
        commands.copy((&dynamic, 0), (&target, 0), BYTES).render(&client.context).expect("a buffer");
    }
    client.gpu.device().signal(&go, 1).expect("the GPU goes on");
    client.run(|commands| _ = commands.fill((&target, 0), 8, 0));
    heard.take();
    // 4 MiB hold eight: five instances and three more, then retired ones make room.
    let listed: Vec<_> = (0..6).map(|_| make().expect("an allocation")).collect();
    listed.iter().for_each(|allocation| client.list(allocation));
    let moves = heard.take();
    let went =
        |what: Move| moves.iter().filter(|event| matches!(event, Event::Moved { how, .. } if *how == what)).count();
    assert_eq!(went(Move::PageOut), 0, "the kernel copied the content of a retired instance: {moves:?}");
    assert!(went(Move::Discard) > 0, "they went");
    // Their backing stores make room for new ones: 24 MiB of system memory, less tables, buffers and living allocations.
    let mut more = Vec::new();
    let made = loop {
        match make() {
            Ok(allocation) => more.push(allocation),
            Err(refusal) => {
                assert_eq!(refusal.status, NtStatus::GRAPHICS_NO_VIDEO_MEMORY, "there is more when others go");
                break more.len();
            }
        }
    };
    drop(more);
    drop(dynamic);
    client.run(|commands| _ = commands.fill((&target, 0), 8, 0));
    let mut all = Vec::new();
    while let Ok(allocation) = make() {
        all.push(allocation);
    }
    // With the allocation its current instance comes free, and the instances that pressure could not take because they were resident.
    assert!(all.len() <= made + 3, "{made} beside the retired ones, {} without", all.len());
    host.check_invariants().expect("in order");
}
