//! Belady's MIN: a memory that knows the future and takes, of what no operation uses at the moment, the pages whose next use is farthest.
//! It shares nothing with the kernel. Called by `bytes`.
//!
//! The rule stands once more in `workload/bound/tests/unreduced.rs`, for storages of bytes that nothing writes and that do not die. Both stand
//! on purpose: that test judges the bound by a rule of its own, which owes this peer no line, and a mistake in one does not hide in the other.
//!
//! MIN pages in the fewest pages that any memory does that brings content on demand (with storages that come and go in parts, as here). It does
//! not look at write-backs: a written page whose next use is far leaves before a clean one whose use is near, and is written back. So MIN
//! may move more bytes than the bound, which weighs both, and more than a policy that spares written pages.
//!
//! - A storage occupies whole pages and loses them off its end; an operation needs all pages of its storages at once.
//! - Content that was there before, or that an operation has written, is kept until its storage dies: a written page that leaves is written
//!   back, unless it was written back and not written since.
//! - A storage that is not used again before it dies is the first to go.

use std::collections::{BTreeMap, BTreeSet};

use replay::{Moved, ReferenceError, StepEvent, StorageId, Workload};

/// The next use of what is not used again.
const NEVER: u64 = u64::MAX;

/// The bytes that each of `steps` joined steps moves through a memory of `capacity_bytes`.
///
/// # Errors
/// [`ReferenceError`] if the page size is zero or an operation does not fit.
pub(super) fn belady_bytes(
    workload: &Workload,
    steps: u32,
    capacity_bytes: u64,
    page_bytes: u64,
) -> Result<Vec<Moved>, ReferenceError> {
    let capacity = capacity_bytes.checked_div(page_bytes).ok_or(ReferenceError::PageOfNoSize)?;
    let mut memory = Memory { capacity, uses: uses(workload, steps), ..Memory::default() };
    let mut moved = vec![Moved::default(); steps as usize];
    for (tick, event) in (0u64..).zip(workload.steps(steps)) {
        match event {
            StepEvent::Death(id) => memory.dies(id),
            StepEvent::Op { step, op_index, reads, writes, .. } => {
                let set: BTreeSet<StorageId> = reads.iter().chain(&writes).copied().collect();
                let pages = |id: &StorageId| workload.storages()[id.storage as usize].bytes.div_ceil(page_bytes);
                let needed = set.iter().map(|id| u128::from(pages(id))).sum();
                if needed > u128::from(capacity) {
                    return Err(ReferenceError::TooSmall { op_index, needed, capacity, page_bytes });
                }
                for id in &set {
                    let has_content = workload.storages()[id.storage as usize].persistent;
                    memory.is_used(*id, pages(id), has_content, tick);
                }
                memory.brings(&set);
                writes.iter().for_each(|id| memory.is_written(*id));
                let [paged_in, paged_out] = memory.take_counts();
                let moved = &mut moved[step as usize];
                moved.paged_in += paged_in * page_bytes;
                moved.paged_out += paged_out * page_bytes;
            }
        }
    }
    Ok(moved)
}

/// The ticks of each storage's uses, the last one first.
fn uses(workload: &Workload, steps: u32) -> BTreeMap<StorageId, Vec<u64>> {
    let mut uses: BTreeMap<StorageId, Vec<u64>> = BTreeMap::new();
    for (tick, event) in (0u64..).zip(workload.steps(steps)) {
        let StepEvent::Op { reads, writes, .. } = event else { continue };
        for id in reads.into_iter().chain(writes) {
            let ticks = uses.entry(id).or_default();
            // An operation may read and write the same storage.
            if ticks.last() != Some(&tick) {
                ticks.push(tick);
            }
        }
    }
    uses.values_mut().for_each(|ticks| ticks.reverse());
    uses
}

/// The memory; all counts are pages.
#[derive(Default)]
struct Memory {
    capacity: u64,
    used: u64,
    /// The uses to come.
    uses: BTreeMap<StorageId, Vec<u64>>,
    held: BTreeMap<StorageId, StorageState>,
    /// Storages with resident pages by next use: the last goes first.
    order: BTreeSet<(u64, StorageId)>,
    paged_in: u64,
    paged_out: u64,
}

/// State of a living storage.
struct StorageState {
    pages: u64,
    /// Pages from the begin that are resident; of them so many are written and not written back.
    resident: u64,
    dirty: u64,
    has_content: bool,
    next_use: u64,
}

impl Memory {
    /// An operation at this tick uses it: its next use is the one behind.
    fn is_used(&mut self, id: StorageId, pages: u64, has_content: bool, tick: u64) {
        let born = StorageState { pages, resident: 0, dirty: 0, has_content, next_use: tick };
        let held = self.held.entry(id).or_insert(born);
        self.order.remove(&(held.next_use, id));
        let ticks = self.uses.get_mut(&id).expect("all uses were counted");
        ticks.pop_if(|next| *next == tick);
        held.next_use = ticks.last().copied().unwrap_or(NEVER);
    }

    /// Brings a set, in the place of what is used last.
    fn brings(&mut self, set: &BTreeSet<StorageId>) {
        let absent: u64 = set.iter().map(|id| self.held[id].pages - self.held[id].resident).sum();
        // Storages of the set are in no order while it comes.
        while absent > self.capacity - self.used {
            self.takes(absent - (self.capacity - self.used));
        }
        for id in set {
            let held = self.held.get_mut(id).expect("it is used");
            let absent = held.pages - held.resident;
            self.paged_in += if held.has_content { absent } else { 0 };
            (self.used, held.resident) = (self.used + absent, held.pages);
            self.order.insert((held.next_use, *id));
        }
    }

    /// Takes up to `wanted` pages off the end of what is used last.
    fn takes(&mut self, wanted: u64) {
        let (next_use, id) = *self.order.last().expect("the set fits, so something else is resident");
        let held = self.held.get_mut(&id).expect("what is in the order is held");
        let taken = wanted.min(held.resident);
        (self.used, held.resident) = (self.used - taken, held.resident - taken);
        let written_back = held.dirty.saturating_sub(held.resident);
        (self.paged_out, held.dirty) = (self.paged_out + written_back, held.dirty - written_back);
        if held.resident == 0 {
            self.order.remove(&(next_use, id));
        }
    }

    fn is_written(&mut self, id: StorageId) {
        let held = self.held.get_mut(&id).expect("it is used");
        (held.dirty, held.has_content) = (held.resident, true);
    }

    fn dies(&mut self, id: StorageId) {
        if let Some(held) = self.held.remove(&id) {
            self.order.remove(&(held.next_use, id));
            self.used -= held.resident;
        }
    }

    /// Pages in and out since the last time.
    fn take_counts(&mut self) -> [u64; 2] {
        [std::mem::take(&mut self.paged_in), std::mem::take(&mut self.paged_out)]
    }
}

#[cfg(test)]
mod tests {
    use bound::fewest_bytes;
    use replay::{Event, SourceKind, Storage, lru_bytes};

    use super::*;
    use crate::bytes::drawn;

    fn op(reads: &[u32], writes: &[u32]) -> Event {
        Event::Op { adapter: None, name: 0, reads: reads.to_vec(), writes: writes.to_vec() }
    }

    fn workload(storages: &[(u64, bool)], events: Vec<Event>) -> Workload {
        let storages = storages.iter().map(|(bytes, persistent)| Storage { bytes: *bytes, persistent: *persistent });
        let names = vec!["op".to_owned()];
        Workload::new("w".into(), SourceKind::ReferenceString, storages.collect(), names, events).unwrap()
    }

    #[test]
    fn the_string_of_the_textbook_has_nine_faults_by_hand() {
        // Silberschatz' reference string with three frames: 9 faults under the optimal rule, 12 under LRU.
        let string = [7, 0, 1, 2, 0, 3, 0, 4, 2, 3, 0, 3, 2, 1, 2, 0, 1, 7, 0, 1];
        let w = workload(&[(1, true); 8], string.map(|page| op(&[page], &[])).to_vec());
        assert_eq!(belady_bytes(&w, 1, 3, 1), Ok(vec![Moved { paged_in: 9, paged_out: 0 }]));
        assert_eq!(lru_bytes(&w, 1, 3, 1).unwrap().paged_in, 12);
    }

    #[test]
    fn written_pages_are_written_back_once_and_the_dead_never() {
        // 2 is written, leaves for 0 (used last of all), comes back, leaves clean, and dies outside; 3 dies resident.
        let events = vec![
            op(&[], &[2]),
            op(&[0, 1], &[]),
            op(&[2], &[]),
            op(&[0, 1], &[]),
            Event::Death(2),
            op(&[], &[3]),
            Event::Death(3),
        ];
        let w = workload(&[(4, true), (4, true), (4, false), (8, false)], events);
        let moved = belady_bytes(&w, 1, 8, 1).unwrap()[0];
        // In: 0, 1, then 2 and what it displaced (4 of 0 or 1) come again. Out: 2 once.
        assert_eq!(moved, Moved { paged_in: 16, paged_out: 4 });
    }

    #[test]
    fn on_drawn_strings_it_lies_between_the_bound_and_lru() {
        let mut apart = 0;
        for seed in 0..8 {
            let w = drawn::string(seed);
            for share in [60, 75, 90] {
                let capacity = w.peak_bytes(2) * share / 100;
                let sum = |moved: &Moved| moved.paged_in + moved.paged_out;
                let steps = belady_bytes(&w, 2, capacity, 1).unwrap();
                let paged_in: u64 = steps.iter().map(|moved| moved.paged_in).sum();
                let found = fewest_bytes(&w, 2, capacity, &mut || f64::INFINITY).unwrap();
                let lru = lru_bytes(&w, 2, capacity, 1).unwrap();
                assert_eq!(paged_in, found.paged_in_bytes, "MIN has the fewest page-ins: seed {seed}, {share} %");
                assert!(steps.iter().map(sum).sum::<u64>() >= found.moved_bytes, "seed {seed}, {share} %");
                apart += u64::from(paged_in < lru.paged_in);
            }
        }
        assert_eq!(apart, 24, "LRU pages more in each time");
    }
}
