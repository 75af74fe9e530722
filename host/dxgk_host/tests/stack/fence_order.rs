//! Native fences where the CPU and engines meet: no torn values, updates and interrupts one after the other, and the last look at
//! CurrentValue. What every interleaving of the words does is the models'.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use d3dkmt::NativeFenceRequest;
use ddi::{Interrupt, Notify};
use dxgk_host::Mode;
use kmt_calls::{Call, Reply, SyncCall, WaitFlags};
use kmt_link::Link;
use shared_words::{Memory, Word};
use softgpu_umd::Commands;
use wddm_types::RawHandle;

use crate::stubborn::{FenceStep, Whims, host_in, host_with};
use crate::world::{Client, MIB, client, host};

fn wait(of: &Client, fence: &d3dkmt::Fence, value: u64) -> Call {
    Call::Sync(SyncCall::WaitForSynchronizationObjectFromCpu {
        device: of.gpu.device().handle(),
        points: vec![(fence.handle(), value)],
        async_event: RawHandle::NONE,
        flags: WaitFlags::empty(),
    })
}

/// Values whose halves are equal: whoever sees two halves of different ones has seen a torn one.
fn twin(number: u64) -> u64 {
    number << 32 | number
}

fn is_whole(value: u64) -> bool {
    value >> 32 == value & 0xffff_ffff
}

/// An engine and the CPU signal in turns, on two processors; both read what the other wrote.
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
    assert!(copies.iter().copied().all(is_whole) && copies.is_sorted(), "what the engine read");
}

/// The driver's routine and its update run one after the other, never into each other, whoever is signalling.
#[test]
fn monitored_values_are_updated_while_no_interrupt_is_told() {
    // spec: sync §2.6, sync §3.9
    // seed: N32
    #[derive(Default)]
    struct Within {
        either: AtomicBool,
        overlaps: AtomicU64,
        told: AtomicU64,
        updates: AtomicU64,
    }
    impl Within {
        fn pass(&self, which: &AtomicU64) {
            which.fetch_add(1, Ordering::Relaxed);
            self.overlaps.fetch_add(u64::from(self.either.swap(true, Ordering::SeqCst)), Ordering::Relaxed);
            std::thread::yield_now();
            self.either.store(false, Ordering::SeqCst);
        }
    }
    let within = Arc::new(Within::default());
    let (says, hears) = (Arc::clone(&within), Arc::clone(&within));
    let say = move |interrupt: Interrupt<'_>, notify: &mut dyn Notify| {
        says.pass(&says.told);
        notify.interrupt(interrupt);
    };
    let hear = move |step: FenceStep| {
        if matches!(step, FenceStep::Monitored(_)) {
            hears.pass(&hears.updates);
        }
    };
    let host =
        host_in(Mode::Real, 4 * MIB, Whims { say: Box::new(say), hear_fence: Box::new(hear), ..Whims::default() });
    let mut client = client(&host);
    let fence = client.gpu.device().create_native_fence(NativeFenceRequest::default()).unwrap();
    // A busy computer may have every value there before anybody waits for it: then it goes on until one is late.
    let both = || within.updates.load(Ordering::Relaxed) > 0 && within.told.load(Ordering::Relaxed) > 0;
    for value in (1..).take_while(|value| *value <= 300 || !both()) {
        let mut commands = Commands::new();
        commands.signal(&fence, value);
        client.stream.submit(&client.gpu, &[], &commands).expect("a submission");
        client.link.call(wait(&client, &fence, value)).expect("it comes");
    }
    assert_eq!(within.overlaps.load(Ordering::Relaxed), 0);
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
