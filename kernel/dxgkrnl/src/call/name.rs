//! Names of shared objects: NT handles that are opened by one (`D3DKMTOpenSyncObjectNtHandleFromName`, `D3DKMTOpenNtHandleFromName`).
//!
//! There are no security descriptors here. The process that names a synchronization object says with the name what access others may have
//! at most; a resource's name gives everything, as its NT handle does.

use kmt_calls::{Refusal, Reply, SyncObjectAccess};
use wddm_types::{Blame, NtStatus};

use crate::call::{Turn, done};
use crate::effect::{Answer, Cx};
use crate::nt_handle::Shared;
use crate::refusal::{access_denied, invalid, refuse};
use crate::store::ObjectNumber;

/// `GENERIC_ALL` and `MAXIMUM_ALLOWED`: all that the name gives.
const EVERYTHING: u32 = 0x1000_0000 | 0x0200_0000;

impl Turn<'_> {
    /// An NT handle of its own for the caller, which keeps the name.
    pub(super) fn open_by_name(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        access: u32,
        sync_object: bool,
    ) -> Result<Answer, Refusal> {
        let (key, object) = self.nt_handles.find(name)?;
        let is_sync_object =
            matches!(object, Shared::Fence { .. } | Shared::SyncObject { .. } | Shared::CrossFence { .. });
        if is_sync_object != sync_object {
            let reason = format!("what is called {name:?} is of another kind");
            return Err(refuse(NtStatus::OBJECT_TYPE_MISMATCH, Blame::Caller, reason));
        }
        if access == 0 {
            return Err(access_denied("no access is asked for"));
        }
        let object = with_access(object, access)?;
        self.name_again(object)?;
        match self.nt_handles.share_as(self.from, object, &key) {
            Ok(token) => done(Reply::NtHandle(token.raw())),
            Err(refusal) => {
                self.unname(cx, object);
                Err(refusal)
            }
        }
    }

    /// An object with an NT handle gets one more.
    pub(super) fn name_again(&mut self, object: Shared) -> Result<(), Refusal> {
        match object {
            Shared::Fence { adapter, fence, .. } => self.adapters[adapter].name_fence_again(fence),
            Shared::CrossFence { fence, .. } => self.cross_fences.name(fence),
            Shared::SyncObject { adapter, object, .. } => self.adapters[adapter].name_sync_object_again(object),
            Shared::ResourceSet { adapter, body, keyed_mutex, sync_object } => {
                self.keyed_mutexes.name(keyed_mutex)?;
                let named = self.adapters[adapter].name_sync_object_again(sync_object);
                named.inspect_err(|_| self.keyed_mutexes.take_name_back(keyed_mutex))?;
                self.adapters[adapter].name_resource(body);
                Ok(())
            }
            Shared::Resource { adapter, body } => {
                self.adapters[adapter].name_resource(body);
                Ok(())
            }
            Shared::Process { .. } | Shared::Ended => Err(invalid("processes have no names")),
        }
    }
}

/// The object with the access that the caller asks for, if its name gives that.
fn with_access(object: Shared, asked: u32) -> Result<Shared, Refusal> {
    let narrowed = |given: SyncObjectAccess| {
        if asked & EVERYTHING != 0 {
            return Ok(given);
        }
        let asked = SyncObjectAccess::from_bits_retain(asked);
        match given.contains(asked) {
            true => Ok(asked),
            false => Err(access_denied(format!("the name gives {given:?}, and {asked:?} is asked for"))),
        }
    };
    Ok(match object {
        Shared::Fence { adapter, fence, access } => Shared::Fence { adapter, fence, access: narrowed(access)? },
        Shared::SyncObject { adapter, object, access } => {
            Shared::SyncObject { adapter, object, access: narrowed(access)? }
        }
        Shared::CrossFence { fence, access } => Shared::CrossFence { fence, access: narrowed(access)? },
        other => other,
    })
}
