//! The users that have clients, with the amounts that the daemon itself counts for all clients of a user. The kernel counts the rest by
//! account.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::limits::{Limits, OfUser};

/// How many of something there are.
#[derive(Debug, Default)]
pub(crate) struct Count(Arc<AtomicU64>);

/// One of those, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place(Arc<AtomicU64>);

impl Count {
    /// How many there are.
    pub fn now(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// A place among at most so many; `None`: all are taken.
    pub fn take(&self, most: u64) -> Option<Place> {
        let place = Place(Arc::clone(&self.0));
        (self.0.fetch_add(1, Ordering::AcqRel) < most).then_some(place)
    }
}

/// So much of an amount, until it is dropped.
#[derive(Debug)]
pub(crate) struct Part {
    of: Arc<AtomicU64>,
    taken: u64,
}

impl Count {
    /// A part of it, nothing at first.
    pub fn part(&self) -> Part {
        Part { of: Arc::clone(&self.0), taken: 0 }
    }
}

impl Part {
    /// Takes so much more, if all parts are at most so much then.
    pub fn grow(&mut self, more: u64, most: u64) -> bool {
        let fits = self.of.fetch_add(more, Ordering::AcqRel).saturating_add(more) <= most;
        if fits {
            self.taken += more;
        } else {
            self.of.fetch_sub(more, Ordering::AcqRel);
        }
        fits
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.of.fetch_sub(self.taken, Ordering::AcqRel);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A user, while it has clients.
#[derive(Debug)]
pub(crate) struct User {
    limits: Mutex<OfUser>,
    pub processes: Count,
    pub lanes: Count,
    pub unheard: Count,
    /// Bytes of its clients' messages that are in memory.
    pub messages: Count,
}

impl User {
    /// The limits of its clients, as they are now.
    pub fn limits(&self) -> OfUser {
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Users {
    known: Mutex<BTreeMap<u32, Arc<User>>>,
}

impl Users {
    /// A user, with the limits that are said of it.
    pub fn find(&self, uid: u32, limits: &Limits) -> Arc<User> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // A user without clients holds no place and no bytes, so its entry goes.
        known.retain(|_, user| Arc::strong_count(user) > 1);
        let user = || {
            let (processes, lanes, unheard, messages) = Default::default();
            Arc::new(User { limits: Mutex::new(limits.of(uid)), processes, lanes, unheard, messages })
        };
        Arc::clone(known.entry(uid).or_insert_with(user))
    }

    /// The users that have clients have these limits from now on.
    pub fn limit(&self, limits: &Limits) {
        for (uid, user) in self.known.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            *user.limits.lock().unwrap_or_else(PoisonError::into_inner) = limits.of(*uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_when_its_holder_has_gone() {
        let count = Count::default();
        let places: Vec<_> = (0..3).map(|_| count.take(3).expect("one of three")).collect();
        assert!(count.take(3).is_none());
        assert_eq!(count.now(), 3);
        drop(places);
        assert_eq!(count.now(), 0);
        assert!(count.take(1).is_some());
    }

    #[test]
    fn an_amount_is_shared_by_its_parts_and_given_back() {
        let count = Count::default();
        let (mut one, mut other) = (count.part(), count.part());
        assert!(one.grow(60, 100) && other.grow(40, 100));
        assert!(!one.grow(1, 100), "it is all taken");
        assert_eq!(count.now(), 100, "and what was not had is not counted");
        drop(other);
        assert!(one.grow(40, 100) && !one.grow(u64::MAX, u64::MAX - 1));
        drop(one);
        assert_eq!(count.now(), 0);
    }

    #[test]
    fn other_limits_hold_for_users_that_are_there() {
        let (users, mut limits) = (Users::default(), Limits::default());
        let user = users.find(1000, &limits);
        limits.process.handles = 7;
        users.limit(&limits);
        assert_eq!(user.limits().process.handles, 7);
    }

    #[test]
    fn a_user_is_one_as_long_as_it_has_clients() {
        let (users, limits) = (Users::default(), Limits::default());
        let first = users.find(1000, &limits);
        let place = first.processes.take(9);
        assert_eq!(users.find(1000, &limits).processes.now(), 1);
        assert_eq!(users.find(1001, &limits).processes.now(), 0);
        drop((place, first));
        assert_eq!(users.find(1000, &limits).processes.now(), 0);
    }
}
