//! An adapter's answers about itself and its features.

use ddi::{GpuMmuCaps, GpuMmuFlags};
use kmt_calls::{AdapterInfo, FeatureResult, SegmentInfo, Wddm30Caps};

use crate::adapter::Adapter;
use crate::effect::Cx;

pub(super) fn result_of(state: ddi::FeatureState) -> FeatureResult {
    FeatureResult {
        version: state.version,
        enabled: state.enabled,
        known: state.known,
        supported_by_driver: state.supported_by_driver,
        supported_on_current_config: state.supported_on_current_config,
    }
}

pub(super) fn info(cx: &Cx<'_>, adapter: &Adapter) -> AdapterInfo {
    let segments = adapter
        .vidmm
        .segments()
        .iter()
        .map(|segment| {
            let report = adapter.segment_report(segment);
            SegmentInfo {
                id: report.id,
                aperture: report.aperture,
                flags: report.flags.bits(),
                local: report.local,
                commit_limit_bytes: report.commit_limit_bytes,
                size_bytes: report.capacity_bytes,
                page_bytes: report.page_bytes,
            }
        })
        .collect();
    AdapterInfo {
        name: adapter.config.name.clone(),
        ddi_version: adapter.driver.reported().ddi_version.0,
        atomics_64_bit: adapter.driver.has_64_bit_atomics(),
        segments,
        nodes: adapter.driver.nodes().iter().map(|node| node.name.to_owned()).collect(),
        wddm_3_0_caps: wddm_3_0_caps(adapter),
        wddm_3_1_caps: adapter.wddm_3_1_caps(),
        monitored_fence_signals: adapter.monitored_fence_signals(cx),
        user_mode_submission: adapter.driver.has_feature(ddi::FeatureId::USER_MODE_SUBMISSION),
        gpu_virtual_addresses: adapter.driver.has_page_tables(),
        gpu_mmu: gpu_mmu(adapter.driver.reported().mmu),
        cross_adapter_resources: adapter.driver.has_cross_adapter_resources(),
        preemption: adapter.packets.preemption(),
        cpu_addresses: adapter.uses_cpu_addresses(),
        io_coherent: adapter.is_io_coherent(cx),
        displays: adapter.displays.info(),
    }
}

/// `D3DKMT_WDDM_3_0_CAPS`.
// spec: sync §2.1, sync §4.6
fn wddm_3_0_caps(adapter: &Adapter) -> Wddm30Caps {
    let mut caps = Wddm30Caps::empty();
    let supported = adapter.driver.feature_state(ddi::FeatureId::HWFLIPQUEUE).supported_by_driver;
    caps.set(Wddm30Caps::HW_FLIP_QUEUE_STABLE, supported);
    caps.set(Wddm30Caps::HW_FLIP_QUEUE_ENABLED, adapter.displays.are_queued_by_hardware());
    caps
}

/// The bits of `D3DKMT_GPUMMU_CAPS` are numbered otherwise than those of the driver's.
fn gpu_mmu(caps: GpuMmuCaps) -> (u32, u32) {
    let bits = [
        GpuMmuFlags::READ_ONLY_MEMORY_SUPPORTED,
        GpuMmuFlags::NO_EXECUTE_MEMORY_SUPPORTED,
        GpuMmuFlags::ZERO_IN_PTE_SUPPORTED,
        GpuMmuFlags::CACHE_COHERENT_MEMORY_SUPPORTED,
    ];
    let bits = bits.into_iter().enumerate().filter(|(_, flag)| caps.flags.contains(*flag));
    (bits.fold(0, |word, (bit, _)| word | 1 << bit), caps.virtual_address_bits)
}
