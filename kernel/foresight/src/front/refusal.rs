//! What VidMm makes of an answer shows in what moves: an answer that is given again without any effect was refused. The allocation is then left
//! alone until its next use, so that it does not stand before all others for ever.

use super::{Front, View};
use crate::event::Wanted;

/// An answer that was given so often without effect is refused.
pub(super) const REFUSALS_MAX: u32 = 2;

impl Front {
    /// The latest answer was given again and again, and its allocation has what it had: VidMm does not carry it out.
    pub(super) fn hear_refusal(&mut self, view: &View<'_>) {
        let Some((key, had, _)) = self.answered.filter(|(.., times)| *times >= REFUSALS_MAX) else { return };
        self.answered = None;
        if view.subjects.get(key).is_some_and(|subject| subject.resident == had)
            && let Some(mark) = self.mark(key)
        {
            mark.refused = true;
        }
    }

    /// Remembers an answer with what its allocation has now.
    pub(super) fn remember(&mut self, view: &View<'_>, wanted: Option<Wanted>) {
        let Some(Wanted::Fetch { key, .. } | Wanted::Clear { key, .. }) = wanted else { return };
        let had = view.subjects.get(key).map_or(0, |subject| subject.resident);
        let times = self.answered.filter(|(of, before, _)| (*of, *before) == (key, had)).map_or(0, |(.., times)| times);
        self.answered = Some((key, had, times + 1));
    }
}
