//! The call that takes back what another has made, by its answer: for an answer that names memory of which the caller cannot have the pages,
//! because a process has no descriptor left for them. It is neither the caller's nor the kernel's: a link or a host makes it.

use crate::{Call, DeviceCall, LockCall, QueueCall, Reply, SectionCall, SyncCall};

impl Call {
    /// Whether the call's answer may name words, a mapping or a doorbell: then [`Call::undone_by`] takes it back.
    pub const fn shows_memory(&self) -> bool {
        matches!(
            self,
            Call::Sync(
                SyncCall::CreateNativeFence { .. }
                    | SyncCall::CreateSynchronizationObject2 { .. }
                    | SyncCall::OpenNativeFenceFromNtHandle { .. }
                    | SyncCall::OpenSyncObjectFromNtHandle2 { .. }
            ) | Call::Device(DeviceCall::CreatePagingQueue { .. })
                | Call::Queue(QueueCall::CreateHwQueue { .. } | QueueCall::CreateDoorbell { .. })
                | Call::Section(SectionCall::Create { .. } | SectionCall::CreateOver { .. })
                | Call::Lock(LockCall::Lock { .. } | LockCall::Lock2 { .. })
        )
    }

    /// The call that takes back what this one has made, whose answer names words, a mapping or a doorbell. `None`: the answer names none of them.
    pub fn undone_by(&self, reply: &Reply) -> Option<Call> {
        let destroy_fence = |fence| Call::Sync(SyncCall::DestroySynchronizationObject { fence });
        Some(match (self, reply) {
            (_, Reply::Fence(created)) => destroy_fence(created.fence),
            (_, Reply::MonitoredFence(created)) => destroy_fence(created.fence),
            (_, Reply::PagingQueue(created)) => Call::Device(DeviceCall::DestroyPagingQueue { queue: created.queue }),
            (_, Reply::HwQueue(created)) => Call::Queue(QueueCall::DestroyHwQueue { queue: created.queue }),
            (_, Reply::Doorbell(created)) => Call::Queue(QueueCall::DestroyDoorbell { doorbell: created.doorbell }),
            (_, Reply::Section(created)) => Call::Section(SectionCall::Close { section: created.section }),
            (&Call::Lock(LockCall::Lock { device, .. }), &Reply::Locked { allocation, .. }) => {
                Call::Lock(LockCall::Unlock { device, allocations: vec![allocation] })
            }
            (&Call::Lock(LockCall::Lock2 { device, allocation, .. }), Reply::Mapped(_)) => {
                Call::Lock(LockCall::Unlock2 { device, allocation })
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use wddm_types::RawHandle;

    use super::*;
    use crate::{Mapped, MappingId};

    #[test]
    fn what_a_lock_gave_an_unlock_takes_back_and_what_names_no_memory_is_not_undone() {
        let (device, allocation) = (RawHandle(1), RawHandle(2));
        let mapped = Mapped { mapping: MappingId(7), runs: Vec::new(), size_bytes: 4096 };
        let lock = Call::Lock(LockCall::Lock2 { device, allocation, flags: 0 });
        let unlock = Call::Lock(LockCall::Unlock2 { device, allocation });
        assert_eq!(lock.undone_by(&Reply::Mapped(mapped.clone())), Some(unlock));
        let (private_driver_data, pages, flags) = (0, Vec::new(), crate::LockFlags::empty());
        let first = Call::Lock(LockCall::Lock { device, allocation, private_driver_data, pages, flags });
        // A rename gives another handle, by which the memory is locked.
        let locked = Reply::Locked { allocation: RawHandle(3), mapped };
        let unlock = Call::Lock(LockCall::Unlock { device, allocations: vec![RawHandle(3)] });
        assert_eq!(first.undone_by(&locked), Some(unlock));
        assert_eq!(lock.undone_by(&Reply::Done), None);
    }
}
