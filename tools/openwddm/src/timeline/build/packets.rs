//! Packets that the kernel hands over in turn, one row a context: how long the oldest waited while nothing of its context
//! ran, and how long each ran.

use std::collections::BTreeMap;

use events::Event;

use super::{Builder, Note, SliceKind, TrackKind};

/// A context with packets.
#[derive(Default)]
pub(super) struct Packets {
    name: String,
    queued: u64,
    /// Slices of those that run.
    running: BTreeMap<u64, usize>,
    waiting: Option<usize>,
}

/// Rows of contexts stand behind those of hardware queues.
pub(super) const CONTEXTS: u64 = 1 << 32;

impl Builder<'_> {
    pub(super) fn packet(&mut self, event: &Event) {
        let (of, packet) = match event {
            Event::PacketContextCreated { context, device, node, .. } => {
                let process = self.owners.of_device(*device).unwrap_or(0);
                let name = format!("context {context}: node {node}, process {process}");
                self.packets.insert(*context, Packets { name, ..Packets::default() });
                return;
            }
            Event::PacketQueued { context, packet }
            | Event::PacketStarted { context, packet, .. }
            | Event::PacketPreempted { context, packet, .. }
            | Event::PacketCompleted { context, packet } => (*context, *packet),
            _ => return,
        };
        let Some(mut context) = self.packets.remove(&of) else { return };
        let name = context.name.clone();
        let track = self.lanes.track(TrackKind::Queue, CONTEXTS + of, || name);
        match event {
            Event::PacketQueued { .. } => context.queued += 1,
            Event::PacketStarted { fence_id, .. } => {
                if let Some(slice) = context.waiting.take() {
                    self.close(slice);
                }
                context.queued = context.queued.saturating_sub(1);
                // The next may be handed over while one runs; the hardware begins it when that one is done.
                if context.running.is_empty() {
                    let notes = vec![Note::Number("packet", packet), Note::Number("fence id", u64::from(*fence_id))];
                    let slice = self.open(track, SliceKind::Operation, "packet", notes);
                    context.running.insert(packet, slice);
                } else {
                    context.running.insert(packet, usize::MAX);
                }
            }
            Event::PacketPreempted { fence_id, .. } => {
                if let Some(slice) = context.running.remove(&packet).filter(|slice| *slice != usize::MAX) {
                    self.close(slice);
                    let notes = vec![Note::Number("packet", packet), Note::Number("fence id", u64::from(*fence_id))];
                    self.instant(track, "packet preempted", notes);
                }
                context.queued += 1;
            }
            _ => {
                if let Some(slice) = context.running.remove(&packet).filter(|slice| *slice != usize::MAX) {
                    self.close(slice);
                }
                if let Some((&next, _)) = context.running.first_key_value() {
                    let notes = vec![Note::Number("packet", next)];
                    let slice = self.open(track, SliceKind::Operation, "packet", notes);
                    context.running.insert(next, slice);
                }
            }
        }
        if context.queued > 0 && context.running.is_empty() && context.waiting.is_none() {
            context.waiting = Some(self.open(track, SliceKind::Wait, "packet waits", Vec::new()));
        }
        self.packets.insert(of, context);
    }
}
