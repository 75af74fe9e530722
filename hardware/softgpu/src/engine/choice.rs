//! The queue that executes next: of those that have work, the one whose turn it is.

use std::sync::atomic::Ordering;

use engine_time::Contender;
use softgpu_spec::register::queue_state;

use super::EngineState;
use super::idle::Idle;
use crate::device::SoftGpu;

impl EngineState {
    /// The queue that executes the next command; `None`: no queue has one.
    #[inline(always)]
    pub(super) fn pick(&mut self, gpu: &SoftGpu, engine: usize) -> Option<usize> {
        // News are taken by an engine that stands too: it would look for ever otherwise.
        if gpu.engines[engine].has_news() {
            self.take_news(gpu, engine);
        }
        if !self.enabled || self.gated {
            return None;
        }
        if self.active.len() > 1 || gpu.is_virtual() {
            return self.pick_of_several(gpu, engine);
        }
        if self.sharing.is_held() {
            // A queue that is alone is charged for nothing.
            self.sharing.rests(gpu.now());
        }
        let at = self.active.next_after(self.last)?;
        self.has_work(gpu, engine, at).then_some(at)
    }

    /// The queue of those that have work whose turn it is.
    // spec: sync §4.1, sync §4.2
    fn pick_of_several(&mut self, gpu: &SoftGpu, engine: usize) -> Option<usize> {
        let mut ready = std::mem::take(&mut self.sharing.ready);
        ready.clear();
        let mut at = self.last;
        for _ in 0..self.active.len() {
            at = self.active.next_after(at)?;
            if self.has_work(gpu, engine, at) {
                ready.push(at);
            }
        }
        ready.sort_unstable();
        self.sharing.ready = ready;
        let now_ns = gpu.now();
        if self.sharing.ready.is_empty() {
            if self.sharing.is_held() {
                self.sharing.rests(now_ns);
            }
            return None;
        }
        let queues = &self.queues;
        let queue = |at: usize| queues[at].as_ref().expect("an active queue is attached");
        let next = self.sharing.next(now_ns, |at| queue(at).contender, |at| queue(at).nested.is_none());
        if let Some(next) = next {
            self.last = next;
        }
        next
    }

    /// Whether a queue has a command. One that has had none for long enough is not looked at any more.
    #[inline(always)]
    fn has_work(&mut self, gpu: &SoftGpu, engine: usize, at: usize) -> bool {
        let Some(queue) = self.queues[at].as_mut() else {
            self.active.remove(at);
            return false;
        };
        if queue.has_work(&gpu.bells.window) {
            self.last = at;
            return true;
        }
        if queue.may_sleep(gpu, super::unit(engine), gpu.patience()) {
            self.active.remove(at);
        }
        false
    }

    /// A queue ranks otherwise from now on, set aside or not.
    pub(crate) fn rank(&mut self, number: u32, contender: Contender<usize>) {
        for queue in self.queues[number as usize].iter_mut().chain(self.shelf.get_mut(&number)) {
            queue.contender = contender;
        }
        self.sharing.changed();
    }

    /// Makes the woken queues active, those that can run.
    fn take_news(&mut self, gpu: &SoftGpu, engine: usize) {
        let face = &gpu.engines[engine];
        face.news.swap(0, Ordering::AcqRel);
        for (group, word) in face.woken.iter().enumerate() {
            let mut bits = word.swap(0, Ordering::AcqRel);
            while bits != 0 {
                let at = group * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if self.queues[at].is_some() && gpu.queues[at].state() == queue_state::READY {
                    self.active.insert(at);
                    self.idle = Idle::default();
                }
            }
        }
    }
}
