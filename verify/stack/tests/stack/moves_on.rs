//! Locked content that is moved out and in again in one go: its process is told where it has got to, once, and no store of it is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use d3dkmt::{EvictFlags, Lock, MakeResidentFlags};
use ddi::{PagingOp, PagingStatus};
use dxgk_host::{Host, HostConfig, Profile};
use events::Event;
use kmt_calls::Residency;
use softgpu_umd::{Gpu, Stream, StreamConfig, Surface, SurfaceKind, pattern};
use wddm_types::{NodeId, RawHandle};

use crate::remote_client::{RemoteClient, Told};
use crate::stubborn::{Whims, wrapped};
use stack::heard::Heard;
use stack::world::{MIB, VIRTUAL};

const BYTES: u64 = 256 << 10;

/// Asks for content whatever else is there; the value at which that is there.
fn ask_for(gpu: &Gpu, surface: &Surface) -> u64 {
    let list = vec![surface.allocation().handle()];
    let made = gpu.paging().make_resident(list, MakeResidentFlags::CANT_TRIM_FURTHER).expect("in turns");
    let Residency::Pending { paging_fence_value, .. } = made else { panic!("it was not there") };
    paging_fence_value
}

/// A process elsewhere in virtual time, which has locked content in video memory.
struct Locked {
    // Dropped in this order.
    lock: Option<Lock>,
    surface: Surface,
    /// Locked throughout: so all messages about mappings concern the one that moves.
    report: (Lock, Surface),
    stream: Stream,
    gpu: Gpu,
    there: Arc<RemoteClient>,
    host: Arc<Host>,
    /// Works of the ring that are done; devices that are made, quiesced and resumed.
    heard: Heard,
    /// While this is set the driver refuses fills, by which the kernel clears new content.
    refuses: Arc<AtomicBool>,
}

fn is_of_devices(event: &Event) -> bool {
    matches!(event, Event::DeviceCreated { .. } | Event::DeviceSuspended { .. } | Event::DeviceResumed { .. })
}

fn is_done(event: &Event) -> bool {
    matches!(event, Event::PagingCompleted { .. })
}

impl Locked {
    /// `None`: where the operating system holds no stores, such content is in system memory, and stays there.
    fn new() -> Option<Locked> {
        if !crate::lent_local::lends() {
            return None;
        }
        let heard = Heard::of(|event| is_done(event) || is_of_devices(event));
        let refuses = Arc::<AtomicBool>::default();
        let told = Arc::clone(&refuses);
        let whims = Whims {
            build: Box::new(move |driver, build| match build.operation {
                PagingOp::Fill { .. } if told.load(Ordering::SeqCst) => Err(PagingStatus::Fatal("it fills nothing")),
                _ => driver.build_paging_buffer(build),
            }),
            ..Whims::default()
        };
        let config = HostConfig {
            vram_bytes: 8 * MIB,
            page_table_bytes: 16 * MIB,
            system_bytes: 64 * MIB,
            isolates_processes: true,
            tracer: Box::new(heard.clone()),
            wrap_miniport: Some(wrapped(whims)),
            ..HostConfig::new(Profile::named("discrete-4k").expect("a built-in profile"), VIRTUAL)
        };
        let host = Host::start(config).expect("the host starts");
        let there = RemoteClient::new(&host);
        let gpu = there.gpu();
        let stream = Stream::create(&gpu, NodeId(0), StreamConfig::default()).expect("a stream");
        let report = gpu.create_surface(SurfaceKind::System, 4096).expect("a surface");
        let surface = gpu.create_lockable_surface(SurfaceKind::Local, BYTES, false).expect("a surface");
        for surface in [&report, &surface] {
            gpu.pin(surface).expect("room for it");
        }
        let report = (report.lock().expect("system memory"), report);
        let lock = surface.lock().expect("always");
        lock.fill_words(0, BYTES / 8, |index| pattern::word(1, index * 8));
        Some(Locked { lock: Some(lock), surface, report, stream, gpu, there, host, heard, refuses })
    }

    fn list(&self) -> Vec<RawHandle> {
        vec![self.surface.allocation().handle()]
    }

    fn evict(&self) {
        self.gpu.device().evict(self.list(), EvictFlags::empty()).expect("it is listed");
    }

    /// Asks for it, whatever else is there; the value at which it is there.
    fn make_resident(&self) -> u64 {
        ask_for(&self.gpu, &self.surface)
    }

    /// Lets everything happen until something is so.
    fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        self.until_step(what, || {
            while self.host.step() {}
            is_so()
        });
    }

    /// Lets one thing happen after the other until something is so.
    fn until_step(&self, what: &str, is_so: impl Fn() -> bool) {
        let began = Instant::now();
        while !is_so() {
            self.host.step();
            assert!(began.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
            // Threads that answer need the lock.
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    fn reached(&self, value: u64) -> bool {
        self.gpu.paging().fence().current() >= value
    }

    fn lock(&self) -> &Lock {
        self.lock.as_ref().expect("it is locked")
    }

    /// The CPU sees its own writes, and so does the GPU where the content is resident.
    fn holds(&mut self, seed: u64) {
        for at in (0..BYTES).step_by(8) {
            assert_eq!(self.lock().read_word(at), pattern::word(seed, at), "at {at:#x}");
        }
        let mut commands = softgpu_umd::Commands::new();
        commands.check(self.surface.va(), BYTES, seed, self.report.1.va(), 1);
        let value = self.stream.submit(&self.gpu, &[], &commands).expect("a submission");
        // The doorbell is rung by a thread.
        self.until("the engine has looked", || self.stream.progress().current() >= value);
        assert_eq!(self.report.0.read_word(0), 0, "as the GPU sees it");
    }
}

#[test]
fn who_is_moved_on_is_told_once_where_its_content_has_got_to() {
    // spec: memory §6.3
    let Some(mut locked) = Locked::new() else { return };
    let before = locked.there.told().len();
    for _ in 0..3 {
        locked.evict();
        let value = locked.make_resident();
        locked.until("it is back", || locked.reached(value));
    }
    let told = locked.there.told()[before..].to_vec();
    assert_eq!(told, [Told::Protected, Told::Shows].repeat(3));
    locked.holds(1);
    // Stores get through, and are where the GPU looks.
    locked.lock().fill_words(0, BYTES / 8, |index| pattern::word(2, index * 8));
    locked.holds(2);
    // A move that none follows is shown as ever.
    let before = locked.there.told().len();
    locked.evict();
    locked.until("it is shown", || locked.there.told().len() == before + 2);
    let value = locked.make_resident();
    locked.until("it is back", || locked.reached(value));
    assert_eq!(locked.there.told()[before..], [Told::Protected, Told::Shows].repeat(2));
    locked.holds(2);
    assert!(locked.there.lost().is_empty());
    locked.host.check_invariants().expect("in order");
}

#[test]
fn moves_that_go_on_keep_no_store_waiting_behind_more_than_two_of_them() {
    // spec: memory §6.3
    let Some(mut locked) = Locked::new() else { return };
    let before = locked.there.told().len();
    let mut value = 0;
    for _ in 0..4 {
        locked.evict();
        value = locked.make_resident();
    }
    locked.until("it is back", || locked.reached(value));
    assert_eq!(locked.there.told()[before..], [Told::Protected, Told::Shows].repeat(4));
    locked.holds(1);
}

#[test]
fn what_has_come_and_moves_on_is_promised_when_its_process_sees_where_it_is() {
    // spec: memory §4.9, memory §6.3
    let Some(locked) = Locked::new() else { return };
    let before = locked.there.told().len();
    locked.evict();
    locked.until("it is shown", || locked.there.told().len() == before + 2);
    locked.there.is_deaf_to(Some(Told::Shows));
    let value = locked.make_resident();
    locked.evict();
    locked.until("it is told where it is", || locked.there.told().len() == before + 4);
    while locked.host.step() {}
    assert!(!locked.reached(value), "it does not see it yet");
    locked.there.is_deaf_to(None);
    locked.until("it has come", || locked.reached(value));
    for at in (0..BYTES).step_by(8) {
        assert_eq!(locked.lock().read_word(at), pattern::word(1, at), "at {at:#x}");
    }
}

#[test]
fn who_unlocks_what_moves_on_is_not_told_where_it_gets_to() {
    // spec: memory §6.3
    let Some(mut locked) = Locked::new() else { return };
    let before = locked.there.told().len();
    locked.evict();
    let value = locked.make_resident();
    locked.heard.take();
    locked.until_step("it has left", || locked.heard.count(is_done) == 1);
    assert_eq!(locked.there.told()[before..], [Told::Protected]);
    drop(locked.lock.take());
    locked.until("it is back", || locked.reached(value));
    locked.until("it has heard", || locked.there.told().len() == before + 2);
    assert_eq!(locked.there.told()[before..], [Told::Protected, Told::Gone]);
    locked.lock = Some(locked.surface.lock().expect("always"));
    locked.holds(1);
    locked.host.check_invariants().expect("in order");
}

#[test]
fn a_quiesced_device_is_shown_where_content_is_that_moves_on() {
    // spec: memory §6.3, memory §8.6
    let Some(mut locked) = Locked::new() else { return };
    // The kernel quiesces another device of the process, for a process whose memory does not fit beside it.
    locked.heard.take();
    let (own, others) = (locked.there.gpu(), RemoteClient::new(&locked.host));
    let [Event::DeviceCreated { device, .. }] = locked.heard.take()[..] else { panic!("it was created") };
    let theirs = others.gpu();
    let large = |gpu: &Gpu| {
        let surface = gpu.create_surface(SurfaceKind::Local, 5 * MIB).expect("a surface");
        let value = ask_for(gpu, &surface);
        gpu.device().wait(&[(gpu.paging().fence(), value)]).expect("its turn comes");
        surface
    };
    let _surfaces = [large(&own), large(&theirs)];
    let suspended = |event: &Event| matches!(event, Event::DeviceSuspended { device: which, .. } if *which == device);
    assert_eq!(locked.heard.count(suspended), 1, "it is the other's turn");
    locked.heard.take();
    let before = locked.there.told().len();
    locked.evict();
    let value = locked.make_resident();
    locked.until_step("it is back", || locked.reached(value));
    assert_eq!(locked.heard.count(is_of_devices), 0, "it is quiesced until then");
    assert_eq!(locked.there.told()[before..], [Told::Protected, Told::Shows].repeat(2));
    locked.holds(1);
}

#[test]
fn what_moves_on_is_let_go_when_the_adapter_stops_before() {
    // spec: memory §6.3, memory §8.4
    let Some(locked) = Locked::new() else { return };
    let between = locked.gpu.create_surface(SurfaceKind::Local, BYTES).expect("a surface");
    let before = locked.there.told().len();
    locked.evict();
    locked.heard.take();
    locked.refuses.store(true, Ordering::SeqCst);
    ask_for(&locked.gpu, &between);
    locked.make_resident();
    assert_eq!(locked.host.stopped(), None, "the work between waits for the move out");
    locked.until("it has stopped", || locked.host.stopped().is_some());
    assert_eq!(locked.heard.count(is_done), 1);
    // Stores into it wait no more.
    locked.until("it has heard", || locked.there.told().len() == before + 2);
    assert_eq!(locked.there.told()[before..], [Told::Protected, Told::Gone]);
    locked.lock().fill_words(0, 1, |_| 4711);
}
