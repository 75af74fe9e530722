//! A memory that keeps bytes as VidMm keeps pages, and evicts as a [`Foresight`] says.

use std::collections::{BTreeMap, BTreeSet};

use foresight::{Ended, Event, Foresight, Item, Key, Moved, Place, Report, Victim};
use replay::{StepEvent, StorageId, Workload};

/// A living storage.
#[derive(Clone, Copy)]
struct Held {
    key: Key,
    bytes: u64,
    resident: u64,
    dirty: u64,
    has_content: bool,
    /// The time of its last use; its place in the order once that is over.
    since: u64,
    place: Option<Place>,
}

/// The memory.
pub struct Memory {
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

/// Runs joined steps; the bytes that each moves, and the planner's report.
pub fn run(workload: &Workload, steps: u32, capacity: u64) -> (Vec<u64>, Report) {
    let mut memory = Memory::new(capacity);
    let mut moved = vec![0; steps as usize];
    for event in workload.steps(steps) {
        match event {
            StepEvent::Death(id) => memory.dies(id),
            StepEvent::Op { step, reads, writes, .. } => {
                memory.operates(&reads, &writes, &|id| {
                    let storage = workload.storages()[id.storage as usize];
                    (storage.bytes, storage.persistent)
                });
                moved[step as usize] = memory.moved;
            }
        }
    }
    for step in (1..moved.len()).rev() {
        moved[step] -= moved[step - 1];
    }
    (moved, memory.foresight.report())
}

impl Memory {
    /// An empty one.
    pub fn new(capacity: u64) -> Memory {
        Memory {
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
        self.foresight.hear(Event::Died { key: held.key });
        self.vacant.push(Key::new(held.key.slot(), held.key.generation() + 1));
    }

    /// An operation: brings its set, and lets it write. `of` says a storage's size, and whether it has content from the first.
    pub fn operates(&mut self, reads: &[StorageId], writes: &[StorageId], of: &dyn Fn(StorageId) -> (u64, bool)) {
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
        let absent: u64 = set.iter().map(|id| self.held[id].bytes - self.held[id].resident).sum();
        while self.capacity - self.used < absent {
            self.takes(absent - (self.capacity - self.used));
        }
        for id in &set {
            self.comes(*id);
        }
        for id in writes {
            let held = self.held.get_mut(id).unwrap();
            (held.dirty, held.has_content) = (held.bytes, true);
        }
        let ended = |id: &StorageId| Ended { key: self.held[id].key, written: writes.contains(id) };
        let list: Vec<Ended> = set.iter().map(ended).collect();
        self.foresight.hear(Event::Ended { process: 1, list: &list });
        for id in &set {
            self.clock += 1;
            self.held.get_mut(id).unwrap().since = self.clock;
            self.place(*id);
        }
    }

    fn is_born(&mut self, id: StorageId, (bytes, has_content): (u64, bool)) {
        let key = self.vacant.pop().unwrap_or_else(|| {
            self.slots += 1;
            Key::new(self.slots - 1, 0)
        });
        let held = Held { key, bytes, resident: 0, dirty: 0, has_content, since: 0, place: None };
        self.held.insert(id, held);
        self.ids.insert(key, id);
    }

    fn comes(&mut self, id: StorageId) {
        let held = self.held.get_mut(&id).unwrap();
        let absent = held.bytes - held.resident;
        if absent == 0 {
            return;
        }
        let paged_in = if held.has_content { absent } else { 0 };
        held.resident = held.bytes;
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
        let mut held = self.held[&id];
        assert!(held.place.is_some() && (1..=held.resident.min(wanted)).contains(&bytes), "{bytes} of {id:?}");
        self.unplace(id, &held);
        held.resident -= bytes;
        let paged_out = held.dirty.saturating_sub(held.resident);
        held.dirty -= paged_out;
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
