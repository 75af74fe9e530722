//! Calls on keyed mutexes, none of which needs an adapter, and the ends of those that go round with a resource.

use kmt_calls::{CreatedKeyedMutex, KeyedMutexCall, OpenSyncObjectRequest, Refusal, Reply, SyncObjectAccess};
use wddm_types::{AdapterIndex, Blame, NtStatus, RawHandle};

use crate::call::{Turn, done};
use crate::effect::{Answer, Cx};
use crate::global_handle::Global;
use crate::keyed_mutex::Acquire;
use crate::number::{
    DeviceNumber, KeyedMutexNumber, KeyedMutexOpenNumber, NtHandleNumber, SyncObjectNumber, SyncOpenNumber,
};
use crate::object::Object;
use crate::refusal::{invalid, refuse};
use crate::store::ObjectNumber;

/// What was opened with a shared resource and goes with it.
#[derive(Clone, Copy)]
pub(super) struct Companions {
    /// The open of the keyed mutex.
    mutex: KeyedMutexOpenNumber,
    /// Adapter and number of the synchronization object's open.
    sync_object: (AdapterIndex, SyncOpenNumber),
}

impl Companions {
    /// Both, to be named.
    pub(super) fn objects(self) -> [Object; 2] {
        [Object::KeyedMutex(self.mutex), Object::Legacy(self.sync_object.0, self.sync_object.1)]
    }
}

impl Turn<'_> {
    pub(super) fn on_keyed_mutex(&mut self, cx: &mut Cx<'_>, call: KeyedMutexCall) -> Result<Answer, Refusal> {
        match call {
            KeyedMutexCall::Create { initial_key, flags, runtime_data } => {
                self.room_for_global()?;
                let open = self.keyed_mutexes.create(cx, self.from, (initial_key, flags), runtime_data)?;
                let mutex = self.name(Object::KeyedMutex(open))?;
                done(Reply::KeyedMutex(CreatedKeyedMutex { mutex, global_share: self.name_keyed_mutex(open) }))
            }
            KeyedMutexCall::Open { shared, runtime_data } => {
                let Some(Global::KeyedMutex { mutex }) = self.globals.get(shared) else {
                    return Err(invalid("no keyed mutex has this global handle"));
                };
                let open = self.keyed_mutexes.open(cx, self.from, None, (mutex, runtime_data))?;
                done(Reply::Handle(self.name(Object::KeyedMutex(open))?))
            }
            // spec: sync §2.2: the allowed sets have no keyed mutex alone
            KeyedMutexCall::OpenFromNtHandle { handle } => {
                let what = self.nt_handles.named(NtHandleNumber::from_raw(handle))?.what();
                let reason = format!("an NT handle of {what}: a keyed mutex has none for itself alone");
                Err(refuse(NtStatus::OBJECT_TYPE_MISMATCH, Blame::Caller, reason))
            }
            KeyedMutexCall::Destroy { mutex } => {
                let open = self.keyed_mutex(mutex)?;
                self.process.handles.remove(mutex);
                self.close_keyed_mutex(cx, open);
                done(Reply::Done)
            }
            KeyedMutexCall::Acquire { mutex, key, timeout_100ns, runtime_data_bytes: data_bytes } => {
                let open = self.keyed_mutex(mutex)?;
                self.keyed_mutexes.acquire(cx, self.token, open, Acquire { key, timeout_100ns, data_bytes })
            }
            KeyedMutexCall::Release { mutex, key, fence_value, runtime_data } => {
                let open = self.keyed_mutex(mutex)?;
                self.keyed_mutexes.release(cx, open, (key, fence_value), runtime_data)?;
                done(Reply::Done)
            }
        }
    }

    /// The global handle of one that was just created; NONE: it goes by NT handle.
    // spec: sync §2.2: with NtSecuritySharing there is no global handle
    fn name_keyed_mutex(&mut self, open: KeyedMutexOpenNumber) -> RawHandle {
        let mutex = self.keyed_mutexes.open_of(open).expect("just created").mutex;
        if self.keyed_mutexes.get(mutex).is_some_and(|known| known.goes_by_nt_handle()) {
            return RawHandle::NONE;
        }
        let global = self.globals.name(Global::KeyedMutex { mutex });
        self.keyed_mutexes.goes_by(open, global);
        global
    }

    /// Opens what was shared with a resource, for the device that opens it: its keyed mutex and its synchronization object. Nothing in the
    /// way of that is left when the resource itself could be opened.
    // spec: sync §2.2 (allowed sets)
    pub(super) fn open_companions(
        &mut self,
        cx: &mut Cx<'_>,
        (index, device): (AdapterIndex, DeviceNumber),
        with: Option<(KeyedMutexNumber, SyncObjectNumber)>,
        keyed_mutex_data: Vec<u8>,
    ) -> Option<Companions> {
        let (mutex, sync_object) = with?;
        let opened = self.keyed_mutexes.open(cx, self.from, Some((index, device)), (mutex, keyed_mutex_data));
        let open = opened.expect("the data were checked");
        let all = (sync_object, SyncObjectAccess::ALL_ACCESS);
        let (of, request) = ((self.from, Some(device)), OpenSyncObjectRequest::default());
        let sync = self.adapters[index].open_named_object(cx, of, all, request);
        let sync = sync.expect("the set gives every access");
        Some(Companions { mutex: open, sync_object: (index, sync) })
    }

    /// Takes back companions that got no handle.
    pub(super) fn close_companions(&mut self, cx: &mut Cx<'_>, Companions { mutex, sync_object }: Companions) {
        self.close_keyed_mutex(cx, mutex);
        let (index, open) = sync_object;
        self.adapters[index].close_sync_object(cx, open);
    }

    /// A device goes: closes the keyed mutexes that it has opened with a resource. An open that owns its mutex abandons it.
    pub(super) fn close_keyed_mutexes_of(&mut self, cx: &mut Cx<'_>, device: (AdapterIndex, DeviceNumber)) {
        for open in self.keyed_mutexes.opens_of_device(device) {
            self.process.handles.remove_object(Object::KeyedMutex(open));
            self.close_keyed_mutex(cx, open);
        }
    }

    /// An open goes, with the global handle if it was the last.
    pub(super) fn close_keyed_mutex(&mut self, cx: &mut Cx<'_>, open: KeyedMutexOpenNumber) {
        if let Some(gone) = self.keyed_mutexes.close(cx, open) {
            self.globals.forget(gone);
        }
    }
}
