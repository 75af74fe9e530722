//! A queue's interrupt covers fences that the queue's log does not name, or that another device or another process has: GPU addresses and
//! names belong to a process, so its queues signal every fence that it has open anywhere, and a shared fence wakes waiters of other processes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use d3dkmt::{Fence, FenceFlags, NativeFenceRequest, OpenSyncObjectRequest, SyncObjectAccess};
use ddi::{Interrupt, KmdQueue, Notify};
use dxgk_host::{Host, Pending};
use events::Event;
use kmt_calls::{Call, SyncCall, WaitFlags};
use kmt_link::Link;
use softgpu_umd::{Commands, FenceName, Gpu, Stream, StreamConfig};
use wddm_types::{NodeId, RawHandle};

use super::read::{logging_host, new_fence};
use crate::stubborn::{LogStep, Whims};
use stack::heard::Heard;
use stack::world::{Client, client};

/// More signals than a log holds.
const OVERRUN: u64 = 200;
const FEW: u64 = 10;

/// How the one interrupt of a submission names the signalled fences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The profile without the cap: fences, none named.
    Plain,
    /// The queue.
    Queue,
    /// No queue.
    Engine,
}

impl Form {
    fn profile(self) -> &'static str {
        if self == Form::Plain { "discrete-4k" } else { "optimized-fences" }
    }
}

const FORMS: [Form; 3] = [Form::Plain, Form::Queue, Form::Engine];

/// A host whose driver folds all signals while it is told to into the first interrupt behind.
pub(super) fn folding(form: Form) -> (Arc<Host>, Heard, Arc<AtomicBool>) {
    let (folds, whims) = folding_driver(form);
    let (host, heard) = logging_host(form.profile(), whims);
    (host, heard, folds)
}

pub(super) fn folding_driver(form: Form) -> (Arc<AtomicBool>, Whims) {
    let folds: Arc<AtomicBool> = Arc::default();
    let now = Arc::clone(&folds);
    let folded: Mutex<Vec<KmdQueue>> = Mutex::default();
    let say = move |interrupt: Interrupt<'_>, notify: &mut dyn Notify| match interrupt {
        Interrupt::NativeFenceSignaled { node, engine, queues, flags, .. } => {
            let mut folded = folded.lock().unwrap();
            folded.extend(queues);
            if !now.load(Ordering::Relaxed) {
                folded.dedup();
                let queues = if form == Form::Engine { Vec::new() } else { std::mem::take(&mut *folded) };
                notify.interrupt(Interrupt::NativeFenceSignaled { node, engine, fences: None, queues: &queues, flags });
            }
        }
        other => notify.interrupt(other),
    };
    (folds, Whims { say: Box::new(say), ..Whims::default() })
}

pub(super) fn stream_on(gpu: &Gpu) -> Stream {
    Stream::create(gpu, NodeId(0), StreamConfig::default()).expect("a stream")
}

pub(super) fn begin_wait(host: &Host, link: &dxgk_host::ProcessLink, gpu: &Gpu, fence: &Fence, value: u64) -> Pending {
    let call = Call::Sync(SyncCall::WaitForSynchronizationObjectFromCpu {
        device: gpu.device().handle(),
        points: vec![(fence.handle(), value)],
        async_event: RawHandle::NONE,
        flags: WaitFlags::empty(),
    });
    host.begin_call(link.process(), call).expect_err("the value has not come")
}

pub(super) fn submit(host: &Host, stream: &mut Stream, gpu: &Gpu, commands: &Commands) {
    stream.submit(gpu, &[], commands).expect("a submission");
    while host.step() {}
}

/// A process that signals fences of other processes' waits, and then its own bell: one interrupt for all of it.
pub(super) struct Signaller<'a> {
    client: &'a Client,
    queue: Stream,
    /// It has no waiter.
    noise: Fence,
    /// It waits for this fence itself.
    bell: Fence,
}

impl Signaller<'_> {
    pub(super) fn of(client: &Client) -> Signaller<'_> {
        let queue = stream_on(&client.gpu);
        Signaller { client, queue, noise: new_fence(client), bell: new_fence(client) }
    }

    /// Runs commands, and so many signals behind them of which the kernel hears nothing yet.
    pub(super) fn signals_silently(
        &mut self,
        (host, folds): (&Host, &AtomicBool),
        commands: &mut Commands,
        count: u64,
    ) {
        for value in 1..=count {
            commands.signal(&self.noise, value);
        }
        folds.store(true, Ordering::Relaxed);
        submit(host, &mut self.queue, &self.client.gpu, commands);
        folds.store(false, Ordering::Relaxed);
    }

    /// Signals the fence that its own process waits for: the interrupt for all signals until now.
    fn rings(&mut self, host: &Host) {
        let value = self.bell.current() + 1;
        let wait = begin_wait(host, &self.client.link, &self.client.gpu, &self.bell, value);
        while host.step() {}
        let mut commands = Commands::new();
        commands.signal(&self.bell, value);
        submit(host, &mut self.queue, &self.client.gpu, &commands);
        assert!(host.take_answer(wait).is_some(), "its own waiter");
    }
}

/// A fence of one process, and another process's open of it.
pub(super) fn shared(of: &Client, with: &Client, flags: FenceFlags) -> (Fence, Fence) {
    let flags = flags | FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING;
    let mine =
        of.gpu.device().create_native_fence(NativeFenceRequest { flags, ..NativeFenceRequest::default() }).unwrap();
    let name = mine.share(SyncObjectAccess::ALL_ACCESS).unwrap();
    let request = OpenSyncObjectRequest { handle: name.token(), ..OpenSyncObjectRequest::default() };
    let theirs = with.gpu.device().open_native_fence(request).unwrap();
    (mine, theirs)
}

/// An overrun log loses the first signal.
#[test]
fn a_fence_that_another_device_of_the_process_has_wakes_its_waiter() {
    // spec: sync §3.14 (overrun), sync §3.15, sync §3.19 item 8, sync §3.19 item 9
    // seed: N105, N116
    for form in FORMS {
        for count in [FEW, OVERRUN] {
            let (host, _, folds) = folding(form);
            let first = client(&host);
            let other = Gpu::open(Arc::clone(&first.link) as Arc<dyn Link>).unwrap();
            let fence = other.device().create_native_fence(NativeFenceRequest::default()).unwrap();
            let mut signaller = Signaller::of(&first);
            let wait = begin_wait(&host, &first.link, &other, &fence, 1);
            while host.step() {}
            signaller.signals_silently((&host, &folds), Commands::new().signal(&fence, 1), count);
            assert_eq!((fence.current(), host.take_answer(wait)), (1, None), "the driver has told nothing yet");
            signaller.rings(&host);
            assert!(host.take_answer(wait).is_some(), "{form:?}, {count} signals");
        }
    }
}

/// A shared fence wakes its waiter in another process by whichever name its signaller calls it, also by none, also when the entry is lost.
#[test]
fn a_shared_fence_that_a_log_does_not_name_wakes_the_waiter_of_another_process() {
    // spec: sync §3.15, sync §6 C10, sync §3.14 (overrun)
    // seed: N114, N118
    for form in FORMS {
        for count in [FEW, OVERRUN] {
            for named in ["itself", "another", "nothing"] {
                let (host, _, folds) = folding(form);
                let (waiter, other) = (client(&host), client(&host));
                let (mine, theirs) = shared(&waiter, &other, FenceFlags::empty());
                let mut signaller = Signaller::of(&other);
                let wait = begin_wait(&host, &waiter.link, &waiter.gpu, &mine, 9);
                while host.step() {}
                let handle = match named {
                    "itself" => theirs.handle(),
                    "another" => signaller.noise.handle(),
                    _ => RawHandle(0xdead_beef),
                };
                let name = FenceName { handle, ..FenceName::from(&theirs) };
                signaller.signals_silently((&host, &folds), Commands::new().signal(name, 9), count);
                assert_eq!((mine.current(), host.take_answer(wait)), (9, None), "the driver has told nothing yet");
                signaller.rings(&host);
                assert!(host.take_answer(wait).is_some(), "{form:?}, {count} signals, named {named}");
            }
        }
    }
}

/// The signaller has closed its open of the fence when the interrupt comes: no name of its own means the fence any more.
#[test]
fn a_fence_that_its_signaller_has_closed_meanwhile_wakes_the_waiter_of_another_process() {
    // spec: sync §3.4, sync §3.15
    // seed: N114
    for form in FORMS {
        let (host, _, folds) = folding(form);
        let (waiter, other) = (client(&host), client(&host));
        let (mine, theirs) = shared(&waiter, &other, FenceFlags::UNWAIT_CPU_WAITERS_ONLY_ON_DESTROY);
        let mut signaller = Signaller::of(&other);
        let wait = begin_wait(&host, &waiter.link, &waiter.gpu, &mine, 9);
        while host.step() {}
        signaller.signals_silently((&host, &folds), Commands::new().signal(&theirs, 9), FEW);
        assert_eq!((mine.current(), host.take_answer(wait)), (9, None), "the driver has told nothing yet");
        drop(theirs);
        signaller.rings(&host);
        assert!(host.take_answer(wait).is_some(), "{form:?}");
    }
}

/// Entries are read once. When a tool has had them read before the interrupt comes, they have done their work by then.
#[test]
fn what_a_tool_has_had_read_before_the_interrupt_wakes_its_waiters() {
    // spec: sync §3.14, sync §3.15
    // seed: N114
    for form in FORMS {
        let (host, heard, folds) = folding(form);
        let client = client(&host);
        host.trace_fences(true);
        let fence = new_fence(&client);
        let mut signaller = Signaller::of(&client);
        let wait = begin_wait(&host, &client.link, &client.gpu, &fence, 7);
        while host.step() {}
        signaller.signals_silently((&host, &folds), Commands::new().signal(&fence, 7), FEW);
        assert_eq!((fence.current(), host.take_answer(wait)), (7, None), "the driver has told nothing yet");
        heard.take();
        host.trace_fences(true);
        let read = heard.take().iter().any(|event| matches!(event, Event::FenceSignalExecuted { value: 7, .. }));
        assert!(read, "{form:?}: the tool's reading");
        signaller.rings(&host);
        assert!(host.take_answer(wait).is_some(), "{form:?}");
        host.trace_fences(false);
    }
}

/// An interrupt of one process's queue makes the kernel look at that process's open fences only, however many fences others wait for.
#[test]
fn an_interrupt_of_a_queue_looks_at_fences_of_its_process_alone() {
    // spec: sync §3.15
    // seed: N114, N116
    for (count, expected) in [(FEW, 1), (OVERRUN, 3)] {
        let (host, heard, folds) = folding(Form::Queue);
        let (mine, others) = (client(&host), client(&host));
        let strangers: Vec<Fence> = (0..40).map(|_| new_fence(&others)).collect();
        let (in_common, _theirs) = shared(&mine, &others, FenceFlags::empty());
        let own = new_fence(&mine);
        let mut signaller = Signaller::of(&mine);
        for stranger in &strangers {
            begin_wait(&host, &others.link, &others.gpu, stranger, 1);
        }
        for fence in [&in_common, &own] {
            begin_wait(&host, &mine.link, &mine.gpu, fence, 1);
        }
        while host.step() {}
        signaller.signals_silently((&host, &folds), &mut Commands::new(), count);
        heard.take();
        signaller.rings(&host);
        let looks: Vec<u32> = heard
            .take()
            .iter()
            .filter_map(|event| match event {
                Event::FenceInterrupt { looked_at, .. } => Some(*looked_at),
                _ => None,
            })
            .collect();
        assert_eq!(looks, [expected], "the one that it shares; when entries are lost, its own and the bell beside");
    }
}

/// The same, with the kernel's calls to its driver about logs.
fn listened(form: Form) -> (Arc<Host>, Arc<Mutex<Vec<LogStep>>>, Arc<AtomicBool>) {
    let (folds, whims) = folding_driver(form);
    let (host, heard) = listened_to(form.profile(), whims);
    (host, heard, folds)
}

/// A host of a profile, whose driver has these whims, with the kernel's calls to that driver about logs.
pub(super) fn listened_to(profile: &str, whims: Whims) -> (Arc<Host>, Arc<Mutex<Vec<LogStep>>>) {
    let heard: Arc<Mutex<Vec<LogStep>>> = Arc::default();
    let hears = Arc::clone(&heard);
    let hear_log = move |step| {
        hears.lock().unwrap().push(step);
        Ok(())
    };
    let (host, _) = logging_host(profile, Whims { hear_log: Box::new(hear_log), ..whims });
    (host, heard)
}

/// The queues whose logs the kernel had the driver commit since the last look.
pub(super) fn committed(heard: &Mutex<Vec<LogStep>>) -> Vec<KmdQueue> {
    let steps: Vec<LogStep> = heard.lock().unwrap().drain(..).collect();
    steps.into_iter().flat_map(|step| if let LogStep::Update(queues) = step { queues } else { Vec::new() }).collect()
}

/// The queue of which the driver heard last: its log of signals was set behind all others.
pub(super) fn made_last(heard: &Mutex<Vec<LogStep>>) -> KmdQueue {
    let steps: Vec<LogStep> = heard.lock().unwrap().drain(..).collect();
    let Some(LogStep::Set(queue, ..)) = steps.last() else { panic!("{steps:?}") };
    *queue
}

/// Three queues have signalled: of the fence's device, of another device of its process, of another process. The kernel looks for the
/// signaller in the log of the first alone.
#[test]
fn the_signaller_is_looked_for_in_the_logs_of_the_fence_s_device_alone() {
    // spec: sync §3.10
    // seed: N112
    let (host, heard, folds) = listened(Form::Plain);
    let (mine, stranger) = (client(&host), client(&host));
    let second = Gpu::open(Arc::clone(&mine.link) as Arc<dyn Link>).unwrap();
    heard.lock().unwrap().clear();
    let mut signaller = Signaller::of(&mine);
    let of_device = made_last(&heard);
    let [mut beside, mut foreign] = [stream_on(&second), stream_on(&stranger.gpu)];
    for (stream, gpu) in [(&mut beside, &second), (&mut foreign, &stranger.gpu)] {
        let fence = gpu.device().create_native_fence(NativeFenceRequest::default()).unwrap();
        submit(&host, stream, gpu, Commands::new().signal(&fence, 1));
    }
    signaller.signals_silently((&host, &folds), &mut Commands::new(), FEW);
    committed(&heard);
    signaller.rings(&host);
    assert_eq!(committed(&heard), [of_device]);
}

/// The logs of the named engine's queues have the fences' values: the kernel reads these logs, but neither the logs of another engine nor
/// the fences.
#[test]
fn an_interrupt_without_a_queue_has_the_logs_of_its_engine_read() {
    // spec: sync §3.15
    // seed: N115
    let (host, heard, folds) = listened(Form::Engine);
    let client = client(&host);
    heard.lock().unwrap().clear();
    let mut signaller = Signaller::of(&client);
    let of_engine = made_last(&heard);
    let mut elsewhere = Stream::create(&client.gpu, NodeId(1), StreamConfig::default()).unwrap();
    let (fence, unread) = (new_fence(&client), new_fence(&client));
    let waits = [(&fence, 1), (&unread, 1)].map(|(of, value)| begin_wait(&host, &client.link, &client.gpu, of, value));
    while host.step() {}
    folds.store(true, Ordering::Relaxed);
    submit(&host, &mut elsewhere, &client.gpu, Commands::new().signal(&unread, 1));
    // Only the log still has the first fence's value.
    let gone_again = fence.current_va();
    signaller.signals_silently((&host, &folds), Commands::new().signal(&fence, 1).store(gone_again, 0), FEW);
    committed(&heard);
    signaller.rings(&host);
    assert_eq!(committed(&heard), [of_engine]);
    assert_eq!(
        waits.map(|wait| host.take_answer(wait).is_some()),
        [true, false],
        "the other engine's interrupt is to come"
    );
    assert_eq!(fence.current(), 0, "and it was not read");
}
