//! Instants that not every run has: refusals, faults, recoveries, entries of logs that are lost or wrong; and interrupts.

use events::Event;

use super::super::{Note, TrackKind};
use super::Builder;

impl Builder<'_> {
    /// Draws an event that a run without trouble does not have, or an interrupt.
    pub(super) fn remarkable(&mut self, event: &Event) {
        let notes = match event {
            Event::MakeResidentRefused { bytes_to_trim, .. } => vec![Note::Number("bytes to trim", *bytes_to_trim)],
            Event::DeviceInError { reason, .. }
            | Event::AdapterStopped { reason, .. }
            | Event::AdapterReset { reason, .. } => {
                vec![Note::Text("reason", reason.clone())]
            }
            Event::CallRefused { call, reason, .. } => {
                vec![Note::Text("call", call.clone()), Note::Text("reason", reason.clone())]
            }
            Event::EngineReset { node, device, .. } => {
                vec![Note::Number("node", u64::from(*node)), Note::Number("device", *device)]
            }
            Event::EngineGroupAsked { node, nodes, .. } => {
                vec![Note::Number("node", u64::from(*node)), Note::Number("nodes", *nodes)]
            }
            Event::EngineResetCalledOff { node, .. } => vec![Note::Number("node", u64::from(*node))],
            Event::DriverCallLate { call, took_ns, .. } => {
                vec![Note::Text("call", call.clone()), Note::Number("took ns", *took_ns)]
            }
            Event::ProcessBlocked { process, .. } => vec![Note::Number("process", u64::from(*process))],
            Event::QueueFaulted { queue, va, .. } => vec![Note::Number("queue", *queue), Note::Number("va", *va)],
            // spec: sync §3.14: lost events are flagged for the user
            Event::FenceLogOverrun { queue, waits, lost } => {
                vec![Note::Number("queue", *queue), Note::Text("log", log_name(*waits)), Note::Number("lost", *lost)]
            }
            Event::SubmissionLogOverrun { queue, lost } => {
                let log = Note::Text("log", "submissions".to_owned());
                vec![Note::Number("queue", *queue), log, Note::Number("lost", *lost)]
            }
            Event::SchedulingLogOverrun { node, lost } => {
                vec![Note::Number("node", u64::from(*node)), Note::Number("lost", *lost)]
            }
            Event::FenceLogEntryIgnored { queue, waits, position } => {
                let log = Note::Text("log", log_name(*waits));
                vec![Note::Number("queue", *queue), log, Note::Number("position", *position)]
            }
            Event::FenceLogTimeReversed { queue, waits, before, end } => {
                let log = Note::Text("log", log_name(*waits));
                vec![Note::Number("queue", *queue), log, Note::Number("before", *before), Note::Number("end", *end)]
            }
            Event::FenceInterrupt { released, .. } => vec![Note::Number("released", u64::from(*released))],
            _ => return,
        };
        let track = self.lanes.track(TrackKind::Kernel, 0, || "kernel".to_string());
        self.instant(track, event.name(), notes);
    }
}

fn log_name(waits: bool) -> String {
    if waits { "waits" } else { "signals" }.to_owned()
}
