//! The order in which a replay makes recorded calls. Lines of calls that overlapped stand in any order; each says which end of a call it
//! was, and where its kernel took and answered it. Called by `recording`.

use super::recording::RecordedCall;

/// Sorts calls by when their kernel took them. A call that its kernel did not take stands behind all answers of calls that had ended before
/// it did. Calls of a recording without any place stay in the order of their ends.
pub fn by_kernel(calls: &mut Vec<RecordedCall>) {
    calls.sort_by_key(|call| call.number);
    if calls.iter().all(|call| call.order.is_none()) {
        return;
    }
    let mut answered = 0;
    let mut keyed: Vec<_> = std::mem::take(calls)
        .into_iter()
        .map(|call| {
            let key = call.order.map_or((answered, true), |order| (order.taken, false));
            answered = call.order.map_or(answered, |order| order.answered.max(answered));
            (key, call)
        })
        .collect();
    keyed.sort_by_key(|(key, _)| *key);
    calls.extend(keyed.into_iter().map(|(_, call)| call));
}
