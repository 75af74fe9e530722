//! The numbers by which a driver speaks of packets and of preemptions. Both rise, and go round; 0 is no packet and no preemption.

/// Half of all numbers: a number that is no further ahead stands behind the other one in time.
const HALF: u32 = 1 << 31;

/// `SubmissionFenceId`: the number under which a node has a packet. The driver reports packets by it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PacketFenceId(pub u32);

impl PacketFenceId {
    /// The id that is given out behind this one.
    pub(super) fn next(self) -> PacketFenceId {
        let next = PacketFenceId(self.0.wrapping_add(1).max(1));
        debug_assert!(next.is_later_than(self), "{next:?} is given out behind {self:?}");
        next
    }

    /// Whether this one was given out behind another.
    pub fn is_later_than(self, other: PacketFenceId) -> bool {
        self.0.wrapping_sub(other.0).wrapping_sub(1) < HALF
    }
}

/// `PreemptionFenceId`: the number of a request for what a node has. The driver's answer bears it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PreemptionNumber(pub u32);

impl PreemptionNumber {
    /// The number of the next request.
    pub(super) fn next(self) -> PreemptionNumber {
        PreemptionNumber(self.0.wrapping_add(1).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_rise_and_go_round_without_the_0() {
        // spec: memory §7.4, sync §4.3
        assert_eq!(PacketFenceId::default().next(), PacketFenceId(1));
        assert_eq!(PacketFenceId(7).next(), PacketFenceId(8));
        assert_eq!(PacketFenceId(u32::MAX).next(), PacketFenceId(1));
        assert_eq!(PreemptionNumber(7).next(), PreemptionNumber(8));
        assert_eq!(PreemptionNumber(u32::MAX).next(), PreemptionNumber(1));
    }

    #[test]
    fn what_is_no_further_ahead_than_half_of_all_numbers_is_later() {
        // spec: memory §7.4, sync §4.3
        for other in [0, 1, 5, u32::MAX - 1, u32::MAX] {
            let later = |ahead: u32| PacketFenceId(other.wrapping_add(ahead)).is_later_than(PacketFenceId(other));
            for (ahead, expected) in [(0, false), (1, true), (HALF, true), (HALF + 1, false), (u32::MAX, false)] {
                assert_eq!(later(ahead), expected, "{ahead} ahead of {other}");
            }
        }
    }
}
