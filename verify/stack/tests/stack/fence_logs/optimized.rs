//! The optimized interrupt: it names queues, and their logs name the signalled fences.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use d3dkmt::{Fence, FenceFlags, NativeFenceRequest, OpenSyncObjectRequest, SyncObjectAccess};
use ddi::{Interrupt, KmdQueue, Notify, OsGlobalFence, PowerState};
use dxgk_host::{Host, Pending};
use events::Event;
use shared_words::{Memory, Word};
use softgpu_umd::{Commands, FenceName, Stream, StreamConfig, SurfaceKind};
use wddm_types::NodeId;

use super::read::{logging_host, logs_in, new_fence, run};
use crate::fence_interrupts::begin_wait;
use crate::stubborn::Whims;
use stack::heard::Heard;
use stack::world::{Client, client};

/// A host whose driver names queues otherwise in its fence interrupts, once that is set; `None`: it tells of none.
fn naming(
    profile: &str,
    mut name: impl FnMut(Vec<KmdQueue>) -> Option<Vec<KmdQueue>> + Send + 'static,
) -> (Arc<Host>, Heard, Arc<AtomicBool>) {
    let armed: Arc<AtomicBool> = Arc::default();
    let now = Arc::clone(&armed);
    let say = move |interrupt: Interrupt<'_>, notify: &mut dyn Notify| match interrupt {
        Interrupt::NativeFenceSignaled { node, engine, fences, queues, flags } if now.load(Ordering::Relaxed) => {
            if let Some(queues) = name(queues.to_vec()) {
                notify.interrupt(Interrupt::NativeFenceSignaled { node, engine, fences, queues: &queues, flags });
            }
        }
        other => notify.interrupt(other),
    };
    let (host, heard) = logging_host(profile, Whims { say: Box::new(say), ..Whims::default() });
    (host, heard, armed)
}

fn stream(client: &Client, node: u16) -> Stream {
    Stream::create(&client.gpu, NodeId(node), StreamConfig::default()).unwrap()
}

/// E1 to E4: F1 to V1, F1 to V2, F2 to V3, silent; F2 to V3 again, with the one interrupt.
#[test]
fn the_entries_of_one_queue_release_the_waiters_of_all_fences_in_it() {
    // spec: sync §3.15
    // seed: N113, N114, N117
    let raised = AtomicU64::new(0);
    let last_only = move |queues: Vec<KmdQueue>| (raised.fetch_add(1, Ordering::Relaxed) == 3).then_some(queues);
    let (host, heard, armed) = naming("optimized-fences", last_only);
    let client = client(&host);
    let mut a = stream(&client, 0);
    let (f1, f2) = (new_fence(&client), new_fence(&client));
    let waits = [(&f1, 1), (&f1, 2), (&f2, 3)].map(|(fence, value)| begin_wait(&host, &client, fence, value));
    while host.step() {}
    heard.take();
    armed.store(true, Ordering::Relaxed);
    for (fence, value) in [(&f1, 1), (&f1, 2)] {
        run(&host, &mut a, &client, |commands| {
            commands.signal(fence, value);
        });
    }
    // Only the log still has F1's value.
    run(&host, &mut a, &client, |commands| {
        commands.store(f1.current_va(), 0).signal(&f2, 3);
    });
    assert!(heard.take().is_empty(), "three signals of which the kernel knows nothing");
    run(&host, &mut a, &client, |commands| {
        commands.signal(&f2, 3);
    });
    assert_eq!(waits.map(|wait| host.take_answer(wait).is_some()), [true; 3]);
    assert_eq!(f1.current(), 0, "and it was not read");
    let told: Vec<(u64, u64)> = heard
        .take()
        .iter()
        .filter_map(|event| match event {
            Event::FenceSignalExecuted { fence, value, .. } => Some((*fence, *value)),
            _ => None,
        })
        .collect();
    assert_eq!(told.len(), 7, "{told:?}");
    let pairs: Vec<u64> = [0, 2, 4, 6].map(|at| told[at].1).to_vec();
    assert_eq!(pairs, [1, 2, 3, 3], "E1 to E4, each behind its submission's progress: {told:?}");
}

#[test]
fn an_interrupt_may_name_several_queues_or_none() {
    // spec: sync §3.15
    // seed: N119
    for several in [true, false] {
        let (raised, mut known) = (AtomicU64::new(0), Vec::new());
        let (host, _, armed) = naming("optimized-fences", move |queues| {
            known.extend(queues);
            let last = raised.fetch_add(1, Ordering::Relaxed) == 1;
            last.then(|| if several { std::mem::take(&mut known) } else { Vec::new() })
        });
        let client = client(&host);
        let fences: Vec<Fence> = (0..2).map(|_| new_fence(&client)).collect();
        let waits: Vec<Pending> = fences.iter().map(|fence| begin_wait(&host, &client, fence, 1)).collect();
        let mut queues = [stream(&client, 0), stream(&client, 0)];
        armed.store(true, Ordering::Relaxed);
        for (fence, queue) in fences.iter().zip(&mut queues) {
            run(&host, queue, &client, |commands| {
                commands.signal(fence, 1);
            });
        }
        let released: Vec<bool> = waits.into_iter().map(|wait| host.take_answer(wait).is_some()).collect();
        assert_eq!(released, [true, true], "several: {several}");
        assert_eq!(host.stopped(), None);
        armed.store(false, Ordering::Relaxed);
    }
}

#[test]
fn the_cap_decides_which_names_are_read() {
    // spec: sync §2.8, sync §3.10, sync §6 C11
    // seed: N118
    for profile in ["discrete-4k", "optimized-fences"] {
        let wild = move |interrupt: Interrupt<'_>, notify: &mut dyn Notify| match interrupt {
            Interrupt::NativeFenceSignaled { node, engine, fences, queues, flags } => {
                let (no_fence, no_queue) = ([OsGlobalFence(1 << 40)], [KmdQueue(1 << 40)]);
                let optimized = profile == "optimized-fences";
                let fences = if optimized { Some(&no_fence[..]) } else { fences };
                let queues = if optimized { queues } else { &no_queue };
                notify.interrupt(Interrupt::NativeFenceSignaled { node, engine, fences, queues, flags });
            }
            other => notify.interrupt(other),
        };
        let (host, _) = logging_host(profile, Whims { say: Box::new(wild), ..Whims::default() });
        let client = client(&host);
        let (mut queue, fence) = (stream(&client, 0), new_fence(&client));
        let wait = begin_wait(&host, &client, &fence, 1);
        run(&host, &mut queue, &client, |commands| {
            commands.signal(&fence, 1);
        });
        assert_eq!((host.take_answer(wait).is_some(), host.stopped()), (true, None), "{profile}");
    }
}

/// A queue that the kernel feeds has no log, and a command that names no entry leaves none.
#[test]
fn what_is_signalled_without_an_entry_is_looked_at() {
    // spec: sync §3.15, sync §6 C9
    // seed: N94
    let (host, _) = logging_host("optimized-fences", Whims::default());
    let client = client(&host);
    let context = client.gpu.device().create_context(NodeId(0)).unwrap();
    let queue = context.create_kernel_queue().unwrap();
    let buffer = client.pinned(SurfaceKind::System, 4096);
    let fence = new_fence(&client);
    let waits = [begin_wait(&host, &client, &fence, 1), begin_wait(&host, &client, queue.progress(), 1)];
    let mut commands = Commands::new();
    commands.signal(&fence, 1);
    buffer.lock().unwrap().write_words(0, commands.words());
    queue.submit(buffer.va(), commands.words().len() as u32 * 8, 1).unwrap();
    while host.step() {}
    assert_eq!(waits.map(|wait| host.take_answer(wait).is_some()), [true; 2]);
}

/// An interrupt names a queue whose log's header shows no new entry.
#[test]
fn a_queue_that_is_named_and_says_nothing_has_its_fences_looked_at() {
    // spec: sync §3.15, sync §3.10
    let memory: Arc<Mutex<Option<Arc<Memory>>>> = Arc::default();
    let hides = Arc::clone(&memory);
    let (host, heard, armed) = naming("optimized-fences", move |queues| {
        let memory = hides.lock().unwrap();
        let memory = memory.as_ref().expect("it is set before");
        logs_in(memory).into_iter().for_each(|at| Word::store(memory.word(at), 0));
        Some(queues)
    });
    let client = client(&host);
    let (mut queue, fence) = (stream(&client, 0), new_fence(&client));
    let wait = begin_wait(&host, &client, &fence, 1);
    while host.step() {}
    heard.take();
    *memory.lock().unwrap() = Some(Arc::clone(client.link.system_memory()));
    armed.store(true, Ordering::Relaxed);
    run(&host, &mut queue, &client, |commands| {
        commands.signal(&fence, 1);
    });
    armed.store(false, Ordering::Relaxed);
    assert!(host.take_answer(wait).is_some());
    assert!(!heard.take().iter().any(|event| matches!(event, Event::FenceSignalExecuted { .. })));
}

/// A sleep takes the doorbell of a queue and leaves its logs: the driver connects again and writes on behind the last entry.
#[test]
fn a_queue_that_is_connected_again_logs_behind_its_last_entry() {
    // spec: sync §3.14, sync §3.15, sync §3.17
    // seed: N99
    for state in [PowerState::Standby, PowerState::Hibernate] {
        let (host, heard) = logging_host("optimized-fences", Whims::default());
        let client = client(&host);
        let (mut queue, fence) = (stream(&client, 0), new_fence(&client));
        for value in 1..=9u64 {
            if value % 3 == 0 {
                host.power_transition(state).expect("it falls asleep");
                host.power_transition(PowerState::On).expect("it wakes");
            }
            let wait = begin_wait(&host, &client, &fence, value);
            run(&host, &mut queue, &client, |commands| {
                commands.signal(&fence, value);
            });
            assert!(host.take_answer(wait).is_some(), "the waiter of value {value} sleeps on, {state:?}");
        }
        let events = heard.take();
        assert!(!events.iter().any(|event| matches!(event, Event::FenceLogEntryIgnored { .. })), "{events:?}");
        let signals = events.iter().filter(|event| matches!(event, Event::FenceSignalExecuted { .. })).count();
        // The entry of the last progress is read with the next interrupt.
        assert_eq!(signals, 17, "nine of the fence and eight of the queue's progress, {state:?}");
    }
}

/// A process can write anything into its log: the log ends no other process's waits.
#[test]
fn a_fence_that_others_share_is_looked_at_whatever_a_log_says() {
    // spec: sync §3.15, sync §6 C10
    let (host, _) = logging_host("optimized-fences", Whims::default());
    let (good, mut bad) = (client(&host), client(&host));
    let flags = FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING;
    let request = NativeFenceRequest { flags, ..NativeFenceRequest::default() };
    let mine = good.gpu.device().create_native_fence(request).unwrap();
    let name = mine.share(SyncObjectAccess::ALL_ACCESS).unwrap();
    let request = OpenSyncObjectRequest { handle: name.token(), ..OpenSyncObjectRequest::default() };
    let theirs = bad.gpu.device().open_native_fence(request).unwrap();
    let own = new_fence(&bad);
    let (deceived, honest) = (begin_wait(&host, &good, &mine, 9), begin_wait(&host, &bad, &own, 9));
    // The words of one fence, the name of the other.
    let lie = FenceName { handle: theirs.handle(), ..FenceName::from(&own) };
    bad.run(|commands| {
        commands.signal(lie, 9);
    });
    while host.step() {}
    assert_eq!(host.take_answer(deceived), None, "its fence has not come to that");
    bad.run(|commands| {
        commands.signal(&theirs, 9).signal(&own, 9);
    });
    while host.step() {}
    assert!(host.take_answer(deceived).is_some() && host.take_answer(honest).is_some());
}

#[test]
fn a_queue_that_goes_takes_no_waiter_with_it() {
    // spec: sync §3.10, sync §3.15
    let (host, _, armed) = naming("optimized-fences", |_| None);
    let client = client(&host);
    let (mut queue, fence) = (stream(&client, 0), new_fence(&client));
    let wait = begin_wait(&host, &client, &fence, 1);
    armed.store(true, Ordering::Relaxed);
    run(&host, &mut queue, &client, |commands| {
        commands.signal(&fence, 1);
    });
    assert_eq!(host.take_answer(wait), None, "the driver has told nothing");
    armed.store(false, Ordering::Relaxed);
    drop(queue);
    while host.step() {}
    assert!(host.take_answer(wait).is_some());
}

/// How a driver names the signalled fences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Plain,
    PlainWithoutNames,
    Queues,
    NoQueue,
}

/// The waits that are over after each of many steps of one random history.
fn history(form: Form, mut seed: u64) -> Vec<Vec<bool>> {
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let profile = if matches!(form, Form::Queues | Form::NoQueue) { "optimized-fences" } else { "discrete-4k" };
    let say = move |interrupt: Interrupt<'_>, notify: &mut dyn Notify| match interrupt {
        Interrupt::NativeFenceSignaled { node, engine, fences, queues, flags } => {
            let fences = if form == Form::PlainWithoutNames { None } else { fences };
            let queues = if form == Form::NoQueue { &[] } else { queues };
            notify.interrupt(Interrupt::NativeFenceSignaled { node, engine, fences, queues, flags });
        }
        other => notify.interrupt(other),
    };
    let (host, _) = logging_host(profile, Whims { say: Box::new(say), ..Whims::default() });
    let client = client(&host);
    let mut queues = [stream(&client, 0), stream(&client, 0), stream(&client, 1)];
    let fences: Vec<Fence> = (0..4).map(|_| new_fence(&client)).collect();
    let (mut reached, mut waits, mut over) = ([0u64; 4], Vec::new(), Vec::new());
    for _ in 0..60 {
        if random(2) == 0 {
            let fence = random(4) as usize;
            waits.push(Some(begin_wait(&host, &client, &fences[fence], reached[fence] + 1 + random(4))));
        } else {
            let queue = &mut queues[random(3) as usize];
            // Now and then more than a log holds.
            let count = if random(8) == 0 { 60 + random(120) } else { 1 + random(3) };
            let mut commands = Commands::new();
            for _ in 0..count {
                let fence = random(4) as usize;
                reached[fence] += random(2);
                commands.signal(&fences[fence], reached[fence]);
            }
            queue.submit(&client.gpu, &[], &commands).expect("a submission");
        }
        while host.step() {}
        for wait in &mut waits {
            if wait.is_some_and(|wait| host.take_answer(wait).is_some()) {
                *wait = None;
            }
        }
        over.push(waits.iter().map(Option::is_none).collect());
    }
    over
}

#[test]
fn every_form_of_the_interrupt_ends_the_same_waits() {
    // spec: sync §3.19 item 9, sync §3.19 item 8, sync §3.15, sync §3.10
    // seed: N57, N114, N118
    for seed in 1..=4 {
        let plain = history(Form::Plain, seed);
        assert!(plain.last().unwrap().iter().filter(|over| **over).count() > 5, "waits end in it");
        for form in [Form::PlainWithoutNames, Form::Queues, Form::NoQueue] {
            assert_eq!(history(form, seed), plain, "{form:?}, seed {seed}");
        }
    }
}
