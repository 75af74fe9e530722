//! Boxes of waits and signals, as the fence logs or the kernel tell of them, one row of lanes for each queue.

use std::collections::BTreeMap;

use events::Event;

use super::Builder;
use super::packets::CONTEXTS;
use crate::timeline::fence_log::{Feed, Kind, Logged};
use crate::timeline::{Note, SliceKind, TrackKind};

impl Builder<'_> {
    /// A wait or a signal of a queue was submitted, of which the end is known.
    pub(super) fn logged_begins(&mut self, nth: usize, logged: &Logged) {
        let queue = logged.queue;
        let (row, name) = match logged.feed {
            Feed::Process => {
                let known = self.device_queues.get(&queue).map(|queue| self.queue_name(*queue));
                (queue, format!("{} (log)", known.unwrap_or_else(|| format!("queue {queue}"))))
            }
            Feed::Kernel => (queue, format!("queue {queue} (fed by the kernel)")),
            Feed::Packets => (CONTEXTS + queue, format!("context {queue} (fed by the kernel)")),
        };
        let track = self.lanes.take(TrackKind::FenceLog, row, || name);
        let mut notes = vec![Note::Number("fence", logged.fence), Note::Number("value", logged.value)];
        notes.extend(logged.recorded_ns.map(|at| Note::Number("recorded at ns", at)));
        notes.extend(logged.observed_ns.map(|at| Note::Number("stalled at ns", at)));
        let (kind, name) = match logged.kind {
            Kind::Signal => (SliceKind::Signal, "fence signal"),
            Kind::Wait => (SliceKind::Wait, "fence wait"),
            Kind::Submission => (SliceKind::Command, "submission"),
        };
        let slice = self.open(track, kind, name, notes);
        self.boxes.insert(nth, slice);
    }

    /// It is done.
    pub(super) fn logged_ends(&mut self, nth: usize) {
        let slice = self.boxes.remove(&nth).expect("a box begins before it ends");
        self.close(slice);
        self.lanes.release(self.slices[slice].track);
    }
}

/// The device's numbers of the queues that processes feed.
pub(super) fn device_queues(events: &[(u64, Event)]) -> BTreeMap<u64, u32> {
    let created = events.iter().filter_map(|(_, event)| match event {
        // CAST: a device has far fewer than 2^32 queues.
        Event::DoorbellCreated { queue, driver_data } => Some((*queue, *driver_data as u32)),
        _ => None,
    });
    created.collect()
}
