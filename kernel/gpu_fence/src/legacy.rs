//! The synchronization objects that only the kernel signals (sync §1.1): mutex, semaphore, and the fence of software
//! packets. No word of theirs lies in memory and no hardware knows them; the kernel signals and waits for them when a
//! context's queue comes to the packet that says so. Memory-backed fences are in `fences`; a CPU notification is no object
//! that anybody waits for here: it only sets an event.
//!
//! # How it works
//! A wait names objects, all of them. It is over when all are available at once, and takes them in that moment: a mutex
//! becomes owned, a semaphore counts down, a fence is only looked at. It takes nothing before, so two waits that name the
//! same objects in different orders cannot hold each other up. Waits are looked through in the order in which they were
//! registered, so that of two that could both have an object the elder gets it.
//!
//! | object | available | a wait takes | a signal |
//! |---|---|---|---|
//! | mutex | not owned | ownership | releases ownership, from any context; an unowned mutex: no effect |
//! | semaphore | count above 0 | one | counts up, to its maximum at most |
//! | fence | value reached | nothing | raises the value; lower: no effect, unless a rewind is asked for |
//!
//! A mutex knows whose wait has it: when that one goes without a signal, the kernel gives it up instead.
//!
//! # Blame
//! Creation judges what a client asked for. Everything else is the kernel's word: a stale [`LegacyId`] panics.

use std::collections::{BTreeMap, BTreeSet};

use crate::slots::{FenceId, Slots};

#[cfg(test)]
mod tests;

/// One such object of one [`LegacyObjects`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LegacyId(FenceId);

/// The kind and initial state of the object to create (`D3DDDI_SYNCHRONIZATIONOBJECTINFO2`, sync §2.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LegacyKind {
    /// `D3DDDI_SYNCHRONIZATION_MUTEX`.
    MutexObject {
        /// `InitialState`: it is owned already, until the first signal.
        owned: bool,
    },
    /// `D3DDDI_SEMAPHORE`.
    Semaphore {
        /// `MaxCount`.
        max: u32,
        /// `InitialCount`.
        initial: u32,
    },
    /// `D3DDDI_FENCE`.
    Fence {
        /// Its first value.
        value: u64,
    },
}

/// Why an object cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LegacyError {
    /// `InitialCount` above `MaxCount`.
    InitialAboveMax,
}

/// A wait that did not hold at once. Never used again; later ones are greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LegacyWaitId(u64);

/// The result of a wait.
#[must_use = "release the waiter, or remember it as registered"]
#[derive(PartialEq, Eq, Debug)]
pub enum LegacyWait<W> {
    /// It held, and has taken what it takes.
    Satisfied(W),
    /// It is registered.
    Pending(LegacyWaitId),
}

/// The objects, and the waits for them. `W` is what the caller wants back when a wait is over.
pub struct LegacyObjects<W> {
    objects: Slots<Object<W>>,
    waits: BTreeMap<LegacyWaitId, Wait<W>>,
    /// The mutexes that waits have taken, by whose they were.
    taken: BTreeMap<W, BTreeSet<LegacyId>>,
    registrations: u64,
}

struct Object<W> {
    state: State<W>,
    /// The waits that name it.
    waits: BTreeSet<LegacyWaitId>,
}

#[derive(Clone, Copy)]
enum State<W> {
    MutexObject { owner: Owner<W> },
    Semaphore { max: u32, count: u32 },
    Fence { value: u64 },
}

/// The owner of a mutex.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner<W> {
    Unowned,
    /// It was created owned.
    Creator,
    /// This one's wait has taken it.
    Taker(W),
}

struct Wait<W> {
    objects: Vec<LegacyId>,
    /// For the fences among them.
    value: u64,
    what: W,
}

impl<W: Copy + Ord> LegacyObjects<W> {
    /// No object.
    pub fn new() -> Self {
        LegacyObjects { objects: Slots::new(), waits: BTreeMap::new(), taken: BTreeMap::new(), registrations: 0 }
    }

    /// A new object.
    ///
    /// # Errors
    /// See [`LegacyError`].
    // spec: sync §1.1, sync §2.2
    pub fn create(&mut self, kind: LegacyKind) -> Result<LegacyId, LegacyError> {
        let state = match kind {
            LegacyKind::MutexObject { owned: true } => State::MutexObject { owner: Owner::Creator },
            LegacyKind::MutexObject { owned: false } => State::MutexObject { owner: Owner::Unowned },
            LegacyKind::Semaphore { max, initial } if initial > max => return Err(LegacyError::InitialAboveMax),
            LegacyKind::Semaphore { max, initial } => State::Semaphore { max, count: initial },
            LegacyKind::Fence { value } => State::Fence { value },
        };
        Ok(LegacyId(self.objects.insert(Object { state, waits: BTreeSet::new() })))
    }

    /// Destroys the object; waits that name it are over, having taken nothing (sync §6 B8).
    ///
    /// # Panics
    /// Here and in every method that takes an object: if it was destroyed.
    pub fn destroy(&mut self, object: LegacyId) -> Vec<W> {
        self.forget_taker(object);
        let destroyed = self.objects.remove(object.0).unwrap_or_else(|| stale(object));
        destroyed.waits.into_iter().filter_map(|wait| self.remove(wait)).collect()
    }

    /// Waits for all of these objects. `value` is for the fences among them. An object that is named twice is taken twice.
    // spec: sync §2.4
    pub fn wait(&mut self, objects: &[LegacyId], value: u64, what: W) -> LegacyWait<W> {
        if self.take(objects, value, what) {
            return LegacyWait::Satisfied(what);
        }
        let id = LegacyWaitId(self.registrations);
        self.registrations += 1;
        for object in objects {
            self.object_mut(*object).waits.insert(id);
        }
        self.waits.insert(id, Wait { objects: objects.to_vec(), value, what });
        LegacyWait::Pending(id)
    }

    /// Signals one object. `value` and `rewind` are for a fence. Returns the waiters that it releases, eldest first.
    pub fn signal(&mut self, object: LegacyId, value: u64, rewind: bool) -> Vec<W> {
        self.forget_taker(object);
        match &mut self.object_mut(object).state {
            State::MutexObject { owner } => *owner = Owner::Unowned,
            State::Semaphore { max, count } => *count = count.saturating_add(1).min(*max),
            State::Fence { value: current } if rewind || value > *current => *current = value,
            State::Fence { .. } => return Vec::new(),
        }
        let candidates: Vec<LegacyWaitId> = self.object(object).waits.iter().copied().collect();
        let mut released = Vec::new();
        for id in candidates {
            let wait = &self.waits[&id];
            let (objects, value, what) = (wait.objects.clone(), wait.value, wait.what);
            if self.take(&objects, value, what) {
                released.extend(self.remove(id));
            }
            if !self.object(object).state.has_any() {
                break;
            }
        }
        released
    }

    /// Withdraws a wait. `None`: it is over already.
    pub fn cancel(&mut self, wait: LegacyWaitId) -> Option<W> {
        self.remove(wait)
    }

    /// The value of a fence; `None` for the other kinds.
    pub fn fence_value(&self, object: LegacyId) -> Option<u64> {
        match self.object(object).state {
            State::Fence { value } => Some(value),
            State::MutexObject { .. } | State::Semaphore { .. } => None,
        }
    }

    /// The mutexes that waits of this taker own.
    pub fn taken_by(&self, taker: W) -> Vec<LegacyId> {
        self.taken.get(&taker).map(|mutexes| mutexes.iter().copied().collect()).unwrap_or_default()
    }

    /// Whether it is a mutex that was created owned and never signalled.
    pub fn is_its_creators(&self, object: LegacyId) -> bool {
        matches!(self.object(object).state, State::MutexObject { owner: Owner::Creator })
    }

    /// How many waits are held.
    pub fn waits(&self) -> usize {
        self.waits.len()
    }

    /// Takes all of these objects for `taker` if all are available, else none.
    fn take(&mut self, objects: &[LegacyId], value: u64, taker: W) -> bool {
        let mut before = Vec::with_capacity(objects.len());
        for object in objects {
            let state = self.object(*object).state;
            let taken = match state {
                State::MutexObject { owner: Owner::Unowned } => State::MutexObject { owner: Owner::Taker(taker) },
                State::Semaphore { max, count } if count > 0 => State::Semaphore { max, count: count - 1 },
                State::Fence { value: current } if current >= value => state,
                State::MutexObject { .. } | State::Semaphore { .. } | State::Fence { .. } => {
                    // Backwards, so that an object that was named twice gets back what it was first.
                    before.into_iter().rev().for_each(|(object, state)| self.object_mut(object).state = state);
                    return false;
                }
            };
            before.push((*object, state));
            self.object_mut(*object).state = taken;
        }
        let mutexes = objects.iter().filter(|object| matches!(self.object(**object).state, State::MutexObject { .. }));
        let mutexes: BTreeSet<LegacyId> = mutexes.copied().collect();
        if !mutexes.is_empty() {
            self.taken.entry(taker).or_default().extend(mutexes);
        }
        true
    }

    /// A mutex is about to be given up, or to go.
    fn forget_taker(&mut self, object: LegacyId) {
        let State::MutexObject { owner: Owner::Taker(taker) } = self.object(object).state else { return };
        let mutexes = self.taken.get_mut(&taker).expect("it was entered when it was taken");
        mutexes.remove(&object);
        if mutexes.is_empty() {
            self.taken.remove(&taker);
        }
    }

    /// Takes a wait off its objects. `None`: it is over already.
    fn remove(&mut self, id: LegacyWaitId) -> Option<W> {
        let wait = self.waits.remove(&id)?;
        for object in wait.objects {
            // Absent: it is being destroyed.
            if let Some(object) = self.objects.get_mut(object.0) {
                object.waits.remove(&id);
            }
        }
        Some(wait.what)
    }

    fn object(&self, object: LegacyId) -> &Object<W> {
        self.objects.get(object.0).unwrap_or_else(|| stale(object))
    }

    fn object_mut(&mut self, object: LegacyId) -> &mut Object<W> {
        self.objects.get_mut(object.0).unwrap_or_else(|| stale(object))
    }
}

impl<W> State<W> {
    /// Whether anybody at all could have it.
    fn has_any(&self) -> bool {
        match self {
            State::MutexObject { owner } => matches!(owner, Owner::Unowned),
            State::Semaphore { count, .. } => *count > 0,
            State::Fence { .. } => true,
        }
    }
}

impl<W: Copy + Ord> Default for LegacyObjects<W> {
    fn default() -> Self {
        Self::new()
    }
}

fn stale(id: LegacyId) -> ! {
    panic!("{id:?} names an object that was destroyed: the kernel kept an id longer than its object")
}
