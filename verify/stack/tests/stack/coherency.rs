//! A platform whose GPU does not snoop the CPU's caches: each of the specification's sequences with its maintenance, and the stale content
//! without it.

mod lists;
mod renamed;
mod snooped;

use std::sync::Arc;

use d3dkmt::{Allocation, MakeResidentFlags, Residency};
use dxgk_host::{Host, HostConfig, Profile};
use kmt_link::MappedBytes;
use softgpu_spec::private_data::{AllocationRequest, Kind};
use softgpu_umd::{Surface, SurfaceKind};
use wddm_types::{GpuVa, NtStatus};

use stack::world::{Client, MIB, VIRTUAL, client};

const BYTES: u64 = 8192;

/// A client with a cacheable, locked allocation that the GPU has mapped, and a surface that neither side caches.
struct Stage {
    client: Client,
    allocation: Arc<Allocation>,
    va: GpuVa,
    lock: d3dkmt::Lock,
    plain: Surface,
}

fn host(io_coherent: bool) -> Arc<Host> {
    let profile = Profile::named("noncoherent").expect("a built-in profile");
    let config = HostConfig {
        vram_bytes: 8 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        ..HostConfig::new(profile, VIRTUAL)
    };
    assert!(!config.io_coherent, "the profile says so");
    Host::start(HostConfig { io_coherent, ..config }).expect("the host starts")
}

fn stage(io_coherent: bool, cached: bool) -> Stage {
    let client = client(&host(io_coherent));
    let request = AllocationRequest {
        kind: Kind::System,
        cpu_visible: true,
        cached,
        accessed_physically: false,
        size_bytes: BYTES,
    };
    let allocation = client.gpu.device().create_allocation(request.encode().to_vec()).unwrap();
    let paging = client.gpu.paging();
    let (va, mapped_at) = paging.map(&allocation, 2, true).unwrap();
    let value = match paging.make_resident(vec![allocation.handle()], MakeResidentFlags::empty()).unwrap() {
        Residency::Resident => mapped_at,
        Residency::Pending { paging_fence_value, .. } => paging_fence_value.max(mapped_at),
    };
    client.gpu.device().wait(&[(paging.fence(), value)]).unwrap();
    let lock = allocation.lock().unwrap();
    let plain = client.pinned(SurfaceKind::System, BYTES);
    Stage { client, allocation, va, lock, plain }
}

impl Stage {
    fn cpu(&self) -> &MappedBytes {
        &self.lock
    }

    fn cpu_writes(&self, value: u32) {
        self.cpu().write(0, &(u64::from(value) << 32 | u64::from(value)).to_le_bytes());
    }

    fn cpu_reads(&self) -> u32 {
        self.cpu().read_word(0) as u32
    }

    fn gpu_writes(&mut self, bytes: u64, value: u32) {
        let va = self.va;
        self.client.run(|commands| {
            commands.fill(va, bytes, value);
        });
    }

    fn gpu_reads(&mut self) -> u32 {
        let (from, to) = (self.va, self.plain.va());
        self.client.run(|commands| {
            commands.copy(from, to, 8);
        });
        self.plain.lock().unwrap().read_word(0) as u32
    }

    fn maintain(&self) {
        self.allocation.invalidate_cache(0, BYTES).unwrap();
    }
}

#[test]
fn what_the_cpu_wrote_reaches_the_gpu_when_it_is_written_back() {
    // spec: memory §6.7
    // seed: U28, U31
    let mut stage = stage(false, true);
    stage.cpu_writes(1);
    assert_eq!(stage.gpu_reads(), 0, "without maintenance memory is stale");
    stage.maintain();
    assert_eq!(stage.gpu_reads(), 1);
}

#[test]
fn what_the_gpu_wrote_reaches_the_cpu_when_its_lines_are_invalidated() {
    // spec: memory §6.7
    // seed: U29, U31
    let mut stage = stage(false, true);
    stage.gpu_writes(BYTES, 2);
    assert_eq!(stage.cpu_reads(), 0, "a line that was prefetched is stale, though the CPU never touched it since");
    stage.maintain();
    assert_eq!(stage.cpu_reads(), 2);
}

#[test]
fn a_dirty_line_is_written_over_what_the_gpu_wrote_later() {
    // spec: memory §6.7, third row of the table
    let mut stage = stage(false, true);
    stage.cpu_writes(3);
    stage.gpu_writes(BYTES, 4);
    // Whenever the line leaves the cache, it takes the GPU's bytes with it.
    stage.maintain();
    assert_eq!((stage.gpu_reads(), stage.cpu_reads()), (3, 3), "maintained too late");
    stage.cpu_writes(5);
    stage.maintain();
    stage.gpu_writes(BYTES, 6);
    stage.maintain();
    assert_eq!((stage.gpu_reads(), stage.cpu_reads()), (6, 6));
}

#[test]
fn what_both_only_read_needs_no_maintenance() {
    // spec: memory §6.7, fourth row of the table
    let mut stage = stage(false, true);
    stage.gpu_writes(BYTES, 7);
    stage.maintain();
    assert_eq!((stage.cpu_reads(), stage.gpu_reads(), stage.cpu_reads()), (7, 7, 7));
}

#[test]
fn hardware_that_snoops_and_memory_that_is_not_cached_need_none() {
    // spec: memory §6.7
    for (io_coherent, cached) in [(true, true), (true, false), (false, false)] {
        let mut stage = stage(io_coherent, cached);
        stage.cpu_writes(8);
        assert_eq!(stage.gpu_reads(), 8, "coherent {io_coherent}, cached {cached}");
        stage.gpu_writes(BYTES, 9);
        assert_eq!(stage.cpu_reads(), 9, "coherent {io_coherent}, cached {cached}");
        // The maintenance has no visible effect here.
        stage.maintain();
        assert_eq!((stage.cpu_reads(), stage.gpu_reads()), (9, 9));
        assert_eq!(stage.client.gpu.adapter().info().unwrap().io_coherent, io_coherent);
    }
}

/// InvalidateCache maintains a range in both directions, by lines of 64 bytes, and leaves the lines beside it alone.
#[test]
fn maintenance_of_a_range_leaves_the_rest_alone() {
    // spec: memory §6.7
    // seed: U30
    let mut stage = stage(false, true);
    let far = 4096;
    let words = |stage: &mut Stage| {
        let (from, to) = (stage.va, stage.plain.va());
        stage.client.run(|commands| _ = commands.copy(from, to, BYTES));
        let lock = stage.plain.lock().unwrap();
        [0, far - 64, far, far + 64].map(|at| lock.read_word(at))
    };
    stage.cpu().write_words(0, &[1]);
    stage.cpu().write_words(far - 64, &[2]);
    stage.cpu().write_words(far, &[3]);
    stage.cpu().write_words(far + 64, &[4]);
    stage.allocation.invalidate_cache(far, 8).unwrap();
    assert_eq!(words(&mut stage), [0, 0, 3, 0], "written back is the range alone");
    stage.allocation.invalidate_cache(far - 1, 2).unwrap();
    assert_eq!(words(&mut stage), [0, 2, 3, 0], "a line that the range touches belongs to it");
    stage.maintain();
    assert_eq!(words(&mut stage), [1, 2, 3, 4]);
    // The other way: the CPU sees the GPU's writes in the range, and the old lines beside it.
    stage.gpu_writes(BYTES, 9);
    stage.allocation.invalidate_cache(far, 64).unwrap();
    let seen = |stage: &Stage| [0, far - 64, far, far + 64].map(|at| stage.cpu().read_word(at));
    assert_eq!(seen(&stage), [1, 2, 9 << 32 | 9, 4]);
    stage.allocation.invalidate_cache(0, 0).unwrap();
    assert_eq!(seen(&stage), [1, 2, 9 << 32 | 9, 4], "an empty range is none");
    stage.maintain();
    assert_eq!(seen(&stage), [9 << 32 | 9; 4]);
}

#[test]
fn a_range_outside_the_allocation_is_refused() {
    // spec: memory §6.7, memory §9.3
    let stage = stage(false, true);
    stage.cpu_writes(1);
    for (offset, length) in [(0, BYTES + 1), (BYTES, 1), (BYTES + 1, 0), (u64::MAX, 1), (1, u64::MAX)] {
        let refused = stage.allocation.invalidate_cache(offset, length).expect_err("outside");
        assert_eq!(refused.status, NtStatus::INVALID_PARAMETER, "{length} bytes at {offset}");
    }
    stage.allocation.invalidate_cache(BYTES, 0).expect("an empty range at the end is inside");
}

#[test]
fn the_kernel_maintains_what_it_moves_itself() {
    // spec: memory §6.7
    let mut client = client(&host(false));
    let request = AllocationRequest {
        kind: Kind::LocalThenSystem,
        cpu_visible: true,
        cached: true,
        accessed_physically: false,
        size_bytes: BYTES,
    };
    let allocation = client.gpu.device().create_allocation(request.encode().to_vec()).unwrap();
    // Written by the CPU, never maintained by it, paged in: the kernel writes the lines back before it copies.
    allocation.lock().unwrap().write(0, &11u64.to_le_bytes());
    let paging = client.gpu.paging();
    let (va, _) = paging.map(&allocation, 2, true).unwrap();
    let resident = paging.make_resident(vec![allocation.handle()], MakeResidentFlags::empty()).unwrap();
    let Residency::Pending { paging_fence_value, .. } = resident else { panic!("it had to be copied") };
    client.gpu.device().wait(&[(paging.fence(), paging_fence_value)]).unwrap();
    let plain = client.pinned(SurfaceKind::System, BYTES);
    let to = plain.va();
    client.run(|commands| {
        commands.copy(va, to, 8);
    });
    assert_eq!(plain.lock().unwrap().read_word(0), 11);
    // Written by the GPU, copied out for a lock: the CPU sees it.
    client.run(|commands| {
        commands.fill(va, BYTES, 12);
    });
    assert_eq!(allocation.lock().unwrap().read_word(0) as u32, 12);
}
