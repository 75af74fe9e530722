//! The answers of a driver without a device: the truth, unless a test changes them.

use ddi::*;
use wddm_types::{GpuVa, SegmentId};

/// The driver's answers.
#[derive(Clone)]
pub struct Answers {
    pub native_cap: bool,
    pub native_facet: bool,
    pub has_fence_logs: bool,
    pub optimized_cap: bool,
    pub no_64_bit_atomics: bool,
    pub stride: u32,
    pub map_to_system_process: bool,
    pub fence_addresses: (GpuVa, GpuVa),
    pub versions: (u16, u16),
    pub feature_query_fails: bool,
    pub first_call_writes_more: bool,
    pub second_count: Option<u32>,
    pub segments: Vec<SegmentDescriptor4>,
    pub paging_buffer: PagingBufferInfo,
    pub levels: u32,
    pub mmu_flags: GpuMmuFlags,
    pub paging_node: u16,
    /// Everything else that it says of itself.
    pub caps: AdapterCaps,
    /// The answers of a driver of the first generation.
    pub segments3: Vec<SegmentDescriptor3>,
    /// The answers of a driver of its first versions.
    pub segments1: Vec<SegmentDescriptor>,
    pub invalid_ranges: Vec<MemoryRange>,
    pub uefi_ranges: Vec<MemoryRange>,
    pub has_gpu_va: bool,
    /// Its node says GpuMmuSupported, whatever stands behind it.
    pub node_lies: bool,
    pub has_hardware_queues: bool,
    pub has_packets: bool,
    pub has_swizzling: bool,
    /// The answer for each device.
    pub device_info: DeviceInfo,
    /// The header of the first scheduling log that it is given, because its hardware has written so much at once; `None`: it takes none.
    pub scheduling_log: Option<u64>,
}

impl Default for Answers {
    fn default() -> Self {
        let memory = SegmentDescriptor4 { size_bytes: 64 << 20, commit_limit_bytes: 64 << 20, ..Default::default() };
        let aperture = SegmentDescriptor4 {
            flags: SegmentFlags::APERTURE | SegmentFlags::CACHE_COHERENT,
            base_address: 1 << 44,
            size_bytes: 16 << 20,
            commit_limit_bytes: 16 << 20,
            ..Default::default()
        };
        Answers {
            native_cap: true,
            native_facet: true,
            has_fence_logs: true,
            optimized_cap: false,
            no_64_bit_atomics: false,
            stride: 64,
            map_to_system_process: true,
            fence_addresses: (GpuVa::NULL, GpuVa::NULL),
            versions: (1, 1),
            feature_query_fails: false,
            first_call_writes_more: false,
            second_count: None,
            segments: vec![memory, aperture],
            paging_buffer: PagingBufferInfo { segment: SegmentId(2), size_bytes: 65536, private_data_bytes: 0 },
            levels: 4,
            mmu_flags: GpuMmuFlags::CACHE_COHERENT_MEMORY_SUPPORTED,
            paging_node: 0,
            caps: AdapterCaps::default(),
            segments3: vec![],
            segments1: vec![],
            invalid_ranges: vec![],
            uefi_ranges: vec![],
            has_gpu_va: true,
            node_lies: false,
            has_hardware_queues: true,
            has_packets: false,
            has_swizzling: false,
            device_info: DeviceInfo::default(),
            scheduling_log: None,
        }
    }
}

impl Answers {
    /// A driver without hardware scheduling, and so without native fences.
    pub fn packets_only() -> Answers {
        Answers {
            has_hardware_queues: false,
            has_packets: true,
            native_cap: false,
            native_facet: false,
            ..Answers::default()
        }
    }
}
