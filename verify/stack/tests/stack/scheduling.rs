//! The division of a node's time, on the whole stack in virtual time: quanta, shares, and the rank that a waiting context lends.

use d3dkmt::{Allocation, Context};
use events::Event;
use kmt_calls::SyncObjectKind;
use softgpu_umd::{ListedCommands, SurfaceKind};

use crate::preemption::{COMPUTE, changes, client, host, short};
use stack::heard::Heard;
use stack::world::{MIB, VIRTUAL};

/// A command that changes a mebibyte over the bus.
const COMMAND_NS: u64 = 50 + 2_000 + 41_944;
const MS: u64 = 1_000_000;

/// How long each context has had the node between its first packet and the end of them all, and when it was taken from one.
#[derive(Default)]
struct Times {
    /// By context, from 1.
    used: [u64; 5],
    requests: Vec<u64>,
}

fn times(events: &[(u64, Event)]) -> Times {
    let mut times = Times::default();
    let mut running: Vec<(u64, u64)> = Vec::new();
    let mut since = 0;
    for (now, event) in events {
        if let Some((context, _)) = running.first() {
            times.used[*context as usize] += now - since;
        }
        since = *now;
        match event {
            Event::PacketStarted { context, packet, .. } => running.push((*context, *packet)),
            Event::PacketCompleted { context, packet } | Event::PacketPreempted { context, packet, .. } => {
                running.retain(|one| one != &(*context, *packet));
            }
            Event::PreemptionRequested { .. } => times.requests.push(*now),
            _ => {}
        }
    }
    times
}

fn wanted(heard: &Heard) -> Vec<(u64, Event)> {
    let all = heard.take_timed();
    all.into_iter().filter(|(_, event)| !matches!(event, Event::PagingPacketStarted { .. })).collect()
}

fn long(target: &Allocation, commands: u32) -> ListedCommands {
    changes(target, MIB, commands)
}

#[test]
fn processes_take_turns_of_a_quantum_and_are_interrupted_after_the_grace_period() {
    // spec: sync §4.2, sync §4.3
    let (host, heard) = host(VIRTUAL);
    let (one, other) = (client(&host), client(&host));
    let contexts = [one.context(COMPUTE), other.context(COMPUTE)];
    let memory = [one.memory(SurfaceKind::System, MIB), other.memory(SurfaceKind::System, MIB)];
    one.drain(&contexts[0]);
    other.drain(&contexts[1]);
    heard.take_timed();
    for (context, memory) in contexts.iter().zip(&memory) {
        long(memory, 150).render(context).unwrap();
    }
    one.drain(&contexts[0]);
    other.drain(&contexts[1]);
    let events = wanted(&heard);
    let expected =
        ["a1=1", "?b", "!0", "a1<", "b1=2", "?a", "!0", "b1<", "a1=3", "?b", "!0", "a1<", "b1=4", "?a", "!0", "b1<"];
    assert_eq!(short(&events, &[(1, 'a'), (2, 'b')])[..16], expected);
    let times = times(&events);
    // The second's quantum begins when the first has given way: at the end of the command under way.
    let at = |index: usize| events[index].0;
    assert_eq!(times.requests[0] - at(0), 2 * MS + MS / 10);
    assert_eq!(times.requests[1] - at(4), 2 * MS + MS / 10);
    let answered = at(4) - at(0);
    assert_eq!((answered - 50) % COMMAND_NS, 0, "between two commands");
    assert!(answered - (2 * MS + MS / 10) < COMMAND_NS);
    assert_eq!(memory.map(|memory| memory.lock().unwrap().read_word(0)), [150, 150], "once each");
}

#[test]
fn an_idle_process_gets_its_share_and_no_more() {
    // spec: sync §4.2
    let (host, heard) = host(VIRTUAL);
    let (one, other) = (client(&host), client(&host));
    let contexts = [one.context(COMPUTE), other.context(COMPUTE)];
    let memory = [one.memory(SurfaceKind::System, MIB), other.memory(SurfaceKind::System, MIB)];
    one.drain(&contexts[0]);
    other.drain(&contexts[1]);
    other.gpu.adapter().set_priority_class(0).unwrap();
    heard.take_timed();
    long(&memory[1], 250).render(&contexts[1]).unwrap();
    // Always something queued, never more than there is room for.
    let done = one.fence();
    for round in 1..=12u64 {
        long(&memory[0], 250).render(&contexts[0]).unwrap();
        contexts[0].signal(&done, round).unwrap();
        one.gpu.device().wait(&[(&done, round.saturating_sub(1))]).unwrap();
    }
    one.drain(&contexts[0]);
    let times = times(&wanted(&heard));
    // It had the node until the other came, for one command; then, of 132 ms, once half a millisecond to the end of a command.
    let [_, normal, idle, ..] = times.used;
    assert_eq!(idle, (50 + COMMAND_NS) + (50 + (MS / 2).next_multiple_of(COMMAND_NS)));
    assert!(normal > 99 * idle, "{idle} of {normal}");
}

/// A context of high priority waits for a signal of one of low priority, and a context between them has the node.
fn waits_for_a_low_one(promise: impl Fn(&crate::preemption::Client, &Context, &Context)) -> Vec<String> {
    let (host, heard) = host(VIRTUAL);
    let client = client(&host);
    let [low, between, high] = [-7, 0, 7].map(|priority| {
        let context = client.context(COMPUTE);
        context.set_in_process_priority(priority).unwrap();
        context
    });
    let memory = [(); 3].map(|()| client.memory(SurfaceKind::System, MIB));
    client.drain(&low);
    heard.take_timed();
    long(&memory[1], 100).render(&between).unwrap();
    long(&memory[0], 10).render(&low).unwrap();
    promise(&client, &low, &high);
    long(&memory[2], 1).render(&high).unwrap();
    client.drain(&between);
    short(&wanted(&heard), &[(1, 'l'), (2, 'm'), (3, 'h')])
}

#[test]
fn a_high_context_lends_its_rank_to_the_context_that_it_waits_for() {
    // spec: sync §4.2
    let expected = ["m1=1", "?l", "!0", "m1<", "l1=2", "l1.", "h1=3", "h1.", "m1=4", "m1."];
    let by_fence = waits_for_a_low_one(|client, low, high| {
        let fence = client.fence();
        low.signal(&fence, 1).unwrap();
        high.wait(&fence, 1).unwrap();
        std::mem::forget(fence);
    });
    assert_eq!(by_fence, expected);
    let by_object = waits_for_a_low_one(|client, low, high| {
        let device = client.gpu.device();
        let kind = SyncObjectKind::Semaphore { max_count: 1, initial_count: 0 };
        let semaphore = device.create_sync_object(kind, Default::default()).unwrap();
        device.signal_objects(&[low.handle()], &[&semaphore], 0).unwrap();
        device.wait_objects(high.handle(), &[&semaphore], 0).unwrap();
        std::mem::forget(semaphore);
    });
    assert_eq!(by_object, expected);
    // No high context waits for the low one: the low one waits for the others.
    let by_itself = waits_for_a_low_one(|_, _, _| {});
    assert_eq!(by_itself[..4], ["m1=1", "?h", "!0", "m1<"]);
}
