//! Banks: a memory segment divided by a table of end offsets (memory §1.8). They are hints for placement only; an
//! allocation may cross their borders. Asked by `residency` for the window of a hinted bank.

use ddi::SegmentFlags;
use wddm_types::{PAGE_BYTES, PageRun, Pages, SegmentId};

use super::description::SegmentDescription;
use super::error::SegmentError;

/// Most banks: their ids have seven bits and 0 means none (memory §2.5).
const BANKS_MAX: u32 = 127;

/// The banks of one segment, in pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BankTable {
    /// Where each ends; the last one is the segment's end.
    ends: Vec<u64>,
}

impl BankTable {
    /// The table of a checked description; `None` without banks.
    pub(super) fn of(segment: &SegmentDescription) -> Option<BankTable> {
        if !segment.flags.contains(SegmentFlags::USE_BANKING) {
            return None;
        }
        let mut ends: Vec<u64> = segment.bank_ends.iter().map(|end| end / PAGE_BYTES).collect();
        // spec: memory §1.8, the last entry may be left out
        if ends.len() < segment.bank_count as usize {
            ends.push(segment.size_bytes / PAGE_BYTES);
        }
        debug_assert_eq!(ends.len(), segment.bank_count as usize, "each bank has an end");
        debug_assert!(ends.is_sorted(), "banks end one behind the other: {ends:?}");
        Some(BankTable { ends })
    }

    /// How many banks it has.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// The pages of a bank, 1 to [`BankTable::count`].
    pub fn window(&self, bank: u8) -> Option<PageRun> {
        let index = usize::from(bank).checked_sub(1)?;
        let end = *self.ends.get(index)?;
        let first = if index == 0 { 0 } else { self.ends[index - 1] };
        debug_assert!(first < end, "bank {bank} has no page from page {first} on");
        Some(PageRun { first, count: Pages(end - first) })
    }
}

/// The rules of a table.
// spec: memory §1.8, memory §10.1
pub(super) fn check(id: SegmentId, segment: &SegmentDescription) -> Result<(), SegmentError> {
    if !segment.flags.contains(SegmentFlags::USE_BANKING) {
        return Ok(());
    }
    if !segment.can_have_banks {
        return Err(SegmentError::Banking(id));
    }
    if segment.is_aperture() {
        return Err(SegmentError::BanksOnAperture(id));
    }
    let (count, given) = (segment.bank_count, segment.bank_ends.len());
    if !(1..=BANKS_MAX).contains(&count) || given != count as usize && given + 1 != count as usize {
        return Err(SegmentError::BankCount(id));
    }
    let (inner, last) = if given == count as usize {
        segment.bank_ends.split_at(given - 1)
    } else {
        (segment.bank_ends.as_slice(), [].as_slice())
    };
    let rising = inner.windows(2).all(|pair| pair[0] < pair[1]);
    let inside = inner.iter().all(|&end| 0 < end && end < segment.size_bytes);
    let whole = inner.iter().all(|end| end.is_multiple_of(segment.page_bytes()));
    let covered = last.iter().all(|&end| end == segment.size_bytes);
    if rising && inside && whole && covered { Ok(()) } else { Err(SegmentError::BankEnds(id)) }
}
