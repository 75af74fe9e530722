//! What the bound says of the steps behind a first one that LRU ran: no policy that knows nothing in the first step can be below it.
//!
//! The memory that LRU leaves becomes the first operation of another string: it names all that is resident at once, so that any memory has
//! exactly that then. What is partly resident, or partly dirty, is split.

use std::collections::{BTreeMap, BTreeSet};

use bound::fewest_bytes;
use replay::{Event, SourceKind, StepEvent, Storage, StorageId, Workload};

/// A living storage in the LRU's memory.
#[derive(Clone, Copy, Default)]
struct Held {
    bytes: u64,
    resident: u64,
    dirty: u64,
    has_content: bool,
    used: u64,
}

/// The fewest bytes that the steps 2 to `steps` move together through a memory that LRU has run step 1 in.
pub fn fewest_behind_lru(workload: &Workload, steps: u32, capacity: u64) -> u64 {
    let state = lru_state(workload, capacity);
    let mut split = Split::default();
    split.storages.push(Storage { bytes: 0, persistent: true }); // an operation on nothing names this one
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    for (id, held) in &state {
        let clean = held.resident - held.dirty;
        let parts = [(held.dirty, false), (clean, held.has_content), (held.bytes - held.resident, held.has_content)];
        let parts = parts.map(|(bytes, persistent)| split.add(bytes, persistent));
        writes.extend(parts[0]);
        reads.extend(parts[1]);
        split.parts.insert(*id, parts.into_iter().flatten().collect());
    }
    let cold: u64 =
        reads.iter().map(|index| split.storages[*index as usize]).filter(|s| s.persistent).map(|s| s.bytes).sum();
    split.born.extend(reads.iter().chain(&writes));
    let mut events = vec![Event::Op { adapter: None, name: 0, reads, writes }];
    for event in workload.steps(steps).skip_while(|event| !matches!(event, StepEvent::Op { step: 1, .. })) {
        match event {
            StepEvent::Death(id) => {
                let parts = split.parts.remove(&id).into_iter().flatten();
                events.extend(parts.filter(|part| split.born.contains(part)).map(Event::Death));
            }
            StepEvent::Op { reads, writes, .. } => {
                let mut parts = |set: &[StorageId]| {
                    let mut all: Vec<u32> = set.iter().flat_map(|id| split.of(workload, *id)).collect();
                    all.sort_unstable();
                    all
                };
                let (mut reads, writes) = (parts(&reads), parts(&writes));
                split.born.extend(reads.iter().chain(&writes));
                if reads.is_empty() && writes.is_empty() {
                    reads.push(0);
                }
                events.push(Event::Op { adapter: None, name: 0, reads, writes });
            }
        }
    }
    let name = || "from LRU's memory".to_owned();
    let string = Workload::new(name(), SourceKind::ReferenceString, split.storages, vec![name()], events).unwrap();
    fewest_bytes(&string, 1, capacity, &mut || f64::INFINITY).unwrap().moved_bytes - cold
}

/// Storages that were split, and those that come new.
#[derive(Default)]
struct Split {
    storages: Vec<Storage>,
    parts: BTreeMap<StorageId, Vec<u32>>,
    /// Those that are alive before all, or were used.
    born: BTreeSet<u32>,
}

impl Split {
    fn add(&mut self, bytes: u64, persistent: bool) -> Option<u32> {
        let index = self.storages.len() as u32;
        self.storages.push(Storage { bytes, persistent });
        if persistent {
            self.born.insert(index);
        }
        (bytes > 0).then_some(index)
    }

    fn of(&mut self, workload: &Workload, id: StorageId) -> Vec<u32> {
        if !self.parts.contains_key(&id) {
            let Storage { bytes, persistent } = workload.storages()[id.storage as usize];
            let part = self.add(bytes, persistent).into_iter().collect();
            self.parts.insert(id, part);
        }
        self.parts[&id].clone()
    }
}

/// What an LRU memory has when the first step is over, and the deaths before the next.
fn lru_state(workload: &Workload, capacity: u64) -> BTreeMap<StorageId, Held> {
    let mut all: BTreeMap<StorageId, Held> = BTreeMap::new();
    for (clock, event) in (1..).zip(workload.steps(2)) {
        match event {
            StepEvent::Death(id) => drop(all.remove(&id)),
            StepEvent::Op { step: 1, .. } => break,
            StepEvent::Op { reads, writes, .. } => {
                for id in reads.iter().chain(&writes) {
                    let Storage { bytes, persistent } = workload.storages()[id.storage as usize];
                    let new = Held { bytes, has_content: persistent, ..Held::default() };
                    all.entry(*id).or_insert(new).used = clock;
                }
                let needed = |held: &Held| if held.used == clock { held.bytes } else { held.resident };
                while let Some(over) =
                    all.values().map(needed).sum::<u64>().checked_sub(capacity).filter(|over| *over > 0)
                {
                    let victims = all.values_mut().filter(|held| held.used < clock && held.resident > 0);
                    let victim = victims.min_by_key(|held| held.used).unwrap();
                    victim.resident -= over.min(victim.resident);
                    victim.dirty = victim.dirty.min(victim.resident);
                }
                all.values_mut().filter(|held| held.used == clock).for_each(|held| held.resident = held.bytes);
                for id in &writes {
                    let held = all.get_mut(id).unwrap();
                    (held.dirty, held.has_content) = (held.bytes, true);
                }
            }
        }
    }
    all
}
