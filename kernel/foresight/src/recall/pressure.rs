//! From when on anything is foreseen: as long as everything fits there is no victim, and no forecast that anything would ask for.
//!
//! Until then each operation is remembered and followed, so that with the first one that does not fit the forecasts are made as for an
//! offset that has just been adopted: each allocation that a stream used last is looked at once.

use super::Recall;
use crate::event::Key;

impl Recall {
    /// Whether forecasts are made.
    pub(crate) fn foresees(&self) -> bool {
        self.foresees
    }

    /// Not everything fits: forecasts are made from now on, and places derive from them.
    pub(crate) fn foresee_from_now_on(&mut self) {
        if std::mem::replace(&mut self.foresees, true) {
            return;
        }
        for index in 0..self.streams.len() {
            let Some(offset) = self.streams[index].follow.offset() else { continue };
            let history = &self.streams[index].history;
            let op = history.operations() - 1;
            self.twins.find(history, &self.trails, op, op - offset);
            self.foresee(index, op, offset);
            self.renew(index, op, offset);
            let stream = &mut self.streams[index];
            (stream.plan_at, stream.plans) = (Some(op + 1), 0);
        }
        self.renewed = self.trails.iter().map(|trail| trail.key).collect::<Vec<Key>>();
    }

    /// Whether the operation that was heard last came as its stream foresaw it.
    pub(crate) fn came_as_foreseen(&self) -> bool {
        self.streams.get(self.latest).is_some_and(|stream| stream.as_foreseen)
    }
}
