//! The machine's door: its entry points. `effect` holds the context of a turn and its effects.
//!
//! The machine and its calls (`call`) alone import adapters. What belongs to no adapter, or to several, has an owner that knows none; here
//! each is joined with them:
//!
//! | room | joins with adapters |
//! |---|---|
//! | `process`, `account` | processes, their quotas and accounts |
//! | `section`, `cross_adapter` | pages that come from an adapter and return there |
//! | `news` | an adapter's news, which it carries to the others and to the owners above |
//! | `adapters` | which of them a turn has touched: these settle before it ends |
//! | `event` | events that adapters have named |
//! | `scarcity` | calls that wait for memory of pending destructions |
//! | `invariant` | the rules between all of these, for tests |

mod account;
pub mod adapters;
pub mod cross_adapter;
mod event;
mod invariant;
mod news;
mod process;
mod scarcity;
pub mod section;

use std::collections::{BTreeMap, VecDeque};

use ddi::{Miniport, PowerState, StandardAllocation};
use kmt_calls::{Call, MappingId, ProcessIdentity, QueuedFence, Refusal};
use vidmm::PlanReport;
use wddm_types::{AdapterIndex, Luid, ProcessId, RawHandle, SegmentId};

use crate::adapter::description::AdapterDescription;
use crate::adapter::moves::Residence;
use crate::adapter::{Adapter, AdapterConfig, Names};
use crate::call::{CreatedSurface, Needs};
use crate::cpu_view;
use crate::cross_adapter::CrossFences;

use crate::effect::{Answer, Cx, Effect, Heard, Token};
use crate::global_handle::GlobalHandles;
use crate::keyed_mutex::KeyedMutexes;
use crate::machine::account::Accounts;
use crate::machine::adapters::Adapters;
use crate::nt_handle::NtHandles;
use crate::number::MappingChangeNumber;
use crate::object::Object;
use crate::process::Process;
use crate::scarcity::WaitingCalls;
use crate::scheduling_log::SchedulingLogs;
use crate::section::Sections;
use crate::start::StartError;
use crate::sync::UnreportedFence;
use crate::tally::AdapterCounters;

/// Paging works outstanding on an adapter above which calls that move memory wait. Policy: far above what a client that
/// waits for its work has ahead of the copy engine, far below what would fill the kernel's memory.
const PAGING_WORKS_MAX: u64 = 8192;

/// One graphics kernel.
pub struct Machine {
    pub(crate) adapters: Adapters,
    pub(crate) processes: BTreeMap<ProcessId, Process>,
    /// What the operating system says of processes, where the embedding program has said it. Figures show it; it decides nothing.
    pub(crate) identities: BTreeMap<ProcessId, ProcessIdentity>,
    pub(crate) nt_handles: NtHandles,
    pub(crate) globals: GlobalHandles,
    pub(crate) cross_fences: CrossFences,
    pub(crate) sections: Sections,
    pub(crate) accounts: Accounts,
    pub(crate) keyed_mutexes: KeyedMutexes,
    next_process: u32,
    next_token: u64,
    /// When the timer is armed for.
    armed: Option<u64>,
    /// Calls that wait until an adapter has less paging work outstanding, oldest first.
    blocked: VecDeque<(ProcessId, Token, Call)>,
    /// Calls that wait for memory of pending destructions, oldest first.
    pub(crate) lacking: WaitingCalls,
}

impl Machine {
    /// A kernel without adapters. NT handles are drawn under `handle_key`: no process can guess them if it is
    /// random, and every run has the same ones if it is not.
    pub fn new(handle_key: [u64; 2]) -> Machine {
        Machine {
            adapters: Adapters::default(),
            processes: BTreeMap::new(),
            identities: BTreeMap::new(),
            nt_handles: NtHandles::new(handle_key),
            globals: GlobalHandles::default(),
            cross_fences: CrossFences::default(),
            sections: Sections::default(),
            accounts: Accounts::default(),
            keyed_mutexes: KeyedMutexes::default(),
            next_process: 1,
            next_token: 1,
            armed: None,
            blocked: VecDeque::new(),
            lacking: WaitingCalls::default(),
        }
    }

    /// Starts an adapter under its driver (sync §3.1, memory §1).
    ///
    /// # Errors
    /// The rule that the driver broke; the adapter is not there then.
    pub fn start_adapter(
        &mut self,
        cx: &mut Cx<'_>,
        miniport: Box<dyn Miniport>,
        config: AdapterConfig,
    ) -> Result<AdapterIndex, StartError> {
        // CAST: adapters are counted in ones.
        let index = AdapterIndex(self.adapters.len() as u32);
        let adapter = Adapter::start(cx, index, miniport, config)?;
        self.adapters.push(adapter);
        self.introduce(cx, index);
        if self.drivers_left(cx) {
            self.after_turn(cx);
        }
        Ok(index)
    }

    /// Clears what a process or a name that has gone has left behind, without waiting for another call, and ends the turn.
    fn clear_behind(&mut self, cx: &mut Cx<'_>) {
        // Other adapters may lose the last reason to keep something, too.
        self.carry_news(cx);
        for adapter in self.adapters.iter_mut() {
            adapter.clear_behind(cx);
        }
        self.after_turn(cx);
    }

    /// An adapter loses power or gets it back (memory §1.10). Going down is answered when everything that its segments do
    /// not keep is saved and the device is off; coming back at once. A process that connects a doorbell brings it back, too.
    pub fn power(&mut self, cx: &mut Cx<'_>, adapter: AdapterIndex, state: PowerState) -> Answer {
        let token = Token(self.next_token);
        self.next_token += 1;
        let Some(adapter) = self.adapters.get_mut(adapter) else {
            return Answer::Done(Err(crate::refusal::invalid("there is no such adapter")));
        };
        let answer = adapter.power_down(cx, token, state);
        self.after_turn(cx);
        answer
    }

    /// Whether an adapter's device has power. Only the next turn can change that.
    pub fn has_power(&self, adapter: AdapterIndex) -> bool {
        self.adapters.get(adapter).is_some_and(Adapter::has_power)
    }

    /// PnP stops an adapter: answered when its memory is empty. Its devices are in state Stopped (4) then, and all that is
    /// left to their processes is to destroy what they have; behind the last of it the driver stops. The same hardware is started again
    /// with [`Machine::start_adapter`]: it is another adapter.
    pub fn stop_adapter(&mut self, cx: &mut Cx<'_>, adapter: AdapterIndex) -> Answer {
        let token = Token(self.next_token);
        self.next_token += 1;
        let Some(adapter) = self.adapters.get_mut(adapter) else {
            return Answer::Done(Err(crate::refusal::invalid("there is no such adapter")));
        };
        let answer = adapter.pnp_stop(cx, token);
        self.after_turn(cx);
        answer
    }

    /// A tool begins or ceases to trace the contexts that engines run where hardware schedules.
    // spec: sync §4.2
    pub fn trace_scheduling(&mut self, cx: &mut Cx<'_>, on: bool) {
        for adapter in self.adapters.iter_mut() {
            adapter.trace_scheduling(cx, on);
        }
        self.after_turn(cx);
    }

    /// A call from a process.
    pub fn call(&mut self, cx: &mut Cx<'_>, from: ProcessId, call: Call) -> Answer {
        let token = Token(self.next_token);
        self.next_token += 1;
        self.adapters.untouched().iter_mut().for_each(Adapter::called);
        // A process that asks faster than memory moves waits for memory, not for the kernel's own memory to run out.
        if Needs::of(&call).moves_memory && self.outstanding() > PAGING_WORKS_MAX {
            self.blocked.push_back((from, token, call));
            // The call may wait for a use of another process.
            self.arm_timer(cx);
            return Answer::Later(token);
        }
        let answer = crate::call::dispatch(self, cx, from, token, call);
        self.after_turn(cx);
        self.count_lacking(token);
        answer
    }

    /// Creates a surface of a display or a window for a device of a process: no call asks for it, because only the window system
    /// may. It is the process's like any other resource of its own, and others open it by its global share handle.
    ///
    /// # Errors
    /// The process has no such device; the kernel or the driver knows no such surface; the driver describes another one; memory is short.
    /// Nothing is left of it then.
    // spec: memory §2.7
    pub fn create_standard_allocation(
        &mut self,
        cx: &mut Cx<'_>,
        process: ProcessId,
        device: RawHandle,
        wanted: StandardAllocation,
    ) -> Result<CreatedSurface, Refusal> {
        let token = Token(self.next_token);
        self.next_token += 1;
        let result = crate::call::create_standard(self, cx, (process, token), device, wanted);
        self.after_turn(cx);
        result
    }

    /// A tool begins or ceases to trace native fences: the waits and signals of engines on queues that processes feed, with their times,
    /// as far as logs tell (sync §3.14).
    pub fn trace_fences(&mut self, cx: &mut Cx<'_>, on: bool) {
        for adapter in self.adapters.iter_mut() {
            adapter.trace_fences(cx, &Names(&self.processes), on);
        }
        self.after_turn(cx);
    }

    /// A tool switches further types of logs on or off: when submissions begin. They are told while it traces ([`Machine::trace_fences`]).
    pub fn set_verbose_logs(&mut self, cx: &mut Cx<'_>, on: bool) {
        for adapter in self.adapters.iter_mut() {
            adapter.set_verbose_logs(cx, on);
        }
        self.after_turn(cx);
    }

    /// While a tool traces, a process says which waits for native fences, and which signals of them, are in what it submits on a queue that
    /// it feeds. Names that mean nothing are ignored.
    pub fn fences_queued(&self, cx: &mut Cx<'_>, from: ProcessId, queue: RawHandle, queued: &[QueuedFence]) {
        let Some(process) = self.processes.get(&from) else { return };
        if let Some(Object::Queue(index, queue)) = process.handles.get(queue) {
            let adapter = &self.adapters[*index];
            queued.iter().for_each(|fence| adapter.fence_queued(cx, process, *queue, *fence));
        }
    }

    /// An adapter's interrupt line went up.
    pub fn interrupt_raised(&mut self, cx: &mut Cx<'_>, adapter: AdapterIndex) {
        if let Some(adapter) = self.adapters.get_mut(adapter) {
            adapter.interrupt_raised(cx, &Names(&self.processes));
        }
        self.after_turn(cx);
    }

    /// The outside has carried out what it was told of a mapping up to this change ([`Effect::Mapping`]).
    pub fn mapping_changed(&mut self, cx: &mut Cx<'_>, mapping: MappingId, number: MappingChangeNumber, heard: Heard) {
        if let Some(adapter) = self.adapters.get_mut(cpu_view::adapter_of_mapping(mapping)) {
            adapter.mapping_changed(cx, mapping, number, heard);
        }
        self.after_turn(cx);
    }

    /// The time that [`Effect::ArmTimer`] named has come. Calling it too early, or once too often, does no harm.
    pub fn timer(&mut self, cx: &mut Cx<'_>) {
        self.armed = None;
        let calls_wait = !self.blocked.is_empty();
        for adapter in self.adapters.iter_mut() {
            if adapter.looks_for_hangs(cx) {
                // The line may have gone up unheard.
                adapter.interrupt_raised(cx, &Names(&self.processes));
            }
            adapter.timer(cx, calls_wait);
        }
        self.keyed_mutexes.timer(cx);
        self.after_turn(cx);
    }

    /// In so many nanoseconds the kernel finds work that hangs, on whatever adapter; `None`: it looks for none.
    pub fn finds_hangs_within_ns(&self) -> Option<u64> {
        self.adapters.iter().filter_map(Adapter::finds_hangs_within_ns).max()
    }

    /// Works that adapters have not carried out, on the one that has most.
    fn outstanding(&self) -> u64 {
        self.adapters.iter().map(Adapter::outstanding_works).max().unwrap_or(0)
    }

    /// Ends a turn: what it has touched settles, what it has left behind is carried out, drivers' refusals are judged, and the timer is armed.
    pub(crate) fn after_turn(&mut self, cx: &mut Cx<'_>) {
        self.adapters.settle(cx);
        loop {
            self.go_on(cx);
            // What waits for an adapter that has stopped is to hear of it; logs that were lent last may have acted on an adapter.
            if !self.judge_refusals(cx) && !self.drivers_left(cx) && !self.adapters.settle(cx) {
                break;
            }
        }
        self.adapters.untouched().iter_mut().for_each(|adapter| adapter.revoke_returned(cx));
        self.set_events(cx);
        self.arm_timer(cx);
    }

    /// Reads logs, carries news from adapter to adapter, lets blocked calls go on.
    fn go_on(&mut self, cx: &mut Cx<'_>) {
        for adapter in self.adapters.untouched() {
            adapter.drain_logs(cx, &Names(&self.processes));
        }
        self.carry_news(cx);
        self.let_blocked_go_on(cx);
        self.retry_lacking(cx);
        for adapter in self.adapters.untouched() {
            adapter.lend_logs(cx, SchedulingLogs::drain);
        }
    }

    /// Judges what drivers have refused, after it has heard them. Whether there was anything to judge.
    fn judge_refusals(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut any = false;
        for adapter in self.adapters.untouched() {
            any |= adapter.judge_refusals(cx, &Names(&self.processes));
        }
        any
    }

    /// Makes calls that have waited until adapters have less paging work outstanding.
    fn let_blocked_go_on(&mut self, cx: &mut Cx<'_>) {
        while self.outstanding() <= PAGING_WORKS_MAX / 2
            && let Some((from, token, call)) = self.blocked.pop_front()
        {
            if let Answer::Done(result) = crate::call::dispatch(self, cx, from, token, call) {
                cx.effects.push(Effect::Answer { token, result });
            }
            self.carry_news(cx);
        }
    }

    /// Ends the watch over driver calls: none is under way when a turn is over. Whether a late one has stopped an adapter.
    fn drivers_left(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut stopped = false;
        for adapter in self.adapters.untouched() {
            if adapter.driver_left(cx) {
                adapter.settle(cx);
                adapter.forgive_late_driver(cx);
                stopped = true;
            }
        }
        stopped
    }

    /// Asks for the next call of the timer, when it is another one than before.
    fn arm_timer(&mut self, cx: &mut Cx<'_>) {
        let calls_wait = !self.blocked.is_empty();
        let of_adapters = self.adapters.iter().filter_map(|adapter| adapter.deadline_ns(calls_wait));
        let mut next = of_adapters.chain(self.keyed_mutexes.deadline_ns()).min();
        // Hardly any turn finds one.
        if !self.lacking.is_empty() {
            next = self.lacking.deadline_ns().into_iter().chain(next).min();
        }
        if next != self.armed {
            self.armed = next;
            cx.effects.push(Effect::ArmTimer { at_ns: next });
        }
    }

    /// An adapter's LUID.
    pub fn luid(&self, adapter: AdapterIndex) -> Option<Luid> {
        self.adapters.get(adapter).map(Adapter::luid)
    }

    /// Why an adapter was stopped, if it was: its driver or hardware broke the contract.
    pub fn stopped(&self, adapter: AdapterIndex) -> Option<String> {
        self.adapters.get(adapter)?.why_stopped().map(str::to_owned)
    }

    /// An adapter as it started.
    pub fn describe(&mut self, cx: &Cx<'_>, adapter: AdapterIndex) -> Option<AdapterDescription> {
        let adapter = self.adapters.untouched().get_mut(adapter.0 as usize)?;
        let description = adapter.description(cx);
        // A description changes nothing, so a late call of the driver has no consequence here.
        adapter.forgive_late_driver(cx);
        Some(description)
    }

    /// The resident pages of an adapter: the [`Event::Moved`]s told until now add up to them.
    pub fn residences(&self, adapter: AdapterIndex) -> Vec<Residence> {
        self.adapters.get(adapter).map(Adapter::residences).unwrap_or_default()
    }

    /// What the planner of evictions foresaw and what came of it, in each memory segment of an adapter whose evictions are planned.
    pub fn plans(&self, adapter: AdapterIndex) -> Vec<(SegmentId, PlanReport)> {
        self.adapters.get(adapter).map(Adapter::plans).unwrap_or_default()
    }

    /// Native fences of an adapter that have passed a waiter's value and of which its driver has told nothing, with CurrentValue and
    /// MonitoredValue. Asked when the hardware is at rest and every interrupt is told, so each is a broken promise of the driver.
    pub fn unreported_fences(&self, cx: &Cx<'_>, adapter: AdapterIndex) -> Vec<UnreportedFence> {
        self.adapters.get(adapter).map(|adapter| adapter.unreported_fences(cx)).unwrap_or_default()
    }

    /// An adapter's counters.
    pub fn counters(&self, adapter: AdapterIndex) -> Option<AdapterCounters> {
        self.adapters.get(adapter).map(Adapter::counters)
    }
}
