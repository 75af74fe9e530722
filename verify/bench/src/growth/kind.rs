//! The kinds of objects that there can be many of: how one is made, what is called on one, how one is destroyed. Called by `growth`.

use d3dkmt::{
    Adapter, Device, Event, EvictFlags, FenceFlags, GpuVaReservation, MakeResidentFlags, NativeFenceRequest,
    OfferFlags, OpenSyncObjectRequest, Resource, Section, SyncObjectAccess, VirtualContext, WaitFlags,
};
use wddm_types::{NodeId, PAGE_BYTES};

use super::crowd::Crowd;
use crate::report::BenchError;

/// A call by its name, on the object of this number; made, the new one's.
pub(super) type Act = (&'static str, fn(&mut Crowd, usize) -> Result<(), BenchError>);

/// Objects of one kind.
pub(super) struct Kind {
    pub name: &'static str,
    pub count: fn(&Crowd) -> usize,
    pub make: Act,
    pub calls: &'static [Act],
    pub destroy: Act,
    /// Most that there can be, where that is fewer than the sizes ask for: the software GPU has 256 hardware queues, and a packet
    /// context takes one.
    pub most: Option<usize>,
    /// A call that grows faster than the logarithm, and why.
    pub reason: Option<(&'static str, &'static str)>,
}

/// The software GPU's first engine.
const NODE: NodeId = NodeId(0);

/// The one that takes packets, too.
const COPY: NodeId = NodeId(1);

/// All kinds.
pub(super) const KINDS: [Kind; 18] = [
    Kind {
        name: "devices",
        count: |crowd| crowd.devices.len(),
        make: ("CreateDevice", |crowd, _| {
            crowd.devices.push(Device::create(crowd.gpu.adapter())?);
            Ok(())
        }),
        calls: &[("GetDeviceState", |crowd, at| Ok(crowd.devices[at].state().map(drop)?))],
        destroy: ("DestroyDevice", |crowd, at| gone(crowd.devices.swap_remove(at))),
        most: None,
        reason: None,
    },
    Kind {
        name: "processes with a device",
        count: |crowd| crowd.processes.len(),
        make: ("a process begins", |crowd, _| {
            let adapter = Adapter::open_first(crowd.another_process()?)?;
            crowd.processes.push(Device::create(&adapter)?);
            Ok(())
        }),
        calls: &[("GetDeviceState", |crowd, at| Ok(crowd.processes[at].state().map(drop)?))],
        destroy: ("a process ends", |crowd, at| gone(crowd.processes.swap_remove(at))),
        most: None,
        reason: None,
    },
    Kind {
        name: "allocations",
        count: |crowd| crowd.allocations.len(),
        make: ("CreateAllocation2", |crowd, _| {
            let page = Crowd::page(crowd.gpu.device())?;
            crowd.allocations.push(page);
            Ok(())
        }),
        calls: &[
            ("QueryAllocationResidency", |crowd, at| Ok(crowd.allocations[at].residency().map(drop)?)),
            ("SetAllocationPriority", |crowd, at| Ok(crowd.allocations[at].set_priority(0x7800_0001)?)),
            ("OfferAllocations, ReclaimAllocations", |crowd, at| {
                let list = vec![crowd.allocations[at].handle()];
                crowd.gpu.device().offer(list.clone(), 2, OfferFlags::empty())?;
                Ok(crowd.gpu.device().reclaim(list, false).map(drop)?)
            }),
        ],
        destroy: ("DestroyAllocation2", |crowd, at| gone(crowd.allocations.swap_remove(at))),
        most: None,
        reason: None,
    },
    Kind {
        name: "allocations on a list",
        count: |crowd| crowd.allocations.len(),
        make: ("CreateAllocation2, MakeResident", |crowd, _| {
            let page = Crowd::page(crowd.gpu.device())?;
            crowd.gpu.paging().make_resident(vec![page.handle()], MakeResidentFlags::empty())?;
            crowd.allocations.push(page);
            Ok(())
        }),
        calls: &[
            ("MakeResident, Evict", |crowd, at| {
                let list = vec![crowd.allocations[at].handle()];
                crowd.gpu.paging().make_resident(list.clone(), MakeResidentFlags::empty())?;
                Ok(crowd.gpu.device().evict(list, EvictFlags::EVICT_ONLY_IF_NECESSARY).map(drop)?)
            }),
            ("Evict, MakeResident", |crowd, at| {
                let list = vec![crowd.allocations[at].handle()];
                crowd.gpu.device().evict(list.clone(), EvictFlags::empty())?;
                Ok(crowd.gpu.paging().make_resident(list, MakeResidentFlags::empty()).map(drop)?)
            }),
            ("Lock2, Unlock2", |crowd, at| gone(crowd.allocations[at].lock()?)),
        ],
        destroy: ("DestroyAllocation2", |crowd, at| gone(crowd.allocations.swap_remove(at))),
        most: None,
        reason: None,
    },
    Kind {
        name: "mappings",
        count: |crowd| crowd.addresses.len(),
        make: ("MapGpuVirtualAddress", |crowd, _| {
            if crowd.allocations.is_empty() {
                let page = Crowd::page(crowd.gpu.device())?;
                crowd.allocations.push(page);
            }
            let (va, _) = crowd.gpu.paging().map(&crowd.allocations[0], 1, true)?;
            crowd.addresses.push(va);
            Ok(())
        }),
        calls: &[],
        destroy: ("FreeGpuVirtualAddress", |crowd, at| {
            let va = crowd.addresses.swap_remove(at);
            Ok(crowd.gpu.device().free_gpu_va(va, PAGE_BYTES)?)
        }),
        most: None,
        reason: None,
    },
    Kind {
        name: "reservations",
        count: |crowd| crowd.addresses.len(),
        make: ("ReserveGpuVirtualAddress", |crowd, _| {
            let reservation = GpuVaReservation { size_bytes: RESERVED_BYTES, ..GpuVaReservation::default() };
            let va = crowd.gpu.device().reserve_gpu_va(reservation)?;
            crowd.addresses.push(va);
            Ok(())
        }),
        calls: &[],
        destroy: ("FreeGpuVirtualAddress", |crowd, at| {
            let va = crowd.addresses.swap_remove(at);
            Ok(crowd.gpu.device().free_gpu_va(va, RESERVED_BYTES)?)
        }),
        most: None,
        reason: None,
    },
    Kind {
        name: "sections",
        count: |crowd| crowd.sections.len(),
        make: ("CreateSection", |crowd, _| {
            let section = Section::create(crowd.gpu.adapter(), PAGE_BYTES)?;
            crowd.sections.push(section);
            Ok(())
        }),
        calls: &[],
        destroy: ("CloseSection", |crowd, at| gone(crowd.sections.swap_remove(at))),
        most: None,
        reason: None,
    },
    Kind {
        name: "opened resources",
        count: |crowd| crowd.resources.len(),
        make: ("OpenResource2", |crowd, _| {
            if crowd.resources.is_empty() {
                crowd.resources.push(Crowd::shared_page(crowd.gpu.device())?);
            }
            let share = crowd.resources[0].global_share();
            crowd.resources.push(Resource::open(crowd.gpu.device(), share)?);
            Ok(())
        }),
        calls: &[("QueryResourceInfo", |crowd, _| {
            let share = crowd.resources[0].global_share();
            crowd.gpu.device().query_resource_info(share)?;
            Ok(())
        })],
        // The first goes last.
        destroy: ("DestroyAllocation2", |crowd, at| gone(crowd.resources.swap_remove(at.max(1)))),
        most: None,
        reason: None,
    },
    Kind {
        name: "monitored fences",
        count: |crowd| crowd.fences.len(),
        make: ("CreateSynchronizationObject2", |crowd, _| {
            let fence = crowd.gpu.device().create_monitored_fence(FenceFlags::empty(), 0)?;
            crowd.fences.push(fence);
            Ok(())
        }),
        calls: SIGNALS,
        destroy: ("DestroySynchronizationObject", |crowd, at| gone(crowd.fences.swap_remove(at))),
        most: None,
        reason: None,
    },
    Kind {
        name: "native fences",
        count: |crowd| crowd.fences.len(),
        make: ("CreateNativeFence", |crowd, _| {
            let fence = crowd.gpu.device().create_native_fence(NativeFenceRequest::default())?;
            crowd.fences.push(fence);
            Ok(())
        }),
        calls: SIGNALS,
        destroy: ("DestroySynchronizationObject", |crowd, at| gone(crowd.fences.swap_remove(at))),
        most: None,
        reason: None,
    },
    Kind {
        name: "shareable native fences",
        count: |crowd| crowd.fences.len(),
        make: ("CreateNativeFence", |crowd, _| {
            let flags = FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING;
            let request = NativeFenceRequest { flags, ..NativeFenceRequest::default() };
            crowd.fences.push(crowd.gpu.device().create_native_fence(request)?);
            Ok(())
        }),
        calls: SIGNALS,
        destroy: ("DestroySynchronizationObject", |crowd, at| gone(crowd.fences.swap_remove(at))),
        most: None,
        reason: None,
    },
    Kind {
        name: "waits for one fence",
        count: |crowd| crowd.waits,
        make: ("WaitForSynchronizationObjectFromCpu", |crowd, number| {
            if crowd.fences.is_empty() {
                let fence = crowd.gpu.device().create_monitored_fence(FenceFlags::empty(), 0)?;
                crowd.fences.push(fence);
                crowd.events.push(Event::create(crowd.gpu.device().link(), true)?);
            }
            crowd.waits += 1;
            // None of these values is reached before the fence has come past those of the smaller sizes.
            let point = (&crowd.fences[0], FAR + number as u64);
            Ok(crowd.gpu.device().wait_async(&[point], &crowd.events[0], WaitFlags::empty())?)
        }),
        calls: &[],
        destroy: ("SignalSynchronizationObjectFromCpu that ends one", |crowd, _| {
            let next = crowd.fences[0].current().max(FAR - 1) + 1;
            crowd.waits -= 1;
            Ok(crowd.gpu.device().signal(&crowd.fences[0], next)?)
        }),
        most: None,
        reason: None,
    },
    Kind {
        name: "events",
        count: |crowd| crowd.events.len(),
        make: ("CreateEvent", |crowd, _| {
            let event = Event::create(crowd.gpu.device().link(), false)?;
            crowd.events.push(event);
            Ok(())
        }),
        calls: &[("SetEvent, WaitForSingleObject", |crowd, at| {
            crowd.events[at].set()?;
            Ok(crowd.events[at].wait()?)
        })],
        destroy: ("CloseHandle", |crowd, at| gone(crowd.events.swap_remove(at))),
        most: None,
        reason: None,
    },
    Kind {
        name: "NT handles",
        count: |crowd| crowd.nt_handles.len(),
        make: ("ShareObjects", |crowd, _| {
            if crowd.fences.is_empty() {
                let flags = FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING;
                let fence = crowd.gpu.device().create_monitored_fence(flags, 0)?;
                crowd.fences.push(fence);
            }
            let handle = crowd.fences[0].share(SyncObjectAccess::ALL_ACCESS)?;
            crowd.nt_handles.push(handle);
            Ok(())
        }),
        calls: &[("OpenSyncObjectFromNtHandle2, DestroySynchronizationObject", |crowd, at| {
            let request = OpenSyncObjectRequest { handle: crowd.nt_handles[at].token(), ..Default::default() };
            gone(crowd.gpu.device().open_sync_object(request)?)
        })],
        destroy: ("CloseHandle", |crowd, at| gone(crowd.nt_handles.swap_remove(at))),
        most: None,
        reason: None,
    },
    Kind {
        name: "contexts",
        count: |crowd| crowd.contexts.len(),
        make: ("CreateHwContext", |crowd, _| {
            let context = crowd.gpu.device().create_context(NODE)?;
            crowd.contexts.push(context);
            Ok(())
        }),
        calls: &[],
        destroy: ("DestroyHwContext", |crowd, at| gone(crowd.contexts.swap_remove(at))),
        most: None,
        reason: None,
    },
    Kind {
        name: "packet contexts",
        count: |crowd| crowd.packet_contexts.len(),
        make: ("CreateContextVirtual", |crowd, _| {
            let context = VirtualContext::create(crowd.gpu.device(), COPY, Vec::new())?;
            crowd.packet_contexts.push(context);
            Ok(())
        }),
        calls: &[],
        destroy: ("DestroyContext", |crowd, at| gone(crowd.packet_contexts.swap_remove(at))),
        most: Some(250),
        reason: None,
    },
    Kind {
        name: "hardware queues",
        count: |crowd| crowd.queues.len(),
        make: ("CreateHwQueue", |crowd, _| {
            if crowd.contexts.is_empty() {
                let context = crowd.gpu.device().create_context(NODE)?;
                crowd.contexts.push(context);
            }
            let queue = crowd.contexts[0].create_kernel_queue()?;
            crowd.queues.push(queue);
            Ok(())
        }),
        calls: &[("SubmitSignalSyncObjectsToHwQueue", |crowd, at| {
            if crowd.fences.is_empty() {
                let fence = crowd.gpu.device().create_native_fence(NativeFenceRequest::default())?;
                crowd.fences.push(fence);
                crowd.waits = 0;
            }
            crowd.waits += 1;
            Ok(crowd.queues[at].submit_signal(&crowd.fences[0], crowd.waits as u64)?)
        })],
        destroy: ("DestroyHwQueue", |crowd, at| gone(crowd.queues.swap_remove(at))),
        most: Some(250),
        reason: None,
    },
    Kind {
        name: "paging queues",
        count: |crowd| crowd.paging_queues.len(),
        make: ("CreatePagingQueue", |crowd, _| {
            let queue = crowd.gpu.device().create_paging_queue()?;
            crowd.paging_queues.push(queue);
            Ok(())
        }),
        calls: &[],
        destroy: ("DestroyPagingQueue", |crowd, at| gone(crowd.paging_queues.swap_remove(at))),
        most: None,
        reason: None,
    },
];

/// The calls on fences of both kinds.
const SIGNALS: &[Act] = &[
    ("SignalSynchronizationObjectFromCpu", |crowd, at| {
        let value = crowd.fences[at].current() + 1;
        Ok(crowd.gpu.device().signal(&crowd.fences[at], value)?)
    }),
    ("WaitForSynchronizationObjectFromCpu", |crowd, at| {
        let value = crowd.fences[at].current();
        Ok(crowd.gpu.device().wait(&[(&crowd.fences[at], value)])?)
    }),
];

/// Bytes of one reservation: as few as there may be.
const RESERVED_BYTES: u64 = 65536;

/// The least value that is waited for.
const FAR: u64 = 1 << 20;

/// Dropping a client's object destroys it.
fn gone<T>(object: T) -> Result<(), BenchError> {
    drop(object);
    Ok(())
}
