//! An engine that has nothing to do, and how it says so: once, after a while, until it is woken.

use std::time::Duration;

use softgpu_spec::register::record;

use super::EngineState;
use crate::device::SoftGpu;
use crate::interrupt::Record;

/// How long there has been nothing to do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Idle {
    /// Virtual time: since when.
    since: Option<u64>,
    said: bool,
}

impl EngineState {
    /// Takes its clock away or gives it back. With the clock its time without work begins anew.
    pub(crate) fn gate(&mut self, gated: bool) {
        if self.gated && !gated {
            self.idle = Idle::default();
        }
        self.gated = gated;
    }

    /// Whether nothing of its queues is left to be done or to be waited for.
    fn has_nothing(&self) -> bool {
        self.enabled && !self.gated && self.flight.is_none() && self.active.is_empty() && self.waiting == 0
    }

    /// Real time: how long it sleeps at most before it says that it has nothing to do.
    pub(crate) fn idle_limit(&self, gpu: &SoftGpu) -> Option<Duration> {
        let wanted = gpu.idle_ns();
        (wanted != 0 && !self.idle.said && self.has_nothing()).then(|| Duration::from_nanos(wanted))
    }

    /// Says so, unless something has come.
    pub(crate) fn say_idle(&mut self, gpu: &SoftGpu, engine: usize) {
        if !self.has_nothing() || gpu.engines[engine].has_news() {
            return;
        }
        self.idle.said = true;
        gpu.interrupts.raise(Record { kind: record::IDLE, fields: [engine as u64, 0, 0] });
    }

    /// Virtual time: when it will say so; it does so when that time has come.
    pub(crate) fn idle_due(&mut self, gpu: &SoftGpu, engine: usize) -> Option<u64> {
        let wanted = gpu.idle_ns();
        if wanted == 0 || self.idle.said || !self.has_nothing() {
            return None;
        }
        let due = self.idle.since.get_or_insert_with(|| gpu.now()).saturating_add(wanted);
        if gpu.now() < due {
            return Some(due);
        }
        self.say_idle(gpu, engine);
        None
    }
}
