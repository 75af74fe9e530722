//! What stands under the host's lock: the machine, its time, and what it has said; one turn of the machine with its effects, and what
//! happens when it does not come to its end.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dxgkrnl::{Cx, Effect, Machine, Token};
use events::Tracer;
use kmt_calls::{Notification, Refusal, Reply};
use wddm_types::ProcessId;

use crate::cpu_mapping::Views;
use crate::host::held::Waiting;
use crate::line::Line;
use crate::time::Clock;

/// Everything under the lock.
pub(super) struct State {
    pub machine: Machine,
    pub tracer: Box<dyn Tracer + Send>,
    pub clock: Clock,
    pub answers: BTreeMap<Token, Result<Reply, Refusal>>,
    /// What processes have been told and not taken yet.
    pub notifications: BTreeMap<ProcessId, VecDeque<Notification>>,
    /// When the kernel wants its timer.
    pub timer_ns: Option<u64>,
    pub line: Arc<Line>,
    pub views: Views,
    /// Which threads wait for what.
    pub waiting: Waiting,
    /// The kernel has failed: what the host says of it.
    pub failed: Arc<AtomicBool>,
}

impl State {
    /// A machine that has said nothing yet.
    pub fn new(machine: Machine, tracer: Box<dyn Tracer + Send>, clock: Clock, line: Arc<Line>, views: Views) -> State {
        State {
            machine,
            tracer,
            clock,
            answers: BTreeMap::new(),
            notifications: BTreeMap::new(),
            timer_ns: None,
            line,
            views,
            waiting: Waiting::default(),
            failed: Arc::default(),
        }
    }

    /// One turn of the machine: lends it time, tracer and effects, then performs the effects.
    pub fn turn<R>(&mut self, turn: impl FnOnce(&mut Machine, &mut Cx<'_>) -> R) -> R {
        let turning = Turning { state: self, unwinding: std::thread::panicking() };
        turning.state.perform(turn)
    }

    /// The kernel has failed: whoever holds the lock panics, and there will be no answer any more. Threads of this program that wait for
    /// one are told that, as soon as they get the lock; processes elsewhere are ended, or one whose stores wait for a move that is never done
    /// would wait for ever. Whoever hears of it finds that it is so: the lock is poisoned only afterwards.
    pub fn fail(&mut self) {
        self.failed.store(true, Ordering::Release);
        for process in self.views.all_elsewhere() {
            process.lost("the kernel has failed");
        }
        self.waiting.wake_all();
    }

    fn perform<R>(&mut self, turn: impl FnOnce(&mut Machine, &mut Cx<'_>) -> R) -> R {
        let mut effects = Vec::new();
        let mut cx = Cx { now_ns: self.clock.now_ns(), effects: &mut effects, tracer: self.tracer.as_mut() };
        let result = turn(&mut self.machine, &mut cx);
        let mut effects = VecDeque::from(effects);
        while let Some(effect) = effects.pop_front() {
            match effect {
                Effect::Mapping { mapping, number, change } => {
                    if let Some((number, heard)) = self.views.change(mapping, number, change) {
                        let mut more = Vec::new();
                        let mut cx =
                            Cx { now_ns: self.clock.now_ns(), effects: &mut more, tracer: self.tracer.as_mut() };
                        self.machine.mapping_changed(&mut cx, mapping, number, heard);
                        effects.extend(more);
                    }
                }
                Effect::Answer { token, result } => {
                    self.answers.insert(token, result);
                    self.waiting.answered(token);
                }
                Effect::Notify { process, notification } => {
                    if let Some(elsewhere) = self.views.elsewhere(process) {
                        elsewhere.notify(notification);
                        continue;
                    }
                    kmt_link::tell(self.notifications.entry(process).or_default(), notification);
                    self.waiting.told(process);
                }
                Effect::ArmTimer { at_ns } => {
                    self.timer_ns = at_ns;
                    self.line.rearm();
                }
            }
        }
        result
    }
}

/// A turn that may not come to its end.
struct Turning<'a> {
    state: &'a mut State,
    /// Whoever makes it falls already, by a defect that is not the kernel's: what it takes down on the way is asked of the kernel as ever.
    unwinding: bool,
}

impl Drop for Turning<'_> {
    fn drop(&mut self) {
        if !self.unwinding && std::thread::panicking() {
            self.state.fail();
        }
    }
}
