//! The state under the host's lock: the machine, its time, and its answers; one turn of the machine with its effects, and the failure of
//! the kernel when a turn panics.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dxgkrnl::{Cx, Effect, Machine, MappingChangeNumber, ObjectNumber, Platform, Token};
use events::Tracer;
use kmt_calls::{Notification, Refusal, Reply};
use shared_words::Memory;
use wddm_types::ProcessId;

use crate::cpu_mapping::Views;
use crate::host::kernel_lock::Waiting;
use crate::line::Line;
use crate::time::Clock;

/// Everything under the lock.
pub(super) struct HostState {
    pub machine: Machine,
    /// System memory, which the kernel is lent with each turn.
    memory: Arc<Memory>,
    pub tracer: Box<dyn Tracer + Send>,
    pub clock: Clock,
    /// The objects that the kernel is lent with each turn, by adapter.
    pub platforms: Vec<Box<dyn Platform>>,
    pub answers: BTreeMap<Token, LateAnswer>,
    /// Calls that were taken, and answers that came later than their calls: the kernel's order of calls.
    order: u64,
    /// Notifications that processes have not taken yet.
    pub notifications: BTreeMap<ProcessId, VecDeque<Notification>>,
    /// When the kernel wants its timer.
    pub timer_ns: Option<u64>,
    pub line: Arc<Line>,
    pub views: Views,
    /// The waiting threads.
    pub waiting: Waiting,
    /// The kernel has failed.
    pub failed: Arc<AtomicBool>,
}

impl HostState {
    /// A machine that has said nothing yet.
    pub fn new(
        machine: Machine,
        memory: Arc<Memory>,
        tracer: Box<dyn Tracer + Send>,
        clock: Clock,
        line: Arc<Line>,
        views: Views,
    ) -> HostState {
        HostState {
            machine,
            memory,
            tracer,
            clock,
            platforms: Vec::new(),
            answers: BTreeMap::new(),
            order: 0,
            notifications: BTreeMap::new(),
            timer_ns: None,
            line,
            views,
            waiting: Waiting::default(),
            failed: Arc::default(),
        }
    }

    /// The next number of the kernel's order: a call is taken, or one that waited is answered.
    pub fn next_in_order(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    /// One turn of the machine: lends it time, tracer and effects, then performs the effects.
    pub fn turn<R>(&mut self, turn: impl FnOnce(&mut Machine, &mut Cx<'_>) -> R) -> R {
        let turning = Turning { state: self, unwinding: std::thread::panicking() };
        turning.state.perform(turn)
    }

    /// The kernel has failed: the thread that holds the lock panics, and no answer will come any more. This wakes the waiting threads of this
    /// program, which see `failed` as soon as they get the lock, and ends processes elsewhere: else a process whose stores wait for an
    /// unfinished move would wait for ever. `failed` is set before the lock is poisoned.
    pub fn fail(&mut self) {
        self.failed.store(true, Ordering::Release);
        for process in self.views.all_elsewhere() {
            process.lost("the kernel has failed");
        }
        self.waiting.wake_all();
    }

    fn perform<R>(&mut self, turn: impl FnOnce(&mut Machine, &mut Cx<'_>) -> R) -> R {
        let mut effects = Vec::new();
        let mut cx = Cx {
            now_ns: self.clock.now_ns(),
            effects: &mut effects,
            tracer: self.tracer.as_mut(),
            memory: &self.memory,
            platforms: &self.platforms,
        };
        let result = turn(&mut self.machine, &mut cx);
        let mut effects = VecDeque::from(effects);
        while let Some(effect) = effects.pop_front() {
            match effect {
                Effect::Mapping { mapping, number, change } => {
                    if let Some((number, heard)) = self.views.change(mapping, number.raw(), change) {
                        let mut more = Vec::new();
                        let mut cx = Cx {
                            now_ns: self.clock.now_ns(),
                            effects: &mut more,
                            tracer: self.tracer.as_mut(),
                            memory: &self.memory,
                            platforms: &self.platforms,
                        };
                        self.machine.mapping_changed(&mut cx, mapping, MappingChangeNumber::from_raw(number), heard);
                        effects.extend(more);
                    }
                }
                Effect::Answer { token, result } => {
                    let order = self.next_in_order();
                    self.answers.insert(token, LateAnswer { result, order });
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

/// An answer that came later than its call, until its thread takes it.
pub(super) struct LateAnswer {
    pub result: Result<Reply, Refusal>,
    /// Its number in the kernel's order.
    pub order: u64,
}

/// A turn that may not come to its end.
struct Turning<'a> {
    state: &'a mut HostState,
    /// The thread was unwinding before the turn, by a defect that is not the kernel's: the calls of its destructors do not fail the kernel.
    unwinding: bool,
}

impl Drop for Turning<'_> {
    fn drop(&mut self) {
        if !self.unwinding && std::thread::panicking() {
            self.state.fail();
        }
    }
}
