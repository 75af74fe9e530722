//! From when on anything is foreseen: from the first time that something does not fit or loses pages. While everything fits VidMm takes no
//! victim to make room, so no choice needs a forecast. An explicit Evict may take pages out although everything fits: the loss shows that
//! content comes and goes, and forecasts begin with it.
//!
//! Until then each operation is remembered and followed, so that at that time the forecasts are made as for an offset that has just been
//! adopted: each allocation that a stream used last is looked at once.

use super::Recall;
use crate::event::Key;

impl Recall {
    /// Whether forecasts are made.
    pub(crate) fn foresees(&self) -> bool {
        self.foresees
    }

    /// Something does not fit, or has lost pages: forecasts are made from now on, and places derive from them.
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
