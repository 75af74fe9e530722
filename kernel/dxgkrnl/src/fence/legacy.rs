//! Synchronization objects without a word in memory: mutex, semaphore, packet fence, CPU notification (sync §1.1, §2.2). The kernel alone
//! signals them, when a context comes to the software packet that says so (`packet/software`); `gpu_fence` carries the signal out. No
//! process waits for them on the CPU, and none signals them from there. `open` keeps their opens and names.
//!
//! # Waits without a signal
//! A mutex is its taker's: a context that is destroyed or lost gives up the mutexes that it has, and a mutex that was created owned is
//! given up with the open that created it; else a process that dies would stop all others (decision 0020). A semaphore and a packet fence
//! have no owner: a signal that was dropped with its context never comes.

mod open;

use events::Event;
use gpu_fence::{LegacyError, LegacyId, LegacyKind};
use kmt_calls::{FenceFlags, Refusal};
use wddm_types::RawHandle;

use crate::adapter::Adapter;
use crate::due::Waiter;
use crate::event::EventName;
use crate::fence::flags::{self, ObjectType};
use crate::machine::Cx;
use crate::object::DeviceNumber;
use crate::packet::PacketContextNumber;
use crate::refusal::{invalid, not_supported};
use crate::store::ObjectNumber;

pub use open::{SyncOpen, SyncOpenNumber};

/// Such an object.
#[derive(Debug)]
pub struct SyncObject {
    /// Its use: contexts wait for it, or it sets an event.
    pub part: SyncPart,
    flags: FenceFlags,
    /// How many have it open.
    opens: u32,
    /// NT handles that name it.
    names: u32,
    /// The open that created it.
    creator: SyncOpenNumber,
    /// Its global handle, if it is shared that way.
    pub global: RawHandle,
}

impl SyncObject {
    /// Whether so many opens and NT handles are those that it counts.
    pub fn is_held_by(&self, opens: usize, names: usize) -> bool {
        (self.opens as usize, self.names as usize) == (opens, names)
    }
}

/// The use of a synchronization object.
#[derive(Clone, Copy, Debug)]
pub enum SyncPart {
    /// Contexts wait for it.
    Waited(LegacyId),
    /// It sets an event.
    Notification(EventName),
}

impl Adapter {
    /// The types 1 to 3 of `D3DKMTCreateSynchronizationObject2`. Answers with the creator's open.
    // spec: sync §1.1, sync §2.2
    pub fn create_legacy_object(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
        flags: FenceFlags,
        kind: LegacyKind,
    ) -> Result<SyncOpenNumber, Refusal> {
        let object = match kind {
            LegacyKind::MutexObject { .. } => ObjectType::MutexObject,
            LegacyKind::Semaphore { .. } => ObjectType::Semaphore,
            LegacyKind::Fence { .. } => ObjectType::Fence,
        };
        flags::check(object, flags)?;
        let id = self.legacy.create(kind).map_err(|error| match error {
            LegacyError::InitialAboveMax => invalid("InitialCount is above MaxCount"),
        })?;
        Ok(self.add_sync_object(cx, device, (object, flags), SyncPart::Waited(id)))
    }

    /// The type 4.
    // spec: sync §1.1, sync §2.3, sync §5
    pub fn create_cpu_notification(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
        flags: FenceFlags,
        event: EventName,
    ) -> Result<SyncOpenNumber, Refusal> {
        flags::check(ObjectType::CpuNotification, flags)?;
        if flags.contains(FenceFlags::SIGNAL_BY_KMD) {
            // Feature 3 has a name in the sheet and no law: by what callback a driver would name the event is not known.
            return Err(not_supported(
                "SignalByKmd: this kernel has no feature KMD_SIGNAL_CPU_EVENT, by which a driver would signal it",
            ));
        }
        Ok(self.add_sync_object(cx, device, (ObjectType::CpuNotification, flags), SyncPart::Notification(event)))
    }

    /// The last open or name has gone: contexts that wait for the object go on.
    // spec: sync §3.4, sync §6 B8
    fn destroy_sync_object(&mut self, cx: &mut Cx<'_>, number: u64) {
        let object = self.sync_objects.remove(number).expect("an object is destroyed once");
        if object.global != RawHandle::NONE {
            self.due.global_gone(object.global);
        }
        if let SyncPart::Waited(id) = object.part {
            let released = self.legacy.destroy(id);
            self.contexts_go_on(released);
        }
        cx.emit(self.index, Event::SyncObjectDestroyed { object: number });
    }

    /// Signals such an object; `value` and `rewind` are for a fence.
    // spec: sync §3.7
    pub fn signal_sync_object(&mut self, cx: &mut Cx<'_>, number: u64, value: u64, rewind: bool) {
        // It may have been destroyed while the packet waited for its turn.
        let Some(object) = self.sync_objects.get(number) else { return };
        let released = match object.part {
            SyncPart::Waited(id) => self.legacy.signal(id, value, rewind),
            SyncPart::Notification(event) => {
                self.due.set_event(event);
                Vec::new()
            }
        };
        // CAST: one wait a context.
        cx.emit(self.index, Event::SyncObjectSignaled { object: number, released: released.len() as u32 });
        self.contexts_go_on(released);
    }

    /// A context goes or is lost: the mutexes that it has are given up.
    // spec: sync §3.4 (process exit)
    pub fn abandon_mutexes(&mut self, cx: &mut Cx<'_>, context: PacketContextNumber) {
        for id in self.legacy.taken_by(context) {
            let known =
                self.sync_objects.iter().find(|(_, object)| matches!(object.part, SyncPart::Waited(of) if of == id));
            let (number, _) = known.expect("what is owned has not been destroyed");
            cx.emit(self.index, Event::MutexAbandoned { object: number });
            self.signal_sync_object(cx, number, 0, false);
        }
    }

    /// The same of one that was created owned, with the open that created it.
    fn abandon_created(&mut self, cx: &mut Cx<'_>, open: SyncOpenNumber) {
        let number = self.sync_opens[open].object;
        let object = &self.sync_objects[number];
        if let SyncPart::Waited(id) = object.part
            && object.creator == open
            && self.legacy.is_its_creators(id)
        {
            cx.emit(self.index, Event::MutexAbandoned { object: number });
            self.signal_sync_object(cx, number, 0, false);
        }
    }

    /// A device is lost, with the mutexes that it created owned.
    // spec: sync §3.16
    pub fn abandon_created_by(&mut self, cx: &mut Cx<'_>, device: DeviceNumber) {
        let opens: Vec<_> = self.devices[device].sync_objects.iter().copied().collect();
        opens.into_iter().for_each(|open| self.abandon_created(cx, open));
    }

    fn contexts_go_on(&mut self, contexts: Vec<PacketContextNumber>) {
        for context in contexts {
            self.software.forget_wait(context);
            self.due.wait_ended(Waiter::Packets { context });
        }
    }

    fn add_sync_object(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
        (object, flags): (ObjectType, FenceFlags),
        part: SyncPart,
    ) -> SyncOpenNumber {
        let creator = self.sync_opens.next_number();
        let new = SyncObject { part, flags, opens: 0, names: 0, creator, global: RawHandle::NONE };
        let number = self.sync_objects.insert(new);
        cx.emit(self.index, Event::SyncObjectCreated { device: device.raw(), object: number, kind: object.number() });
        let process = self.devices[device].process;
        let open = SyncOpen::of_creator(process, device, number);
        self.add_sync_open(open)
    }
}
