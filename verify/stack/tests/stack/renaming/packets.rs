//! The same on WDDM 2 adapters whose contexts take packets and whose fences are monitored, and the driver's response when the kernel
//! asks for memory.

use std::collections::BTreeSet;

use d3dkmt::FenceFlags;
use dxgk_host::{Host, HostConfig, ProcessLink, Profile};
use kmt_link::Link;
use softgpu_umd::{Stage, Surface};

use super::*;

/// Fences that interrupt at each signal, that the kernel looks at, of 32 bits, and none that a node can signal.
const PACKETS: [&str; 5] = ["wddm2-packets", "basic-engines", "atomics-32", "iommu-packets", "noncoherent"];

fn on(profile: &str, mode: Mode) -> Runtime {
    let config = HostConfig {
        vram_bytes: 4 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        ..HostConfig::new(Profile::named(profile).expect("a built-in profile"), mode)
    };
    let host = Host::start(config).expect("the adapter starts");
    let (link, counting) = Counting::of(&host);
    let gpu = Gpu::open(link).expect("the adapter opens");
    let mut contexts = Contexts::new();
    let context = contexts.add(&gpu, NodeId(0), Some(Stage::Packet)).expect("a packet context");
    let gate = gpu.device().create_monitored_fence(FenceFlags::empty(), 0).expect("a fence");
    let policy = RenamePolicy { instances_max: 2, cached: false };
    let resource = DynamicResource::create(&gpu, SurfaceKind::System, BYTES, policy).expect("room");
    Runtime { resource, gate, context, contexts, gpu, counting }
}

impl Runtime {
    fn target(&self) -> Surface {
        let target = self.gpu.create_lockable_surface(SurfaceKind::System, BYTES, false).expect("a surface");
        self.gpu.pin(&target).expect("room");
        target
    }

    /// Commands recorded behind this run when the gate has a value.
    fn wait_for_gate(&mut self, value: u64) {
        self.contexts.wait_on_gpu(&self.gpu, self.context, &self.gate, value).expect("a wait");
    }

    fn write(&mut self, seed: u64) {
        let va = self.resource.record_write(&mut self.contexts, self.context);
        self.contexts.commands(self.context).pattern(va, BYTES, seed);
    }
}

/// The driver flushes recorded commands, then it names object and value: earlier commands do not stand behind the gate.
// spec: sync §3.8
// seed: C17
#[test]
fn a_wait_on_the_gpu_flushes_first() {
    let packets = PACKETS.map(|profile| (profile, on(profile, VIRTUAL)));
    for (profile, mut runtime) in packets.into_iter().chain([("a queue of its own", runtime(VIRTUAL, 2))]) {
        let (before, behind) = (runtime.target(), runtime.target());
        runtime.contexts.commands(runtime.context).pattern(before.va(), BYTES, 3);
        assert_eq!(runtime.contexts.lane(runtime.context).last_value(), 0, "{profile}: recorded, not submitted");
        runtime.wait_for_gate(1);
        assert_eq!(runtime.contexts.lane(runtime.context).last_value(), 1, "{profile}: the wait submitted it");
        runtime.contexts.commands(runtime.context).pattern(behind.va(), BYTES, 4);
        runtime.flush();
        let (progress, device) = (runtime.contexts.lane(runtime.context).progress(), runtime.gpu.device());
        device.wait(&[(progress, 1)]).expect("it stands before the gate");
        let holds = |surface: &Surface| surface.lock().expect("system memory").read_word(8);
        assert_eq!((holds(&before), holds(&behind)), (pattern::word(3, 8), 0), "{profile}");
        runtime.finish(1);
        assert_eq!(holds(&behind), pattern::word(4, 8), "{profile}");
    }
}

// spec: memory §6.4, memory §6.1
// seed: M49
// seed: U07
#[test]
fn maps_discard_append_and_answer_at_once_over_monitored_fences() {
    for profile in PACKETS {
        let mut runtime = on(profile, VIRTUAL);
        runtime.wait_for_gate(1);
        runtime.write(7);
        let waits = runtime.waits();
        drawing(runtime.map(MapKind::Read, true));
        assert_eq!(runtime.contexts.lane(runtime.context).last_value(), 1, "{profile}: the attempt submitted it");
        drawing(runtime.map(MapKind::Write, true));
        let first = runtime.resource.va();
        runtime.map(MapKind::WriteNoOverwrite, true).expect("no synchronisation");
        assert_eq!(runtime.resource.va(), first, "{profile}");
        runtime.resource.unmap().expect("mapped");
        runtime.map(MapKind::WriteDiscard, true).expect("a new instance");
        runtime.resource.unmap().expect("mapped");
        assert_ne!(runtime.resource.va(), first, "{profile}: renamed");
        runtime.write(8);
        drawing(runtime.map(MapKind::WriteDiscard, true));
        assert_eq!(runtime.waits(), waits, "{profile}: the CPU waited for nothing");
        let done = runtime.resource.done();
        assert_eq!((done.maps, done.renames, done.still_drawing, done.waits), (2, 1, 3, 0), "{profile}");
        runtime.flush();
        runtime.finish(1);
        let lock = runtime.map(MapKind::Read, true).expect("a later attempt succeeds");
        assert_eq!(lock.read_word(8), pattern::word(8, 8), "{profile}");
    }
}

/// One call that blocks, made before the gate opens; no other call and no second one, however long it takes.
// spec: memory §6.4, memory §6.1
// seed: M49
// seed: U07
#[test]
fn a_wait_for_a_monitored_fence_is_one_blocking_call() {
    for profile in PACKETS {
        let mut runtime = on(profile, Mode::Real);
        for (round, kind) in (1u64..).zip([MapKind::Read, MapKind::Write, MapKind::ReadWrite]) {
            runtime.wait_for_gate(round);
            runtime.write(round);
            runtime.flush();
            runtime.maps_by_one_blocking_call(round, kind, &format!("{profile}, {kind:?}"));
            runtime.resource.unmap().expect("it is mapped");
        }
    }
}

/// The kernel's trim reaches the driver by its callback, and unused instances go; those in use and the current one stay.
// spec: memory §5.4, memory §6.4
// seed: C23
#[test]
fn the_driver_answers_a_trim() {
    let host = host(VIRTUAL, 8 * MIB);
    let link = ProcessLink::new(Arc::clone(&host));
    let process = link.process();
    let gpu = Gpu::open(link as Arc<dyn Link>).expect("the adapter opens");
    let mut contexts = Contexts::new();
    let context = contexts.add(&gpu, NodeId(0), None).expect("a lane");
    let gate = gpu.device().create_native_fence(NativeFenceRequest::default()).expect("a fence");
    let policy = RenamePolicy { instances_max: 4, cached: false };
    let mut resource = DynamicResource::create(&gpu, SurfaceKind::LocalThenSystem, MIB, policy).expect("room");
    let mut second = DynamicResource::create(&gpu, SurfaceKind::LocalThenSystem, MIB, policy).expect("room");
    let used = || gpu.adapter().video_memory_info(true).expect("an adapter").current_usage_bytes;
    let use_behind = |resource: &mut DynamicResource, contexts: &mut Contexts, value: u64| {
        resource.map(&gpu, contexts, MapKind::WriteDiscard, false).expect("an instance");
        resource.unmap().expect("mapped");
        let va = resource.record_read(contexts, context);
        contexts.commands(context).wait(&gate, value).touch(va, MIB, false);
        contexts.flush(&gpu, context).expect("a submission");
    };
    (0..4).for_each(|_| use_behind(&mut resource, &mut contexts, 1));
    (0..3).for_each(|_| use_behind(&mut second, &mut contexts, 1));
    assert_eq!((resource.instances(), second.instances()), (4, 3));
    gpu.device().signal(&gate, 1).expect("a signal");
    let last = contexts.lane(context).last_value();
    gpu.device().wait(&[(contexts.lane(context).progress(), last)]).expect("they are over");
    // One of each is in use again, of the first another one is current.
    use_behind(&mut resource, &mut contexts, 2);
    resource.map(&gpu, &mut contexts, MapKind::WriteDiscard, false).expect("an idle one");
    resource.unmap().expect("mapped");
    use_behind(&mut second, &mut contexts, 2);
    let before = used();
    host.set_process_budget(process, Some(MIB));
    while host.step() {}
    let told: Vec<_> = std::iter::from_fn(|| gpu.device().link().take_notification()).collect();
    let registrations: BTreeSet<_> = told.iter().map(|told| told.registration).collect();
    assert_eq!(registrations.len(), 2, "the kernel tells each registration of a process over its budget: {told:?}");
    // What is told of one registration is the other resource's no business.
    let mut given = Vec::new();
    for registration in registrations {
        for told in told.iter().filter(|told| told.registration == registration) {
            resource.hear(&contexts, told);
            second.hear(&contexts, told);
        }
        given.push([resource.done().trimmed_bytes, second.done().trimmed_bytes]);
    }
    while host.step() {}
    assert!([[2 * MIB, 0], [0, 2 * MIB]].contains(&given[0]), "{given:?}");
    assert_eq!(given[1], [2 * MIB, 2 * MIB], "each says how much");
    assert_eq!((resource.instances(), second.instances()), (2, 1), "the current ones, and what the GPU uses");
    assert!(used() <= before - 4 * MIB, "{} of {before} bytes are used", used());
    gpu.device().signal(&gate, 2).expect("a signal");
    let last = contexts.lane(context).last_value();
    gpu.device().wait(&[(contexts.lane(context).progress(), last)]).expect("instances in use were there");
    host.check_invariants().expect("all rules hold");
}
