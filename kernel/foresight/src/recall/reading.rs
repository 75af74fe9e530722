//! Whether an operation only reads an allocation, as far as the operation that it repeats tells.

use super::Recall;
use crate::event::Key;

impl Recall {
    /// Whether the latest operation came as foreseen, and its use of this allocation repeats one that only read.
    pub(crate) fn only_reads(&self, key: Key) -> bool {
        let Some(ahead) = self.ahead() else { return false };
        let Some(trail) = self.trails.get(key).filter(|trail| trail.stream == ahead.stream) else { return false };
        let history = &self.streams[self.latest].history;
        let (Some(uses), Some(used)) = (history.uses_of(ahead.op), history.used(trail.last)) else { return false };
        // CAST: the length of a list.
        let twin = trail.last.checked_sub(uses.start).and_then(|index| self.twins.found().get(index as usize));
        uses.contains(&trail.last) && !used.written && matches!(twin, Some(Some(_)))
    }
}
