//! Displays straight through their registers: blanks at their times, flips in their order, what a monitor gets.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use device_port::{Frame, Monitor};
use softgpu::DisplayConfig;
use softgpu_spec::display::{self, control, flip};

use super::*;

const PERIOD: u64 = 9_000;
const WIDTH: u32 = 16;
const HEIGHT: u32 = 8;
/// Two surfaces of one page.
const SURFACES: [u64; 2] = [0x1000, 0x2000];

/// A frame as the monitor has got it: number, time, the first texel of each row, torn.
type Got = (u64, u64, Vec<u32>, bool);

#[derive(Default)]
struct Screen(Mutex<Vec<Got>>);

impl Monitor for Screen {
    fn frame(&self, frame: &Frame<'_>) {
        assert_eq!((frame.display, frame.width, frame.height), (0, WIDTH, HEIGHT));
        let rows = frame.texels.chunks(WIDTH as usize).map(|row| row[0]).collect();
        self.0.lock().unwrap().push((frame.number, frame.at_ns, rows, frame.torn));
    }
}

fn device(queue_entries: u32) -> Arc<SoftGpu> {
    device_at(PERIOD, queue_entries)
}

fn device_at(period_ns: u64, queue_entries: u32) -> Arc<SoftGpu> {
    device_of(period_ns, queue_entries, DataMode::Stored)
}

fn device_of(period_ns: u64, queue_entries: u32, data: DataMode) -> Arc<SoftGpu> {
    let config = Config {
        local_bytes: 1 << 20,
        aperture_bytes: 0,
        shape: Shape::FOUR_LEVELS,
        data,
        timing: Timing::default(),
        poll_spins: 0,
        reset_group: 0,
        signal_bits: 64,
        doorbells: 2,
        displays: DisplayConfig { count: 2, period_ns, queue_entries },
    };
    let pin = Arc::new(Pin::default()) as Arc<dyn InterruptPin>;
    let gpu = SoftGpu::new(config, Memory::reserve(4096).unwrap(), pin, None).unwrap();
    for (at, address) in SURFACES.into_iter().enumerate() {
        gpu.local_memory().fill(address, 4096, at as u32 + 1);
    }
    gpu.write_register(display::DISPLAY_SIZE, display::size(WIDTH, HEIGHT));
    gpu.write_register(display::DISPLAY_PITCH, display::pitch_bytes(WIDTH));
    gpu.write_register(display::DISPLAY_FLIP_ADDRESS, SURFACES[0]);
    gpu
}

fn flip_to(gpu: &SoftGpu, address: u64, time: u64, id: u64, how: u64) {
    gpu.write_register(display::DISPLAY_FLIP_ADDRESS, address);
    gpu.write_register(display::DISPLAY_FLIP_TIME, time);
    gpu.write_register(display::DISPLAY_FLIP_ID, id);
    gpu.write_register(display::DISPLAY_FLIP, how);
}

/// The records that are there: kind, fields.
fn records(gpu: &SoftGpu) -> Vec<(u64, u64, u64, u64)> {
    let mut found = Vec::new();
    loop {
        match gpu.read_register(INTERRUPT_POP) {
            record::NONE => return found,
            kind => found.push((
                kind,
                gpu.read_register(RECORD_0),
                gpu.read_register(RECORD_1),
                gpu.read_register(RECORD_2),
            )),
        }
    }
}

fn run_to(gpu: &SoftGpu, now: u64) {
    while let Some(next) = gpu.next_event().filter(|next| *next <= now) {
        gpu.tick(next);
    }
    gpu.tick(now);
}

#[test]
fn a_display_has_events_only_while_its_blanks_are_asked_for() {
    let gpu = device(1);
    assert_eq!(gpu.read_register(display::DISPLAYS), 2);
    gpu.tick(1_000);
    assert_eq!(gpu.next_event(), None, "it is off");
    gpu.write_register(display::DISPLAY_CONTROL, control::ENABLE);
    assert_eq!(gpu.next_event(), None, "no blank is asked for");
    gpu.tick(1_000 + 3 * PERIOD + 5);
    gpu.write_register(display::DISPLAY_CONTROL, control::ENABLE | control::VSYNC_INTERRUPT);
    assert_eq!(gpu.next_event(), Some(1_000 + 4 * PERIOD), "its blanks have passed all the same");
    run_to(&gpu, 1_000 + 5 * PERIOD);
    let blank = |number: u64| (record::VSYNC, number << 8, SURFACES[0], 0);
    assert_eq!(records(&gpu), [blank(4), blank(5)]);
    gpu.write_register(display::DISPLAY_CONTROL, 0);
    assert_eq!((gpu.next_event(), gpu.read_register(display::DISPLAY_ADDRESS)), (None, 0));
}

#[test]
fn flips_are_shown_at_blanks_one_each_and_a_full_queue_takes_none() {
    let gpu = device(2);
    gpu.write_register(display::DISPLAY_CONTROL, control::ENABLE | control::VSYNC_INTERRUPT);
    for id in 1..=3 {
        flip_to(&gpu, SURFACES[id as usize % 2], 0, id, flip::ON_VSYNC);
    }
    assert_eq!(gpu.read_register(display::DISPLAY_FLIP), 2, "the third found no room");
    run_to(&gpu, PERIOD);
    assert_eq!(records(&gpu), [(record::VSYNC, 1 << 8, SURFACES[1], 1)]);
    run_to(&gpu, 3 * PERIOD);
    let second = |blank: u64| (record::VSYNC, blank << 8, SURFACES[0], 2);
    assert_eq!(records(&gpu), [second(2), second(3)], "and shown until there is another");
}

#[test]
fn of_several_flips_whose_time_has_come_the_newest_is_shown() {
    // spec: sync §4.6
    let gpu = device(4);
    gpu.write_register(display::DISPLAY_CONTROL, control::ENABLE | control::VSYNC_INTERRUPT);
    for (id, time) in [(1, 100), (2, 200), (3, PERIOD + 1), (4, u64::MAX)] {
        flip_to(&gpu, SURFACES[id as usize % 2], time, id, flip::ON_VSYNC);
    }
    run_to(&gpu, 2 * PERIOD);
    assert_eq!(
        records(&gpu),
        [(record::VSYNC, 1 << 8, SURFACES[0], 2), (record::VSYNC, 2 << 8, SURFACES[1], 3)],
        "the first never was, the third not before its time"
    );
    gpu.write_register(display::DISPLAY_CANCEL, 4);
    assert_eq!(gpu.read_register(display::DISPLAY_FLIP), 0, "the last was taken back");
}

#[test]
fn a_log_says_what_became_of_each_flip_and_only_awaited_ones_are_told() {
    // spec: sync §4.6
    let gpu = device(4);
    let log = 0x3000;
    gpu.write_register(display::DISPLAY_LOG_ENTRIES, 3);
    gpu.write_register(display::DISPLAY_LOG, log);
    gpu.write_register(display::DISPLAY_TOLD_ID, 3);
    gpu.write_register(display::DISPLAY_CONTROL, control::ENABLE | control::VSYNC_INTERRUPT);
    for (id, time) in [(1, 100), (2, 200), (3, 2 * PERIOD), (4, 3 * PERIOD)] {
        flip_to(&gpu, SURFACES[id as usize % 2], time, id, flip::ON_VSYNC);
    }
    let entry = |at: u64| [0, 8].map(|word| gpu.local_memory().word(log + at * 16 + word).load(Ordering::Relaxed));
    run_to(&gpu, PERIOD);
    let found = [gpu.read_register(display::DISPLAY_LOG_COUNT), gpu.read_register(display::DISPLAY_SHOWN_ID)];
    assert_eq!((found, [entry(0), entry(1)]), ([2, 2], [[1, display::NEVER_SHOWN], [2, PERIOD]]));
    assert_eq!(records(&gpu), [], "no interrupt is asked for before flip 3");
    run_to(&gpu, 2 * PERIOD);
    assert_eq!(records(&gpu), [(record::VSYNC, 2 << 8, SURFACES[1], 3)]);
    // A shown flip cannot be taken back; a cancelled one is in no log.
    gpu.write_register(display::DISPLAY_CANCEL, 3);
    assert_eq!(gpu.read_register(display::DISPLAY_CANCEL), 4);
    gpu.write_register(display::DISPLAY_CANCEL, 3);
    assert_eq!(gpu.read_register(display::DISPLAY_CANCEL), 0);
    gpu.write_register(display::DISPLAY_TOLD_ID, u64::MAX);
    assert_eq!(gpu.next_event(), None, "no blank is asked for");
    flip_to(&gpu, SURFACES[0], 0, 5, flip::IMMEDIATE);
    let count = gpu.read_register(display::DISPLAY_LOG_COUNT);
    assert_eq!((count, entry(2), entry(0), records(&gpu)), (4, [3, 2 * PERIOD], [5, 2 * PERIOD], vec![]));
    // A log that lies nowhere, or crooked, takes nothing; the flips are shown all the same.
    for nowhere in [SYSTEM_BASE + 4096, u64::MAX - 7, log + 4] {
        gpu.write_register(display::DISPLAY_LOG, nowhere);
        flip_to(&gpu, SURFACES[1], 0, 6, flip::IMMEDIATE);
        let found = [display::DISPLAY_LOG_COUNT, display::DISPLAY_ADDRESS].map(|at| gpu.read_register(at));
        assert_eq!(found, [1, SURFACES[1]]);
    }
}

#[test]
fn alarms_sound_before_each_blank_of_a_display_that_is_on() {
    let gpu = device(1);
    let set = |alarm: u64, value: u64| {
        gpu.write_register(display::DISPLAY_ALARM_SELECT, alarm);
        gpu.write_register(display::DISPLAY_ALARM, value);
    };
    set(0, 1_000 | display::ALARM_SET);
    set(7, PERIOD | display::ALARM_SET);
    set(2, (PERIOD + 1) | display::ALARM_SET);
    set(3, 500);
    set(99, 0);
    assert_eq!(gpu.next_event(), None, "it is off");
    gpu.write_register(display::DISPLAY_CONTROL, control::ENABLE);
    run_to(&gpu, 2 * PERIOD);
    let told = |blank: u64, alarm: u64| (record::ALARM, blank << 8, alarm, 0);
    // A whole period before a blank is the blank before.
    assert_eq!(records(&gpu), [told(1, 0), told(2, 7), told(2, 0), told(3, 7)]);
    set(7, 0);
    run_to(&gpu, 3 * PERIOD);
    assert_eq!(records(&gpu), [told(3, 0)]);
    gpu.write_register(display::DISPLAY_CONTROL, 0);
    assert_eq!(gpu.next_event(), None);
    assert_eq!(gpu.read_register(display::DISPLAY_ALARM), 0);
    set(0, 1_000 | display::ALARM_SET);
    assert_eq!(gpu.read_register(display::DISPLAY_ALARM), 1_000 | display::ALARM_SET);
}

#[test]
fn a_monitor_gets_frames_and_sees_who_writes_behind_the_blank() {
    let (gpu, screen) = (device(1), Arc::new(Screen::default()));
    gpu.connect_monitor(0, Arc::clone(&screen) as Arc<dyn Monitor>);
    gpu.connect_monitor(7, Arc::clone(&screen) as Arc<dyn Monitor>);
    gpu.write_register(display::DISPLAY_CONTROL, control::ENABLE);
    // Bands are read at each ninth of a period; there are as many rows.
    flip_to(&gpu, SURFACES[1], 0, 1, flip::ON_VSYNC);
    run_to(&gpu, 2 * PERIOD + 4_500);
    gpu.local_memory().fill(SURFACES[1], 4096, 7);
    run_to(&gpu, 3 * PERIOD + 4_500);
    flip_to(&gpu, SURFACES[0], 0, 2, flip::IMMEDIATE);
    run_to(&gpu, 5 * PERIOD);
    let rows = |above: u32, below: u32| [vec![above; 4], vec![below; 4]].concat();
    let got = std::mem::take(&mut *screen.0.lock().unwrap());
    assert_eq!(
        got,
        [
            (1, PERIOD, rows(2, 2), false),
            (2, 2 * PERIOD, rows(2, 7), true),
            (3, 3 * PERIOD, rows(7, 1), true),
            (4, 4 * PERIOD, rows(1, 1), false)
        ]
    );
    assert_eq!((gpu.read_register(display::DISPLAY_FRAMES), gpu.read_register(display::DISPLAY_TORN)), (4, 2));
    assert_eq!(records(&gpu), [(record::FLIPPED, 3 << 8, SURFACES[0], 2)]);
}

#[test]
fn modes_and_addresses_that_make_no_sense_show_nothing_and_break_nothing() {
    let (gpu, screen) = (device(1), Arc::new(Screen::default()));
    gpu.connect_monitor(0, Arc::clone(&screen) as Arc<dyn Monitor>);
    for (size, pitch) in [
        (0, 64),
        (display::size(0, 8), 64),
        (display::size(16, 0), 64),
        (display::size(17, 8), 64),
        (display::size(16, 8), 65),
        (display::size(u32::MAX, u32::MAX), u64::MAX),
    ] {
        gpu.write_register(display::DISPLAY_SIZE, size);
        gpu.write_register(display::DISPLAY_PITCH, pitch);
        gpu.write_register(display::DISPLAY_CONTROL, u64::MAX);
        assert_eq!((gpu.read_register(display::DISPLAY_CONTROL) & control::ENABLE, gpu.next_event()), (0, None));
        flip_to(&gpu, 0, 0, 0, flip::ON_VSYNC);
    }
    gpu.write_register(display::DISPLAY_SIZE, display::size(WIDTH, HEIGHT));
    gpu.write_register(display::DISPLAY_PITCH, 64);
    for (at, address) in [u64::MAX, 3, 1 << 45, (1 << 20) - 64, 1 << 44].into_iter().enumerate() {
        gpu.write_register(display::DISPLAY_FLIP_ADDRESS, address);
        gpu.write_register(display::DISPLAY_CONTROL, control::ENABLE);
        gpu.write_register(display::DISPLAY_SELECT, 9);
        gpu.write_register(display::DISPLAY_FLIP, 77);
        run_to(&gpu, (at as u64 + 1) * 4 * PERIOD);
        gpu.write_register(display::DISPLAY_CONTROL, 0);
    }
    let got = screen.0.lock().unwrap();
    assert!(
        got.len() >= 5 && got.iter().all(|(.., rows, torn)| rows.iter().all(|texel| *texel == 0) && !torn),
        "black"
    );
}

/// In real time too, whenever its thread gets to run.
#[test]
fn a_display_runs_by_itself() {
    // Slow enough that the interrupt queue, which no driver empties, is never full.
    let gpu = device_at(20_000_000, 1);
    let running = gpu.run_threads();
    gpu.write_register(display::DISPLAY_CONTROL, control::ENABLE | control::VSYNC_INTERRUPT);
    flip_to(&gpu, SURFACES[1], 0, 5, flip::ON_VSYNC);
    while gpu.read_register(display::DISPLAY_ADDRESS) != SURFACES[1] {
        std::thread::yield_now();
    }
    drop(running);
    let shown = records(&gpu).into_iter().find(|(.., address, _)| *address == SURFACES[1]);
    assert!(shown.is_some_and(|(kind, _, _, id)| (kind, id) == (record::VSYNC, 5)), "{shown:?}");
}

#[test]
fn a_display_that_there_is_not_cannot_be_selected() {
    let gpu = device(1);
    for (asked, selected) in [(1, 1), (2, 1), (u64::MAX, 1), (0, 0)] {
        gpu.write_register(display::DISPLAY_SELECT, asked);
        assert_eq!(gpu.read_register(display::DISPLAY_SELECT), selected, "{asked} of 0 and 1");
    }
}

#[test]
fn frames_of_a_device_that_keeps_no_data_have_no_texels() {
    let (gpu, screen) = (device_of(PERIOD, 1, DataMode::Modelled), Arc::new(Screen::default()));
    gpu.connect_monitor(0, Arc::clone(&screen) as Arc<dyn Monitor>);
    gpu.write_register(display::DISPLAY_CONTROL, control::ENABLE);
    run_to(&gpu, 2 * PERIOD);
    assert_eq!(std::mem::take(&mut *screen.0.lock().unwrap()), [(1, PERIOD, vec![], false)]);
}

/// The display thread sleeps while nothing is due. A flip wakes it, which is not shown before the blank, and so does the end.
#[test]
fn a_display_thread_that_sleeps_hears_of_flips_and_of_its_end() {
    const SLOW: Duration = Duration::from_millis(40);
    let gpu = device_at(SLOW.as_nanos() as u64, 1);
    let running = gpu.run_threads();
    // Time for the thread to fall asleep. If it does not, this test sees less and passes all the same.
    std::thread::sleep(SLOW / 4);
    let begun = Instant::now();
    gpu.write_register(display::DISPLAY_CONTROL, control::ENABLE);
    flip_to(&gpu, SURFACES[1], 0, 5, flip::ON_VSYNC);
    while gpu.read_register(display::DISPLAY_ADDRESS) != SURFACES[1] {
        std::thread::yield_now();
    }
    assert!(begun.elapsed() >= SLOW, "shown before its blank");
    std::thread::sleep(SLOW / 4);
    drop(running);
    assert_eq!(Arc::strong_count(&gpu), 1, "no thread is left that has the device");
}
