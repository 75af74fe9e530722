//! Synchronization objects without a word in memory: mutex, semaphore, packet fence, CPU notification (sync §1.1, §2.2). The kernel alone
//! signals them, when a context comes to the software packet that says so (`packet/software`); `gpu_fence` carries the signal out. No
//! process waits for them on the CPU, and none signals them from there. `open` keeps their opens and names.
//!
//! # Waits without a signal
//! A mutex is its taker's: a context that is destroyed or lost gives up the mutexes that it has, and a mutex that was created owned is
//! given up with the open that created it; else a process that dies would stop all others (decision 0020). A semaphore and a packet fence
//! have no owner: a signal that was dropped with its context never comes.

mod open;

use std::collections::BTreeSet;

use events::Event;
use gpu_fence::{LegacyError, LegacyId, LegacyKind, LegacyObjects, LegacyWait, LegacyWaitId};
use kmt_calls::{FenceFlags, Refusal};
use wddm_types::{ProcessId, RawHandle};

use super::{ObjectType, SyncNews, Synchronization, check_flags};
use crate::due::Waiter;
use crate::effect::Cx;
use crate::number::{DeviceNumber, EventName, PacketContextNumber, SyncObjectNumber, SyncOpenNumber};
use crate::refusal::{invalid, not_supported};
use crate::store::{ObjectNumber, Store};

use open::SyncOpen;

/// The objects of an adapter, and their opens.
#[derive(Default)]
pub(super) struct Objects {
    objects: Store<SyncObjectNumber, SyncObject>,
    opens: Store<SyncOpenNumber, SyncOpen>,
    /// The opens that go with a device, by it.
    of_devices: BTreeSet<(DeviceNumber, SyncOpenNumber)>,
    /// How the objects stand that contexts wait for; a wait gives its context back.
    waited: LegacyObjects<PacketContextNumber>,
}

/// Such an object.
#[derive(Debug)]
struct SyncObject {
    part: SyncPart,
    flags: FenceFlags,
    /// How many have it open.
    opens: u32,
    /// NT handles that name it.
    names: u32,
    /// The open that created it.
    creator: SyncOpenNumber,
    /// Its global handle, if it is shared that way.
    global: RawHandle,
}

/// The use of a synchronization object.
#[derive(Clone, Copy, Debug)]
enum SyncPart {
    /// Contexts wait for it.
    Waited(LegacyId),
    /// It sets an event.
    Notification(EventName),
}

impl Synchronization {
    /// The types 1 to 3 of `D3DKMTCreateSynchronizationObject2`. Answers with the creator's open.
    // spec: sync §1.1, sync §2.2
    pub fn create_object(
        &mut self,
        cx: &mut Cx<'_>,
        (process, device): (ProcessId, DeviceNumber),
        flags: FenceFlags,
        kind: LegacyKind,
    ) -> Result<SyncOpenNumber, Refusal> {
        let object = match kind {
            LegacyKind::MutexObject { .. } => ObjectType::MutexObject,
            LegacyKind::Semaphore { .. } => ObjectType::Semaphore,
            LegacyKind::Fence { .. } => ObjectType::Fence,
        };
        check_flags(object, flags)?;
        let id = self.objects.waited.create(kind).map_err(|error| match error {
            LegacyError::InitialAboveMax => invalid("InitialCount is above MaxCount"),
        })?;
        Ok(self.add_object(cx, (process, device), (object, flags), SyncPart::Waited(id)))
    }

    /// The type 4.
    // spec: sync §1.1, sync §2.3, sync §5
    pub fn create_cpu_notification(
        &mut self,
        cx: &mut Cx<'_>,
        of: (ProcessId, DeviceNumber),
        flags: FenceFlags,
        event: EventName,
    ) -> Result<SyncOpenNumber, Refusal> {
        check_flags(ObjectType::CpuNotification, flags)?;
        if flags.contains(FenceFlags::SIGNAL_BY_KMD) {
            // Feature 3 has a name in the sheet and no law: by what callback a driver would name the event is not known.
            return Err(not_supported(
                "SignalByKmd: this kernel has no feature KMD_SIGNAL_CPU_EVENT, by which a driver would signal it",
            ));
        }
        Ok(self.add_object(cx, of, (ObjectType::CpuNotification, flags), SyncPart::Notification(event)))
    }

    fn add_object(
        &mut self,
        cx: &mut Cx<'_>,
        (process, device): (ProcessId, DeviceNumber),
        (object, flags): (ObjectType, FenceFlags),
        part: SyncPart,
    ) -> SyncOpenNumber {
        let creator = self.objects.opens.next_number();
        let new = SyncObject { part, flags, opens: 0, names: 0, creator, global: RawHandle::NONE };
        let number = self.objects.objects.insert(new);
        cx.emit(
            self.adapter,
            Event::SyncObjectCreated { device: device.raw(), object: number.raw(), kind: object.number() },
        );
        self.objects.add_open(SyncOpen::of_creator(process, device, number))
    }

    /// The object gets its global handle.
    pub fn give_global(&mut self, object: SyncObjectNumber, global: RawHandle) {
        let known = &mut self.objects.objects[object].global;
        assert_eq!(*known, RawHandle::NONE, "an object is given its global handle once");
        *known = global;
    }

    /// Whether contexts can wait for an object: it is no CPU notification.
    pub fn is_waited_for_by_contexts(&self, object: SyncObjectNumber) -> bool {
        matches!(self.objects.objects[object].part, SyncPart::Waited(_))
    }

    /// A context has come to its wait for these objects, all at once; those that have gone meanwhile hold nothing. `None`: it holds already;
    /// else the number by which the wait is given up.
    // spec: sync §3.8
    pub fn wait_for_objects(
        &mut self,
        context: PacketContextNumber,
        objects: &[SyncObjectNumber],
        value: u64,
    ) -> Option<LegacyWaitId> {
        let waited = |number: &SyncObjectNumber| match self.objects.objects.get(*number)?.part {
            SyncPart::Waited(id) => Some(id),
            SyncPart::Notification(_) => None,
        };
        let ids: Vec<LegacyId> = objects.iter().filter_map(waited).collect();
        match self.objects.waited.wait(&ids, value, context) {
            LegacyWait::Satisfied(_) => None,
            LegacyWait::Pending(wait) => Some(wait),
        }
    }

    /// Signals such an object; `value` and `rewind` are for a fence.
    // spec: sync §3.7
    pub fn signal_object(
        &mut self,
        cx: &mut Cx<'_>,
        number: SyncObjectNumber,
        value: u64,
        rewind: bool,
    ) -> Vec<SyncNews> {
        // It may have been destroyed while the packet waited for its turn.
        let Some(object) = self.objects.objects.get(number) else { return Vec::new() };
        let (released, event) = match object.part {
            SyncPart::Waited(id) => (self.objects.waited.signal(id, value, rewind), None),
            SyncPart::Notification(event) => (Vec::new(), Some(event)),
        };
        // CAST: one wait a context.
        let count = released.len() as u32;
        cx.emit(self.adapter, Event::SyncObjectSignaled { object: number.raw(), released: count });
        event.map(SyncNews::SetEvent).into_iter().chain(go_on(released)).collect()
    }

    /// A context goes or is lost: its wait, if it has one, is given up, and so are the mutexes that it has.
    // spec: sync §3.4 (process exit)
    pub fn context_leaves(
        &mut self,
        cx: &mut Cx<'_>,
        context: PacketContextNumber,
        wait: Option<LegacyWaitId>,
    ) -> Vec<SyncNews> {
        if let Some(wait) = wait {
            self.objects.waited.cancel(wait);
        }
        let mut news = Vec::new();
        for id in self.objects.waited.taken_by(context) {
            let is = |part: SyncPart| matches!(part, SyncPart::Waited(of) if of == id);
            let known = self.objects.objects.iter().find(|(_, object)| is(object.part));
            let (number, _) = known.expect("what is owned has not been destroyed");
            news.extend(self.abandon(cx, number));
        }
        news
    }

    /// A device is lost, with the mutexes that it created owned.
    // spec: sync §3.16
    pub fn device_lost(&mut self, cx: &mut Cx<'_>, device: DeviceNumber) -> Vec<SyncNews> {
        let opens = self.opens_of_device(device);
        opens.into_iter().flat_map(|open| self.abandon_created(cx, open)).collect()
    }

    /// A mutex that was created owned is given up with the open that created it.
    fn abandon_created(&mut self, cx: &mut Cx<'_>, open: SyncOpenNumber) -> Vec<SyncNews> {
        let number = self.objects.opens[open].object;
        let object = &self.objects.objects[number];
        match object.part {
            SyncPart::Waited(id) if object.creator == open && self.objects.waited.is_its_creators(id) => {
                self.abandon(cx, number)
            }
            _ => Vec::new(),
        }
    }

    fn abandon(&mut self, cx: &mut Cx<'_>, mutex: SyncObjectNumber) -> Vec<SyncNews> {
        debug_assert!(self.is_waited_for_by_contexts(mutex), "what is given up has been taken: {mutex:?}");
        cx.emit(self.adapter, Event::MutexAbandoned { object: mutex.raw() });
        self.signal_object(cx, mutex, 0, false)
    }

    /// The last open or name may have gone: then the object goes, and contexts that wait for it go on.
    // spec: sync §3.4, sync §6 B8
    fn drop_unreached(&mut self, cx: &mut Cx<'_>, number: SyncObjectNumber) -> Vec<SyncNews> {
        let known = &self.objects.objects[number];
        if known.opens > 0 || known.names > 0 {
            return Vec::new();
        }
        let object = self.objects.objects.remove(number).expect("just seen");
        let global = (object.global != RawHandle::NONE).then_some(SyncNews::GlobalGone(object.global));
        let released = match object.part {
            SyncPart::Waited(id) => self.objects.waited.destroy(id),
            SyncPart::Notification(_) => Vec::new(),
        };
        cx.emit(self.adapter, Event::SyncObjectDestroyed { object: number.raw() });
        global.into_iter().chain(go_on(released)).collect()
    }
}

fn go_on(contexts: Vec<PacketContextNumber>) -> impl Iterator<Item = SyncNews> {
    contexts.into_iter().map(|context| SyncNews::Ended(Waiter::Packets { context }))
}
