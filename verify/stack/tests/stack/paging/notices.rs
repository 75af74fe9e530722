//! Notices of evictions (operation 22): the driver is shown what leaves system memory, chunk by chunk, through the scratch area of the
//! paging process.

use super::*;

#[test]
fn a_driver_hears_of_an_eviction_from_system_memory_range_by_range() {
    // spec: memory §3.4
    let said: Shared<(u64, u64)> = Arc::default();
    let seen = Arc::clone(&said);
    let build = move |driver: &mut dyn Miniport, build: &mut BuildPagingBuffer<'_>| {
        if let PagingOp::NotifyAlloc { process, notice, offset_bytes, size_bytes, va, .. } = build.operation {
            assert_eq!((process, notice), (None, AllocNotice::Eviction));
            assert!(!va.is_null());
            seen.lock().unwrap().push((offset_bytes, size_bytes));
        }
        driver.build_paging_buffer(build)
    };
    let describe = |info: &mut AllocationInfo| info.flags2 |= AllocationFlags2::NOTIFY_EVICTION;
    let whims = Whims { build: Box::new(build), describe: Box::new(describe), ..Whims::default() };
    let host = host_with(8 * MIB, whims);
    let client = client(&host);
    let [system, local] = [SurfaceKind::System, SurfaceKind::Local]
        .map(|kind| client.gpu.create_surface(kind, 5 * MIB).expect("a surface"));
    for surface in [&system, &local] {
        arrive(&client, surface).expect("room");
        leave(&client, surface, EvictFlags::empty()).expect("it is on the list");
        arrive(&client, surface).expect("room");
    }
    let once = [(0, 2 * MIB), (2 * MIB, 2 * MIB), (4 * MIB, MIB)];
    assert_eq!(*said.lock().unwrap(), once, "the kernel does not announce content that leaves a memory segment");
}

/// A driver that writes no command for a notice: the windows that showed its chunks are free again all the same, however many chunks there
/// are, and the ring goes on for every process.
#[test]
fn a_notice_of_more_chunks_than_there_are_windows_holds_nothing() {
    // spec: memory §3.4, memory §4.7
    for end in [End::Evict, End::Destroy, End::Device, End::Process] {
        let told: Shared<(u64, u64)> = Arc::default();
        let seen = Arc::clone(&told);
        let build = move |driver: &mut dyn Miniport, build: &mut BuildPagingBuffer<'_>| {
            if let PagingOp::NotifyAlloc { offset_bytes, size_bytes, .. } = build.operation {
                seen.lock().unwrap().push((offset_bytes / MIB, size_bytes / MIB));
            }
            driver.build_paging_buffer(build)
        };
        let describe = |info: &mut AllocationInfo| {
            if info.size_bytes == NOTIFIED {
                info.flags2 |= AllocationFlags2::NOTIFY_EVICTION;
                info.flags |= AllocationFlags::ACCESSED_PHYSICALLY;
            }
        };
        let whims = Whims { build: Box::new(build), describe: Box::new(describe), ..Whims::default() };
        let host = host_in(Mode::Virtual { stored: false }, 8 * MIB, whims);
        let mut other = client(&host);
        let one = client(&host);
        let surface = one.gpu.create_surface(SurfaceKind::System, NOTIFIED).expect("a surface");
        arrive(&one, &surface).expect("room in the aperture");
        match end {
            End::Evict => leave(&one, &surface, EvictFlags::empty()).expect("it is on the list"),
            End::Destroy => drop(surface),
            End::Device => drop((one, surface)),
            End::Process => _ = host.process_died(one.link.process()),
        }
        host.check_invariants().expect("each hold of the ring ends");
        // Work behind the notice, of a process that has nothing to do with it.
        let theirs = other.pinned(SurfaceKind::Local, MIB);
        let va = theirs.va();
        other.run(|commands| {
            commands.touch(va, MIB, true);
        });
        d3dkmt::Device::create(other.gpu.adapter()).expect("its address space is there");
        let chunks: Vec<_> = (0..NOTIFIED / MIB).step_by(2).map(|at| (at, 2)).collect();
        assert_eq!(*told.lock().unwrap(), chunks, "{end:?}");
        host.check_invariants().expect("nothing is left behind");
    }
}

/// One chunk more than the windows of the scratch area show at once.
const NOTIFIED: u64 = 18 * MIB;

/// How the allocation leaves system memory.
#[derive(Clone, Copy, Debug)]
enum End {
    Evict,
    Destroy,
    Device,
    Process,
}
