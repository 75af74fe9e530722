//! An adapter as programs read it. The names are described in JSON.md and stay.

use std::collections::BTreeMap;

use dxgk_host::Profile;
use dxgkrnl::{AdapterDescription, FeatureReport, SegmentReport};
use serde_json::{Value, json};
use wddm_types::{PAGE_BYTES, PageRun};

use super::names;

/// The profiles.
pub fn list(profiles: &[Profile]) -> String {
    let one = |profile: &Profile| json!({ "profile": profile.name, "description": profile.description });
    written(&Value::Array(profiles.iter().map(one).collect()))
}

/// One adapter in full.
pub fn adapter(profile: &Profile, adapter: &AdapterDescription) -> String {
    let said = &adapter.reported;
    let features = adapter.features.iter().map(|feature| (feature.name.to_owned(), json!(feature.state.version)));
    let why = |feature: &FeatureReport| Some((feature.name.to_owned(), json!(feature.off?.to_string())));
    let off = adapter.features.iter().filter_map(why);
    let caps = adapter.native_fence_os_caps;
    let nodes = adapter.nodes.iter().zip(&adapter.monitored_fence_signals).map(|(node, signal)| {
        json!({
            "monitored_fence_signal": format!("{signal:?}").to_lowercase(),
            "name": node.name,
            "user_mode_submission": node.user_mode_submission,
            "max_in_flight_buffers": node.max_in_flight_buffers,
        })
    });
    let levels = said.levels.iter().map(|level| {
        json!({
            "index_bits": level.index_bits,
            "table_bytes": level.size_bytes,
            "alignment_bytes": level.alignment_bytes,
            "segment": level.segment.0,
            "paging_process_segment": level.paging_process_segment.0,
        })
    });
    written(&json!({
        "profile": profile.name,
        "description": profile.description,
        "pci": {
            "vendor": profile.pci.vendor,
            "device": profile.pci.device,
            "subsystem_vendor": profile.pci.subsystem_vendor,
            "subsystem": profile.pci.subsystem,
            "revision": profile.pci.revision,
            "bus_type": profile.pci.bus_type,
            "address": profile.pci_address.map(|place| place.to_string()),
        },
        "driver_model": format!("{:?}", said.driver_model),
        "ddi_version": said.ddi_version.0,
        "memory_caps": names(said.memory_caps),
        "facets": adapter.facets,
        "features": features.collect::<serde_json::Map<_, _>>(),
        "features_off": off.collect::<serde_json::Map<_, _>>(),
        "optimized_default_fences": caps.optimized_default_fence_type,
        "intra_gpu_fences": caps.intra_gpu_fence_type,
        "dedicated_video_bytes": adapter.totals.dedicated_video_bytes,
        "dedicated_system_bytes": adapter.totals.dedicated_system_bytes,
        "shared_bytes": adapter.totals.shared_bytes,
        "total_bytes": adapter.totals.video_bytes(),
        "system_for_graphics_bytes": adapter.totals.system_for_graphics_bytes,
        "local_budget_bytes": adapter.budget_bytes[0],
        "non_local_budget_bytes": adapter.budget_bytes[1],
        "paging_space_bytes": said.paging_space_bytes,
        "paging_buffer_bytes": said.paging_buffer.size_bytes,
        "paging_buffer_segment": said.paging_buffer.segment.0,
        "paging_node": said.paging_node,
        "segments": adapter.segments.iter().map(segment).collect::<Vec<_>>(),
        "monitored_fence_bits": adapter.monitored_fence_bits,
        "virtual_address_bits": said.mmu.virtual_address_bits,
        "mmu_flags": names(said.mmu.flags),
        "leaf_table_64kb_bytes": said.mmu.leaf_table_64kb_bytes,
        "levels": levels.collect::<Vec<_>>(),
        "nodes": nodes.collect::<Vec<_>>(),
        "choices": profile.memory_policy.written().into_iter().collect::<BTreeMap<_, _>>(),
        "graphics_preemption": adapter.preemption.map_or("none", |fine| fine.graphics.name()),
        "compute_preemption": adapter.preemption.map_or("none", |fine| fine.compute.name()),
    }))
}

fn segment(segment: &SegmentReport) -> Value {
    json!({
        "id": segment.id.0,
        "kind": if segment.aperture { "aperture" } else { "memory" },
        "flags": names(segment.flags),
        "ignored_flags": names(segment.ignored),
        "base_address": segment.base_address,
        "size_bytes": segment.size_bytes,
        "commit_limit_bytes": segment.commit_limit_bytes,
        "capacity_bytes": segment.capacity_bytes,
        "page_bytes": segment.page_bytes,
        "bus_address": segment.bus_address,
        "cpu_window_pages": segment.host_aperture.map(|window| window.size_in_pages),
        "budget_group": if segment.local { "local" } else { "non-local" },
        "banks": segment.banks.iter().map(run).collect::<Vec<_>>(),
        "invalid": segment.invalid.iter().map(run).collect::<Vec<_>>(),
    })
}

fn run(run: &PageRun) -> Value {
    json!({ "offset_bytes": run.first * PAGE_BYTES, "bytes": run.count.bytes() })
}

fn written(value: &Value) -> String {
    // PANIC: a value of ours has string keys only.
    let text = serde_json::to_string_pretty(value).expect("a JSON value is written");
    format!("{text}\n")
}
