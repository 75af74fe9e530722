//! Synchronization objects without a word in memory: mutex, semaphore, packet fence, CPU notification (sync §1.1, §2.2). The
//! kernel alone signals them, when a context comes to the software packet that says so (`packet/software`); what they do then
//! is `gpu_fence`'s. No process waits for them on the CPU, and none signals them from there.

use events::Event;
use gpu_fence::{LegacyError, LegacyId, LegacyKind};
use kmt_calls::{FenceFlags, Refusal};

use crate::adapter::{Adapter, Waiter};
use crate::event::EventName;
use crate::fence::flags::{self, ObjectType};
use crate::machine::Cx;
use crate::refusal::{invalid, not_supported};

/// Such an object.
#[derive(Debug)]
pub struct SyncObject {
    /// The device it was created on.
    pub device: u64,
    /// What it is.
    pub part: SyncPart,
}

/// What can be done with it.
#[derive(Clone, Copy, Debug)]
pub enum SyncPart {
    /// Contexts wait for it.
    Waited(LegacyId),
    /// It sets an event.
    Notification(EventName),
}

impl Adapter {
    /// The types 1 to 3 of `D3DKMTCreateSynchronizationObject2`.
    // spec: sync §1.1, sync §2.2
    pub fn create_legacy_object(
        &mut self,
        cx: &mut Cx<'_>,
        device: u64,
        flags: FenceFlags,
        kind: LegacyKind,
    ) -> Result<u64, Refusal> {
        let object = match kind {
            LegacyKind::MutexObject { .. } => ObjectType::MutexObject,
            LegacyKind::Semaphore { .. } => ObjectType::Semaphore,
            LegacyKind::Fence { .. } => ObjectType::Fence,
        };
        check(object, flags)?;
        let id = self.legacy.create(kind).map_err(|error| match error {
            LegacyError::NoCount => invalid("a semaphore whose MaxCount is 0 lets nobody pass"),
            LegacyError::InitialAboveMax => invalid("InitialCount is above MaxCount"),
        })?;
        Ok(self.add_sync_object(cx, device, SyncPart::Waited(id), object))
    }

    /// The type 4.
    // spec: sync §1.1, sync §2.3, sync §5
    pub fn create_cpu_notification(
        &mut self,
        cx: &mut Cx<'_>,
        device: u64,
        flags: FenceFlags,
        event: EventName,
    ) -> Result<u64, Refusal> {
        check(ObjectType::CpuNotification, flags)?;
        if flags.contains(FenceFlags::SIGNAL_BY_KMD) {
            return Err(not_supported("SignalByKmd: feature KMD_SIGNAL_CPU_EVENT is not built"));
        }
        Ok(self.add_sync_object(cx, device, SyncPart::Notification(event), ObjectType::CpuNotification))
    }

    /// `D3DKMTDestroySynchronizationObject`: contexts that wait for it go on.
    // spec: sync §6 B8
    pub fn destroy_sync_object(&mut self, cx: &mut Cx<'_>, number: u64) {
        let object = self.sync_objects.remove(number).expect("an object is destroyed once");
        if let Some(device) = self.devices.get_mut(object.device) {
            device.sync_objects.remove(&number);
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
                self.set_events.push(event);
                Vec::new()
            }
        };
        // CAST: one wait a context.
        cx.emit(self.index, Event::SyncObjectSignaled { object: number, released: released.len() as u32 });
        self.contexts_go_on(released);
    }

    fn contexts_go_on(&mut self, contexts: Vec<u64>) {
        for context in contexts {
            self.software.forget_wait(context);
            self.due.push_back(Waiter::Packets { context });
        }
    }

    fn add_sync_object(&mut self, cx: &mut Cx<'_>, device: u64, part: SyncPart, object: ObjectType) -> u64 {
        let number = self.sync_objects.insert(SyncObject { device, part });
        self.devices[device].sync_objects.insert(number);
        cx.emit(self.index, Event::SyncObjectCreated { device, object: number, kind: object.number() });
        number
    }
}

fn check(object: ObjectType, flags: FenceFlags) -> Result<(), Refusal> {
    flags::check(object, flags)?;
    if flags.intersects(FenceFlags::SHARED | FenceFlags::CROSS_ADAPTER) {
        return Err(not_supported(format!("shared objects of type {object:?} are not built")));
    }
    Ok(())
}
