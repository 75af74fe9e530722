//! A filter between the kernel and the software GPU's driver: it may describe allocations and the adapter otherwise, and sees each
//! paging operation before the real driver does. It passes calls on that it does not change.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

mod fences;
mod hosts;
mod lent;
mod packets;
mod ranges;
mod screens;
mod windows;

use ddi::*;
use dxgk_host::WrapMiniport;
use miniport_filter::*;
use wddm_types::{NodeId, PageRun};

pub use self::fences::{FenceStep, LogStep};
pub use self::hosts::{host_in, host_with};
pub use self::packets::PacketStep;
pub use self::screens::QueueWhims;
pub use self::windows::{HearWindow, WindowStep};

type Build = dyn FnMut(&mut dyn Miniport, &mut BuildPagingBuffer<'_>) -> Result<(), PagingStatus> + Send;
type Describe = dyn Fn(&mut AllocationInfo) + Send;
type Caps = dyn Fn(&mut AdapterCaps) + Send;
type Hear = dyn Fn(Step) + Send;
type Rename = dyn Fn(&mut KmdResource) + Send;
type Acquire = dyn FnMut(&mut dyn Swizzling, &mut AcquireSwizzlingRange) -> Result<(), SwizzlingError> + Send;
type Feature = dyn Fn(FeatureId, bool) -> Option<FeatureSupport> + Send;
type HearFence = dyn FnMut(FenceStep) + Send;
type HearLog = dyn FnMut(LogStep) -> Result<(), DriverStatus> + Send;
type RefuseOpen = dyn Fn(&mut OpenNativeFence<'_>) -> bool + Send;
type NameFences = dyn Fn(Option<Vec<OsGlobalFence>>) -> Option<Vec<OsGlobalFence>> + Send;
type Say = dyn FnMut(Interrupt<'_>, &mut dyn Notify) + Send;
type Release = dyn FnMut(u32) + Send;
type Device = dyn Fn(&mut DeviceInfo) + Send;
type Context = dyn Fn(&mut ContextInfo) + Send;
type HandOver = dyn FnMut(PacketStep) + Send;
type Standard = dyn Fn(&mut dyn Miniport, &mut StandardAllocationDriverData<'_>) -> Result<(), DriverStatus> + Send;
type PrivateCall = dyn Fn(&mut dyn Miniport, &mut Escape<'_>) -> Result<(), DriverStatus> + Send;
type HearBlob = dyn Fn(&'static str, &[u8]) + Send;
type Refuse = dyn Fn(&'static str) -> Result<(), DriverStatus> + Send;
type Reset = dyn FnMut(&mut dyn Miniport, &mut dyn ddi::Host, bool) -> Result<(), DriverStatus> + Send;
type ResetNode = dyn FnMut(&mut dyn PacketScheduling, ResetEngine, &mut dyn Notify) -> Result<u32, DriverStatus> + Send;
type Group = dyn FnMut(&mut dyn Miniport, NodeId) -> u64 + Send;
type Opens = dyn Fn(&mut OpenAllocation<'_, '_>) + Send;
type ToScreen = dyn FnMut(&mut dyn PacketScheduling, KmdContext, &mut Present<'_>) -> Result<(), RenderStatus> + Send;
type HearBacking = dyn Fn(KmdAllocation, &[PageRun]) -> Result<(), DriverStatus> + Send;
type Process = dyn Fn(&mut dyn ddi::Host, &CreateProcess<'_>) -> Result<(), DriverStatus> + Send;
type Translate = dyn FnMut(&mut dyn PacketScheduling, KmdContext, &mut Render<'_>) -> Result<(), RenderStatus> + Send;

/// A call to the driver about allocations, with its handles together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Create(Vec<KmdAllocation>, KmdResource),
    Open(KmdDevice, Vec<KmdOpenAllocation>, OpenAllocationFlags),
    Close(KmdDevice, Vec<KmdOpenAllocation>),
    Destroy(Vec<KmdAllocation>, DestroyAllocationFlags),
}

/// The differences from the real driver.
pub struct Whims {
    pub build: Box<Build>,
    pub describe: Box<Describe>,
    pub caps: Box<Caps>,
    pub hear: Box<Hear>,
    /// Changes the upper half of a resource's handle when allocations are created in it.
    pub resource: Box<Rename>,
    pub acquire: Box<Acquire>,
    pub release: Box<Release>,
    /// Each call about its window.
    pub hear_window: Box<HearWindow>,
    /// While this is set its interrupt routine says that no interrupt is its device's, and takes no record.
    pub deaf: Arc<AtomicBool>,
    /// Its report of each interrupt.
    pub say: Box<Say>,
    /// The answer when it asks for a feature.
    pub ask: Box<lent::Ask>,
    /// Its answer about a feature, when experimental ones are allowed or not; `None`: the real driver's.
    pub feature: Box<Feature>,
    /// After each call about native fences; the updates before.
    pub hear_fence: Box<HearFence>,
    /// Before each call about logs of native fences, and whether it refuses it.
    pub hear_log: Box<HearLog>,
    /// Refuses opens, or writes into their private data.
    pub refuse_fence_open: Box<RefuseOpen>,
    /// Updates that fail in it.
    pub fail_fence_update: Box<fences::FailUpdate>,
    /// The updates of MonitoredValues that it was lent, after it has made them.
    pub lent: Box<fences::Lent>,
    /// Uses the log that it is lent.
    pub lent_log: Box<fences::LentLog>,
    /// Changes its answer about storage of fences.
    pub fence_storage: Box<fences::Storage>,
    /// Changes its capabilities of fences.
    pub fence_caps: Box<fences::FenceCaps>,
    /// The fences that its interrupts name instead of those that it knows; `None`: it reports that it does not know.
    pub name_fences: Box<NameFences>,
    /// Changes its answer about a device that is not the kernel's own.
    pub device: Box<Device>,
    /// Changes its answer about a packet context.
    pub context: Box<Context>,
    /// Its wish for the address of a context allocation of a packet context.
    pub map_context: Box<dyn Fn(&mut MapContextAllocation) + Send>,
    /// It schedules packets, if the real driver does.
    pub packets: bool,
    /// Its Render of a command buffer, if it schedules packets.
    pub render: Box<Translate>,
    /// Its Present, if it schedules packets.
    pub present: Box<ToScreen>,
    /// While this is set it shows the facets that it has not, and none that it has.
    pub turned: Arc<AtomicBool>,
    /// Before each Patch and each SubmitCommand, if it schedules packets.
    pub hand_over: Box<HandOver>,
    /// Private bytes of a paging buffer that it wants beside the real driver's.
    pub paging_data_bytes: u32,
    /// Its answer about allocations that the kernel describes.
    pub standard: Box<Standard>,
    /// Its answer to a private call.
    pub escape: Box<PrivateCall>,
    /// The resource's private data at each "create" and "open".
    pub hear_blob: Box<HearBlob>,
    /// Whether it refuses a "create", an "open", a "context"; a "device", when it has made everything for that.
    pub refuse: Box<Refuse>,
    /// Its own answer to an open.
    pub opens: Box<Opens>,
    /// Its answer when the kernel shows it a backing store.
    pub backing: Box<HearBacking>,
    /// Its requests while a process is created, and whether it refuses the process then.
    pub process: Box<Process>,
    /// How large it wants the paging process's address space.
    pub paging_space_mb: Option<u32>,
    /// Whether it refuses an address that a display is to show.
    pub screen: Box<screens::Address>,
    /// Its reset of one engine, if it schedules packets.
    pub reset_engine: Box<ResetNode>,
    /// The nodes that it reports as reset together.
    pub group: Box<Group>,
    /// The differences of its flip queue.
    pub flip_queue: screens::QueueWhims,
    /// Its reset (`true`) and its restart.
    pub reset: Box<Reset>,
}

impl Default for Whims {
    fn default() -> Self {
        Whims {
            build: Box::new(|driver, build| driver.build_paging_buffer(build)),
            describe: Box::new(|_| ()),
            caps: Box::new(|_| ()),
            hear: Box::new(|_| ()),
            resource: Box::new(|_| ()),
            acquire: Box::new(|driver, acquire| driver.acquire_swizzling_range(acquire)),
            release: Box::new(|_| ()),
            hear_window: Box::new(|_| ()),
            deaf: Arc::default(),
            say: Box::new(|interrupt, notify| notify.interrupt(interrupt)),
            ask: Box::new(|_, answer| answer),
            feature: Box::new(|_, _| None),
            hear_fence: Box::new(|_| ()),
            hear_log: Box::new(|_| Ok(())),
            refuse_fence_open: Box::new(|_| false),
            fail_fence_update: Box::new(|_| false),
            lent: Box::new(|_| ()),
            lent_log: Box::new(|_| ()),
            fence_storage: Box::new(|_| ()),
            fence_caps: Box::new(|_| ()),
            name_fences: Box::new(|known| known),
            device: Box::new(|_| ()),
            context: Box::new(|_| ()),
            map_context: Box::new(|_| ()),
            packets: false,
            render: Box::new(|driver, context, render| driver.render(context, render)),
            present: Box::new(|driver, context, present| driver.present(context, present)),
            turned: Arc::default(),
            hand_over: Box::new(|_| ()),
            paging_data_bytes: 0,
            standard: Box::new(|driver, query| driver.standard_allocation_driver_data(query)),
            escape: Box::new(|driver, escape| driver.escape(escape)),
            hear_blob: Box::new(|_, _| ()),
            refuse: Box::new(|_| Ok(())),
            opens: Box::new(|_| ()),
            backing: Box::new(|_, _| Ok(())),
            process: Box::new(|_, _| Ok(())),
            paging_space_mb: None,
            screen: Box::new(|_| Ok(())),
            reset_engine: Box::new(|driver, reset, notify| driver.reset_engine(reset, notify)),
            group: Box::new(|driver, node| driver.query_dependent_engine_group(node)),
            flip_queue: screens::QueueWhims::default(),
            reset: Box::new(|driver, host, down| match down {
                true => driver.reset_from_timeout(host),
                false => driver.restart_from_timeout(host),
            }),
        }
    }
}

/// A list that a driver writes and a test reads.
pub type Shared<T> = Arc<Mutex<Vec<T>>>;

/// Puts the whims between kernel and driver.
pub fn wrapped(whims: Whims) -> WrapMiniport {
    Box::new(|driver| Box::new(Filtered::new(driver, Stubborn { whims })))
}

struct Stubborn {
    whims: Whims,
}

passes_on!(Stubborn: GpuVirtualAddressingFilter, HardwareQueuesFilter, PeerDoorbellsFilter, DoorbellsFilter);

impl Filter for Stubborn {
    fn shows(&self, facet: Facet, there: bool) -> bool {
        let turned = self.whims.turned.load(Ordering::SeqCst);
        match facet {
            Facet::PacketScheduling => (self.whims.packets && there) != turned,
            Facet::Swizzling => there != turned,
            Facet::FlipQueue => there && !self.whims.flip_queue.absent && !turned,
            Facet::PeerDoorbells => there,
            _ => there && !turned,
        }
    }
    fn start_device(&mut self, next: &mut dyn Miniport, host: &mut dyn ddi::Host) -> Result<(), DriverStatus> {
        // spec: memory §4.6: addresses are reserved while a process is created, and at no other time
        let early = host.reserve_gpu_va_range(ReserveGpuVaRange::default());
        assert!(matches!(early, Err(DriverStatus::NotSupported(_))), "{early:?}");
        let mut host = lent::Lent { host, map: &*self.whims.map_context, ask: &*self.whims.ask };
        next.start_device(&mut host)
    }
    fn reset_from_timeout(&mut self, next: &mut dyn Miniport, host: &mut dyn ddi::Host) -> Result<(), DriverStatus> {
        (self.whims.reset)(next, host, true)
    }
    fn restart_from_timeout(&mut self, next: &mut dyn Miniport, host: &mut dyn ddi::Host) -> Result<(), DriverStatus> {
        (self.whims.reset)(next, host, false)
    }
    fn query_feature_support(
        &mut self,
        next: &mut dyn Miniport,
        id: FeatureId,
        experimental: bool,
    ) -> Result<FeatureSupport, DriverStatus> {
        match (self.whims.feature)(id, experimental) {
            Some(support) => Ok(support),
            None => next.query_feature_support(id, experimental),
        }
    }
    fn adapter_caps(&self, next: &dyn Miniport) -> AdapterCaps {
        let mut caps = next.adapter_caps();
        (self.whims.caps)(&mut caps);
        caps
    }
    fn query_segment4(&self, next: &dyn Miniport, query: &mut QuerySegment4<'_>) -> Result<(), DriverStatus> {
        next.query_segment4(query)?;
        if query.descriptors.is_some() {
            query.paging_buffer.private_data_bytes += self.whims.paging_data_bytes;
        }
        Ok(())
    }
    fn query_segment3(&self, next: &dyn Miniport, query: &mut QuerySegment3<'_>) -> Result<(), DriverStatus> {
        next.query_segment3(query)?;
        if query.descriptors.is_some() {
            query.paging_buffer.private_data_bytes += self.whims.paging_data_bytes;
        }
        Ok(())
    }
    fn paging_process_gpu_va_mb(&self, next: &dyn Miniport) -> Result<u32, DriverStatus> {
        match self.whims.paging_space_mb {
            Some(megabytes) => Ok(megabytes),
            None => next.paging_process_gpu_va_mb(),
        }
    }
    fn create_process(
        &mut self,
        next: &mut dyn Miniport,
        host: &mut dyn ddi::Host,
        create: CreateProcess<'_>,
    ) -> Result<KmdProcess, DriverStatus> {
        (self.whims.process)(host, &create)?;
        next.create_process(host, create)
    }
    fn create_device(
        &mut self,
        next: &mut dyn Miniport,
        host: &mut dyn ddi::Host,
        create: CreateDevice,
    ) -> Result<(KmdDevice, DeviceInfo), DriverStatus> {
        let (device, mut info) = next.create_device(host, create)?;
        if !create.system {
            (self.whims.device)(&mut info);
        }
        match (self.whims.refuse)("device") {
            Ok(()) => Ok((device, info)),
            Err(status) => {
                next.destroy_device(device);
                Err(status)
            }
        }
    }
    fn create_allocation(
        &mut self,
        next: &mut dyn Miniport,
        create: &mut CreateAllocation<'_, '_>,
    ) -> Result<(), DriverStatus> {
        (self.whims.hear_blob)("create", create.private_data);
        (self.whims.refuse)("create")?;
        next.create_allocation(create)?;
        create.allocations.iter_mut().for_each(|new| (self.whims.describe)(&mut new.info));
        let created = create.allocations.iter().map(|new| new.info.allocation).collect();
        (self.whims.resource)(&mut create.resource);
        (self.whims.hear)(Step::Create(created, create.resource));
        Ok(())
    }
    fn open_allocation(
        &mut self,
        next: &mut dyn Miniport,
        open: &mut OpenAllocation<'_, '_>,
    ) -> Result<(), DriverStatus> {
        (self.whims.hear_blob)("open", open.private_data);
        (self.whims.refuse)("open")?;
        next.open_allocation(open)?;
        (self.whims.opens)(open);
        let opened = open.allocations.iter().map(|opened| opened.open).collect();
        (self.whims.hear)(Step::Open(open.device, opened, open.flags));
        Ok(())
    }
    fn close_allocation(&mut self, next: &mut dyn Miniport, device: KmdDevice, open: &[KmdOpenAllocation]) {
        (self.whims.hear)(Step::Close(device, open.to_vec()));
        next.close_allocation(device, open);
    }
    fn destroy_allocation(&mut self, next: &mut dyn Miniport, destroy: &mut DestroyAllocation<'_>) {
        (self.whims.hear)(Step::Destroy(destroy.allocations.to_vec(), destroy.flags));
        // The upper half of a handle is a whim's.
        destroy.resource.0 &= u64::from(u32::MAX);
        next.destroy_allocation(destroy);
    }
    fn escape(&mut self, next: &mut dyn Miniport, escape: &mut Escape<'_>) -> Result<(), DriverStatus> {
        (self.whims.escape)(next, escape)
    }
    fn standard_allocation_driver_data(
        &mut self,
        next: &mut dyn Miniport,
        query: &mut StandardAllocationDriverData<'_>,
    ) -> Result<(), DriverStatus> {
        (self.whims.standard)(next, query)
    }
    fn set_allocation_backing_store(
        &mut self,
        _next: &mut dyn Miniport,
        set: SetAllocationBackingStore<'_>,
    ) -> Result<(), DriverStatus> {
        (self.whims.backing)(set.allocation, set.backing)
    }
    fn build_paging_buffer(
        &mut self,
        next: &mut dyn Miniport,
        build: &mut BuildPagingBuffer<'_>,
    ) -> Result<(), PagingStatus> {
        (self.whims.build)(next, build)
    }
    fn query_dependent_engine_group(&mut self, next: &mut dyn Miniport, node: NodeId) -> u64 {
        (self.whims.group)(next, node)
    }
    fn interrupt_routine(&mut self, next: &mut dyn Miniport, notify: &mut dyn Notify) -> bool {
        struct Through<'a>(&'a mut Say, &'a mut dyn Notify);
        impl Notify for Through<'_> {
            fn interrupt(&mut self, interrupt: Interrupt<'_>) {
                (self.0)(interrupt, self.1);
            }
        }
        if self.whims.deaf.load(Ordering::SeqCst) {
            return false;
        }
        let mut renamed = fences::Renamed { notify, name: self.whims.name_fences.as_ref() };
        next.interrupt_routine(&mut Through(&mut self.whims.say, &mut renamed))
    }
}
