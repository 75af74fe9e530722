//! A creation that lacks memory waits for the destructions that give it back; it is refused only where all of them together would not.

use std::sync::Arc;

use d3dkmt::{DestroyFlags, EvictFlags, Fence, MakeResidentFlags, NativeFenceRequest};
use dxgk_host::{AccountId, Admission, Host, Pending, ProcessLink, Quota, RecoveryPolicy};
use kmt_calls::{
    AllocationCall, AllocationRequest, AllocationTarget, Call, CreatedAllocations, DeviceCall, Refusal, Reply,
    ResourceRequest, SectionCall,
};
use kmt_link::Link;
use softgpu_spec::private_data;
use softgpu_umd::{Commands, Gpu, GpuWait, Stream, StreamConfig, Surface, SurfaceKind};
use wddm_types::{Blame, NodeId, NtStatus, RawHandle};

use crate::resets::{Breakage, Worker, break_hardware};
use stack::world::{Client, MIB, VIRTUAL, host};

/// A process with work that stands behind a fence.
struct GatedProcess {
    host: Arc<Host>,
    client: Client,
    gate: Fence,
}

fn client(link: Arc<ProcessLink>) -> Client {
    let gpu = Gpu::open(Arc::clone(&link) as Arc<dyn Link>).expect("the adapter opens");
    let stream = Stream::create(&gpu, NodeId(0), StreamConfig::default()).expect("a stream");
    Client { stream, gpu, link }
}

impl GatedProcess {
    fn new(host: &Arc<Host>, link: Arc<ProcessLink>) -> GatedProcess {
        let client = client(link);
        let gate = client.gpu.device().create_native_fence(NativeFenceRequest::default()).expect("a fence");
        GatedProcess { host: Arc::clone(host), client, gate }
    }

    /// A surface that the GPU uses once the gate comes to this value, and that its owner destroys before.
    fn destroy_in_use(&mut self, surface: Surface, value: u64) {
        self.client.gpu.pin(&surface).expect("room for it");
        let mut commands = Commands::new();
        commands.touch(surface.va(), 4096, true);
        let waits = [GpuWait { fence: (&self.gate).into(), value }];
        self.client.stream.submit(&self.client.gpu, &waits, &commands).expect("a submission");
    }

    fn surface(&self, bytes: u64) -> Surface {
        self.client.gpu.create_surface(SurfaceKind::Local, bytes).expect("a surface")
    }

    fn filler(&self, bytes: u64) -> Surface {
        self.client.gpu.create_surface(SurfaceKind::System, bytes).expect("a surface")
    }

    /// System memory that is free, as a refusal says it.
    fn free_bytes(&self) -> u64 {
        let adapter = self.client.gpu.adapter().handle();
        let section = Call::Section(SectionCall::Create { adapter, size_bytes: 1 << 40 });
        let refused = self.begin(section).expect("more than there is").expect_err("a refusal");
        let reason = refused.reason.split_whitespace().rev().nth(3).expect("… N bytes are free");
        reason.parse().expect("a number of bytes")
    }

    fn open(&self, value: u64) {
        self.client.gpu.device().signal(&self.gate, value).expect("the gate is open");
    }

    fn creation(&self, bytes: u64) -> Call {
        let request = private_data::AllocationRequest {
            kind: SurfaceKind::System,
            cpu_visible: true,
            cached: false,
            accessed_physically: false,
            size_bytes: bytes,
        };
        let one = AllocationRequest { private_data: request.encode().to_vec(), ..AllocationRequest::default() };
        let device = self.client.gpu.device().handle();
        Call::Allocation(AllocationCall::CreateAllocation {
            device,
            allocations: vec![one],
            resource: ResourceRequest::default(),
        })
    }

    fn begin(&self, call: Call) -> Result<Result<Reply, Refusal>, Pending> {
        self.host.begin_call(self.client.link.process(), call)
    }

    /// The answer of a creation, at once or as time goes on.
    fn created(&self, bytes: u64) -> Result<Reply, Refusal> {
        let begun = self.begin(self.creation(bytes));
        begun.unwrap_or_else(|pending| answer(&self.host, pending).expect("it is answered"))
    }

    fn waits(&self, bytes: u64) -> Pending {
        match self.begin(self.creation(bytes)) {
            Err(pending) => pending,
            Ok(answer) => panic!("{bytes} bytes are answered at once: {answer:?}"),
        }
    }
}

/// The answer of a call that waits, as time goes on; `None`: it never comes.
fn answer(host: &Host, pending: Pending) -> Option<Result<Reply, Refusal>> {
    loop {
        if let Some(answer) = host.take_answer(pending) {
            return Some(answer);
        }
        if !host.step() {
            return None;
        }
    }
}

fn one_allocation(answer: Option<Result<Reply, Refusal>>) -> CreatedAllocations {
    match answer {
        Some(Ok(Reply::Allocations(created))) if created.allocations.len() == 1 => created,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_creation_waits_for_the_destructions_that_give_it_back() {
    // spec: memory §6.2
    let host = host(VIRTUAL, 8 * MIB);
    let mut held = GatedProcess::new(&host, ProcessLink::new(Arc::clone(&host)));
    let surface = held.surface(4 * MIB);
    held.destroy_in_use(surface, 1);
    let rest = held.filler(held.free_bytes() - 3 * MIB);
    let pending = held.waits(6 * MIB);
    while host.step() {}
    assert!(host.take_answer(pending).is_none(), "the destroyed surface is in use");
    // A creation that fits goes on.
    let small = held.surface(MIB);
    drop(small);
    while host.step() {}
    assert!(host.take_answer(pending).is_none(), "no page of the destroyed surface is back");
    held.open(1);
    one_allocation(answer(&host, pending));
    host.check_invariants().expect("in order");
    drop(rest);
}

/// Content in system memory that no table shows comes and goes without paging work. Its pages wait for no later work either: on a quiet
/// adapter none comes.
#[test]
fn a_creation_gets_the_pages_of_content_that_left_without_paging_work() {
    // spec: memory §6.2
    let host = host(VIRTUAL, 8 * MIB);
    let held = GatedProcess::new(&host, ProcessLink::new(Arc::clone(&host)));
    let device = held.client.gpu.device();
    let unmapped = one_allocation(Some(held.created(4 * MIB))).allocations[0].handle;
    let queue = held.client.gpu.paging();
    queue.make_resident(vec![unmapped], MakeResidentFlags::empty()).expect("system memory has room");
    device.evict(vec![unmapped], EvictFlags::empty()).expect("it is on the list");
    while host.step() {}
    let free = held.free_bytes();
    let target = AllocationTarget { resource: RawHandle(0), allocations: vec![unmapped] };
    let destroyed = AllocationCall::DestroyAllocation { device: device.handle(), target, flags: DestroyFlags::empty() };
    held.begin(Call::Allocation(destroyed)).expect("it answers at once").expect("it goes");
    one_allocation(Some(held.created(free + 4 * MIB)));
}

#[test]
fn memory_that_no_destruction_gives_back_is_refused_at_once() {
    // spec: memory §9.2
    let host = host(VIRTUAL, 8 * MIB);
    let mut held = GatedProcess::new(&host, ProcessLink::new(Arc::clone(&host)));
    let surface = held.surface(4 * MIB);
    held.destroy_in_use(surface, 1);
    while host.step() {}
    let free = held.free_bytes();
    let refuse =
        || held.begin(held.creation(free + 4 * MIB + 4096)).expect("one page too much").expect_err("a refusal");
    // The first refusal also settles pending work.
    refuse();
    let before = host.state_digest();
    let refused = refuse();
    assert_eq!((refused.status, refused.blame), (NtStatus::NO_MEMORY, Blame::Scarcity));
    assert!(refused.reason.contains(&format!("{}", free + 4 * MIB + 4096)), "{}", refused.reason);
    assert_eq!(before.differences(&host.state_digest()), Vec::<String>::new());
    // With one page less the pending destructions will free enough.
    let pending = held.waits(free + 4 * MIB);
    held.open(1);
    one_allocation(answer(&host, pending));
}

#[test]
fn a_creation_that_others_have_overtaken_is_refused_when_nothing_comes_any_more() {
    // spec: memory §9.2
    let host = host(VIRTUAL, 8 * MIB);
    let mut held = GatedProcess::new(&host, ProcessLink::new(Arc::clone(&host)));
    let surface = held.surface(4 * MIB);
    held.destroy_in_use(surface, 1);
    let pending = held.waits(held.free_bytes() + 4 * MIB);
    let kept = held.surface(MIB);
    held.open(1);
    let refused = answer(&host, pending).expect("it is answered").expect_err("a MiB is missing");
    assert_eq!((refused.status, refused.blame), (NtStatus::NO_MEMORY, Blame::Scarcity));
    drop(kept);
}

#[test]
fn waiting_creations_are_tried_oldest_first_and_end_with_their_process() {
    // spec: memory §6.2
    let host = host(VIRTUAL, 8 * MIB);
    let mut held = GatedProcess::new(&host, ProcessLink::new(Arc::clone(&host)));
    let other = GatedProcess::new(&host, ProcessLink::new(Arc::clone(&host)));
    for value in 1..=2 {
        let surface = held.surface(3 * MIB);
        held.destroy_in_use(surface, value);
    }
    let rest = held.filler(held.free_bytes());
    let gone = other.waits(5 * MIB);
    let [first, second] = [(); 2].map(|()| held.waits(3 * MIB));
    // The process dies before any memory has come back: the memory goes to the next waiting creation.
    host.process_died(other.client.link.process());
    held.open(1);
    while host.step() {}
    one_allocation(host.take_answer(first));
    assert!(host.take_answer(second).is_none(), "3 MiB have come back, for the first");
    held.open(2);
    one_allocation(answer(&host, second));
    assert!(host.take_answer(gone).is_none(), "a dead process has no answers");
    host.check_invariants().expect("in order");
    drop(rest);
}

#[test]
fn a_section_waits_as_an_allocation_does() {
    // spec: memory §6.2
    let host = host(VIRTUAL, 8 * MIB);
    let mut held = GatedProcess::new(&host, ProcessLink::new(Arc::clone(&host)));
    let surface = held.surface(4 * MIB);
    held.destroy_in_use(surface, 1);
    let size_bytes = held.free_bytes() + 4 * MIB;
    let section =
        |size_bytes| Call::Section(SectionCall::Create { adapter: held.client.gpu.adapter().handle(), size_bytes });
    let refused = held.begin(section(size_bytes + 4096)).expect("one page too much").expect_err("a refusal");
    assert_eq!(refused.status, NtStatus::NO_MEMORY);
    let pending = held.begin(section(size_bytes)).expect_err("it waits");
    held.open(1);
    assert!(matches!(answer(&host, pending), Some(Ok(Reply::Section(_)))));
}

#[test]
fn what_a_quota_lacks_is_waited_for_where_the_process_gives_it_back_itself() {
    // spec: memory §9.2
    let quota = Quota { committed_bytes: 10 * MIB, ..Quota::NONE };
    for (process, together) in [(quota, Quota::NONE), (Quota::NONE, quota)] {
        let host = host(VIRTUAL, 8 * MIB);
        let admission = Admission { account: AccountId(7), process, together };
        let mut held = GatedProcess::new(&host, ProcessLink::admitted(Arc::clone(&host), admission));
        let kept = held.surface(2 * MIB);
        let surface = held.surface(4 * MIB);
        held.destroy_in_use(surface, 1);
        let refused = held.begin(held.creation(7 * MIB)).expect("2 MiB and the ring are kept").expect_err("a refusal");
        assert_eq!((refused.status, refused.blame), (NtStatus::NO_MEMORY, Blame::Quota));
        let pending = held.waits(5 * MIB);
        held.open(1);
        one_allocation(answer(&host, pending));
        drop(kept);
    }
}

#[test]
fn a_creation_that_waits_is_refused_when_its_device_has_gone() {
    // spec: memory §9.3
    let host = host(VIRTUAL, 8 * MIB);
    let mut held = GatedProcess::new(&host, ProcessLink::new(Arc::clone(&host)));
    let surface = held.surface(4 * MIB);
    held.destroy_in_use(surface, 1);
    let pending = held.waits(held.free_bytes() + 4 * MIB);
    let device = held.client.gpu.device().handle();
    held.begin(Call::Device(DeviceCall::DestroyDevice { device })).expect("destroyed at once").expect("its own device");
    let refused = answer(&host, pending).expect("it is answered").expect_err("the device has gone");
    assert_eq!(refused.status, NtStatus::INVALID_PARAMETER);
    host.check_invariants().expect("in order");
}

/// Bounds the wait of a creation for memory that another process's work keeps and the hardware does not run.
const BOUND_NS: u64 = 25_000_000;

#[test]
fn a_creation_waits_for_its_own_destructions_and_not_for_those_of_a_process_whose_work_does_not_run() {
    // spec: memory §6.2, memory §10.1
    let host = host(VIRTUAL, 8 * MIB);
    let [mut held, other] = [(); 2].map(|()| GatedProcess::new(&host, ProcessLink::new(Arc::clone(&host))));
    let surface = held.surface(4 * MIB);
    held.destroy_in_use(surface, 1);
    let rest = held.filler(held.free_bytes() - 3 * MIB);
    let [own, theirs] = [held.waits(6 * MIB), other.waits(6 * MIB)];
    let began = other.client.link.now_ns();
    let refused = answer(&host, theirs).expect("it is answered").expect_err("the other process keeps its memory");
    assert_eq!((refused.status, refused.blame), (NtStatus::NO_MEMORY, Blame::Scarcity));
    assert!(other.client.link.now_ns() - began <= BOUND_NS, "{} ns", other.client.link.now_ns() - began);
    while host.step() {}
    assert!(host.take_answer(own).is_none(), "a process waits for itself");
    host.check_invariants().expect("each hold has its end");
    held.open(1);
    one_allocation(answer(&host, own));
    drop(rest);
}

/// A creation lacks memory that work of another process uses, so many parts of 1 ms. Answers with how it ends, and how long it takes in ns.
fn creation_behind_running_work(parts: u32) -> (Result<Reply, Refusal>, u64) {
    let host = host(VIRTUAL, 8 * MIB);
    let [mut held, other] = [(); 2].map(|()| GatedProcess::new(&host, ProcessLink::new(Arc::clone(&host))));
    let surface = held.surface(4 * MIB);
    held.client.gpu.pin(&surface).expect("room for it");
    let mut commands = Commands::new();
    for _ in 0..parts {
        commands.work(1_000_000);
    }
    held.client.stream.submit(&held.client.gpu, &[], &commands).expect("a submission");
    drop(surface);
    let _rest = held.filler(held.free_bytes() - 3 * MIB);
    let began = host.now_ns();
    let ended = answer(&host, other.waits(6 * MIB)).expect("it is answered");
    (ended, host.now_ns() - began)
}

#[test]
fn a_creation_waits_for_work_of_another_process_that_runs() {
    // spec: memory §6.2, memory §10.1
    let (created, took) = creation_behind_running_work(60);
    one_allocation(Some(created));
    assert!(took > 2 * BOUND_NS, "the work was to take longer than {took} ns");
}

#[test]
fn a_creation_does_not_wait_for_work_of_another_process_that_runs_for_too_long() {
    // spec: memory §6.2, memory §10.1
    let (ended, took) = creation_behind_running_work(10_000);
    assert_eq!(ended.expect_err("the other process keeps its memory").blame, Blame::Scarcity);
    assert!((2_000_000_000..2_000_000_000 + BOUND_NS).contains(&took), "{took} ns");
}

#[test]
fn a_quota_of_an_account_is_not_held_by_work_of_another_process_that_does_not_run() {
    // spec: memory §9.2, memory §10.1
    let host = host(VIRTUAL, 8 * MIB);
    let together = Quota { committed_bytes: 16 * MIB, ..Quota::NONE };
    let admission = Admission { account: AccountId(7), process: Quota::NONE, together };
    let [mut held, other] =
        [(); 2].map(|()| GatedProcess::new(&host, ProcessLink::admitted(Arc::clone(&host), admission)));
    let surface = held.surface(8 * MIB);
    held.destroy_in_use(surface, 1);
    let began = other.client.link.now_ns();
    let refused = answer(&host, other.waits(10 * MIB)).expect("it is answered").expect_err("8 MiB are in use");
    assert_eq!((refused.status, refused.blame), (NtStatus::NO_MEMORY, Blame::Quota));
    assert!(other.client.link.now_ns() - began <= BOUND_NS, "{} ns", other.client.link.now_ns() - began);
    held.open(1);
    one_allocation(Some(other.created(10 * MIB)));
}

#[test]
fn a_creation_is_refused_where_virtual_time_ends_no_destruction_any_more() {
    let host = host(VIRTUAL, 8 * MIB);
    let mut held = GatedProcess::new(&host, ProcessLink::new(Arc::clone(&host)));
    let surface = held.surface(4 * MIB);
    held.destroy_in_use(surface, 1);
    let wanted = held.free_bytes() + 4 * MIB;
    let refused = host.call(held.client.link.process(), held.creation(wanted)).expect_err("the gate is shut");
    assert_eq!((refused.status, refused.blame), (NtStatus::NO_MEMORY, Blame::Scarcity));
    held.open(1);
    while host.step() {}
    // The refused call is over: it takes nothing when memory comes back.
    let again = held.created(wanted);
    one_allocation(Some(again));
}

/// A destruction waits for work that may never end. The adapter stops: its caller waits no more, and what that work may use stays.
#[test]
fn a_destruction_that_waits_is_answered_by_an_adapter_that_stops() {
    // spec: memory §6.2, memory §8.4, memory §8.6
    let breakage = Breakage::default();
    *breakage.refusal.lock().unwrap() = Some("reset it may not");
    let (host, _) =
        breakage.host("discrete-4k", VIRTUAL, RecoveryPolicy { delay_ns: None, ..RecoveryPolicy::default() });
    let mut held = GatedProcess::new(&host, ProcessLink::new(Arc::clone(&host)));
    let surface = held.surface(MIB);
    let target = AllocationTarget { resource: RawHandle(0), allocations: vec![surface.allocation().handle()] };
    let (device, flags) = (held.client.gpu.device().handle(), DestroyFlags::SYNCHRONOUS_DESTROY);
    held.client.gpu.pin(&surface).expect("room for it");
    let mut commands = Commands::new();
    commands.touch(surface.va(), 4096, true);
    let waits = [GpuWait { fence: (&held.gate).into(), value: 1 }];
    held.client.stream.submit(&held.client.gpu, &waits, &commands).expect("a submission");
    let destroyed = AllocationCall::DestroyAllocation { device, target, flags };
    let pending = held.begin(Call::Allocation(destroyed)).expect_err("the surface is in use");
    let mut worker = Worker::new(&host);
    break_hardware(&breakage, &mut worker);
    assert!(host.stopped().is_some());
    let refused = answer(&host, pending).expect("it is answered").expect_err("the adapter has stopped");
    assert_eq!(refused.status, NtStatus::DEVICE_REMOVED);
    host.check_invariants().expect("in order");
    std::mem::forget(surface);
}
