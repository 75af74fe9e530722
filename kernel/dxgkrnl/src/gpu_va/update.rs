//! The updates of `D3DKMTUpdateGpuVirtualAddress` that wait (memory §4.8): each context has a queue of them. The oldest waits for its
//! fence, is applied by the memory manager, and signals the next value when the paging ring has got past it. So a copy reads the mappings
//! that its source has at that place in the queue.
//!
//! Here are the queues; this part asks the memory manager alone, what an update does. `adapter::update` checks an update when a process
//! asks for it, waits for the fences, and has the ring carry out what is applied. Freed addresses and dead allocations fall out of waiting
//! updates.
//!
//! A context has a queue here exactly while it has an update that waits. A call is blocked in the queue only with [`QUEUED_MAX`] updates
//! before its own; so each update that leaves unblocks one call at most.

use std::collections::{BTreeMap, VecDeque};

use gpu_fence::FenceId;
use vidmm::{AllocationId, SpaceId, Update, VidMm};
use wddm_types::{GpuVa, ProcessId};

use crate::due::Waiter;
use crate::hold::{Hold, Until};
use crate::number::{FenceNumber, Token, UpdateContext};
use crate::store::ObjectNumber;

/// So many updates wait on a context; a call with one more waits with them.
// spec: memory §0, memory §4.8
const QUEUED_MAX: usize = 128;

/// The updates that wait, by context.
#[derive(Default)]
pub struct Updates {
    of: BTreeMap<UpdateContext, UpdateQueue>,
}

/// Those of one context, oldest first.
#[derive(Default)]
struct UpdateQueue {
    waiting: VecDeque<Queued>,
    /// A wait for the oldest one's fence is registered.
    watching: bool,
}

struct Queued {
    asked: Asked,
    /// The call that is answered when fewer stand before it.
    blocked: Option<Token>,
}

/// An update as a process asked for it, made ready.
pub struct Asked {
    /// The change of the mappings.
    pub update: Update,
    /// The process whose mappings change.
    pub process: ProcessId,
    /// The fence that the update waits for, and then signals.
    pub fence: FenceNumber,
    /// The value that it waits for; it signals the next one.
    pub value: u64,
    /// Without, the update waits for its turn alone.
    pub wait: bool,
}

/// An update that has left its queue.
#[must_use = "the memory manager applies or drops the update, and the call is answered"]
pub struct Left {
    /// The update itself.
    pub asked: Asked,
    /// The call to answer.
    pub answer: Option<Token>,
}

impl Updates {
    /// An update joins the queue of its context. True: the queue is full, and the call is answered when fewer stand before its update.
    pub fn enter(&mut self, context: UpdateContext, asked: Asked, token: Token) -> bool {
        let queue = self.of.entry(context).or_default();
        let blocked = (queue.waiting.len() >= QUEUED_MAX).then_some(token);
        queue.waiting.push_back(Queued { asked, blocked });
        blocked.is_some()
    }

    /// The oldest update of a context, unless a wait for its fence is registered.
    pub fn next(&self, context: UpdateContext) -> Option<&Asked> {
        let queue = self.of.get(&context).filter(|queue| !queue.watching)?;
        queue.waiting.front().map(|queued| &queued.asked)
    }

    /// A wait for the fence of the oldest update is registered.
    pub fn watch(&mut self, context: UpdateContext) {
        let queue = self.of.get_mut(&context).expect("an update waits");
        debug_assert!(!queue.waiting.is_empty(), "a context without an update has no queue");
        queue.watching = true;
    }

    /// This wait is over. False: the context has no update any more.
    pub fn watched(&mut self, context: UpdateContext) -> bool {
        let queue = self.of.get_mut(&context);
        queue.map(|queue| queue.watching = false).is_some()
    }

    /// The oldest update's turn has come: it leaves, and the call that has room in the queue by that is answered.
    pub fn take(&mut self, context: UpdateContext) -> Left {
        let queue = self.of.get_mut(&context).expect("an update waits");
        let due = queue.waiting.pop_front().expect("a queue has an update");
        debug_assert!(due.blocked.is_none(), "the call of an update that comes first was answered");
        let answer = queue.waiting.get_mut(QUEUED_MAX - 1).and_then(|queued| queued.blocked.take());
        if queue.waiting.is_empty() {
            self.of.remove(&context);
        }
        Left { asked: due.asked, answer }
    }

    /// A context goes, and its updates with it, each with its own call.
    pub fn context_goes(&mut self, context: UpdateContext) -> impl Iterator<Item = Left> + use<> {
        let queue = self.of.remove(&context).unwrap_or_default();
        queue.waiting.into_iter().map(|queued| Left { asked: queued.asked, answer: queued.blocked })
    }

    /// The value that an update of a process waits for, which will change what some of these addresses show.
    pub fn changes(
        &self,
        vidmm: &VidMm<FenceId>,
        of: (ProcessId, SpaceId),
        base: GpuVa,
        size_bytes: u64,
    ) -> Option<u64> {
        let (process, space) = of;
        let waiting = self.of.values().flat_map(|queue| &queue.waiting).map(|queued| &queued.asked);
        let mut of_process = waiting.filter(|asked| asked.process == process);
        let changing = of_process.find(|asked| vidmm.update_changes(&asked.update, space, base, size_bytes));
        changing.map(|asked| asked.value)
    }

    /// Addresses are freed: waiting updates do nothing there.
    pub fn lose_range(&mut self, vidmm: &VidMm<FenceId>, space: SpaceId, base: GpuVa, size_bytes: u64) {
        for asked in self.waiting_mut() {
            vidmm.update_loses_range(&mut asked.update, space, base, size_bytes);
        }
    }

    /// Whether one of a process waits.
    pub fn any_of(&self, process: ProcessId) -> bool {
        self.of.values().flat_map(|queue| &queue.waiting).any(|queued| queued.asked.process == process)
    }

    /// A process has an allocation no more: its waiting updates do not map it.
    pub fn lose_allocation(&mut self, vidmm: &mut VidMm<FenceId>, process: ProcessId, allocation: AllocationId) {
        for asked in self.waiting_mut().filter(|asked| asked.process == process) {
            vidmm.update_loses_allocation(&mut asked.update, allocation);
        }
    }

    /// What ends the wait of each context's oldest update.
    pub fn holds(&self) -> impl Iterator<Item = Hold> + '_ {
        self.of.iter().map(|(context, queue)| {
            let until = if queue.watching { Until::Wait(Waiter::Update { context: *context }) } else { Until::Nothing };
            let number = match context {
                UpdateContext::Hardware(number) => number.raw(),
                UpdateContext::Packets(number) => number.raw(),
            };
            Hold::new("an update of tiles on context", number, until)
        })
    }

    fn waiting_mut(&mut self) -> impl Iterator<Item = &mut Asked> {
        self.of.values_mut().flat_map(|queue| &mut queue.waiting).map(|queued| &mut queued.asked)
    }
}
