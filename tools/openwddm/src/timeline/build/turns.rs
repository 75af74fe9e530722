//! The contexts that an engine ran, drawn under it: a row for its turns, and rows for the contexts that waited.

use events::ContextSchedule;

use super::super::turns::ContextSpan;
use super::super::{Note, SliceKind, TrackKind};
use super::Builder;

impl Builder<'_> {
    /// An engine takes a context, or has it wait.
    pub(super) fn turn_begins(&mut self, nth: usize, turn: &ContextSpan) {
        let number = u64::from(turn.node);
        let (track, kind) = match turn.state {
            ContextSchedule::Running => {
                let track = self.lanes.track(TrackKind::Turns, number, || format!("engine {number} runs"));
                (track, SliceKind::Turn)
            }
            _ => (self.lanes.take(TrackKind::Ready, number, || format!("ready for {number}")), SliceKind::Ready),
        };
        let known = self.device_queues.get(&turn.queue).map(|queue| self.queue_name(*queue));
        let name = match (turn.context, turn.queue) {
            (0, _) => "paging".to_owned(),
            (context, 0) => format!("context {context} of process {}", turn.process),
            (_, queue) => known.unwrap_or_else(|| format!("queue {queue} of process {}", turn.process)),
        };
        let notes = vec![Note::Number("context", turn.context), Note::Number("process", u64::from(turn.process))];
        let slice = self.open(track, kind, &name, notes);
        self.turns.insert(nth, slice);
    }

    /// It is over.
    pub(super) fn turn_ends(&mut self, nth: usize) {
        let slice = self.turns.remove(&nth).expect("a turn begins before it ends");
        self.close(slice);
        if self.slices[slice].kind == SliceKind::Ready {
            self.lanes.release(self.slices[slice].track);
        }
    }
}
