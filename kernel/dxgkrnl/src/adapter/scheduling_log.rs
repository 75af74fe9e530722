//! The scheduling logs at work (`scheduling_log`): their memory, and the names of contexts in them.

use ddi::KmdContext;
use wddm_types::ProcessId;

use super::Adapter;
use crate::effect::Cx;
use crate::scheduling_log::{Lent, LogPages, Logged, NODE_PAGES, SchedulingLogs};

impl Adapter {
    /// A tool begins or ceases to trace the contexts that engines run where hardware schedules.
    // spec: sync §4.2
    pub fn trace_scheduling(&mut self, cx: &mut Cx<'_>, on: bool) {
        if !self.scheduling_logs.want(on) {
            return;
        }
        match on {
            true => self.begin_scheduling_logs(cx),
            false => {
                self.lend_logs(cx, SchedulingLogs::take);
                self.scheduling_logs.end().into_iter().for_each(|pages| self.free_scheduling_log(pages));
            }
        }
        self.calibrate_clocks(cx);
    }

    /// Asks the logs for something.
    pub fn lend_logs<T>(
        &mut self,
        cx: &mut Cx<'_>,
        ask: impl FnOnce(&mut SchedulingLogs, &mut Lent<'_, '_>) -> T,
    ) -> T {
        let (queues, owners, ring) = (&self.queues, &self.owners, &self.memory.ring);
        let whose = |kmd: KmdContext| match queues.contexts().find(|(_, context)| context.kmd == kmd) {
            Some((number, context)) => {
                let queue = context.queues.first().copied().filter(|_| context.queues.len() == 1);
                Some(Logged { context: Some(number), process: owners.process_of(context.device), queue })
            }
            None => (ring.kmd_queue().is_some() && ring.context() == kmd).then_some(Logged {
                context: None,
                process: ProcessId::SYSTEM,
                queue: None,
            }),
        };
        let mut lent = Lent {
            adapter: self.index,
            driver: self.driver.call(cx),
            memory: cx.memory,
            cx,
            runs: !self.life.has_stopped(),
            whose: &whose,
        };
        ask(&mut self.scheduling_logs, &mut lent)
    }

    /// Engines write their logs from now on, if a tool wants them and they have power.
    pub(super) fn begin_scheduling_logs(&mut self, cx: &mut Cx<'_>) {
        let runs = !self.life.has_stopped() && !self.life.is_off();
        if !self.scheduling_logs.are_wanted() || !runs || self.driver.call(cx).hardware_queues().is_none() {
            return;
        }
        for node in self.driver.node_ids() {
            if self.scheduling_logs.lack(node) {
                // Where memory is short a node has none.
                let Some(pages) = self.scheduling_log_pages(cx) else { continue };
                self.scheduling_logs.add(node, pages);
            }
            if let Some(pages) = self.lend_logs(cx, |logs, lent| logs.begin(lent, node)) {
                self.free_scheduling_log(pages);
            }
        }
    }

    fn scheduling_log_pages(&mut self, cx: &mut Cx<'_>) -> Option<LogPages> {
        let run = self.take_kernel_pages(cx, NODE_PAGES)?;
        let space = self.owners.space_of(ProcessId::SYSTEM);
        match self.map_pages(cx, space, run, true) {
            Ok(va) => Some(LogPages { run, va }),
            Err(_) => {
                self.defer_pages(run);
                None
            }
        }
    }

    fn free_scheduling_log(&mut self, LogPages { run, va }: LogPages) {
        // The hardware of an adapter that has stopped may still write: these pages stay taken.
        if !self.life.has_stopped() {
            self.defer_system_mapping(va, run.count);
            self.defer_pages(run);
        }
    }
}
