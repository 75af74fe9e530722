//! Monitored fences through the whole stack: creation, the CPU's part. The GPU's is `engines`, software packets are
//! `contexts`, the older objects `objects`.

mod contexts;
mod engines;
mod objects;
mod shared_objects;
mod sharing;
mod statuses;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use d3dkmt::{CpuCaching, Device, Event, Fence, FenceFlags, SignalFlags, VirtualContext, WaitFlags};
use dxgk_host::{Host, Mode, ProcessLink};
use kmt_link::Link;
use softgpu_umd::{Commands, Gpu, Surface, SurfaceKind};
use wddm_types::{GpuVa, NodeId, NtStatus};

use stack::counting::Counting;
use stack::heard::{Heard, heard_on};
use stack::world::{MIB, VIRTUAL};

/// Every kind of adapter: native fences beside, packets only, basic engines, 32 bits, no addresses, no coherency.
const ADAPTERS: [&str; 6] =
    ["discrete-4k", "wddm2-packets", "basic-engines", "atomics-32", "wddm1-banks", "noncoherent"];
/// Those whose engines take packets at addresses.
const ADDRESSED: [&str; 4] = ["discrete-4k", "wddm2-packets", "basic-engines", "atomics-32"];
const NODE: NodeId = NodeId(0);

fn traced(profile: &str, mode: Mode) -> (Arc<Host>, Heard) {
    heard_on(profile, mode, 4 * MIB, |_| true)
}

fn open(host: &Arc<Host>) -> (Gpu, Arc<ProcessLink>) {
    let link = ProcessLink::new(Arc::clone(host));
    (Gpu::open(Arc::clone(&link) as Arc<dyn Link>).expect("the adapter opens"), link)
}

fn world(profile: &str, mode: Mode) -> (Arc<Host>, Gpu) {
    let (host, _) = traced(profile, mode);
    let (gpu, _) = open(&host);
    (host, gpu)
}

fn monitored(device: &Device) -> Fence {
    device.create_monitored_fence(FenceFlags::empty(), 0).expect("a monitored fence")
}

fn event(gpu: &Gpu) -> Event {
    Event::create(gpu.device().link(), false).expect("an event")
}

/// Lets virtual time run until nothing is left.
fn drain(host: &Arc<Host>) {
    while host.step() {}
}

/// Commands in memory that a packet context reads.
pub struct Buffer {
    surface: Surface,
    bytes: u32,
}

impl Buffer {
    pub fn new(gpu: &Gpu, commands: &Commands) -> Buffer {
        let surface = gpu.create_surface(SurfaceKind::System, 4096).expect("a surface");
        gpu.pin(&surface).expect("room for it");
        surface.lock().unwrap().write_words(0, commands.words());
        Buffer { surface, bytes: commands.words().len() as u32 * 8 }
    }

    pub fn run(&self, context: &VirtualContext) {
        context.submit(self.surface.va(), self.bytes, Vec::new()).expect("a submission");
    }
}

#[test]
fn a_monitored_fence_on_every_adapter() {
    // spec: sync §1.2, sync §2.2, sync §1.5
    // seed: C02, C03, C04, C05, C06, C10
    for profile in ADAPTERS {
        let (_host, gpu) = world(profile, VIRTUAL);
        let device = gpu.device();
        let fence = device.create_monitored_fence(FenceFlags::empty(), 7).unwrap();
        assert_eq!(fence.current(), 7, "{profile}: the initial value, by a load");
        let coherent = profile != "noncoherent";
        let caching = if coherent { CpuCaching::WriteBack } else { CpuCaching::Uncached };
        assert_eq!(fence.caching(), caching, "{profile}");
        assert_eq!(fence.bits(), if profile == "atomics-32" { 32 } else { 64 }, "{profile}");
        assert_eq!(fence.current_va() == GpuVa::NULL, profile == "wddm1-banks", "{profile}");
        assert_eq!(fence.address().0 % 8 + fence.current_va().0 % 8, 0, "{profile}: both aligned to 8 bytes");
        device.signal(&fence, 9).unwrap();
        assert_eq!(fence.current(), 9, "{profile}: seen at once");
        device.wait(&[(&fence, 9)]).unwrap();
        let refused = device.signal(&fence, 8).expect_err("it would go back");
        assert_eq!((refused.status, fence.current()), (NtStatus::INVALID_PARAMETER, 9), "{profile}");
        // A fence of every process has words of its own.
        let other = monitored(device);
        assert_ne!(other.address().0 / 64, fence.address().0 / 64, "{profile}");
    }
}

#[test]
fn a_fence_without_gpu_access_is_whole_and_nowhere() {
    // spec: sync §1.6, sync §2.3
    // seed: C03
    for profile in ADAPTERS {
        let (_host, gpu) = world(profile, VIRTUAL);
        let device = gpu.device();
        let fence = device.create_monitored_fence(FenceFlags::NO_GPU_ACCESS, 1 << 40).unwrap();
        assert_eq!((fence.current_va(), fence.bits(), fence.current()), (GpuVa::NULL, 64, 1 << 40), "{profile}");
        device.signal(&fence, 5 << 40).unwrap();
        assert_eq!(fence.current(), 5 << 40, "{profile}: no reach of 32 bits binds it");
    }
}

#[test]
fn the_address_is_the_processs_own() {
    // spec: sync §1.5
    let (host, gpu) = world("discrete-4k", VIRTUAL);
    let (other, _link) = open(&host);
    let (mine, theirs) = (monitored(gpu.device()), monitored(other.device()));
    assert_ne!(mine.address().0 / 4096, theirs.address().0 / 4096, "no page is two processes'");
}

/// The word as the client has it has a load and nothing else: see the failing example at `d3dkmt::Fence`. What a process can
/// write are its doorbell words and locked memory, and neither shows a fence's page.
#[test]
fn only_the_signal_call_moves_a_fence() {
    // spec: sync §1.4, sync §3.6
    // seed: C07, C20
    let (_host, gpu) = world("discrete-4k", VIRTUAL);
    let device = gpu.device();
    let fence = monitored(device);
    let surface = gpu.create_surface(SurfaceKind::System, 4096).unwrap();
    let lock = surface.lock().unwrap();
    lock.write_words(0, &[u64::MAX; 512]);
    assert_eq!(fence.word().load(), 0);
    device.signal(&fence, 3).unwrap();
    assert_eq!(fence.word().load(), 3);
}

#[test]
fn progress_is_read_without_a_call() {
    // spec: sync §1.2, sync §3.5
    // seed: N01, N03
    let (host, _) = traced("wddm2-packets", VIRTUAL);
    let (link, counting) = Counting::of(&host);
    let gpu = Gpu::open(link).expect("the adapter opens");
    let fence = monitored(gpu.device());
    for value in 1..10 {
        gpu.device().signal(&fence, value).unwrap();
        let before = counting.calls.load(Ordering::Relaxed);
        assert_eq!((fence.current(), fence.word().load()), (value, value));
        assert_eq!(counting.calls.load(Ordering::Relaxed), before, "by loads alone");
    }
}

#[test]
fn the_cpu_waits_for_all_or_for_any() {
    // spec: sync §3.5, sync §2.4, sync §6 B10, sync §6 B11
    // seed: C21
    for profile in ADAPTERS {
        let (host, gpu) = world(profile, VIRTUAL);
        let device = gpu.device();
        let fences: Vec<Fence> = (0..32).map(|_| monitored(device)).collect();
        let points: Vec<_> = fences.iter().map(|fence| (fence, 2)).collect();
        let (all, any) = (event(&gpu), event(&gpu));
        device.wait_async(&points, &all, WaitFlags::empty()).unwrap();
        device.wait_async(&points, &any, WaitFlags::WAIT_ANY).unwrap();
        for (nth, fence) in fences.iter().enumerate() {
            assert!(!all.take().unwrap(), "{profile}: {nth} of 32");
            device.signal(fence, 2).unwrap();
            assert_eq!(any.take().unwrap(), nth == 0, "{profile}: set once, by the first");
        }
        assert!(all.take().unwrap() && !all.take().unwrap(), "{profile}: set once, by the last");
        device.wait(&points).unwrap();
        device.wait_any(&[(&fences[0], 99), (&fences[1], 1)]).unwrap();
        device.wait(&[(&fences[0], 1); 4_095]).unwrap();
        let too_many = device.wait(&[(&fences[0], 1); 4_096]).unwrap_err();
        assert_eq!(too_many.status, NtStatus::INVALID_PARAMETER, "4,096 objects");
        drain(&host);
    }
}

#[test]
fn a_process_sets_its_events() {
    // spec: sync §2.4
    for mode in [VIRTUAL, Mode::Real] {
        let (host, gpu) = world("wddm2-packets", mode);
        let event = event(&gpu);
        event.set().unwrap();
        event.set().unwrap();
        assert_eq!(
            (event.take().unwrap(), event.take().unwrap()),
            (true, false),
            "one wait takes it, however often it is set"
        );
        event.set().unwrap();
        event.reset().unwrap();
        assert!(!event.take().unwrap());
        let by_hand = Event::create(gpu.device().link(), true).unwrap();
        by_hand.set().unwrap();
        by_hand.wait().unwrap();
        assert!(by_hand.take().unwrap(), "until it is reset");
        by_hand.reset().unwrap();
        assert!(!by_hand.take().unwrap());
        // A call may set the event of a pending asynchronous wait: the process sees both settings.
        let fence = monitored(gpu.device());
        gpu.device().wait_async(&[(&fence, 1)], &event, WaitFlags::empty()).unwrap();
        event.set().unwrap();
        assert!(event.take().unwrap());
        gpu.device().signal(&fence, 1).unwrap();
        event.wait().unwrap();
        host.check_invariants().unwrap();
    }
}

#[test]
fn a_set_event_lets_one_wait_go_on_or_all() {
    let host = stack::world::host(VIRTUAL, MIB);
    let link = ProcessLink::new(Arc::clone(&host));
    for manual_reset in [false, true] {
        let event = Event::create(&(Arc::clone(&link) as Arc<dyn Link>), manual_reset).unwrap();
        let wait = kmt_calls::Call::Event(kmt_calls::EventCall::Wait { event: event.handle(), block: true });
        let waits = [(); 3].map(|()| host.begin_call(link.process(), wait.clone()).expect_err("it is not set"));
        event.set().unwrap();
        let answered = waits.map(|wait| host.take_answer(wait).is_some());
        assert_eq!(answered, [true, manual_reset, manual_reset], "the one that has waited longest, or all");
        assert_eq!(event.take().unwrap(), manual_reset);
    }
}

#[test]
fn an_asynchronous_wait_answers_at_once_and_sets_its_event_once() {
    // spec: sync §2.4, sync §6 B9
    // seed: C21
    for mode in [VIRTUAL, Mode::Real] {
        let (host, heard) = traced("wddm2-packets", mode);
        let (gpu, _link) = open(&host);
        let device = gpu.device();
        let fence = device.create_monitored_fence(FenceFlags::empty(), 5).unwrap();
        let event = event(&gpu);
        device.wait_async(&[(&fence, 5)], &event, WaitFlags::empty()).unwrap();
        assert!(event.take().unwrap(), "{mode:?}: satisfied already");
        device.wait_async(&[(&fence, 6), (&fence, 8)], &event, WaitFlags::empty()).unwrap();
        device.signal(&fence, 7).unwrap();
        assert!(!event.take().unwrap(), "{mode:?}");
        device.signal(&fence, 8).unwrap();
        event.wait().unwrap();
        device.signal(&fence, 9).unwrap();
        assert!(!event.take().unwrap(), "{mode:?}: once");
        assert_eq!(heard.count(|e| matches!(e, events::Event::EventSet { .. })), 2, "{mode:?}");
        // An event that is closed before the wait ends is not set.
        device.wait_async(&[(&fence, 10)], &event, WaitFlags::empty()).unwrap();
        drop(event);
        device.signal(&fence, 10).unwrap();
        assert_eq!(heard.count(|e| matches!(e, events::Event::EventSet { .. })), 2, "{mode:?}");
    }
}

/// The blocking form in real time: a thread sleeps in the call until another one signals.
#[test]
fn a_blocking_wait_ends_with_the_signal() {
    // spec: sync §3.5, sync §3.6
    // seed: C20, C21, N02, N03
    let (_host, gpu) = world("wddm2-packets", Mode::Real);
    let device = gpu.device();
    let fence = monitored(device);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| device.wait(&[(&fence, 3)]));
        device.signal(&fence, 2).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!waiting.is_finished(), "2 is not 3");
        device.signal(&fence, 3).unwrap();
        waiting.join().unwrap().unwrap();
    });
}

#[test]
fn a_rewind_has_to_be_allowed_and_brings_no_wait_back() {
    // spec: sync §1.6, sync §2.4, sync §6 B4
    for profile in ADAPTERS {
        let (_host, gpu) = world(profile, VIRTUAL);
        let device = gpu.device();
        let fence = device.create_monitored_fence(FenceFlags::empty(), 10).unwrap();
        let event = event(&gpu);
        device.wait_async(&[(&fence, 11)], &event, WaitFlags::empty()).unwrap();
        device.signal(&fence, 12).unwrap();
        assert!(event.take().unwrap(), "{profile}");
        device.signal_with(&[(&fence, 4)], SignalFlags::ALLOW_FENCE_REWIND).unwrap();
        assert_eq!(fence.current(), 4, "{profile}");
        assert!(!event.take().unwrap(), "{profile}: released stays released");
        device.wait_async(&[(&fence, 5)], &event, WaitFlags::empty()).unwrap();
        assert!(!event.take().unwrap(), "{profile}: 4 is not 5");
        device.signal(&fence, 5).unwrap();
        assert!(event.take().unwrap(), "{profile}");
        // Equal is success without effect.
        device.signal(&fence, 5).unwrap();
    }
}

#[test]
fn destruction_and_loss_end_waits() {
    // spec: sync §6 B8, sync §3.4, sync §3.16
    let (host, gpu) = world("wddm2-packets", VIRTUAL);
    let device = gpu.device();
    let (fence, event) = (monitored(device), event(&gpu));
    device.wait_async(&[(&fence, 1)], &event, WaitFlags::empty()).unwrap();
    drop(fence);
    assert!(event.take().unwrap(), "unblocked by the destruction");
    // A device that is lost signals what it may signal to the maximum, unless the fence keeps its value.
    let fence = monitored(device);
    let keeps = device.create_monitored_fence(FenceFlags::NO_SIGNAL_MAX_VALUE_ON_TDR, 2).unwrap();
    device.wait_async(&[(&keeps, 3)], &event, WaitFlags::empty()).unwrap();
    let context = VirtualContext::create(device, NODE, Vec::new()).unwrap();
    let mut wild = Commands::new();
    wild.fill(GpuVa(0x7fff_0000_0000), 4096, 1);
    let buffer = Buffer::new(&gpu, &wild);
    buffer.run(&context);
    drain(&host);
    assert_eq!((fence.current(), keeps.current()), (u64::MAX, 2));
    assert!(event.take().unwrap(), "the wait is over all the same");
    assert_eq!(device.wait(&[(&fence, 1)]).unwrap_err().status, NtStatus::DEVICE_REMOVED);
}
