//! What may be taken of a victim by the rule, and what was.

use super::Account;
use crate::event::Key;

/// Fewer pages are not worth a victim of their own, if more are needed.
const GRAIN: u64 = 64;

/// Pages of a victim that may go.
pub(super) struct Deviation {
    pub pages: u64,
    /// How many of them the ghost has.
    pub ghosts: u64,
}

/// The victim that was named last, until pages of it go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taking {
    pub key: Key,
    /// Pages that the ghost has not.
    pub free: u64,
    /// Pages that may go.
    pub pages: u64,
    /// Whether the account named it instead of the forecast.
    pub follows: bool,
}

impl Account {
    /// How many pages of `first` may go by (*), and how many of these the ghost has.
    ///
    /// From the end of the allocation: a page that the ghost lacks costs nothing; one that it has costs 1, because the truth may have to
    /// fetch it; one that is dirty on both sides costs 2, because the truth copies it out now, too.
    pub(super) fn deviation(&self, first: Key, pages: u64) -> Deviation {
        let Some(mark) = self.marks.get(first.slot() as usize).filter(|mark| mark.key == Some(first)) else {
            return Deviation { pages, ghosts: 0 };
        };
        let holding = self.ghost.holding(first.slot());
        let both = mark.resident.min(holding.resident);
        let twice = both.min(mark.dirty).min(holding.dirty);
        let (free, once) = (mark.resident - both, both - twice);
        let wanted = pages.saturating_sub(free);
        let spare = if wanted == 0 { 0 } else { self.spare() };
        let ghosts = once.min(spare) + twice.min(spare.saturating_sub(once) / 2);
        let ghosts = match ghosts.min(wanted) {
            few if few < wanted && few < GRAIN => 0,
            ghosts => ghosts,
        };
        Deviation { pages: pages.min(free) + ghosts, ghosts }
    }

    /// So many pages of an allocation are gone: if the rule has named it last, they count.
    pub(super) fn count(&mut self, key: Key, gone: u64) {
        let Some(taking) = self.taking.take_if(|taking| taking.key == key && gone > 0) else { return };
        let counted = gone.min(taking.pages).saturating_sub(taking.free);
        match taking.follows {
            true => self.followed += counted,
            false => self.deviated += counted,
        }
    }
}
