//! Finding the device, asking for features, starting and stopping (sync §3.1). Called at adapter start and stop only.

use ddi::{
    DriverStatus, FeatureId, FeatureInterface, FeatureSupport, Host, NativeFenceInterface1, NativeFenceOsCaps,
    PowerState, QueryFeatureInterface,
};
use shared_words::Memory;
use softgpu_spec::bus::PAGE_BYTES;
use softgpu_spec::{QUEUE_COUNT, register};

use crate::driver::SoftGpuKmd;
use crate::segments::Geometry;

/// Features that the driver and the kernel agreed on at start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Negotiated {
    /// Native fences: `None` is off.
    pub(crate) native_fence: Option<NativeFenceFeature>,
    /// Flips are queued on the device.
    pub(crate) flip_queue: bool,
}

/// Feature NATIVE_FENCE as negotiated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NativeFenceFeature {
    /// Capabilities that the kernel allows.
    pub(crate) os_caps: NativeFenceOsCaps,
}

/// The one version of each feature that this driver has.
const FEATURE_VERSION: u16 = 1;

/// The driver's support of a feature.
// spec: sync §3.1 step 3
pub(crate) fn feature_support(
    feature: FeatureId,
    hardware_queues: bool,
    flip_queue: bool,
) -> Result<FeatureSupport, DriverStatus> {
    let supported = match feature {
        FeatureId::HWSCH | FeatureId::USER_MODE_SUBMISSION | FeatureId::NATIVE_FENCE => hardware_queues,
        FeatureId::HWFLIPQUEUE => hardware_queues && flip_queue,
        _ => return Err(DriverStatus::InvalidParameter("an unknown feature")),
    };
    let version = if supported { FEATURE_VERSION } else { 0 };
    Ok(FeatureSupport {
        min_version: version,
        max_version: version,
        supported_by_driver: supported,
        supported_on_current_config: supported,
    })
}

impl SoftGpuKmd {
    pub(crate) fn start(&mut self, host: &mut dyn Host) -> Result<(), DriverStatus> {
        assert!(self.geometry.is_none(), "a device is stopped before it is started again");
        self.config.check()?;
        if self.port.read_register(register::ID) != register::ID_VALUE {
            return Err(DriverStatus::NotSupported("the device is no software GPU"));
        }
        if self.config.uses_cpu_addresses() && self.port.read_register(register::PASID_BITS) == 0 {
            return Err(DriverStatus::NotSupported("the device stands behind no IOMMU"));
        }
        let geometry = Geometry::read(self.port.as_ref(), &self.config)?;
        self.negotiated = negotiate(host, self.config.flip_queue);
        self.port.write_register(register::ENGINE_ENABLE, 0);
        self.port.write_register(register::ENGINE_GATE, 0);
        let idle_ns = if self.negotiated.native_fence.is_some() { self.config.idle_ns } else { 0 };
        self.port.write_register(register::ENGINE_IDLE_NS, idle_ns);
        self.drop_scheduling_logs();
        for index in 0..QUEUE_COUNT {
            self.disable_index(index);
        }
        // Every aperture page points to nothing, until VidMm maps it.
        clear_table(self.port.local_memory(), &geometry);
        self.port.write_register(register::APERTURE_TABLE, geometry.table);
        self.port.write_register(register::ENGINE_ENABLE, 1);
        self.find_ranges();
        self.find_outputs();
        self.geometry = Some(geometry);
        Ok(())
    }

    /// Off: stops the engines. On: empties the aperture, because its table lies in memory that may have been lost; the kernel
    /// writes the page tables.
    // spec: memory §8.4
    pub(crate) fn power(&mut self, state: PowerState) -> Result<(), DriverStatus> {
        let geometry = self.geometry.ok_or(DriverStatus::Unsuccessful("the device is not started"))?;
        if state == PowerState::On {
            clear_table(self.port.local_memory(), &geometry);
            self.port.write_register(register::APERTURE_TABLE, geometry.table);
            self.port.write_register(register::ENGINE_GATE, 0);
        }
        self.port.write_register(register::ENGINE_ENABLE, u64::from(state == PowerState::On));
        if state != PowerState::On {
            self.unseal_all();
            self.blacken();
            self.drop_scheduling_logs();
        }
        Ok(())
    }

    /// Stops the engines and has the device forget all queues: it touches no memory afterwards.
    pub(crate) fn stop(&mut self, host: &mut dyn Host) {
        self.port.write_register(register::ENGINE_ENABLE, 0);
        self.blacken();
        self.drop_scheduling_logs();
        for index in 0..QUEUE_COUNT {
            self.disable_index(index);
        }
        while !matches!(self.port.read_register(register::INTERRUPT_POP), register::record::NONE | register::ABSENT) {}
        for run in self.queues.rings().into_iter().chain(self.packets.rings()) {
            host.free_contiguous(run);
        }
        self.queues = Default::default();
        self.packets = Default::default();
        self.doorbells.clear();
        self.contexts.clear();
        self.devices.clear();
        self.processes.clear();
        self.allocations.clear();
        self.fences = Default::default();
        self.outputs.clear();
        self.gathered = Default::default();
        self.negotiated = Negotiated::default();
        self.geometry = None;
    }
}

/// Clears the aperture table. Reads before it writes, so that untouched pages take no memory.
fn clear_table(local: &Memory, geometry: &Geometry) {
    for page in 0..geometry.table_bytes().div_ceil(PAGE_BYTES) {
        let offset = geometry.table + page * PAGE_BYTES;
        let words = (geometry.table_bytes() - page * PAGE_BYTES).min(PAGE_BYTES) / 8;
        if local.scan_words(offset, words, |_, word| word == 0).is_some() {
            local.fill(offset, words * 8, 0);
        }
    }
}

/// Negotiates the driver's features. A feature whose negotiation fails is off.
// spec: sync §3.1 steps 5 and 6
fn negotiate(host: &mut dyn Host, flip_queue: bool) -> Negotiated {
    // Flips are queued by hardware that schedules its queues.
    let native_fence = negotiate_native_fence(host);
    let flip_queue = flip_queue && native_fence.is_some() && is_on(host, FeatureId::HWFLIPQUEUE);
    Negotiated { native_fence, flip_queue }
}

/// Whether a feature is on in this driver's version. A query that fails says that it is off.
fn is_on(host: &mut dyn Host, feature: FeatureId) -> bool {
    let state = host.is_feature_enabled(feature).unwrap_or_default();
    state.enabled && state.version == FEATURE_VERSION
}

fn negotiate_native_fence(host: &mut dyn Host) -> Option<NativeFenceFeature> {
    if !is_on(host, FeatureId::NATIVE_FENCE) {
        return None;
    }
    let mut query = QueryFeatureInterface::new(FeatureId::NATIVE_FENCE, FEATURE_VERSION, NativeFenceInterface1::BYTES);
    host.query_feature_interface(&mut query).ok()?;
    match query.interface {
        FeatureInterface::NativeFence1(interface) => Some(NativeFenceFeature { os_caps: interface.get_os_caps() }),
        _ => None,
    }
}
