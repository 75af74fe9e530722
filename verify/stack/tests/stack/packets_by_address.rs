//! Paging buffers that are packets and run in the paging process: content that is moved, and page tables that are written, by GPU
//! virtual address without hardware queues; and engines that take packets at the CPU's addresses.

use std::sync::{Arc, Mutex};

use d3dkmt::DeviceState;
use ddi::{PageTableUpdateMode, PagingOp, PowerState};
use dxgk_host::{Host, HostConfig, Mode, ProcessLink, Profile};
use kmt_link::Link;
use softgpu_umd::{Gpu, Lane, Surface, SurfaceKind};
use wddm_types::NodeId;

use crate::stubborn::{Whims, wrapped};
use stack::world::{MIB, VIRTUAL};

/// Operations that the driver was asked to build into buffers: by physical address, copies and fills by address, updates of
/// tables by address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Asked {
    physical: u32,
    copies: u32,
    fills: u32,
    tables: u32,
}

fn start(profile: &str, mode: Mode) -> (Arc<Host>, Arc<Mutex<Asked>>) {
    let asked = Arc::<Mutex<Asked>>::default();
    let seen = Arc::clone(&asked);
    let whims = Whims {
        build: Box::new(move |driver, build| {
            if build.multipass_offset == 0 && !build.immediate {
                let mut seen = seen.lock().unwrap();
                match build.operation {
                    PagingOp::Transfer { .. } | PagingOp::Fill { .. } => seen.physical += 1,
                    PagingOp::VirtualTransfer { .. } => seen.copies += 1,
                    PagingOp::VirtualFill { .. } => seen.fills += 1,
                    PagingOp::UpdatePageTable { mode, table_va, .. } => {
                        assert_eq!((mode, table_va.is_null()), (PageTableUpdateMode::GpuVirtual, false));
                        seen.tables += 1;
                    }
                    _ => {}
                }
            }
            driver.build_paging_buffer(build)
        }),
        packets: true,
        ..Whims::default()
    };
    let mut config = HostConfig {
        vram_bytes: 8 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        ..HostConfig::new(Profile::named(profile).expect("a built-in profile"), mode)
    };
    config.wrap_miniport = Some(wrapped(whims));
    (Host::start(config).expect("the host starts"), asked)
}

/// A client with a lane of packets.
struct Worker {
    gpu: Gpu,
    lane: Lane,
    report: Surface,
}

impl Worker {
    fn new(host: &Arc<Host>) -> Worker {
        let link = ProcessLink::new(Arc::clone(host)) as Arc<dyn Link>;
        let gpu = Gpu::open(link).expect("the adapter opens");
        let lane = Lane::create(&gpu, NodeId(0)).expect("a lane");
        assert_eq!(lane.device_queue(), None, "the kernel hands its work over");
        let report = gpu.create_surface(SurfaceKind::System, 4096).expect("a surface");
        gpu.pin(&report).expect("room");
        Worker { gpu, lane, report }
    }

    fn run(&mut self) {
        let value = self.lane.submit(&self.gpu, None).expect("a submission");
        self.lane.wait(&self.gpu, value).expect("it completes");
    }

    fn write(&mut self, surface: &Surface, seed: u64) {
        self.lane.pattern(surface, seed);
        self.run();
    }

    /// Whether an engine finds this content.
    fn holds(&mut self, surface: &Surface, seed: u64) -> bool {
        self.lane.check(surface, seed, &self.report, 1);
        self.run();
        self.report.lock().expect("system memory").read_word(0) == 0
    }

    fn evict(&self, surface: &Surface) {
        let handles = vec![surface.allocation().handle()];
        self.gpu.device().evict(handles, d3dkmt::EvictFlags::empty()).expect("it is on the list");
    }
}

#[test]
fn content_moves_and_tables_are_written_by_address_in_packets() {
    // spec: memory §3.3 operations 8 and 9, memory §4.2, memory §4.7
    for mode in [VIRTUAL, Mode::Real] {
        let (host, asked) = start("packets-by-address", mode);
        assert_eq!(host.describe().reported.mmu.update_mode, PageTableUpdateMode::GpuVirtual);
        let mut worker = Worker::new(&host);
        let before = *asked.lock().unwrap();
        // Three of three megabytes, of which two have room.
        let surfaces: Vec<_> =
            (0..3).map(|_| worker.gpu.create_surface(SurfaceKind::Local, 3 * MIB).expect("a surface")).collect();
        for round in 0..2u64 {
            for (surface, seed) in surfaces.iter().zip(1..) {
                worker.gpu.pin(surface).expect("the others have left");
                assert!(round == 0 || worker.holds(surface, seed), "{mode:?}: surface {seed}");
                worker.write(surface, seed);
                worker.evict(surface);
            }
        }
        let after = *asked.lock().unwrap();
        assert_eq!(after.physical, 0, "{mode:?}: nothing by physical address");
        let (fills, copies) = (after.fills - before.fills, after.copies - before.copies);
        match mode {
            // A window of the scratch area is two megabytes: two chunks each. All go out twice and come in again once.
            VIRTUAL => assert_eq!((fills, copies), (3 * 2, (6 + 3) * 2)),
            // The last may be on its way out yet.
            _ => assert!(fills == 3 * 2 && copies >= (5 + 3) * 2, "{mode:?}: {fills} fills, {copies} copies"),
        }
        assert!(after.tables > before.tables, "{mode:?}");
        host.check_invariants().unwrap();
        assert_eq!(host.stopped(), None);
    }
}

#[test]
fn tables_and_content_outlive_sleep() {
    // spec: memory §4.7, memory §8.4
    let (host, _) = start("packets-by-address", VIRTUAL);
    let mut worker = Worker::new(&host);
    let surface = worker.gpu.create_surface(SurfaceKind::Local, MIB).expect("a surface");
    worker.gpu.pin(&surface).expect("room");
    worker.write(&surface, 4);
    host.power_transition(PowerState::Hibernate).expect("it goes to sleep");
    host.power_transition(PowerState::On).expect("it wakes");
    assert!(worker.holds(&surface, 4));
    assert_eq!(host.stopped(), None);
}

#[test]
fn packets_run_at_the_cpu_s_addresses() {
    // spec: memory §4.1
    for mode in [VIRTUAL, Mode::Real] {
        let (host, asked) = start("iommu-packets", mode);
        let mut worker = Worker::new(&host);
        let info = worker.gpu.adapter().info().unwrap();
        assert!(info.cpu_addresses && !info.gpu_virtual_addresses, "{mode:?}");
        let surfaces: Vec<_> =
            (0..3).map(|_| worker.gpu.create_surface(SurfaceKind::System, MIB).expect("a surface")).collect();
        for (surface, seed) in surfaces.iter().zip(1..) {
            worker.gpu.pin(surface).expect("room");
            worker.write(surface, seed);
        }
        for (surface, seed) in surfaces.iter().zip(1..) {
            assert!(worker.holds(surface, seed), "{mode:?}: surface {seed}");
            worker.evict(surface);
        }
        // The unmapping stands in the paging ring: a later work of the same queue marks its end.
        let behind = worker.gpu.create_surface(SurfaceKind::System, 4096).expect("a surface");
        worker.gpu.pin(&behind).expect("room");
        // A packet that uses an allocation which is not resident faults, and its device is lost.
        worker.lane.pattern(&surfaces[0], 9);
        // With threads it may be lost before the value behind the packet is submitted: then the submission says it, else the wait.
        let submitted = worker.lane.submit(&worker.gpu, None);
        assert!(submitted.and_then(|value| worker.lane.wait(&worker.gpu, value)).is_err(), "{mode:?}");
        assert_eq!(worker.gpu.device().state(), Ok(DeviceState::ErrorDmaPageFault), "{mode:?}");
        let mut other = Worker::new(&host);
        let late = other.gpu.create_surface(SurfaceKind::System, MIB).expect("a surface");
        other.gpu.pin(&late).expect("room");
        other.write(&late, 5);
        assert!(other.holds(&late, 5), "{mode:?}: others do not notice");
        assert_eq!(*asked.lock().unwrap(), Asked::default(), "{mode:?}: nothing moves");
        host.check_invariants().unwrap();
        assert_eq!(host.stopped(), None);
    }
}
