//! Builds the timeline: one pass over both streams in order of time.

mod logged;
mod memory;
mod packets;
mod paging;
mod remarkable;
mod turns;

use std::collections::{BTreeMap, VecDeque};

use device_port::Observation;
use events::{Event, Move, Stillness};

use self::packets::Packets;
use self::paging::Paging;
use super::fence_log;
use super::fences::Fences;
use super::lanes::Lanes;
use super::places::Places;
use super::turns::ContextSpan;
use super::{Counter, CounterKind, Flow, Instant, Names, Note, Slice, SliceKind, Timeline, TrackKind};
use crate::outcome::Recording;
use crate::owners::Owners;

/// Draws the recording.
pub fn build(recording: &Recording) -> Timeline {
    let facts = in_order(recording);
    let logged = fence_log::of(&recording.events);
    let turns = super::turns::of(&recording.events);
    let facts = with_logged(facts, &logged, &turns);
    let mut builder = Builder::new(recording);
    builder.begin_ns = facts.first().map_or(0, |fact| fact.0);
    for (at_ns, fact) in facts {
        builder.now_ns = at_ns;
        match fact {
            Fact::Event(event) => builder.event(event),
            Fact::Observation(what) => builder.observation(*what),
            Fact::Queued(nth) => builder.logged_begins(nth, &logged[nth]),
            Fact::Done(nth) => builder.logged_ends(nth),
            Fact::TurnBegins(nth) => builder.turn_begins(nth, &turns[nth]),
            Fact::TurnEnds(nth) => builder.turn_ends(nth),
        }
    }
    builder.finish()
}

enum Fact<'a> {
    Event(&'a Event),
    Observation(&'a Observation),
    /// A wait or a signal that a log tells of was submitted.
    Queued(usize),
    /// It is done.
    Done(usize),
    /// An engine takes a context, or has it wait, as its scheduling log tells.
    TurnBegins(usize),
    /// It is over.
    TurnEnds(usize),
}

/// The facts with what the logs tell, each at its own time.
fn with_logged<'a>(
    facts: Vec<(u64, Fact<'a>)>,
    logged: &[fence_log::Logged],
    turns: &[ContextSpan],
) -> Vec<(u64, Fact<'a>)> {
    let ends = logged.iter().enumerate().map(|(nth, entry)| (entry.done_ns, Fact::Done(nth)));
    let begins = logged.iter().enumerate().map(|(nth, entry)| (entry.queued_ns, Fact::Queued(nth)));
    let over = turns.iter().enumerate().filter_map(|(nth, turn)| Some((turn.end_ns?, Fact::TurnEnds(nth))));
    let begun = turns.iter().enumerate().map(|(nth, turn)| (turn.begin_ns, Fact::TurnBegins(nth)));
    let mut all: Vec<_> = facts.into_iter().chain(begins).chain(ends).chain(over).chain(begun).collect();
    // Stable: facts of one time stay in their order, a box begins before it ends, and a turn ends before the next begins.
    all.sort_by_key(|(at, _)| *at);
    all
}

/// Both streams as one. At equal times the order is: fences created or signalled by the CPU, observations of the device, other events
/// of the kernel; so a cause precedes its effect.
fn in_order(recording: &Recording) -> Vec<(u64, Fact<'_>)> {
    let rank = |fact: &Fact<'_>| match fact {
        Fact::Event(Event::FenceCreated { .. } | Event::FenceSignaledFromCpu { .. }) => 0,
        Fact::Observation(_) => 1,
        _ => 2,
    };
    let events = recording.events.iter().map(|(at, event)| (*at, Fact::Event(event)));
    let observations = recording.observations.iter().map(|(at, what)| (*at, Fact::Observation(what)));
    let mut facts: Vec<_> = events.chain(observations).collect();
    facts.sort_by_key(|(at, fact)| (*at, rank(fact)));
    facts
}

struct Builder<'a> {
    recording: &'a Recording,
    begin_ns: u64,
    now_ns: u64,
    serial: u64,
    lanes: Lanes,
    fences: Fences,
    names: Names,
    slices: Vec<Slice>,
    instants: Vec<Instant>,
    flows: Vec<Flow>,
    counters: BTreeMap<CounterKind, Counter>,
    /// For each of the recording's op tracks: progress value of the operation that ended last, and the one under way.
    operations: Vec<(u64, Option<usize>)>,
    commands: BTreeMap<u32, usize>,
    waits: BTreeMap<u32, usize>,
    paging: BTreeMap<u64, VecDeque<Paging>>,
    cpu_waits: BTreeMap<u64, (u64, u64, usize)>,
    moved: [u64; Move::COUNT],
    owners: Owners,
    places: Places,
    /// Bytes in memory segments, by the owning process.
    held: BTreeMap<u32, u64>,
    /// Open slices of suspended devices.
    suspended: BTreeMap<u64, usize>,
    /// Why the kernel last suspended a process for its page tables.
    stillness: BTreeMap<u32, Stillness>,
    packets: BTreeMap<u64, Packets>,
    /// Boxes of fence logs that are open.
    boxes: BTreeMap<usize, usize>,
    /// Turns that are open.
    turns: BTreeMap<usize, usize>,
    /// The device's numbers of queues that their processes feed.
    device_queues: BTreeMap<u64, u32>,
}

impl<'a> Builder<'a> {
    fn new(recording: &'a Recording) -> Builder<'a> {
        let mut builder = Builder {
            recording,
            begin_ns: 0,
            now_ns: 0,
            serial: 0,
            lanes: Lanes::default(),
            fences: Fences::of(&recording.events),
            names: Names::default(),
            slices: Vec::new(),
            instants: Vec::new(),
            flows: Vec::new(),
            counters: BTreeMap::new(),
            operations: vec![(0, None); recording.ops.len()],
            commands: BTreeMap::new(),
            waits: BTreeMap::new(),
            paging: BTreeMap::new(),
            cpu_waits: BTreeMap::new(),
            moved: [0; Move::COUNT],
            owners: Owners::default(),
            places: Places::default(),
            held: BTreeMap::new(),
            suspended: BTreeMap::new(),
            stillness: BTreeMap::new(),
            packets: BTreeMap::new(),
            boxes: BTreeMap::new(),
            turns: BTreeMap::new(),
            device_queues: logged::device_queues(&recording.events),
        };
        for queue in &recording.queues {
            builder.engine_track(queue.engine);
            builder.queue_track(queue.device_queue);
        }
        builder
    }

    fn observation(&mut self, what: Observation) {
        match what {
            Observation::Begin { engine, queue, kind, bytes } => {
                self.operation_goes_on(queue);
                self.end_command(engine);
                let track = self.engine_track(engine);
                let notes = vec![Note::Number("bytes", bytes), Note::Text("queue", self.queue_name(queue))];
                let slice = self.open(track, SliceKind::Command, kind, notes);
                self.commands.insert(engine, slice);
            }
            Observation::End { engine, .. } => self.end_command(engine),
            Observation::Signal { queue, bus, value, interrupt } => self.signal(queue, bus, value, interrupt),
            Observation::Asked { queue, bus, value } => {
                let track = self.queue_track(queue);
                self.instant(track, "asks whether to interrupt", fence_notes(bus, value));
            }
            Observation::WaitBegin { queue, bus, value } => {
                self.end_wait(queue);
                let track = self.queue_track(queue);
                let slice = self.open(track, SliceKind::Wait, "wait fence", fence_notes(bus, value));
                self.waits.insert(queue, slice);
            }
            Observation::WaitEnd { queue, bus, value } => {
                let name = if self.end_wait(queue) { "fence reached" } else { "fence passed" };
                let track = self.queue_track(queue);
                self.released(track, name, bus, value);
                self.operation_goes_on(queue);
            }
            Observation::Fault { queue, va, .. } => {
                let track = self.queue_track(queue);
                self.instant(track, "fault", vec![Note::Number("va", va)]);
            }
            // Whose commands they are is no matter of time.
            Observation::Attached { .. } | Observation::Buffer { .. } => {}
        }
    }

    fn event(&mut self, event: &Event) {
        self.owners.event(event);
        match event {
            Event::FenceCreated { fence, .. } => {
                if let Some(word) = self.fences.word(*fence) {
                    self.fences.forget(word);
                }
            }
            Event::FenceSignaledFromCpu { fence, value } => {
                let track = self.lanes.track(TrackKind::CpuSignals, 0, || "CPU signals".to_string());
                let notes = vec![Note::Number("fence", *fence), Note::Number("value", *value)];
                let instant = self.instant(track, "signal from CPU", notes);
                if let Some(word) = self.fences.word(*fence) {
                    self.fences.signalled(word, *value, instant);
                    self.paging_reached(word, *value);
                }
            }
            Event::CpuWaitBegan { wait, fence, value, .. } => {
                let track = self.lanes.take(TrackKind::CpuWaits, 0, || "CPU waits".to_string());
                let notes = vec![Note::Number("fence", *fence), Note::Number("value", *value)];
                let slice = self.open(track, SliceKind::CpuWait, "CPU wait", notes);
                self.cpu_waits.insert(*wait, (*fence, *value, slice));
            }
            Event::CpuWaitEnded { wait, .. } => {
                if let Some((fence, value, slice)) = self.cpu_waits.remove(wait) {
                    self.close(slice);
                    let track = self.slices[slice].track;
                    self.lanes.release(track);
                    if let Some(word) = self.fences.word(fence) {
                        self.released(track, "CPU wait released", word, value);
                    }
                }
            }
            Event::PagingQueued { .. } => self.paging_queued(event),
            Event::PagingCompleted { work } => self.paging_completed(*work),
            Event::Moved { .. } => self.memory_moved(event),
            Event::ResidentBytes { segment, bytes } => {
                self.count(CounterKind::Resident(*segment), *bytes);
            }
            Event::PacketContextCreated { .. }
            | Event::PacketQueued { .. }
            | Event::PacketStarted { .. }
            | Event::PacketPreempted { .. }
            | Event::PacketCompleted { .. } => self.packet(event),
            Event::BudgetChanged { process, local, bytes } => self.budget_changed(*process, *local, *bytes),
            Event::LeafTableConverted { .. } => self.table_converted(event),
            Event::ProcessStandsStill { process, why, .. } => {
                self.stillness.insert(*process, *why);
            }
            Event::DeviceSuspended { device, reasons } => self.device_suspended(*device, *reasons),
            Event::DeviceResumed { device } => self.device_resumed(*device),
            _ => self.remarkable(event),
        }
    }

    /// A signal ends the operation whose progress it is, and paging work, and later perhaps a wait.
    fn signal(&mut self, queue: u32, bus: u64, value: u64, interrupt: bool) {
        let track = self.queue_track(queue);
        let of_operation = self.op_track(queue).filter(|at| bus == self.recording.ops[*at].progress_bus);
        if of_operation.is_some() {
            self.end_wait(queue);
            self.operation_goes_on(queue);
        }
        let mut notes = fence_notes(bus, value);
        notes.push(Note::Text("interrupt", if interrupt { "raised" } else { "not needed" }.to_string()));
        let instant = self.instant(track, "signal", notes);
        self.fences.signalled(bus, value, instant);
        if let Some(at) = of_operation
            && let Some(slice) = self.operations[at].1.take()
        {
            self.slices[slice].name = self.operation_name(at, value);
            self.slices[slice].notes = self.operation_notes(at, value);
            self.close(slice);
            self.operations[at].0 = value;
        }
        self.paging_reached(bus, value);
    }

    /// A sign of life from the operations' queue: if no operation is under way, the next one has begun.
    fn operation_goes_on(&mut self, queue: u32) {
        let Some(at) = self.op_track(queue) else { return };
        if !self.recording.ops[at].names.is_empty() && self.operations[at].1.is_none() {
            let track = self.queue_track(queue);
            let value = self.operations[at].0.saturating_add(1);
            let (name, notes) = (self.operation_name(at, value), self.operation_notes(at, value));
            let slice = self.open(track, SliceKind::Operation, "", notes);
            self.slices[slice].name = name;
            self.operations[at].1 = Some(slice);
        }
    }

    /// The op track that a queue carries.
    fn op_track(&self, queue: u32) -> Option<usize> {
        self.recording.ops.iter().position(|track| track.device_queue == queue)
    }

    fn operation_name(&mut self, at: usize, value: u64) -> u32 {
        let known = usize::try_from(value).ok().and_then(|value| value.checked_sub(1));
        match known.and_then(|index| self.recording.ops[at].names.get(index)) {
            Some(name) => self.names.number(name),
            None => self.names.number(&format!("operation {value}")),
        }
    }

    fn operation_notes(&self, at: usize, value: u64) -> Vec<Note> {
        let index = usize::try_from(value).ok().and_then(|value| value.checked_sub(1));
        let step = index.and_then(|index| self.recording.ops[at].steps.get(index));
        let step = step.map(|step| Note::Number("step", u64::from(*step)));
        std::iter::once(Note::Number("progress value", value)).chain(step).collect()
    }

    fn released(&mut self, track: usize, name: &str, word: u64, value: u64) {
        let from = self.fences.releasing(word, value);
        let to = self.instant(track, name, fence_notes(word, value));
        self.flows.extend(from.map(|from| Flow { from, to }));
    }

    fn end_command(&mut self, engine: u32) {
        if let Some(slice) = self.commands.remove(&engine) {
            self.close(slice);
        }
    }

    fn end_wait(&mut self, queue: u32) -> bool {
        let ended = self.waits.remove(&queue);
        ended.inspect(|slice| self.close(*slice)).is_some()
    }

    fn queue_name(&self, queue: u32) -> String {
        let known = self.recording.queues.iter().find(|label| label.device_queue == queue);
        known.map_or_else(|| format!("queue {queue}"), |label| format!("queue {queue}: {}", label.label))
    }

    fn queue_track(&mut self, queue: u32) -> usize {
        let name = self.queue_name(queue);
        self.lanes.track(TrackKind::Queue, u64::from(queue), || name)
    }

    fn engine_track(&mut self, engine: u32) -> usize {
        self.lanes.track(TrackKind::Engine, u64::from(engine), || format!("engine {engine}"))
    }

    fn tick(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    fn open(&mut self, track: usize, kind: SliceKind, name: &str, notes: Vec<Note>) -> usize {
        let (opened, name, at) = (self.tick(), self.names.number(name), self.now_ns);
        self.slices.push(Slice { track, name, kind, begin_ns: at, end_ns: at, opened, closed: 0, cut: false, notes });
        self.slices.len() - 1
    }

    fn close(&mut self, slice: usize) {
        let closed = self.tick();
        (self.slices[slice].end_ns, self.slices[slice].closed) = (self.now_ns, closed);
    }

    fn instant(&mut self, track: usize, name: &str, notes: Vec<Note>) -> usize {
        let (serial, name) = (self.tick(), self.names.number(name));
        self.instants.push(Instant { track, name, at_ns: self.now_ns, serial, notes });
        self.instants.len() - 1
    }

    fn count(&mut self, kind: CounterKind, value: u64) {
        let point = (self.now_ns, self.tick(), value);
        let new = || Counter { kind, points: Vec::new() };
        self.counters.entry(kind).or_insert_with(new).points.push(point);
    }

    fn finish(mut self) -> Timeline {
        // The slice that began last ends first, so that cut slices nest like all others.
        for slice in (0..self.slices.len()).rev() {
            if self.slices[slice].closed == 0 {
                self.slices[slice].cut = true;
                self.close(slice);
            }
        }
        let (tracks, places) = self.lanes.sorted();
        self.slices.iter_mut().for_each(|slice| slice.track = places[slice.track]);
        self.instants.iter_mut().for_each(|instant| instant.track = places[instant.track]);
        Timeline {
            begin_ns: self.begin_ns,
            end_ns: self.now_ns,
            tracks,
            slices: self.slices,
            instants: self.instants,
            flows: self.flows,
            counters: self.counters.into_values().collect(),
            residences: self.places.finish(self.now_ns),
            names: self.names,
        }
    }
}

fn fence_notes(bus: u64, value: u64) -> Vec<Note> {
    vec![Note::Text("word", format!("{bus:#x}")), Note::Number("value", value)]
}
