//! Synchronization objects of each kind, with contexts that wait for them and signal them; a fence that goes while it has waiters.

use std::sync::Arc;

use d3dkmt::{
    Event, Fence, FenceFlags, NativeFenceRequest, SignalFlags, SyncObject, SyncObjectAccess, SyncObjectKind,
    VirtualContext, WaitFlags,
};
use kmt_calls::{Call, EventCall};
use kmt_link::Link;
use softgpu_umd::{Gpu, UmdError};
use wddm_types::{NodeId, VidPnTargetId};

use crate::lives::bystander::Offers;

/// What stays until the life ends.
pub struct Objects {
    _contexts: [VirtualContext; 2],
    _fences: Vec<Fence>,
    _objects: Vec<SyncObject>,
    _events: [Event; 2],
}

pub fn live(link: &Arc<dyn Link>, gpu: &Gpu, old: &Gpu, offers: Offers) -> Result<Objects, UmdError> {
    let device = gpu.device();
    let contexts = [(); 2].map(|()| VirtualContext::create(device, NodeId(0), Vec::new()));
    let [waits, signals] = contexts;
    let (waits, signals) = (waits?, signals?);
    let events = [Event::create(link, false)?, Event::create(link, true)?];
    let fences = fences(gpu, old)?;
    gone_with_waiters(gpu, &waits, &events[0])?;
    let kinds = [
        SyncObjectKind::MutexObject { owned: true },
        SyncObjectKind::Semaphore { max_count: 4, initial_count: 1 },
        SyncObjectKind::Fence { value: 0 },
    ];
    let mut objects = Vec::new();
    for kind in kinds {
        objects.push(device.create_sync_object(kind, FenceFlags::SHARED)?);
    }
    objects.push(SyncObject::open(link, objects[1].global_share())?);
    objects.push(SyncObject::open(link, offers.semaphore)?);
    let [mutex, semaphore, fence, again, theirs] = &objects[..] else { unreachable!("five") };
    device.wait_objects(waits.handle(), &[mutex, semaphore], 0)?;
    device.signal_objects(&[signals.handle()], &[mutex, again], 0)?;
    device.signal_objects(&[signals.handle(), waits.handle()], &[fence], 4)?;
    let event = events[1].handle();
    let told = device.create_sync_object(SyncObjectKind::CpuNotification { event }, FenceFlags::empty())?;
    device.signal_objects(&[signals.handle()], &[&told], 0)?;
    device.enqueue_cpu_event(&[signals.handle()], &events[0])?;
    events[0].wait()?;
    // From here on both wait for ever: for an object of another process, and for a value that none signals.
    device.wait_objects(signals.handle(), &[theirs], 0)?;
    device.wait_objects(waits.handle(), &[fence], 9)?;
    device.signal_from_gpu(&[waits.handle(), signals.handle()], &[(&fences[0], 7)], SignalFlags::empty())?;
    device.enqueue_cpu_event(&[waits.handle()], &events[0])?;
    objects.push(told);
    // An event of a program whose events are not the kernel's.
    link.call(Call::Event(EventCall::CreateTold))?;
    Ok(Objects { _contexts: [waits, signals], _fences: fences, _objects: objects, _events: events })
}

/// Fences with a word in memory, of both adapters.
fn fences(gpu: &Gpu, old: &Gpu) -> Result<Vec<Fence>, UmdError> {
    let device = gpu.device();
    let monitored = device.create_monitored_fence(FenceFlags::empty(), 0)?;
    device.signal(&monitored, 5)?;
    device.signal_with(&[(&monitored, 2)], SignalFlags::ALLOW_FENCE_REWIND)?;
    let native = device.create_native_fence(NativeFenceRequest { initial_value: 1, ..Default::default() })?;
    device.wait_any(&[(&monitored, 3), (&native, 1)])?;
    let periodic = device.create_periodic_fence(FenceFlags::empty(), VidPnTargetId(0), 0)?;
    let nt = FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING;
    let shared = old.device().create_monitored_fence(nt, 0)?;
    let name = shared.share(SyncObjectAccess::ALL_ACCESS)?;
    let request = d3dkmt::OpenSyncObjectRequest { handle: name.token(), ..Default::default() };
    // The name goes before the fence, and the opened fence behind it.
    let opened = old.device().open_sync_object(request)?;
    Ok(vec![monitored, native, periodic, shared, opened])
}

/// A fence is destroyed while the CPU and the GPU wait for it.
fn gone_with_waiters(gpu: &Gpu, waits: &VirtualContext, event: &Event) -> Result<(), UmdError> {
    let device = gpu.device();
    let monitored = device.create_monitored_fence(FenceFlags::empty(), 0)?;
    let native = device.create_native_fence(NativeFenceRequest::default())?;
    device.wait_async(&[(&monitored, 1), (&native, 1)], event, WaitFlags::empty())?;
    waits.wait(&monitored, 1)?;
    drop((native, monitored));
    event.reset()?;
    Ok(())
}
