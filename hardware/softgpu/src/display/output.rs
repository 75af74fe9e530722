//! One display: its registers, its flips, its next blank.

use std::collections::VecDeque;
use std::sync::Arc;

use device_port::Monitor;
use softgpu_spec::display::{self, PITCH_ALIGNMENT_BYTES, TEXEL_BYTES, control, flip};
use softgpu_spec::register::record;

use super::log::Log;
use super::scan::{Scan, Surface};
use super::{News, has_content};
use crate::config::DisplayConfig;
use crate::device::SoftGpu;
use crate::interrupt::Record;

/// Most texels of a row, and most rows.
const EDGE_MAX: u64 = 16_384;
/// Blanks that real time may be behind before some are left out.
const LATE_MAX: u64 = 4;

/// A flip that waits.
#[derive(Clone, Copy, Debug, Default)]
struct Flip {
    address: u64,
    time: u64,
    id: u64,
}

/// The next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    Band,
    Alarm(usize),
    Blank,
}

/// An alarm that is set.
#[derive(Clone, Copy, Debug)]
struct Alarm {
    before_ns: u64,
    /// The number of the blank that it tells of next.
    next: u64,
}

pub(super) struct Output {
    number: u32,
    config: DisplayConfig,
    size: u64,
    pitch_bytes: u64,
    control: u64,
    /// The next flip, as far as it is written.
    staged: Flip,
    pending: VecDeque<Flip>,
    shown: Flip,
    epoch: u64,
    /// The number of the next blank, while it is looked for.
    next: u64,
    /// The next blank is looked for.
    watched: bool,
    alarm: usize,
    alarms: [Option<Alarm>; display::ALARMS],
    log: Log,
    /// Blanks are told from this flip on.
    told_id: u64,
    /// The least id of the flips that the last cancel took back.
    cancelled: u64,
    monitor: Option<Arc<dyn Monitor>>,
    scan: Option<Scan>,
    frames: u64,
    torn: u64,
}

impl Output {
    pub(super) fn new(number: u32, config: DisplayConfig) -> Output {
        let config = DisplayConfig { period_ns: config.period_ns.max(1), ..config };
        Output {
            number,
            config,
            size: 0,
            pitch_bytes: 0,
            control: 0,
            staged: Flip::default(),
            pending: VecDeque::new(),
            shown: Flip::default(),
            epoch: 0,
            next: 0,
            watched: false,
            alarm: 0,
            alarms: [None; display::ALARMS],
            log: Log::default(),
            told_id: 0,
            cancelled: 0,
            monitor: None,
            scan: None,
            frames: 0,
            torn: 0,
        }
    }

    pub(super) fn read(&self, offset: u32) -> u64 {
        match offset {
            display::DISPLAY_SIZE => self.size,
            display::DISPLAY_PITCH => self.pitch_bytes,
            display::DISPLAY_PERIOD => self.config.period_ns,
            display::DISPLAY_CONTROL => self.control,
            display::DISPLAY_FLIP_ADDRESS => self.staged.address,
            display::DISPLAY_FLIP_TIME => self.staged.time,
            display::DISPLAY_FLIP_ID => self.staged.id,
            display::DISPLAY_FLIP => self.pending.len() as u64,
            display::DISPLAY_QUEUE_ENTRIES => u64::from(self.config.queue_entries),
            display::DISPLAY_ADDRESS => self.shown.address,
            display::DISPLAY_EPOCH => self.epoch,
            display::DISPLAY_FRAMES => self.frames,
            display::DISPLAY_TORN => self.torn,
            display::DISPLAY_CANCEL => self.cancelled,
            display::DISPLAY_LOG => self.log.address,
            display::DISPLAY_LOG_ENTRIES => self.log.entries,
            display::DISPLAY_LOG_COUNT => self.log.count,
            display::DISPLAY_TOLD_ID => self.told_id,
            display::DISPLAY_SHOWN_ID => self.shown.id,
            display::DISPLAY_ALARM_SELECT => self.alarm as u64,
            display::DISPLAY_ALARM => self.alarms[self.alarm].map_or(0, |alarm| alarm.before_ns | display::ALARM_SET),
            _ => 0,
        }
    }

    pub(super) fn write(&mut self, gpu: &SoftGpu, offset: u32, value: u64, news: &mut News) {
        match offset {
            // The mode of a display that is on is as it is.
            display::DISPLAY_SIZE if !self.is_on() => self.size = value,
            display::DISPLAY_PITCH if !self.is_on() => self.pitch_bytes = value,
            display::DISPLAY_CONTROL => self.set_control(gpu, value),
            display::DISPLAY_FLIP_ADDRESS => self.staged.address = value,
            display::DISPLAY_FLIP_TIME => self.staged.time = value,
            display::DISPLAY_FLIP_ID => self.staged.id = value,
            display::DISPLAY_FLIP => self.flip(gpu, value, news),
            // An alarm that there is not cannot be selected.
            display::DISPLAY_ALARM_SELECT if value < display::ALARMS as u64 => self.alarm = value as usize,
            display::DISPLAY_ALARM => self.set_alarm(gpu.now(), value),
            display::DISPLAY_CANCEL => self.cancel(value),
            display::DISPLAY_LOG => (self.log.address, self.log.count) = (value, 0),
            display::DISPLAY_LOG_ENTRIES => self.log.entries = value,
            display::DISPLAY_TOLD_ID => self.told_id = value,
            _ => {}
        }
        self.watch(gpu.now());
    }

    pub(super) fn connect(&mut self, now: u64, monitor: Arc<dyn Monitor>) {
        self.monitor = Some(monitor);
        self.watch(now);
    }

    /// When something happens next, and what.
    pub(super) fn due(&self) -> Option<(u64, Due)> {
        let band = self.scan.as_ref().map(|scan| (scan.due(self.config.period_ns), Due::Band));
        let blank = self.watched.then(|| (self.blank_at(self.next), Due::Blank));
        let alarms = self.alarms.iter().enumerate().filter(|_| self.is_on()).filter_map(|(number, alarm)| {
            let Alarm { before_ns, next } = (*alarm)?;
            Some((self.blank_at(next).saturating_sub(before_ns), Due::Alarm(number)))
        });
        [band, blank].into_iter().flatten().chain(alarms).min()
    }

    /// Does it.
    pub(super) fn advance(&mut self, gpu: &SoftGpu, news: &mut News) {
        match self.due() {
            Some((_, Due::Band)) => {
                let scan = self.scan.as_mut().expect("its band is due");
                if scan.read_band(&gpu.bus) {
                    self.end_frame(news);
                }
            }
            Some((_, Due::Alarm(number))) => self.sound(gpu.now(), number, news),
            Some((at, Due::Blank)) => self.blank(gpu, at, news),
            None => {}
        }
        self.watch(gpu.now());
    }

    fn is_on(&self) -> bool {
        self.control & control::ENABLE != 0
    }

    fn blank_at(&self, number: u64) -> u64 {
        self.epoch.saturating_add(number.saturating_mul(self.config.period_ns))
    }

    /// Watches for blanks as long as an interrupt, a pending flip or a monitor needs one.
    fn watch(&mut self, now: u64) {
        let told = self.control & control::VSYNC_INTERRUPT != 0 && self.told_id != u64::MAX;
        let asked = told || !self.pending.is_empty() || self.monitor.is_some();
        let watched = self.is_on() && asked;
        if watched && !self.watched {
            self.next = self.past(now) + 1;
        }
        self.watched = watched;
    }

    fn set_alarm(&mut self, now: u64, value: u64) {
        let before_ns = value & !display::ALARM_SET;
        let set = value & display::ALARM_SET != 0 && before_ns <= self.config.period_ns;
        self.alarms[self.alarm] = set.then(|| Alarm { before_ns, next: self.past(now.saturating_add(before_ns)) + 1 });
    }

    fn sound(&mut self, now: u64, number: usize, news: &mut News) {
        let past = |before_ns: u64| self.past(now.saturating_add(before_ns));
        let Some(Alarm { before_ns, next }) = self.alarms[number] else { return };
        let fields = [u64::from(self.number) | next << 8, number as u64, 0];
        news.records.push(Record { kind: record::ALARM, fields });
        let after = if past(before_ns) > next + LATE_MAX { past(before_ns) + 1 } else { next + 1 };
        self.alarms[number] = Some(Alarm { before_ns, next: after });
    }

    /// The number of the last blank until now.
    fn past(&self, now: u64) -> u64 {
        now.saturating_sub(self.epoch) / self.config.period_ns
    }

    fn surface(&self) -> Surface {
        // CAST: the two halves of the register.
        let (width, height) = (self.size as u32, (self.size >> 32) as u32);
        Surface { address: self.shown.address, pitch_bytes: self.pitch_bytes, width, height }
    }

    fn set_control(&mut self, gpu: &SoftGpu, value: u64) {
        let was_on = self.is_on();
        let Surface { width, height, .. } = self.surface();
        let edges = [width, height].map(u64::from);
        let sound = edges.iter().all(|edge| (1..=EDGE_MAX).contains(edge))
            && self.pitch_bytes.is_multiple_of(PITCH_ALIGNMENT_BYTES)
            && (edges[0] * TEXEL_BYTES..=EDGE_MAX * TEXEL_BYTES).contains(&self.pitch_bytes);
        self.control = value & (control::ENABLE | control::VSYNC_INTERRUPT);
        if !sound {
            self.control &= !control::ENABLE;
        }
        match (was_on, self.is_on()) {
            (false, true) => {
                (self.epoch, self.shown) = (gpu.now(), self.staged);
                for alarm in self.alarms.iter_mut().flatten() {
                    alarm.next = alarm.before_ns / self.config.period_ns + 1;
                }
            }
            (true, false) => {
                self.pending.clear();
                self.shown = Flip::default();
                // The monitor does not get the part of a frame that was read.
                self.scan = None;
            }
            _ => {}
        }
    }

    /// Whether the outside wants to hear of what is shown.
    fn tells(&self) -> bool {
        self.told_id != u64::MAX && self.shown.id >= self.told_id
    }

    fn cancel(&mut self, first: u64) {
        let taken_back = |flip: &&Flip| flip.id >= first;
        self.cancelled = self.pending.iter().filter(taken_back).map(|flip| flip.id).min().unwrap_or(0);
        self.pending.retain(|flip| flip.id < first);
    }

    fn flip(&mut self, gpu: &SoftGpu, how: u64, news: &mut News) {
        if !self.is_on() {
            return;
        }
        match how {
            flip::ON_VSYNC if self.pending.len() < self.config.queue_entries as usize => {
                self.pending.push_back(self.staged);
            }
            flip::IMMEDIATE => {
                self.shown = self.staged;
                if let Some(scan) = &mut self.scan {
                    scan.replace(&gpu.bus, self.shown.address);
                }
                self.log.write(&gpu.bus, self.shown.id, gpu.now());
                if self.tells() {
                    let blank = if self.watched { self.next - 1 } else { self.past(gpu.now()) };
                    news.records.push(self.record(record::FLIPPED, blank));
                }
            }
            _ => {}
        }
    }

    fn record(&self, kind: u64, blank: u64) -> Record {
        Record { kind, fields: [u64::from(self.number) | blank << 8, self.shown.address, self.shown.id] }
    }

    fn blank(&mut self, gpu: &SoftGpu, at: u64, news: &mut News) {
        let number = self.next;
        let mut replaced = false;
        while let Some(flip) = self.pending.front().copied().filter(|flip| flip.time <= at) {
            if replaced {
                self.log.write(&gpu.bus, self.shown.id, display::NEVER_SHOWN);
            }
            (self.shown, replaced) = (flip, true);
            self.pending.pop_front();
            if flip.time == 0 {
                // Without a time, one flip a blank.
                break;
            }
        }
        if replaced {
            self.log.write(&gpu.bus, self.shown.id, at);
        }
        if self.control & control::VSYNC_INTERRUPT != 0 && self.tells() {
            news.records.push(self.record(record::VSYNC, number));
        }
        if self.monitor.is_some() {
            self.scan = Some(Scan::begin(&gpu.bus, has_content(&gpu.config), self.surface(), number, at));
        }
        // A display that is late by a little catches up; one that is late by much leaves blanks out.
        let past = self.past(gpu.now());
        self.next = if past > number + LATE_MAX { past + 1 } else { number + 1 };
    }

    fn end_frame(&mut self, news: &mut News) {
        let scanned = self.scan.take().expect("its last band was read").end(self.number);
        self.frames += 1;
        self.torn += u64::from(scanned.torn);
        if let Some(monitor) = &self.monitor {
            news.frames.push((Arc::clone(monitor), scanned));
        }
    }
}
