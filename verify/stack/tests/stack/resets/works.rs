//! Works of the paging ring that a reset finds half done, or not begun: the kernel completes their part without the hardware, and no call
//! waits for them any more.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use d3dkmt::{
    DeviceState, EvictFlags, GpuVaMapping, GpuVaProtection, Lock, MakeResidentFlags, NativeFenceRequest, Residency,
};
use ddi::{DmaFault, Interrupt, Notify, PageFault};
use dxgk_host::{Host, ProcessLink, RecoveryPolicy};
use softgpu_umd::{Commands, GpuWait, Surface, SurfaceKind};
use wddm_types::GpuVa;

use super::{Breakage, Worker, bring_in};
use crate::stubborn::{FenceStep, Step, Whims, WindowStep};
use stack::world::{MIB, VIRTUAL, client};

/// A page of the window of this profile.
const WINDOW_PAGE: u64 = 64 << 10;

/// A fault of the paging ring that the driver has not told the kernel of yet: meanwhile more is queued, and nothing is done.
#[derive(Clone, Default)]
struct Late {
    fault: Arc<Mutex<Option<Fault>>>,
    told: Arc<AtomicBool>,
}

enum Fault {
    Queue(PageFault),
    Packet(DmaFault),
}

struct Bench {
    breakage: Breakage,
    late: Late,
    bystander: Worker,
    host: Arc<Host>,
}

impl Bench {
    fn new(profile: &str, hear: impl FnOnce(Whims) -> Whims) -> Bench {
        let (breakage, late) = (Breakage::default(), Late::default());
        let Late { fault, told } = late.clone();
        let say = Box::new(move |interrupt: Interrupt<'_>, notify: &mut dyn Notify| {
            let mut fault = fault.lock().unwrap();
            match interrupt {
                Interrupt::HwQueuePageFaulted(what) => *fault = Some(Fault::Queue(what)),
                Interrupt::DmaPageFaulted(what) => *fault = Some(Fault::Packet(what)),
                other => notify.interrupt(other),
            }
            match fault.take_if(|_| told.load(Ordering::SeqCst)) {
                Some(Fault::Queue(what)) => notify.interrupt(Interrupt::HwQueuePageFaulted(what)),
                Some(Fault::Packet(what)) => notify.interrupt(Interrupt::DmaPageFaulted(what)),
                None => {}
            }
        });
        let whims = hear(Whims { say, ..breakage.whims() });
        let (host, _) = breakage.host_with(profile, VIRTUAL, RecoveryPolicy::default(), whims);
        let bystander = Worker::new(&host);
        while host.step() {}
        Bench { breakage, late, bystander, host }
    }

    /// The ring's next work breaks the hardware.
    fn break_next(&self) {
        self.breakage.next.store(true, Ordering::SeqCst);
    }

    /// Locked content whose way out never ends: all later works of the ring wait behind it, and are never built.
    fn stuck_move(&self, worker: &mut Worker) -> (Surface, Lock) {
        let surface = lockable(worker, 1);
        let lock = surface.lock().expect("the CPU sees it there");
        self.break_next();
        evict(worker, &surface);
        (surface, lock)
    }

    /// The kernel hears of the fault with the next interrupt. After the reset a new process's work runs.
    fn reset(&mut self) {
        self.late.told.store(true, Ordering::SeqCst);
        // It may still end before the reset, or be lost in it.
        let _ = self.bystander.run();
        while self.host.step() {}
        assert_eq!((self.bystander.state(), self.host.stopped()), (DeviceState::Reset, None));
        self.works();
    }

    fn works(&self) {
        let mut fresh = Worker::new(&self.host);
        let surface = fresh.local(MIB);
        bring_in(&fresh.gpu, &surface).expect("room");
        fresh.write(&surface, 4).expect("it runs");
        assert!(fresh.holds(&surface, 4));
        self.host.check_invariants().unwrap_or_else(|broken| panic!("{broken:?}"));
    }
}

fn evict(worker: &Worker, surface: &Surface) {
    worker.gpu.device().evict(vec![surface.allocation().handle()], EvictFlags::empty()).expect("it is listed");
}

fn lockable(worker: &mut Worker, seed: u64) -> Surface {
    let surface = worker.gpu.create_lockable_surface(SurfaceKind::LocalThenSystem, MIB, false).expect("a surface");
    bring_in(&worker.gpu, &surface).expect("room");
    worker.write(&surface, seed).expect("it runs");
    surface
}

#[test]
fn the_driver_forgets_what_works_were_to_destroy_that_never_ran() {
    // spec: memory §6.2, memory §8.4
    let living = Arc::new(AtomicI64::new(0));
    let count = Arc::clone(&living);
    let hear = Box::new(move |step: Step| {
        let change = match step {
            Step::Create(allocations, _) => allocations.len() as i64,
            Step::Destroy(allocations, _) => -(allocations.len() as i64),
            Step::Open(..) | Step::Close(..) => 0,
        };
        count.fetch_add(change, Ordering::SeqCst);
    });
    let mut bench = Bench::new("discrete-4k", |whims| Whims { hear, ..whims });
    let before = living.load(Ordering::SeqCst);
    let mut worker = Worker::new(&bench.host);
    let gone = worker.local(MIB);
    bring_in(&worker.gpu, &gone).expect("room");
    worker.write(&gone, 2).expect("it runs");
    let kept = bench.stuck_move(&mut worker);
    let all = living.load(Ordering::SeqCst);
    drop(gone);
    assert_eq!(living.load(Ordering::SeqCst), all, "its turn has not come");
    bench.reset();
    assert_eq!(living.load(Ordering::SeqCst), all - 1, "the work is over, and the driver was told");
    drop((kept, worker));
    while bench.host.step() {}
    assert_eq!(living.load(Ordering::SeqCst), before, "nothing is left");
}

#[test]
fn values_of_paging_fences_are_reached_though_their_works_never_ran() {
    // spec: memory §5.2, memory §8.4
    for profile in ["discrete-4k", "by-address"] {
        let mut bench = Bench::new(profile, |whims| whims);
        let worker = Worker::new(&bench.host);
        let (first, second) = (worker.local(MIB), worker.local(MIB));
        while bench.host.step() {}
        bench.break_next();
        let promised = [&first, &second].map(|surface| {
            let list = vec![surface.allocation().handle()];
            match worker.gpu.paging().make_resident(list, MakeResidentFlags::empty()).expect("room") {
                Residency::Pending { paging_fence_value, .. } => paging_fence_value,
                Residency::Resident => panic!("{profile}: it has to be brought in"),
            }
        });
        let reached = || worker.gpu.paging().fence().current();
        assert!(reached() < promised[0], "{profile}");
        bench.reset();
        assert_eq!(reached(), promised[1], "{profile}: a wait for it ends");
    }
}

#[test]
fn a_ring_that_waited_for_a_lost_device_waits_no_more() {
    // spec: memory §5.3, memory §8.4
    let mut bench = Bench::new("discrete-4k", |whims| whims);
    let (mut held, breaker) = (client(&bench.host), Worker::new(&bench.host));
    let surface = held.pinned(SurfaceKind::Local, MIB);
    let broken = breaker.local(MIB);
    let gate = held.gpu.device().create_native_fence(NativeFenceRequest::default()).expect("a fence");
    while bench.host.step() {}
    bench.break_next();
    let list = vec![broken.allocation().handle()];
    breaker.gpu.paging().make_resident(list, MakeResidentFlags::empty()).expect("room");
    // Its work waits for a gate, and the eviction of its surface waits for that work.
    let mut commands = Commands::new();
    commands.pattern(surface.va(), MIB, 5);
    let wait = GpuWait { fence: (&gate).into(), value: 1 };
    held.stream.submit(&held.gpu, &[wait], &commands).expect("a submission");
    held.gpu.device().evict(vec![surface.allocation().handle()], EvictFlags::empty()).expect("it is listed");
    bench.reset();
    drop((gate, surface, held));
    bench.works();
}

#[test]
fn the_fence_of_the_ring_goes_with_the_ring_that_is_over() {
    // spec: memory §4.7, memory §8.4
    let living = Arc::new(Mutex::new(BTreeSet::new()));
    let known = Arc::clone(&living);
    let hear_fence = Box::new(move |step: FenceStep| {
        let mut known = known.lock().unwrap();
        let as_expected = match step {
            FenceStep::Create(fence) => known.insert(fence.0),
            FenceStep::Destroy(fence) => known.remove(&fence.0),
            _ => true,
        };
        assert!(as_expected, "each comes and goes once");
    });
    let bench = Bench::new("discrete-4k", |whims| Whims { hear_fence, ..whims });
    bench.late.told.store(true, Ordering::SeqCst);
    let before = living.lock().unwrap().len();
    for round in 0..3 {
        super::break_hardware(&bench.breakage, &mut Worker::new(&bench.host));
        while bench.host.step() {}
        bench.works();
        while bench.host.step() {}
        assert_eq!(living.lock().unwrap().len(), before, "after {} resets", round + 1);
    }
}

#[test]
fn the_window_shows_nothing_that_is_lost() {
    // spec: memory §3.5, memory §6.6, memory §8.4
    let shown = Arc::new(Mutex::new(BTreeSet::new()));
    let pages = Arc::clone(&shown);
    let hear_window = Box::new(move |step: WindowStep<'_>| {
        let mut shown = pages.lock().unwrap();
        match step {
            WindowStep::Map(pages) => shown.extend(pages.iter().copied()),
            WindowStep::Unmap(pages) => shown.retain(|page| !pages.contains(page)),
        }
    });
    let mut bench = Bench::new("small-bar", |whims| Whims { hear_window, ..whims });
    let mut worker = Worker::new(&bench.host);
    while bench.host.step() {}
    let before: BTreeSet<u32> = shown.lock().unwrap().clone();
    let more = || (&*shown.lock().unwrap() - &before).len() as u64;
    // One stays locked, one keeps its window for the next lock, and one is on its way out.
    let surfaces = [1, 2, 3].map(|seed| lockable(&mut worker, seed));
    let [locked, unlocked, leaving] = [0, 1, 2].map(|which: usize| surfaces[which].lock().expect("a window"));
    drop(unlocked);
    assert_eq!(more(), 3 * MIB / WINDOW_PAGE);
    bench.break_next();
    evict(&worker, &surfaces[2]);
    bench.reset();
    assert_eq!(more(), 0, "the window shows no lost memory");
    // A new process can use all of the window.
    drop((locked, leaving, surfaces, worker));
    let mut fresh = Worker::new(&bench.host);
    let all: Vec<Surface> = (0..7).map(|seed| lockable(&mut fresh, seed)).collect();
    let locks: Vec<Lock> = all.iter().map(|surface| surface.lock().expect("a window")).collect();
    assert_eq!(more(), 7 * MIB / WINDOW_PAGE);
    drop(locks);
    bench.host.check_invariants().expect("in order");
}

#[test]
fn a_root_that_was_to_be_switched_is_the_one_that_later_contexts_get() {
    // spec: memory §4.2, memory §8.4
    let mut bench = Bench::new("levels-2", |whims| whims);
    let process = ProcessLink::new(Arc::clone(&bench.host));
    let mut worker = Worker::of(&bench.host, Arc::clone(&process));
    let kept = bench.stuck_move(&mut worker);
    // Beyond the root that it has.
    let mapping = GpuVaMapping {
        base: GpuVa((1 << 32) + 0x10000),
        size_in_pages: 1,
        protection: GpuVaProtection::WRITE,
        ..GpuVaMapping::default()
    };
    worker.gpu.paging().map_gpu_va(Some(kept.0.allocation()), mapping).expect("free");
    bench.reset();
    let mut again = Worker::of(&bench.host, process);
    let surface = again.local(MIB);
    bring_in(&again.gpu, &surface).expect("room");
    again.write(&surface, 8).expect("it runs");
    assert!(again.holds(&surface, 8), "under the longer root");
    drop(kept);
}
