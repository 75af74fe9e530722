//! The functions of the driver contract, as one list. The trait of filters, the driver in front and the enum of functions are made from it,
//! so none of them can lack a function that the others have.
//!
//! A row: its name as a [`Function`](crate::Function), its name in WDDM, its name in [`Filter`](crate::Filter), its name in the trait of
//! `ddi` with its arguments and answer.

/// Gives the list to a macro.
macro_rules! functions {
    ($take:ident) => {
        $take! {
            // Asked by a shared reference.
            asked {
                AdapterCaps "QueryAdapterInfo(DRIVERCAPS)" adapter_caps() -> AdapterCaps;
                QuerySegment "QueryAdapterInfo(QUERYSEGMENT)" query_segment(query: &mut QuerySegment<'_>) -> Result<(), DriverStatus>;
                QuerySegment3 "QueryAdapterInfo(QUERYSEGMENT3)" query_segment3(query: &mut QuerySegment3<'_>) -> Result<(), DriverStatus>;
                QuerySegment4 "QueryAdapterInfo(QUERYSEGMENT4)" query_segment4(query: &mut QuerySegment4<'_>) -> Result<(), DriverStatus>;
                SegmentMemoryState "QueryAdapterInfo(SEGMENTMEMORYSTATE)" segment_memory_state(query: &mut QueryMemoryRanges<'_>) -> Result<(), DriverStatus>;
                UefiFrameBufferRanges "QueryAdapterInfo(UEFIFRAMEBUFFERRANGES)" uefi_frame_buffer_ranges(query: &mut QueryMemoryRanges<'_>) -> Result<(), DriverStatus>;
                PagingProcessGpuVaSize "QueryAdapterInfo(PAGINGPROCESSGPUVASIZE)" paging_process_gpu_va_mb() -> Result<u32, DriverStatus>;
                GetNodeMetadata "DxgkDdiGetNodeMetadata" node_metadata(node: NodeId) -> Option<NodeMetadata>;
                CalibrateGpuClock "DxgkDdiCalibrateGpuClock" calibrate_gpu_clock(node: NodeId) -> Result<GpuClock, DriverStatus>;
            }
            // Called by an exclusive one.
            called {
                StartDevice "DxgkDdiStartDevice" start_device(host: &mut dyn Host) -> Result<(), DriverStatus>;
                StopDevice "DxgkDdiStopDevice" stop_device(host: &mut dyn Host);
                SetPowerState "DxgkDdiSetPowerState" set_power_state(host: &mut dyn Host, state: PowerState) -> Result<(), DriverStatus>;
                ResetFromTimeout "DxgkDdiResetFromTimeout" reset_from_timeout(host: &mut dyn Host) -> Result<(), DriverStatus>;
                RestartFromTimeout "DxgkDdiRestartFromTimeout" restart_from_timeout(host: &mut dyn Host) -> Result<(), DriverStatus>;
                QueryFeatureSupport "DxgkDdiQueryFeatureSupport" query_feature_support(feature: FeatureId, allow_experimental: bool) -> Result<FeatureSupport, DriverStatus>;
                CreateProcess "DxgkDdiCreateProcess" create_process(host: &mut dyn Host, create: CreateProcess<'_>) -> Result<KmdProcess, DriverStatus>;
                DestroyProcess "DxgkDdiDestroyProcess" destroy_process(process: KmdProcess);
                CreateDevice "DxgkDdiCreateDevice" create_device(host: &mut dyn Host, create: CreateDevice) -> Result<(KmdDevice, DeviceInfo), DriverStatus>;
                DestroyDevice "DxgkDdiDestroyDevice" destroy_device(device: KmdDevice);
                CreateAllocation "DxgkDdiCreateAllocation" create_allocation(create: &mut CreateAllocation<'_, '_>) -> Result<(), DriverStatus>;
                OpenAllocation "DxgkDdiOpenAllocation" open_allocation(open: &mut OpenAllocation<'_, '_>) -> Result<(), DriverStatus>;
                CloseAllocation "DxgkDdiCloseAllocation" close_allocation(device: KmdDevice, open: &[KmdOpenAllocation]);
                DestroyAllocation "DxgkDdiDestroyAllocation" destroy_allocation(destroy: &mut DestroyAllocation<'_>);
                SetAllocationBackingStore "DxgkDdiSetAllocationBackingStore" set_allocation_backing_store(set: SetAllocationBackingStore<'_>) -> Result<(), DriverStatus>;
                ValidateUpdateAllocationProperty "DxgkDdiValidateUpdateAllocationProperty" validate_update_allocation_property(update: UpdateAllocationProperty) -> Result<(), DriverStatus>;
                GetStandardAllocationDriverData "DxgkDdiGetStandardAllocationDriverData" standard_allocation_driver_data(query: &mut StandardAllocationDriverData<'_>) -> Result<(), DriverStatus>;
                Escape "DxgkDdiEscape" escape(escape: &mut Escape<'_>) -> Result<(), DriverStatus>;
                BuildPagingBuffer "DxgkDdiBuildPagingBuffer" build_paging_buffer(build: &mut BuildPagingBuffer<'_>) -> Result<(), PagingStatus>;
                QueryDependentEngineGroup "DxgkDdiQueryDependentEngineGroup" query_dependent_engine_group(node: NodeId) -> u64;
                InterruptRoutine "DxgkDdiInterruptRoutine" interrupt_routine(notify: &mut dyn Notify) -> bool;
            }
            // Facets: how the driver lends one, what it has said by a shared reference, and its functions.
            facet GpuVirtualAddressing by gpu_va, GpuVirtualAddressingFilter {
                changes {
                    /// Changes [`GpuVirtualAddressing::gpu_mmu_caps`].
                    fn gpu_mmu_caps(&self, honest: GpuMmuCaps) -> GpuMmuCaps {
                        honest
                    }
                    /// Changes [`GpuVirtualAddressing::page_table_level`].
                    fn page_table_level(&self, _level: u32, honest: PageTableLevelDesc) -> PageTableLevelDesc {
                        honest
                    }
                }
                says {
                    fn gpu_mmu_caps(&self) -> GpuMmuCaps {
                        self.filter.gpu_mmu_caps(self.said.gpu_mmu)
                    }
                    fn page_table_level(&self, level: u32) -> PageTableLevelDesc {
                        let honest = self.said.levels.get(level as usize).copied().unwrap_or_default();
                        self.filter.page_table_level(level, honest)
                    }
                }
                GetRootPageTableSize "DxgkDdiGetRootPageTableSize" root_page_table_size = root_page_table_size(entries: u32) -> Option<RootPageTableSize>;
                SetRootPageTable "DxgkDdiSetRootPageTable" set_root_page_table = set_root_page_table(context: KmdContext, root: PhysicalAddress, entries: u32);
            }
            facet HardwareQueues by hardware_queues, HardwareQueuesFilter {
                changes {}
                says {}
                CreateHwContext "DxgkDdiCreateHwContext" create_hw_context = create_hw_context(host: &mut dyn Host, create: CreateHwContext<'_>) -> Result<KmdContext, DriverStatus>;
                DestroyHwContext "DxgkDdiDestroyHwContext" destroy_hw_context = destroy_hw_context(context: KmdContext);
                CreateHwQueue "DxgkDdiCreateHwQueue" create_hw_queue = create_hw_queue(host: &mut dyn Host, create: CreateHwQueue<'_>) -> Result<KmdQueue, DriverStatus>;
                DestroyHwQueue "DxgkDdiDestroyHwQueue" destroy_hw_queue = destroy_hw_queue(host: &mut dyn Host, queue: KmdQueue);
                SubmissionDataBytes "DmaBufferPrivateDataSize" submission_data_bytes = submission_data_bytes() -> u32;
                SubmitCommandToHwQueue "DxgkDdiSubmitCommandToHwQueue" submit_command_to_hw_queue = submit_command_to_hw_queue(submit: SubmitCommandToHwQueue<'_>) -> Result<(), DriverStatus>;
                SuspendContext "DxgkDdiSuspendContext" suspend_context = suspend_context(context: KmdContext, suspend_fence: u64) -> Result<SuspendStatus, DriverStatus>;
                ResumeContext "DxgkDdiResumeContext" resume_context = resume_context(context: KmdContext);
                SetupPriorityBands "DxgkDdiSetupPriorityBands" setup_priority_bands = setup_priority_bands(setup: SetupPriorityBands) -> Result<(), DriverStatus>;
                SetContextSchedulingProperties "DxgkDdiSetContextSchedulingProperties" set_context_scheduling_properties = set_context_scheduling_properties(properties: SetContextSchedulingProperties) -> Result<(), DriverStatus>;
                SetSchedulingLogBuffer "DxgkDdiSetSchedulingLogBuffer" set_scheduling_log_buffer = set_scheduling_log_buffer(set: SetSchedulingLogBuffer<'_>) -> Result<(), DriverStatus>;
                HwQueueRunningTime "the running time of a hardware queue" hw_queue_running_ns = hw_queue_running_ns(queue: KmdQueue) -> Result<u64, DriverStatus>;
                StopHwQueue "DxgkDdiResetHwEngine(queue)" stop_hw_queue = stop_hw_queue(queue: KmdQueue);
                SetEngineFState "DxgkDdiSetPowerComponentFState" set_engine_f_state = set_engine_f_state(node: NodeId, engine: EngineId, state: FState);
                ResetHwEngine "DxgkDdiResetHwEngine" reset_hw_engine = reset_hw_engine(node: NodeId, engine: u32) -> Result<Vec<KmdContext>, DriverStatus>;
                ResumeHwEngine "DxgkDdiResumeHwEngine" resume_hw_engine = resume_hw_engine(node: NodeId, engine: u32) -> Result<(), DriverStatus>;
            }
            facet NativeFences by native_fences, NativeFencesFilter {
                changes {
                    /// Changes [`NativeFences::caps`].
                    fn native_fence_caps(&self, honest: NativeFenceCaps) -> NativeFenceCaps {
                        honest
                    }
                }
                says {
                    fn caps(&self) -> NativeFenceCaps {
                        self.filter.native_fence_caps(self.said.native_fences)
                    }
                }
                FenceStorage "DxgkDdiGetStandardAllocationDriverData(FENCESTORAGE)" fence_storage = fence_storage(surface: &mut FenceStorageSurface) -> Result<(), DriverStatus>;
                CreateNativeFence "DxgkDdiCreateNativeFence" create_native_fence = create(create: &mut CreateNativeFence<'_>) -> Result<KmdGlobalFence, DriverStatus>;
                DestroyNativeFence "DxgkDdiDestroyNativeFence" destroy_native_fence = destroy(fence: KmdGlobalFence);
                OpenNativeFence "DxgkDdiOpenNativeFence" open_native_fence = open(open: &mut OpenNativeFence<'_>) -> Result<KmdLocalFence, DriverStatus>;
                CloseNativeFence "DxgkDdiCloseNativeFence" close_native_fence = close(fence: KmdLocalFence);
                UpdateMonitoredValues "DxgkDdiUpdateMonitoredValues" update_monitored_values = update_monitored_values(updates: &[MonitoredUpdate<'_>]) -> Result<(), DriverStatus>;
                UpdateCurrentValuesFromCpu "DxgkDdiUpdateCurrentValuesFromCpu" update_current_values = update_current_values(updates: &[CurrentUpdate<'_>], flags: UpdateCurrentFlags) -> Result<(), DriverStatus>;
            }
            facet NativeFenceLogs by native_fence_logs, NativeFenceLogsFilter {
                changes {}
                says {}
                SetNativeFenceLogBuffer "DxgkDdiSetNativeFenceLogBuffer" set_log_buffer = set_log_buffer(set: SetNativeFenceLogBuffer<'_>) -> Result<(), DriverStatus>;
                SetVerboseLogs "verbose logs of native fences" set_verbose_logs = set_verbose_logs(on: bool);
                UpdateNativeFenceLogs "DxgkDdiUpdateNativeFenceLogs" update_logs = update_logs(queues: &[KmdQueue]) -> Result<(), DriverStatus>;
            }
            facet PeerDoorbells by peer_doorbells, PeerDoorbellsFilter {
                changes {
                    /// Changes [`PeerDoorbells::peer_doorbell_caps`].
                    fn peer_doorbell_caps(&self, honest: PeerDoorbellCaps) -> PeerDoorbellCaps {
                        honest
                    }
                }
                says {
                    fn peer_doorbell_caps(&self) -> PeerDoorbellCaps {
                        self.filter.peer_doorbell_caps(self.said.peer_doorbells)
                    }
                }
                SetInbox "the inbox of a device" set_inbox = set_inbox(own: u32, inbox: u64);
                ConnectPeer "the inbox of a peer" connect_peer = connect_peer(peer: u32, inbox: u64);
                ShareWithPeers "a fence that peers share" share_with_peers = share_with_peers(fence: KmdGlobalFence, id: u64, peers: u64) -> Result<(), DriverStatus>;
            }
            facet PacketScheduling by packet_scheduling, PacketSchedulingFilter {
                changes {
                    /// Changes [`PacketScheduling::packet_caps`].
                    fn packet_caps(&self, honest: PacketCaps) -> PacketCaps {
                        honest
                    }
                }
                says {
                    fn packet_caps(&self) -> PacketCaps {
                        self.filter.packet_caps(self.said.packets.expect(LENT))
                    }
                }
                CreateContext "DxgkDdiCreateContext" create_context = create_context(host: &mut dyn Host, create: CreateContext<'_>) -> Result<(KmdContext, ContextInfo), DriverStatus>;
                DestroyContext "DxgkDdiDestroyContext" destroy_context = destroy_context(host: &mut dyn Host, context: KmdContext);
                Render "DxgkDdiRender" render = render(context: KmdContext, render: &mut Render<'_>) -> Result<(), RenderStatus>;
                Present "DxgkDdiPresent" present = present(context: KmdContext, present: &mut Present<'_>) -> Result<(), RenderStatus>;
                PresentFlip "DxgkDdiPresent(Flip)" present_flip = present_flip(context: KmdContext, allocation_list: &[AllocationListEntry]) -> Result<(), RenderStatus>;
                Patch "DxgkDdiPatch" patch = patch(patch: &mut Patch<'_>) -> Result<(), DriverStatus>;
                SubmitCommand "DxgkDdiSubmitCommand" submit_command = submit_command(submit: SubmitCommand<'_>) -> Result<(), DriverStatus>;
                SubmitCommandVirtual "DxgkDdiSubmitCommandVirtual" submit_command_virtual = submit_command_virtual(submit: SubmitCommandVirtual<'_>) -> Result<(), DriverStatus>;
                PreemptCommand "DxgkDdiPreemptCommand" preempt_command = preempt_command(preempt: PreemptCommand) -> Result<(), DriverStatus>;
                ResetEngine "DxgkDdiResetEngine" reset_engine = reset_engine(reset: ResetEngine, notify: &mut dyn Notify) -> Result<u32, DriverStatus>;
                StopContext "the stop of a packet context" stop_context = stop_context(context: KmdContext);
            }
            facet Doorbells by doorbells, DoorbellsFilter {
                changes {}
                says {}
                CreateDoorbell "DxgkDdiCreateDoorbell" create_doorbell = create_doorbell(create: CreateDoorbell<'_>) -> Result<KmdDoorbell, DriverStatus>;
                ConnectDoorbell "DxgkDdiConnectDoorbell" connect_doorbell = connect_doorbell(host: &mut dyn DoorbellHost, doorbell: KmdDoorbell) -> Result<ConnectedDoorbell, DriverStatus>;
                DisconnectDoorbell "DxgkDdiDisconnectDoorbell" disconnect_doorbell = disconnect_doorbell(doorbell: KmdDoorbell);
                DestroyDoorbell "DxgkDdiDestroyDoorbell" destroy_doorbell = destroy_doorbell(doorbell: KmdDoorbell);
                NotifyWorkSubmission "DxgkDdiNotifyWorkSubmission" notify_work_submission = notify_work_submission(queue: KmdQueue);
            }
            facet HostAperture by cpu_host_aperture, HostApertureFilter {
                changes {}
                says {}
                MapCpuHostAperture "DxgkDdiMapCpuHostAperture" map_cpu_host_aperture = map_cpu_host_aperture(map: MapCpuHostAperture<'_>) -> Result<(), DriverStatus>;
                UnmapCpuHostAperture "DxgkDdiUnmapCpuHostAperture" unmap_cpu_host_aperture = unmap_cpu_host_aperture(unmap: UnmapCpuHostAperture<'_>);
            }
            facet Swizzling by swizzling, SwizzlingFilter {
                changes {
                    /// Changes [`Swizzling::swizzling_ranges`].
                    fn swizzling_ranges(&self, honest: u32) -> u32 {
                        honest
                    }
                }
                says {
                    fn swizzling_ranges(&self) -> u32 {
                        self.filter.swizzling_ranges(self.said.swizzling_ranges)
                    }
                }
                AcquireSwizzlingRange "DxgkDdiAcquireSwizzlingRange" acquire_swizzling_range = acquire_swizzling_range(acquire: &mut AcquireSwizzlingRange) -> Result<(), SwizzlingError>;
                ReleaseSwizzlingRange "DxgkDdiReleaseSwizzlingRange" release_swizzling_range = release_swizzling_range(release: ReleaseSwizzlingRange);
            }
            facet Display by display, DisplayFilter {
                changes {
                    /// Changes [`Display::vidpn_paths`].
                    fn vidpn_paths(&self, honest: Vec<VidPnPath>) -> Vec<VidPnPath> {
                        honest
                    }
                    /// Changes [`Display::flip_caps`].
                    fn flip_caps(&self, honest: FlipCaps) -> FlipCaps {
                        honest
                    }
                }
                says {
                    fn vidpn_paths(&self) -> Vec<VidPnPath> {
                        self.filter.vidpn_paths(self.said.vidpn_paths.clone())
                    }
                    fn flip_caps(&self) -> FlipCaps {
                        self.filter.flip_caps(self.said.flips)
                    }
                }
                DescribeAllocation "DxgkDdiDescribeAllocation" describe_allocation = describe_allocation(allocation: KmdAllocation) -> Option<Surface>;
                CommitVidPn "DxgkDdiCommitVidPn" commit_vidpn = commit_vidpn(source: VidPnSourceId, primary: Option<KmdAllocation>) -> Result<(), DriverStatus>;
                SetVidPnSourceAddress "DxgkDdiSetVidPnSourceAddress" set_vidpn_source_address = set_vidpn_source_address(set: SetVidPnSourceAddress) -> Result<(), DriverStatus>;
                SetVidPnSourceVisibility "DxgkDdiSetVidPnSourceVisibility" set_vidpn_source_visibility = set_vidpn_source_visibility(source: VidPnSourceId, visible: bool);
                ControlInterrupt "DxgkDdiControlInterrupt" control_interrupt = control_interrupt(source: VidPnSourceId, enable: bool);
                CreatePeriodicFrameNotification "DxgkDdiCreatePeriodicFrameNotification" create_periodic_frame_notification = create_periodic_frame_notification(target: VidPnTargetId, time_100ns: u64, id: NotificationId) -> Result<KmdNotification, DriverStatus>;
                DestroyPeriodicFrameNotification "DxgkDdiDestroyPeriodicFrameNotification" destroy_periodic_frame_notification = destroy_periodic_frame_notification(notification: KmdNotification);
            }
            facet FlipQueue by flip_queue, FlipQueueFilter {
                changes {
                    /// Changes [`FlipQueue::flip_queue_caps`].
                    fn flip_queue_caps(&self, honest: FlipQueueCaps) -> FlipQueueCaps {
                        honest
                    }
                }
                says {
                    fn flip_queue_caps(&self) -> FlipQueueCaps {
                        self.filter.flip_queue_caps(self.said.flip_queue)
                    }
                }
                SetFlipQueueLogBuffer "DxgkDdiSetFlipQueueLogBuffer" set_flip_queue_log_buffer = set_flip_queue_log_buffer(set: SetFlipQueueLogBuffer) -> Result<(), DriverStatus>;
                QueueFlip "DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay3" queue_flip = queue_flip(flip: QueueFlip) -> Result<(), FlipRefusal>;
                UpdateFlipQueueLog "DxgkDdiUpdateFlipQueueLog" update_flip_queue_log = update_flip_queue_log(source: VidPnSourceId, layer: u32) -> u32;
                SetInterruptTargetPresentId "DxgkDdiSetInterruptTargetPresentId" set_interrupt_target_present_id = set_interrupt_target_present_id(source: VidPnSourceId, layer: u32, present_id: u64);
                CancelFlips "DxgkDdiCancelFlips" cancel_flips = cancel_flips(source: VidPnSourceId, layer: u32, first: u64) -> u64;
            }
        }
    };
}

/// The type of an answer, of none too.
macro_rules! answer {
    () => {
        ()
    };
    ($answer:ty) => {
        $answer
    };
}

pub(crate) use {answer, functions};
