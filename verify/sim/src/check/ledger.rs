//! Where the checkers stand together: one ledger a world, shared by the tracer, the miniport decorator and the world.
//! The first rule that is broken is kept; what comes after it may only be its consequence.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ddi::{KmdAllocation, KmdProcess};
use events::{Event, TraceHash, Tracer};
use wddm_types::ProcessId;

use crate::check::contract::{Broken, Contract};
use crate::check::displays::Displays;
use crate::check::fences::Fences;
use crate::check::frames::Frames;
use crate::check::packets::Packets;
use crate::check::paging::Paging;

/// A ledger that several hold. The lock is never held while the kernel, the driver or the device is called.
pub type Shared = Arc<Mutex<Ledger>>;

/// Locks a ledger.
pub fn shared(ledger: &Shared) -> MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All checkers of one world.
#[derive(Default)]
pub struct Ledger {
    /// Handles of the driver.
    pub contract: Contract,
    /// Frames and translations.
    pub frames: Frames,
    /// Words and waits.
    pub fences: Fences,
    /// The paging ring.
    pub paging: Paging,
    /// The life of packets.
    pub packets: Packets,
    /// Frames and flips of displays.
    pub displays: Displays,
    hang: Hang,
    hash: TraceHash,
    now_ns: u64,
    broken: Option<(&'static str, String)>,
    /// The driver's process of the device that it was asked for last, until the kernel says the device's number.
    last_device: Option<KmdProcess>,
    last_allocation: Option<KmdAllocation>,
    devices: BTreeMap<u64, (u32, KmdProcess)>,
    lost: Vec<(u32, String)>,
    capacity: BTreeMap<u8, u64>,
    resident: BTreeMap<u8, u64>,
    last_events: VecDeque<(u64, Event)>,
    /// A rule was broken: how the world is taken down afterwards is no part of the story.
    lines_closed: bool,
    seen: BTreeMap<String, u64>,
    /// Where the name of an event's kind is put together.
    kind: String,
}

/// A paging buffer that the hardware does not understand: what it comes to is known.
#[derive(Debug, Default, PartialEq, Eq)]
enum Hang {
    #[default]
    Never,
    /// The next one.
    Next,
    /// The adapter is reset for it, or was.
    Built,
}

/// Events kept for the report of a violation.
const LINES_MAX: usize = 40;

impl Ledger {
    /// Notes the outcome of a check.
    pub fn check(&mut self, checker: &'static str, outcome: Result<(), Broken>) {
        if let Err(place) = outcome
            && self.broken.is_none()
        {
            self.broken = Some((checker, format!("at {} ns: {place}", self.now_ns)));
        }
    }

    /// The first rule that was broken: checker and place.
    pub fn broken(&self) -> Option<&(&'static str, String)> {
        self.broken.as_ref()
    }

    /// The hash of the trace so far, and its number of events.
    pub fn trace(&self) -> (u64, u64) {
        (self.hash.value(), self.hash.events())
    }

    /// The last events before now, for people.
    pub fn last_events(&self) -> Vec<String> {
        self.last_events.iter().map(|(now_ns, event)| format!("{now_ns:>9} {event:?}")).collect()
    }

    /// The events from here on are not told to people.
    pub fn close_lines(&mut self) {
        self.lines_closed = true;
    }

    /// How often each kind of event was seen; moves of memory by how and why.
    pub fn seen(&self) -> &BTreeMap<String, u64> {
        &self.seen
    }

    /// The driver was asked for a device of this process; the kernel's number of it comes with the next event.
    pub fn device_asked(&mut self, process: KmdProcess) {
        self.last_device = Some(process);
    }

    /// The driver was asked for this allocation.
    pub fn allocation_asked(&mut self, allocation: KmdAllocation) {
        self.last_allocation = Some(allocation);
    }

    /// Processes whose devices went into error since the last time, with the reason.
    pub fn take_lost(&mut self) -> Vec<(u32, String)> {
        std::mem::take(&mut self.lost)
    }

    /// Bytes resident in memory segments, as last told.
    pub fn resident_bytes(&self) -> u64 {
        self.resident.values().sum()
    }

    /// The next paging buffer is one that the hardware does not understand.
    pub fn hang(&mut self) {
        self.hang = Hang::Next;
    }

    /// Unless there was one, there will be none.
    pub fn never_hangs(&mut self) {
        if self.hang == Hang::Next {
            self.hang = Hang::Never;
        }
    }

    /// Whether this paging buffer is that one.
    pub fn takes_hang(&mut self) -> bool {
        let taken = self.hang == Hang::Next;
        if taken {
            self.hang = Hang::Built;
        }
        taken
    }

    /// Whether there was one: its reset costs all devices.
    pub fn has_hung(&self) -> bool {
        self.hang == Hang::Built
    }

    /// The hardware was reset: it has forgotten everything.
    pub fn was_reset(&mut self) {
        self.frames.power_lost();
        self.packets.lost();
    }

    /// Counts what no event tells.
    pub fn count(&mut self, what: &str) {
        *self.seen.entry(what.to_owned()).or_insert(0) += 1;
    }

    /// So many bytes of a segment are resident now.
    fn resides(&mut self, segment: u8, bytes: u64) -> Result<(), String> {
        let capacity = self.capacity.get(&segment).copied().unwrap_or(0);
        self.resident.insert(segment, bytes);
        match bytes <= capacity {
            true => Ok(()),
            false => Err(format!("{bytes} bytes resident in {capacity} of segment {segment}")),
        }
    }

    /// Counts an event by its name.
    fn count_event(&mut self, event: &Event) {
        let parts = match event {
            Event::Moved { how, why, .. } => ["Moved: ", how.name(), " for ", why.name()],
            Event::CallRefused { call, .. } => ["CallRefused: ", call, "", ""],
            other => [other.name(), "", "", ""],
        };
        self.kind.clear();
        self.kind.extend(parts);
        match self.seen.get_mut(&self.kind) {
            Some(count) => *count += 1,
            None => drop(self.seen.insert(self.kind.clone(), 1)),
        }
    }

    fn note(&mut self, event: &Event) {
        self.count_event(event);
        match event {
            Event::SegmentAdded { segment, capacity_bytes, .. } => {
                self.capacity.insert(*segment, *capacity_bytes);
            }
            Event::ResidentBytes { segment, bytes } => {
                let fits = self.resides(*segment, *bytes);
                self.check("frames", fits);
            }
            Event::DeviceCreated { process, device } => {
                self.displays.device_of(ProcessId(*process), *device);
                if let Some(kmd) = self.last_device.take() {
                    self.devices.insert(*device, (*process, kmd));
                }
            }
            Event::AllocationCreated { device, .. } => {
                if let (Some(kmd), Some((_, process))) = (self.last_allocation.take(), self.devices.get(device)) {
                    self.frames.allocation(kmd, *process);
                }
            }
            Event::DeviceInError { device, reason, .. } => {
                let process = self.devices.get(device).map_or(0, |(process, _)| *process);
                self.lost.push((process, reason.clone()));
            }
            Event::AdapterStopped { reason, .. } => {
                self.check("ddi contract", Err(format!("the adapter stopped: {reason}")))
            }
            Event::AdapterReset { .. } if self.hang == Hang::Built => self.paging.lost(),
            Event::AdapterReset { reason, .. } => {
                self.check("ddi contract", Err(format!("the adapter was reset: {reason}")))
            }
            Event::PagingQueued { work, .. } => {
                let outcome = self.paging.queued(*work);
                self.check("paging order", outcome);
            }
            Event::PagingSubmitted { work, progress_value, .. } => {
                let outcome = self.paging.submitted(*work, *progress_value);
                self.check("paging order", outcome);
            }
            Event::PagingCompleted { work } => {
                let outcome = self.paging.completed(*work);
                self.check("paging order", outcome);
            }
            Event::FenceCreated { process, fence, initial, current } => {
                let outcome = self.fences.created(*process, *fence, *initial, *current);
                self.check("fences", outcome);
            }
            Event::FenceDestroyed { fence } => {
                let outcome = self.fences.destroyed(*fence);
                self.check("fences", outcome);
            }
            Event::MonitoredValueUpdated { fence, value } => {
                let outcome = self.fences.published(*fence, *value);
                self.check("fences", outcome);
            }
            _ => {
                let outcome = self.packets.told(event);
                self.check("packets", outcome);
                let outcome = self.displays.told(event);
                self.check("displays", outcome);
            }
        }
    }
}

/// The ledger as a listener to the kernel's events.
pub struct Listener(pub Shared);

impl Tracer for Listener {
    fn event(&mut self, now_ns: u64, event: &Event) {
        let mut ledger = shared(&self.0);
        ledger.now_ns = now_ns;
        ledger.hash.event(now_ns, event);
        if !ledger.lines_closed {
            if ledger.last_events.len() == LINES_MAX {
                ledger.last_events.pop_front();
            }
            ledger.last_events.push_back((now_ns, event.clone()));
        }
        ledger.note(event);
    }
}
