//! The calls: handles are resolved in the table of the process that calls, then the adapter does the rest.
//!
//! Every handle is an allegation. One that is unknown, stale, of another process or of another kind is
//! `INVALID_PARAMETER` (memory §9.3), and nothing has changed.

mod adapter;
mod allocation;
mod device;
mod display;
mod escape;
mod event;
mod gpu_va;
mod keyed_mutex;
mod lock;
mod name;
mod needs;
mod notification;
mod offer;
mod packet;
mod priority;
mod property;
mod queue;
mod residency;
mod resolve;
mod section;
mod share;
mod statistics;
mod sync;
mod sync_object;
mod targets;
mod turned;

pub use allocation::CreatedSurface;
pub use needs::Needs;
pub use share::unname;

use std::collections::BTreeMap;

use ddi::StandardAllocation;
use kmt_calls::{Call, ProcessIdentity, Reach, Refusal, Reply};
use wddm_types::{AdapterIndex, ProcessId, RawHandle};

use crate::adapter::Adapter;
use crate::call::turned::Turned;
use crate::cross_adapter::CrossFences;
use crate::effect::{Answer, Cx, Token};
use crate::global_handle::GlobalHandles;
use crate::keyed_mutex::KeyedMutexes;
use crate::machine::Machine;
use crate::machine::adapters::Adapters;
use crate::nt_handle::NtHandles;
use crate::object::Object;
use crate::process::Process;
use crate::quota::{Kind, QuotaLeft};
use crate::refusal::{invalid, no_memory};
use crate::scarcity::{Lacking, Uses};
use crate::section::Sections;

/// Carries out one call.
pub fn dispatch(machine: &mut Machine, cx: &mut Cx<'_>, from: ProcessId, token: Token, call: Call) -> Answer {
    let name = call.name();
    let needs = Needs::of(&call);
    // A host looks for closed descriptors before the quota of handles refuses such a call.
    debug_assert!(needs.handles == 0 || call.reach() != Reach::Own, "{name} makes objects, and its reach is its own");
    match in_turn(machine, cx, (from, token), needs.kinds, |turn, cx| turn.perform(cx, call, needs)) {
        Err(refusal) => Answer::Done(Err(refusal)),
        // Settling may have ended destructions already.
        Ok(Turned { result: Err(refusal), lacking: Some(lacking), memory_changed, .. })
            if memory_changed || machine.is_coming(from, &lacking, &Uses::default()) =>
        {
            machine.wait_for_memory(from, token, *lacking, refusal);
            Answer::Later(token)
        }
        Ok(turned) => turned.told(machine, cx, (from, name)).unwrap_or_else(|refusal| Answer::Done(Err(refusal))),
    }
}

/// Creates what no call asks for, as an object of the process `from`.
// spec: memory §2.7
pub fn create_standard(
    machine: &mut Machine,
    cx: &mut Cx<'_>,
    (from, token): (ProcessId, Token),
    device: RawHandle,
    wanted: StandardAllocation,
) -> Result<CreatedSurface, Refusal> {
    let needs = &[Kind::Handles, Kind::CommittedBytes, Kind::MemoryFiles];
    let turned = in_turn(machine, cx, (from, token), needs, |turn, cx| turn.create_surface(cx, device, wanted))?;
    turned.told(machine, cx, (from, "CreateStandardAllocation"))
}

/// Acts for a process, and settles the adapters that the act touched.
///
/// # Errors
/// The kernel does not know the process.
fn in_turn<T>(
    machine: &mut Machine,
    cx: &mut Cx<'_>,
    (from, token): (ProcessId, Token),
    needs: &[Kind],
    act: impl FnOnce(&mut Turn<'_>, &mut Cx<'_>) -> Result<T, Refusal>,
) -> Result<Turned<T>, Refusal> {
    let room = machine.room_of(from, needs);
    let process = machine.processes.get_mut(&from);
    let process = process.ok_or_else(|| invalid("the process is not known to the kernel"))?;
    process.handles.allow_more(room.left(Kind::Handles));
    machine.adapters.untouched().iter_mut().for_each(|adapter| adapter.limit_commitments(room));
    let Machine { adapters, nt_handles, globals, cross_fences, sections, keyed_mutexes, identities, .. } = machine;
    let mut turn = Turn {
        process,
        identities,
        adapters,
        nt_handles,
        globals,
        cross_fences,
        sections,
        keyed_mutexes,
        from,
        token,
        room,
        about: None,
        lacking: None,
    };
    let result = act(&mut turn, cx);
    let Turn { about, lacking, .. } = turn;
    // Deferred work belongs to no call, so no quota limits it.
    machine.adapters.untouched().iter_mut().for_each(Adapter::lift_limit);
    let stamp = |machine: &Machine| lacking.as_ref().map(|lacking| machine.adapters[lacking.adapter].memory_stamp());
    let before = stamp(machine);
    machine.adapters.settle(cx);
    let memory_changed = before != stamp(machine);
    Ok(Turned { about, result, lacking, memory_changed })
}

struct Turn<'a> {
    process: &'a mut Process,
    identities: &'a BTreeMap<ProcessId, ProcessIdentity>,
    adapters: &'a mut Adapters,
    nt_handles: &'a mut NtHandles,
    globals: &'a mut GlobalHandles,
    cross_fences: &'a mut CrossFences,
    sections: &'a mut Sections,
    keyed_mutexes: &'a mut KeyedMutexes,
    from: ProcessId,
    token: Token,
    room: QuotaLeft,
    /// The adapter that the call is about: its refusal is counted there.
    about: Option<AdapterIndex>,
    /// The call is refused for want of this, and may wait for it.
    // In a box, because hardly any turn has one and all carry it along.
    lacking: Option<Box<Lacking>>,
}

impl Turn<'_> {
    /// Performs a call that needs this.
    fn perform(&mut self, cx: &mut Cx<'_>, call: Call, needs: Needs) -> Result<Answer, Refusal> {
        if !self.process.handles.has_room(needs.handles) {
            return Err(self.handles_full(needs.handles));
        }
        self.room.take(Kind::SyncObjects, needs.sync_objects)?;
        self.room.take(Kind::Queued, needs.packets)?;
        self.route(cx, call)
    }

    /// Hands the call to the functions of its kind.
    fn route(&mut self, cx: &mut Cx<'_>, call: Call) -> Result<Answer, Refusal> {
        match call {
            Call::Adapter(call) => self.on_adapter(cx, call),
            Call::Device(call) => self.on_device(cx, call),
            Call::Allocation(call) => self.on_allocation(cx, call),
            Call::Property(call) => self.on_property(cx, call),
            Call::GpuVa(call) => self.on_gpu_va(cx, call),
            Call::Residency(call) => self.on_residency(cx, call),
            Call::Lock(call) => self.on_lock(cx, call),
            Call::Share(call) => self.on_share(cx, call),
            Call::Section(call) => self.on_section(cx, call),
            Call::Notification(call) => self.on_notification(call),
            Call::Event(call) => self.on_event(cx, call),
            Call::Queue(call) => self.on_queue(cx, call),
            Call::Packet(call) => self.on_packets(cx, call),
            Call::Priority(call) => self.on_priorities(cx, call),
            Call::Display(call) => self.on_display(cx, call),
            Call::Sync(call) => self.on_sync(cx, call),
            Call::Statistics(call) => self.on_statistics(cx, &call),
            Call::KeyedMutex(call) => self.on_keyed_mutex(cx, call),
            Call::Escape(call) => self.escape(cx, call),
        }
    }

    fn name(&mut self, object: Object) -> Result<RawHandle, Refusal> {
        let named = match object {
            Object::Event(_) | Object::Section(_) => self.process.system_handles.insert(object),
            _ => self.process.handles.insert(object),
        };
        named.ok_or_else(|| self.handles_full(1))
    }

    /// Why so many more handles cannot be had.
    fn handles_full(&self, wanted: usize) -> Refusal {
        let kernels = || no_memory(format!("the process holds {} handles", crate::handle::HANDLES_MAX));
        self.room.refuse(Kind::Handles, wanted as u64).unwrap_or_else(kernels)
    }

    /// Answers when the fence words of a new object are mapped for the GPU.
    fn when_mapped(&mut self, cx: &mut Cx<'_>, index: AdapterIndex, reply: Reply) -> Result<Answer, Refusal> {
        let adapter = &mut self.adapters[index];
        if adapter.fence_words_mapped(self.from) { done(reply) } else { Ok(adapter.after_ring(cx, self.token, reply)) }
    }

    /// Forgets a handle and another of the same object.
    fn forget(&mut self, handle: RawHandle, other: Object) {
        self.process.handles.remove(handle);
        self.process.handles.remove_object(other);
    }

    /// Forgets the handles of objects that have gone with their owner.
    fn forget_all(&mut self, gone: Vec<Object>) {
        gone.into_iter().for_each(|object| self.process.handles.remove_object(object));
    }
}

fn done(reply: Reply) -> Result<Answer, Refusal> {
    Ok(Answer::Done(Ok(reply)))
}
