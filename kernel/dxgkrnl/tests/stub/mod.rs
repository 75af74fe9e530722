//! A driver without a device, for the rules of adapter start: every answer can be made a lie.

mod answers;
mod surroundings;

use std::sync::atomic::Ordering;

use ddi::*;
use wddm_types::{EngineId, GpuVa, NodeId, PageRun, Pasid, PhysicalAddress, SegmentId};

pub use answers::Answers;
pub use surroundings::{Bare, NoCache, Surroundings};

/// The driver. It counts the calls to it.
pub struct Stub {
    pub answers: Answers,
    pub seen: std::sync::Arc<std::sync::Mutex<Seen>>,
    next: u64,
}

/// A record of the calls to the driver and their answers.
#[derive(Default, Debug)]
pub struct Seen {
    pub started: u32,
    pub stopped: u32,
    pub native_enabled: Option<FeatureState>,
    pub os_caps: Option<NativeFenceOsCaps>,
    /// The answers when it asked for the interface with room for so many bytes, and the query behind.
    pub interfaces: Vec<(u16, Result<(), DriverStatus>, QueryFeatureInterface)>,
    /// The answer about a feature of the whole machine.
    pub of_machine: Option<Result<FeatureState, DriverStatus>>,
    pub fence_calls: u32,
    /// Where the words of each new fence stand in the paging process.
    pub system_addresses: Vec<(GpuVa, GpuVa)>,
    /// Numbers that the paging process and its device came with.
    pub pasids: Vec<Option<Pasid>>,
    /// Segment queries by name, with whether the descriptors were there and what came in.
    pub segment_queries: Vec<(&'static str, bool, QuerySegmentIn)>,
    /// Scheduling logs that it was given, and taken from: node, entries, where it is to interrupt.
    pub scheduling_logs: Vec<(NodeId, Option<(u32, u32)>)>,
    /// Ranges asked for: kind, segment, how many.
    pub range_queries: Vec<(&'static str, SegmentId, usize)>,
}

impl Stub {
    pub fn new(answers: Answers) -> (Stub, std::sync::Arc<std::sync::Mutex<Seen>>) {
        let seen = std::sync::Arc::default();
        (Stub { answers, seen: std::sync::Arc::clone(&seen), next: 1 }, seen)
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn asked(&self, name: &'static str, filled: bool, input: QuerySegmentIn) {
        self.seen.lock().unwrap().segment_queries.push((name, filled, input));
    }

    fn first_call(&self, segments: usize, count: &mut u32, paging_buffer: &mut PagingBufferInfo) {
        *count = segments as u32;
        if self.answers.first_call_writes_more {
            *paging_buffer = self.answers.paging_buffer;
        }
    }

    fn second_call(&self, count: &mut u32, paging_buffer: &mut PagingBufferInfo) {
        *paging_buffer = self.answers.paging_buffer;
        *count = self.answers.second_count.unwrap_or(*count);
    }
}

impl Miniport for Stub {
    fn start_device(&mut self, host: &mut dyn Host) -> Result<(), DriverStatus> {
        let state = host.is_feature_enabled(FeatureId::NATIVE_FENCE).expect("a feature of an adapter");
        let mut ask = |size| {
            let mut query = QueryFeatureInterface::new(FeatureId::NATIVE_FENCE, state.version, size);
            let answer = host.query_feature_interface(&mut query);
            (size, answer, query)
        };
        let interfaces: Vec<_> = [0, 7, 8, 9, u16::MAX].map(&mut ask).into();
        let os_caps = match ask(NativeFenceInterface1::BYTES) {
            (_, Ok(()), QueryFeatureInterface { interface: FeatureInterface::NativeFence1(interface), .. }) => {
                Some(interface.get_os_caps())
            }
            _ => None,
        };
        let of_machine = host.is_feature_enabled(FeatureId::GPUVAIOMMU);
        let mut seen = self.seen.lock().unwrap();
        (seen.interfaces, seen.of_machine) = (interfaces, Some(of_machine));
        seen.started += 1;
        seen.native_enabled = Some(state);
        seen.os_caps = os_caps;
        Ok(())
    }
    fn stop_device(&mut self, _host: &mut dyn Host) {
        self.seen.lock().unwrap().stopped += 1;
    }
    fn query_feature_support(
        &mut self,
        _feature: FeatureId,
        _experimental: bool,
    ) -> Result<FeatureSupport, DriverStatus> {
        if self.answers.feature_query_fails {
            return Err(DriverStatus::InvalidParameter("unknown"));
        }
        let (min_version, max_version) = self.answers.versions;
        Ok(FeatureSupport { min_version, max_version, supported_by_driver: true, supported_on_current_config: true })
    }
    fn adapter_caps(&self) -> AdapterCaps {
        AdapterCaps {
            native_gpu_fence: self.answers.native_cap,
            optimized_native_fence_interrupt: self.answers.optimized_cap,
            no_64_bit_atomics: self.answers.no_64_bit_atomics,
            paging_node: self.answers.paging_node,
            ..self.answers.caps
        }
    }
    fn query_segment(&self, query: &mut QuerySegment<'_>) -> Result<(), DriverStatus> {
        self.asked("QUERYSEGMENT", query.descriptors.is_some(), query.input);
        match &mut query.descriptors {
            None => self.first_call(self.answers.segments1.len(), &mut query.count, &mut query.paging_buffer),
            Some(descriptors) => {
                descriptors.clone_from_slice(&self.answers.segments1);
                self.second_call(&mut query.count, &mut query.paging_buffer);
            }
        }
        Ok(())
    }
    fn query_segment3(&self, query: &mut QuerySegment3<'_>) -> Result<(), DriverStatus> {
        self.asked("QUERYSEGMENT3", query.descriptors.is_some(), query.input);
        match &mut query.descriptors {
            None => self.first_call(self.answers.segments3.len(), &mut query.count, &mut query.paging_buffer),
            Some(descriptors) => {
                descriptors.clone_from_slice(&self.answers.segments3);
                self.second_call(&mut query.count, &mut query.paging_buffer);
            }
        }
        Ok(())
    }
    fn query_segment4(&self, query: &mut QuerySegment4<'_>) -> Result<(), DriverStatus> {
        self.asked("QUERYSEGMENT4", query.descriptors.is_some(), QuerySegmentIn::default());
        match &mut query.descriptors {
            None => self.first_call(self.answers.segments.len(), &mut query.count, &mut query.paging_buffer),
            Some(descriptors) => {
                assert!(descriptors.stride() > DESCRIPTOR4_BYTES, "a driver must not count on the stride");
                assert!(descriptors.put_all(&self.answers.segments));
                self.second_call(&mut query.count, &mut query.paging_buffer);
            }
        }
        Ok(())
    }
    fn segment_memory_state(&self, query: &mut QueryMemoryRanges<'_>) -> Result<(), DriverStatus> {
        let mut seen = self.seen.lock().unwrap();
        seen.range_queries.push(("SEGMENTMEMORYSTATE", query.segment, query.ranges.len()));
        query.ranges.copy_from_slice(&self.answers.invalid_ranges);
        Ok(())
    }
    fn uefi_frame_buffer_ranges(&self, query: &mut QueryMemoryRanges<'_>) -> Result<(), DriverStatus> {
        let mut seen = self.seen.lock().unwrap();
        seen.range_queries.push(("UEFIFRAMEBUFFERRANGES", query.segment, query.ranges.len()));
        query.ranges.copy_from_slice(&self.answers.uefi_ranges);
        Ok(())
    }
    fn node_metadata(&self, node: NodeId) -> Option<NodeMetadata> {
        (node.0 == 0).then_some(NodeMetadata {
            fence_interrupt: true,
            name: "only",
            gpu_mmu_supported: self.answers.has_gpu_va || self.answers.node_lies,
            user_mode_submission: true,
            max_in_flight_buffers: 8,
        })
    }
    fn create_process(&mut self, _host: &mut dyn Host, create: CreateProcess<'_>) -> Result<KmdProcess, DriverStatus> {
        assert!(create.pasids.len() <= 1, "there is one physical adapter");
        self.seen.lock().unwrap().pasids.push(create.pasids.first().copied());
        Ok(KmdProcess(self.number()))
    }
    fn destroy_process(&mut self, _process: KmdProcess) {}
    fn create_device(
        &mut self,
        _host: &mut dyn Host,
        create: CreateDevice,
    ) -> Result<(KmdDevice, DeviceInfo), DriverStatus> {
        self.seen.lock().unwrap().pasids.push(create.pasid);
        Ok((KmdDevice(self.number()), self.answers.device_info))
    }
    fn destroy_device(&mut self, _device: KmdDevice) {}
    fn create_allocation(&mut self, _create: &mut CreateAllocation<'_, '_>) -> Result<(), DriverStatus> {
        Err(DriverStatus::NotSupported("the stub has no memory"))
    }
    fn open_allocation(&mut self, _open: &mut OpenAllocation<'_, '_>) -> Result<(), DriverStatus> {
        Err(DriverStatus::NotSupported("a stub"))
    }
    fn close_allocation(&mut self, _device: KmdDevice, _open: &[KmdOpenAllocation]) {}
    fn destroy_allocation(&mut self, _destroy: &mut DestroyAllocation<'_>) {}
    fn validate_update_allocation_property(&mut self, _update: UpdateAllocationProperty) -> Result<(), DriverStatus> {
        Err(DriverStatus::NotSupported("a stub"))
    }
    fn standard_allocation_driver_data(
        &mut self,
        _query: &mut StandardAllocationDriverData<'_>,
    ) -> Result<(), DriverStatus> {
        Err(DriverStatus::NotSupported("a stub"))
    }
    fn build_paging_buffer(&mut self, _build: &mut BuildPagingBuffer<'_>) -> Result<(), PagingStatus> {
        Ok(())
    }
    fn interrupt_routine(&mut self, _notify: &mut dyn Notify) -> bool {
        false
    }
    fn gpu_va(&mut self) -> Option<&mut dyn GpuVirtualAddressing> {
        self.answers.has_gpu_va.then_some(self as &mut dyn GpuVirtualAddressing)
    }
    fn hardware_queues(&mut self) -> Option<&mut dyn HardwareQueues> {
        self.answers.has_hardware_queues.then_some(self as &mut dyn HardwareQueues)
    }
    fn native_fences(&mut self) -> Option<&mut dyn NativeFences> {
        self.answers.native_facet.then_some(self as &mut dyn NativeFences)
    }
    fn native_fence_logs(&mut self) -> Option<&mut dyn NativeFenceLogs> {
        self.answers.has_fence_logs.then_some(self as &mut dyn NativeFenceLogs)
    }
    fn packet_scheduling(&mut self) -> Option<&mut dyn PacketScheduling> {
        self.answers.has_packets.then_some(self as &mut dyn PacketScheduling)
    }
    fn swizzling(&mut self) -> Option<&mut dyn Swizzling> {
        self.answers.has_swizzling.then_some(self as &mut dyn Swizzling)
    }
    fn doorbells(&mut self) -> Option<&mut dyn Doorbells> {
        None
    }
}

impl Swizzling for Stub {
    fn swizzling_ranges(&self) -> u32 {
        4
    }
    fn acquire_swizzling_range(&mut self, _acquire: &mut AcquireSwizzlingRange) -> Result<(), SwizzlingError> {
        Err(SwizzlingError::Unavailable)
    }
    fn release_swizzling_range(&mut self, _release: ReleaseSwizzlingRange) {}
}

impl GpuVirtualAddressing for Stub {
    fn gpu_mmu_caps(&self) -> GpuMmuCaps {
        GpuMmuCaps {
            flags: self.answers.mmu_flags,
            virtual_address_bits: 12 + 9 * self.answers.levels,
            page_table_levels: self.answers.levels,
            ..Default::default()
        }
    }
    fn page_table_level(&self, _level: u32) -> PageTableLevelDesc {
        let segment = SegmentId(1);
        PageTableLevelDesc {
            index_bits: 9,
            segment,
            paging_process_segment: segment,
            size_bytes: 4096,
            alignment_bytes: 4096,
        }
    }
    fn set_root_page_table(&mut self, _context: KmdContext, _root: PhysicalAddress, _entries: u32) {}
}

impl HardwareQueues for Stub {
    fn create_hw_context(
        &mut self,
        _host: &mut dyn Host,
        _create: CreateHwContext<'_>,
    ) -> Result<KmdContext, DriverStatus> {
        Ok(KmdContext(self.number()))
    }
    fn destroy_hw_context(&mut self, _context: KmdContext) {}
    fn create_hw_queue(&mut self, _host: &mut dyn Host, _create: CreateHwQueue<'_>) -> Result<KmdQueue, DriverStatus> {
        Ok(KmdQueue(self.number()))
    }
    fn destroy_hw_queue(&mut self, _host: &mut dyn Host, _queue: KmdQueue) {}
    fn submit_command_to_hw_queue(&mut self, _submit: SubmitCommandToHwQueue<'_>) -> Result<(), DriverStatus> {
        Ok(())
    }
    fn suspend_context(&mut self, _context: KmdContext, _suspend_fence: u64) -> Result<SuspendStatus, DriverStatus> {
        Ok(SuspendStatus::Suspended)
    }
    fn resume_context(&mut self, _context: KmdContext) {}
    fn stop_hw_queue(&mut self, _queue: KmdQueue) {}
    fn set_engine_f_state(&mut self, _node: NodeId, _engine: EngineId, _state: FState) {}
    fn set_scheduling_log_buffer(&mut self, set: SetSchedulingLogBuffer<'_>) -> Result<(), DriverStatus> {
        let position = self.answers.scheduling_log.ok_or(DriverStatus::NotSupported("SetSchedulingLogBuffer"))?;
        self.answers.scheduling_log = Some(0);
        let given = set.buffer.map(|buffer| (buffer.entries, buffer.interrupt_entry));
        self.seen.lock().unwrap().scheduling_logs.push((set.node, given));
        if let Some(buffer) = set.buffer {
            let header = buffer.header.map(|word| word.load(Ordering::Relaxed));
            assert_eq!(header[..2], [0, u64::from(buffer.entries)], "it counts nothing yet");
            buffer.header[0].store(position, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl PacketScheduling for Stub {
    fn packet_caps(&self) -> PacketCaps {
        PacketCaps { max_allocation_list_slot_id: 1, hw_queue_packets: 1, preemption: None }
    }
    fn create_context(
        &mut self,
        _host: &mut dyn Host,
        create: CreateContext<'_>,
    ) -> Result<(KmdContext, ContextInfo), DriverStatus> {
        assert!(create.flags.contains(CreateContextFlags::SYSTEM_CONTEXT), "only the kernel's own context asks a stub");
        Ok((KmdContext(self.number()), ContextInfo::default()))
    }
    fn destroy_context(&mut self, _host: &mut dyn Host, _context: KmdContext) {}
    fn render(&mut self, _context: KmdContext, _render: &mut Render<'_>) -> Result<(), RenderStatus> {
        Err(RenderStatus::IllegalInstruction)
    }
    fn present(&mut self, _context: KmdContext, _present: &mut Present<'_>) -> Result<(), RenderStatus> {
        Err(RenderStatus::IllegalInstruction)
    }
    fn present_flip(&mut self, _context: KmdContext, _list: &[AllocationListEntry]) -> Result<(), RenderStatus> {
        Err(RenderStatus::IllegalInstruction)
    }
    fn patch(&mut self, _patch: &mut Patch<'_>) -> Result<(), DriverStatus> {
        Ok(())
    }
    fn submit_command(&mut self, _submit: SubmitCommand<'_>) -> Result<(), DriverStatus> {
        Ok(())
    }
    fn submit_command_virtual(&mut self, _submit: SubmitCommandVirtual<'_>) -> Result<(), DriverStatus> {
        Ok(())
    }
    fn preempt_command(&mut self, _preempt: PreemptCommand) -> Result<(), DriverStatus> {
        Err(DriverStatus::NotSupported("preemption"))
    }
    fn stop_context(&mut self, _context: KmdContext) {}
}

impl NativeFences for Stub {
    fn caps(&self) -> NativeFenceCaps {
        NativeFenceCaps {
            monitored_value_stride: self.answers.stride,
            map_to_gpu_system_process: self.answers.map_to_system_process,
            minimum_address: self.answers.fence_addresses.0,
            maximum_address: self.answers.fence_addresses.1,
        }
    }
    fn create(&mut self, create: &mut CreateNativeFence<'_>) -> Result<KmdGlobalFence, DriverStatus> {
        let mut seen = self.seen.lock().unwrap();
        seen.fence_calls += 1;
        seen.system_addresses.push((create.current_system_va, create.monitored_system_va));
        drop(seen);
        Ok(KmdGlobalFence(self.number()))
    }
    fn destroy(&mut self, _fence: KmdGlobalFence) {}
    fn open(&mut self, _open: &mut OpenNativeFence<'_>) -> Result<KmdLocalFence, DriverStatus> {
        Ok(KmdLocalFence(self.number()))
    }
    fn close(&mut self, _fence: KmdLocalFence) {}
    fn update_monitored_values(&mut self, _updates: &[MonitoredUpdate<'_>]) -> Result<(), DriverStatus> {
        Ok(())
    }
    fn update_current_values(
        &mut self,
        _updates: &[CurrentUpdate<'_>],
        _flags: UpdateCurrentFlags,
    ) -> Result<(), DriverStatus> {
        Ok(())
    }
}

impl NativeFenceLogs for Stub {
    fn set_log_buffer(&mut self, _set: SetNativeFenceLogBuffer<'_>) -> Result<(), DriverStatus> {
        Ok(())
    }
    fn update_logs(&mut self, _queues: &[KmdQueue]) -> Result<(), DriverStatus> {
        Ok(())
    }
}

/// System pages of a test's kernel.
pub const PAGES: u64 = 4096;

/// The run of all pages after the kernel's own.
pub fn system_run() -> PageRun {
    PageRun { first: PAGES / 2, count: wddm_types::Pages(PAGES / 2) }
}
