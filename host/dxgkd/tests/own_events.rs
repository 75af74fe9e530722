//! The kernel's events about one process, for that process: all that concern it, in their order, and none of another process.

use std::path::Path;
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

/// All events of the kernel, as a tool in its program hears them.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<Event>>>);

impl Tracer for Told {
    fn event(&mut self, _now_ns: u64, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

/// Events of the kernel itself, of an adapter, or of all processes together.
const OF_THE_KERNEL: [&str; 7] = [
    "ResidentBytes",
    "FenceInterrupt",
    "MonitoredFenceInterrupt",
    "PagingPacketStarted",
    "PreemptionRequested",
    "Preempted",
    "EnginePower",
];

fn served(path: &Path) -> (Arc<Host>, Daemon, Told) {
    let told = Told::default();
    let mut config = HostConfig::new(Profile::named("discrete-4k").expect("a built-in profile"), Mode::Real);
    (config.vram_bytes, config.page_table_bytes, config.system_bytes) = (16 << 20, 4 << 20, 32 << 20);
    config.isolates_processes = true;
    config.tracer = Box::new(told.clone());
    let host = Host::start(config).expect("a kernel");
    let daemon = Daemon::serve(Arc::clone(&host), path, 0o600, Limits::default()).expect("a socket");
    (host, daemon, told)
}

/// Everything that has come, without the facts of adapters.
fn own(link: &SocketLink) -> Vec<Event> {
    let mut all = Vec::new();
    loop {
        let looked = link.own_events().expect("the kernel is there");
        assert_eq!(looked.lost, 0, "a ring has room for so little");
        all.extend(looked.events.into_iter().map(|own| own.event));
        if !looked.more {
            return all;
        }
    }
}

/// Work of every sort that a small client does, until all of its objects are gone.
fn works(link: &Arc<SocketLink>) {
    let gpu = Gpu::open(Arc::clone(link) as Arc<dyn Link>).expect("the adapter opens");
    let mut stream = Stream::create(&gpu, NodeId(0), StreamConfig::default()).expect("a stream");
    let fence = gpu.device().create_native_fence(NativeFenceRequest::default()).expect("a fence");
    for value in 1..6 {
        let mut commands = Commands::new();
        commands.signal(&fence, value);
        let done = stream.submit(&gpu, &[], &commands).expect("a submission");
        stream.wait(&gpu, done).expect("it completes");
    }
    gpu.device().signal(&fence, 9).expect("a signal");
}

/// The events so far that concern the process that works: without the kernel's own, and without works that neither move its memory nor promise it a value.
fn concerning(told: &Told) -> Vec<Event> {
    let all = told.0.lock().unwrap().clone();
    let works: Vec<u64> = all
        .iter()
        .filter_map(|event| match event {
            Event::Moved { work, .. } => Some(*work),
            Event::PagingQueued { work, fence, .. } if *fence != 0 => Some(*work),
            _ => None,
        })
        .collect();
    let concerns = |event: &Event| match event {
        Event::PagingQueued { work, .. } | Event::PagingSubmitted { work, .. } | Event::PagingCompleted { work } => {
            works.contains(work)
        }
        // The kernel arms the fence of its ring when its dispatcher falls asleep: how often is the machine's business.
        Event::MonitoredValueUpdated { fence, .. } => {
            all.iter().any(|event| matches!(event, Event::FenceCreated { fence: made, .. } if made == fence))
        }
        event => !OF_THE_KERNEL.contains(&event.name()),
    };
    // The driver's name of a queue's context is the kernel's alone.
    let as_told = |event: &Event| match event.clone() {
        Event::QueueCreated { queue, node, user_mode, process, fence, .. } => {
            Event::QueueCreated { queue, node, user_mode, process, fence, owner: 0 }
        }
        event => event,
    };
    all.iter().filter(|event| concerns(event)).map(as_told).collect()
}

#[test]
fn a_client_hears_all_that_concerns_it_and_nothing_of_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kernel");
    let (_host, _daemon, told) = served(&path);
    let [link, other] = [(); 2].map(|()| SocketLink::connect(&path).expect("a kernel"));
    for link in [&link, &other] {
        let facts = own(link);
        let names: Vec<&str> = facts.iter().map(Event::name).collect();
        assert!(names.contains(&"AdapterStarted") && names.contains(&"SegmentAdded"), "{names:?}");
        assert!(facts.iter().all(|fact| matches!(fact, Event::AdapterStarted { .. } | Event::SegmentAdded { .. })));
    }
    told.0.lock().unwrap().clear();
    works(&link);
    let (heard, others) = hears_all(&link, &other, &told);
    for kind in ["DeviceCreated", "AllocationCreated", "Moved", "PagingQueued", "PagingCompleted", "QueueCreated"] {
        assert!(heard.iter().any(|event| event.name() == kind), "{kind} is missing");
    }
    assert_eq!(others, [], "the other client has done nothing, and hears of nothing");

    told.0.lock().unwrap().clear();
    works(&other);
    let (_, late) = hears_all(&other, &link, &told);
    // The first client's memory may leave this late; of the other's work it hears nothing.
    for kind in ["DeviceCreated", "AllocationCreated", "QueueCreated", "FenceCreated", "Submitted", "GpuVaMapped"] {
        assert!(late.iter().all(|event| event.name() != kind), "{late:?}");
    }
}

/// Looks until a client has heard all events that concern it, each in its order and with every number: the events of the kernel's trace but for
/// those that the client beside it hears. Answers with the events of both.
fn hears_all(link: &Arc<SocketLink>, beside: &Arc<SocketLink>, told: &Told) -> (Vec<Event>, Vec<Event>) {
    let (mut heard, mut others, began) = (Vec::new(), Vec::new(), Instant::now());
    loop {
        heard.extend(own(link));
        others.extend(own(beside));
        let mut concerns = concerning(told);
        for other in &others {
            if let Some(at) = concerns.iter().position(|event| event == other) {
                concerns.remove(at);
            }
        }
        let ended = heard.iter().any(|event| matches!(event, Event::AllocationDestroyed { .. }));
        if ended && heard == concerns {
            return (heard, others);
        }
        assert!(began.elapsed() < Duration::from_secs(60), "heard {heard:#?}\nconcerns {concerns:#?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_client_that_never_looks_again_loses_its_own_events_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kernel");
    let (host, _daemon, _told) = served(&path);
    let [deaf, link] = [(); 2].map(|()| SocketLink::connect(&path).expect("a kernel"));
    own(&deaf);
    own(&link);
    let gpu = Gpu::open(Arc::clone(&deaf) as Arc<dyn Link>).expect("the adapter opens");
    let fence = gpu.device().create_native_fence(NativeFenceRequest::default()).expect("a fence");
    let signals = 60_000;
    (1..=signals).for_each(|value| gpu.device().signal(&fence, value).expect("the kernel does not wait for it"));
    works(&link);
    assert!(own(&link).len() > 20, "others lose nothing");
    let (mut kept, mut lost) = (0, 0);
    loop {
        let looked = deaf.own_events().expect("the kernel is there");
        kept += looked.events.iter().filter(|own| matches!(own.event, Event::FenceSignaledFromCpu { .. })).count();
        lost += looked.lost;
        if !looked.more {
            break;
        }
    }
    assert!(kept > 1000 && lost > 0 && kept as u64 + lost >= signals, "{kept} kept, {lost} lost");
    host.check_invariants().expect("the kernel is in order");
}
