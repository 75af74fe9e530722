//! Recovery of an adapter whose hardware has failed (sync §4.4; memory §3.5, §8.4, §8.6).
//!
//! ```text
//! hardware lost ─▶ ResetFromTimeout ─▶ what the ring had is over ─▶ the driver hears what is lost ─▶ RestartFromTimeout
//!      ─▶ paging process: context, tables, queue ─▶ devices in state Reset (2) ─▶ locks show what is left
//! ```
//! All of that is one turn, so nobody sees half of it. Every device that there was is lost, because nobody can say what its work
//! had done; processes create new ones, which find an adapter as after its start. Content in system memory outlives it,
//! for whoever opens a shared resource again.
//!
//! A driver that cannot be reset, or has to be too often, is the end of the adapter: it stops. When hardware counts as
//! lost is decided by whoever hears of it.

use std::collections::VecDeque;

use events::Event;
use kmt_calls::DeviceState;
use wddm_types::ProcessId;

use crate::adapter::Adapter;
use crate::driver_host::DriverHost;
use crate::machine::Cx;
use crate::scheduling::setup_bands;

/// How often an adapter is reset before it is given up. The defaults are those of the documents.
// spec: sync §4.4
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryPolicy {
    /// `TdrLimitCount`: so many resets within the time are survived, one more is not. 0: none is.
    pub limit_count: u32,
    /// `TdrLimitTime`, in nanoseconds.
    pub limit_time_ns: u64,
    /// `TdrDelay`, in nanoseconds: so long work may stand, and so long it may take to make room (`timeout`). `None`: nobody
    /// looks (`TdrLevel` 0).
    pub delay_ns: Option<u64>,
}

impl Default for RecoveryPolicy {
    fn default() -> RecoveryPolicy {
        RecoveryPolicy { limit_count: 5, limit_time_ns: 60_000_000_000, delay_ns: Some(2_000_000_000) }
    }
}

/// What an adapter remembers of its resets.
#[derive(Debug, Default)]
pub struct Recovery {
    /// When it was reset lately, oldest first.
    lately: VecDeque<u64>,
    count: u64,
    /// Why it is to be reset at the end of the turn.
    due: Option<String>,
}

impl Recovery {
    /// The hardware has failed, and whoever found that is in the middle of something.
    pub fn fall_due(&mut self, reason: String) {
        self.due.get_or_insert(reason);
    }

    /// Whether a reset is about to come: the hardware is given nothing more.
    pub fn is_due(&self) -> bool {
        self.due.is_some()
    }

    /// How often the adapter was reset: what the driver reported before a reset means nothing after it.
    pub fn count(&self) -> u64 {
        self.count
    }
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
        cx.emit(self.index, Event::AdapterReset { adapter: self.index.0, reason: reason.clone() });
        if let Err(why) = self.recover(cx, &reason) {
            // Whoever stores into what was on its way goes on, whatever becomes of the adapter.
            self.show_what_is_left(cx);
            self.stop(cx, format!("{reason}; {why}"));
        }
    }

    /// The driver resets its device, unless that was too often lately.
    ///
    /// # Errors
    /// Why not.
    // spec: sync §4.4
    fn reset_driver(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let policy = self.config.recovery;
        self.recovery.lately.retain(|at| cx.now_ns.saturating_sub(*at) < policy.limit_time_ns);
        if self.recovery.lately.len() >= policy.limit_count as usize {
            let seconds = policy.limit_time_ns / 1_000_000_000;
            return Err(format!("it was reset {} times within {seconds} seconds", self.recovery.lately.len()));
        }
        let mut host = DriverHost::new(&self.features, &mut self.pages);
        self.miniport.reset_from_timeout(&mut host).map_err(|status| format!("ResetFromTimeout failed: {status}"))?;
        self.recovery.lately.push_back(cx.now_ns);
        self.recovery.count += 1;
        Ok(())
    }

    /// Everything behind a reset.
    ///
    /// # Errors
    /// What failed; the adapter is to be stopped.
    fn recover(&mut self, cx: &mut Cx<'_>, reason: &str) -> Result<(), String> {
        self.displays_lost(cx);
        let over = self.abandon_works(cx);
        let windows = self.tell_lost_memory(cx);
        self.local_words_lost();
        let mut host = DriverHost::new(&self.features, &mut self.pages);
        self.miniport
            .restart_from_timeout(&mut host)
            .map_err(|status| format!("RestartFromTimeout failed: {status}"))?;
        setup_bands(&mut self.miniport, &self.config.scheduling)
            .map_err(|status| format!("SetupPriorityBands failed: {status}"))?;
        self.engines_have_power();
        windows.iter().for_each(|pages| self.unmap_window(pages));
        self.restart_ring(cx)?;
        self.end_works(cx, over);
        let devices: Vec<u64> = self.devices.iter().map(|(number, _)| number).collect();
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
        let known: Vec<u64> = self.paging_queues.iter().map(|(number, _)| number).collect();
        for number in known {
            self.paging_queues[number].awaits_turn = false;
            let (fence, value) = (self.paging_queues[number].fence, self.paging_queues[number].last_value);
            if self.current_value(fence) < value {
                self.signal_fence(cx, fence, value);
            }
        }
    }
}
