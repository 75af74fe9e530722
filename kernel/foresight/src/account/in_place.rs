//! What work uses where it lies, outside of the segment, in the account.

use super::Account;
use crate::event::Key;
use crate::report::Flow;

impl Account {
    /// Work reads and has written so many pages of an allocation outside: the link has carried them as it carries copies.
    pub(crate) fn in_place(&mut self, key: Key, read: u64, written: u64) {
        self.in_place.paged_in += read;
        self.in_place.paged_out += written;
        if let Some(mark) = self.marks.get_mut(key.slot() as usize).filter(|mark| mark.key == Some(key)) {
            // What was copied out was not copied in vain: it has been read.
            mark.outside = mark.outside.saturating_sub(read);
        }
    }

    /// What work used outside.
    pub(crate) fn used_in_place(&self) -> Flow {
        self.in_place
    }

    /// A: what the link has carried.
    pub(super) fn carried(&self) -> u64 {
        self.actual.moved() + self.in_place.moved()
    }
}
