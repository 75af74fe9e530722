//! A client's work from its ring to its results, in both kinds of time.

use crate::world::{MIB, VIRTUAL, client, host};
use d3dkmt::{EvictFlags, MakeResidentFlags, Residency};
use dxgk_host::Mode;
use softgpu_umd::{Commands, GpuWait, SurfaceKind, pattern};

#[test]
fn what_the_gpu_writes_the_cpu_reads() {
    for mode in [VIRTUAL, Mode::Real] {
        let host = host(mode, 4 * MIB);
        let mut client = client(&host);
        let local = client.pinned(SurfaceKind::Local, 64 << 10);
        let system = client.pinned(SurfaceKind::System, 64 << 10);
        let (local_va, system_va) = (local.va(), system.va());
        client.run(|commands| {
            commands.pattern(local_va, 64 << 10, 7).copy(local_va, system_va, 64 << 10);
        });
        let lock = system.lock().expect("system memory can be locked");
        for offset in [0, 8, 4096, 65528] {
            assert_eq!(lock.read_word(offset), pattern::word(7, offset), "{mode:?} at {offset}");
        }
    }
}

/// Three surfaces in room for two: each comes back as it was, however often it leaves.
#[test]
fn content_survives_eviction() {
    // spec: memory §8.3, memory §5.2
    for mode in [VIRTUAL, Mode::Real] {
        let host = host(mode, 2 * MIB);
        let mut client = client(&host);
        let report = client.pinned(SurfaceKind::System, 4096);
        let surfaces: Vec<_> = (0..3).map(|_| client.gpu.create_surface(SurfaceKind::Local, MIB).unwrap()).collect();
        let paging_va = client.gpu.paging().fence().current_va();
        for round in 0..6u64 {
            for (index, surface) in surfaces.iter().enumerate() {
                let handle = vec![surface.allocation().handle()];
                let residency = client.gpu.paging().make_resident(handle.clone(), MakeResidentFlags::empty()).unwrap();
                let waits: Vec<GpuWait> = match residency {
                    Residency::Resident => vec![],
                    Residency::Pending { paging_fence_value } => {
                        vec![GpuWait { current: paging_va, value: paging_fence_value }]
                    }
                };
                let mut commands = Commands::new();
                if round > 0 {
                    commands.check(
                        surface.va(),
                        MIB,
                        pattern::seed(index as u64, round - 1),
                        report.va(),
                        round << 8 | index as u64,
                    );
                }
                commands.pattern(surface.va(), MIB, pattern::seed(index as u64, round));
                client.stream.submit(&client.gpu, &waits, &commands).unwrap();
                client.gpu.device().evict(handle, EvictFlags::EVICT_ONLY_IF_NECESSARY).unwrap();
            }
        }
        let last = client.stream.last_value();
        client.stream.wait(&client.gpu, last).unwrap();
        assert_eq!(report.lock().unwrap().read_word(0), 0, "{mode:?}: a check failed");
    }
}

#[test]
fn memory_that_was_never_written_reads_zero() {
    let host = host(VIRTUAL, 4 * MIB);
    let mut first = client(&host);
    for round in 0..3 {
        let surface = first.pinned(SurfaceKind::Local, 2 * MIB);
        let copy = first.pinned(SurfaceKind::System, 2 * MIB);
        let (va, copy_va) = (surface.va(), copy.va());
        first.run(|commands| {
            commands.copy(va, copy_va, 2 * MIB).pattern(va, 2 * MIB, 99);
        });
        let lock = copy.lock().unwrap();
        for offset in (0..2 * MIB).step_by(4096) {
            assert_eq!(lock.read_word(offset), 0, "round {round}: another owner's bytes at {offset}");
        }
    }
}

#[test]
fn a_kernel_mode_queue_holds_work_until_its_fence_is_reached() {
    // spec: sync §3.8, sync §4.1
    for mode in [VIRTUAL, Mode::Real] {
        let host = host(mode, 4 * MIB);
        let client = client(&host);
        let device = client.gpu.device();
        let context = device.create_context(wddm_types::NodeId(0)).unwrap();
        let queue = context.create_kernel_queue().unwrap();
        let (go, done) = (
            device.create_native_fence(Default::default()).unwrap(),
            device.create_native_fence(Default::default()).unwrap(),
        );
        let buffer = client.pinned(SurfaceKind::System, 4096);
        let target = client.pinned(SurfaceKind::System, 4096);
        let mut commands = Commands::new();
        commands.fill(target.va(), 4096, 0x1234_5678);
        buffer.lock().unwrap().write_words(0, commands.words());
        queue.submit_wait(&go, 3).unwrap();
        queue.submit(buffer.va(), commands.words().len() as u32 * 8, 1).unwrap();
        queue.submit_signal(&done, 9).unwrap();
        device.signal(&go, 2).unwrap();
        assert_eq!((queue.progress().current(), done.current()), (0, 0), "2 is not 3");
        device.signal(&go, 3).unwrap();
        device.wait(&[(&done, 9)]).unwrap();
        assert_eq!(queue.progress().current(), 1);
        assert_eq!(target.lock().unwrap().read_word(0), 0x1234_5678_1234_5678);
    }
}

/// More buffers than the driver lets be in flight: all run, in order.
#[test]
fn a_long_kernel_mode_queue_drains() {
    let host = host(VIRTUAL, 4 * MIB);
    let client = client(&host);
    let context = client.gpu.device().create_context(wddm_types::NodeId(1)).unwrap();
    let queue = context.create_kernel_queue().unwrap();
    let buffer = client.pinned(SurfaceKind::System, 4096);
    let target = client.pinned(SurfaceKind::System, 4096);
    let mut commands = Commands::new();
    commands.fill(target.va(), 4096, 1);
    buffer.lock().unwrap().write_words(0, commands.words());
    for value in 1..=2000 {
        queue.submit(buffer.va(), commands.words().len() as u32 * 8, value).unwrap();
    }
    client.gpu.device().wait(&[(queue.progress(), 2000)]).unwrap();
}
