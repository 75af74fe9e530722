//! The scenario tables of sync §3.12, cell by cell, each with the wait before the signal and behind it.

use std::sync::Mutex;

use ddi::UpdateCurrentFlags;
use shared_words::{Memory, Word};

use super::*;

/// Numbers of a host's adapters in these tests.
const IGPU: usize = 0;
const DGPU: usize = 1;

/// The fence of the dGPU's process, opened on the iGPU; the iGPU's side, the dGPU's side.
fn sides(world: &World) -> (Side, Side) {
    let dgpu = Side::new(world, DGPU, |gpu| native(gpu.device(), FenceFlags::empty()));
    let name = named(&dgpu.fence);
    let igpu = Side::new(world, IGPU, |gpu| opened(gpu, &name));
    assert_eq!(igpu.fence.address(), dgpu.fence.address(), "one CurrentValue");
    (igpu, dgpu)
}

/// The calls of `UpdateCurrentValuesFromCpu`: with a value, and to notify only.
fn calls(steps: &[FenceStep]) -> (usize, usize) {
    let of = |flags| steps.iter().filter(|step| matches!(step, FenceStep::Current(_, with) if *with == flags)).count();
    assert!(
        !steps.iter().any(|step| matches!(step, FenceStep::Monitored(_))),
        "MonitoredValue is 0 for life: {steps:?}"
    );
    (of(UpdateCurrentFlags::empty()), of(UpdateCurrentFlags::NOTIFICATION_ONLY))
}

/// One cell: a wait on one adapter for a signal on the other. `writes`: how often the kernel tells the signaller's driver to write.
fn cell(profiles: [&str; 2], waits_on: usize, wait: By, signal: By, writes: usize) {
    let what = format!("{profiles:?}: adapter {waits_on} waits by {wait:?}, the other signals by {signal:?}");
    let world = World::new(stack::world::VIRTUAL, &profiles);
    let (igpu, dgpu) = sides(&world);
    let (mut waiter, mut signaller) = if waits_on == IGPU { (igpu, dgpu) } else { (dgpu, igpu) };
    let signals_on = 1 - waits_on;
    let notified = usize::from(waiter.gpu.has_user_queues());
    world.drain();
    for (value, wait_first) in [(10, true), (20, false)] {
        let settled = |world: &World| {
            world.drain();
            world.host.check_invariants().expect(&what);
        };
        drop([0, 1].map(|adapter| world.updates(adapter)));
        world.news.take();
        let mut waiting = wait_first.then(|| waiter.wait(&world, wait, value));
        settled(&world);
        if let Some(waiting) = &mut waiting {
            assert!(!waiter.has_gone_on(&world, waiting, value), "{what}: nothing was signalled");
            assert_eq!(calls(&world.updates(waits_on)), (0, 0), "{what}: a wait is nothing that a driver is told");
        }
        signaller.signal(signal, value);
        settled(&world);
        assert_eq!([&waiter, &signaller].map(|side| side.fence.current()), [value; 2], "{what}: one word");
        let mut waiting = waiting.unwrap_or_else(|| waiter.wait(&world, wait, value));
        settled(&world);
        assert!(waiter.has_gone_on(&world, &mut waiting, value), "{what}, wait first: {wait_first}");
        // The signal came over once, and nothing went back.
        assert_eq!(calls(&world.updates(waits_on)), (0, notified), "{what}: told to look, not to write");
        assert_eq!(calls(&world.updates(signals_on)), (writes, 0), "{what}");
        let arrived: Vec<(u32, u64)> = world.news.take().iter().filter_map(arrival).collect();
        assert_eq!(arrived, [(waits_on as u32, value)], "{what}");
    }
}

fn arrival(event: &Event) -> Option<(u32, u64)> {
    match event {
        Event::CrossAdapterValueArrived { adapter, value, .. } => Some((*adapter, *value)),
        _ => None,
    }
}

const NATIVE: [&str; 2] = ["integrated", "discrete-4k"];
const LEGACY: [&str; 2] = ["wddm2-packets", "discrete-4k"];

#[test]
fn both_native_gpu_waits_gpu_signals() {
    // spec: sync §3.12 scenario 1
    // seed: N73
    cell(NATIVE, IGPU, By::Gpu, By::Gpu, 0);
    cell(NATIVE, DGPU, By::Gpu, By::Gpu, 0);
}

#[test]
fn both_native_gpu_waits_cpu_signals() {
    // spec: sync §3.12 scenario 1
    // seed: N74
    cell(NATIVE, IGPU, By::Gpu, By::Cpu, 1);
    cell(NATIVE, DGPU, By::Gpu, By::Cpu, 1);
}

#[test]
fn both_native_cpu_waits_gpu_signals() {
    // spec: sync §3.12 scenario 1
    // seed: N75
    cell(NATIVE, IGPU, By::Cpu, By::Gpu, 0);
    cell(NATIVE, DGPU, By::Cpu, By::Gpu, 0);
}

#[test]
fn both_native_cpu_waits_cpu_signals() {
    // spec: sync §3.12 scenario 1
    // seed: N76
    cell(NATIVE, IGPU, By::Cpu, By::Cpu, 1);
    cell(NATIVE, DGPU, By::Cpu, By::Cpu, 1);
}

#[test]
fn a_context_without_native_fences_waits_for_the_gpu() {
    // spec: sync §3.12 scenario 2a
    // seed: N77
    cell(LEGACY, IGPU, By::Gpu, By::Gpu, 0);
}

#[test]
fn a_context_without_native_fences_waits_for_the_cpu() {
    // spec: sync §3.12 scenario 2a
    // seed: N78
    cell(LEGACY, IGPU, By::Gpu, By::Cpu, 1);
}

#[test]
fn a_thread_waits_without_native_fences_for_the_gpu() {
    // spec: sync §3.12 scenario 2a
    // seed: N79
    cell(LEGACY, IGPU, By::Cpu, By::Gpu, 0);
}

#[test]
fn a_thread_waits_without_native_fences_for_the_cpu() {
    // spec: sync §3.12 scenario 2a
    // seed: N80
    cell(LEGACY, IGPU, By::Cpu, By::Cpu, 1);
}

#[test]
fn a_packet_signals_what_an_engine_waits_for() {
    // spec: sync §3.12 scenario 2b
    cell(LEGACY, DGPU, By::Gpu, By::Gpu, 0);
}

/// A packet that signals two fences stands behind work that waits, and then runs: until its turn comes there is no value, and no other adapter
/// hears anything.
fn signalled_behind_work(wait: By) {
    let world = World::new(stack::world::VIRTUAL, &LEGACY);
    let (igpu, mut dgpu) = sides(&world);
    let mut second = native(dgpu.gpu.device(), FenceFlags::empty());
    let by_packet = [&igpu.fence, &opened(&igpu.gpu, &named(&second))];
    let gate = igpu.gpu.device().create_monitored_fence(FenceFlags::empty(), 0).expect("a fence");
    let mark = igpu.gpu.create_surface(softgpu_umd::SurfaceKind::System, 4096).expect("a surface");
    igpu.gpu.pin(&mark).expect("room for it");
    let Work::Packets(context) = &igpu.work else { panic!("it takes packets") };
    let mut first_wait = dgpu.wait(&world, wait, 10);
    std::mem::swap(&mut dgpu.fence, &mut second);
    let mut second_wait = dgpu.wait(&world, wait, 20);
    std::mem::swap(&mut dgpu.fence, &mut second);
    world.drain();
    drop([0, 1].map(|adapter| world.updates(adapter)));
    world.news.take();
    context.wait(&gate, 1).expect("a wait");
    let mut commands = Commands::new();
    commands.copy(mark.va(), mark.va().offset(2048), 2048).store(mark.va(), 77);
    Buffer::new(&igpu.gpu, &commands).run(context);
    let points = [(by_packet[0], 10), (by_packet[1], 20)];
    igpu.gpu.device().signal_from_gpu(&[context.handle()], &points, SignalFlags::empty()).expect("a signal");
    world.drain();
    let values = || [igpu.fence.current(), dgpu.fence.current(), by_packet[1].current(), second.current()];
    let silent = |when: &str| {
        assert_eq!(values(), [0; 4], "{wait:?}, {when}: its turn has not come");
        assert_eq!([0, 1].map(|adapter| calls(&world.updates(adapter))), [(0, 0); 2], "{wait:?}, {when}");
        assert!(world.news.take().iter().all(|event| arrival(event).is_none()), "{wait:?}, {when}");
    };
    silent("behind the gate");
    assert!(!dgpu.has_gone_on(&world, &mut first_wait, 10) && dgpu.done_value() == 0, "{wait:?}");
    // Begun and not called: no time passes.
    let (device, points, flags) = (igpu.gpu.device().handle(), vec![(gate.handle(), 1)], SignalFlags::empty());
    let opens = Call::Sync(SyncCall::SignalSynchronizationObjectFromCpu { device, points, flags });
    world.host.begin_call(igpu.process, opens).expect("at once").expect("the gate opens");
    silent("behind work that runs");
    world.drain();
    assert_eq!(mark.lock().unwrap().read_word(0), 77, "{wait:?}: the work before it is done");
    assert_eq!(values(), [10, 10, 20, 20], "{wait:?}");
    // A stream goes on in its order.
    assert!(wait == By::Gpu || dgpu.has_gone_on(&world, &mut first_wait, 10), "{wait:?}");
    assert!(dgpu.has_gone_on(&world, &mut second_wait, 20), "{wait:?}");
    let told = world.updates(DGPU);
    let of_call = |step: &FenceStep| match step {
        FenceStep::Current(values, flags) => Some((values.iter().map(|(_, value)| *value).collect(), *flags)),
        _ => None,
    };
    let told: Vec<(Vec<u64>, UpdateCurrentFlags)> = told.iter().filter_map(of_call).collect();
    assert_eq!(told, [(vec![10, 20], UpdateCurrentFlags::NOTIFICATION_ONLY)], "{wait:?}: told to look, not to write");
    assert_eq!(calls(&world.updates(IGPU)), (0, 0), "{wait:?}: the kernel writes the values itself");
    let arrived: Vec<_> = world.news.take().iter().filter_map(arrival).collect();
    assert_eq!(arrived, [(DGPU as u32, 10), (DGPU as u32, 20)], "{wait:?}");
}

#[test]
fn a_packet_behind_other_work_signals_an_engine_when_it_reaches_the_head() {
    // spec: sync §3.12 scenario 2b, row 4
    // seed: N81 (two)
    signalled_behind_work(By::Gpu);
}

#[test]
fn a_packet_behind_other_work_signals_a_thread_when_it_reaches_the_head() {
    // spec: sync §3.12 scenario 2b, row 4
    // seed: N83 (two)
    signalled_behind_work(By::Cpu);
}

/// The value is there already. The notification of an adapter does not overwrite a value that an engine stores meanwhile.
#[test]
fn an_adapter_that_is_notified_writes_nothing() {
    // spec: sync §2.6, sync §3.12
    // seed: N69
    let word = Arc::new(Mutex::new(None::<(Arc<Memory>, u64)>));
    let world = World::with(stack::world::VIRTUAL, &NATIVE, |adapter, whims| {
        if adapter != IGPU {
            return;
        }
        let (word, mut hear) = (Arc::clone(&word), std::mem::replace(&mut whims.hear_fence, Box::new(|_| ())));
        whims.hear_fence = Box::new(move |step| {
            if let (FenceStep::Current(_, UpdateCurrentFlags::NOTIFICATION_ONLY), Some((memory, at))) =
                (&step, word.lock().unwrap().take())
            {
                Word::store(memory.word(at), 11);
            }
            hear(step);
        });
    });
    let (mut igpu, mut dgpu) = sides(&world);
    let mut waiting = igpu.wait(&world, By::Gpu, 10);
    world.drain();
    drop(world.updates(IGPU));
    *word.lock().unwrap() = Some((Arc::clone(world.host.system_memory()), igpu.fence.address().0));
    dgpu.signal(By::Gpu, 10);
    world.drain();
    assert!(word.lock().unwrap().is_none(), "it was notified");
    let told = world.updates(IGPU);
    let Some(FenceStep::Current(values, flags)) = told.first() else { panic!("{told:?}") };
    assert_eq!((values[0].1, *flags), (10, UpdateCurrentFlags::NOTIFICATION_ONLY));
    assert_eq!([igpu.fence.current(), dgpu.fence.current()], [11; 2], "the last stored value stays");
    assert!(igpu.has_gone_on(&world, &mut waiting, 10));
}

#[test]
fn the_cpu_signals_without_native_fences_what_an_engine_waits_for() {
    // spec: sync §3.12 scenario 2b
    // seed: N82
    cell(LEGACY, DGPU, By::Gpu, By::Cpu, 0);
}

#[test]
fn a_packet_signals_what_a_thread_waits_for() {
    // spec: sync §3.12 scenario 2b
    cell(LEGACY, DGPU, By::Cpu, By::Gpu, 0);
}

#[test]
fn the_cpu_signals_without_native_fences_what_a_thread_waits_for() {
    // spec: sync §3.12 scenario 2b
    // seed: N84
    cell(LEGACY, DGPU, By::Cpu, By::Cpu, 0);
}

#[test]
fn a_kernel_mode_queue_of_a_native_adapter_waits_and_signals_as_a_context_does() {
    // spec: sync §3.12, derived cases: identical to 2a and 2b
    // seed: N85
    for other in [By::Gpu, By::Cpu] {
        cell(NATIVE, IGPU, By::KernelQueue, other, usize::from(other == By::Cpu));
        cell(NATIVE, DGPU, other, By::KernelQueue, 1);
    }
    cell(NATIVE, IGPU, By::KernelQueue, By::KernelQueue, 1);
}

#[test]
fn an_engine_without_native_fences_writes_the_word_itself() {
    // spec: sync §3.12, derived cases: the legacy scan discovers it, then rows 5 to 7 of 2b
    for profile in ["wddm2-packets", "basic-engines"] {
        for wait in [By::Gpu, By::Cpu] {
            cell([profile, "discrete-4k"], DGPU, wait, By::Command, 0);
        }
    }
}

/// Interrupts that name queues: the kernel passes their fences' values on to other adapters without entries in the log.
#[test]
fn an_interrupt_that_names_queues_is_news_of_their_fences() {
    // spec: sync §3.12, sync §3.15
    for wait in [By::Gpu, By::Cpu] {
        cell(["integrated", "optimized-fences"], IGPU, wait, By::Gpu, 0);
        cell(["optimized-fences", "discrete-4k"], DGPU, wait, By::Gpu, 0);
    }
}

/// GPU addresses are a process's: queues of one of its devices signal fences that another has open.
#[test]
fn an_interrupt_that_names_queues_is_news_of_what_other_devices_of_their_process_have() {
    // spec: sync §3.12, sync §3.15
    for wait in [By::Gpu, By::Cpu] {
        let world = World::new(stack::world::VIRTUAL, &["integrated", "optimized-fences"]);
        let link = ProcessLink::new(Arc::clone(&world.host));
        let (has_it, signals) = (gpu_on(&world.host, &link, 1), gpu_on(&world.host, &link, 1));
        let fence = native(has_it.device(), FenceFlags::empty());
        let name = named(&fence);
        let mut igpu = Side::new(&world, 0, |gpu| opened(gpu, &name));
        let mut stream = Stream::create(&signals, NODE, StreamConfig::default()).expect("a stream");
        let mut waiting = igpu.wait(&world, wait, 10);
        world.drain();
        let mut commands = Commands::new();
        commands.signal(&fence, 10);
        stream.submit(&signals, &[], &commands).expect("a submission");
        world.drain();
        assert!(igpu.has_gone_on(&world, &mut waiting, 10), "{wait:?}");
    }
}

#[test]
fn an_interrupt_that_names_no_fence_is_news_of_any() {
    // spec: sync §3.10, sync §3.12
    for wait in [By::Gpu, By::Cpu] {
        let world = World::with(stack::world::VIRTUAL, &NATIVE, |_, whims| whims.name_fences = Box::new(|_| None));
        let (mut igpu, mut dgpu) = sides(&world);
        let mut waiting = igpu.wait(&world, wait, 10);
        world.drain();
        dgpu.signal(By::Gpu, 10);
        world.drain();
        assert!(igpu.has_gone_on(&world, &mut waiting, 10), "{wait:?}");
    }
}
