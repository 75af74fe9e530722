//! Rules of logs that say "each", with more than one: the fences whose entries are lost, the devices that have a fence.

use std::sync::Arc;

use d3dkmt::{NativeFenceRequest, OpenSyncObjectRequest, SyncObjectAccess};
use events::Event;
use kmt_link::Link;
use softgpu_umd::{Commands, Gpu};

use super::reach::{
    Form, Signaller, begin_wait, committed, folding, folding_driver, listened_to, made_last, shared, stream_on, submit,
};
use crate::stubborn::Whims;
use stack::world::client;

/// More signals than a log of a traced queue holds.
const OVERRUN: u64 = 6_000;
/// A value that no other signal of these tests has.
const LOST: u64 = 7_777;

/// A tool has a log read that has lost the entries of two fences, of the queue's device and of another. The driver says nothing of them
/// before or behind, so only this reading can find their waiters.
#[test]
fn a_reading_without_an_interrupt_looks_at_each_fence_of_the_process_when_entries_are_lost() {
    // spec: sync §3.14 (overrun), sync §3.15
    // seed: N105 (two)
    let (host, heard, folds) = folding(Form::Queue);
    let first = client(&host);
    let second = Gpu::open(Arc::clone(&first.link) as Arc<dyn Link>).unwrap();
    host.trace_fences(true);
    let mut signaller = Signaller::of(&first);
    let gpus = [&first.gpu, &second];
    let fences = gpus.map(|gpu| gpu.device().create_native_fence(NativeFenceRequest::default()).unwrap());
    let waits = [0, 1].map(|nth| begin_wait(&host, &first.link, gpus[nth], &fences[nth], LOST));
    while host.step() {}
    let mut commands = Commands::new();
    for fence in &fences {
        commands.signal(fence, LOST);
    }
    heard.take();
    signaller.signals_silently((&host, &folds), &mut commands, OVERRUN);
    assert_eq!(waits.map(|wait| host.take_answer(wait)), [None, None], "the driver has told nothing");
    host.trace_fences(true);
    let events = heard.take();
    assert!(events.iter().any(|event| matches!(event, Event::FenceLogOverrun { waits: false, .. })), "it overran");
    let helped =
        |event: &&Event| matches!(event, Event::FenceSignalExecuted { value: LOST, .. } | Event::FenceInterrupt { .. });
    assert_eq!(events.iter().find(helped), None, "neither an entry nor an interrupt has told of them");
    assert_eq!(waits.map(|wait| host.take_answer(wait).is_some()), [true; 2]);
}

/// Four queues have signalled: of two devices of one process and of one of another, which have the fence, and of one that does not have it.
/// The kernel looks for the signaller in the logs of the three, whether the driver lists the fence or none.
#[test]
fn the_signaller_is_looked_for_in_the_logs_of_each_device_that_has_the_fence() {
    // spec: sync §3.10
    // seed: N112 (two)
    for listed in [true, false] {
        let whims = if listed { Whims::default() } else { folding_driver(Form::Plain).1 };
        let (host, heard) = listened_to("discrete-4k", whims);
        let [mine, theirs, stranger] = [0; 3].map(|_| client(&host));
        let second = Gpu::open(Arc::clone(&mine.link) as Arc<dyn Link>).unwrap();
        let (fence, _theirs) = shared(&mine, &theirs, d3dkmt::FenceFlags::empty());
        let name = fence.share(SyncObjectAccess::ALL_ACCESS).unwrap();
        let by = OpenSyncObjectRequest { handle: name.token(), ..OpenSyncObjectRequest::default() };
        let _beside = second.device().open_native_fence(by).unwrap();
        let gpus = [&mine.gpu, &second, &theirs.gpu, &stranger.gpu];
        let mut streams = gpus.map(|gpu| {
            let stream = stream_on(gpu);
            (stream, made_last(&heard))
        });
        for ((stream, _), gpu) in streams.iter_mut().zip(gpus) {
            let unwaited = gpu.device().create_native_fence(NativeFenceRequest::default()).unwrap();
            submit(&host, stream, gpu, Commands::new().signal(&unwaited, 1));
        }
        let wait = begin_wait(&host, &mine.link, &mine.gpu, &fence, 1);
        while host.step() {}
        committed(&heard);
        submit(&host, &mut streams[0].0, &mine.gpu, Commands::new().signal(&fence, 1));
        assert!(host.take_answer(wait).is_some(), "listed: {listed}");
        let [(_, of_mine), (_, of_second), (_, of_theirs), _] = streams;
        assert_eq!(committed(&heard), [of_mine, of_second, of_theirs], "listed: {listed}");
    }
}
