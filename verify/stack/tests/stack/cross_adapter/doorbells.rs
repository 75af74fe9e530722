//! Signals that reach other GPUs by their doorbells (sync §3.18): the scenarios of GPUs with native fences once more, with the processor's
//! remaining part.

use ddi::UpdateCurrentFlags;
use softgpu_spec::register::counter;

use super::kinds::read_by_engine;
use super::*;
use stack::world::VIRTUAL;

const GPUS: [&str; 2] = ["integrated", "discrete-4k"];
const FORMS: [PeerMode; 2] = [PeerMode::Doorbells, PeerMode::LinearStorage];

/// The fence of the second adapter's process, opened on the first.
fn sides(world: &World) -> [Side; 2] {
    let second = Side::new(world, 1, |gpu| native(gpu.device(), FenceFlags::empty()));
    let name = named(&second.fence);
    [Side::new(world, 0, |gpu| opened(gpu, &name)), second]
}

/// How often a driver was told to look, and how often its fences' interrupts came.
fn told(world: &World, adapter: usize) -> usize {
    let told = |step: &&FenceStep| matches!(step, FenceStep::Current(_, UpdateCurrentFlags::NOTIFICATION_ONLY));
    world.updates(adapter).iter().filter(told).count()
}

fn interrupts(world: &World) -> usize {
    world.news.take().iter().filter(|event| matches!(event, Event::FenceInterrupt { .. })).count()
}

fn rung(world: &World, adapter: usize) -> u64 {
    world.host.adapter(adapter).device_register(counter::PEERS_RUNG)
}

#[test]
fn every_wait_and_signal_of_two_native_gpus_ends_by_doorbells() {
    // spec: sync §3.18, sync §3.12 scenario 1, sync §3.19 property 7
    // seed: N86
    for form in FORMS {
        for (waits_on, wait, signal, wait_first) in cells() {
            let what =
                format!("{form:?}: {waits_on} waits by {wait:?}, signal by {signal:?}, wait first: {wait_first}");
            let world = World::ringing(VIRTUAL, &GPUS, |_| form);
            let mut sides = sides(&world);
            world.drain();
            let signals_on = 1 - waits_on;
            assert_eq!([told(&world, 0), told(&world, 1)], [0, 0], "{what}");
            world.news.take();
            let mut waiting = wait_first.then(|| sides[waits_on].wait(&world, wait, 10));
            world.drain();
            if let Some(waiting) = &mut waiting {
                assert!(!sides[waits_on].has_gone_on(&world, waiting, 10), "{what}");
            }
            sides[signals_on].signal(signal, 10);
            world.drain();
            let mut waiting = waiting.unwrap_or_else(|| sides[waits_on].wait(&world, wait, 10));
            world.drain();
            assert!(sides[waits_on].has_gone_on(&world, &mut waiting, 10), "{what}");
            world.host.check_invariants().expect(&what);
            // An engine's signal interrupts the processor only for a waiter there; the kernel tells a driver only values that it has
            // stored itself.
            let by_engine = signal == By::Gpu;
            let has_waiter = by_engine && wait_first && wait != By::Gpu;
            assert_eq!(interrupts(&world), usize::from(has_waiter), "{what}");
            assert_eq!(told(&world, waits_on), usize::from(!by_engine), "{what}");
            assert_eq!((rung(&world, signals_on), rung(&world, waits_on)), (u64::from(by_engine), 0), "{what}");
        }
    }
}

fn cells() -> Vec<(usize, By, By, bool)> {
    let ways = [By::Gpu, By::Cpu, By::KernelQueue];
    let pairs = ways.iter().flat_map(|wait| ways.iter().map(move |signal| (*wait, *signal)));
    let cells = pairs.flat_map(|(wait, signal)| [0, 1].map(|waits_on| (waits_on, wait, signal)));
    cells.flat_map(|(on, wait, signal)| [true, false].map(|first| (on, wait, signal, first))).collect()
}

/// Two GPUs that wait for each other in turns: the interrupts that the doorbells save, exactly.
#[test]
fn the_processor_sleeps_through_what_gpus_hand_each_other() {
    // spec: sync §3.18: power saving restored
    // seed: N86
    const TURNS: u64 = 100;
    for (form, expected) in [(PeerMode::None, TURNS), (PeerMode::Doorbells, 0), (PeerMode::LinearStorage, 0)] {
        let world = World::ringing(VIRTUAL, &GPUS, |_| form);
        let mut sides = sides(&world);
        world.drain();
        let dispatches = |world: &World| [0, 1].map(|at| world.host.adapter(at).counters().interrupt_dispatches);
        let before = dispatches(&world);
        for (first, side) in (0..).zip(&mut sides) {
            let fence = &side.fence;
            let Work::Queues { stream, .. } = &mut side.work else { panic!("it has queues") };
            let mut commands = Commands::new();
            for turn in (first..TURNS).step_by(2) {
                commands.wait(fence, turn).signal(fence, turn + 1);
            }
            stream.submit(&side.gpu, &[], &commands).expect("a submission");
        }
        world.drain();
        assert_eq!(sides[0].fence.current(), TURNS, "{form:?}");
        let after = dispatches(&world);
        let interrupts: u64 = after.iter().zip(before).map(|(after, before)| after - before).sum();
        assert_eq!(interrupts, expected, "{form:?}");
        let rings = rung(&world, 0) + rung(&world, 1);
        assert_eq!(rings, if form == PeerMode::None { 0 } else { TURNS }, "{form:?}");
    }
}

#[test]
fn two_gpus_hand_each_other_the_turn_on_threads_of_their_own() {
    // spec: sync §3.18
    for form in FORMS {
        let world = World::ringing(Mode::Real, &GPUS, |_| form);
        let mut sides = sides(&world);
        const TURNS: u64 = 400;
        for (first, side) in (0..).zip(&mut sides) {
            let fence = &side.fence;
            let Work::Queues { stream, .. } = &mut side.work else { panic!("it has queues") };
            let mut commands = Commands::new();
            for turn in (first..TURNS).step_by(2) {
                commands.wait(fence, turn).signal(fence, turn + 1);
            }
            stream.submit(&side.gpu, &[], &commands).expect("a submission");
        }
        sides[0].gpu.device().wait(&[(&sides[0].fence, TURNS)]).unwrap();
        assert_eq!(sides[1].fence.current(), TURNS);
    }
}

/// The ring says which fence: a queue that is parked on another one is not looked at, though its value has come.
#[test]
fn a_ring_names_the_fence_and_only_its_queues_are_looked_at() {
    // spec: sync §3.18
    // seed: N87
    let world = World::ringing(VIRTUAL, &GPUS, |_| PeerMode::Doorbells);
    let [mut here, mut there] = sides(&world);
    let [mut other_here, other_there] = sides(&world);
    let [mut waits, mut other_waits] = [&mut here, &mut other_here].map(|side| side.wait(&world, By::Gpu, 7));
    world.drain();
    // The test stores the value without a signal.
    let word = world.host.system_memory().word(other_there.fence.address().0);
    shared_words::Word::store(word, 7);
    there.signal(By::Gpu, 7);
    world.drain();
    assert!(here.has_gone_on(&world, &mut waits, 7));
    assert!(!other_here.has_gone_on(&world, &mut other_waits, 7), "no doorbell was rung for it");
}

#[test]
fn one_storage_holds_both_words_for_all() {
    // spec: sync §3.18, sync §1.3
    // seed: N88
    for form in FORMS {
        let world = World::ringing(VIRTUAL, &GPUS, |_| form);
        let mut sides = sides(&world);
        world.drain();
        // The word behind CurrentValue is the creator's MonitoredValue at least.
        let behind = world.host.system_memory().word(sides[1].fence.address().0 + 4096);
        for value in [u64::MAX, 1 << 40] {
            shared_words::Word::store(behind, value);
            let mut seen = Vec::new();
            for side in &mut sides {
                let va = side.fence.monitored_va();
                seen.push(read_by_engine(side, va));
            }
            let elsewhere = if form == PeerMode::LinearStorage { value } else { u64::MAX };
            assert_eq!(seen, [elsewhere, value], "{form:?}");
        }
        world.host.check_invariants().unwrap();
    }
}

/// One that has no doorbell is told by the processor, and for that every signal interrupts as long as it has the fence.
#[test]
fn a_gpu_without_a_doorbell_costs_all_others_their_sleep_while_it_has_the_fence() {
    // spec: sync §3.18, sync §3.12
    for form in FORMS {
        for third in ["discrete-64k", "wddm2-packets"] {
            let profiles = ["integrated", "discrete-4k", third];
            let world = World::ringing(VIRTUAL, &profiles, |at| if at < 2 { form } else { PeerMode::None });
            let mut sides = sides(&world);
            let name = named(&sides[1].fence);
            let mut value = 0;
            let mut signals = |world: &World, sides: &mut [Side; 2]| {
                world.drain();
                world.news.take();
                value += 1;
                sides[0].signal(By::Gpu, value);
                world.drain();
                (interrupts(world), value)
            };
            assert_eq!(signals(&world, &mut sides).0, 0);
            let mut without = Side::new(&world, 2, |gpu| opened(gpu, &name));
            let mut waiting = without.wait(&world, By::Gpu, 2);
            let (interrupts, value) = signals(&world, &mut sides);
            assert_eq!((interrupts, value), (1, 2));
            assert!(without.has_gone_on(&world, &mut waiting, 2), "{third}");
            drop(without);
            assert_eq!(signals(&world, &mut sides).0, 0, "it has gone");
            world.host.check_invariants().unwrap();
        }
    }
}

/// A wait on one adapter is known on the other before the call has returned, and no longer than it lasts.
#[test]
fn who_waits_anywhere_decides_what_interrupts_everywhere() {
    // spec: sync §3.18, sync §1.3
    let world = World::ringing(VIRTUAL, &["integrated", "discrete-4k", "discrete-64k"], |_| PeerMode::Doorbells);
    let first = Side::new(&world, 2, |gpu| native(gpu.device(), FenceFlags::empty()));
    let name = named(&first.fence);
    let [one, two] = [0, 1].map(|adapter| Side::new(&world, adapter, |gpu| opened(gpu, &name)));
    let mut sides = [one, two, first];
    let mut waits: Vec<(usize, u64, Waiting)> = Vec::new();
    for (at, value) in [(0, 30), (1, 20), (0, 25), (2, 40)] {
        waits.push((at, value, sides[at].wait(&world, By::Cpu, value)));
    }
    let mut seen = Vec::new();
    for value in [10, 19, 20, 24, 27, 39, 41, 50] {
        world.drain();
        world.news.take();
        let signaller = (value as usize) % 3;
        sides[signaller].signal(By::Gpu, value);
        world.drain();
        seen.push((value, interrupts(&world)));
        for (at, wanted, waiting) in &mut waits {
            let gone_on = matches!(waiting, Waiting::Gpu) || sides[*at].has_gone_on(&world, waiting, *wanted);
            assert_eq!(gone_on, *wanted <= value, "{wanted} on {at} when it is {value}");
        }
    }
    let exceeding: Vec<u64> = seen.iter().filter(|(_, interrupts)| *interrupts > 0).map(|(value, _)| *value).collect();
    assert_eq!(exceeding, [20, 27, 39, 41], "{seen:?}");
    world.host.check_invariants().unwrap();
}
