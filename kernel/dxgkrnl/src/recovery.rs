//! Recovery of an adapter whose hardware has failed (sync §4.4; memory §3.5, §8.4, §8.6).
//!
//! ```text
//! hardware lost ─▶ ResetFromTimeout ─▶ what the ring had is over ─▶ the driver hears what is lost ─▶ RestartFromTimeout
//!      ─▶ paging process: context, tables, queue ─▶ devices in state Reset (2) ─▶ locks show what is left
//! ```
//! All of that is one turn, so no process sees half of it. Every device that there was is lost, because the kernel cannot know what its
//! work had done; processes create new ones, which find an adapter as after its start. Content in system memory outlives it, for
//! processes that open a shared resource again.
//!
//! A driver that cannot be reset, or has to be too often, is the end of the adapter: it stops. The code that hears of a failure decides
//! that the hardware counts as lost.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use events::Event;
use kmt_calls::{DeviceState, Refusal};
use wddm_types::{NodeId, ProcessId};

use crate::adapter::Adapter;
use crate::driver::LateCall;
use crate::machine::Cx;
use crate::refusal::access_denied;
use crate::scheduling::setup_bands;

/// `TdrLevel` where the kernel looks: its answer to hung work. Level 2 (VGA) was never built.
// spec: sync §4.4
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnTimeout {
    /// 1: bug check 0x116, which is the end of the adapter, and of no other.
    Stop,
    /// 3: its engine is reset, else the adapter.
    #[default]
    Recover,
}

/// The policy for work that does not end, and for how often an adapter is reset before it is given up. The defaults are those
/// of the documents.
// spec: sync §4.4
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryPolicy {
    /// `TdrLimitCount`: so many resets within the time are survived, one more is not. 0: none is. A process survives one
    /// less of its engines' resets.
    pub limit_count: u32,
    /// `TdrLimitTime`, in nanoseconds.
    pub limit_time_ns: u64,
    /// `TdrDelay`, in nanoseconds: so long work may make no progress, and so long it may take to leave the engine (`timeout`). `None`:
    /// the kernel does not look (`TdrLevel` 0).
    pub delay_ns: Option<u64>,
    /// `TdrDdiDelay`, in nanoseconds: so long a call of the driver may take. One that takes longer is told of, and if it is part of a
    /// reset it is the end of the adapter.
    pub ddi_delay_ns: u64,
    /// `TdrLevel` otherwise.
    pub on_timeout: OnTimeout,
}

impl Default for RecoveryPolicy {
    fn default() -> RecoveryPolicy {
        RecoveryPolicy {
            limit_count: 5,
            limit_time_ns: 60_000_000_000,
            delay_ns: Some(2_000_000_000),
            ddi_delay_ns: 5_000_000_000,
            on_timeout: OnTimeout::default(),
        }
    }
}

/// An adapter's history of resets.
#[derive(Debug, Default)]
pub struct Recovery {
    /// When it was reset lately, oldest first.
    lately: VecDeque<u64>,
    count: u64,
    /// When engines were reset lately under a process, oldest first.
    engines: BTreeMap<ProcessId, VecDeque<u64>>,
    /// Processes that have had that too often.
    blocked: BTreeSet<ProcessId>,
    /// Why it is to be reset at the end of the turn.
    due: Option<String>,
}

impl Recovery {
    /// The hardware has failed in the middle of something: the reset falls due when that is over.
    pub fn fall_due(&mut self, reason: String) {
        self.due.get_or_insert(reason);
    }

    /// Whether a reset is about to come: the hardware is given nothing more.
    pub fn is_due(&self) -> bool {
        self.due.is_some()
    }

    /// How often the adapter was reset: reports of the driver from before a reset mean nothing after it.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether a process may not use the adapter any more.
    pub fn is_blocked(&self, process: ProcessId) -> bool {
        self.blocked.contains(&process)
    }

    /// A process has gone.
    pub fn forget(&mut self, process: ProcessId) {
        self.engines.remove(&process);
        self.blocked.remove(&process);
    }
}

/// Forgets what is longer ago than the time in which resets are counted.
fn keep_late(times: &mut VecDeque<u64>, now_ns: u64, limit_time_ns: u64) {
    times.retain(|at| now_ns.saturating_sub(*at) < limit_time_ns);
}

impl Adapter {
    /// The reset that has fallen due. Whether there was one.
    pub fn reset_if_due(&mut self, cx: &mut Cx<'_>) -> bool {
        let due = self.recovery.due.take();
        let is_due = due.is_some();
        if let Some(reason) = due {
            self.hardware_lost(cx, reason);
        }
        is_due
    }

    /// The hardware is gone. It is reset, or the adapter stops; either way the driver learns what is lost.
    // spec: memory §3.5, memory §5.8, memory §8.4
    pub fn hardware_lost(&mut self, cx: &mut Cx<'_>, reason: String) {
        if self.stopped.is_some() {
            return;
        }
        if let Err(why) = self.reset_driver(cx) {
            self.stop(cx, format!("{reason}; {why}"));
            self.tell_lost_memory(cx);
            return;
        }
        self.scheduling_logs_lost(cx);
        self.counters.adapter_resets += 1;
        cx.emit(self.index, Event::AdapterReset { adapter: self.index.0, reason: reason.clone() });
        if let Err(why) = self.recover(cx, &reason) {
            // Threads that store into content on its way go on, whatever becomes of the adapter.
            self.show_what_is_left(cx);
            self.stop(cx, format!("{reason}; {why}"));
        }
    }

    /// Work is hung. Where that is not to be recovered from, the adapter stops: bug check 0x116. Whether it goes on.
    // spec: sync §4.4
    pub fn may_recover(&mut self, cx: &mut Cx<'_>, node: NodeId) -> bool {
        let recovers = self.config.recovery.on_timeout == OnTimeout::Recover;
        if !recovers {
            self.stop(cx, format!("work on node {} did not end", node.0));
        }
        recovers
    }

    /// The turn is over, or a reset begins, and the driver has answered. A call that took too long is told; while an engine is to be reset,
    /// which it has kept waiting, it is the end of the adapter. Whether it is.
    // spec: sync §4.4
    pub fn driver_left(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(LateCall { call, took_ns }) = self.driver.leaves() else { return false };
        cx.emit(self.index, Event::DriverCallLate { adapter: self.index.0, call: call.to_owned(), took_ns });
        let fatal = self.vidsch.timeouts.is_any_preparing() && self.stopped.is_none();
        if fatal {
            let why = self.too_late(call, took_ns);
            self.stop(cx, why);
        }
        fatal
    }

    /// A call that is part of a reset has come back.
    ///
    /// # Errors
    /// It took too long: bug check 0x116, which is the end of the adapter, and of no other.
    // spec: sync §4.4
    pub fn came_back(&mut self, cx: &mut Cx<'_>, call: &str) -> Result<(), String> {
        let Some(LateCall { took_ns, .. }) = self.driver.leaves() else { return Ok(()) };
        cx.emit(self.index, Event::DriverCallLate { adapter: self.index.0, call: call.to_owned(), took_ns });
        Err(self.too_late(call, took_ns))
    }

    fn too_late(&self, call: &str, took_ns: u64) -> String {
        let (took, may) = (took_ns / 1_000_000, self.config.recovery.ddi_delay_ns / 1_000_000);
        format!("the driver was in {call} for {took} ms in a reset, and {may} ms are allowed")
    }

    /// An engine was reset under a process. That does not count as a reset of the adapter; but a process that brings it about too often
    /// is kept away from the adapter from now on: bug check 0x142, of the process.
    // spec: sync §4.4
    pub fn engine_timed_out(&mut self, cx: &mut Cx<'_>, process: ProcessId) {
        let policy = self.config.recovery;
        let times = self.recovery.engines.entry(process).or_default();
        keep_late(times, cx.now_ns, policy.limit_time_ns);
        times.push_back(cx.now_ns);
        if times.len() <= policy.limit_count.saturating_sub(1) as usize || !self.recovery.blocked.insert(process) {
            return;
        }
        cx.emit(self.index, Event::ProcessBlocked { adapter: self.index.0, process: process.0 });
        let devices: Vec<_> =
            self.devices.iter().filter(|(_, device)| device.process == process).map(|(number, _)| number).collect();
        for device in devices {
            self.fail_device(cx, device, DeviceState::Hung, "its process hangs the adapter too often".into());
        }
    }

    /// Refuses what a process asks for that hangs the adapter too often.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn unblocked(&self, process: ProcessId) -> Result<(), Refusal> {
        match self.recovery.is_blocked(process) {
            true => Err(access_denied("the process has hung the adapter too often, and may not use it any more")),
            false => Ok(()),
        }
    }

    /// The driver resets its device, unless that was too often lately.
    ///
    /// # Errors
    /// The reason why it cannot.
    // spec: sync §4.4
    fn reset_driver(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let policy = self.config.recovery;
        keep_late(&mut self.recovery.lately, cx.now_ns, policy.limit_time_ns);
        if self.recovery.lately.len() >= policy.limit_count as usize {
            let seconds = policy.limit_time_ns / 1_000_000_000;
            return Err(format!("it was reset {} times within {seconds} seconds", self.recovery.lately.len()));
        }
        self.driver_left(cx);
        let (driver, mut host) = self.driver.with_host();
        let reset = driver.reset_from_timeout(&mut host);
        self.came_back(cx, "ResetFromTimeout")?;
        reset.map_err(|status| format!("ResetFromTimeout failed: {status}"))?;
        self.recovery.lately.push_back(cx.now_ns);
        self.recovery.count += 1;
        Ok(())
    }

    /// Everything behind a reset.
    ///
    /// # Errors
    /// The step that failed; the adapter is to be stopped.
    fn recover(&mut self, cx: &mut Cx<'_>, reason: &str) -> Result<(), String> {
        self.displays_lost(cx);
        let over = self.abandon_works(cx);
        let windows = self.tell_lost_memory(cx);
        self.local_words_lost();
        self.driver_left(cx);
        let (driver, mut host) = self.driver.with_host();
        let restarted = driver.restart_from_timeout(&mut host);
        self.came_back(cx, "RestartFromTimeout")?;
        restarted.map_err(|status| format!("RestartFromTimeout failed: {status}"))?;
        setup_bands(&mut self.driver, &self.config.scheduling)
            .map_err(|status| format!("SetupPriorityBands failed: {status}"))?;
        self.vidsch.engine_power.all_have_power();
        windows.iter().for_each(|pages| self.unmap_window(pages));
        self.vidsch.timeouts.adapter_was_reset();
        self.ring_unwatched(cx);
        self.restart_ring(cx)?;
        self.begin_scheduling_logs(cx);
        self.end_works(cx, over);
        let devices: Vec<_> = self.devices.iter().map(|(number, _)| number).collect();
        for device in devices {
            self.fail_device(cx, device, DeviceState::Reset, format!("the adapter was reset: {reason}"));
        }
        self.packets_lost();
        self.satisfy_paging_queues(cx);
        self.tell_slept_through(cx);
        self.show_what_is_left(cx);
        Ok(())
    }

    /// The driver learns what is lost, by operations that the CPU carries out. Whatever it answers, it is. Answers with window
    /// pages that show nothing any more.
    // spec: memory §3.5, memory §8.4
    fn tell_lost_memory(&mut self, cx: &mut Cx<'_>) -> Vec<vidmm::WindowPages> {
        let work = self.vidmm.lost_memory();
        self.emit_moves(cx, self.ring.queued(), ProcessId::SYSTEM, &work.moves);
        for operation in work.operations {
            let _ = self.execute_now(vec![operation]);
        }
        self.release_ranges(cx, &work.ranges);
        self.vidmm.ranges_released(&work.ranges);
        let seen: Vec<_> = work.rotations.into_iter().filter_map(|turn| turn.unmap).collect();
        self.ring.windows_left(seen);
        work.unmap
    }

    /// Paging queues promise nothing that could still come.
    fn satisfy_paging_queues(&mut self, cx: &mut Cx<'_>) {
        self.forget_pending_remap_signals();
        let known: Vec<_> = self.paging_queues.iter().map(|(number, _)| number).collect();
        for number in known {
            self.paging_queues[number].awaits_turn = false;
            let (fence, value) = (self.paging_queues[number].fence, self.paging_queues[number].last_value);
            if self.current_value(fence) < value {
                self.signal_fence(cx, fence, value);
            }
        }
    }
}
