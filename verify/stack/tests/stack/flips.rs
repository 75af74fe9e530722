//! Flips on the whole stack: behind rendering, at vertical blanks, in both kinds of time; the owner of a display, the events that turn it
//! black, and a monitor's view.

mod chance;
mod ends;
mod listed;
mod mapped;
mod periodic;
mod queue;
mod refusals;
mod shared_primary;
mod writes;

use std::sync::{Arc, Mutex};

use d3dkmt::Refusal;
use device_port::{Frame, Monitor};
use dxgk_host::{Host, HostConfig, Mode, ProcessLink, Profile};
use events::{Event, Tracer};
use kmt_link::Link;
use softgpu_spec::display;
use softgpu_umd::{Commands, Gpu, KernelFedStream, StreamConfig, Surface};
use wddm_types::{NodeId, VidPnSourceId};

use stack::world::{MIB, VIRTUAL};

const SOURCE: VidPnSourceId = VidPnSourceId(0);
/// The profile's.
const PERIOD: u64 = 16_666_667;
const WIDTH: u16 = 64;
const HEIGHT: u16 = 16;

/// Events of flips and packets, with the kernel's time.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<(u64, Event)>>>);

impl Tracer for Heard {
    fn event(&mut self, now_ns: u64, event: &Event) {
        if matches!(
            event,
            Event::DisplayOn { .. }
                | Event::DisplayOff { .. }
                | Event::FlipQueued { .. }
                | Event::FlipHandedOver { .. }
                | Event::FlipShown { .. }
                | Event::FlipDropped { .. }
                | Event::QueueHeldForFlip { .. }
                | Event::DisplayInterrupted { .. }
                | Event::FlipLogged { .. }
                | Event::FlipAwaitsDrain { .. }
                | Event::FlipsTakenBack { .. }
                | Event::PacketStarted { .. }
                | Event::PacketCompleted { .. }
        ) {
            self.0.lock().unwrap().push((now_ns, event.clone()));
        }
    }
}

impl Heard {
    /// When this happened.
    fn times(&self, which: impl Fn(&Event) -> bool) -> Vec<u64> {
        self.0.lock().unwrap().iter().filter(|(_, event)| which(event)).map(|(now, _)| *now).collect()
    }

    fn shown(&self) -> Vec<u64> {
        self.times(|event| matches!(event, Event::FlipShown { .. }))
    }

    /// How often a display interrupted.
    fn interrupts(&self) -> usize {
        self.times(|event| matches!(event, Event::DisplayInterrupted { .. })).len()
    }

    fn dropped(&self) -> usize {
        self.times(|event| matches!(event, Event::FlipDropped { .. })).len()
    }
}

/// Frames: the number of the blank, the first texel, whether it was torn.
#[derive(Default)]
struct Screen(Mutex<Vec<(u64, u32, bool)>>);

impl Screen {
    /// It has shown the pictures 1 to `count`, each whole, in their order, and no other.
    fn has_seen_each(&self, count: u32) {
        let frames = self.0.lock().unwrap();
        assert!(frames.iter().all(|(.., torn)| !torn), "{frames:?}");
        let mut seen: Vec<u32> = frames.iter().map(|(_, first, _)| *first).collect();
        seen.dedup();
        assert_eq!(seen, (1..=count).collect::<Vec<_>>(), "each picture, whole, in order");
    }
}

impl Monitor for Screen {
    fn frame(&self, frame: &Frame<'_>) {
        let first = frame.texels.first().copied().unwrap_or(0);
        self.0.lock().unwrap().push((frame.number, first, frame.torn));
    }
}

fn host_of(profile: &Profile, mode: Mode) -> (Arc<Host>, Heard) {
    let heard = Heard::default();
    let config = HostConfig {
        vram_bytes: 8 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        tracer: Box::new(heard.clone()),
        ..HostConfig::new(profile, mode)
    };
    (Host::start(config).unwrap(), heard)
}

fn profile() -> Profile {
    *Profile::named("discrete-4k").unwrap()
}

/// The same with a flip queue in the hardware.
fn queued() -> Profile {
    *Profile::named("flip-queue").unwrap()
}

/// The same whose aperture shows primaries only while they are displayed.
fn mapped() -> Profile {
    *Profile::named("maps-displayed").unwrap()
}

/// A process with a display, primaries to show on it, and packets to draw them with.
struct Game {
    // The stream goes before the surfaces that it writes, they before the device.
    stream: KernelFedStream,
    primaries: Vec<Surface>,
    gpu: Gpu,
}

impl Game {
    fn new(host: &Arc<Host>, primaries: usize) -> Game {
        let game = Game::without_display(host, primaries);
        game.gpu.device().own_sources(&[SOURCE]).unwrap();
        game.gpu.device().set_display_mode(game.primaries[0].allocation()).unwrap();
        game
    }

    fn without_display(host: &Arc<Host>, primaries: usize) -> Game {
        Game::on(&ProcessLink::new(Arc::clone(host)), primaries)
    }

    /// The same of a process that the test knows.
    fn on(link: &Arc<ProcessLink>, primaries: usize) -> Game {
        let gpu = Gpu::open(Arc::clone(link) as Arc<dyn Link>).unwrap();
        let stream = KernelFedStream::packets(&gpu, NodeId(0), StreamConfig::default()).unwrap();
        let primary = |_| {
            let primary = gpu.create_primary(SOURCE, WIDTH, HEIGHT).unwrap();
            gpu.pin(&primary).unwrap();
            primary
        };
        let primaries = (0..primaries).map(primary).collect();
        Game { stream, primaries, gpu }
    }

    /// Draws one colour into a primary, `times` over.
    fn draw(&mut self, primary: usize, colour: u32, times: usize) -> u64 {
        let surface = &self.primaries[primary];
        let mut commands = Commands::new();
        for _ in 0..times {
            commands.fill(surface.va(), surface.bytes(), colour);
        }
        let written = [surface.allocation().handle()];
        self.stream.submit_writing(&self.gpu, None, &commands, &written).unwrap()
    }

    fn flip(&self, primary: usize, interval: u32) -> Result<u32, Refusal> {
        self.flip_to(&self.primaries[primary], interval)
    }

    fn flip_to(&self, primary: &Surface, interval: u32) -> Result<u32, Refusal> {
        self.stream.flip(primary.allocation(), interval)
    }

    fn blank(&self) {
        self.gpu.device().wait_for_vertical_blank(SOURCE).unwrap();
    }
}

/// The time of a blank of the first display.
fn blank_at(host: &Host, number: u64) -> u64 {
    host.device_register(display::DISPLAY_EPOCH) + number * PERIOD
}

/// The last blank until now.
fn blanks(host: &Host) -> u64 {
    (host.now_ns() - host.device_register(display::DISPLAY_EPOCH)) / PERIOD
}

#[test]
fn a_flip_waits_for_what_was_drawn_and_is_shown_at_the_next_blank() {
    // spec: memory §5.6, memory §5.7
    for profile in [profile(), queued()] {
        let (host, heard) = host_of(&profile, VIRTUAL);
        let mut game = Game::new(&host, 2);
        let info = game.gpu.adapter().info().unwrap();
        assert_eq!(info.displays.iter().map(|d| (d.source, d.refresh_ns)).collect::<Vec<_>>(), [(SOURCE, PERIOD)]);
        // So much that it takes more than two frames: 400,000 bytes in a microsecond.
        let surface = &game.primaries[1];
        let times = (5 * PERIOD / 2 / (surface.bytes() * 1000 / 400_000 + 1_050)) as usize;
        let values: Vec<u64> = (0..8).map(|_| game.draw(1, 7, times / 8)).collect();
        assert_eq!(game.flip(1, 1).unwrap(), 1, "it is queued, and its caller goes on");
        assert!(heard.shown().is_empty() && game.stream.progress().current() < values[0]);
        game.blank();
        assert_eq!(host.now_ns() / PERIOD, blank_at(&host, 1) / PERIOD);
        (1..4).for_each(|_| game.blank());
        let drawn = *heard.times(|event| matches!(event, Event::PacketCompleted { .. })).last().unwrap();
        assert!(drawn > blank_at(&host, 2), "two blanks passed while it was drawn");
        assert_eq!(heard.shown(), [blank_at(&host, 3)], "the first blank behind it");
        host.check_invariants().unwrap();
    }
}

#[test]
fn an_interval_counts_blanks_from_the_flip_before_and_none_is_at_once() {
    // spec: sync §4.6
    for profile in [profile(), queued()] {
        let (host, heard) = host_of(&profile, VIRTUAL);
        let game = Game::new(&host, 2);
        game.gpu.device().set_queued_limit(16).unwrap();
        for (at, interval) in [1, 2, 3, 4, 1].into_iter().enumerate() {
            game.flip(1 - at % 2, interval).unwrap();
        }
        (0..12).for_each(|_| game.blank());
        assert_eq!(heard.shown(), [1, 3, 6, 10, 11].map(|blank| blank_at(&host, blank)));
        // Long after the last one any interval is over.
        (0..5).for_each(|_| game.blank());
        let last = blanks(&host);
        game.flip(1, 4).unwrap();
        game.blank();
        assert_eq!(heard.shown().pop(), Some(blank_at(&host, last + 1)));
        let before = host.now_ns();
        game.flip(0, 0).unwrap();
        let shown = heard.shown().pop().unwrap();
        assert!(shown >= before && shown < blank_at(&host, last + 2), "{shown}: at once");
        let immediate = heard.times(|event| matches!(event, Event::FlipShown { immediate: true, .. }));
        assert_eq!(immediate, [shown]);
    }
}

#[test]
fn a_present_returns_when_no_more_flips_are_queued_than_the_limit() {
    for profile in [profile(), queued()] {
        let (host, heard) = host_of(&profile, VIRTUAL);
        let game = Game::new(&host, 2);
        game.gpu.device().set_queued_limit(2).unwrap();
        assert_eq!([1, 0].map(|primary| game.flip(primary, 1).unwrap()), [1, 2]);
        assert_eq!(heard.shown(), []);
        for shown in 1..=5u64 {
            assert_eq!(game.flip(shown as usize % 2, 1).unwrap(), 2);
            assert_eq!(heard.shown().len() as u64, shown, "it blocked until the oldest was shown");
            assert_eq!(blanks(&host), shown, "one a blank");
        }
    }
}

#[test]
fn blanks_interrupt_only_while_they_are_needed() {
    let (host, _) = host_of(&profile(), VIRTUAL);
    let game = Game::new(&host, 2);
    assert!(!host.step(), "nothing waits for a blank: virtual time stands still");
    game.flip(1, 1).unwrap();
    while host.step() {}
    assert_eq!(blanks(&host), 5, "the flip's, and four that the next one may count");
}

/// A display with a queue of its own is given flips ahead.
#[test]
fn a_deeper_queue_takes_more_flips_and_shows_each_at_a_blank_of_its_own() {
    let mut deep = profile();
    deep.displays.queue_entries = 3;
    let (host, heard) = host_of(&deep, VIRTUAL);
    let game = Game::new(&host, 4);
    game.gpu.device().set_queued_limit(16).unwrap();
    let handed = || heard.times(|event| matches!(event, Event::FlipHandedOver { .. })).len();
    for primary in [1, 2, 3] {
        game.flip(primary, 1).unwrap();
    }
    assert_eq!((handed(), host.device_register(display::DISPLAY_FLIP)), (3, 3));
    // The kernel does not hand over a flip without room, a flip to an address that is queued already, or a flip that skips a blank.
    for (primary, interval) in [(1, 1), (2, 2)] {
        game.flip(primary, interval).unwrap();
    }
    assert_eq!(handed(), 3);
    (0..7).for_each(|_| game.blank());
    assert_eq!(heard.shown(), [1, 2, 3, 4, 6].map(|blank| blank_at(&host, blank)));
    host.check_invariants().unwrap();
}

#[test]
fn a_monitor_sees_whole_pictures_in_the_order_of_the_flips() {
    // spec: memory §5.6, memory §10.1
    // seed: R18
    for profile in [profile(), queued(), mapped()] {
        let (host, heard) = host_of(&profile, VIRTUAL);
        let mut game = Game::new(&host, 2);
        let screen = Arc::new(Screen::default());
        host.adapter(0).connect_monitor(0, Arc::clone(&screen) as Arc<dyn Monitor>);
        // The draw of each frame writes the primary that is shown until the flip before it: the kernel holds the draw until then.
        for frame in 1..=8u32 {
            game.draw(frame as usize % 2, frame, 300);
            game.flip(frame as usize % 2, 1).unwrap();
        }
        while heard.shown().len() < 8 {
            game.blank();
        }
        game.blank();
        screen.has_seen_each(8);
        assert_eq!(host.device_register(display::DISPLAY_TORN), 0);
    }
}

/// A GPU without memory of its own displays its aperture; two displays are independent.
#[test]
fn an_integrated_gpu_shows_system_memory_on_two_displays() {
    // spec: memory §3.4, memory §8.1
    let (host, heard) = host_of(Profile::named("integrated").unwrap(), VIRTUAL);
    let mut game = Game::new(&host, 2);
    let second = VidPnSourceId(1);
    let other = game.gpu.create_primary(second, 32, 8).unwrap();
    game.gpu.pin(&other).unwrap();
    game.gpu.device().own_sources(&[SOURCE, second]).unwrap();
    game.gpu.device().set_display_mode(other.allocation()).unwrap();
    let screens = [0, 1].map(|display| {
        let screen = Arc::new(Screen::default());
        host.adapter(0).connect_monitor(display, Arc::clone(&screen) as Arc<dyn Monitor>);
        screen
    });
    game.draw(1, 5, 1);
    game.flip(1, 1).unwrap();
    (0..3).for_each(|_| game.blank());
    game.gpu.device().wait_for_vertical_blank(second).unwrap();
    assert_eq!(heard.shown().len(), 1);
    let last = screens.map(|screen| screen.0.lock().unwrap().last().map(|(_, first, torn)| (*first, *torn)));
    assert_eq!(last, [Some((5, false)), Some((0, false))]);
    host.check_invariants().unwrap();
    drop((other, game));
    host.check_invariants().unwrap();
}

/// The same with threads: no exact times, but the properties that hold in every order of the threads.
#[test]
fn in_real_time_too_pictures_are_whole() {
    let mut fast = profile();
    fast.displays.period_ns = 500_000;
    let (host, heard) = host_of(&fast, Mode::Real);
    let mut game = Game::new(&host, 2);
    let screen = Arc::new(Screen::default());
    host.adapter(0).connect_monitor(0, Arc::clone(&screen) as Arc<dyn Monitor>);
    for frame in 1..=50u32 {
        game.draw(frame as usize % 2, frame, 20);
        game.flip(frame as usize % 2, 1).unwrap();
    }
    while heard.shown().len() < 50 {
        game.blank();
    }
    let frames = screen.0.lock().unwrap();
    assert!(frames.iter().all(|(.., torn)| !torn), "{frames:?}");
    assert!(frames.is_sorted_by_key(|(_, first, _)| *first), "{frames:?}");
    drop(frames);
    drop(game);
    host.check_invariants().unwrap();
}
