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
//! that the hardware counts as lost. How often it was reset, and when that is too often, is for `life` to say.

use events::Event;
use kmt_calls::{DeviceState, Refusal};
use wddm_types::{NodeId, ProcessId};

use crate::adapter::Adapter;
use crate::driver::LateCall;
use crate::effect::Cx;
use crate::life::OnTimeout;
use crate::refusal::access_denied;
use crate::scheduling::setup_bands;
use crate::scheduling_log::SchedulingLogs;

impl Adapter {
    /// The reset that has fallen due. Whether there was one.
    pub fn reset_if_due(&mut self, cx: &mut Cx<'_>) -> bool {
        let due = self.life.take_due_reset();
        let is_due = due.is_some();
        if let Some(reason) = due {
            self.hardware_lost(cx, reason);
        }
        is_due
    }

    /// The hardware is gone. It is reset, or the adapter stops; either way the driver learns what is lost.
    // spec: memory §3.5, memory §5.8, memory §8.4
    pub fn hardware_lost(&mut self, cx: &mut Cx<'_>, reason: String) {
        if self.life.has_stopped() {
            return;
        }
        if let Err(why) = self.reset_driver(cx) {
            self.stop(cx, format!("{reason}; {why}"));
            self.tell_lost_memory(cx);
            return;
        }
        self.lend_logs(cx, SchedulingLogs::lose);
        self.tally.adapter_reset();
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

    /// The driver has answered, and how long it took does not matter.
    pub fn forgive_late_driver(&mut self, cx: &Cx<'_>) {
        let _ = self.driver.leaves(cx);
    }

    /// The turn is over, or a reset begins, and the driver has answered. A call that took too long is told; while an engine is to be reset,
    /// which it has kept waiting, it is the end of the adapter. Whether it is.
    // spec: sync §4.4
    pub fn driver_left(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(LateCall { call, took_ns }) = self.driver.leaves(cx) else { return false };
        cx.emit(self.index, Event::DriverCallLate { adapter: self.index.0, call: call.to_owned(), took_ns });
        let fatal = self.vidsch.timeouts.is_any_preparing() && !self.life.has_stopped();
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
        let Some(LateCall { took_ns, .. }) = self.driver.leaves(cx) else { return Ok(()) };
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
        if !self.life.engine_was_reset(cx.now_ns, process, policy) {
            return;
        }
        cx.emit(self.index, Event::ProcessBlocked { adapter: self.index.0, process: process.0 });
        let devices: Vec<_> = self.owners.devices_of(process).collect();
        for device in devices {
            self.fail_device(cx, device, DeviceState::Hung, "its process hangs the adapter too often".into());
        }
    }

    /// Refuses what a process asks for that hangs the adapter too often.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn unblocked(&self, process: ProcessId) -> Result<(), Refusal> {
        match self.life.is_blocked(process) {
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
        self.life.may_reset(cx.now_ns, self.config.recovery)?;
        self.driver_left(cx);
        let (mut driver, mut host) = self.driver.with_host(cx);
        let reset = driver.reset_from_timeout(&mut host);
        self.came_back(cx, "ResetFromTimeout")?;
        reset.map_err(|status| format!("ResetFromTimeout failed: {status}"))?;
        self.life.was_reset(cx.now_ns);
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
        self.sync.local_words_lost();
        self.driver_left(cx);
        let (mut driver, mut host) = self.driver.with_host(cx);
        let restarted = driver.restart_from_timeout(&mut host);
        self.came_back(cx, "RestartFromTimeout")?;
        restarted.map_err(|status| format!("RestartFromTimeout failed: {status}"))?;
        setup_bands(&mut self.driver.call(cx), &self.config.scheduling)
            .map_err(|status| format!("SetupPriorityBands failed: {status}"))?;
        self.vidsch.engine_power.all_have_power();
        windows.iter().for_each(|pages| self.unmap_window(cx, pages));
        self.vidsch.timeouts.adapter_was_reset();
        self.ring_unwatched(cx);
        self.restart_ring(cx)?;
        self.begin_scheduling_logs(cx);
        self.end_works(cx, over);
        let devices: Vec<_> = self.owners.devices().map(|(number, _)| number).collect();
        for device in devices {
            self.fail_device(cx, device, DeviceState::Reset, format!("the adapter was reset: {reason}"));
        }
        debug_assert!(
            self.owners.devices().all(|(number, _)| !self.owners.is_active(number)),
            "each device that there was is lost with the hardware"
        );
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
        let mut work = self.vidmm.lost_memory();
        work.accept();
        self.emit_moves(cx, self.memory.ring.last_work(), ProcessId::SYSTEM, &work.moves);
        for operation in work.operations {
            let _ = self.execute_now(cx, vec![operation]);
        }
        self.release_ranges(cx, &work.ranges);
        self.vidmm.ranges_released(&work.ranges);
        let seen: Vec<_> = work.rotations.into_iter().filter_map(|turn| turn.unmap).collect();
        self.memory.ring.windows_left(seen);
        work.unmap
    }
}
