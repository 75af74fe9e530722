//! A device gives way whose waiting work uses what others need: its work has its turn afterwards, and finds its content as it was.

use std::sync::Arc;

use d3dkmt::{DestroyFlags, Device, EvictFlags, Fence, OfferFlags, Residency, ResidencyStatus};
use ddi::PowerState;
use dxgk_host::Host;
use kmt_calls::{Call, GpuVaCall, GpuVaProtection};
use kmt_link::Link;
use softgpu_umd::{Stage, Surface, SurfaceKind};
use wddm_types::GpuVa;

use crate::bystanders::{self, BOUND_NS, Player, QUEUES, USED, host_of, player};
use crate::preemption::COMPUTE;
use crate::timeouts::drain;
use stack::world::MIB;

const MS: u64 = 1_000_000;

/// A process whose work copies a surface behind its own fence.
struct Holder {
    host: Arc<Host>,
    player: Player,
    go: Fence,
    used: Surface,
    read: Surface,
    report: Surface,
    last: u64,
}

impl Holder {
    fn of(host: &Arc<Host>, stage: Stage) -> Self {
        Self::behind(player(host, stage), host, |player, go| {
            player.lane.wait_on_gpu(&player.gpu, None, go, 1).expect("a wait")
        })
    }

    /// The work runs for a second before it copies, on another node than the ring, in parts of less than a turn.
    fn running(host: &Arc<Host>, stage: Stage) -> Self {
        let parts = |player: &mut Player, _: &Fence| (0..100).for_each(|_| player.lane.work(10 * MS));
        Self::behind(bystanders::player_on(COMPUTE, host, stage), host, parts)
    }

    /// The work stands behind what `until` records.
    fn behind(mut player: Player, host: &Arc<Host>, until: impl FnOnce(&mut Player, &Fence)) -> Self {
        let used = player.pinned(SurfaceKind::Local, USED);
        let (read, report) = (player.pinned(SurfaceKind::System, USED), player.pinned(SurfaceKind::System, 4096));
        player.lane.pattern(&used, 5);
        player.completes();
        let go = player.fence();
        until(&mut player, &go);
        player.lane.copy(&used, 0, &read, 0, USED);
        let last = player.submit();
        Self { host: Arc::clone(host), player, go, used, read, report, last }
    }

    fn gives_up(&self, how: GivesUp) {
        match how {
            GivesUp::Evicts => self.player.evict(&self.used, EvictFlags::empty()),
            GivesUp::Destroys => self.used.allocation().destroy(DestroyFlags::empty()).expect("it is there"),
            GivesUp::Offers => {
                let list = vec![self.used.allocation().handle()];
                self.player.gpu.device().offer(list, 1, OfferFlags::empty()).expect("it is there");
            }
        }
    }

    /// The client lets its work go on, which finds what it wrote; content that was to come has come behind it.
    fn goes_on(mut self, comes: Option<(&Surface, Residency)>) {
        let player = &mut self.player;
        player.gpu.device().signal(&self.go, 1).expect("the work goes on");
        player.lane.wait(&player.gpu, self.last).expect("it has its turn");
        player.lane.check(&self.read, 5, &self.report, 1);
        if let Some((next, comes)) = comes {
            if let Residency::Pending { paging_fence_value, .. } = comes {
                let paging = player.gpu.paging().fence();
                player.gpu.device().wait(&[(paging, paging_fence_value)]).expect("the content comes behind it");
            }
            player.lane.pattern(next, 9);
            player.lane.check(next, 9, &self.report, 2);
        }
        player.completes();
        let report = self.report.lock().expect("system memory");
        assert_eq!([0, 8].map(|at| report.read_word(at)), [0, 0], "other bytes");
        drain(&self.host);
        self.host.check_invariants().expect("nothing is left of it");
    }
}

/// A bystander makes a surface resident and has work write it, within the bound.
fn goes_on_within_bound(host: &Host, player: &mut Player, surface: impl FnOnce(&Player) -> Surface) {
    goes_on_within(BOUND_NS, host, player, surface);
}

/// As [`goes_on_within_bound`], within so many nanoseconds.
fn goes_on_within(bound_ns: u64, host: &Host, player: &mut Player, surface: impl FnOnce(&Player) -> Surface) {
    let began = player.link.now_ns();
    let surface = surface(player);
    player.lane.fill(&surface, 0, 4096, 7);
    player.completes();
    let took = player.link.now_ns() - began;
    assert!(took <= bound_ns, "{took} ns");
    host.check_invariants().expect("each hold has its end");
}

/// A device evicts what its waiting work uses and makes other content resident in its place; a bystander takes room, for which the device gives
/// way. Answers with the answer of that MakeResident.
fn gives_way_for_a_bystander(
    host: &Arc<Host>,
    player: &Player,
    used: &Surface,
    next: &Surface,
    stage: Stage,
) -> Residency {
    player.evict(used, EvictFlags::empty());
    let comes = player.make_resident(next);
    let mut other = bystanders::player(host, stage);
    goes_on_within_bound(host, &mut other, |other| other.pinned(SurfaceKind::Local, MIB));
    comes
}

/// The kinds of queues whose buffers do not name what they use: those of the first generation keep it on the list.
fn queues() -> impl Iterator<Item = (&'static str, Stage)> {
    QUEUES.into_iter().filter(|(profile, _)| *profile != "wddm1-banks")
}

/// How a holder gives up what its waiting work uses.
#[derive(Clone, Copy, Debug)]
enum GivesUp {
    Evicts,
    Destroys,
    Offers,
}

const GIVES_UP: [GivesUp; 3] = [GivesUp::Evicts, GivesUp::Destroys, GivesUp::Offers];

/// Each kind of queue, on a host of its own, with each way.
fn each_way(each: impl Fn(&Arc<Host>, Stage, GivesUp)) {
    for ((profile, stage), how) in queues().flat_map(|queue| GIVES_UP.map(|how| (queue, how))) {
        eprintln!("{profile}, {stage:?}, {how:?}");
        each(&host_of(profile).0, stage, how);
    }
}

/// Another process needs the room of content that waiting work uses.
#[test]
fn a_device_gives_way_whose_waiting_work_uses_what_another_process_needs_the_room_of() {
    // spec: memory §8.6, memory §10.1
    each_way(|host, stage, how| {
        let holder = Holder::of(host, stage);
        holder.gives_up(how);
        let mut other = player(host, stage);
        goes_on_within_bound(host, &mut other, |other| other.pinned(SurfaceKind::Local, 3 * MIB));
        holder.goes_on(None);
    });
}

/// The hardware runs the work for a second, and preempts it when the kernel asks.
#[test]
fn a_device_gives_way_whose_work_runs_for_long() {
    // spec: memory §8.6, memory §10.1
    each_way(|host, stage, how| {
        let holder = Holder::running(host, stage);
        holder.gives_up(how);
        let mut other = player(host, stage);
        goes_on_within(100 * MS + BOUND_NS, host, &mut other, |other| other.pinned(SurfaceKind::Local, 3 * MIB));
        holder.goes_on(None);
    });
}

/// A process evicts what its waiting work uses and makes other content resident in its place: another process goes on, and the other content
/// comes behind the work.
#[test]
fn a_device_withholds_what_it_has_made_resident_in_place_of_what_its_waiting_work_uses() {
    // spec: memory §4.9, memory §8.6, memory §10.1
    let mut withheld = 0;
    for (profile, stage) in queues() {
        eprintln!("{profile}, {stage:?}");
        let (host, _) = host_of(profile);
        let holder = Holder::of(&host, stage);
        let next = holder.player.gpu.create_surface(SurfaceKind::Local, 3 * MIB).expect("a surface");
        let comes = gives_way_for_a_bystander(&host, &holder.player, &holder.used, &next, stage);
        if let Residency::Pending { paging_fence_value, .. } = comes {
            withheld += u32::from(holder.player.gpu.paging().fence().current() < paging_fence_value);
        }
        holder.goes_on(Some((&next, comes)));
    }
    assert!(withheld >= 3, "adapters with memory of their own: {withheld}");
}

/// A device that withholds content makes more resident, which a lock keeps out for a while: the value comes with the content, not with the
/// turn before it; whether the device waits for a turn then or has one.
#[test]
fn content_that_a_lock_keeps_out_comes_behind_what_its_device_withholds() {
    // spec: memory §4.9, memory §8.6, memory §10.1 row 23
    let mut held = 0;
    for ((profile, stage), has_turn) in queues().flat_map(|queue| [false, true].map(|has_turn| (queue, has_turn))) {
        eprintln!("{profile}, {stage:?}, has a turn: {has_turn}");
        let (host, _) = host_of(profile);
        let Holder { mut player, go, used, last, .. } = Holder::of(&host, stage);
        let surface = |bytes| player.gpu.create_surface(SurfaceKind::Local, bytes).expect("a surface");
        let [next, late] = [3 * MIB, 2 * MIB].map(surface);
        let comes = gives_way_for_a_bystander(&host, &player, &used, &next, stage);
        if has_turn {
            drain(&host);
        }
        if let Residency::Pending { paging_fence_value, .. } = comes {
            let paging = player.gpu.paging().fence();
            player.lane.wait_on_gpu(&player.gpu, None, paging, paging_fence_value).expect("a wait");
        }
        player.lane.fill(&next, 0, 4096, 9);
        player.submit();
        player.evict(&next, EvictFlags::empty());
        let lock = late.lock().expect("it is not resident");
        let comes = player.make_resident(&late);
        drop(lock);
        player.gpu.device().signal(&go, 1).expect("the work goes on");
        if let Residency::Pending { paging_fence_value, .. } = comes {
            let paging = player.gpu.paging().fence();
            player.gpu.device().wait(&[(paging, paging_fence_value)]).expect("it has its turn");
            let there = late.allocation().residency().expect("it is there");
            assert_ne!(there, ResidencyStatus::NotResident, "the value says that the content is there");
            held += 1;
        }
        player.lane.wait(&player.gpu, last).expect("it has its turn");
        player.lane.fill(&late, 0, 4096, 9);
        player.completes();
        drain(&host);
        host.check_invariants().expect("nothing is left of it");
    }
    assert!(held >= 6, "adapters with memory of their own, each way: {held}");
}

/// Waiting buffers whose lists are residency bring more than the memory holds, each in portions, and all the same content: a bystander goes on,
/// and each buffer finds its content as the one before it has left it.
#[test]
fn each_waiting_buffer_brings_the_same_content_again() {
    // spec: memory §6.1, memory §8.6
    let (host, _) = host_of("wddm1-banks");
    let [mut holder, mut other] = [(); 2].map(|()| player(&host, Stage::Packet));
    let go = holder.fence();
    holder.lane.wait_on_gpu(&holder.gpu, None, &go, 1).expect("a wait");
    let queues = |player: &mut Player| {
        let surface = |kind, bytes| player.gpu.create_surface(kind, bytes).expect("a surface");
        let surfaces: Vec<Surface> = (0..6).map(|_| surface(SurfaceKind::Local, MIB)).collect();
        let report = surface(SurfaceKind::System, 4096);
        let mut last = 0;
        for round in 0..6 {
            for (nth, surface) in (1..).zip(&surfaces) {
                if round > 0 {
                    player.lane.check(surface, round * 8 + nth - 8, &report, nth);
                }
                player.lane.pattern(surface, round * 8 + nth);
            }
            last = player.submit();
        }
        (surfaces, report, last)
    };
    let ends = |player: &mut Player, (_, report, last): &(Vec<Surface>, Surface, u64)| {
        player.lane.wait(&player.gpu, *last).expect("it completes");
        assert_eq!(report.lock().expect("system memory").read_word(0), 0, "content was lost");
    };
    let held = queues(&mut holder);
    let quick = queues(&mut other);
    ends(&mut other, &quick);
    holder.gpu.device().signal(&go, 1).expect("the work goes on");
    ends(&mut holder, &held);
    drain(&host);
    host.check_invariants().expect("nothing is left of it");
}

/// A call waits until the ring has got past what is queued, and queues nothing.
#[test]
fn a_device_gives_way_to_calls_that_wait_for_the_ring() {
    // spec: memory §8.6, memory §10.1
    for (profile, stage) in queues() {
        eprintln!("{profile}, {stage:?}");
        let (host, _) = host_of(profile);
        let other = player(&host, stage);
        let holder = Holder::of(&host, stage);
        let next = holder.player.gpu.create_surface(SurfaceKind::Local, 3 * MIB).expect("a surface");
        holder.player.evict(&holder.used, EvictFlags::empty());
        let comes = holder.player.make_resident(&next);
        let began = other.link.now_ns();
        Device::create(other.gpu.adapter()).expect("a device");
        assert!(other.link.now_ns() - began <= BOUND_NS, "{} ns", other.link.now_ns() - began);
        holder.goes_on(Some((&next, comes)));
    }
}

/// The computer falls asleep while the ring waits for a use that its client alone ends. Other processes need not be there.
#[test]
fn a_device_gives_way_to_the_computer_that_falls_asleep() {
    // spec: memory §1.10, memory §8.4, memory §8.6
    let states = [PowerState::Standby, PowerState::Hibernate];
    let ways = || states.into_iter().flat_map(|state| GIVES_UP.map(|how| (state, how)));
    for ((profile, stage), (state, how)) in queues().flat_map(|queue| ways().map(move |way| (queue, way))) {
        eprintln!("{profile}, {stage:?}, {state:?}, {how:?}");
        let (host, _) = host_of(profile);
        let holder = Holder::of(&host, stage);
        holder.gives_up(how);
        host.power_transition(state).expect("the work waits, and the computer sleeps");
        host.check_invariants().expect("nothing waits");
        host.power_transition(PowerState::On).expect("it wakes");
        holder.goes_on(None);
    }
}

/// PnP stops the adapter while the ring waits for a use that its client alone ends.
#[test]
fn a_device_gives_way_to_a_stop() {
    // spec: memory §8.4, memory §8.6
    each_way(|host, stage, how| {
        let holder = Holder::of(host, stage);
        holder.gives_up(how);
        host.stop_adapter().expect("the work waits, and the adapter stops");
        host.check_invariants().expect("nothing waits");
    });
}

/// A process has queued as much paging work as the kernel lets outstanding, so that calls of others that move memory wait.
#[test]
fn a_device_gives_way_to_calls_that_wait_for_less_paging_work() {
    // spec: memory §8.6, memory §10.1
    let (host, _) = host_of("discrete-4k");
    let mut other = player(&host, Stage::User);
    let theirs = other.gpu.create_surface(SurfaceKind::Local, MIB).expect("a surface");
    let holder = Holder::of(&host, Stage::User);
    let next = holder.player.gpu.create_surface(SurfaceKind::Local, 3 * MIB).expect("a surface");
    holder.player.evict(&holder.used, EvictFlags::empty());
    let comes = holder.player.make_resident(&next);
    let map = Call::GpuVa(GpuVaCall::MapGpuVirtualAddress {
        paging_queue: holder.player.gpu.paging().handle(),
        allocation: holder.report.allocation().handle(),
        base: GpuVa(0),
        minimum: GpuVa(0),
        maximum: GpuVa(0),
        offset_in_pages: 0,
        size_in_pages: 1,
        protection: GpuVaProtection::WRITE,
        driver_protection: 0,
    });
    let process = holder.player.link.process();
    let blocked = (0..20_000).any(|_| host.begin_call(process, map.clone()).is_err());
    assert!(blocked, "each call queues a work");
    goes_on_within_bound(&host, &mut other, |other| {
        other.gpu.pin(&theirs).expect("room");
        theirs
    });
    holder.goes_on(Some((&next, comes)));
}
