//! The limits of one client, of all clients of one user together, and of all clients together. A request over a limit is refused, and the
//! log names the client, the limit and its number; a client that exceeds a limit without a request is disconnected. Other clients do not
//! notice.
//!
//! | limit | enforced by | over it |
//! |---|---|---|
//! | processes | `listener` | the connection is refused with the reason |
//! | lanes | `client` | the lane is refused, and the call that it was for: `NO_MEMORY` |
//! | bytes of messages | `client`, `lane` | the daemon discards the message unread, and refuses its call: `NO_MEMORY` |
//! | handles, sync objects, memory, locked video memory, queued packets, sections and NT handles as descriptors | the kernel (`dxgk_host::Quota`) | the call is refused: `NO_MEMORY` |
//! | time to reap its clients | `reconnect_delay` | the next client of the same process waits before the daemon accepts it |
//! | unheard messages, their descriptors, answer time | `stream` | the client is disconnected |

pub mod user;

use std::collections::BTreeMap;

use dxgk_host::Quota;

/// A limit that is none.
pub const UNLIMITED: u64 = u64::MAX;

/// All limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most clients at a time.
    pub processes: u64,
    /// Of each client.
    pub process: ProcessLimits,
    /// Of all clients of each user together.
    pub user: UserLimits,
    /// Of users for whom others hold, by number.
    pub users: BTreeMap<u32, OfUser>,
}

/// The limits of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Most lanes: threads that wait in calls at the same time.
    pub lanes: u64,
    /// Most messages that wait for it to hear them.
    pub unheard: u64,
    /// How long it may take to say that a change of a mapping holds, in milliseconds. The adapter's paging waits for it, so it is for all
    /// answers together: a twentieth of the time that passes is given back.
    pub answer_ms: u64,
    /// How much of the time, in percent, the kernel may spend on reaping clients of one process of the operating system: the next client
    /// of that process waits until the percentage is met, for five seconds at most. From 100 on it never waits.
    pub clearing_percent: u64,
    /// Most sections that it has made and NT handles that stand as descriptors, each of which costs the daemon one; and most files that are
    /// named in messages that it has not heard. Allocations are not counted: they lie in a few files, however many there are.
    pub descriptors: u64,
    /// Most handles.
    pub handles: u64,
    /// Most fences and other synchronization objects.
    pub sync_objects: u64,
    /// Most bytes of allocations and sections.
    pub memory_bytes: u64,
    /// Most bytes of allocations that it has locked and that may lie in video memory, which the daemon lends it.
    pub locked_video_bytes: u64,
    /// Most packets submitted and not done.
    pub queued: u64,
    /// Most bytes of video memory that it may have resident before the kernel asks it to trim; [`UNLIMITED`]: the kernel's own budget.
    pub budget_bytes: u64,
    /// Most bytes of its messages that are in memory, until each is answered; a first packet of 32 KiB comes with each lane and is not
    /// counted.
    pub message_bytes: u64,
    /// The client may ask for priorities above the ordinary ones.
    pub raise_priority: bool,
}

/// The limits of all clients of a user together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserLimits {
    /// Most clients at a time.
    pub processes: u64,
    /// As [`ProcessLimits::lanes`].
    pub lanes: u64,
    /// As [`ProcessLimits::unheard`].
    pub unheard: u64,
    /// As [`ProcessLimits::descriptors`], for sections and NT handles.
    pub descriptors: u64,
    /// As [`ProcessLimits::handles`].
    pub handles: u64,
    /// As [`ProcessLimits::sync_objects`].
    pub sync_objects: u64,
    /// As [`ProcessLimits::memory_bytes`].
    pub memory_bytes: u64,
    /// As [`ProcessLimits::locked_video_bytes`].
    pub locked_video_bytes: u64,
    /// As [`ProcessLimits::queued`].
    pub queued: u64,
    /// As [`ProcessLimits::message_bytes`].
    pub message_bytes: u64,
}

/// The limits of a user's clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfUser {
    /// Of each.
    pub process: ProcessLimits,
    /// Of all together.
    pub user: UserLimits,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { processes: 64, process: ProcessLimits::default(), user: UserLimits::default(), users: BTreeMap::new() }
    }
}

impl Default for ProcessLimits {
    fn default() -> Self {
        ProcessLimits {
            lanes: 64,
            unheard: 65_536,
            answer_ms: 2_000,
            clearing_percent: 5,
            descriptors: 1_024,
            handles: 65_536,
            sync_objects: 4_096,
            memory_bytes: UNLIMITED,
            locked_video_bytes: 4 << 30,
            queued: 16_384,
            budget_bytes: UNLIMITED,
            message_bytes: 32 << 20,
            raise_priority: false,
        }
    }
}

impl Default for UserLimits {
    fn default() -> Self {
        UserLimits {
            processes: UNLIMITED,
            lanes: UNLIMITED,
            unheard: UNLIMITED,
            descriptors: UNLIMITED,
            handles: UNLIMITED,
            sync_objects: UNLIMITED,
            memory_bytes: UNLIMITED,
            locked_video_bytes: UNLIMITED,
            queued: UNLIMITED,
            message_bytes: 256 << 20,
        }
    }
}

impl ProcessLimits {
    /// The part that the kernel enforces.
    pub(crate) fn quota(&self) -> Quota {
        let ProcessLimits { handles, sync_objects, memory_bytes, locked_video_bytes, queued, descriptors, .. } = *self;
        let (committed_bytes, memory_files, locked_bytes) = (memory_bytes, descriptors, locked_video_bytes);
        Quota { handles, sync_objects, committed_bytes, memory_files, queued, locked_bytes }
    }

    /// Most descriptors that the daemon holds for one such client: sections and NT handles, files of messages that it has not heard, whose
    /// memory may be gone already, the pages of words of its fences and queues, its lanes, its stream and its arenas.
    fn descriptors_at_most(&self) -> u64 {
        let words = self.sync_objects / WORDS_OF_A_PAGE + PAGES_BESIDE;
        let shared = self.descriptors.saturating_mul(2);
        shared.saturating_add(words).saturating_add(self.lanes).saturating_add(DESCRIPTORS_OF_ONE)
    }
}

impl UserLimits {
    /// The part that the kernel enforces.
    pub(crate) fn quota(&self) -> Quota {
        let UserLimits { handles, sync_objects, memory_bytes, locked_video_bytes, queued, descriptors, .. } = *self;
        let (committed_bytes, memory_files, locked_bytes) = (memory_bytes, descriptors, locked_video_bytes);
        Quota { handles, sync_objects, committed_bytes, memory_files, queued, locked_bytes }
    }
}

/// Fences whose words lie in one page, and so in one file, at the least.
const WORDS_OF_A_PAGE: u64 = 32;
/// Pages of words that a process has beside those of its fences.
const PAGES_BESIDE: u64 = 16;
/// Descriptors of every client, whatever it makes: its stream, a first lane, its process, its stores, its arenas.
const DESCRIPTORS_OF_ONE: u64 = 8;
/// [`Limits::within`] leaves each client at least so many sections and NT handles, unless the configuration names a number.
const DESCRIPTORS_LEAST: u64 = 64;
/// The daemon itself needs so many: its adapters' memory, its socket, its log, connections without a `Hello`.
const DESCRIPTORS_BESIDE: u64 = 256;

impl Limits {
    /// Those of a user's clients.
    pub fn of(&self, user: u32) -> OfUser {
        self.users.get(&user).copied().unwrap_or(OfUser { process: self.process, user: self.user })
    }

    /// Most descriptors that the daemon holds when every client has all that it may.
    pub fn descriptors_at_most(&self) -> u64 {
        let of_users = self.users.values().map(|of| of.process.descriptors_at_most());
        let each = of_users.chain([self.process.descriptors_at_most()]).max().expect("there is one");
        self.processes.saturating_mul(each).saturating_add(DESCRIPTORS_BESIDE)
    }

    /// How many processes can have all that they may at the same time, where the operating system gives `descriptors`.
    pub fn processes_within(&self, descriptors: u64) -> u64 {
        let each = (self.descriptors_at_most() - DESCRIPTORS_BESIDE) / self.processes.max(1);
        descriptors.saturating_sub(DESCRIPTORS_BESIDE) / each.max(1)
    }

    /// These limits where the operating system gives `descriptors`. As many processes are served as the limits say, and allocations need
    /// none. What each process may share is lowered until `descriptors` suffice when every client has all that it may, down to
    /// [`DESCRIPTORS_LEAST`]; where even that is too much, a client that asks for one when there is none left is refused what it asks for.
    /// Only limits that still have their defaults are lowered. `None`: the processes, or what the configuration says that they may share,
    /// do not fit.
    pub fn within(&self, descriptors: u64) -> Option<Limits> {
        let given = descriptors.checked_sub(DESCRIPTORS_BESIDE)?;
        let default = ProcessLimits::default().descriptors;
        let least = |limits: &ProcessLimits| {
            let shared = if limits.descriptors == default { 0 } else { limits.descriptors };
            shared.saturating_add(DESCRIPTORS_OF_ONE)
        };
        let all = || self.users.values().map(|of| &of.process).chain([&self.process]);
        let needed = all().map(least).max().expect("there is one").saturating_mul(self.processes);
        if needed > given {
            return None;
        }
        let lowered = |limits: ProcessLimits| {
            let beside = ProcessLimits { descriptors: 0, ..limits }.descriptors_at_most();
            let most = ((given / self.processes.max(1)).saturating_sub(beside) / 2).max(DESCRIPTORS_LEAST);
            let lowers = limits.descriptors == default;
            ProcessLimits {
                descriptors: if lowers { limits.descriptors.min(most) } else { limits.descriptors },
                ..limits
            }
        };
        let of_user = |(user, of): (&u32, &OfUser)| (*user, OfUser { process: lowered(of.process), ..*of });
        let users = self.users.iter().map(of_user).collect();
        Some(Limits { process: lowered(self.process), users, ..*self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_may_share_is_lowered_to_the_descriptors_that_there_are_and_no_client_is_turned_away() {
        let limits = Limits { processes: 10, ..Limits::default() };
        let needed = limits.descriptors_at_most();
        assert_eq!(limits.within(needed).as_ref(), Some(&limits), "they fit");
        let lowered = limits.within(needed - 1).expect("a little less");
        assert_eq!(lowered.process.descriptors, limits.process.descriptors - 1);
        assert!(lowered.descriptors_at_most() < needed);
        assert_eq!(lowered.process.lanes, limits.process.lanes, "nothing else changes");
        // All processes are served, and each keeps what it needs at the least.
        let few = Limits::default().within(1_024).expect("descriptors for all");
        assert_eq!((few.processes, few.process.descriptors), (64, DESCRIPTORS_LEAST));
        // Where not even that suffices for all, it does for fewer.
        let (some, needed) = (few.processes_within(20_000), few.descriptors_at_most());
        let fewer = |processes| Limits { processes, ..few.clone() }.descriptors_at_most();
        assert!(needed > 20_000 && fewer(some) <= 20_000 && fewer(some + 1) > 20_000, "{some}");
        assert_eq!(few.processes_within(needed), few.processes);
        assert_eq!(Limits::default().within(767), None, "eight for each, and those of the daemon");
        assert!(Limits::default().within(768).is_some());
        assert_eq!(Limits { processes: 1_000, ..Limits::default() }.within(8_255), None);
        let asked = |descriptors| ProcessLimits { descriptors, ..ProcessLimits::default() };
        let said = Limits { process: asked(200), ..Limits::default() };
        assert_eq!(said.within(64 * 208 + 256).as_ref(), Some(&said), "what was asked for is not lowered");
        assert_eq!(said.within(64 * 208 + 255), None);
        let own = OfUser { process: asked(20_000), user: UserLimits::default() };
        assert_eq!(Limits { users: BTreeMap::from([(1000, own)]), ..Limits::default() }.within(20_000), None);
    }

    #[test]
    fn a_user_has_the_limits_that_are_said_of_it() {
        let own = OfUser { process: ProcessLimits { handles: 7, ..Default::default() }, user: UserLimits::default() };
        let limits = Limits { users: BTreeMap::from([(1000, own)]), ..Limits::default() };
        assert_eq!(limits.of(1000), own);
        assert_eq!(limits.of(1001).process, ProcessLimits::default());
    }
}
