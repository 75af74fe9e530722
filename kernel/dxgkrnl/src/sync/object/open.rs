//! A process's opens of synchronization objects without a word in memory, and the names by which others get theirs (sync §2.2, §2.3,
//! §3.4). An object lives as long as it is open or an NT handle names it; a global handle does not keep it.

use events::Event;
use kmt_calls::{FenceFlags, OpenSyncObjectRequest, Refusal, SyncObjectAccess};
use vidmm::StateDigest;
use wddm_types::{ProcessId, RawHandle};

use super::Objects;
use crate::effect::Cx;
use crate::number::{DeviceNumber, SyncObjectNumber, SyncOpenNumber};
use crate::refusal::{access_denied, invalid, no_memory};
use crate::store::ObjectNumber;
use crate::sync::{PointUse, SyncNews, Synchronization, check_open};

/// An open.
#[derive(Clone, Copy, Debug)]
pub(super) struct SyncOpen {
    /// The process that has the handle.
    process: ProcessId,
    /// The device that it goes with; `None`: opened by a call that names none, it goes with its process.
    device: Option<DeviceNumber>,
    /// The object that it opens.
    pub(super) object: SyncObjectNumber,
    access: SyncObjectAccess,
}

impl SyncOpen {
    pub(super) fn of_creator(process: ProcessId, device: DeviceNumber, object: SyncObjectNumber) -> SyncOpen {
        SyncOpen { process, device: Some(device), object, access: SyncObjectAccess::ALL_ACCESS }
    }
}

impl Objects {
    pub(super) fn add_open(&mut self, open: SyncOpen) -> SyncOpenNumber {
        let number = self.opens.insert(open);
        self.objects[open.object].opens += 1;
        self.of_devices.extend(open.device.map(|device| (device, number)));
        number
    }
}

impl Synchronization {
    /// `D3DKMTOpenSynchronizationObject`: by the global handle, which knows no rights.
    // spec: sync §2.2
    pub fn open_global_object(
        &mut self,
        cx: &mut Cx<'_>,
        process: ProcessId,
        object: SyncObjectNumber,
    ) -> SyncOpenNumber {
        self.open_object(cx, SyncOpen { process, device: None, object, access: SyncObjectAccess::ALL_ACCESS })
    }

    /// `D3DKMTOpenSyncObjectFromNtHandle`, and with a device `D3DKMTOpenSyncObjectFromNtHandle2`.
    // spec: sync §2.2, sync §2.3, sync §3.3 step 1
    pub fn open_named_object(
        &mut self,
        cx: &mut Cx<'_>,
        (process, device): (ProcessId, Option<DeviceNumber>),
        (object, access): (SyncObjectNumber, SyncObjectAccess),
        request: OpenSyncObjectRequest,
    ) -> Result<SyncOpenNumber, Refusal> {
        check_open(access, FenceFlags::empty(), &request)?;
        if !request.flags.is_empty() {
            return Err(invalid(format!("{:?} is for monitored fences", request.flags)));
        }
        Ok(self.open_object(cx, SyncOpen { process, device, object, access }))
    }

    fn open_object(&mut self, cx: &mut Cx<'_>, open: SyncOpen) -> SyncOpenNumber {
        let number = self.objects.add_open(open);
        let opened = Event::SyncObjectOpened { process: open.process.0, object: open.object.raw(), open: number.raw() };
        cx.emit(self.adapter, opened);
        number
    }

    /// `D3DKMTDestroySynchronizationObject`: the last destroys it.
    // spec: sync §3.4
    pub fn close_object(&mut self, cx: &mut Cx<'_>, number: SyncOpenNumber) -> Vec<SyncNews> {
        let mut news = self.abandon_created(cx, number);
        let open = self.objects.opens.remove(number).expect("an open is closed once");
        if let Some(device) = open.device {
            let listed = self.objects.of_devices.remove(&(device, number));
            debug_assert!(listed, "an open stands in the index of its device: {number:?}");
        }
        let object = &mut self.objects.objects[open.object];
        debug_assert!(object.opens > 0, "an object counts its opens: {object:?}");
        object.opens -= 1;
        news.extend(self.drop_unreached(cx, open.object));
        news
    }

    /// `D3DKMTShareObjects`: it has one name more.
    // spec: sync §2.2, sync §5
    pub fn share_object(
        &mut self,
        open: SyncOpenNumber,
        access: SyncObjectAccess,
    ) -> Result<SyncObjectNumber, Refusal> {
        let open = &self.objects.opens[open];
        let object = &self.objects.objects[open.object];
        let unknown = access.difference(SyncObjectAccess::ALL_ACCESS);
        if !unknown.is_empty() {
            return Err(invalid(format!("access {:#x} is nothing that a synchronization object has", unknown.bits())));
        }
        if !object.flags.contains(FenceFlags::NT_SECURITY_SHARING) {
            return Err(invalid("the synchronization object was not created with NtSecuritySharing"));
        }
        if !open.access.contains(access) {
            return Err(access_denied("the process's own open gives less access than the NT handle asks for"));
        }
        let object = open.object;
        self.name_object_again(object)?;
        Ok(object)
    }

    /// Gives an object that has a name, or gets its first, one more.
    pub fn name_object_again(&mut self, object: SyncObjectNumber) -> Result<(), Refusal> {
        let names = &mut self.objects.objects[object].names;
        *names = names.checked_add(1).ok_or_else(|| no_memory("the object has too many names"))?;
        Ok(())
    }

    /// A name has gone.
    pub fn unname_object(&mut self, cx: &mut Cx<'_>, object: SyncObjectNumber) -> Vec<SyncNews> {
        let known = &mut self.objects.objects[object];
        debug_assert!(known.names > 0, "an object counts its names: {known:?}");
        known.names -= 1;
        self.drop_unreached(cx, object)
    }

    /// The object of an open, if contexts of its process may do this with it.
    // spec: sync §2.2, sync §5
    pub fn usable_object(&self, open: SyncOpenNumber, what: PointUse) -> Result<SyncObjectNumber, Refusal> {
        let open = &self.objects.opens[open];
        let wanted = what.access();
        if !open.access.contains(wanted) {
            return Err(access_denied(format!("the NT handle that it was opened by does not give {wanted:?}")));
        }
        Ok(open.object)
    }

    /// The object of an open.
    pub fn object_of(&self, open: SyncOpenNumber) -> SyncObjectNumber {
        self.objects.opens[open].object
    }

    /// The process that has the handle of an open, if there is such an open.
    pub fn process_of_open(&self, open: SyncOpenNumber) -> Option<ProcessId> {
        self.objects.opens.get(open).map(|open| open.process)
    }

    /// The opens that go with a device.
    pub fn opens_of_device(&self, device: DeviceNumber) -> Vec<SyncOpenNumber> {
        let (first, last) = (SyncOpenNumber::from_raw(0), SyncOpenNumber::from_raw(u64::MAX));
        self.objects.of_devices.range((device, first)..=(device, last)).map(|(_, open)| *open).collect()
    }

    /// The opens of a process, those that go with a device and those that go with none.
    pub fn opens_of_process(&self, process: ProcessId) -> Vec<SyncOpenNumber> {
        let of = self.objects.opens.iter().filter(|(_, open)| open.process == process);
        of.map(|(number, _)| number).collect()
    }

    /// All opens.
    pub fn object_opens(&self) -> impl Iterator<Item = SyncOpenNumber> + '_ {
        self.objects.opens.iter().map(|(number, _)| number)
    }

    /// The global handle of an object, NONE if it has none; `None`: there is no such object.
    pub fn global_of(&self, object: SyncObjectNumber) -> Option<RawHandle> {
        self.objects.objects.get(object).map(|object| object.global)
    }

    /// The global handles of all objects, NONE among them.
    pub fn globals(&self) -> impl Iterator<Item = RawHandle> + '_ {
        self.objects.objects.iter().map(|(_, object)| object.global)
    }

    /// For the digest of the adapter's state.
    pub(in crate::sync) fn add_objects_to(&self, digest: &mut StateDigest) {
        self.objects.objects.iter().for_each(|(id, object)| digest.add("sync object", &id, object));
        self.objects.opens.iter().for_each(|(id, open)| digest.add("open of a sync object", &id, open));
    }

    /// The first thing that is not as the head of this part says. `names`: how many NT handles name an object.
    ///
    /// # Errors
    /// What is wrong.
    // spec: sync §2.2, sync §3.4
    pub fn check_objects(&self, names: impl Fn(SyncObjectNumber) -> usize) -> Result<(), String> {
        let Objects { objects, opens, of_devices, .. } = &self.objects;
        for (number, object) in objects.iter() {
            let (named, open) = (names(number), opens.iter().filter(|(_, open)| open.object == number).count());
            let counted = (object.opens as usize, object.names as usize) == (open, named);
            if !counted || open + named == 0 {
                return Err(format!("object {number:?}, {open} opens, {named} names: {object:?}"));
            }
        }
        for (number, open) in opens.iter() {
            let indexed = open.device.is_none_or(|device| of_devices.contains(&(device, number)));
            if objects.get(open.object).is_none() || !indexed {
                return Err(format!("open {number:?} is of nothing, or not its device's: {open:?}"));
            }
        }
        let with_device = opens.iter().filter(|(_, open)| open.device.is_some()).count();
        if with_device != of_devices.len() {
            return Err(format!("{with_device} opens go with devices, {} stand there", of_devices.len()));
        }
        Ok(())
    }
}
