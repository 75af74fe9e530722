//! Every kind of submission on every profile that has it: packets, hardware queues that the kernel feeds, queues that the process rings for,
//! on each node, with waits and signals of CPU and GPU; paging between them; updates of tiles, where the profile has GPU virtual addresses.
//!
//! Each submission finds engines that had nothing to do, because the one before it was waited for: an engine that asks for less power then
//! (profile `power-saving`) has to be raised for it, whichever way it comes.

use conformance::{Client, Way, World};
use d3dkmt::{EvictFlags, Fence, FenceFlags, GpuVaReservation, NativeFenceRequest, VirtualContext};
use dxgk_host::{PROFILES, Profile};
use kmt_calls::{UpdateGpuVaFlags, UpdateGpuVaOperation};
use softgpu_umd::{Lane, PatchedStream, Stage, Surface, SurfaceKind, pattern};
use wddm_types::{GpuVa, NodeId};

/// Compute and copy.
const NODES: [NodeId; 2] = [NodeId(0), NodeId(1)];
/// A tile of a reservation.
const TILE: u64 = 65536;

#[test]
fn every_kind_runs_on_every_profile_in_process() {
    PROFILES.iter().for_each(|profile| every_kind(Way::InProcess, profile));
}

#[test]
fn every_kind_runs_on_every_profile_over_a_socket() {
    let served = PROFILES.iter().filter(|profile| Way::Socket.leads_to(profile));
    served.for_each(|profile| every_kind(Way::Socket, profile));
}

// spec: sync §4.1, sync §3.17
fn every_kind(way: Way, profile: &Profile) {
    let world = World::of(way, profile.name);
    let client = world.client();
    for stage in stages(profile, &client) {
        for node in NODES {
            let name = format!("{}, {stage:?} on {node:?}", profile.name);
            if has_addresses(profile, node) {
                submits(&client, stage, node, &name);
            } else {
                submits_patched(&client, node, &name);
            }
        }
    }
    if profile.driver.has_page_tables() {
        updates_tiles(&client, profile.name);
    }
}

/// The ways in which work reaches the engines of a profile.
fn stages(profile: &Profile, client: &Client) -> Vec<Stage> {
    let mut stages = vec![Stage::Packet];
    stages.extend(profile.has_hardware_queues().then_some(Stage::Hardware));
    stages.extend(client.gpu.has_user_queues().then_some(Stage::User));
    stages
}

/// Whether the contexts of a node name memory by address, where the profile has addresses.
fn has_addresses(profile: &Profile, node: NodeId) -> bool {
    !profile.has_addresses() || node == NODES[0] || profile.driver.copy_addresses
}

/// A fence that a lane of this stage waits for and signals.
fn fence(client: &Client, stage: Stage) -> Fence {
    let device = client.gpu.device();
    match stage {
        Stage::User => device.create_native_fence(NativeFenceRequest::default()).expect("a fence"),
        Stage::Packet | Stage::Hardware => device.create_monitored_fence(FenceFlags::empty(), 0).expect("a fence"),
    }
}

/// Work behind a wait that the CPU ends and before a signal that the CPU waits for; then its content leaves and comes back.
// spec: sync §3.7, sync §3.8, memory §5.3
fn submits(client: &Client, stage: Stage, node: NodeId, name: &str) {
    let gpu = &client.gpu;
    let surface = client.pinned(SurfaceKind::LocalThenSystem, TILE);
    let report = client.pinned(SurfaceKind::System, 4096);
    let mut lane = Lane::create_at(gpu, node, stage).unwrap_or_else(|error| panic!("{name}: {error}"));
    let (begins, ends) = (fence(client, stage), fence(client, stage));
    for round in 1..=3 {
        lane.pattern(&surface, round);
        let value = lane.submit_synced(gpu, None, &[(&begins, round)], &[(&ends, round)]).expect(name);
        gpu.device().signal(&begins, round).expect(name);
        gpu.device().wait(&[(&ends, round), (lane.progress(), value)]).expect(name);
        let list = vec![surface.allocation().handle()];
        gpu.device().evict(list, EvictFlags::empty()).expect(name);
        gpu.pin(&surface).expect(name);
        lane.check(&surface, round, &report, round);
        client.run(&mut lane);
        assert!(is_intact(&report), "{name}, round {round}: the content is what was written");
    }
}

/// The same of an engine that takes no addresses: its work names nothing.
fn submits_patched(client: &Client, node: NodeId, name: &str) {
    let gpu = &client.gpu;
    let mut stream = PatchedStream::create(gpu, node).unwrap_or_else(|error| panic!("{name}: {error}"));
    for _ in 0..3 {
        stream.work(1_000);
        let value = stream.submit(gpu).expect(name);
        stream.wait(gpu, value).expect(name);
    }
}

/// A tile is mapped, and copied to another address: both show one page.
// spec: memory §4.8
fn updates_tiles(client: &Client, name: &str) {
    let (gpu, device) = (&client.gpu, client.gpu.device());
    let pool = client.pinned(SurfaceKind::LocalThenSystem, TILE);
    let report = client.pinned(SurfaceKind::System, 4096);
    let context = VirtualContext::create(device, NODES[0], Vec::new()).expect(name);
    let applied = device.create_monitored_fence(FenceFlags::empty(), 0).expect(name);
    let base = device.reserve_gpu_va(GpuVaReservation { size_bytes: 2 * TILE, ..GpuVaReservation::default() });
    let base = base.expect(name);
    let copy = base.offset(TILE);
    let map = UpdateGpuVaOperation::Map {
        base,
        size_bytes: TILE,
        allocation: pool.allocation().handle(),
        offset_bytes: 0,
        allocation_size_bytes: 0,
        protection: None,
    };
    let copies = UpdateGpuVaOperation::Copy { source: base, size_bytes: TILE, destination: copy };
    for (value, operation) in (0..).zip([map, copies]) {
        device.update_gpu_va(&context, (&applied, value), vec![operation], UpdateGpuVaFlags::empty()).expect(name);
        device.wait(&[(&applied, value + 1)]).expect(name);
    }
    let mut lane = Lane::create_at(gpu, NODES[0], Stage::Packet).expect(name);
    let commands = lane.commands().expect("it takes addresses");
    commands.pattern(base, TILE, 7).check(copy, TILE, 7, report.va(), 7);
    client.run(&mut lane);
    assert!(is_intact(&report), "{name}: the copied tile shows the page of its source");
    unmaps(client, base, name);
}

fn unmaps(client: &Client, base: GpuVa, name: &str) {
    client.gpu.device().free_gpu_va(base, 2 * TILE).expect(name);
}

fn is_intact(report: &Surface) -> bool {
    report.lock().expect("system memory").read_word(pattern::report::TAG * 8) == 0
}
