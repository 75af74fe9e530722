//! One of two adapters is reset while both share content and fences: the other keeps its content, its own work does not notice, and no wait
//! hangs on a signal of the lost one.

use d3dkmt::{Fence, FenceFlags, NativeFenceRequest, OpenSyncObjectRequest, SyncObjectAccess};
use softgpu_umd::{CrossFence, CrossMemory, Stage};

use super::*;
use stack::world::gpu_on;

const CROSS: FenceFlags = FenceFlags::SHARED.union(FenceFlags::NT_SECURITY_SHARING).union(FenceFlags::CROSS_ADAPTER);

/// A fence of both, which the second signals, and which the first has opened with NoSignalMaxValueOnTdr.
fn that_stays(first: &Gpu, second: &Gpu) -> [Fence; 2] {
    let device = second.device();
    let created = match second.has_native_fences() {
        true => device.create_native_fence(NativeFenceRequest { flags: CROSS, ..NativeFenceRequest::default() }),
        false => device.create_monitored_fence(CROSS, 0),
    };
    let created = created.expect("a fence");
    let name = created.share(SyncObjectAccess::ALL_ACCESS).expect("a name");
    let flags = FenceFlags::NO_SIGNAL_MAX_VALUE_ON_TDR;
    let request = OpenSyncObjectRequest { handle: name.token(), flags, ..OpenSyncObjectRequest::default() };
    let opened = match first.has_native_fences() {
        true => first.device().open_native_fence(request),
        false => first.device().open_sync_object(request),
    };
    [opened.expect("it opens"), created]
}

fn on(host: &Arc<Host>, process: &Arc<ProcessLink>, adapter: usize, stage: Stage) -> Worker {
    let gpu = gpu_on(host, process, adapter);
    let lane = Lane::create_at(&gpu, NodeId(0), stage).expect("a lane");
    let report = gpu.create_surface(SurfaceKind::System, 4096).expect("a surface");
    bring_in(&gpu, &report).expect("room");
    Worker { gpu, lane, report, kind: SurfaceKind::Local }
}

/// Gives content to a surface, and says so.
fn gives(worker: &mut Worker, surface: &Surface, seed: u64, said: (&Fence, u64)) {
    worker.lane.pattern(surface, seed);
    worker.lane.submit_synced(&worker.gpu, None, &[], &[said]).expect("a submission");
}

/// Waits for a fence on the GPU, and says whether the surface holds this content then.
fn finds(worker: &mut Worker, surface: &Surface, seed: u64, after: (&Fence, u64)) -> bool {
    worker.lane.check(surface, seed, &worker.report, 1);
    let value = worker.lane.submit_synced(&worker.gpu, None, &[after], &[]).expect("a submission");
    worker.lane.wait(&worker.gpu, value).expect("it completes");
    worker.report.lock().expect("system memory").read_word(0) == 0
}

#[test]
fn an_adapter_keeps_what_it_shares_with_one_that_is_reset() {
    // spec: sync §3.12 derived cases, sync §3.16, sync §4.4, memory §2.7
    let stages = [Stage::Packet, Stage::Hardware, Stage::User];
    let cases = stages.map(|stage| ("discrete-4k", "discrete-4k", stage)).into_iter().chain([
        ("wddm2-packets", "discrete-4k", Stage::User),
        ("discrete-4k", "wddm2-packets", Stage::Packet),
        ("discrete-4k", "iommu", Stage::Hardware),
    ]);
    for (breaks, stays, stage) in cases {
        let breakage = Breakage::default();
        let beside = AdapterSetup {
            vram_bytes: 8 * MIB,
            page_table_bytes: 16 * MIB,
            system_bytes: 64 * MIB,
            ..AdapterSetup::new(Profile::named(stays).expect("a built-in profile"), VIRTUAL)
        };
        let (host, heard) = breakage.host_of_several(breaks, VIRTUAL, vec![beside]);
        let process = ProcessLink::new(Arc::clone(&host));
        let mut first = on(&host, &process, 0, Stage::Packet);
        let mut second = on(&host, &process, 1, stage);
        let mut stranger = on(&host, &ProcessLink::new(Arc::clone(&host)), 1, stage);
        let gpus = [&first.gpu, &second.gpu];
        let memory = CrossMemory::create(&gpus, MIB).expect("common memory");
        let turn = CrossFence::create(&gpus).expect("a fence");
        let [_theirs, own] = that_stays(gpus[0], gpus[1]);
        gives(&mut first, memory.on(0), 1, (turn.on(0), 1));
        assert!(finds(&mut second, memory.on(1), 1, (turn.on(1), 1)), "{breaks} {stays} {stage:?}");
        // It waits for a signal that the other will never make, a second process waits for nothing, and the second adapter's own fence has a
        // value.
        second.lane.check(memory.on(1), 1, &second.report, 1);
        let held = second.lane.submit_synced(&second.gpu, None, &[(turn.on(1), 9)], &[]).expect("a submission");
        second.gpu.device().signal(&own, 3).expect("it may");
        heard.take();
        break_hardware(&breakage, &mut first);
        let resets = heard.take().iter().filter(|event| matches!(event, Event::AdapterReset { .. })).count();
        assert_eq!((resets, first.state()), (1, DeviceState::Reset), "{breaks} {stays} {stage:?}");
        // Waits for it end, on the GPU and on the CPU, and the content is as it was.
        second.lane.wait(&second.gpu, held).expect("the reset ends the wait");
        assert_eq!(second.report.lock().expect("system memory").read_word(0), 0, "{breaks} {stays}: the pages stay");
        second.gpu.device().wait(&[(turn.on(1), 1 << 40)]).expect("for ever reached");
        assert_eq!(turn.on(1).current(), u64::MAX, "{breaks} {stays} {stage:?}");
        // A fence with NoSignalMaxValueOnTdr keeps its value, and works on.
        assert_eq!(own.current(), 3, "{breaks} {stays} {stage:?}");
        gives(&mut second, memory.on(1), 2, (&own, 4));
        assert!(finds(&mut second, memory.on(1), 2, (&own, 4)), "{breaks} {stays} {stage:?}");
        let alone = stranger.local(MIB);
        bring_in(&stranger.gpu, &alone).expect("room");
        stranger.write(&alone, 7).expect("it runs");
        assert!(stranger.holds(&alone, 7), "{breaks} {stays} {stage:?}");
        assert_eq!([&second, &stranger].map(Worker::state), [DeviceState::Active; 2], "{breaks} {stays} {stage:?}");
        host.check_invariants().unwrap_or_else(|broken| panic!("{breaks} {stays}: {broken:?}"));
        // The lost process shares anew, beside its old objects.
        let mut again = on(&host, &process, 0, Stage::Packet);
        let fresh = CrossMemory::create(&[&again.gpu, &second.gpu], MIB).expect("common memory");
        let next = CrossFence::create(&[&again.gpu, &second.gpu]).expect("a fence");
        gives(&mut again, fresh.on(0), 5, (next.on(0), 1));
        assert!(finds(&mut second, fresh.on(1), 5, (next.on(1), 1)), "{breaks} {stays} {stage:?}");
        assert!(finds(&mut second, memory.on(1), 2, (&own, 4)), "{breaks} {stays} {stage:?}");
        drop((memory, turn, fresh, next, alone));
        assert_eq!(host.stopped(), None);
        host.check_invariants().unwrap_or_else(|broken| panic!("{breaks} {stays}: {broken:?}"));
    }
}
