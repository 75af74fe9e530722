//! Native fences where the CPU and engines meet: no torn values, updates and interrupts one after the other, and the last look at
//! CurrentValue. The models check every interleaving of the words.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use d3dkmt::NativeFenceRequest;
use ddi::{Interrupt, Notify};
use dxgk_host::Mode;
use kmt_calls::{Call, Reply, SyncCall, WaitFlags};
use shared_words::{Memory, Word};
use softgpu_spec::register::counter;
use softgpu_umd::Commands;
use wddm_types::RawHandle;

use crate::stubborn::{FenceStep, Shared, Whims, host_with};
use stack::world::{Client, MIB, client, host};

fn wait(of: &Client, fence: &d3dkmt::Fence, value: u64) -> Call {
    Call::Sync(SyncCall::WaitForSynchronizationObjectFromCpu {
        device: of.gpu.device().handle(),
        points: vec![(fence.handle(), value)],
        async_event: RawHandle::NONE,
        flags: WaitFlags::empty(),
    })
}

/// A value with equal halves: a reader that sees unequal halves has seen a torn value.
fn twin(number: u64) -> u64 {
    number << 32 | number
}

fn is_whole(value: u64) -> bool {
    value >> 32 == value & 0xffff_ffff
}

/// An engine and the CPU signal in turns, on two processors; both read the other's values.
#[test]
fn no_half_of_a_value_is_seen() {
    // spec: sync §1.6, sync §3.19 item 4
    // seed: N11
    let host = host(Mode::Real, 4 * MIB);
    let mut client = client(&host);
    let request = || NativeFenceRequest::default();
    let (by_gpu, by_cpu) = {
        let device = client.gpu.device();
        (device.create_native_fence(request()).unwrap(), device.create_native_fence(request()).unwrap())
    };
    let target = client.pinned(softgpu_umd::SurfaceKind::System, 64 * 1024);
    const NUMBERS: u64 = 8_000;
    let mut commands = Commands::new();
    for number in 1..=NUMBERS {
        commands.signal(&by_gpu, twin(number));
        commands.copy(by_cpu.current_va(), wddm_types::GpuVa(target.va().0 + (number - 1) * 8), 8);
    }
    let done = client.stream.submit(&client.gpu, &[], &commands).expect("a submission");
    let (mut number, mut before) = (0, 0);
    while by_gpu.current() < twin(NUMBERS) {
        let seen = by_gpu.current();
        assert!(is_whole(seen), "{seen:#x}");
        assert!(seen >= before, "{seen:#x} behind {before:#x}");
        before = seen;
        number += 1;
        client.gpu.device().signal(&by_cpu, twin(number)).expect("it rises");
    }
    client.stream.wait(&client.gpu, done).unwrap();
    let lock = target.lock().unwrap();
    let copies: Vec<u64> = (0..NUMBERS).map(|at| lock.read_word(at * 8)).collect();
    assert!(copies.iter().copied().all(is_whole) && copies.is_sorted(), "the engine's reads");
}

/// An update that finds the value passed interrupts from within the driver's call. What it raised is told behind that, by a routine of its
/// own, with the fence's name: while one of the two runs the other does not (see the failing example at [`ddi::NativeFences`]).
#[test]
fn an_update_that_interrupts_is_over_when_its_interrupt_is_told() {
    // spec: sync §2.6, sync §3.9
    // seed: N30, N31, N32
    type Late = Option<(Arc<Memory>, u64)>;
    let (late, steps): (Arc<Mutex<Late>>, Shared<&str>) = Default::default();
    let notes = |what| {
        let steps = Arc::clone(&steps);
        move || steps.lock().unwrap().push(what)
    };
    let (begins, ends, told) = (notes("update begins"), notes("update ends"), notes("told"));
    let stores = Arc::clone(&late);
    let hear = move |step: FenceStep| {
        if matches!(&step, FenceStep::Monitored(values) if values.iter().any(|(_, value)| *value == 4))
            && let Some((memory, at)) = stores.lock().unwrap().take()
        {
            Word::store(memory.word(at), 5);
            begins();
        }
    };
    let lent = move |updates: &[ddi::MonitoredUpdate<'_>]| {
        if updates.iter().any(|update| update.value == 4) {
            ends();
        }
    };
    let names: Shared<u64> = Shared::default();
    let named = Arc::clone(&names);
    let say = move |interrupt: Interrupt<'_>, notify: &mut dyn Notify| {
        if let Interrupt::NativeFenceSignaled { fences: Some(fences), .. } = interrupt {
            named.lock().unwrap().extend(fences.iter().map(|fence| fence.0));
            told();
        }
        notify.interrupt(interrupt);
    };
    let whims = Whims { hear_fence: Box::new(hear), lent: Box::new(lent), say: Box::new(say), ..Whims::default() };
    let host = host_with(4 * MIB, whims);
    let client = client(&host);
    let fence = client.gpu.device().create_native_fence(NativeFenceRequest::default()).unwrap();
    while host.step() {}
    steps.lock().unwrap().clear();
    names.lock().unwrap().clear();
    let raised = host.device_register(counter::PUBLISH_RAISED);
    *late.lock().unwrap() = Some((Arc::clone(client.link.system_memory()), fence.address().0));
    let _ = host.begin_call(client.link.process(), wait(&client, &fence, 5));
    while host.step() {}
    assert_eq!(*steps.lock().unwrap(), ["update begins", "update ends", "told"]);
    assert_eq!(names.lock().unwrap().len(), 1, "the record names the fence");
    assert_eq!(host.device_register(counter::PUBLISH_RAISED), raised + 1);
}

/// A value that comes while the driver is told of the new MonitoredValue, from an engine that saw the old one: the look
/// behind the update finds it. The driver never tells of the interrupt that its own look may have raised.
#[test]
fn behind_an_update_the_current_value_is_looked_at_again() {
    // spec: sync §3.5, sync §3.9
    // seed: N34
    type Late = Option<(Arc<Memory>, u64)>;
    let late: Arc<Mutex<Late>> = Arc::default();
    let stores = Arc::clone(&late);
    let hear = move |step: FenceStep| {
        if matches!(&step, FenceStep::Monitored(values) if values.iter().any(|(_, value)| *value == 4))
            && let Some((memory, at)) = stores.lock().unwrap().take()
        {
            Word::store(memory.word(at), 5);
        }
    };
    let deaf = Arc::new(AtomicBool::new(false));
    let hears = Arc::clone(&deaf);
    let say = move |interrupt: Interrupt<'_>, notify: &mut dyn Notify| {
        if !hears.load(Ordering::Relaxed) {
            notify.interrupt(interrupt);
        }
    };
    let host = host_with(4 * MIB, Whims { hear_fence: Box::new(hear), say: Box::new(say), ..Whims::default() });
    let client = client(&host);
    deaf.store(true, Ordering::Relaxed);
    let fence = client.gpu.device().create_native_fence(NativeFenceRequest::default()).unwrap();
    while host.step() {}
    *late.lock().unwrap() = Some((Arc::clone(client.link.system_memory()), fence.address().0));
    let answered = match host.begin_call(client.link.process(), wait(&client, &fence, 5)) {
        Ok(answer) => Some(answer),
        Err(waiting) => host.take_answer(waiting),
    };
    assert_eq!(answered, Some(Ok(Reply::Done)), "in the same turn");
}
