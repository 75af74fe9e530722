//! Calls about what several processes have: resources and fences, by the kernel's names and by NT handles.

use kmt_calls::{
    AllocationCall, Call, FenceFlags, KeyedMutexCall, KeyedMutexFlags, OpenSyncObjectRequest, ShareCall, ShareName,
    SyncCall, SyncObjectAccess,
};
use wddm_types::ProcessId;

use super::Generator;
use crate::known::Kind;

const SHARED: FenceFlags = FenceFlags::SHARED.union(FenceFlags::NT_SECURITY_SHARING);

impl Generator<'_> {
    /// Whether a new fence may be shared.
    pub(super) fn fence_sharing(&mut self) -> FenceFlags {
        if self.dice.chance(40) { SHARED } else { FenceFlags::empty() }
    }

    /// The same of an object without a word in memory, which may have a global handle.
    pub(super) fn object_sharing(&mut self) -> FenceFlags {
        match self.dice.below(4) {
            0 => FenceFlags::SHARED,
            1 => SHARED,
            _ => FenceFlags::empty(),
        }
    }

    pub(super) fn sharing_call(&mut self) -> Call {
        let device = self.handle(Kind::Device);
        let nt = self.dice.pick(&self.known.nt_handles).unwrap_or(0);
        let nt = if self.dice.odd() { self.dice.edge() } else { nt };
        let share = if self.dice.chance(70) {
            ShareName::Global(self.handle(Kind::GlobalShare))
        } else {
            ShareName::NtHandle(nt)
        };
        match self.dice.below(16) {
            12 if self.dice.chance(60) => self.access_call(),
            12 => Call::Sync(SyncCall::OpenSynchronizationObject { shared: self.handle(Kind::GlobalShare) }),
            13 => Call::Sync(SyncCall::OpenSyncObjectFromNtHandle { handle: nt }),
            14 => {
                let access = if self.dice.odd() { SyncObjectAccess::WAIT } else { SyncObjectAccess::ALL_ACCESS };
                Call::Share(ShareCall::ShareObjects {
                    objects: vec![self.handle(Kind::SyncObject)],
                    access,
                    name: self.object_name(),
                })
            }
            15 => Call::Sync(SyncCall::DestroySynchronizationObject { fence: self.handle(Kind::SyncObject) }),
            0..3 => {
                let keyed_mutex_data = vec![0xa5; if self.dice.chance(20) { self.dice.below(4) as usize } else { 0 }];
                Call::Allocation(AllocationCall::OpenResource { device, share, keyed_mutex_data })
            }
            3 | 4 => Call::Allocation(AllocationCall::QueryResourceInfo { device, share }),
            5 => Call::Share(ShareCall::ShareObjects {
                objects: vec![self.handle(Kind::Resource)],
                access: SyncObjectAccess::empty(),
                name: self.object_name(),
            }),
            6..8 => {
                let access = match self.dice.below(4) {
                    _ if self.dice.odd() => SyncObjectAccess::from_bits_retain(self.dice.flags32(u32::MAX)),
                    0 => SyncObjectAccess::WAIT | SyncObjectAccess::STANDARD_RIGHTS_READ,
                    1 => SyncObjectAccess::SIGNAL | SyncObjectAccess::STANDARD_RIGHTS_READ,
                    _ => SyncObjectAccess::ALL_ACCESS,
                };
                let count = if self.dice.odd() { self.dice.below(4) } else { 1 };
                let objects = (0..count).map(|_| self.handle(Kind::OwnFence)).collect();
                Call::Share(ShareCall::ShareObjects { objects, access, name: self.object_name() })
            }
            8..=10 => {
                let flags = if self.dice.odd() { self.dice.flags32(0x7FF) } else { 0 };
                let engine_affinity = if self.dice.odd() { self.dice.number32(2) } else { 0 };
                let flags = FenceFlags::from_bits_retain(flags);
                let request =
                    OpenSyncObjectRequest { handle: nt, engine_affinity, flags, ..OpenSyncObjectRequest::default() };
                match self.queues && self.dice.chance(70) {
                    true => Call::Sync(SyncCall::OpenNativeFenceFromNtHandle { device, request }),
                    false => Call::Sync(SyncCall::OpenSyncObjectFromNtHandle2 { device, request }),
                }
            }
            _ if self.dice.chance(60) => self.keyed_mutex_call(),
            _ if self.dice.chance(40) => {
                let (name, sync_object) = (self.object_name().unwrap_or_default(), self.dice.chance(50));
                let access = if self.dice.odd() { self.dice.flags32(u32::MAX) } else { 0x1000_0000 };
                Call::Share(ShareCall::OpenNtHandleFromName { name, access, sync_object })
            }
            _ if self.dice.chance(30) => Call::Share(ShareCall::TakeNtHandle { handle: nt }),
            _ if self.dice.chance(10) => {
                Call::Share(ShareCall::GetSharedResourceAdapterLuid { share: ShareName::NtHandle(nt) })
            }
            _ if self.dice.chance(5) => Call::KeyedMutex(KeyedMutexCall::OpenFromNtHandle { handle: nt }),
            _ => Call::Share(ShareCall::CloseNtHandle { handle: nt }),
        }
    }

    /// Whether a process may use a resource: by the caller's own handle or by a global one.
    fn access_call(&mut self) -> Call {
        let kind = if self.dice.chance(50) { Kind::Resource } else { Kind::GlobalShare };
        let (resource, process) = (self.handle(kind), ProcessId(self.dice.number32(8)));
        Call::Share(ShareCall::CheckSharedResourceAccess { resource, process })
    }

    /// One of a few names, so that they meet; seldom an odd one.
    fn object_name(&mut self) -> Option<String> {
        match self.dice.below(6) {
            0 => Some("One".into()),
            1 => Some("oNE".into()),
            2 if self.dice.odd() => Some("\u{fb01}".repeat(self.dice.below(40_000) as usize)),
            _ => None,
        }
    }

    /// Keyed mutexes, and the set in which one goes round. Few keys, so that they meet.
    fn keyed_mutex_call(&mut self) -> Call {
        let mutex = self.handle(Kind::KeyedMutex);
        let key = self.dice.number(2);
        let data_bytes = if self.dice.chance(30) { self.dice.number32(4) } else { 0 };
        // CAST: a few, but for odd ones, of which a request keeps so many.
        let runtime_data = vec![0x5a; (data_bytes as usize).min(1 << 17)];
        Call::KeyedMutex(match self.dice.below(12) {
            0 | 1 => {
                let flags =
                    KeyedMutexFlags::from_bits_retain(if self.dice.chance(40) { 1 } else { self.dice.flags32(0) });
                KeyedMutexCall::Create { initial_key: key, flags, runtime_data }
            }
            2 | 3 => {
                let shared = self.handle(Kind::GlobalShare);
                KeyedMutexCall::Open { shared, runtime_data }
            }
            4 => KeyedMutexCall::Destroy { mutex },
            5..8 => {
                let timeout_100ns = match self.dice.below(4) {
                    0 if self.endless => None,
                    0 | 1 => Some(0),
                    2 => Some(self.dice.below(100_000)),
                    _ => Some(self.dice.edge()).filter(|_| self.endless).or(Some(1)),
                };
                KeyedMutexCall::Acquire { mutex, key, timeout_100ns, runtime_data_bytes: data_bytes }
            }
            8..11 => KeyedMutexCall::Release { mutex, key, fence_value: self.dice.edge(), runtime_data },
            _ => {
                let objects = vec![self.handle(Kind::Resource), mutex, self.handle(Kind::SyncObject)];
                return Call::Share(ShareCall::ShareObjects {
                    objects,
                    access: SyncObjectAccess::ALL_ACCESS,
                    name: self.object_name(),
                });
            }
        })
    }
}
