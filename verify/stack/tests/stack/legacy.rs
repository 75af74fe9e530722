//! The lock of WDDM 1 on the whole stack: ranges over tiled surfaces, evictions that make them linear, waits for the GPU, the two
//! forms of a surface, and refusals.

mod apertures;
mod banks;
mod giving_way;
mod instances;
mod locks;
mod ranges;
mod renames;
mod rendering;
mod resets;
mod sleep;
mod waiting;

use std::sync::Arc;

use d3dkmt::{
    Allocation, AllocationInfoFlags, AllocationRequest as AllocationRequested, Context, CreateAllocationFlags,
    EvictFlags, Fence, FenceFlags, LockFlags, MakeResidentFlags, Refusal, Resource, ResourceRequest,
};
use dxgk_host::{Host, HostConfig, Mode, ProcessLink, Profile};
use kmt_calls::{Call, LockCall, Reply};
use kmt_link::Link;
use softgpu_spec::private_data::{AllocationRequest, Details};
use softgpu_spec::tile::Tiling;
use softgpu_umd::{Gpu, ListedCommands, SurfaceKind, SurfacePart};
use wddm_types::{CpuPlace, NodeId};

use stack::world::MIB;

const COPY: NodeId = NodeId(1);
const PITCH: u32 = 2048;
/// Two bands.
const BYTES: u64 = 2 * 8 * PITCH as u64;
const ENTIRE: LockFlags = LockFlags::LOCK_ENTIRE;
const DISCARD: LockFlags = LockFlags::LOCK_ENTIRE.union(LockFlags::DISCARD);
const RANGE: LockFlags = LockFlags::LOCK_ENTIRE.union(LockFlags::ACQUIRE_APERTURE);

/// A client of an adapter of the first generation.
struct Old {
    gpu: Gpu,
    context: Context,
    link: Arc<ProcessLink>,
}

fn config(mode: Mode) -> HostConfig {
    let profile = Profile::named("wddm1-banks").expect("a built-in profile");
    HostConfig { vram_bytes: 4 * MIB, system_bytes: 64 * MIB, ..HostConfig::new(profile, mode) }
}

fn old(host: &Arc<Host>) -> Old {
    let link = ProcessLink::new(Arc::clone(host));
    let gpu = Gpu::open(Arc::clone(&link) as Arc<dyn Link>).expect("the adapter opens");
    let context = Context::create(gpu.device(), COPY, Vec::new()).expect("a context");
    Old { gpu, context, link }
}

fn tiling() -> Tiling {
    Tiling::of_pitch(u64::from(PITCH)).expect("whole tiles")
}

fn all() -> SurfacePart {
    SurfacePart { tiling: tiling(), offset: 0, bytes: BYTES }
}

impl Old {
    /// A CPU-visible allocation in tiles, or linear with pitch 0; on no list.
    fn surface(&self, pitch: u32, flags: u32) -> Arc<Allocation> {
        self.gpu.device().create_allocation(private_data(pitch, flags)).expect("an allocation")
    }

    /// The same as a primary.
    fn primary(&self, pitch: u32, flags: u32) -> Arc<Allocation> {
        let request = AllocationRequested {
            private_data: private_data(pitch, flags),
            flags: AllocationInfoFlags::PRIMARY,
            ..AllocationRequested::default()
        };
        let call = ResourceRequest { flags: CreateAllocationFlags::CREATE_RESOURCE, ..ResourceRequest::default() };
        let resource = Resource::create(self.gpu.device(), vec![request], call).expect("a primary");
        let primary = Arc::clone(&resource.allocations()[0]);
        // It goes with its device.
        std::mem::forget(resource);
        primary
    }

    fn list(&self, allocation: &Arc<Allocation>) {
        let list = vec![allocation.handle()];
        self.gpu.paging().make_resident(list, MakeResidentFlags::empty()).expect("room");
    }

    fn unlist(&self, allocation: &Arc<Allocation>, flags: EvictFlags) {
        self.gpu.device().evict(vec![allocation.handle()], flags).expect("it was listed");
    }

    fn fence(&self) -> Fence {
        self.gpu.device().create_monitored_fence(FenceFlags::NO_GPU_ACCESS, 0).expect("a fence")
    }

    /// Runs commands and waits for them.
    fn run(&self, build: impl FnOnce(&mut ListedCommands)) {
        let mut commands = ListedCommands::new();
        build(&mut commands);
        commands.render(&self.context).expect("a buffer");
        let done = self.fence();
        self.context.signal(&done, 1).expect("a signal");
        self.gpu.device().wait(&[(&done, 1)]).expect("it completes");
    }

    /// Where a lock would show an allocation.
    fn places(&self, allocation: &Arc<Allocation>, flags: LockFlags) -> Result<Vec<CpuPlace>, Refusal> {
        let (device, handle) = (self.gpu.device().handle(), allocation.handle());
        let call =
            Call::Lock(LockCall::Lock { device, allocation: handle, private_driver_data: 0, pages: Vec::new(), flags });
        let Reply::Locked { mapped, .. } = self.link.call(call)? else { panic!("a lock answers with memory") };
        self.link.call(Call::Lock(LockCall::Unlock { device, allocations: vec![handle] }))?;
        Ok(mapped.runs.iter().map(|run| run.place).collect())
    }

    fn write(&self, allocation: &Arc<Allocation>, flags: LockFlags, seed: u64) {
        let lock = allocation.lock_legacy(Vec::new(), flags).expect("a lock");
        lock.fill_words(0, BYTES / 8, |index| seed + index);
    }

    /// Reads an allocation whole, as the CPU sees it.
    fn read(&self, allocation: &Arc<Allocation>, flags: LockFlags) -> Vec<u64> {
        let lock = allocation.lock_legacy(Vec::new(), flags).expect("a lock");
        (0..BYTES / 8).map(|index| lock.read_word(index * 8)).collect()
    }
}

/// A linear surface on its device's list.
fn linear(client: &Old) -> Arc<Allocation> {
    let allocation = client.surface(0, 0);
    client.list(&allocation);
    allocation
}

/// Submits a copy and does not wait for it.
fn copy(client: &Old, from: &Allocation, to: &Allocation) {
    let mut commands = ListedCommands::new();
    commands.copy((from, 0), (to, 0), BYTES).render(&client.context).expect("a buffer");
}

fn private_data(pitch: u32, flags: u32) -> Vec<u8> {
    let request = AllocationRequest {
        kind: SurfaceKind::LocalThenSystem,
        cpu_visible: true,
        cached: false,
        accessed_physically: true,
        size_bytes: BYTES,
    };
    let details = Details { tile_pitch: pitch, flags, ..Details::default() };
    request.encode_with(&details).to_vec()
}

/// The rows that a seed writes, in order.
fn rows(seed: u64) -> Vec<u64> {
    (0..BYTES / 8).map(|index| seed + index).collect()
}

/// The same as it lies in tiles.
fn tiles(seed: u64) -> Vec<u64> {
    let mut tiles = vec![0; (BYTES / 8) as usize];
    for index in 0..BYTES / 8 {
        tiles[(tiling().place(index * 8).0 / 8) as usize] = seed + index;
    }
    tiles
}
