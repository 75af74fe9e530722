//! Displays of the first generation: no process makes anything resident. A mode and each flip bring their primary in, as lists do for
//! buffers, and it stays until another one has replaced it.

use d3dkmt::{DestroyFlags, DeviceState, EvictFlags, MakeResidentFlags};
use ddi::{AllocationListEntry, RenderStatus};
use dxgk_host::Pending;
use kmt_calls::{AllocationCall, AllocationTarget, Call, DisplayCall, Reply};
use softgpu_umd::{Lane, Stage, SurfaceKind};
use wddm_types::{NtStatus, SegmentId};

use super::*;
use crate::stubborn::{QueueWhims, Whims, wrapped};

/// A primary is 1 MiB, and four of them are all memory.
const SIDE: u16 = 512;

/// A process that names its targets in lists.
struct Old {
    // The lane goes before the surfaces that it writes, these before the device.
    lane: Lane,
    primaries: Vec<Surface>,
    gpu: Gpu,
    link: Arc<ProcessLink>,
}

fn config(mode: Mode) -> (HostConfig, Heard) {
    let heard = Heard::default();
    let mut profile = *Profile::named("wddm1-banks").unwrap();
    profile.displays.period_ns = 1_000_000;
    let config = HostConfig {
        vram_bytes: 4 * MIB,
        system_bytes: 64 * MIB,
        tracer: Box::new(heard.clone()),
        ..HostConfig::new(&profile, mode)
    };
    (config, heard)
}

impl Old {
    fn new(host: &Arc<Host>, primaries: usize) -> Old {
        let link = ProcessLink::new(Arc::clone(host));
        let gpu = Gpu::open(Arc::clone(&link) as Arc<dyn Link>).unwrap();
        let lane = Lane::create_at(&gpu, NodeId(0), Stage::Packet).unwrap();
        let primaries = (0..primaries).map(|_| gpu.create_primary(SOURCE, SIDE, SIDE).unwrap()).collect();
        Old { lane, primaries, gpu, link }
    }

    fn show(&self, primary: usize) -> Result<(), Refusal> {
        self.gpu.device().set_display_mode(self.primaries[primary].allocation())
    }

    fn draw(&mut self, primary: usize, colour: u32) -> u64 {
        let surface = &self.primaries[primary];
        self.lane.fill(surface, 0, surface.bytes(), colour);
        self.lane.submit_writing(&self.gpu, &[]).unwrap()
    }

    fn flip(&self, primary: usize) -> Result<u32, Refusal> {
        match self.lane.flip(&self.primaries[primary], 1) {
            Err(softgpu_umd::UmdError::Refused(refusal)) => Err(refusal),
            other => Ok(other.unwrap()),
        }
    }

    fn blank(&self) {
        self.gpu.device().wait_for_vertical_blank(SOURCE).unwrap();
    }

    /// Writes surfaces whole, one after another, more than there is memory.
    fn crowd(&mut self, surfaces: &[Surface]) {
        for (seed, surface) in (1..).zip(surfaces) {
            self.lane.pattern(surface, seed);
        }
        let done = self.lane.submit(&self.gpu, None).unwrap();
        self.lane.wait(&self.gpu, done).unwrap();
    }

    fn local(&self, bytes: u64) -> Surface {
        self.gpu.create_surface(SurfaceKind::Local, bytes).unwrap()
    }

    fn list(&self, surface: &Surface) {
        let list = vec![surface.allocation().handle()];
        self.gpu.paging().make_resident(list, MakeResidentFlags::empty()).unwrap();
    }

    fn begin(&self, host: &Host, call: DisplayCall) -> Result<Result<Reply, Refusal>, Pending> {
        host.begin_call(self.link.process(), Call::Display(call))
    }

    fn begin_mode(&self, host: &Host, primary: usize) -> Pending {
        let primary = self.primaries[primary].allocation().handle();
        let call = DisplayCall::SetDisplayMode { device: self.gpu.device().handle(), primary };
        self.begin(host, call).expect_err("its device is quiesced")
    }
}

fn shown_at(host: &Host) -> u64 {
    host.device_register(display::DISPLAY_ADDRESS)
}

/// All other content of memory changes twice between two flips, and the shown primary does not move.
#[test]
fn a_flip_brings_its_primary_in_and_it_stays_until_it_is_replaced() {
    // spec: memory §5.7, memory §6.1, memory §8.2
    for mode in [VIRTUAL, Mode::Real] {
        let (config, heard) = config(mode);
        let host = Host::start(config).unwrap();
        let mut old = Old::new(&host, 2);
        old.gpu.device().own_sources(&[SOURCE]).unwrap();
        let screen = Arc::new(Screen::default());
        host.adapter(0).connect_monitor(0, Arc::clone(&screen) as Arc<dyn Monitor>);
        let drawn = old.draw(0, 1);
        old.lane.wait(&old.gpu, drawn).unwrap();
        old.show(0).unwrap();
        (0..2).for_each(|_| old.blank());
        let others: Vec<_> = (0..6).map(|_| old.local(MIB)).collect();
        for picture in 2..=5u32 {
            let primary = (picture as usize - 1) % 2;
            old.crowd(&others);
            let before = shown_at(&host);
            // Where it is drawn it need not stay until it is shown.
            let drawn = old.draw(primary, picture);
            old.lane.wait(&old.gpu, drawn).unwrap();
            old.crowd(&others);
            assert_eq!(shown_at(&host), before, "{mode:?}: the shown primary stays");
            assert_eq!(old.flip(primary).unwrap(), 1);
            while heard.shown().len() < picture as usize - 1 {
                old.blank();
            }
            host.check_invariants().unwrap();
        }
        old.blank();
        if mode == VIRTUAL {
            screen.has_seen_each(5);
        }
        let frames = screen.0.lock().unwrap();
        assert!(frames.iter().all(|(.., torn)| !torn), "{frames:?}");
        assert!(frames.is_sorted_by_key(|(_, first, _)| *first), "{frames:?}");
        drop(frames);
        drop((others, old));
        host.check_invariants().unwrap();
    }
}

/// The kernel's calls to a driver about flips.
#[derive(Clone, Default)]
struct Told {
    lists: Arc<Mutex<Vec<Vec<AllocationListEntry>>>>,
    /// The places that it was to show.
    places: Arc<Mutex<Vec<(SegmentId, u64)>>>,
}

fn told(answer: impl Fn() -> Result<(), RenderStatus> + Send + 'static) -> (Arc<Host>, Heard, Told) {
    let told = Told::default();
    let heard_of = told.clone();
    let places = told.clone();
    let listed = Box::new(move |list: &[AllocationListEntry]| {
        heard_of.lists.lock().unwrap().push(list.to_vec());
        answer()
    });
    let screen = Box::new(move |set: ddi::SetVidPnSourceAddress| {
        places.places.lock().unwrap().push((set.segment, set.physical_address));
        Ok(())
    });
    let (mut config, heard) = config(VIRTUAL);
    let flip_queue = QueueWhims { listed, ..QueueWhims::default() };
    config.wrap_miniport = Some(wrapped(Whims { packets: true, screen, flip_queue, ..Whims::default() }));
    (Host::start(config).unwrap(), heard, told)
}

#[test]
fn the_driver_is_told_of_a_flip_by_a_list_with_the_address_of_now() {
    // spec: memory §5.7, memory §7.2
    let (host, _, told) = told(|| Ok(()));
    let mut old = Old::new(&host, 2);
    old.gpu.device().own_sources(&[SOURCE]).unwrap();
    old.show(0).unwrap();
    old.flip(1).unwrap();
    old.blank();
    let done = old.draw(0, 1);
    old.lane.wait(&old.gpu, done).unwrap();
    old.flip(0).unwrap();
    old.blank();
    let (lists, places) = (told.lists.lock().unwrap(), told.places.lock().unwrap());
    assert!(lists.iter().all(|list| list.len() == 2 && list[0] == AllocationListEntry::default()), "{lists:?}");
    assert!(lists.iter().all(|list| list[1].allocation.is_some() && !list[1].write_operation), "{lists:?}");
    let said = lists.iter().map(|list| (list[1].segment, list[1].physical_address)).collect::<Vec<_>>();
    assert_eq!(said[0], (SegmentId::SYSTEM, 0), "it is nowhere yet");
    assert_eq!(said[1], places[2], "it is where it is shown");
    assert_eq!(places.len(), 3);
}

#[test]
fn a_driver_may_refuse_a_flip_and_has_no_buffer_that_could_be_too_small() {
    // spec: memory §9.2
    let (host, heard, _) = told(|| Err(RenderStatus::IllegalInstruction));
    let old = Old::new(&host, 2);
    old.gpu.device().own_sources(&[SOURCE]).unwrap();
    old.show(0).unwrap();
    assert_eq!(old.flip(1).unwrap_err().status, NtStatus::ILLEGAL_INSTRUCTION);
    (0..3).for_each(|_| old.blank());
    assert_eq!((heard.shown().len(), old.gpu.device().state().unwrap()), (0, DeviceState::Active));
    host.check_invariants().unwrap();
    let (host, ..) = told(|| Err(RenderStatus::InsufficientDmaBuffer));
    let old = Old::new(&host, 2);
    old.gpu.device().own_sources(&[SOURCE]).unwrap();
    old.show(0).unwrap();
    assert_eq!(old.flip(1).unwrap_err().status, NtStatus::DEVICE_REMOVED);
    assert!(host.stopped().is_some_and(|reason| reason.contains("flip")), "{:?}", host.stopped());
}

#[test]
fn what_finds_no_memory_is_refused_and_nothing_has_changed() {
    // spec: memory §9.2
    let (config, heard) = config(VIRTUAL);
    let host = Host::start(config).unwrap();
    let old = Old::new(&host, 2);
    old.gpu.device().own_sources(&[SOURCE]).unwrap();
    let listed = old.local(4 * MIB);
    old.list(&listed);
    assert_eq!(old.show(0).unwrap_err().status, NtStatus::NO_MEMORY);
    assert_eq!(shown_at(&host), 0);
    let list = vec![listed.allocation().handle()];
    old.gpu.device().evict(list, EvictFlags::empty()).unwrap();
    old.show(0).unwrap();
    let listed = old.local(3 * MIB);
    old.list(&listed);
    assert_eq!(old.flip(1).unwrap_err().status, NtStatus::NO_MEMORY);
    (0..3).for_each(|_| old.blank());
    assert_eq!((heard.shown().len(), heard.dropped()), (0, 0));
    assert_eq!(old.gpu.device().state().unwrap(), DeviceState::Active);
    host.check_invariants().unwrap();
}

/// A quiesced process, because a process of higher rank lists nearly everything, and that list.
fn with_a_quiesced_process(before: impl FnOnce(&Old)) -> (Arc<Host>, Heard, Old, Old, Surface) {
    let (config, heard) = config(VIRTUAL);
    let host = Host::start(config).unwrap();
    let (humble, proud) = (Old::new(&host, 2), Old::new(&host, 0));
    host.set_process_priority(proud.link.process(), 4);
    humble.gpu.device().own_sources(&[SOURCE]).unwrap();
    before(&humble);
    let listed = humble.local(2 * MIB);
    humble.list(&listed);
    // It goes with its device.
    std::mem::forget(listed);
    let taker = proud.local(2 * MIB + 512 * 1024);
    proud.list(&taker);
    (host, heard, humble, proud, taker)
}

impl Old {
    fn gives_way(&self, listed: &Surface) {
        self.gpu.device().evict(vec![listed.allocation().handle()], EvictFlags::empty()).unwrap();
        assert_eq!(self.link.wait_notification(), None, "time passes until nothing happens any more");
    }
}

#[test]
fn a_mode_waits_for_its_device_s_turn() {
    // spec: memory §8.6, memory §6.1
    let (host, _, humble, proud, taker) = with_a_quiesced_process(|_| ());
    let [first, second] = [0, 1].map(|primary| humble.begin_mode(&host, primary));
    assert_eq!((host.take_answer(first), shown_at(&host)), (None, 0));
    let allocations = vec![humble.primaries[1].allocation().handle()];
    let target = AllocationTarget { allocations, ..Default::default() };
    let device = humble.gpu.device().handle();
    let gone = Call::Allocation(AllocationCall::DestroyAllocation { device, target, flags: DestroyFlags::empty() });
    humble.link.call(gone).unwrap();
    let lost = host.take_answer(second).expect("it will never come").unwrap_err();
    assert_eq!(lost.status, NtStatus::INVALID_PARAMETER, "{lost}");
    proud.gives_way(&taker);
    assert_eq!(host.take_answer(first), Some(Ok(Reply::Done)));
    assert_ne!(shown_at(&host), 0);
    host.check_invariants().unwrap();
}

#[test]
fn a_process_that_gives_its_source_up_or_goes_waits_for_no_mode() {
    let (host, _, humble, proud, taker) = with_a_quiesced_process(|_| ());
    let mode = humble.begin_mode(&host, 0);
    humble.gpu.device().own_sources(&[]).unwrap();
    assert_eq!(host.take_answer(mode).expect("at once").unwrap_err().status, NtStatus::ACCESS_DENIED);
    humble.gpu.device().own_sources(&[SOURCE]).unwrap();
    let mode = humble.begin_mode(&host, 0);
    drop(humble);
    assert!(host.take_answer(mode).is_none_or(|answer| answer.is_err()));
    proud.gives_way(&taker);
    assert_eq!(shown_at(&host), 0);
    host.check_invariants().unwrap();
}

#[test]
fn a_flip_of_a_quiesced_device_is_shown_when_it_has_its_turn() {
    // spec: memory §8.6
    let (host, heard, humble, proud, taker) = with_a_quiesced_process(|humble| humble.show(0).unwrap());
    assert_eq!(humble.flip(1).unwrap(), 1, "the call does not wait for the turn");
    (0..3).for_each(|_| proud.blank());
    assert_eq!((heard.shown().len(), heard.dropped()), (0, 0));
    proud.gives_way(&taker);
    (0..3).for_each(|_| proud.blank());
    assert_eq!((heard.shown().len(), heard.dropped()), (1, 0));
    host.check_invariants().unwrap();
}

/// No call follows when the device is resumed: the kernel brings its primary in at once.
#[test]
fn a_mode_comes_when_its_device_goes_on_behind_a_sleep() {
    // spec: memory §8.4, memory §8.6
    let (config, heard) = config(VIRTUAL);
    let host = Host::start(config).unwrap();
    let old = Old::new(&host, 1);
    old.gpu.device().own_sources(&[SOURCE]).unwrap();
    old.show(0).unwrap();
    host.power_transition(ddi::PowerState::Standby).unwrap();
    host.power_transition(ddi::PowerState::On).unwrap();
    let mode = old.begin_mode(&host, 0);
    let soon = host.now_ns() + MIB;
    while host.step_until(soon) {}
    assert_eq!(host.take_answer(mode), Some(Ok(Reply::Done)));
    assert_eq!(heard.times(|event| matches!(event, Event::DisplayOn { .. })).len(), 2);
    host.check_invariants().unwrap();
}
