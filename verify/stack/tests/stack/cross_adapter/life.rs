//! The life of a cross-adapter fence: opens and names on several adapters, every order of closing, and the losses with each.

use std::sync::atomic::{AtomicBool, Ordering};

use ddi::{Interrupt, PowerState, UpdateCurrentFlags};
use kmt_calls::DeviceState;
use softgpu_umd::SurfaceKind;
use wddm_types::GpuVa;

use super::*;
use stack::world::VIRTUAL;

const TWO: [&str; 2] = ["integrated", "discrete-4k"];

/// The steps that create, open, close or destroy.
fn lives(world: &World, adapter: usize) -> Vec<FenceStep> {
    let steps = std::mem::take(&mut *world.told[adapter].lock().unwrap());
    steps.into_iter().filter(|step| !matches!(step, FenceStep::Monitored(_) | FenceStep::Current(..))).collect()
}

/// A process looks at CurrentValue, sees that its engine is done and closes the fence: the driver, whose fence has gone, names it in no
/// interrupt any more.
#[test]
fn who_closes_it_behind_a_signal_takes_no_waiter_of_another_adapter_along() {
    // spec: sync §3.4, sync §3.12
    // Without the cap a driver names a fence that another process has open there.
    for (profile, only_one) in [("discrete-4k", true), ("optimized-fences", true), ("optimized-fences", false)] {
        for wait in [By::Gpu, By::Cpu] {
            let silent = Arc::new(AtomicBool::new(false));
            let world = World::with(VIRTUAL, &["integrated", profile], |adapter, whims| {
                let silent = Arc::clone(&silent);
                whims.say = Box::new(move |interrupt, notify| {
                    let of_fence = adapter == 1 && matches!(interrupt, Interrupt::NativeFenceSignaled { .. });
                    if !of_fence || !silent.load(Ordering::Relaxed) {
                        notify.interrupt(interrupt);
                    }
                });
            });
            let mut dgpu = Side::new(&world, 1, |gpu| native(gpu.device(), FenceFlags::empty()));
            let name = named(&dgpu.fence);
            // Another process may have it open there.
            let other = (!only_one).then(|| Side::new(&world, 1, |gpu| opened(gpu, &name)));
            let mut igpu = Side::new(&world, 0, |gpu| opened(gpu, &name));
            let mut waiting = igpu.wait(&world, wait, 10);
            world.drain();
            silent.store(true, Ordering::Relaxed);
            dgpu.signal(By::Gpu, 10);
            world.drain();
            assert!(!igpu.has_gone_on(&world, &mut waiting, 10), "the driver has told nothing yet");
            let Side { fence, gpu, .. } = &mut dgpu;
            let own = gpu.device().create_monitored_fence(FenceFlags::empty(), 0).expect("a fence");
            drop(std::mem::replace(fence, own));
            world.drain();
            assert!(igpu.has_gone_on(&world, &mut waiting, 10), "{profile}, {wait:?}, alone: {only_one}");
            drop(other);
        }
    }
}

#[test]
fn each_driver_creates_it_at_the_first_open_and_destroys_it_behind_the_last() {
    // spec: sync §3.3 step 3, sync §3.4
    for creator_first in [true, false] {
        let world = World::new(VIRTUAL, &TWO);
        let (a, b, c) = (world.gpu(1), world.gpu(0), world.gpu(0));
        world.drain();
        let nothing = world.host.state_digest();
        drop([0, 1].map(|adapter| lives(&world, adapter)));
        let mine = native(a.device(), FenceFlags::empty());
        let [FenceStep::Create(global), FenceStep::Open(of, local, _)] = lives(&world, 1)[..] else { panic!() };
        assert_eq!(of, global);
        let name = named(&mine);
        let theirs = b.device().open_native_fence(by(&name)).unwrap();
        let [FenceStep::Create(there), FenceStep::Open(of, local_b, _)] = lives(&world, 0)[..] else { panic!() };
        assert_eq!(of, there);
        let third = c.device().open_native_fence(by(&name)).unwrap();
        let [FenceStep::Open(of, local_c, _)] = lives(&world, 0)[..] else { panic!("it is created there already") };
        assert_eq!(of, there);
        assert_eq!(lives(&world, 1), [], "the creator's driver is told nothing of it");
        drop(name);
        let mut fences = [Some(mine), Some(theirs), Some(third)];
        let order = if creator_first { [0, 1, 2] } else { [1, 2, 0] };
        for at in order {
            drop(fences[at].take());
            let steps = [lives(&world, 0), lives(&world, 1)];
            let expected = match at {
                0 => [vec![], vec![FenceStep::Close(local), FenceStep::Destroy(global)]],
                1 => [vec![FenceStep::Close(local_b)], vec![]],
                _ => [vec![FenceStep::Close(local_c), FenceStep::Destroy(there)], vec![]],
            };
            assert_eq!(steps, expected);
            world.drain();
            world.host.check_invariants().unwrap();
        }
        // The next turn of each adapter frees the objects that the paging ring has got past.
        for gpu in [&a, &b] {
            drop(gpu.device().create_monitored_fence(FenceFlags::empty(), 0).unwrap());
        }
        let differences = nothing.differences(&world.host.state_digest());
        let of_fences: Vec<_> = differences.iter().filter(|line| line.contains("fence")).collect();
        assert!(of_fences.is_empty(), "{of_fences:?}");
    }
}

#[test]
fn a_name_keeps_its_value_when_no_process_has_it_open() {
    // spec: sync §3.4, sync §3.13
    let world = World::new(VIRTUAL, &["wddm2-packets", "discrete-4k"]);
    let keeper = world.gpu(0);
    let name = {
        let creator = world.gpu(1);
        let fence = native(creator.device(), FenceFlags::empty());
        creator.device().signal(&fence, 12).unwrap();
        let name = named(&fence);
        let theirs = keeper.device().open_sync_object(by(&name)).unwrap();
        let again = named(&theirs);
        drop((fence, theirs));
        // The maker goes with the name that it made; the keeper made the other name.
        drop(name);
        again
    };
    world.drain();
    world.host.check_invariants().unwrap();
    for adapter in [1, 0] {
        let gpu = world.gpu(adapter);
        let fence = opened(&gpu, &name);
        assert_eq!(fence.current(), 12);
        assert_eq!(fence.monitored_va().is_null(), adapter == 0, "its kind on each adapter stays");
    }
    world.host.check_invariants().unwrap();
}

#[test]
fn a_process_that_dies_takes_only_its_own_part_along() {
    // spec: sync §3.4
    let world = World::new(VIRTUAL, &TWO);
    let survivor = Side::new(&world, 0, |gpu| native(gpu.device(), FenceFlags::empty()));
    let name = named(&survivor.fence);
    let dead = Side::new(&world, 1, |gpu| opened(gpu, &name));
    world.host.process_died(dead.process);
    world.drain();
    world.host.check_invariants().unwrap();
    survivor.gpu.device().signal(&survivor.fence, 6).unwrap();
    survivor.gpu.device().wait(&[(&survivor.fence, 6)]).unwrap();
    let mut another = Side::new(&world, 1, |gpu| opened(gpu, &name));
    another.signal(By::Gpu, 7);
    survivor.gpu.device().wait(&[(&survivor.fence, 7)]).unwrap();
    world.host.check_invariants().unwrap();
}

/// Has a device fault.
fn fail(side: &mut Side) {
    let Work::Queues { stream, .. } = &mut side.work else { panic!("it has queues") };
    let mut commands = Commands::new();
    commands.store(GpuVa(0x10), 1);
    stream.submit(&side.gpu, &[], &commands).expect("a submission");
}

#[test]
fn a_wait_on_another_adapter_is_not_stuck_when_the_signaller_is_lost() {
    // spec: sync §3.12 derived cases, sync §3.16
    for profiles in [TWO, ["wddm2-packets", "discrete-4k"]] {
        for how in [By::Gpu, By::Cpu] {
            let world = World::new(VIRTUAL, &profiles);
            let mut lost = Side::new(&world, 1, |gpu| native(gpu.device(), FenceFlags::empty()));
            let name = named(&lost.fence);
            let mut waiter = Side::new(&world, 0, |gpu| opened(gpu, &name));
            let mut waiting = waiter.wait(&world, how, 40);
            world.drain();
            fail(&mut lost);
            world.drain();
            assert_eq!(lost.gpu.device().state().unwrap(), DeviceState::ErrorDmaPageFault);
            assert!(waiter.has_gone_on(&world, &mut waiting, 40), "{profiles:?} {how:?}");
            assert_eq!(waiter.gpu.device().state().unwrap(), DeviceState::Active, "it has done nothing wrong");
            assert_eq!(waiter.fence.current(), u64::MAX);
            // The fence stays so for good, and for every later open.
            let later = Side::new(&world, 0, |gpu| opened(gpu, &name));
            later.gpu.device().wait(&[(&later.fence, 50)]).unwrap();
            world.host.check_invariants().unwrap();
        }
    }
}

#[test]
fn a_device_that_may_not_signal_it_costs_no_device_elsewhere_anything() {
    // spec: sync §3.16, sync §2.3
    let world = World::new(VIRTUAL, &TWO);
    let mut waiter = Side::new(&world, 0, |gpu| native(gpu.device(), FenceFlags::empty()));
    let name = named(&waiter.fence);
    let mut lost = Side::new(&world, 1, |gpu| {
        let request = OpenSyncObjectRequest { flags: FenceFlags::NO_SIGNAL, ..by(&name) };
        gpu.device().open_native_fence(request).expect("it opens")
    });
    let mut waiting = waiter.wait(&world, By::Cpu, 4);
    fail(&mut lost);
    world.drain();
    assert!(!waiter.has_gone_on(&world, &mut waiting, 4) && waiter.fence.current() == 0);
    waiter.signal(By::Cpu, 4);
    world.drain();
    assert!(waiter.has_gone_on(&world, &mut waiting, 4));
}

#[test]
fn an_adapter_that_its_driver_stops_leaves_no_wait_elsewhere() {
    // spec: sync §3.10, sync §3.12 derived cases
    let world = World::with(VIRTUAL, &TWO, |index, whims| {
        let broken = index == 1;
        let value = |step: &FenceStep| matches!(step, FenceStep::Current(_, flags) if flags.is_empty());
        whims.fail_fence_update = Box::new(move |step| broken && value(step));
    });
    let mut lost = Side::new(&world, 1, |gpu| native(gpu.device(), FenceFlags::empty()));
    let name = named(&lost.fence);
    let mut waiter = Side::new(&world, 0, |gpu| opened(gpu, &name));
    let mut waiting = waiter.wait(&world, By::Gpu, 9);
    world.drain();
    lost.signal(By::Cpu, 3);
    world.drain();
    assert!(world.host.adapter(1).stopped().is_some_and(|reason| reason.contains("0x13")));
    assert_eq!(world.host.adapter(0).stopped(), None);
    assert!(waiter.has_gone_on(&world, &mut waiting, 9));
    // The word lies in a page of the stopped adapter, and stays until the last open is closed.
    waiter.gpu.device().wait(&[(&waiter.fence, 10)]).unwrap();
    world.host.check_invariants().unwrap();
    drop((lost, waiter, name));
    world.drain();
    world.host.check_invariants().unwrap();
}

#[test]
fn a_driver_that_fails_a_notification_stops_its_own_adapter() {
    // spec: sync §3.6, sync §3.12
    let world = World::with(VIRTUAL, &TWO, |index, whims| {
        let notified = |step: &FenceStep| matches!(step, FenceStep::Current(_, UpdateCurrentFlags::NOTIFICATION_ONLY));
        whims.fail_fence_update = Box::new(move |step| index == 0 && notified(step));
    });
    let mut signaller = Side::new(&world, 1, |gpu| native(gpu.device(), FenceFlags::empty()));
    let name = named(&signaller.fence);
    let _waiter = Side::new(&world, 0, |gpu| opened(gpu, &name));
    signaller.signal(By::Gpu, 3);
    world.drain();
    assert!(world.host.adapter(0).stopped().is_some_and(|reason| reason.contains("0x13")));
    assert_eq!(world.host.adapter(1).stopped(), None);
    world.host.check_invariants().unwrap();
}

#[test]
fn what_was_signalled_while_an_adapter_slept_it_sees_when_it_wakes() {
    // spec: sync §3.12, memory §1.10
    let world = World::new(VIRTUAL, &TWO);
    let mut waiter = Side::new(&world, 0, |gpu| native(gpu.device(), FenceFlags::empty()));
    let name = named(&waiter.fence);
    let mut signaller = Side::new(&world, 1, |gpu| opened(gpu, &name));
    let mut waiting = waiter.wait(&world, By::Gpu, 5);
    world.drain();
    let sleeper = world.host.adapter(0);
    sleeper.power_transition(PowerState::Standby).unwrap();
    signaller.signal(By::Gpu, 5);
    world.drain();
    assert!(!waiter.has_gone_on(&world, &mut waiting, 5), "its GPU has no power");
    sleeper.power_transition(PowerState::On).unwrap();
    world.drain();
    assert!(waiter.has_gone_on(&world, &mut waiting, 5));
    world.host.check_invariants().unwrap();
}

/// Two GPUs that wait for each other in turns, each on a thread of its own.
#[test]
fn two_gpus_hand_each_other_the_turn() {
    // spec: sync §3.12
    let world = World::new(Mode::Real, &TWO);
    let mut one = Side::new(&world, 0, |gpu| native(gpu.device(), FenceFlags::empty()));
    let name = named(&one.fence);
    let mut other = Side::new(&world, 1, |gpu| opened(gpu, &name));
    const TURNS: u64 = 200;
    for (side, first) in [(&mut one, 0), (&mut other, 1)] {
        let fence = &side.fence;
        let Work::Queues { stream, .. } = &mut side.work else { panic!("it has queues") };
        // In one submission: a submission that waits for room in the ring would wait for one that is not submitted yet.
        let mut commands = Commands::new();
        for turn in (first..TURNS).step_by(2) {
            commands.wait(fence, turn).signal(fence, turn + 1);
        }
        stream.submit(&side.gpu, &[], &commands).expect("a submission");
    }
    one.gpu.device().wait(&[(&one.fence, TURNS)]).unwrap();
    assert_eq!(other.fence.current(), TURNS);
}

/// Waits and signals of any kind on three adapters, in any order: a wait for at most the value is over, and no other.
#[test]
fn everybody_goes_on_when_the_value_is_there_and_not_before() {
    // spec: sync §3.19 property 7
    for seed in 0..40u64 {
        let world = World::new(VIRTUAL, &["integrated", "wddm2-packets", "discrete-4k"]);
        let first = Side::new(&world, 2, |gpu| native(gpu.device(), FenceFlags::empty()));
        let name = named(&first.fence);
        let [one, two] = [0, 1].map(|adapter| Side::new(&world, adapter, |gpu| opened(gpu, &name)));
        let mut sides = [one, two, first];
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut draw = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        let (mut value, mut waiting) = (0, Vec::new());
        let mut last_of_gpu = [0; 3];
        for _ in 0..30 {
            let at = draw(3) as usize;
            let how = match draw(3) {
                0 => By::Cpu,
                1 if at != 1 => By::KernelQueue,
                _ => By::Gpu,
            };
            if draw(2) == 0 {
                value += draw(3) + 1;
                // A queue would never reach a signal behind its own wait.
                let how = if how == By::Gpu || how == By::KernelQueue { By::Cpu } else { how };
                sides[at].signal(how, value);
            } else {
                let wanted = value + draw(8);
                // A queue waits in order: a wait behind one for a higher value has to wait for that, too.
                let wanted = if how == By::Cpu { wanted } else { wanted.max(last_of_gpu[at]) };
                if how != By::Cpu {
                    last_of_gpu[at] = wanted;
                }
                if how == By::Cpu && wanted > value {
                    waiting.push((at, sides[at].wait(&world, how, wanted), wanted));
                } else if how != By::Cpu && wanted > 0 {
                    sides[at].wait(&world, how, wanted);
                }
            }
            world.drain();
            for (at, waits, wanted) in &mut waiting {
                let gone_on = matches!(waits, Waiting::Gpu) || sides[*at].has_gone_on(&world, waits, *wanted);
                assert_eq!(gone_on, *wanted <= value, "seed {seed}: adapter {at} waits for {wanted}, it is {value}");
            }
            world.host.check_invariants().unwrap();
        }
        value += 100;
        sides[draw(3) as usize].signal(By::Cpu, value);
        world.drain();
        for (side, last) in sides.iter().zip(last_of_gpu) {
            assert!(last == 0 || side.done_value() > 0, "seed {seed}: the queue has gone on");
        }
    }
}

/// Adapters number their objects by themselves: a change on one adapter shows in the digest beside an object of the same number on another.
#[test]
fn the_digest_of_the_state_has_each_adapter_for_itself() {
    let world = World::new(VIRTUAL, &TWO);
    let [first, second] = [0, 1].map(|adapter| world.gpu(adapter));
    let surfaces = [&first, &second].map(|gpu| gpu.create_surface(SurfaceKind::LocalThenSystem, 4096).expect("room"));
    world.drain();
    for surface in &surfaces {
        let before = world.host.state_digest();
        surface.allocation().set_priority(0x7800_0001).expect("a priority");
        world.drain();
        assert_ne!(before.differences(&world.host.state_digest()), Vec::<String>::new());
    }
}
