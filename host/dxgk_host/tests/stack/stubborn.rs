//! A driver between the kernel and the software GPU's: it may describe allocations and the adapter otherwise, and sees each
//! paging operation before the real driver does. What it does not change it hands on; facets that are not handed on here
//! are absent.

use std::sync::{Arc, Mutex};

use ddi::*;
use dxgk_host::{Host, HostConfig, Mode, Profile, WrapMiniport};
use wddm_types::NodeId;

use crate::world::MIB;

type Build = dyn FnMut(&mut dyn Miniport, &mut BuildPagingBuffer<'_>) -> Result<(), PagingStatus> + Send;
type Describe = dyn Fn(&mut AllocationInfo) + Send;
type Caps = dyn Fn(&mut AdapterCaps) + Send;
type Hear = dyn Fn(Step) + Send;
type Acquire = dyn FnMut(&mut dyn Swizzling, &mut AcquireSwizzlingRange) -> Result<(), SwizzlingError> + Send;
type Release = dyn FnMut(u32) + Send;

/// What the driver was told about allocations, with the handles of each call together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Create(Vec<KmdAllocation>, KmdResource),
    Open(KmdDevice, Vec<KmdOpenAllocation>, OpenAllocationFlags),
    Close(KmdDevice, Vec<KmdOpenAllocation>),
    Destroy(Vec<KmdAllocation>, DestroyAllocationFlags),
}

/// What is different about the driver.
pub struct Whims {
    pub build: Box<Build>,
    pub describe: Box<Describe>,
    pub caps: Box<Caps>,
    pub hear: Box<Hear>,
    pub acquire: Box<Acquire>,
    pub release: Box<Release>,
    /// It schedules packets, if the real driver does.
    pub packets: bool,
}

impl Default for Whims {
    fn default() -> Self {
        Whims {
            build: Box::new(|driver, build| driver.build_paging_buffer(build)),
            describe: Box::new(|_| ()),
            caps: Box::new(|_| ()),
            hear: Box::new(|_| ()),
            acquire: Box::new(|driver, acquire| driver.acquire_swizzling_range(acquire)),
            release: Box::new(|_| ()),
            packets: false,
        }
    }
}

/// How many swizzling ranges the software GPU has.
const RANGES: u32 = softgpu_spec::tile::RANGE_COUNT;

/// A list that a driver writes and a test reads.
pub type Shared<T> = Arc<Mutex<Vec<T>>>;

/// A host in virtual time whose driver has these whims.
pub fn host_with(vram_bytes: u64, whims: Whims) -> Arc<Host> {
    host_in(Mode::Virtual { stored: true }, vram_bytes, whims)
}

/// The same in another mode.
pub fn host_in(mode: Mode, vram_bytes: u64, whims: Whims) -> Arc<Host> {
    let profile = Profile::named("discrete-4k").expect("a built-in profile");
    let mut config = HostConfig {
        vram_bytes,
        page_table_bytes: 16 * MIB,
        system_bytes: 2 * vram_bytes + 6 * MIB,
        ..HostConfig::new(profile, mode)
    };
    config.wrap_miniport = Some(wrapped(whims));
    Host::start(config).expect("the host starts")
}

/// Puts the whims between kernel and driver.
pub fn wrapped(whims: Whims) -> WrapMiniport {
    Box::new(|inner| Box::new(Stubborn { inner, whims }) as Box<dyn Miniport>)
}

struct Stubborn {
    inner: Box<dyn Miniport>,
    whims: Whims,
}

impl Miniport for Stubborn {
    fn start_device(&mut self, host: &mut dyn ddi::Host) -> Result<(), DriverStatus> {
        self.inner.start_device(host)
    }
    fn stop_device(&mut self, host: &mut dyn ddi::Host) {
        self.inner.stop_device(host);
    }
    fn set_power_state(&mut self, host: &mut dyn ddi::Host, state: ddi::PowerState) -> Result<(), DriverStatus> {
        self.inner.set_power_state(host, state)
    }
    fn query_feature_support(&mut self, id: FeatureId, experimental: bool) -> Result<FeatureSupport, DriverStatus> {
        self.inner.query_feature_support(id, experimental)
    }
    fn adapter_caps(&self) -> AdapterCaps {
        let mut caps = self.inner.adapter_caps();
        (self.whims.caps)(&mut caps);
        caps
    }
    fn query_segment4(&self, query: &mut QuerySegment4<'_>) -> Result<(), DriverStatus> {
        self.inner.query_segment4(query)
    }
    fn query_segment3(&self, query: &mut QuerySegment3<'_>) -> Result<(), DriverStatus> {
        self.inner.query_segment3(query)
    }
    fn segment_memory_state(&self, query: &mut QueryMemoryRanges<'_>) -> Result<(), DriverStatus> {
        self.inner.segment_memory_state(query)
    }
    fn uefi_frame_buffer_ranges(&self, query: &mut QueryMemoryRanges<'_>) -> Result<(), DriverStatus> {
        self.inner.uefi_frame_buffer_ranges(query)
    }
    fn node_metadata(&self, node: NodeId) -> Option<NodeMetadata> {
        self.inner.node_metadata(node)
    }
    fn create_process(&mut self, system: bool) -> Result<KmdProcess, DriverStatus> {
        self.inner.create_process(system)
    }
    fn destroy_process(&mut self, process: KmdProcess) {
        self.inner.destroy_process(process);
    }
    fn create_device(&mut self, create: CreateDevice) -> Result<KmdDevice, DriverStatus> {
        self.inner.create_device(create)
    }
    fn destroy_device(&mut self, device: KmdDevice) {
        self.inner.destroy_device(device);
    }
    fn create_allocation(&mut self, create: &mut CreateAllocation<'_, '_>) -> Result<(), DriverStatus> {
        self.inner.create_allocation(create)?;
        create.allocations.iter_mut().for_each(|new| (self.whims.describe)(&mut new.info));
        let created = create.allocations.iter().map(|new| new.info.allocation).collect();
        (self.whims.hear)(Step::Create(created, create.resource));
        Ok(())
    }
    fn open_allocation(&mut self, open: &mut OpenAllocation<'_, '_>) -> Result<(), DriverStatus> {
        self.inner.open_allocation(open)?;
        let opened = open.allocations.iter().map(|opened| opened.open).collect();
        (self.whims.hear)(Step::Open(open.device, opened, open.flags));
        Ok(())
    }
    fn close_allocation(&mut self, device: KmdDevice, open: &[KmdOpenAllocation]) {
        (self.whims.hear)(Step::Close(device, open.to_vec()));
        self.inner.close_allocation(device, open);
    }
    fn destroy_allocation(&mut self, destroy: &mut DestroyAllocation<'_>) {
        (self.whims.hear)(Step::Destroy(destroy.allocations.to_vec(), destroy.flags));
        self.inner.destroy_allocation(destroy);
    }
    fn validate_update_allocation_property(&mut self, update: UpdateAllocationProperty) -> Result<(), DriverStatus> {
        self.inner.validate_update_allocation_property(update)
    }
    fn standard_allocation_driver_data(
        &mut self,
        query: &mut StandardAllocationDriverData<'_>,
    ) -> Result<(), DriverStatus> {
        self.inner.standard_allocation_driver_data(query)
    }
    fn build_paging_buffer(&mut self, build: &mut BuildPagingBuffer<'_>) -> Result<(), PagingStatus> {
        (self.whims.build)(self.inner.as_mut(), build)
    }
    fn interrupt_routine(&mut self, notify: &mut dyn Notify) -> bool {
        self.inner.interrupt_routine(notify)
    }
    fn gpu_va(&mut self) -> Option<&mut dyn GpuVirtualAddressing> {
        self.inner.gpu_va()
    }
    fn hardware_queues(&mut self) -> Option<&mut dyn HardwareQueues> {
        self.inner.hardware_queues()
    }
    fn native_fences(&mut self) -> Option<&mut dyn NativeFences> {
        self.inner.native_fences()
    }
    fn packet_scheduling(&mut self) -> Option<&mut dyn PacketScheduling> {
        if self.whims.packets { self.inner.packet_scheduling() } else { None }
    }
    fn swizzling(&mut self) -> Option<&mut dyn Swizzling> {
        self.inner.swizzling().is_some().then_some(self as &mut dyn Swizzling)
    }
    fn doorbells(&mut self) -> Option<&mut dyn Doorbells> {
        self.inner.doorbells()
    }
}

impl Swizzling for Stubborn {
    fn swizzling_ranges(&self) -> u32 {
        RANGES
    }
    fn acquire_swizzling_range(&mut self, acquire: &mut AcquireSwizzlingRange) -> Result<(), SwizzlingError> {
        (self.whims.acquire)(self.inner.swizzling().expect("it has ranges"), acquire)
    }
    fn release_swizzling_range(&mut self, release: ReleaseSwizzlingRange) {
        (self.whims.release)(release.range);
        self.inner.swizzling().expect("it has ranges").release_swizzling_range(release);
    }
}
