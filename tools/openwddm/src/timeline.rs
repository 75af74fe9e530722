//! The recording as something to draw: tracks, slices, instants, arrows, counters.
//!
//! Kernel events and device observations are two streams of small facts; a drawing needs slices with a beginning and an end, and
//! which signal released which wait. [`Timeline::of`] computes both once, for the Perfetto writer and the report. It
//! invents nothing: it closes slices that a truncated recording leaves open at its end and marks them as cut.
//!
//! Order: every begin, end, instant and counter value carries a serial number in the order in which the recording tells
//! them. Times may be equal (virtual time moves in jumps), serial numbers never are; so slices of one track always nest and
//! a signal always precedes the wait that it releases.

mod build;
mod clock;
mod fence_log;
mod fences;
mod lanes;
mod places;
mod turns;

use std::collections::BTreeMap;

pub use self::places::Residence;
use crate::outcome::{Outcome, Recording};

/// A recording, ready to be drawn.
#[derive(Debug, Default)]
pub struct Timeline {
    /// First instant of the recording.
    pub begin_ns: u64,
    /// Last instant of the recording.
    pub end_ns: u64,
    /// Tracks, in the order in which they are shown.
    pub tracks: Vec<Track>,
    /// Slices, in order of their beginning.
    pub slices: Vec<Slice>,
    /// Instants, in order.
    pub instants: Vec<Instant>,
    /// Arrows from a signal to what it released.
    pub flows: Vec<Flow>,
    /// Values over time, in order of drawing.
    pub counters: Vec<Counter>,
    /// The allocations on the pages of segments, in order of the beginning.
    pub residences: Vec<Residence>,
    /// Names of slices and instants.
    pub names: Names,
}

impl Timeline {
    /// The timeline of each adapter, under a title; all begin and end together.
    pub fn of_all(outcome: &Outcome) -> Vec<(String, Timeline)> {
        let mut drawn: Vec<Timeline> = outcome.recordings.iter().map(Timeline::of).collect();
        let shown = || outcome.recordings.iter().zip(&drawn).filter(|(recording, _)| !recording.is_empty());
        let begin_ns = shown().map(|(_, timeline)| timeline.begin_ns).min();
        let end_ns = shown().map(|(_, timeline)| timeline.end_ns).max();
        if let (Some(begin_ns), Some(end_ns)) = (begin_ns, end_ns) {
            drawn.iter_mut().for_each(|timeline| (timeline.begin_ns, timeline.end_ns) = (begin_ns, end_ns));
        }
        let title = |(number, recording): (usize, &Recording)| match outcome.recordings.len() {
            1 => format!("openwddm: {}", outcome.summary.workload),
            _ => format!("openwddm: {}, adapter {number}: {}", outcome.summary.workload, recording.adapter),
        };
        outcome.recordings.iter().enumerate().map(title).zip(drawn).collect()
    }

    /// The timeline of a recording.
    pub fn of(recording: &Recording) -> Timeline {
        build::build(recording)
    }
}

/// A line on which slices and instants lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// Its kind.
    pub kind: TrackKind,
    /// Its name; tracks with equal kind and name are lanes of one.
    pub name: String,
}

/// The kind of a track. The order is the order of drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrackKind {
    /// Commands of an engine of the device.
    Engine,
    /// Contexts that an engine runs, as its scheduling log tells them.
    Turns,
    /// Contexts that wait for an engine, as it tells them too.
    Ready,
    /// Operations and waits of a hardware queue.
    Queue,
    /// Waits and signals of a queue as its logs tell them.
    FenceLog,
    /// Paging work of a paging queue.
    Paging,
    /// Times in which a device was suspended.
    Suspended,
    /// Waits of the CPU.
    CpuWaits,
    /// Signals by the CPU.
    CpuSignals,
    /// Memory that moved.
    Moves,
    /// Refusals, faults, interrupts.
    Kernel,
}

/// Something that lasted.
#[derive(Clone, Debug)]
pub struct Slice {
    /// Index of the track.
    pub track: usize,
    /// Index of the name.
    pub name: u32,
    /// Its kind.
    pub kind: SliceKind,
    /// When it began.
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Serial number of the beginning.
    pub opened: u64,
    /// Serial number of the end.
    pub closed: u64,
    /// The recording ended before it did.
    pub cut: bool,
    /// Details of the slice.
    pub notes: Vec<Note>,
}

/// The kind of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SliceKind {
    /// A command on an engine.
    Command,
    /// An operation of the workload.
    Operation,
    /// A GPU wait.
    Wait,
    /// Paging work.
    Paging,
    /// A CPU wait.
    CpuWait,
    /// A device is suspended.
    Suspended,
    /// A context has an engine.
    Turn,
    /// A context could run, and another one has the engine.
    Ready,
    /// A signal of a fence, from its submission to its execution.
    Signal,
}

/// Something that happened at once.
#[derive(Clone, Debug)]
pub struct Instant {
    /// Index of the track.
    pub track: usize,
    /// Index of the name.
    pub name: u32,
    /// The time at which it happened.
    pub at_ns: u64,
    /// Serial number.
    pub serial: u64,
    /// Details of the instant.
    pub notes: Vec<Note>,
}

/// An arrow between two instants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Index of the signal's instant.
    pub from: usize,
    /// Index of the instant at which a wait went on.
    pub to: usize,
}

/// A value that changes.
#[derive(Clone, Debug)]
pub struct Counter {
    /// Its kind.
    pub kind: CounterKind,
    /// Time, serial number, bytes from then on.
    pub points: Vec<(u64, u64, u64)>,
}

/// The kind of a counter, all in bytes. The order is the order of drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CounterKind {
    /// Resident in a segment.
    Resident(u8),
    /// Of a process, resident in memory segments.
    Held(u32),
    /// A process's budget in local memory.
    Budget(u32),
    /// A sum under this name since the beginning.
    Sum(&'static str),
}

impl CounterKind {
    /// Its name.
    pub fn name(self) -> String {
        match self {
            CounterKind::Resident(segment) => format!("resident in segment {segment}"),
            CounterKind::Held(process) => format!("resident of process {process}"),
            CounterKind::Budget(process) => format!("budget of process {process}"),
            CounterKind::Sum(name) => name.to_string(),
        }
    }
}

/// A detail of a slice or an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A number.
    Number(&'static str, u64),
    /// A text.
    Text(&'static str, String),
}

/// Names, each stored once.
#[derive(Clone, Debug, Default)]
pub struct Names {
    texts: Vec<String>,
    numbers: BTreeMap<String, u32>,
}

impl Names {
    /// The number of a name.
    pub fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = u32::try_from(self.texts.len()).expect("fewer names than 2^32");
        self.texts.push(text.to_string());
        self.numbers.insert(text.to_string(), number);
        number
    }

    /// The name with this number.
    pub fn text(&self, number: u32) -> &str {
        &self.texts[number as usize]
    }

    /// All names, by number.
    pub fn all(&self) -> &[String] {
        &self.texts
    }
}

#[cfg(test)]
mod tests;
