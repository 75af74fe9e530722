//! How the room of a group is divided: the arithmetic, of numbers alone. Called by `budget`.

use super::ProcessPriority;
use crate::slab::SpaceId;

/// The need of a process, for the division.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub need: u64,
    /// Need within the reservation.
    pub sure: u64,
}

/// All that take something of a group, arranged so that it is divided for each of them without a look for them again.
#[derive(Debug)]
pub(super) struct Division {
    bytes: u64,
    /// The least needs first.
    claims: Vec<(Share, ProcessPriority, SpaceId)>,
    reserved: bool,
}

impl Division {
    pub fn of(bytes: u64, mut claims: Vec<(Share, ProcessPriority, SpaceId)>) -> Division {
        claims.sort_unstable_by_key(|(share, ..)| (share.need, share.sure));
        let reserved = claims.iter().any(|(share, ..)| share.sure > 0);
        Division { bytes, claims, reserved }
    }

    /// The bytes that a process gets if it wants everything beside the others.
    pub fn beside(&self, space: SpaceId, priority: ProcessPriority) -> u64 {
        let above = self.claims.iter().filter(|(_, theirs, other)| *theirs > priority && *other != space);
        let above = above.fold(0u64, |sum, (share, ..)| sum.saturating_add(share.need));
        let equals = || self.claims.iter().filter(|(_, theirs, other)| *theirs == priority && *other != space);
        let mut left = self.bytes.saturating_sub(above);
        if self.reserved {
            return level(left, equals().map(|(share, ..)| *share).collect());
        }
        // As `level` does it where nothing is reserved.
        let mut sharing = equals().count() as u64 + 1;
        for (share, ..) in equals() {
            if share.need > left / sharing {
                break;
            }
            left -= share.need;
            sharing -= 1;
        }
        debug_assert!(left <= self.bytes, "{left} of {} bytes are left", self.bytes);
        left / sharing
    }
}

/// The even share of one that wants everything beside these.
pub(super) fn level(total: u64, mut others: Vec<Share>) -> u64 {
    let beyond = others.iter().find(|share| share.sure > share.need);
    debug_assert!(beyond.is_none(), "{beyond:?} has reserved more of its need than it needs");
    // A process that is content with little leaves more to the others, so the least needs are served first.
    others.sort_unstable_by_key(|share| (share.need, share.sure));
    let mut left = total;
    let mut at = 0;
    loop {
        let share = left / (others.len() - at + 1) as u64;
        debug_assert!(share <= left && left <= total, "{share} of {left} of {total} bytes");
        if others.get(at).is_some_and(|least| least.need <= share) {
            left -= others[at].need;
            at += 1;
            continue;
        }
        // Needs within a reservation but beyond an even share are served before the rest is divided.
        match others[at..].iter().position(|other| other.sure > share) {
            Some(position) => {
                let reserved = others.remove(at + position);
                left = left.saturating_sub(reserved.sure);
            }
            None => return share,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::Key;

    #[test]
    fn the_share_is_even_and_what_is_not_needed_goes_round() {
        let share = |total, needs: &[(u64, u64)]| {
            level(total, needs.iter().map(|&(need, sure)| Share { need, sure }).collect())
        };
        assert_eq!(share(100, &[]), 100);
        assert_eq!(share(100, &[(0, 0), (0, 0)]), 100);
        assert_eq!(share(100, &[(30, 0)]), 70);
        assert_eq!(share(100, &[(90, 0)]), 50);
        assert_eq!(share(90, &[(10, 0), (500, 0)]), 40);
        // One has reserved more than an even share.
        assert_eq!(share(100, &[(80, 80)]), 20);
        assert_eq!(share(100, &[(80, 80), (80, 0)]), 10);
        assert_eq!(share(100, &[(200, 200)]), 0);
        // What is reserved within an even share is served by it.
        assert_eq!(share(101, &[(80, 50)]), 50);
    }

    #[test]
    fn one_that_asks_beside_the_others_gets_what_they_leave() {
        let [mine, theirs] = [1, 2].map(|slot| SpaceId::new(slot, 0));
        let beside = |bytes, need, sure| {
            let claim = (Share { need, sure }, ProcessPriority::Normal, theirs);
            Division::of(bytes, vec![claim]).beside(mine, ProcessPriority::Normal)
        };
        assert_eq!(beside(5, 2, 0), 3, "a need that is just an even share leaves all the rest");
        assert_eq!(beside(100, 80, 80), 20, "the only one has a reservation");
        assert_eq!(beside(100, 80, 0), 50);
    }
}
