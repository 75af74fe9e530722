//! A memory that keeps bytes as VidMm keeps pages, and evicts as a [`Foresight`] says.

use std::collections::{BTreeMap, BTreeSet};

use foresight::{Ended, Event, Foresight, Item, Key, Moved, Place, Report, Victim, Wanted};
use replay::{StepEvent, StorageId, Workload};

/// What hears how the memory changes, in its order.
pub trait Watch {
    /// An operation uses these bytes, of the step.
    fn operates(&mut self, step: u32, bytes: u64);
    /// Whether works are done ahead.
    fn works_ahead(&self) -> bool;
    /// Whether operations may read what lies outside.
    fn reads_in_place(&self) -> bool {
        false
    }
    /// Frames are taken: some are copied into, others filled.
    fn comes(&mut self, copied: u64, filled: u64);
    /// Frames are given back by the use of this operation's number; some bytes are copied out.
    fn goes(&mut self, last: u64, bytes: u64, copied: u64);
    /// A work ahead is complete.
    fn is_done(&mut self);
}

impl Watch for () {
    fn operates(&mut self, _: u32, _: u64) {}
    fn works_ahead(&self) -> bool {
        true
    }
    fn comes(&mut self, _: u64, _: u64) {}
    fn goes(&mut self, _: u64, _: u64, _: u64) {}
    fn is_done(&mut self) {}
}

/// Most bytes of one work ahead.
const AHEAD_MAX: u64 = 4096 << 12;

/// A living storage.
#[derive(Clone, Copy)]
struct Held {
    key: Key,
    bytes: u64,
    resident: u64,
    dirty: u64,
    has_content: bool,
    /// The operation that used it last.
    last: u64,
    /// The time of its last use; its place in the order once that is over.
    since: u64,
    place: Option<Place>,
}

/// The memory.
pub struct Memory<W> {
    pub watch: W,
    operations: u64,
    capacity: u64,
    used: u64,
    pub foresight: Foresight,
    held: BTreeMap<StorageId, Held>,
    ids: BTreeMap<Key, StorageId>,
    /// Victims: those with resident bytes and a place.
    order: BTreeSet<(Place, u64, StorageId)>,
    vacant: Vec<Key>,
    slots: u32,
    clock: u64,
    /// In and out together.
    pub moved: u64,
}

/// Runs joined steps; the bytes that each moves, the planner's report, and what watched.
pub fn watched<W: Watch>(workload: &Workload, steps: u32, capacity: u64, watch: W) -> (Vec<u64>, Report, W) {
    let mut memory = Memory::new(capacity, watch);
    let mut moved = vec![0; steps as usize];
    for event in workload.steps(steps) {
        match event {
            StepEvent::Death(id) => memory.dies(id),
            StepEvent::Op { step, reads, writes, .. } => {
                memory.operates(&reads, &writes, &|id| {
                    let storage = workload.storages()[id.storage as usize];
                    (storage.bytes, storage.persistent)
                });
                let set: BTreeSet<StorageId> = reads.iter().chain(&writes).copied().collect();
                let bytes = set.iter().map(|id| workload.storages()[id.storage as usize].bytes).sum();
                memory.watch.operates(step, bytes);
                moved[step as usize] = memory.moved;
            }
        }
    }
    for step in (1..moved.len()).rev() {
        moved[step] -= moved[step - 1];
    }
    (moved, memory.foresight.report(), memory.watch)
}

impl<W: Watch> Memory<W> {
    /// An empty one.
    pub fn new(capacity: u64, watch: W) -> Memory<W> {
        Memory {
            watch,
            operations: 0,
            capacity,
            used: 0,
            foresight: Foresight::new(capacity),
            held: BTreeMap::new(),
            ids: BTreeMap::new(),
            order: BTreeSet::new(),
            vacant: Vec::new(),
            slots: 0,
            clock: 0,
            moved: 0,
        }
    }

    /// Destroys a storage, if it lives.
    pub fn dies(&mut self, id: StorageId) {
        let Some(held) = self.held.remove(&id) else { return };
        self.unplace(id, &held);
        self.ids.remove(&held.key);
        self.used -= held.resident;
        self.watch.goes(held.last, held.resident, 0);
        self.foresight.hear(Event::Died { key: held.key });
        self.vacant.push(Key::new(held.key.slot(), held.key.generation() + 1));
    }

    /// Works ahead of need, then an operation: brings its set, and lets it write. `of` says a storage's size, and whether it has content from the first.
    pub fn operates(&mut self, reads: &[StorageId], writes: &[StorageId], of: &dyn Fn(StorageId) -> (u64, bool)) {
        self.works_ahead();
        let set: BTreeSet<StorageId> = reads.iter().chain(writes).copied().collect();
        for id in &set {
            if !self.held.contains_key(id) {
                self.is_born(*id, of(*id));
            }
            let held = self.held[id];
            self.unplace(*id, &held);
            self.held.get_mut(id).unwrap().place = None;
        }
        let item = |id: &StorageId| {
            let held = self.held[id];
            Item { key: held.key, pages: held.bytes, kind: 0, has_content: held.has_content }
        };
        let list: Vec<Item> = set.iter().map(item).collect();
        self.foresight.hear(Event::Used { process: 1, device: 1, list: &list });
        self.rank_changed();
        let in_place = self.in_place(&set);
        let come: Vec<StorageId> = set.iter().filter(|id| !in_place.contains(id)).copied().collect();
        let absent: u64 = come.iter().map(|id| self.held[id].bytes - self.held[id].resident).sum();
        while self.capacity - self.used < absent {
            self.takes(absent - (self.capacity - self.used));
        }
        for id in &come {
            self.comes(*id, u64::MAX);
        }
        self.operations += 1;
        for id in writes {
            let held = self.held.get_mut(id).unwrap();
            (held.dirty, held.has_content) = (held.resident, true);
            if in_place.contains(id) {
                self.moved += held.bytes;
                self.foresight.hear(Event::InPlace { key: held.key, read: 0, written: held.bytes });
            }
        }
        let ended = |id: &StorageId| Ended { key: self.held[id].key, written: writes.contains(id) };
        let list: Vec<Ended> = set.iter().map(ended).collect();
        self.foresight.hear(Event::Ended { process: 1, list: &list });
        for id in &set {
            self.clock += 1;
            let held = self.held.get_mut(id).unwrap();
            (held.since, held.last) = (self.clock, self.operations);
            self.place(*id);
        }
    }

    /// What the operation reads where it lies.
    fn in_place(&mut self, set: &BTreeSet<StorageId>) -> BTreeSet<StorageId> {
        if !self.watch.reads_in_place() {
            return BTreeSet::new();
        }
        let absent: u64 = set.iter().map(|id| self.held[id].bytes - self.held[id].resident).sum();
        let lacking = absent.saturating_sub(self.capacity - self.used);
        let keys: Vec<Key> =
            set.iter().map(|id| self.held[id]).filter(|held| held.resident == 0).map(|held| held.key).collect();
        let order = self.order.iter().map(|(_, _, id)| self.held[id].key);
        let chosen = self.foresight.in_place(&keys, lacking, order);
        for &key in &chosen {
            let bytes = self.held[&self.ids[&key]].bytes;
            self.moved += bytes;
            self.foresight.hear(Event::InPlace { key, read: bytes, written: 0 });
        }
        chosen.iter().map(|key| self.ids[key]).collect()
    }

    fn is_born(&mut self, id: StorageId, (bytes, has_content): (u64, bool)) {
        let key = self.vacant.pop().unwrap_or_else(|| {
            self.slots += 1;
            Key::new(self.slots - 1, 0)
        });
        let held = Held { key, bytes, resident: 0, dirty: 0, has_content, last: 0, since: 0, place: None };
        self.held.insert(id, held);
        self.ids.insert(key, id);
    }

    /// Does what the planner wants ahead of need.
    fn works_ahead(&mut self) {
        if !self.watch.works_ahead() {
            return;
        }
        loop {
            let order = self.order.iter().map(|(_, _, id)| self.held[id].key);
            let Some(wanted) = self.foresight.wanted(AHEAD_MAX, order) else { return };
            match wanted {
                Wanted::Fetch { key, pages, instead_of } => {
                    let lacking = pages.saturating_sub(self.capacity - self.used);
                    if let Some(other) = instead_of.filter(|_| lacking > 0) {
                        self.loses(self.ids[&other], lacking);
                    }
                    let id = self.ids[&key];
                    let held = self.held[&id];
                    assert!(held.place.is_some() && pages <= self.capacity - self.used, "{wanted:?}");
                    self.unplace(id, &held);
                    self.comes(id, pages);
                    self.place(id);
                }
                Wanted::Clear { key, pages } => self.loses(self.ids[&key], pages),
                Wanted::WriteBack { .. } => unreachable!("the planner wants none"),
            }
            self.watch.is_done();
        }
    }

    fn comes(&mut self, id: StorageId, most: u64) {
        let held = self.held.get_mut(&id).unwrap();
        let absent = (held.bytes - held.resident).min(most);
        if absent == 0 {
            return;
        }
        let paged_in = if held.has_content { absent } else { 0 };
        held.resident += absent;
        self.watch.comes(paged_in, absent - paged_in);
        self.used += absent;
        self.moved += paged_in;
        let (key, resident, dirty) = (held.key, held.resident, held.dirty);
        self.foresight.hear(Event::Moved(Moved { key, resident, dirty, paged_in, paged_out: 0 }));
    }

    /// One victim loses at most so many bytes.
    fn takes(&mut self, wanted: u64) {
        let (_, _, first) = *self.order.first().expect("the set fits, so something else is resident");
        let held = self.held[&first];
        let (id, bytes) = match self.foresight.victim(held.key, wanted.min(held.resident)) {
            Victim::Planned { pages } => (first, pages),
            Victim::Follow { key, pages } => (self.ids[&key], pages),
        };
        assert!((1..=wanted).contains(&bytes), "{bytes} of {id:?}");
        self.loses(id, bytes);
    }

    /// An allocation loses bytes off its end.
    fn loses(&mut self, id: StorageId, bytes: u64) {
        let mut held = self.held[&id];
        assert!(held.place.is_some() && (1..=held.resident).contains(&bytes), "{bytes} of {id:?}");
        self.unplace(id, &held);
        held.resident -= bytes;
        let paged_out = held.dirty.saturating_sub(held.resident);
        held.dirty -= paged_out;
        self.watch.goes(held.last, bytes, paged_out);
        self.used -= bytes;
        self.moved += paged_out;
        self.held.insert(id, held);
        let Held { key, resident, dirty, .. } = held;
        self.foresight.hear(Event::Moved(Moved { key, resident, dirty, paged_in: 0, paged_out }));
        self.place(id);
    }

    fn rank_changed(&mut self) {
        while let Some(key) = self.foresight.changed() {
            let id = self.ids[&key];
            let held = self.held[&id];
            if held.place.is_some() {
                self.unplace(id, &held);
                self.place(id);
            }
        }
    }

    fn place(&mut self, id: StorageId) {
        let held = self.held.get_mut(&id).unwrap();
        let place = self.foresight.place_of(held.key, held.since);
        held.place = Some(place);
        if held.resident > 0 {
            self.order.insert((place, held.since, id));
        }
    }

    fn unplace(&mut self, id: StorageId, held: &Held) {
        if let Some(place) = held.place {
            self.order.remove(&(place, held.since, id));
        }
    }
}
