//! Notifications that a process has been told and has not taken yet.

use std::collections::VecDeque;

use kmt_calls::{Notification, NotificationKind};

/// Most notifications that wait for a process, but for those of events.
const TOLD_MAX: usize = 1024;

/// Adds a notification. A process that does not listen forgets what it was told first; of its events it forgets nothing, and each waits
/// once.
pub fn tell(told: &mut VecDeque<Notification>, notification: Notification) {
    if notification.kind == NotificationKind::EventSet {
        if !told.contains(&notification) {
            told.push_back(notification);
        }
        return;
    }
    if told.len() >= TOLD_MAX
        && let Some(first) = told.iter().position(|told| told.kind != NotificationKind::EventSet)
    {
        told.remove(first);
    }
    told.push_back(notification);
}

#[cfg(test)]
mod tests {
    use kmt_calls::TrimFlags;
    use wddm_types::RawHandle;

    use super::*;

    #[test]
    fn trims_are_forgotten_and_events_are_not() {
        let mut told = VecDeque::new();
        let event = |number| Notification { registration: RawHandle(number), kind: NotificationKind::EventSet };
        let trim = |bytes_to_trim| Notification {
            registration: RawHandle(0),
            kind: NotificationKind::Trim { flags: TrimFlags::PERIODIC_TRIM, bytes_to_trim },
        };
        for number in 0..2_000_u64 {
            // CAST: two thousand.
            tell(&mut told, event(number as u32 % 1_500));
            tell(&mut told, trim(number));
        }
        let events = told.iter().filter(|told| told.kind == NotificationKind::EventSet).count();
        assert_eq!(events, 1_500, "each once");
        assert_eq!(told.back(), Some(&trim(1_999)));
        assert!(!told.contains(&trim(0)));
    }
}
