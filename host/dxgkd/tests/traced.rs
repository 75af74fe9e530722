//! A tool in the kernel's program traces a process elsewhere: the kernel does not see waits and signals that the process submits on a user-mode
//! queue, so the process reports them, with the times of their recording.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use d3dkmt::NativeFenceRequest;
use dxgk_host::{Host, HostConfig, Mode, Profile};
use dxgkd::{Daemon, Limits};
use events::{Event, Tracer};
use kmt_link::Link;
use kmt_link::socket::SocketLink;
use softgpu_umd::{Commands, Gpu, Stream, StreamConfig};
use wddm_types::NodeId;

/// The kernel's events about waits and signals of user-mode queues.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<(u64, Event)>>>);

impl Tracer for Told {
    fn event(&mut self, now_ns: u64, event: &Event) {
        if matches!(
            event,
            Event::FenceWaitQueued { .. } | Event::FenceSignalQueued { .. } | Event::FenceSignalExecuted { .. }
        ) {
            self.0.lock().unwrap().push((now_ns, event.clone()));
        }
    }
}

impl Told {
    fn take(&self) -> Vec<(u64, Event)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// A queued wait or signal: whether it is a signal, its value, when it was submitted and recorded.
fn queued((at, event): &(u64, Event)) -> Option<(bool, u64, u64, u64)> {
    match *event {
        Event::FenceWaitQueued { value, recorded_ns, .. } => Some((false, value, *at, recorded_ns)),
        Event::FenceSignalQueued { value, recorded_ns, .. } => Some((true, value, *at, recorded_ns)),
        _ => None,
    }
}

/// Until the process has heard whether a tool traces: that comes by itself.
fn until_traced(link: &SocketLink, on: bool) {
    let began = Instant::now();
    while link.traces_fences() != on {
        assert!(began.elapsed() < Duration::from_secs(120), "the process does not hear of it");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_process_elsewhere_says_what_it_queues_while_a_tool_traces() {
    // spec: sync §3.14
    // seed: N91, N102
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kernel");
    let told = Told::default();
    let mut config = HostConfig::new(Profile::named("discrete-4k").expect("a built-in profile"), Mode::Real);
    (config.vram_bytes, config.page_table_bytes, config.system_bytes) = (16 << 20, 4 << 20, 32 << 20);
    config.isolates_processes = true;
    config.tracer = Box::new(told.clone());
    let host = Host::start(config).expect("a kernel");
    let _daemon = Daemon::serve(Arc::clone(&host), &path, 0o600, Limits::default()).expect("a socket");
    // One that was there before, and one that comes while the tool is there.
    let early = SocketLink::connect(&path).expect("a kernel");
    // The kernel knows it when it has answered.
    early.now_ns();
    assert!(!early.traces_fences());
    host.trace_fences(true);
    until_traced(&early, true);
    let links = [early, SocketLink::connect(&path).expect("a kernel")];
    for link in &links {
        until_traced(link, true);
        let gpu = Gpu::open(Arc::clone(link) as Arc<dyn Link>).expect("the adapter opens");
        let mut stream = Stream::create(&gpu, NodeId(0), StreamConfig::default()).expect("a stream");
        let fence = gpu.device().create_native_fence(NativeFenceRequest::default()).expect("a fence");
        told.take();
        let before_ns = link.now_ns();
        let mut commands = Commands::recorded(&gpu);
        commands.wait(&fence, 0).signal(&fence, 41);
        let recorded_by_ns = link.now_ns();
        // Many enough for more than one message.
        for value in 42..1_300 {
            commands.signal(&fence, value);
        }
        let value = stream.submit(&gpu, &[], &commands).expect("a submission");
        let told_by_submit = told.take();
        stream.wait(&gpu, value).expect("it completes");
        let all: Vec<_> = told_by_submit.iter().filter_map(queued).collect();
        assert_eq!(all.len(), 2 + 1_258 + 1, "each, and the progress of the submission, before it is rung");
        let (signal, value, at, recorded_ns) = all[1];
        assert_eq!((all[0].0, signal, value), (false, true, 41));
        assert!(before_ns <= all[0].3 && all[0].3 <= recorded_ns && recorded_ns <= recorded_by_ns, "{:?}", &all[..2]);
        assert!(recorded_by_ns <= at, "submitted later: {at}");
        assert!(all.windows(2).all(|pair| pair[0].3 <= pair[1].3), "in the order of their recording");
        // The kernel reads the fence logs while the queue exists.
        host.trace_fences(true);
        let executed = |event: &Event| matches!(event, Event::FenceSignalExecuted { value: 41, .. });
        assert!(told_by_submit.iter().chain(&told.take()).any(|(_, event)| executed(event)), "and its end");
    }
    host.trace_fences(false);
    links.iter().for_each(|link| until_traced(link, false));
    let link = SocketLink::connect(&path).expect("a kernel");
    let gpu = Gpu::open(Arc::clone(&link) as Arc<dyn Link>).expect("the adapter opens");
    let mut stream = Stream::create(&gpu, NodeId(0), StreamConfig::default()).expect("a stream");
    assert!(!link.traces_fences());
    told.take();
    let value = stream.submit(&gpu, &[], &Commands::new()).expect("a submission");
    stream.wait(&gpu, value).expect("it completes");
    assert!(told.take().iter().all(|told| queued(told).is_none()), "the client reports none without a tool");
}
