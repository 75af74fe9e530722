//! `D3DKMTUpdateGpuVirtualAddress` (memory §4.8): each context has a queue of updates. The oldest waits for its fence, is
//! applied by the memory manager, and signals the next value when the paging ring has got past it. So a copy reads the mappings that its
//! source has at that place in the queue.
//!
//! The kernel checks an update when a process asks for it. Freed addresses and dead allocations fall out of waiting updates.

use std::collections::{BTreeMap, VecDeque};

use events::Event;
use gpu_fence::WaitMode;
use kmt_calls::{Refusal, Reply, UpdateGpuVaFlags, UpdateGpuVaOperation};
use vidmm::{SpaceId, Update, UpdateError, UpdateOperation};
use wddm_types::{GpuVa, ProcessId};

use super::{from_map, protection, reserved};
use crate::adapter::Adapter;
use crate::allocations::Allocation;
use crate::due::Waiter;
use crate::machine::{Answer, Cx, Effect, Token};
use crate::memory::LIST_MAX;
pub use crate::number::UpdateContext;
use crate::number::{AllocationNumber, FenceNumber};
use crate::object::DeviceNumber;
use crate::refusal::{invalid, no_memory, removed};
use crate::store::ObjectNumber;

/// So many updates wait on a context; a call with one more waits with them.
// spec: memory §0, memory §4.8
const QUEUED_MAX: usize = 128;

impl UpdateContext {
    /// Its number, and whether packet contexts are meant.
    fn named(self) -> (u64, bool) {
        match self {
            UpdateContext::Hardware(number) => (number.raw(), false),
            UpdateContext::Packets(number) => (number.raw(), true),
        }
    }
}

/// The updates that wait, by context.
pub type Updates = BTreeMap<UpdateContext, UpdateQueue>;

/// Those of one context, oldest first.
#[derive(Default)]
pub struct UpdateQueue {
    waiting: VecDeque<Queued>,
    /// A wait for the oldest one's fence is registered.
    watching: bool,
}

struct Queued {
    update: Update,
    process: ProcessId,
    fence: FenceNumber,
    value: u64,
    wait: bool,
    /// The call that is answered when fewer stand before it.
    blocked: Option<Token>,
}

/// The members of `D3DKMT_UPDATEGPUVIRTUALADDRESS`, its handles resolved.
pub struct UpdateRequest<'a> {
    pub device: DeviceNumber,
    pub context: UpdateContext,
    pub fence: FenceNumber,
    pub fence_value: u64,
    pub operations: &'a [UpdateGpuVaOperation],
    /// The allocations that MAP operations name, in their order.
    pub allocations: Vec<AllocationNumber>,
    pub flags: UpdateGpuVaFlags,
}

impl Adapter {
    /// `D3DKMTUpdateGpuVirtualAddress`.
    // spec: memory §4.8
    pub fn update_gpu_va(
        &mut self,
        cx: &mut Cx<'_>,
        token: Token,
        request: UpdateRequest<'_>,
    ) -> Result<Answer, Refusal> {
        self.translates()?;
        let UpdateRequest { device, context, fence, fence_value: value, operations, flags, .. } = request;
        if !UpdateGpuVaFlags::DO_NOT_WAIT.contains(flags) {
            return Err(invalid(format!("update flags {:#x}: only DoNotWait is known", flags.bits())));
        }
        if operations.is_empty() || operations.len() > LIST_MAX {
            return Err(invalid(format!("a call has 1 to {LIST_MAX} operations, not {}", operations.len())));
        }
        if value == u64::MAX {
            return Err(invalid("there is no value behind the last one"));
        }
        let wait = !flags.contains(UpdateGpuVaFlags::DO_NOT_WAIT);
        let process = self.owners.process_of(device);
        let space = self.owners.space_of(process);
        let mut allocations = request.allocations.iter();
        let operations: Vec<UpdateOperation> = operations
            .iter()
            .map(|operation| self.update_operation(operation, &mut allocations))
            .collect::<Result<_, _>>()?;
        for operation in &operations {
            let (base, size_bytes) = operation.target();
            self.check_rings_at(device, base, size_bytes)?;
        }
        let mut made = self.vidmm.prepare_update(space, &operations);
        if made.as_ref().is_err_and(|error| *error == UpdateError::OutOfTables) && self.note_idle_devices(cx) {
            made = self.vidmm.prepare_update(space, &operations);
        }
        let (update, tables) = made.map_err(|error| from_update(&error))?;
        self.queue_any(cx, process, tables);
        let queue = self.updates.entry(context).or_default();
        let blocked = (queue.waiting.len() >= QUEUED_MAX).then_some(token);
        queue.waiting.push_back(Queued { update, process, fence, value, wait, blocked });
        self.pump_updates(cx, context);
        Ok(if blocked.is_some() { Answer::Later(token) } else { Answer::Done(Ok(Reply::Done)) })
    }

    /// Applies the updates of a context whose turn has come.
    fn pump_updates(&mut self, cx: &mut Cx<'_>, context: UpdateContext) {
        while let Some(queue) = self.updates.get(&context) {
            let Some(oldest) = queue.waiting.front() else { break };
            if queue.watching {
                break;
            }
            let (fence, value, wait) = (oldest.fence, oldest.value, oldest.wait);
            // A fence that has gone is waited for no longer.
            if wait && self.sync.fence_if_there(fence).is_some() && self.sync.current_value(cx.memory, fence) < value {
                let point = [self.sync.point(fence, value)];
                if !self.begin_wait(cx, &point, WaitMode::All, Waiter::Update { context }) {
                    self.updates.get_mut(&context).expect("just seen").watching = true;
                    break;
                }
            }
            let queue = self.updates.get_mut(&context).expect("just seen");
            let due = queue.waiting.pop_front().expect("just seen");
            let unblocked = queue.waiting.get_mut(QUEUED_MAX - 1).and_then(|queued| queued.blocked.take());
            if let Some(token) = unblocked {
                cx.effects.push(Effect::Answer { token, result: Ok(Reply::Done) });
            }
            let (number, packets) = context.named();
            cx.emit(
                self.index,
                Event::GpuVaUpdated { context: number, packets, fence: due.fence.raw(), value: due.value + 1 },
            );
            let work = self.vidmm.apply_update(due.update);
            self.queue_any(cx, due.process, work);
            self.defer_signal(due.fence, due.value + 1);
        }
        if self.updates.get(&context).is_some_and(|queue| queue.waiting.is_empty()) {
            self.updates.remove(&context);
        }
    }

    /// The fence of a context's oldest update has its value.
    pub fn update_released(&mut self, cx: &mut Cx<'_>, context: UpdateContext) {
        if self.life.has_stopped() {
            self.drop_updates(cx, context);
        } else if let Some(queue) = self.updates.get_mut(&context) {
            queue.watching = false;
            self.pump_updates(cx, context);
        }
    }

    /// A context goes, and its waiting updates with it.
    pub fn drop_updates(&mut self, cx: &mut Cx<'_>, context: UpdateContext) {
        let Some(queue) = self.updates.remove(&context) else { return };
        for queued in queue.waiting {
            if let Some(token) = queued.blocked {
                let result = Err(removed("the context was destroyed while the call waited"));
                cx.effects.push(Effect::Answer { token, result });
            }
            let work = self.vidmm.drop_update(queued.update);
            self.queue_any(cx, queued.process, work);
        }
    }

    /// Whether what a process has mapped here stays: no update waits that has some of it show something else. The ring of a new doorbell.
    // spec: sync §3.17
    pub fn check_updates_at(&self, process: ProcessId, base: GpuVa, size_bytes: u64) -> Result<(), Refusal> {
        let space = self.owners.space_of(process);
        let waiting = self.updates.values().flat_map(|queue| &queue.waiting);
        for queued in waiting.filter(|queued| queued.process == process) {
            if self.vidmm.update_changes(&queued.update, space, base, size_bytes) {
                let (at, value) = (base.0, queued.value);
                return Err(invalid(format!(
                    "an update that waits for value {value} of its fence changes what is mapped at {at:#x}, where the ring is: let it come to its turn first"
                )));
            }
        }
        Ok(())
    }

    /// Addresses are freed: waiting updates do nothing there.
    pub(super) fn updates_lose_range(&mut self, space: SpaceId, base: GpuVa, size_bytes: u64) {
        for queued in self.updates.values_mut().flat_map(|queue| &mut queue.waiting) {
            self.vidmm.update_loses_range(&mut queued.update, space, base, size_bytes);
        }
    }

    /// A process's last binding of an allocation is destroyed: its waiting updates do not map it.
    pub fn updates_lose_binding(&mut self, gone: &Allocation, process: ProcessId) {
        // Nearly always none of its updates waits, and then the bindings need no search.
        if !self.updates.values().flat_map(|queue| &queue.waiting).any(|queued| queued.process == process) {
            return;
        }
        if self.allocations.living_of(gone.vidmm).any(|other| self.owners.process_of(other.device) == process) {
            return;
        }
        let waiting = self.updates.values_mut().flat_map(|queue| &mut queue.waiting);
        for queued in waiting.filter(|queued| queued.process == process) {
            self.vidmm.update_loses_allocation(&mut queued.update, gone.vidmm);
        }
    }

    fn update_operation<'a>(
        &self,
        operation: &UpdateGpuVaOperation,
        allocations: &mut impl Iterator<Item = &'a AllocationNumber>,
    ) -> Result<UpdateOperation, Refusal> {
        match *operation {
            UpdateGpuVaOperation::Map {
                base,
                size_bytes,
                offset_bytes,
                allocation_size_bytes,
                protection: bits,
                ..
            } => {
                let number = allocations.next().expect("one for each MAP");
                let protection = match bits {
                    None => None,
                    Some((bits, _)) if reserved(bits)?.is_some() => {
                        return Err(invalid("MAP_PROTECT with Zero or NoAccess"));
                    }
                    Some((bits, driver)) => Some(protection(bits, driver)),
                };
                if protection.is_none_or(|protection| protection.write) {
                    self.may_write(*number)?;
                }
                let allocation = self.allocations[*number].vidmm;
                Ok(UpdateOperation::Map {
                    base,
                    size_bytes,
                    allocation,
                    offset_bytes,
                    allocation_size_bytes,
                    protection,
                })
            }
            UpdateGpuVaOperation::Unmap { base, size_bytes, protection } => {
                let reserved = reserved(protection)?.ok_or_else(|| invalid("UNMAP says Zero or NoAccess"))?;
                Ok(UpdateOperation::Unmap { base, size_bytes, reserved })
            }
            UpdateGpuVaOperation::Copy { source, size_bytes, destination } => {
                Ok(UpdateOperation::Copy { source, size_bytes, destination })
            }
        }
    }
}

fn from_update(error: &UpdateError) -> Refusal {
    match error {
        UpdateError::OutOfTables => no_memory(error.to_string()),
        UpdateError::Range(error) => from_map(error),
        _ => invalid(error.to_string()),
    }
}
