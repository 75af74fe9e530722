//! Makes the calls of a recording in its order. Each recorded thread's calls are made on a thread of their own: one that waits for another
//! thread's call is left waiting while that call is made.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use d3dkmt_c::{PlayError, Playback, Played, Value};
use kmt_link::Link;
use wddm_types::NtStatus;

use super::names::Names;
use super::recording::{RecordedCall, Recording};
use crate::error::RunError;

/// A call that has not returned for so long may wait for a call of another thread, which is then made.
const GRACE: Duration = Duration::from_millis(100);
/// How far ahead of a call that waits others are made.
const AHEAD_MAX: usize = 4096;
/// Between two looks at an event.
const POLL: Duration = Duration::from_millis(1);
/// The function by which a program looks at an event without waiting.
const LOOK: &str = "OpenWddmWaitEvent";
/// The functions that make and close what is a descriptor in the flavour of the Linux subsystem.
const CREATE: &str = "OpenWddmCreateEvent";
const CLOSE: &str = "OpenWddmCloseHandle";

/// What came of a replay.
#[derive(Debug)]
pub struct Outcome {
    /// Calls that had their recorded status, and those of them that are refusals.
    pub equal: usize,
    pub refused: usize,
    /// Looks at an event that were left out: each found it not set, and changed nothing.
    pub polls: usize,
    pub ended: Ended,
}

/// Why a replay ended.
#[derive(Debug)]
pub enum Ended {
    /// Each call has its recorded status.
    Equal,
    /// This call has another.
    Differs { call: usize, status: NtStatus, reason: Option<String> },
    /// This call does not return.
    Waits { call: usize },
}

/// A call for a thread: its number, the function, its arguments, and whether it is made until an event is set.
struct Order {
    call: usize,
    function: &'static str,
    given: Value,
    until_set: bool,
}

type Answer = (usize, Result<Played, PlayError>);

/// Makes the calls until one has another status.
///
/// # Errors
/// [`RunError::Kernel`] when a mapped argument is none: a fault of this program.
pub fn play(recording: &Recording, link: Arc<dyn Link>, patience: Duration) -> Result<Outcome, RunError> {
    let (answers, answered) = channel();
    let mut player = Player {
        recording,
        playback: Arc::new(Playback::over(link)),
        names: Names::default(),
        threads: HashMap::new(),
        waiting: HashMap::new(),
        answers,
        answered,
        patience,
        outcome: Outcome { equal: 0, refused: 0, polls: 0, ended: Ended::Equal },
    };
    player.play()?;
    Ok(player.outcome)
}

struct Player<'recording> {
    recording: &'recording Recording,
    playback: Arc<Playback>,
    names: Names,
    threads: HashMap<&'recording str, Sender<Order>>,
    /// The calls that have not returned, by their threads, and since when.
    waiting: HashMap<&'recording str, (usize, Instant)>,
    answers: Sender<Answer>,
    answered: Receiver<Answer>,
    patience: Duration,
    outcome: Outcome,
}

impl<'recording> Player<'recording> {
    /// Each step makes the first call that is left of a thread that waits for none: lines stand in the order in which calls returned, and
    /// the call that ended another's waiting may stand behind it.
    fn play(&mut self) -> Result<(), RunError> {
        let looks = |call: &RecordedCall| call.function == LOOK && call.status == NtStatus::TIMEOUT;
        let recording = self.recording;
        let mut left: Vec<usize> = (0..recording.calls.len()).rev().collect();
        left.retain(|nth| !looks(&recording.calls[*nth]));
        self.outcome.polls = recording.calls.len() - left.len();
        while self.is_under_way() && !(left.is_empty() && self.waiting.is_empty()) {
            let free = |nth: &usize| !self.waiting.contains_key(&*recording.calls[*nth].thread);
            match left.iter().rev().take(AHEAD_MAX).position(free) {
                Some(ahead) => {
                    let nth = left.remove(left.len() - 1 - ahead);
                    self.make(nth, &recording.calls[nth])?;
                    self.hear(GRACE)?;
                }
                None => self.hear(self.patience)?,
            }
        }
        Ok(())
    }

    fn is_under_way(&self) -> bool {
        matches!(self.outcome.ended, Ended::Equal)
    }

    fn make(&mut self, nth: usize, call: &'recording RecordedCall) -> Result<(), RunError> {
        // A descriptor that was refused may have been closed without a call.
        let is_none = self.recording.has_descriptors && call.status == NtStatus::INVALID_HANDLE;
        if self.recording.has_descriptors && call.status.is_success() {
            self.make_events(call)?;
        }
        let order = Order {
            call: nth,
            function: call.function,
            given: match is_none {
                true => self.names.mapped_as_refused(&call.given),
                false => self.names.mapped(&call.given),
            },
            until_set: call.function == LOOK,
        };
        let orders = self.threads.entry(&call.thread).or_insert_with(|| {
            let (orders, ordered) = channel();
            let (playback, answers, patience) = (Arc::clone(&self.playback), self.answers.clone(), self.patience);
            thread::spawn(move || carry_out(&playback, &ordered, &answers, patience));
            orders
        });
        self.waiting.insert(&call.thread, (nth, Instant::now()));
        // The thread lives as long as this end of its channel.
        orders.send(order).expect("the thread takes orders");
        Ok(())
    }

    /// Events that the program has made itself, by `eventfd`: they stay set until they are reset, so that each look at them is answered.
    fn make_events(&mut self, call: &RecordedCall) -> Result<(), RunError> {
        for number in self.names.unknown_events(&call.given) {
            let event = |text: String| Value::Members(vec![("hEvent".into(), Value::Text(text))]);
            let manual = Value::Members(vec![("bManualReset".into(), Value::Number(1))]);
            let made = self.playback.call(CREATE, &manual).map_err(|error| unplayable(call, &error))?;
            self.names.learn(&event(format!("event {number:#x}")), &made.answered);
        }
        Ok(())
    }

    /// What a call with its recorded status says of descriptors: a number that is given anew was closed before, and a closed one is none.
    fn follow_descriptors(&mut self, call: &RecordedCall) -> Result<(), RunError> {
        for handle in self.names.given_anew(&call.answered) {
            let closed = Value::Members(vec![("hObject".into(), Value::Text(format!("nt-handle {handle:#x}")))]);
            self.playback.call(CLOSE, &closed).map_err(|error| unplayable(call, &error))?;
        }
        if call.function == CLOSE && call.status.is_success() {
            self.names.forget(&call.given);
        }
        Ok(())
    }

    /// Waits for one answer, for so long at most.
    fn hear(&mut self, most: Duration) -> Result<(), RunError> {
        match self.answered.recv_timeout(most) {
            Ok((nth, answer)) => self.judge(nth, answer),
            Err(RecvTimeoutError::Timeout) => {
                let oldest = self.waiting.values().min_by_key(|(_, since)| *since).copied();
                if let Some((call, since)) = oldest
                    && since.elapsed() >= self.patience
                {
                    self.outcome.ended = Ended::Waits { call };
                }
                Ok(())
            }
            Err(RecvTimeoutError::Disconnected) => unreachable!("this end has a sender of its own"),
        }
    }

    fn judge(&mut self, nth: usize, answer: Result<Played, PlayError>) -> Result<(), RunError> {
        let call = &self.recording.calls[nth];
        self.waiting.remove(&*call.thread);
        let played = answer.map_err(|error| unplayable(call, &error))?;
        if !is_same(call.status, played.status) {
            let (status, reason) = (played.status, played.reason);
            self.outcome.ended = Ended::Differs { call: nth, status, reason };
            return Ok(());
        }
        if self.recording.has_descriptors {
            self.follow_descriptors(call)?;
        }
        self.names.learn(&call.answered, &played.answered);
        self.outcome.equal += 1;
        self.outcome.refused += usize::from(!call.status.is_success());
        Ok(())
    }
}

/// Whether a status is the recorded one. A call that promises a value of a fence succeeds either way: whether the value had been reached when
/// the call returned is a matter of time.
// spec: memory §5.2
fn is_same(recorded: NtStatus, now: NtStatus) -> bool {
    let promises = |status| matches!(status, NtStatus::SUCCESS | NtStatus::PENDING);
    recorded == now || promises(recorded) && promises(now)
}

/// Arguments that the recording's check has found good, and that are none.
fn unplayable(call: &RecordedCall, error: &PlayError) -> RunError {
    RunError::Kernel {
        problem: format!("line {}: {}: {error}", call.line, call.function),
        remedy: "report it with the recording".to_owned(),
    }
}

/// A thread: makes its calls one after the other. A look at an event that the recording found set is made until it is set here.
fn carry_out(playback: &Playback, ordered: &Receiver<Order>, answers: &Sender<Answer>, patience: Duration) {
    for order in ordered {
        let begun = Instant::now();
        let mut answer = playback.call(order.function, &order.given);
        while order.until_set
            && matches!(&answer, Ok(played) if played.status == NtStatus::TIMEOUT)
            && begun.elapsed() < patience
        {
            thread::sleep(POLL);
            answer = playback.call(order.function, &order.given);
        }
        // A player that has ended hears no more.
        let _ = answers.send((order.call, answer));
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
