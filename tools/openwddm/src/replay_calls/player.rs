//! Makes the calls of a recording in the order in which its kernel took them. Each recorded thread's calls are made on a thread of their own.
//!
//! | in the recording, the call | the next one is made when |
//! |---|---|
//! | was answered in its turn | it has returned |
//! | was taken, and answered later | the kernel has taken it; calls that were taken behind its answer wait until it has returned |
//! | has no place in the kernel's order | it has returned, or a part of the patience is over ([`GRACE`]): it may wait for a call of another thread |
//!
//! So a thread that has the machine for itself runs no further ahead of the others than it did when it was recorded.
//!
//! Before a call is made, the memory that its line has is put back (`memory`). A submission is made only where the recording has its commands, or
//! where they are skipped (`skip`): what comes behind one without would be no finding about the kernel.

use std::cell::Cell;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use d3dkmt_c::{PlayError, Playback, Played, Value};
use kmt_calls::Call;
use kmt_link::{CallOrder, Link, Routed};
use wddm_types::NtStatus;

use super::judgement::{Gap, commands_lack, is_same, without_time};
use super::memory::{Desk, Misfit, Record};
use super::names::Names;
use super::recording::{RecordedCall, Recording};
use super::skip::Skip;
use crate::error::RunError;

/// A call without a place in the kernel's order that has not returned for this part of the patience may wait for a call of another thread, which
/// is then made.
const GRACE: u32 = 100;
/// How far ahead of such a call others are made.
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
    /// At this call the content of memory is another one.
    Content { call: usize, problem: String },
    /// This call submits commands, which the recording does not have, for this reason.
    NoCommands { call: usize, reason: String },
}

/// A call for a thread: its number, the function, its arguments, and whether it is made until an event is set.
struct Order {
    call: usize,
    function: &'static str,
    given: Value,
    until_set: bool,
}

/// What a thread tells of its call.
enum News {
    /// The kernel has taken it, and answers later.
    Taken(usize),
    /// It has returned.
    Returned(usize, Result<Played, PlayError>),
}

/// A call that has not returned.
struct Made {
    call: usize,
    since: Instant,
    taken: bool,
}

thread_local! {
    /// The call that this thread makes.
    static CALL: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Makes the calls until one has another status; `skips`: engines execute none of its commands.
///
/// # Errors
/// [`RunError::Kernel`] when a mapped argument is none: a fault of this program. [`RunError::File`] when a line has memory that does not fit the replay.
pub fn play(
    (recording, path): (&Recording, &Path),
    link: Arc<dyn Link>,
    patience: Duration,
    skips: bool,
) -> Result<Outcome, RunError> {
    let (tell, told) = channel();
    let tells = tell.clone();
    let desk = Arc::new(Desk::default());
    let (behind, asked, skip) = (Arc::clone(&link), Arc::clone(&desk), skips.then(|| Skip::at(Arc::clone(&link))));
    let routed = Routed::new(link, move |link: &(dyn Link + 'static), call: Call| {
        let taken = || {
            // A player that has ended hears no more.
            let _ = CALL.get().map(|call| tells.send(News::Taken(call)));
        };
        let (locks, makes) = (Desk::asks_for(&call), Skip::makes(&call));
        let call = asked.outgoing(call);
        let call = match &skip {
            Some(skip) => skip.outgoing(call)?,
            None => call,
        };
        let answer = link.call_in_order(call, &taken).0;
        if let Ok(reply) = &answer {
            asked.hear(locks, reply);
            skip.iter().for_each(|skip| skip.hear(makes.as_ref(), reply));
        }
        answer
    });
    let mut player = Player {
        recording,
        path,
        skips,
        link: behind,
        desk,
        gap: None,
        playback: Arc::new(Playback::over(Arc::new(routed))),
        names: Names::default(),
        threads: HashMap::new(),
        waiting: HashMap::new(),
        tell,
        told,
        patience,
        outcome: Outcome { equal: 0, refused: 0, polls: 0, ended: Ended::Equal },
    };
    player.play()?;
    Ok(player.outcome)
}

struct Player<'recording> {
    recording: &'recording Recording,
    path: &'recording Path,
    skips: bool,
    /// The kernel, past the player's own route.
    link: Arc<dyn Link>,
    desk: Arc<Desk>,
    gap: Option<Gap>,
    playback: Arc<Playback>,
    names: Names,
    threads: HashMap<&'recording str, Sender<Order>>,
    /// The calls that have not returned, by their threads.
    waiting: HashMap<&'recording str, Made>,
    tell: Sender<News>,
    told: Receiver<News>,
    patience: Duration,
    outcome: Outcome,
}

impl<'recording> Player<'recording> {
    fn play(&mut self) -> Result<(), RunError> {
        let looks = |call: &RecordedCall| call.function == LOOK && call.status == NtStatus::TIMEOUT;
        let recording = self.recording;
        let mut left: Vec<usize> = (0..recording.calls.len()).rev().collect();
        left.retain(|nth| !looks(&recording.calls[*nth]));
        self.outcome.polls = recording.calls.len() - left.len();
        while self.is_under_way() && !(left.is_empty() && self.waiting.is_empty()) {
            match left.iter().rev().take(self.ahead_max()).position(|nth| self.may_be_made(*nth)) {
                Some(ahead) => {
                    let nth = left.remove(left.len() - 1 - ahead);
                    if self.has_memory(nth)? {
                        self.make(nth, &recording.calls[nth])?;
                        self.settle(nth)?;
                    }
                }
                None => self.hear_any()?,
            }
        }
        Ok(())
    }

    /// How many of the calls that are left are looked at: the next one, unless a call may wait for one that stands behind.
    fn ahead_max(&self) -> usize {
        let guesses = self.waiting.values().any(|made| self.recording.calls[made.call].order.is_none());
        if guesses { AHEAD_MAX } else { 1 }
    }

    /// Its thread waits for no call, and each call that was answered before it was taken has returned.
    fn may_be_made(&self, nth: usize) -> bool {
        let call = &self.recording.calls[nth];
        let was_answered = |made: &Made| {
            let before = self.recording.calls[made.call].order.zip(call.order);
            before.is_some_and(|(before, order)| before.answered < order.taken)
        };
        !self.waiting.contains_key(&*call.thread) && !self.waiting.values().any(was_answered)
    }

    /// Hears until the next call may be made after this one.
    fn settle(&mut self, nth: usize) -> Result<(), RunError> {
        let call = &self.recording.calls[nth];
        let most = if call.order.is_some() { self.patience } else { self.patience / GRACE };
        let begun = Instant::now();
        while self.is_under_way()
            && let Some(made) = self.waiting.get(&*call.thread)
            && !(made.taken && call.order.is_some_and(CallOrder::waited))
        {
            match self.told.recv_timeout(most.saturating_sub(begun.elapsed())) {
                Ok(news) => self.hear(news)?,
                Err(_) if call.order.is_none() => return Ok(()),
                Err(_) => self.outcome.ended = Ended::Waits { call: nth },
            }
        }
        Ok(())
    }

    /// No call may be made: hears one thing.
    fn hear_any(&mut self) -> Result<(), RunError> {
        match self.told.recv_timeout(self.patience) {
            Ok(news) => self.hear(news),
            Err(_) => {
                let oldest = self.waiting.values().min_by_key(|made| made.since);
                // PANIC: calls are left, and only one that waits keeps the next from being made.
                let call = oldest.expect("a call waits").call;
                self.outcome.ended = Ended::Waits { call };
                Ok(())
            }
        }
    }

    fn is_under_way(&self) -> bool {
        matches!(self.outcome.ended, Ended::Equal)
    }

    /// Puts back what the line of a call has of memory. False: the replay has ended, for the engines would read something else.
    fn has_memory(&mut self, nth: usize) -> Result<bool, RunError> {
        let call = &self.recording.calls[nth];
        for record in &call.memory {
            if let Record::LeftOut { bytes } = record {
                self.gap.get_or_insert(Gap { line: call.line, bytes: *bytes });
            }
            match self.desk.put_back(&*self.link, &self.names, record, !self.skips) {
                Ok(()) => {}
                Err(Misfit::Content(problem)) => self.outcome.ended = Ended::Content { call: nth, problem },
                Err(Misfit::Record(problem)) => {
                    return Err(RunError::File {
                        role: "recording".to_owned(),
                        path: self.path.to_path_buf(),
                        problem: format!("line {}: {}: {problem}", call.line, call.function),
                        remedy: "replay it at the adapters that it was recorded at, or record it anew".to_owned(),
                    });
                }
            }
        }
        if let Some(reason) = commands_lack(self.recording, call, self.skips, (self.gap, self.names.moved())) {
            self.outcome.ended = Ended::NoCommands { call: nth, reason };
        }
        Ok(self.is_under_way())
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
                false => without_time(call, self.names.mapped(&call.given)),
            },
            until_set: call.function == LOOK,
        };
        let orders = self.threads.entry(&call.thread).or_insert_with(|| {
            let (orders, ordered) = channel();
            let (playback, tell, patience) = (Arc::clone(&self.playback), self.tell.clone(), self.patience);
            thread::spawn(move || carry_out(&playback, &ordered, &tell, patience));
            orders
        });
        self.waiting.insert(&call.thread, Made { call: nth, since: Instant::now(), taken: false });
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

    fn hear(&mut self, news: News) -> Result<(), RunError> {
        match news {
            News::Returned(nth, answer) => self.judge(nth, answer),
            News::Taken(nth) => {
                let made = self.waiting.get_mut(&*self.recording.calls[nth].thread);
                // A thread tells its news in their order: this call has not returned.
                made.expect("it waits").taken = true;
                Ok(())
            }
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

/// Arguments that the recording's check has found good, and that are none.
fn unplayable(call: &RecordedCall, error: &PlayError) -> RunError {
    RunError::Kernel {
        problem: format!("line {}: {}: {error}", call.line, call.function),
        remedy: "report it with the recording".to_owned(),
    }
}

/// A thread: makes its calls one after the other. A look at an event that the recording found set is made until it is set here.
fn carry_out(playback: &Playback, ordered: &Receiver<Order>, tell: &Sender<News>, patience: Duration) {
    for order in ordered {
        CALL.set(Some(order.call));
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
        let _ = tell.send(News::Returned(order.call, answer));
    }
}
