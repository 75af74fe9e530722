//! The driver knows of a fault, and the kernel does not yet: what the driver refuses meanwhile costs the device that has faulted, and no
//! other device nor the adapter. Without a fault the refusal has its own consequence.

use std::sync::{Arc, Mutex};

use d3dkmt::{
    Context, DeviceState, FenceFlags, HwContext, KernelQueue, MakeResidentFlags, NativeFenceRequest,
    OpenSyncObjectRequest, SyncObjectAccess, VirtualContext,
};
use ddi::{DmaFault, DriverStatus, Interrupt, Miniport, Notify, PageFault};
use dxgk_host::{Host, HostConfig, Profile, RecoveryPolicy};
use miniport_filter::{Filter, Filtered, Function, passes_on};
use softgpu_spec::private_data::AllocationRequest;
use softgpu_umd::{
    Commands, DmaBuffers, Gpu, ListedCommands, Stream, StreamConfig, Surface, SurfaceKind, context_data,
};
use wddm_types::{GpuVa, NodeId};

use crate::fence_interrupts::begin_wait;
use stack::world::{Client, MIB, VIRTUAL, client};

const COMPUTE: NodeId = NodeId(0);
const COPY: NodeId = NodeId(1);
/// Work without progress for so long is suspended.
const DELAY_NS: u64 = 100_000_000;
/// Where no process has anything.
const WILD: u64 = 0x7fff_0000_0000;

/// A fault of which the kernel has not heard.
#[derive(Clone, Copy)]
enum Fault {
    Packet(DmaFault),
    Queue(PageFault),
}

/// When the driver tells of a fault.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Tells {
    #[default]
    AtOnce,
    /// When the kernel hears it again after it has refused something.
    BehindARefusal,
    /// With the next packet that is done, and behind that.
    BehindAPacket,
}

#[derive(Default)]
struct Known {
    tells: Tells,
    kept: Vec<Fault>,
    /// What it refuses once, when it knows of a fault or `lies`.
    refuses: Option<Function>,
    lies: bool,
    refused: bool,
    /// Calls of the function that it refuses, or has refused, since then.
    asked: Vec<Function>,
}

/// The real driver, late with its faults.
#[derive(Clone, Default)]
struct Late(Arc<Mutex<Known>>);

passes_on!(Late);

impl Filter for Late {
    fn called(&self, function: Function, _arguments: &dyn Fn() -> String) {
        self.0.lock().unwrap().asked.push(function);
    }
    fn refuses(&self, function: Function) -> Option<DriverStatus> {
        let mut known = self.0.lock().unwrap();
        if known.refuses != Some(function) || known.kept.is_empty() && !known.lies {
            return None;
        }
        known.refuses = None;
        known.refused = !known.kept.is_empty();
        known.asked.clear();
        Some(DriverStatus::Unsuccessful("a whim"))
    }
    fn answered(&self, _function: Function, refusal: Option<String>) {
        let mut known = self.0.lock().unwrap();
        known.refused |= refusal.is_some() && !known.kept.is_empty();
    }
    fn interrupt_routine(&mut self, next: &mut dyn Miniport, notify: &mut dyn Notify) -> bool {
        let mut heard = Hears { known: &self.0, notify };
        let found = next.interrupt_routine(&mut heard);
        let mut known = self.0.lock().unwrap();
        let tells = std::mem::take(&mut known.refused) && known.tells == Tells::BehindARefusal;
        if tells {
            tell(&mut known, notify);
        }
        found || tells
    }
}

fn tell(known: &mut Known, notify: &mut dyn Notify) {
    for fault in known.kept.drain(..) {
        notify.interrupt(match fault {
            Fault::Packet(fault) => Interrupt::DmaPageFaulted(fault),
            Fault::Queue(fault) => Interrupt::HwQueuePageFaulted(fault),
        });
    }
}

struct Hears<'a> {
    known: &'a Mutex<Known>,
    notify: &'a mut dyn Notify,
}

impl Notify for Hears<'_> {
    fn interrupt(&mut self, interrupt: Interrupt<'_>) {
        let mut known = self.known.lock().unwrap();
        match interrupt {
            Interrupt::DmaPageFaulted(fault) if known.tells != Tells::AtOnce => known.kept.push(Fault::Packet(fault)),
            Interrupt::HwQueuePageFaulted(fault) if known.tells != Tells::AtOnce => {
                known.kept.push(Fault::Queue(fault));
            }
            Interrupt::DmaCompleted { .. } if known.tells == Tells::BehindAPacket => {
                self.notify.interrupt(interrupt);
                tell(&mut known, self.notify);
            }
            other => self.notify.interrupt(other),
        }
    }
}

/// Two processes, and the driver.
struct World {
    guilty: Client,
    bystander: Client,
    late: Late,
    host: Arc<Host>,
}

fn world(tells: Tells) -> World {
    world_of("discrete-4k", tells)
}

fn world_of(profile: &str, tells: Tells) -> World {
    let late = Late::default();
    late.0.lock().unwrap().tells = tells;
    let filter = late.clone();
    let config = HostConfig {
        vram_bytes: 4 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        wrap_miniport: Some(Box::new(|driver| Box::new(Filtered::new(driver, filter)))),
        recovery: RecoveryPolicy { delay_ns: Some(DELAY_NS), ..RecoveryPolicy::default() },
        ..HostConfig::new(Profile::named(profile).expect("a built-in profile"), VIRTUAL)
    };
    let host = Host::start(config).expect("the host starts");
    World { guilty: client(&host), bystander: client(&host), late, host }
}

impl World {
    /// Runs until the driver knows of a fault.
    fn run_to_fault(&self) {
        while self.late.0.lock().unwrap().kept.is_empty() {
            assert!(self.host.step(), "the work faults");
        }
    }

    fn refuse(&self, function: Function, lies: bool) {
        let mut known = self.late.0.lock().unwrap();
        (known.refuses, known.lies) = (Some(function), lies);
    }

    /// How often the driver was asked again for what it has refused.
    fn asked_again(&self, function: Function) -> usize {
        self.late.0.lock().unwrap().asked.iter().filter(|asked| **asked == function).count()
    }

    /// The guilty process has lost its device, in the fault's own words; everything else goes on.
    fn only_the_guilty_is_lost(&mut self, what: &str) {
        assert_eq!(self.host.stopped(), None, "{what}");
        let known = self.late.0.lock().unwrap();
        assert!(known.refuses.is_none() && known.kept.is_empty(), "{what}: refused, and told of the fault");
        drop(known);
        let device = self.guilty.gpu.device();
        assert_eq!(device.state().unwrap(), DeviceState::ErrorDmaPageFault, "{what}");
        let reason = device.create_paging_queue().err().expect("it is lost").reason;
        assert!(reason.contains(&format!("without memory at {WILD:#x}")), "{what}: {reason}");
        assert_eq!(self.bystander.gpu.device().state().unwrap(), DeviceState::Active, "{what}");
        let surface = self.bystander.pinned(SurfaceKind::System, 4096);
        self.bystander.run(|commands| _ = commands.fill(surface.va(), 4096, 9));
        assert_eq!(surface.lock().unwrap().read_word(8), 9 << 32 | 9, "{what}");
        self.host.check_invariants().expect("the kernel's invariants hold");
    }
}

/// A buffer of commands, as a packet or a command of a queue names it.
fn buffer(client: &Client, va: GpuVa, pattern: u32) -> (Surface, u32) {
    let buffer = client.pinned(SurfaceKind::System, 4096);
    let mut commands = Commands::new();
    commands.fill(va, 4096, pattern);
    buffer.lock().unwrap().write_words(0, commands.words());
    (buffer, commands.words().len() as u32 * 8)
}

fn packets(client: &Client, node: NodeId) -> VirtualContext {
    VirtualContext::create(client.gpu.device(), node, vec![]).expect("a context")
}

fn queue(client: &Client, node: NodeId) -> (KernelQueue, HwContext) {
    let context = client.gpu.device().create_context(node).expect("a context");
    (context.create_kernel_queue().expect("a queue"), context)
}

/// The answer to a bystander's wait for a fence that the guilty process was to signal behind its buffers.
fn outcome_of_further_buffers(tells: Tells) -> Result<(), String> {
    let mut world = world(tells);
    let (wild, bytes) = buffer(&world.guilty, GpuVa(WILD), 1);
    let target = world.guilty.pinned(SurfaceKind::System, 4096);
    let (tame, tame_bytes) = buffer(&world.guilty, target.va(), 2);
    let flags = FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING;
    let request = NativeFenceRequest { flags, ..NativeFenceRequest::default() };
    let fence = world.guilty.gpu.device().create_native_fence(request).expect("a fence");
    let name = fence.share(SyncObjectAccess::ALL_ACCESS).expect("a name");
    let by_name = OpenSyncObjectRequest { handle: name.token(), ..OpenSyncObjectRequest::default() };
    let opened = world.bystander.gpu.device().open_native_fence(by_name).expect("it opens");
    let wait = begin_wait(&world.host, &world.bystander, &opened, 1);
    let context = packets(&world.guilty, COPY);
    context.submit(wild.va(), bytes, vec![]).expect("a submission");
    if tells == Tells::BehindARefusal {
        world.run_to_fault();
        // The kernel accepts it; the driver, which has stopped the context, does not.
        context.submit(tame.va(), tame_bytes, vec![]).expect("a submission");
    }
    while world.guilty.gpu.device().state().is_ok_and(|state| state == DeviceState::Active) {
        assert!(world.host.step(), "the device is lost");
    }
    context.submit(tame.va(), tame_bytes, vec![]).expect_err("the device is lost");
    context.signal(&fence, 1).expect_err("the device is lost");
    world.only_the_guilty_is_lost("further buffers");
    assert_eq!(target.lock().map_or(0, |target| target.read_word(0)), 0, "nothing behind the fault has run");
    while world.host.step() {}
    world
        .host
        .take_answer(wait)
        .expect("the waiter is not left")
        .map(drop)
        .map_err(|refusal| refusal.reason.into_owned())
}

#[test]
fn further_buffers_of_a_context_that_has_faulted_cost_its_device_only() {
    // spec: memory §5.8, memory §8.6, sync §3.16
    let told_at_once = outcome_of_further_buffers(Tells::AtOnce);
    assert_eq!(outcome_of_further_buffers(Tells::BehindARefusal), told_at_once);
}

/// Work for which the kernel calls a function of the driver.
type Act = fn(&World, &Client);

fn submits_packet(world: &World, client: &Client) {
    let target = client.pinned(SurfaceKind::System, 4096);
    let (tame, bytes) = buffer(client, target.va(), 7);
    let context = packets(client, COMPUTE);
    context.submit(tame.va(), bytes, vec![]).expect("a submission");
    ends(world, client, &target);
}

/// Runs until a surface has its content, or the work is lost.
fn ends(world: &World, client: &Client, target: &Surface) {
    let goes_on = || client.gpu.device().state().is_ok_and(|state| state == DeviceState::Active);
    while goes_on() && target.lock().expect("system memory").read_word(0) == 0 {
        assert!(world.host.step(), "the work ends");
    }
    assert!(!goes_on() || target.lock().expect("system memory").read_word(0) == 7 << 32 | 7);
}

fn renders(_: &World, client: &Client) {
    let (kind, accessed_physically) = (SurfaceKind::System, true);
    let request = AllocationRequest { kind, cpu_visible: true, cached: false, accessed_physically, size_bytes: 4096 };
    let target = client.gpu.device().create_allocation(request.encode().to_vec()).expect("memory");
    client.gpu.paging().make_resident(vec![target.handle()], MakeResidentFlags::empty()).expect("room");
    let data = context_data(DmaBuffers::Contiguous).to_vec();
    let context = Context::create(client.gpu.device(), COPY, data).expect("a context");
    let mut commands = ListedCommands::new();
    commands.fill((&target, 0), 4096, 7);
    commands.render(&context).expect("it renders");
}

fn feeds_queue(world: &World, client: &Client) {
    // Paging buffers go to hardware queues as well: the driver refuses none of those.
    let refused = world.late.0.lock().unwrap().refuses.take();
    let target = client.pinned(SurfaceKind::System, 4096);
    let (tame, bytes) = buffer(client, target.va(), 7);
    let (queue, _context) = queue(client, COMPUTE);
    world.late.0.lock().unwrap().refuses = refused;
    queue.submit(tame.va(), bytes, 1).expect("a submission");
    ends(world, client, &target);
}

fn ranks(world: &World, client: &Client) {
    world.host.set_process_priority(client.link.process(), 4);
}

/// The work of the client makes no progress: the client is suspended for that.
fn stands(world: &World, client: &Client) {
    while client.gpu.device().state().is_ok_and(|state| state == DeviceState::Active) {
        assert!(world.host.step(), "the client is suspended");
    }
}

/// A third process takes the memory of the client, which has work: the client is suspended until its next turn.
fn suspends(world: &World, client: &Client) {
    let third = stack::world::client(&world.host);
    let (queue, _context) = queue(client, COMPUTE);
    let go = client.gpu.device().create_native_fence(NativeFenceRequest::default()).expect("a fence");
    let target = client.pinned(SurfaceKind::System, 4096);
    let (tame, bytes) = buffer(client, target.va(), 7);
    queue.submit_wait(&go, 1).expect("a wait");
    queue.submit(tame.va(), bytes, 1).expect("a submission");
    let lists = |gpu: &Gpu| {
        let surface = gpu.create_surface(SurfaceKind::Local, 3 * MIB).expect("a surface");
        let list = vec![surface.allocation().handle()];
        let listed = gpu.paging().make_resident(list, MakeResidentFlags::CANT_TRIM_FURTHER);
        assert!(listed.is_ok() || world.host.stopped().is_some(), "each fits by itself");
        surface
    };
    let held = [lists(&client.gpu), lists(&third.gpu)];
    let waits = || world.late.0.lock().unwrap().refuses.is_some();
    while waits() {
        assert!(world.host.step(), "the client is suspended");
    }
    if client.gpu.device().signal(&go, 1).is_ok() {
        ends(world, client, &target);
    }
    drop(held);
}

/// The kernel reads the logs of a queue that a process feeds.
fn signals(world: &World, client: &Client) {
    let fence = client.gpu.device().create_native_fence(NativeFenceRequest::default()).expect("a fence");
    let mut stream = Stream::create(&client.gpu, COMPUTE, StreamConfig::default()).expect("a stream");
    let wait = begin_wait(&world.host, client, &fence, 1);
    let mut commands = Commands::new();
    commands.signal(&fence, 1);
    stream.submit(&client.gpu, &[], &commands).expect("a submission");
    // The waiter may be answered before the interrupt, for which the kernel reads the log.
    while world.late.0.lock().unwrap().refuses.is_some() {
        assert!(world.host.step(), "the kernel reads the log");
    }
    world.host.take_answer(wait).expect("the waiter is answered").expect("and well");
}

/// A node's packets are asked back for a process of higher rank.
fn preempts(world: &World, client: &Client) {
    let target = client.pinned(SurfaceKind::System, 4096);
    let (tame, bytes) = buffer(client, target.va(), 7);
    world.host.set_process_priority(client.link.process(), 4);
    let context = packets(client, COPY);
    context.submit(tame.va(), bytes, vec![]).expect("a submission");
    ends(world, client, &target);
}

/// The guilty process's queue faults; the driver knows it.
fn faulted(node: NodeId) -> (World, (KernelQueue, HwContext)) {
    faulted_on("discrete-4k", node)
}

fn faulted_on(profile: &str, node: NodeId) -> (World, (KernelQueue, HwContext)) {
    let world = world_of(profile, Tells::BehindARefusal);
    let (wild, bytes) = buffer(&world.guilty, GpuVa(WILD), 1);
    let faulting = queue(&world.guilty, node);
    faulting.0.submit(wild.va(), bytes, 1).expect("a submission");
    world.run_to_fault();
    (world, faulting)
}

#[test]
fn a_refusal_for_a_device_that_has_faulted_is_moot() {
    // spec: memory §5.8, memory §8.6
    let cases: [(Function, Act); 5] = [
        (Function::SubmitCommandVirtual, submits_packet),
        (Function::SubmitCommand, renders),
        (Function::SubmitCommandToHwQueue, feeds_queue),
        (Function::SetContextSchedulingProperties, ranks),
        (Function::SuspendContext, stands),
    ];
    for (function, act) in cases {
        let (mut world, _faulting) = faulted(COMPUTE);
        world.refuse(function, false);
        act(&world, &world.guilty);
        world.only_the_guilty_is_lost(&format!("{function:?}"));
    }
}

/// A driver whose node stands until the fault is handled refuses the work of others, too. They are not to blame.
#[test]
fn a_refusal_that_anothers_fault_explains_costs_nobody_else() {
    // spec: memory §5.8, memory §8.6
    let cases: [(Function, Act); 4] = [
        (Function::SubmitCommandVirtual, submits_packet),
        (Function::SubmitCommandToHwQueue, feeds_queue),
        (Function::SetContextSchedulingProperties, ranks),
        (Function::SuspendContext, suspends),
    ];
    for (function, act) in cases {
        let (mut world, _faulting) = faulted(COMPUTE);
        world.refuse(function, false);
        act(&world, &world.bystander);
        assert!(world.asked_again(function) > 0, "{function:?}: the driver is asked again");
        world.only_the_guilty_is_lost(&format!("{function:?}"));
    }
}

/// The interrupt names a queue, and only the entries of its log would name the fence: the kernel looks at the fences themselves.
#[test]
fn a_waiter_is_answered_though_the_driver_refuses_the_log_of_a_queue_for_a_fault() {
    // spec: memory §5.8, sync §3.15
    let (mut world, _faulting) = faulted_on("optimized-fences", COMPUTE);
    world.refuse(Function::UpdateNativeFenceLogs, false);
    signals(&world, &world.bystander);
    world.only_the_guilty_is_lost("UpdateNativeFenceLogs");
}

/// The node has the packet that has faulted, and is asked for it.
#[test]
fn a_node_that_refuses_a_preemption_for_a_fault_is_not_asked_for_ever() {
    // spec: memory §5.8, sync §4.3
    let mut world = world(Tells::BehindARefusal);
    let (wild, bytes) = buffer(&world.guilty, GpuVa(WILD), 1);
    let faulting = packets(&world.guilty, COPY);
    faulting.submit(wild.va(), bytes, vec![]).expect("a submission");
    world.run_to_fault();
    world.refuse(Function::PreemptCommand, false);
    preempts(&world, &world.bystander);
    world.only_the_guilty_is_lost("PreemptCommand");
}

/// The reason for which an adapter has stopped, or for which the bystander was lost.
fn verdict(world: &World) -> String {
    let lost = || world.bystander.gpu.device().create_paging_queue().err().expect("it is lost").reason.into_owned();
    world.host.stopped().unwrap_or_else(lost)
}

#[test]
fn a_refusal_without_a_fault_has_its_own_consequence() {
    // spec: sync §4.4, memory §8.6
    let cases: [(Function, Act, &str); 6] = [
        (Function::SubmitCommandVirtual, submits_packet, "SubmitCommand failed: the driver says: failed (a whim)"),
        (Function::SubmitCommand, renders, "SubmitCommand failed: the driver says: failed (a whim)"),
        (Function::SubmitCommandToHwQueue, feeds_queue, "the driver refused a command buffer: the driver says"),
        (Function::SetContextSchedulingProperties, ranks, "SetContextSchedulingProperties failed: the driver says"),
        (Function::SuspendContext, suspends, "SuspendContext failed: the driver says"),
        (Function::UpdateNativeFenceLogs, signals, "UpdateNativeFenceLogs failed: the driver says"),
    ];
    for (function, act, reason) in cases {
        let world = world(Tells::AtOnce);
        world.refuse(function, true);
        act(&world, &world.bystander);
        let verdict = verdict(&world);
        assert!(verdict.contains(reason), "{function:?}: {verdict}");
        assert_eq!(world.host.stopped().is_none(), function == Function::SubmitCommandToHwQueue, "{function:?}");
    }
    let world = world(Tells::AtOnce);
    let (target, long) = (world.guilty.pinned(SurfaceKind::Local, MIB), world.guilty.pinned(SurfaceKind::System, 4096));
    let mut commands = Commands::new();
    (0..100).for_each(|_| _ = commands.fill(target.va(), MIB, 1));
    long.lock().unwrap().write_words(0, commands.words());
    let context = packets(&world.guilty, COPY);
    let bytes = commands.words().len() as u32 * 8;
    (0..3).for_each(|_| _ = context.submit(long.va(), bytes, vec![]).expect("a submission"));
    world.refuse(Function::PreemptCommand, true);
    preempts(&world, &world.bystander);
    assert!(verdict(&world).contains("PreemptCommand failed"), "{}", verdict(&world));
}

#[test]
fn a_fault_on_another_node_explains_nothing() {
    // spec: sync §4.4
    let (world, _faulting) = faulted(COPY);
    world.refuse(Function::SubmitCommandVirtual, false);
    submits_packet(&world, &world.bystander);
    let stopped = world.host.stopped().expect("the driver has no reason to refuse this");
    assert!(stopped.contains("SubmitCommand failed"), "{stopped}");
}

/// The driver tells of the fault in the interrupt that tells of a packet which the node was handed behind it.
#[test]
fn a_fault_of_a_context_that_has_gone_comes_before_what_ran_behind_it() {
    // spec: memory §5.8, memory §7.4
    let world = world(Tells::BehindAPacket);
    let (wild, bytes) = buffer(&world.guilty, GpuVa(WILD), 1);
    let faulting = packets(&world.guilty, COPY);
    faulting.submit(wild.va(), bytes, vec![]).expect("a submission");
    world.run_to_fault();
    drop(faulting);
    let target = world.bystander.pinned(SurfaceKind::System, 4096);
    let (tame, bytes) = buffer(&world.bystander, target.va(), 7);
    let (context, device) = (packets(&world.bystander, COPY), world.bystander.gpu.device());
    let done = device.create_native_fence(NativeFenceRequest::default()).expect("a fence");
    context.submit(tame.va(), bytes, vec![]).expect("a submission");
    context.signal(&done, 1).expect("a signal");
    device.wait(&[(&done, 1)]).expect("it completes");
    assert!(world.late.0.lock().unwrap().kept.is_empty(), "the driver has told of the fault");
    assert_eq!(world.host.stopped(), None);
    assert_eq!(target.lock().unwrap().read_word(0), 7 << 32 | 7);
    assert_eq!(world.guilty.gpu.device().state().unwrap(), DeviceState::Active, "its context had gone");
}
