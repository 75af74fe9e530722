//! The kernel's paging operations one by one: the forms of moves and maps, the notices, and stray accesses to memory that has another owner
//! by now.

use super::*;

/// A transfer that is longer than the kernel's limit comes in parts: offsets count up, the first starts, the last ends.
#[test]
fn a_long_transfer_is_cut() {
    // spec: memory §3.2
    let said: Shared<(u64, u64, bool, bool)> = Arc::default();
    let parts = Arc::clone(&said);
    let build = move |driver: &mut dyn Miniport, build: &mut BuildPagingBuffer<'_>| {
        if let PagingOp::Transfer { transfer_offset, size_bytes, flags, mdl_offset, .. } = build.operation {
            assert_eq!(mdl_offset, transfer_offset / 4096, "the page list goes on where the segment does");
            let (start, end) =
                (flags.contains(TransferFlags::TRANSFER_START), flags.contains(TransferFlags::TRANSFER_END));
            parts.lock().unwrap().push((transfer_offset / MIB, size_bytes / MIB, start, end));
        }
        driver.build_paging_buffer(build)
    };
    // Bytes are only timed here.
    let host =
        host_in(Mode::Virtual { stored: false }, 1024 * MIB, Whims { build: Box::new(build), ..Whims::default() });
    let client = client(&host);
    let surface = client.gpu.create_surface(SurfaceKind::Local, 600 * MIB).expect("a surface");
    arrive(&client, &surface).expect("room");
    leave(&client, &surface, EvictFlags::empty()).expect("it is on the list");
    arrive(&client, &surface).expect("room");
    let one_way = [(0, 256, true, false), (256, 256, false, false), (512, 88, false, true)];
    assert_eq!(*said.lock().unwrap(), [one_way, one_way].concat());
}

#[test]
fn content_leaves_through_the_aperture_that_its_driver_names() {
    // spec: memory §8.3, memory §2.1
    // seed: M24
    let said: Shared<&'static str> = Arc::default();
    let seen = Arc::clone(&said);
    let build = move |driver: &mut dyn Miniport, build: &mut BuildPagingBuffer<'_>| {
        let what = match build.operation {
            PagingOp::MapApertureSegment { allocation: Some(_), .. } => Some("map"),
            PagingOp::UnmapApertureSegment { allocation: Some(_), .. } => Some("unmap"),
            PagingOp::Transfer {
                source: TransferEnd::Segment { segment: LOCAL, .. },
                destination: TransferEnd::Segment { segment: APERTURE, .. },
                ..
            } => Some("copy"),
            PagingOp::Transfer { destination: TransferEnd::Mdl(_), .. } => Some("copy by the page list"),
            _ => None,
        };
        seen.lock().unwrap().extend(what);
        driver.build_paging_buffer(build)
    };
    let describe = |info: &mut AllocationInfo| info.eviction_segments = SegmentSet::only(APERTURE);
    let whims = Whims { build: Box::new(build), describe: Box::new(describe), ..Whims::default() };
    exercise(&host_with(2 * MIB, whims), SurfaceKind::Local, MIB).expect("it works");
    let seen = said.lock().unwrap();
    assert!(seen.len() >= 15 && seen.chunks(3).all(|step| step == ["map", "copy", "unmap"]), "{seen:?}");
}

#[test]
fn a_driver_is_told_when_its_allocations_come_and_go() {
    // spec: memory §3.4
    let said: Shared<(KmdAllocation, bool)> = Arc::default();
    let seen = Arc::clone(&said);
    let build = move |driver: &mut dyn Miniport, build: &mut BuildPagingBuffer<'_>| {
        if let PagingOp::NotifyResidency { allocation, address, resident } = build.operation {
            assert_eq!(resident, address.segment == LOCAL);
            seen.lock().unwrap().push((allocation, resident));
        }
        driver.build_paging_buffer(build)
    };
    let describe = |info: &mut AllocationInfo| {
        if info.supported_segments.contains(LOCAL) {
            info.flags |= AllocationFlags::ACCESSED_PHYSICALLY | AllocationFlags::EXPLICIT_RESIDENCY_NOTIFICATION;
        }
    };
    let whims = Whims { build: Box::new(build), describe: Box::new(describe), ..Whims::default() };
    exercise(&host_with(2 * MIB, whims), SurfaceKind::Local, MIB).expect("it works");
    let mut here = std::collections::BTreeSet::new();
    for &(allocation, resident) in said.lock().unwrap().iter() {
        assert!(if resident { here.insert(allocation) } else { here.remove(&allocation) }, "each change once");
    }
    assert!(said.lock().unwrap().len() > 15);
}

/// A driver that pages by address gets no physical operation, and no chunk that is longer than its window.
#[test]
fn content_moves_by_address_when_the_driver_pages_so() {
    // spec: memory §3.3, memory §4.7
    let said: Shared<(u64, u64, VirtualDirection)> = Arc::default();
    let seen = Arc::clone(&said);
    let build = move |driver: &mut dyn Miniport, build: &mut BuildPagingBuffer<'_>| {
        assert!(!matches!(build.operation.number(), 0..=2), "no physical move: {:?}", build.operation);
        if let PagingOp::VirtualTransfer { allocation_offset, size_bytes, direction, source, destination, .. } =
            build.operation
        {
            assert!(source.0.abs_diff(destination.0) >= size_bytes && size_bytes <= 2 * MIB);
            seen.lock().unwrap().push((allocation_offset, size_bytes, direction));
        }
        driver.build_paging_buffer(build)
    };
    let caps = |caps: &mut AdapterCaps| caps.paging_by_gpu_va = true;
    let whims = Whims { build: Box::new(build), caps: Box::new(caps), ..Whims::default() };
    // Five chunks each way, of which the last is short.
    let bytes = 9 * MIB;
    exercise(&host_with(20 * MIB, whims), SurfaceKind::Local, bytes).expect("it works");
    let seen = said.lock().unwrap();
    assert!(seen.len() > 40);
    for direction in [VirtualDirection::LocalToSystem, VirtualDirection::SystemToLocal] {
        let moved = seen.iter().filter(|(_, _, way)| *way == direction).map(|(_, bytes, _)| bytes).sum::<u64>();
        assert!(moved >= 30 * MIB, "{direction:?}: {moved}");
    }
    assert!(seen.iter().any(|(offset, bytes, _)| (*offset, *bytes) == (8 * MIB, MIB)), "{seen:?}");
}

#[test]
fn an_aperture_is_mapped_by_device_pages_when_the_driver_understands_them() {
    // spec: memory §3.3, memory §1.14
    let said: Shared<(u64, bool, Option<u64>)> = Arc::default();
    let seen = Arc::clone(&said);
    let build = move |driver: &mut dyn Miniport, build: &mut BuildPagingBuffer<'_>| {
        assert_ne!(build.operation.number(), 5, "the second form replaces the first");
        if let PagingOp::MapApertureSegment2 {
            allocation: Some(_), adl, number_of_pages, cpu_visible_address, ..
        } = build.operation
        {
            assert_eq!(adl.page_count(), number_of_pages);
            assert!(cpu_visible_address.is_none_or(|address| adl.page(0) == Some(address / 4096)));
            let contiguous = matches!(adl, Adl::Contiguous(_));
            seen.lock().unwrap().push((number_of_pages, contiguous, cpu_visible_address));
        }
        driver.build_paging_buffer(build)
    };
    let whims = Whims {
        build: Box::new(build),
        describe: Box::new(|info| {
            if !info.supported_segments.contains(LOCAL) {
                info.flags |= AllocationFlags::ACCESSED_PHYSICALLY;
                info.flags.set(AllocationFlags::MAP_APERTURE_CPU_VISIBLE, info.size_bytes == 64 << 10);
            }
        }),
        caps: Box::new(|caps| caps.memory |= ddi::VidMmCaps::MAP_APERTURE2_SUPPORTED),
        ..Whims::default()
    };
    let host = host_with(2 * MIB, whims);
    let mut client = client(&host);
    let visible = client.pinned(SurfaceKind::System, 64 << 10);
    let other = client.pinned(SurfaceKind::System, 32 << 10);
    let (from, to) = (visible.va(), other.va());
    client.run(|commands| {
        commands.pattern(from, 32 << 10, 5).copy(from, to, 32 << 10);
    });
    assert_eq!(other.lock().expect("system memory").read_word(4096), pattern::word(5, 4096));
    let seen = said.lock().unwrap();
    assert!(seen.iter().any(|(pages, one, address)| (*pages, *one, address.is_some()) == (16, true, true)), "{seen:?}");
    assert!(seen.iter().all(|(pages, _, address)| address.is_some() == (*pages == 16)), "{seen:?}");
}

/// An access to aperture pages whose allocation has left them: it sees the dummy page, neither the old pages nor a fault.
#[test]
fn a_stray_access_to_the_aperture_sees_the_dummy_page() {
    // seed: M08, M24
    // spec: memory §3.4, memory §10.4
    let mut page = 0;
    let build = move |driver: &mut dyn Miniport, build: &mut BuildPagingBuffer<'_>| {
        if let PagingOp::MapApertureSegment { allocation: Some(_), mdl, .. } = build.operation {
            page = mdl.runs[0].first;
        }
        driver.build_paging_buffer(build)?;
        if let PagingOp::UnmapApertureSegment { allocation: Some(_), offset_in_pages, .. } = build.operation {
            // The engine goes on using the old aperture page, and copies its content to where the test can read it.
            let stray = Command::CopyPhysical {
                source_bus: bus::APERTURE_BASE + offset_in_pages * bus::PAGE_BYTES,
                target_bus: bus::SYSTEM_BASE + page * bus::PAGE_BYTES,
                bytes: bus::PAGE_BYTES,
            };
            let mut words = Vec::new();
            stray.encode(&mut words);
            build.buffer[build.written..][..words.len()].copy_from_slice(&words);
            build.written += words.len();
        }
        Ok(())
    };
    let describe = |info: &mut AllocationInfo| {
        if info.size_bytes == 64 << 10 {
            info.flags |= AllocationFlags::ACCESSED_PHYSICALLY;
        }
    };
    let whims = Whims { build: Box::new(build), describe: Box::new(describe), ..Whims::default() };
    let host = host_with(2 * MIB, whims);
    let mut client = client(&host);
    let surface = client.gpu.create_surface(SurfaceKind::System, 64 << 10).expect("a surface");
    arrive(&client, &surface).expect("room");
    let va = surface.va();
    client.run(|commands| {
        commands.pattern(va, 64 << 10, 5);
    });
    leave(&client, &surface, EvictFlags::empty()).expect("it is on the list");
    let lock = surface.lock().expect("system memory");
    assert_eq!(lock.read_word(8), 0, "the dummy page, not the allocation's");
    assert_eq!(lock.read_word(4096 + 8), pattern::word(5, 4096 + 8), "nothing else was touched");
    drop(lock);
    assert_eq!(client.gpu.device().state().expect("the adapter runs"), d3dkmt::DeviceState::Active);
}

/// Whatever one process wrote, another one never reads, wherever its memory comes from.
#[test]
fn no_process_sees_what_another_wrote() {
    // spec: memory §3.3, memory §8.3
    let host = stack::world::host(stack::world::VIRTUAL, 4 * MIB);
    for round in 0..3 {
        let mut owner = client(&host);
        for kind in [SurfaceKind::Local, SurfaceKind::System] {
            let surface = owner.pinned(kind, 3 * MIB);
            let va = surface.va();
            owner.run(|commands| {
                commands.pattern(va, 3 * MIB, 77);
            });
        }
        // Half of the owners die with their memory in use, the others give it back.
        if round % 2 == 0 {
            host.process_died(owner.link.process());
        }
        drop(owner);
        let mut heir = client(&host);
        let sum = heir.pinned(SurfaceKind::System, 4096);
        for kind in [SurfaceKind::Local, SurfaceKind::System, SurfaceKind::LocalThenSystem] {
            let surface = heir.gpu.create_surface(kind, 3 * MIB).expect("a surface");
            arrive(&heir, &surface).expect("room");
            let (va, report) = (surface.va(), sum.va());
            heir.run(|commands| {
                commands.fill(report, 8, 1).checksum(va, 3 * MIB, report);
            });
            assert_eq!(sum.lock().expect("system memory").read_word(0), 0, "{kind:?}, round {round}");
            leave(&heir, &surface, EvictFlags::empty()).expect("it is on the list");
        }
    }
}

/// A move is a paging buffer: the driver builds it, the scheduler hands it to the paging queue, the copy engine runs it.
#[test]
fn content_moves_in_a_paging_buffer_and_in_the_aperture_not_at_all() {
    // seed: M07, M39, M41
    // spec: memory §1.6, memory §1.11, memory §3.1
    let said: Shared<(u32, u32, u64)> = Arc::default();
    let seen = Arc::clone(&said);
    let build = move |driver: &mut dyn Miniport, build: &mut BuildPagingBuffer<'_>| {
        let before = (build.write_offset, build.buffer_va.0);
        let result = driver.build_paging_buffer(build);
        if !build.immediate {
            assert!(result.is_ok(), "the driver had room");
            let start = before.1 - u64::from(before.0);
            assert!(start.is_multiple_of(4096), "a fresh paging buffer begins on a page");
            seen.lock().unwrap().push((build.operation.number(), before.0, build.written as u64));
        }
        result
    };
    let describe = |info: &mut AllocationInfo| info.flags |= AllocationFlags::ACCESSED_PHYSICALLY;
    let whims = Whims { build: Box::new(build), describe: Box::new(describe), ..Whims::default() };
    let host = host_with(2 * MIB, whims);
    let client = client(&host);
    let in_and_out = |kind| {
        let surface = client.gpu.create_surface(kind, 4096).expect("a surface");
        for _ in 0..2 {
            arrive(&client, &surface).expect("room");
            leave(&client, &surface, EvictFlags::empty()).expect("it is on the list");
        }
        arrive(&client, &surface).expect("room");
        (said.lock().unwrap().drain(..).collect::<Vec<_>>(), surface)
    };
    // The first use makes page tables, and is not counted.
    let _made = in_and_out(SurfaceKind::System);
    let moves = |steps: &[(u32, u32, u64)]| {
        let content = |number: &u32| matches!(number, 0 | 1 | 5 | 6);
        steps.iter().map(|(number, ..)| *number).filter(content).collect::<Vec<_>>()
    };
    let (local, _here) = in_and_out(SurfaceKind::Local);
    assert_eq!(moves(&local), [1, 0, 0, 0, 0], "filled once, then copied out and in");
    let (system, _there) = in_and_out(SurfaceKind::System);
    assert_eq!(moves(&system), [5, 6, 5, 6, 5], "mapped and unmapped, never copied");
    // Operations are packed: each stands where the one before it ended.
    for pair in local.windows(2).filter(|pair| pair[1].1 != 0) {
        assert_eq!(u64::from(pair[1].1), u64::from(pair[0].1) + pair[0].2 * 8);
    }
}

/// Hardware that breaks loses its memory: the kernel tells the driver of each allocation, and answers all other calls.
#[test]
fn hardware_that_is_lost_takes_its_memory_along() {
    // spec: memory §3.5, memory §8.4
    let said: Shared<(u32, Option<KmdAllocation>)> = Arc::default();
    let seen = Arc::clone(&said);
    let mut broken = false;
    let build = move |driver: &mut dyn Miniport, build: &mut BuildPagingBuffer<'_>| {
        let number = build.operation.number();
        let lost = match build.operation {
            PagingOp::Transfer { allocation, size_bytes: 0, .. } => Some((number, allocation)),
            PagingOp::UnmapApertureSegment { allocation: Some(allocation), .. } => Some((number, Some(allocation))),
            _ => None,
        };
        if build.immediate {
            seen.lock().unwrap().extend(lost);
        }
        if let PagingOp::Transfer { size_bytes: 1.., .. } = build.operation
            && !broken
        {
            // No such opcode: the engine stops the paging queue.
            broken = true;
            build.buffer[0] = 0x7f | 1 << 8;
            build.written = 1;
            return Ok(());
        }
        driver.build_paging_buffer(build)
    };
    let describe = |info: &mut AllocationInfo| info.flags |= AllocationFlags::ACCESSED_PHYSICALLY;
    let whims = Whims { build: Box::new(build), describe: Box::new(describe), ..Whims::default() };
    let host = host_with(8 * MIB, whims);
    let client = client(&host);
    said.lock().unwrap().clear();
    let surfaces = [SurfaceKind::Local, SurfaceKind::Local, SurfaceKind::System]
        .map(|kind| client.gpu.create_surface(kind, MIB).expect("a surface"));
    surfaces.iter().for_each(|surface| arrive(&client, surface).expect("room"));
    // The first real transfer breaks the device.
    let _ = leave(&client, &surfaces[0], EvictFlags::empty());
    assert_stopped(
        arrive(&client, &surfaces[0]),
        "the device is lost (Reset): the adapter was reset: the paging queue faulted at 0x",
    );
    assert_eq!(client.gpu.device().state().unwrap(), d3dkmt::DeviceState::Reset, "the adapter goes on without it");
    let seen = said.lock().unwrap();
    // The stream's own buffers lie in the aperture, too.
    let (lost, unmapped): (Vec<_>, Vec<_>) = seen.iter().partition(|(number, _)| *number == 0);
    assert_eq!(lost.len(), 1, "content on its way out has left already: {lost:?}");
    assert!(!unmapped.is_empty() && unmapped.iter().all(|(number, _)| *number == 6), "{unmapped:?}");
}
