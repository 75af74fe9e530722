//! A queue stops between two commands because its driver wants the engine for something else (PREEMPT). It keeps nothing: the
//! record says how far it got, and the driver writes what is left into a ring again.

use std::sync::atomic::Ordering;

use softgpu_spec::Command;
use softgpu_spec::register::{queue_state, record};

use super::EngineState;
use crate::device::SoftGpu;
use crate::interrupt::Record;

impl EngineState {
    /// Stops a queue before its next command; at once, unless a command of it is under way that is no wait.
    pub(crate) fn preempt(&mut self, gpu: &SoftGpu, engine: usize, number: u32) {
        let at = number as usize;
        let Some(queue) = self.queues[at].as_mut() else { return };
        queue.preempt = true;
        let under_way = self.flight.as_ref().is_some_and(|flight| flight.queue == at);
        let waits = matches!(Command::decode(&self.scratch[..]), Ok((Command::Wait { .. }, _)));
        if !under_way || waits {
            self.stop_preempted(gpu, engine, at);
        }
    }

    /// The queue is between two commands and was asked to stop there.
    fn stop_preempted(&mut self, gpu: &SoftGpu, engine: usize, at: usize) {
        // CAST: below the count of queues.
        let (_, queue) = self.take_out(gpu, engine, at as u32, true);
        let queue = queue.expect("a queue that is asked to stop is attached");
        gpu.queues[at].state.store(queue_state::PREEMPTED, Ordering::Release);
        let fields = [at as u64, queue.read, queue.nested_words()];
        gpu.interrupts.raise(Record { kind: record::PREEMPTED, fields });
    }

    /// A command of the queue is done: the place to stop, if that was asked.
    #[inline]
    pub(super) fn give_way(&mut self, gpu: &SoftGpu, engine: usize, at: usize) {
        if self.queues[at].as_ref().is_some_and(|queue| queue.preempt) {
            self.stop_preempted(gpu, engine, at);
        }
    }
}
