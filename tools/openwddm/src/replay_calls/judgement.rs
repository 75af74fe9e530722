//! What is the same in a replay and in its recording, and what cannot be: statuses, times, commands. Called by the player.

use std::borrow::Cow;

use d3dkmt_c::Value;
use wddm_types::NtStatus;

use super::recording::{RecordedCall, Recording};

/// The functions that wait for a time at most, and its member: a wait that was not too long is none that ends early here.
const TIMED: [&str; 2] = ["D3DKMTAcquireKeyedMutex", "D3DKMTAcquireKeyedMutex2"];
const TIME: &str = "pTimeout";
/// The functions by which a program hands commands to an engine, and the flag of those that have none.
const SUBMITS: [&str; 4] =
    ["D3DKMTRender", "D3DKMTSubmitCommand", "D3DKMTSubmitCommandToHwQueue", "D3DKMTCreateDoorbell"];
const RINGS: &str = "D3DKMTCreateDoorbell";
const NO_COMMANDS: &str = "NullRendering";

/// The first line that left memory out, and how many bytes.
#[derive(Clone, Copy, Debug)]
pub struct Gap {
    pub line: usize,
    pub bytes: u64,
}

/// Why a call that submits commands cannot be made as it was recorded. `moved`: an address of the recording, and what it is here.
pub fn commands_lack(
    recording: &Recording,
    call: &RecordedCall,
    skips: bool,
    (gap, moved): (Option<Gap>, Option<(u64, u64)>),
) -> Option<String> {
    let flags = call.given.member("Flags").and_then(Value::text).unwrap_or_default();
    if !SUBMITS.contains(&call.function) || !call.status.is_success() || flags.contains(NO_COMMANDS) {
        return None;
    }
    match (gap, moved) {
        _ if call.function == RINGS => {
            Some("the program feeds a queue by its doorbell, whose stores no trace has".to_owned())
        }
        _ if skips => None,
        _ if !recording.has_memory => {
            Some("record with OPENWDDM_TRACE=calls+memory, or replay with --skip-commands".to_owned())
        }
        (Some(Gap { line, bytes }), _) => {
            Some(format!("the trace had no room for memory from line {line} on, which leaves out {bytes} bytes"))
        }
        (None, Some((was, is))) => {
            Some(format!("the commands name GPU virtual addresses of the recording: {was:#x} is {is:#x} here"))
        }
        (None, None) => None,
    }
}

/// Whether a status is the recorded one. A call that promises a value of a fence succeeds either way: whether the value had been reached when
/// the call returned is a matter of time.
// spec: memory §5.2
pub fn is_same(recorded: NtStatus, now: NtStatus) -> bool {
    let promises = |status| matches!(status, NtStatus::SUCCESS | NtStatus::PENDING);
    recorded == now || promises(recorded) && promises(now)
}

/// The arguments of a call that was recorded as a wait that did not take too long: on a slower machine it would, so it has no time here.
pub fn without_time(call: &RecordedCall, given: Value) -> Value {
    match given {
        Value::Members(members)
            if TIMED.contains(&call.function) && call.status.is_success() && call.status != NtStatus::TIMEOUT =>
        {
            let timeless = |(name, value): (Cow<'static, str>, Value)| match &*name {
                TIME => (name, Value::Null),
                _ => (name, value),
            };
            Value::Members(members.into_iter().map(timeless).collect())
        }
        given => given,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_that_is_kept_at_once_is_the_recorded_promise() {
        let [success, pending, refused] = [NtStatus::SUCCESS, NtStatus::PENDING, NtStatus::INVALID_PARAMETER];
        assert!(is_same(success, pending) && is_same(pending, success) && is_same(refused, refused));
        for succeeded in [success, pending] {
            assert!(!is_same(succeeded, refused) && !is_same(refused, succeeded));
        }
        assert!(!is_same(NtStatus::TIMEOUT, success), "a wait that ended is another outcome");
    }
}
