//! The client that lives on: it has what others open and wait for, and holds a keyed mutex that it never releases.

use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use d3dkmt::{
    CreateAllocationFlags, Fence, FenceFlags, Lock, NativeFenceRequest, NtHandle, Resource, ResourceRequest, ShareName,
    SyncObject, SyncObjectAccess, SyncObjectKind,
};
use kmt_calls::{Call, KeyedMutexCall, KeyedMutexFlags, Reply};
use kmt_link::Link;
use kmt_link::socket::SocketLink;
use softgpu_umd::{Gpu, SurfaceKind, UmdError};
use wddm_types::RawHandle;

use super::script::memory::allocation;

/// The key by which it holds its mutex.
const KEY: u64 = 7;

/// The objects that others may open.
#[derive(Clone, Copy, Debug)]
pub struct Offers {
    /// A resource, by its global handle.
    pub resource: RawHandle,
    /// An NT handle of a native fence that no signal reaches.
    pub never: u64,
    /// A keyed mutex that is held.
    pub mutex: RawHandle,
    /// A semaphore of which none is free.
    pub semaphore: RawHandle,
}

impl Offers {
    /// A blocking acquisition of the mutex by a process that has opened it.
    pub fn acquisition(mutex: RawHandle) -> Call {
        Call::KeyedMutex(KeyedMutexCall::Acquire { mutex, key: KEY, timeout_100ns: None, runtime_data_bytes: 0 })
    }

    /// For a process that is started with them.
    pub fn text(&self) -> String {
        format!("{} {} {} {}", self.resource.0, self.never, self.mutex.0, self.semaphore.0)
    }
}

impl FromStr for Offers {
    type Err = std::num::ParseIntError;
    fn from_str(text: &str) -> Result<Offers, Self::Err> {
        let mut words = text.split(' ');
        let mut handle = || words.next().unwrap_or_default().parse::<u64>();
        // CAST: handles are of 32 bits.
        let raw = |number: u64| RawHandle(number as u32);
        let (resource, never) = (raw(handle()?), handle()?);
        Ok(Offers { resource, never, mutex: raw(handle()?), semaphore: raw(handle()?) })
    }
}

/// It lives on.
pub struct Bystander {
    offers: Offers,
    // In the order in which they go.
    _name: NtHandle,
    _objects: (Fence, SyncObject),
    _resource: Resource,
    _lock: Lock,
    _gpu: Gpu,
}

impl Bystander {
    pub fn connect(path: &Path) -> Bystander {
        let link: Arc<dyn Link> = SocketLink::connect(path).expect("a kernel");
        Bystander::over(&link).expect("it is refused nothing")
    }

    fn over(link: &Arc<dyn Link>) -> Result<Bystander, UmdError> {
        let gpu = Gpu::open(Arc::clone(link))?;
        let surface = gpu.create_lockable_surface(SurfaceKind::LocalThenSystem, 64 << 10, false)?;
        gpu.pin(&surface)?;
        let lock = surface.lock()?;
        let flags = CreateAllocationFlags::CREATE_RESOURCE | CreateAllocationFlags::CREATE_SHARED;
        let request = ResourceRequest { flags, ..ResourceRequest::default() };
        let resource = Resource::create(gpu.device(), vec![allocation()], request)?;
        let ShareName::Global(shared) = resource.global_share() else { unreachable!("it has a global handle") };
        let flags = FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING;
        let never = gpu.device().create_native_fence(NativeFenceRequest { flags, ..Default::default() })?;
        let name = never.share(SyncObjectAccess::ALL_ACCESS)?;
        let kind = SyncObjectKind::Semaphore { max_count: 1, initial_count: 0 };
        let semaphore = gpu.device().create_sync_object(kind, FenceFlags::SHARED)?;
        let flags = KeyedMutexFlags::empty();
        let create = KeyedMutexCall::Create { initial_key: KEY, flags, runtime_data: Vec::new() };
        let Reply::KeyedMutex(mutex) = link.call(Call::KeyedMutex(create))? else { unreachable!("a keyed mutex") };
        link.call(Offers::acquisition(mutex.mutex))?;
        let (mutex, all) = (mutex.global_share, semaphore.global_share());
        let offers = Offers { resource: shared, never: name.token(), mutex, semaphore: all };
        let _objects = (never, semaphore);
        Ok(Bystander { offers, _name: name, _objects, _resource: resource, _lock: lock, _gpu: gpu })
    }

    pub fn offers(&self) -> Offers {
        self.offers
    }
}
