//! Two GPUs hand each other content: one writes where both see it and signals, the other waits, reads every byte, writes its own
//! and signals back. Everything is submitted at once, so only fences keep the order; each side feeds its engine in each way.

use softgpu_umd::{CrossFence, CrossMemory, Lane, Stage, Surface, SurfaceKind, UmdError};

use super::*;
use stack::world::{VIRTUAL, host_of_several};

const BYTES: u64 = 64 << 10;
/// Where in the common memory content is handed over.
const PLACE: u64 = 8192;
const ROUNDS: u64 = 16;

/// One GPU at work.
struct Player {
    lane: Lane,
    own: Surface,
    report: Surface,
    gpu: Gpu,
}

impl Player {
    fn new(gpu: Gpu, stage: Stage) -> Player {
        let lane = Lane::create_at(&gpu, NODE, stage).expect("a lane");
        let [own, report] = [SurfaceKind::Local, SurfaceKind::System].map(|kind| {
            let surface = gpu.create_surface(kind, BYTES).expect("a surface");
            gpu.pin(&surface).expect("room");
            surface
        });
        Player { lane, own, report, gpu }
    }

    fn takes(&mut self, common: &Surface, seed: u64) {
        self.lane.copy(common, PLACE, &self.own, 0, BYTES);
        self.lane.check(&self.own, seed, &self.report, seed);
    }

    fn gives(&mut self, common: &Surface, seed: u64) {
        self.lane.pattern(&self.own, seed);
        self.lane.copy(&self.own, 0, common, PLACE, BYTES);
    }

    fn submit(&mut self, waits: &[(&Fence, u64)], signals: &[(&Fence, u64)]) {
        self.lane.submit_synced(&self.gpu, None, waits, signals).expect("a submission");
    }

    /// Waits until everything is done; returns the first difference.
    fn outcome(&mut self) -> u64 {
        let last = self.lane.last_value();
        self.lane.wait(&self.gpu, last).expect("it completes");
        self.report.lock().expect("a lock").read_word(0)
    }
}

/// Hands content there and back, so often.
fn hand_over(mode: Mode, profiles: [&str; 2], stages: [Stage; 2]) {
    let host = host_of_several(mode, &profiles, |_, _| ());
    let link = ProcessLink::new(Arc::clone(&host));
    let [mut there, mut here] = [0, 1].map(|at| Player::new(gpu_on(&host, &link, at), stages[at]));
    let memory = CrossMemory::create(&[&there.gpu, &here.gpu], PLACE + BYTES).expect("common memory");
    let turn = CrossFence::create(&[&there.gpu, &here.gpu]).expect("a fence");
    for round in 0..ROUNDS {
        if round > 0 {
            there.takes(memory.on(0), 2 * round);
        }
        there.gives(memory.on(0), 2 * round + 1);
        let mine = [(turn.on(0), 2 * round)];
        there.submit(if round > 0 { &mine } else { &[] }, &[(turn.on(0), 2 * round + 1)]);
        here.takes(memory.on(1), 2 * round + 1);
        here.gives(memory.on(1), 2 * round + 2);
        here.submit(&[(turn.on(1), 2 * round + 1)], &[(turn.on(1), 2 * round + 2)]);
    }
    there.takes(memory.on(0), 2 * ROUNDS);
    there.submit(&[(turn.on(0), 2 * ROUNDS)], &[]);
    let outcomes = [there.outcome(), here.outcome()];
    assert_eq!(outcomes, [0; 2], "{mode:?} {profiles:?} {stages:?}: every byte is what was handed over");
    assert_eq!([0, 1].map(|at| turn.on(at).current()), [2 * ROUNDS; 2]);
    drop((memory, turn));
    host.check_invariants().unwrap();
}

#[test]
fn each_stage_hands_content_to_each() {
    // spec: sync §4.1, sync §3.12, memory §2.7
    let stages = [Stage::Packet, Stage::Hardware, Stage::User];
    for mode in [VIRTUAL, Mode::Real] {
        for there in stages {
            for here in stages {
                hand_over(mode, ["discrete-4k", "integrated"], [there, here]);
            }
        }
    }
}

#[test]
fn adapters_with_and_without_native_fences_hand_content_to_each_other() {
    // spec: sync §3.12, sync §3.13
    for mode in [VIRTUAL, Mode::Real] {
        hand_over(mode, ["wddm2-packets", "discrete-64k"], [Stage::Packet, Stage::User]);
        hand_over(mode, ["iommu", "wddm2-packets"], [Stage::Hardware, Stage::Packet]);
        hand_over(mode, ["atomics-32", "basic-engines"], [Stage::Packet, Stage::Packet]);
        hand_over(mode, ["iommu-packets", "iommu"], [Stage::Packet, Stage::User]);
        hand_over(mode, ["peer-doorbells", "peer-doorbells"], [Stage::User, Stage::User]);
    }
}

#[test]
fn a_queue_of_the_process_s_own_takes_no_monitored_fence() {
    // spec: sync §5
    let host = host_of_several(VIRTUAL, &["discrete-4k"], |_, _| ());
    let link = ProcessLink::new(Arc::clone(&host));
    let monitored = |player: &Player| player.gpu.device().create_monitored_fence(FenceFlags::empty(), 0).unwrap();
    let mut own = Player::new(gpu_on(&host, &link, 0), Stage::User);
    let fence = monitored(&own);
    own.lane.pattern(&own.own, 5);
    for (waits, signals) in [(vec![(&fence, 1)], vec![]), (vec![], vec![(&fence, 1)])] {
        let refused = own.lane.submit_synced(&own.gpu, None, &waits, &signals);
        assert!(matches!(refused, Err(UmdError::NotNative(va)) if va == fence.current_va().0), "{refused:?}");
    }
    assert_eq!(own.lane.last_value(), 0, "nothing was submitted");
    own.lane.check(&own.own, 5, &own.report, 1);
    own.submit(&[], &[]);
    assert_eq!(own.outcome(), 0, "and what was recorded is");
    for stage in [Stage::Hardware, Stage::Packet] {
        let mut fed = Player::new(gpu_on(&host, &link, 0), stage);
        let fence = monitored(&fed);
        fed.gpu.device().signal(&fence, 1).unwrap();
        fed.lane.pattern(&fed.own, 6);
        fed.submit(&[(&fence, 1)], &[(&fence, 2)]);
        assert_eq!(fed.outcome(), 0);
        fed.gpu.device().wait(&[(&fence, 2)]).expect("the kernel signals it");
    }
}

#[test]
fn who_cannot_share_memory_is_told_so() {
    // spec: memory §1.14 bit 4
    let host = host_of_several(VIRTUAL, &["discrete-4k", "wddm1-banks", "integrated"], |_, _| ());
    let link = ProcessLink::new(Arc::clone(&host));
    let gpus: Vec<Gpu> = (0..3).map(|index| gpu_on(&host, &link, index)).collect();
    let refused = CrossMemory::create(&[&gpus[0], &gpus[1]], BYTES).err();
    assert!(matches!(refused, Some(UmdError::Lacks(_))), "{refused:?}");
    let stranger = gpu_on(&host, &ProcessLink::new(Arc::clone(&host)), 2);
    let refused = CrossMemory::create(&[&gpus[0], &stranger], BYTES).err();
    assert!(matches!(refused, Some(UmdError::Refused(_))), "of another process: {refused:?}");
    let all = CrossFence::create(&[&gpus[1], &gpus[0], &gpus[2]]).expect("a fence for each of them");
    gpus[1].device().signal(all.on(0), 3).unwrap();
    gpus[2].device().wait(&[(all.on(2), 3)]).unwrap();
    let native = [0, 1, 2].map(|index| !all.on(index).monitored_va().is_null());
    assert_eq!(native, [false, true, true], "native where there are native fences");
    host.check_invariants().unwrap();
}

#[test]
fn a_lane_without_addresses_copies_by_its_lists() {
    // spec: memory §7.3
    let host = host_of_several(VIRTUAL, &["wddm1-banks"], |_, _| ());
    let link = ProcessLink::new(Arc::clone(&host));
    let mut player = Player::new(gpu_on(&host, &link, 0), Stage::Packet);
    let other = player.gpu.create_surface(SurfaceKind::System, PLACE + BYTES).expect("a surface");
    player.gpu.pin(&other).expect("room");
    let fence = player.gpu.device().create_monitored_fence(FenceFlags::empty(), 0).expect("a fence");
    player.gives(&other, 7);
    player.submit(&[], &[(&fence, 1)]);
    player.lane.pattern(&player.own, 8);
    player.takes(&other, 7);
    player.submit(&[(&fence, 1)], &[]);
    assert_eq!(player.outcome(), 0);
}
