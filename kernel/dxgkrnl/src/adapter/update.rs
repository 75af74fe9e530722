//! `D3DKMTUpdateGpuVirtualAddress` (memory §4.8): the adapter checks what a process asks for, waits for the fence of a context's oldest
//! update, and has the ring carry out what the memory manager makes of it. `gpu_va::Updates` has the queues.

use events::Event;
use gpu_fence::WaitMode;
use kmt_calls::{Refusal, Reply, UpdateGpuVaFlags, UpdateGpuVaOperation};
use vidmm::{UpdateError, UpdateOperation};
use wddm_types::{GpuVa, ProcessId};

use crate::adapter::Adapter;
use crate::allocations::Allocation;
use crate::due::Waiter;
use crate::effect::{Answer, Cx, Effect, Token};
use crate::gpu_va::{Asked, Left, from_map, protection, reserved};
use crate::memory::LIST_MAX;
use crate::number::{AllocationNumber, DeviceNumber, FenceNumber, UpdateContext};
use crate::refusal::{invalid, no_memory, removed};
use crate::store::ObjectNumber;
use crate::sync::WaitsOf;

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
        let blocked = self.memory.updates.enter(context, Asked { update, process, fence, value, wait }, token);
        self.pump_updates(cx, context);
        Ok(if blocked { Answer::Later(token) } else { Answer::Done(Ok(Reply::Done)) })
    }

    /// Applies the updates of a context whose turn has come.
    fn pump_updates(&mut self, cx: &mut Cx<'_>, context: UpdateContext) {
        while let Some(&Asked { fence, value, wait, .. }) = self.memory.updates.next(context) {
            // A fence that has gone is waited for no longer.
            if wait && self.sync.fence_if_there(fence).is_some() && self.sync.current_value(cx.memory, fence) < value {
                let point = [self.sync.point(fence, value)];
                if !self.begin_wait(cx, &point, WaitMode::All, Waiter::Update { context }) {
                    self.memory.updates.watch(context);
                    break;
                }
            }
            let Left { asked: due, answer } = self.memory.updates.take(context);
            if let Some(token) = answer {
                cx.effects.push(Effect::Answer { token, result: Ok(Reply::Done) });
            }
            let (number, packets) = named(context);
            let next = value + 1;
            cx.emit(self.index, Event::GpuVaUpdated { context: number, packets, fence: fence.raw(), value: next });
            let work = self.vidmm.apply_update(due.update);
            self.queue_any(cx, due.process, work);
            self.defer_signal(fence, next);
        }
    }

    /// The fence of a context's oldest update has its value.
    pub(super) fn update_released(&mut self, cx: &mut Cx<'_>, context: UpdateContext) {
        if self.life.has_stopped() {
            self.drop_updates(cx, context);
        } else if self.memory.updates.watched(context) {
            self.pump_updates(cx, context);
        }
    }

    /// A context goes, and its waiting updates with it.
    pub(super) fn drop_updates(&mut self, cx: &mut Cx<'_>, context: UpdateContext) {
        for Left { asked: gone, answer } in self.memory.updates.context_goes(context) {
            if let Some(token) = answer {
                let result = Err(removed("the context was destroyed while the call waited"));
                cx.effects.push(Effect::Answer { token, result });
            }
            let work = self.vidmm.drop_update(gone.update);
            self.queue_any(cx, gone.process, work);
        }
        self.end_idle_waits(cx, WaitsOf::Updates(context));
    }

    /// Whether what a process has mapped here stays: no update waits that has some of it show something else. The ring of a new doorbell.
    // spec: sync §3.17
    pub(super) fn check_updates_at(&self, process: ProcessId, base: GpuVa, size_bytes: u64) -> Result<(), Refusal> {
        let of = (process, self.owners.space_of(process));
        let Some(value) = self.memory.updates.changes(&self.vidmm, of, base, size_bytes) else { return Ok(()) };
        let at = base.0;
        Err(invalid(format!(
            "an update that waits for value {value} of its fence changes what is mapped at {at:#x}, where the ring is: let it come to its turn first"
        )))
    }

    /// A process's last binding of an allocation is destroyed: its waiting updates do not map it.
    pub(super) fn updates_lose_binding(&mut self, gone: &Allocation, process: ProcessId) {
        // Nearly always none of its updates waits, and then the bindings need no search.
        if !self.memory.updates.any_of(process) {
            return;
        }
        if self.memory.allocations.living_of(gone.vidmm).any(|other| self.owners.process_of(other.device) == process) {
            return;
        }
        self.memory.updates.lose_allocation(&mut self.vidmm, process, gone.vidmm);
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
                let allocation = self.memory.allocations[*number].vidmm;
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

/// The number of a context in events, and whether packet contexts are meant.
fn named(context: UpdateContext) -> (u64, bool) {
    match context {
        UpdateContext::Hardware(number) => (number.raw(), false),
        UpdateContext::Packets(number) => (number.raw(), true),
    }
}
