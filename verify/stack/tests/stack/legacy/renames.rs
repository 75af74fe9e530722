//! Renaming by the kernel: a lock with Discard does not wait while there is other memory.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use d3dkmt::{LockFlags, MakeResidentFlags};
use dxgk_host::{Host, HostConfig, Mode, Residence};
use events::{Event, Move};
use softgpu_spec::private_data::AllocationRequest;
use softgpu_umd::{LegacyResource, ListedCommands, MapKind, SurfaceKind};
use wddm_types::NtStatus;

use super::{BYTES, DISCARD, ENTIRE, config, copy, linear, old, rows};
use crate::stubborn::{Whims, wrapped};
use stack::heard::heard_on;
use stack::world::{MIB, VIRTUAL};

/// Each buffer reads the CPU's writes before its Render, although the CPU never waits.
#[test]
fn discard_gives_other_memory_while_the_gpu_uses_the_old() {
    // spec: memory §6.5, memory §6.1
    // seed: U05
    for mode in [VIRTUAL, Mode::Real] {
        let host = Host::start(config(mode)).expect("the host starts");
        let client = old(&host);
        let dynamic = linear(&client);
        let copies: Vec<_> = (0..12).map(|_| linear(&client)).collect();
        for round in 0..2u64 {
            let go = client.fence();
            client.context.wait(&go, 1).expect("a wait");
            for (seed, target) in (round * 100..).zip(&copies) {
                // DonotWait and IgnoreSync mean nothing with Discard.
                client.write(&dynamic, DISCARD | LockFlags::DONOT_WAIT | LockFlags::WRITE_ONLY, seed);
                copy(&client, &dynamic, target);
            }
            client.gpu.device().signal(&go, 1).expect("the GPU goes on");
            client.run(|commands| _ = commands.fill((&copies[11], 0), 8, 0));
            for (seed, target) in (round * 100..).zip(&copies).take(11) {
                assert_eq!(client.read(target, ENTIRE), rows(seed), "{mode:?} {seed}");
            }
        }
        let resident = client.gpu.device().evict(vec![dynamic.handle()], Default::default());
        resident.expect("its one count is that of the current instance");
        drop(dynamic);
        client.run(|commands| _ = commands.fill((&copies[0], 0), 8, 0));
    }
}

/// Instances come and go under their allocation's number: the reported moves add up to the resident content.
#[test]
fn the_moves_of_instances_are_told_under_the_allocations_number() {
    // spec: memory §6.5, memory §8.5
    let (host, heard) = heard_on("wddm1-banks", VIRTUAL, 4 * MIB, |event| matches!(event, Event::Moved { .. }));
    let client = old(&host);
    let (dynamic, target) = (linear(&client), linear(&client));
    let go = client.fence();
    client.context.wait(&go, 1).expect("a wait");
    for seed in 1..=3 {
        client.write(&dynamic, DISCARD, seed);
        copy(&client, &dynamic, &target);
    }
    client.gpu.device().signal(&go, 1).expect("the GPU goes on");
    client.run(|commands| _ = commands.fill((&target, 0), 8, 0));
    let mut told = BTreeSet::new();
    for event in heard.take() {
        let Event::Moved { allocation, segment, how, why, runs, .. } = event else { continue };
        if why.stays() {
            continue;
        }
        let pages = runs.iter().flat_map(|run| run.first..run.end()).map(|page| (segment, page, allocation));
        match how {
            Move::PageIn | Move::Fill | Move::Map => told.extend(pages),
            _ => pages.for_each(|page| assert!(told.remove(&page), "{how:?} of {page:?}, which is not there")),
        }
    }
    let resident = host.adapter(0).see_residences(|all| {
        let pages = |known: &Residence| {
            let pages = known.runs.iter().flat_map(|run| run.first..run.end());
            pages.map(|page| (known.segment.0, page, known.allocation)).collect::<Vec<_>>()
        };
        all.iter().flat_map(pages).collect::<BTreeSet<_>>()
    });
    assert_eq!(told, resident);
    assert!(resident.iter().all(|(_, _, allocation)| *allocation != 0), "each has an allocation: {resident:?}");
}

/// The driver's limit holds: from there on Discard waits for the instance given up longest ago.
#[test]
fn instances_are_limited_by_the_driver() {
    // spec: memory §6.5
    let whims =
        Whims { describe: Box::new(|info| info.renaming_list_length_max = 2), packets: true, ..Whims::default() };
    let wrap_miniport = Some(wrapped(whims));
    let host = Host::start(HostConfig { wrap_miniport, ..config(Mode::Real) }).expect("the host starts");
    let client = old(&host);
    let (dynamic, target) = (linear(&client), linear(&client));
    let go = client.fence();
    client.context.wait(&go, 1).expect("a wait");
    for seed in 1..=2 {
        client.write(&dynamic, DISCARD, seed);
        copy(&client, &dynamic, &target);
    }
    let back = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            client.write(&dynamic, DISCARD, 3);
            back.store(true, Ordering::SeqCst);
        });
        std::thread::sleep(Duration::from_millis(30));
        assert!(!back.load(Ordering::SeqCst), "both are in use");
        client.gpu.device().signal(&go, 1).expect("the GPU goes on");
    });
    copy(&client, &dynamic, &target);
    assert_eq!(client.read(&target, ENTIRE), rows(3));
}

/// No room for another: refused, until the caller says that nothing unsubmitted names it; then the kernel waits.
#[test]
fn without_room_the_caller_flushes_and_any_instance_is_taken() {
    // spec: memory §6.5, memory §6.4
    let host = Host::start(config(Mode::Real)).expect("the host starts");
    let client = old(&host);
    let request = AllocationRequest {
        kind: SurfaceKind::Local,
        cpu_visible: true,
        cached: false,
        accessed_physically: true,
        size_bytes: 3 * MIB,
    };
    let large = client.gpu.device().create_allocation(request.encode().to_vec()).expect("an allocation");
    client.gpu.paging().make_resident(vec![large.handle()], MakeResidentFlags::empty()).expect("room");
    let target = linear(&client);
    client.write(&large, ENTIRE, 1);
    let go = client.fence();
    client.context.wait(&go, 1).expect("a wait");
    copy(&client, &large, &target);
    let before = host.state_digest();
    let refused = large.lock_legacy(Vec::new(), DISCARD).map(drop).expect_err("4 MiB hold it once");
    assert_eq!(refused.status, NtStatus::NO_MEMORY, "{refused}");
    assert_eq!(before.differences(&host.state_digest()), [""; 0], "the work of another instance, and its going");
    let resource = LegacyResource { allocation: Arc::clone(&large), swizzled: false, aperture: false };
    let back = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut pending = ListedCommands::new();
            pending.copy((&large, 0), (&target, 0), BYTES);
            let map = resource.map(MapKind::WriteDiscard, false, Some((&client.context, &mut pending)));
            map.expect("any instance").fill_words(0, BYTES / 8, |index| 2 + index);
            assert!(pending.words.is_empty(), "the recorded commands have been submitted");
            back.store(true, Ordering::SeqCst);
        });
        std::thread::sleep(Duration::from_millis(30));
        assert!(!back.load(Ordering::SeqCst), "the only instance is in use");
        client.gpu.device().signal(&go, 1).expect("the GPU goes on");
    });
    assert_eq!(client.read(&target, ENTIRE), rows(1), "buffers rendered before the map read the earlier content");
    copy(&client, &large, &target);
    assert_eq!(client.read(&target, ENTIRE), rows(2));
}
