//! A coherent platform whose CPU caches are played: the GPU sees their content where an entry of its page tables, or a mapping in its
//! aperture, says that accesses snoop, and stale memory everywhere else. Programs maintain nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use d3dkmt::{Allocation, Context, MakeResidentFlags, Residency};
use ddi::{PagingOp, PteFlags};
use dxgk_host::{Host, HostConfig, Mode, ProcessLink, Profile};
use kmt_link::Link;
use softgpu_spec::private_data::{AllocationRequest, Kind};
use softgpu_umd::{Commands, Gpu, KernelFedStream, ListedCommands, StreamConfig, SurfaceKind};
use wddm_types::NodeId;

use crate::stubborn::{Whims, wrapped};
use stack::world::{MIB, VIRTUAL};

const BYTES: u64 = 8192;

/// A host of this profile with the caches played. Its driver drops the flags that make accesses snoop, if `drops`.
fn host(profile: &str, mode: Mode, drops: bool) -> Arc<Host> {
    let dropping = Arc::new(AtomicBool::new(drops));
    let build = move |driver: &mut dyn ddi::Miniport, build: &mut ddi::BuildPagingBuffer<'_>| {
        if dropping.load(Ordering::SeqCst) {
            match &mut build.operation {
                PagingOp::UpdatePageTable { first, .. } => first.flags.remove(PteFlags::CACHE_COHERENT),
                PagingOp::MapApertureSegment { cache_coherent, .. }
                | PagingOp::MapApertureSegment2 { cache_coherent, .. } => *cache_coherent = false,
                _ => {}
            }
        }
        driver.build_paging_buffer(build)
    };
    let whims = Whims { build: Box::new(build), packets: true, ..Whims::default() };
    let config = HostConfig {
        vram_bytes: 8 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        plays_caches: true,
        wrap_miniport: Some(wrapped(whims)),
        ..HostConfig::new(Profile::named(profile).expect("a built-in profile"), mode)
    };
    assert!(config.io_coherent, "{profile}");
    Host::start(config).expect("the host starts")
}

fn allocation(gpu: &Gpu, cached: bool, accessed_physically: bool) -> Arc<Allocation> {
    let request =
        AllocationRequest { kind: Kind::System, cpu_visible: true, cached, accessed_physically, size_bytes: BYTES };
    gpu.device().create_allocation(request.encode().to_vec()).expect("an allocation")
}

fn open(host: Arc<Host>) -> Gpu {
    let gpu = Gpu::open(ProcessLink::new(host) as Arc<dyn Link>).expect("the adapter opens");
    assert!(gpu.is_io_coherent(), "programs are told that there is nothing to maintain");
    gpu
}

/// The GPU's view of the CPU's 5 and the CPU's view of the GPU's 6, through an entry of a page table, at either end of the allocation.
fn through_entries(profile: &str, mode: Mode, cached: bool, drops: bool) -> ([u32; 2], [u32; 2]) {
    let gpu = open(host(profile, mode, drops));
    let staging = allocation(&gpu, cached, false);
    let (va, mapped_at) = gpu.paging().map(&staging, 2, true).expect("addresses");
    let resident = gpu.paging().make_resident(vec![staging.handle()], MakeResidentFlags::empty()).expect("room");
    let value = match resident {
        Residency::Resident => mapped_at,
        Residency::Pending { paging_fence_value, .. } => paging_fence_value.max(mapped_at),
    };
    gpu.device().wait(&[(gpu.paging().fence(), value)]).expect("it is mapped");
    let mut stream = KernelFedStream::packets(&gpu, NodeId(0), StreamConfig::default()).expect("a stream");
    let plain = gpu.create_lockable_surface(SurfaceKind::System, BYTES, false).expect("a surface");
    gpu.pin(&plain).expect("room");
    let lock = staging.lock().expect("a lock");
    lock.fill_words(0, BYTES / 8, |_| 5);
    let mut run = |build: &dyn Fn(&mut Commands)| {
        let mut commands = Commands::new();
        build(&mut commands);
        let value = stream.submit(&gpu, None, &commands).expect("room");
        gpu.device().wait(&[(stream.progress(), value)]).expect("it completes");
    };
    run(&|commands| _ = commands.copy(va, plain.va(), BYTES));
    let seen = plain.lock().expect("a lock");
    // CAST: the low halves.
    let by_gpu = [0, BYTES - 8].map(|at| seen.read_word(at) as u32);
    run(&|commands| _ = commands.fill(va, BYTES, 6));
    (by_gpu, [0, BYTES - 8].map(|at| lock.read_word(at) as u32))
}

/// The same through the aperture, which names pages for engines that are patched.
fn through_aperture(profile: &str, mode: Mode, cached: bool, drops: bool) -> ([u32; 2], [u32; 2]) {
    let gpu = open(host(profile, mode, drops));
    let [staging, plain] = [cached, false].map(|cached| {
        let allocation = allocation(&gpu, cached, true);
        gpu.paging().make_resident(vec![allocation.handle()], MakeResidentFlags::empty()).expect("room");
        allocation
    });
    let context = Context::create(gpu.device(), NodeId(1), Vec::new()).expect("a context");
    let run = |commands: &ListedCommands| {
        commands.render(&context).expect("a buffer");
        let done = gpu.device().create_monitored_fence(d3dkmt::FenceFlags::NO_GPU_ACCESS, 0).expect("a fence");
        context.signal(&done, 1).expect("a signal");
        gpu.device().wait(&[(&done, 1)]).expect("it completes");
    };
    let lock = staging.lock().expect("a lock");
    lock.fill_words(0, BYTES / 8, |_| 5);
    let mut copy = ListedCommands::new();
    copy.copy((&staging, 0), (&plain, 0), BYTES);
    run(&copy);
    let seen = plain.lock().expect("a lock");
    // CAST: the low halves.
    let by_gpu = [0, BYTES - 8].map(|at| seen.read_word(at) as u32);
    let mut fill = ListedCommands::new();
    fill.fill((&staging, 0), BYTES, 6);
    run(&fill);
    (by_gpu, [0, BYTES - 8].map(|at| lock.read_word(at) as u32))
}

#[test]
fn a_gpu_sees_the_caches_where_an_entry_says_that_it_snoops() {
    // spec: memory §6.7
    // seed: U25, U26
    for mode in [VIRTUAL, Mode::Real] {
        for profile in ["snooping", "small-bar", "leaves-64k", "tables-by-cpu"] {
            assert_eq!(through_entries(profile, mode, true, false), ([5; 2], [6; 2]), "{profile} {mode:?}: staging");
            assert_eq!(through_entries(profile, mode, false, false), ([5; 2], [6; 2]), "{profile} {mode:?}: no caches");
            // Hardware that is not told to snoop reads memory, and writes it: both sides are stale.
            assert_eq!(through_entries(profile, mode, true, true), ([0; 2], [5; 2]), "{profile} {mode:?}: not told");
        }
    }
}

#[test]
fn a_gpu_sees_the_caches_where_a_mapping_of_its_aperture_says_that_it_snoops() {
    // spec: memory §6.7, memory §1.5
    // seed: U25, U26
    for mode in [VIRTUAL, Mode::Real] {
        for profile in ["snooping", "mixed-engines", "wddm1-banks"] {
            assert_eq!(through_aperture(profile, mode, true, false), ([5; 2], [6; 2]), "{profile} {mode:?}: staging");
            assert_eq!(
                through_aperture(profile, mode, false, false),
                ([5; 2], [6; 2]),
                "{profile} {mode:?}: no caches"
            );
            assert_eq!(through_aperture(profile, mode, true, true), ([0; 2], [5; 2]), "{profile} {mode:?}: not told");
        }
    }
}
