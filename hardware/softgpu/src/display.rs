//! The displays: when their blanks are, what they show, what their monitors see. Like the engines they run in both kinds of
//! time: a thread sleeps until something is due ([`Displays::run`]), a tick does what is due ([`Displays::advance`]).
//!
//! Nothing is due on a display that is off, or that has no pending flip, no interrupt on blanks, no alarm and no monitor.
//! Its blanks pass all the same, and are found again by arithmetic.

mod log;
mod output;
mod scan;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use device_port::{Frame, Monitor};
use softgpu_spec::display;

use crate::config::{Config, DisplayConfig};
use crate::device::SoftGpu;
use crate::interrupt::Record;
use crate::lock;

use output::Output;
use scan::Scanned;

/// Nothing is due.
const NEVER: u64 = u64::MAX;

/// The displays of a device.
pub(crate) struct Displays {
    held: Mutex<DisplayState>,
    changed: Condvar,
    /// When something happens on one of them; written under the lock.
    due: AtomicU64,
}

struct DisplayState {
    selected: usize,
    outputs: Vec<Output>,
}

/// Records and frames to pass on once the lock is free again.
#[derive(Default)]
struct News {
    records: Vec<Record>,
    frames: Vec<(Arc<dyn Monitor>, Scanned)>,
}

impl Displays {
    pub(crate) fn new(config: DisplayConfig) -> Displays {
        let count = config.count.min(display::DISPLAYS_MAX);
        let outputs = (0..count).map(|number| Output::new(number, config)).collect();
        Displays {
            held: Mutex::new(DisplayState { selected: 0, outputs }),
            changed: Condvar::new(),
            due: AtomicU64::new(NEVER),
        }
    }

    /// When something happens by itself.
    pub(crate) fn due(&self) -> u64 {
        self.due.load(Ordering::Acquire)
    }

    pub(crate) fn read(&self, offset: u32) -> u64 {
        let held = lock(&self.held);
        match (offset, held.outputs.get(held.selected)) {
            (display::DISPLAYS, _) => held.outputs.len() as u64,
            (display::DISPLAY_SELECT, _) => held.selected as u64,
            (_, Some(output)) => output.read(offset),
            (_, None) => 0,
        }
    }

    pub(crate) fn write(&self, gpu: &SoftGpu, offset: u32, value: u64) {
        self.change(gpu, |held, news| {
            if offset == display::DISPLAY_SELECT {
                // A display that there is not cannot be selected: the selection stays.
                if value < held.outputs.len() as u64 {
                    held.selected = value as usize;
                }
            } else if let Some(output) = held.outputs.get_mut(held.selected) {
                output.write(gpu, offset, value, news);
            }
        });
    }

    pub(crate) fn connect(&self, gpu: &SoftGpu, display: u32, monitor: Arc<dyn Monitor>) {
        self.change(gpu, |held, _| {
            if let Some(output) = held.outputs.get_mut(display as usize) {
                output.connect(gpu.now(), monitor);
            }
        });
    }

    /// Does what is due first.
    pub(crate) fn advance(&self, gpu: &SoftGpu) {
        self.change(gpu, |held, news| {
            let due = |output: &Output| output.due().map(|(at, _)| at);
            if let Some(output) = held.outputs.iter_mut().filter(|output| due(output).is_some()).min_by_key(|o| due(o))
            {
                output.advance(gpu, news);
            }
        });
    }

    /// The display thread of real time.
    pub(crate) fn run(&self, gpu: &SoftGpu, stop: &AtomicBool) {
        let mut held = lock(&self.held);
        while !stop.load(Ordering::Relaxed) {
            let (due, now) = (self.due(), gpu.now());
            held = if due == NEVER {
                self.changed.wait(held).unwrap_or_else(PoisonError::into_inner)
            } else if due > now {
                let left = Duration::from_nanos(due - now);
                self.changed.wait_timeout(held, left).unwrap_or_else(PoisonError::into_inner).0
            } else {
                drop(held);
                self.advance(gpu);
                lock(&self.held)
            };
        }
    }

    /// Lets the thread see that it is to stop.
    pub(crate) fn rouse(&self) {
        // Behind the lock, so that it is not missed between a look and a sleep.
        drop(lock(&self.held));
        self.changed.notify_all();
    }

    fn change(&self, gpu: &SoftGpu, act: impl FnOnce(&mut DisplayState, &mut News)) {
        let mut news = News::default();
        let mut held = lock(&self.held);
        act(&mut held, &mut news);
        let due = held.outputs.iter().filter_map(|output| output.due().map(|(at, _)| at)).min().unwrap_or(NEVER);
        let earlier = due < self.due.swap(due, Ordering::AcqRel);
        drop(held);
        if earlier {
            self.changed.notify_all();
        }
        for record in news.records {
            gpu.interrupts.raise(record);
        }
        for (monitor, Scanned { number, at_ns, width, height, texels, torn, display }) in news.frames {
            monitor.frame(&Frame { display, number, at_ns, width, height, texels: &texels, torn });
        }
    }
}

/// Whether frames have content on such a device.
fn has_content(config: &Config) -> bool {
    config.data == crate::config::DataMode::Stored
}
