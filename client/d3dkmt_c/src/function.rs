//! The list of functions: each exported function, its argument, and the function here that carries it out. The exports, the C header, and
//! the table of the README are all written from it.

use crate::unsupported::UNSUPPORTED;

/// Whether a function is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionState {
    /// It does as its documentation says, as far as the kernel does.
    Works,
    /// It does a part of what its documentation says, and refuses the named rest.
    Partly(&'static str),
    /// It does a part of what its documentation says; the named rest is left undone without a refusal.
    Lacks(&'static str),
    /// Each use is `STATUS_NOT_SUPPORTED`, and why.
    Refuses(&'static str),
}

/// One exported function.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// Its name in C.
    pub name: &'static str,
    /// What it returns, as C writes it.
    pub returns: &'static str,
    /// Its parameters as C writes them.
    pub parameters: &'static str,
    /// Whether it is built.
    pub state: FunctionState,
}

/// Calls a macro with every function: `reads` ones only read their structure, `writes` ones write into it when they succeed, `tells` ones
/// with a refusal, too, `finds` ones are `writes` ones that answer `UNSUCCESSFUL` without a structure. A text behind the function names what
/// the function refuses of its documentation; behind `lacks` the text says how the function falls short without a refusal.
#[doc(hidden)]
#[macro_export]
macro_rules! functions {
    ([$($then:tt)*] $session:expr) => {
        $($then)* ! { $session;
            // Adapters.
            writes D3DKMTEnumAdapters(D3DKMT_ENUMADAPTERS) enum_adapters;
            writes D3DKMTEnumAdapters2(D3DKMT_ENUMADAPTERS2) enum_adapters2;
            writes D3DKMTEnumAdapters3(D3DKMT_ENUMADAPTERS3) enum_adapters3;
            writes D3DKMTOpenAdapterFromLuid(D3DKMT_OPENADAPTERFROMLUID) open_adapter_from_luid;
            finds D3DKMTOpenAdapterFromGdiDisplayName(D3DKMT_OPENADAPTERFROMGDIDISPLAYNAME) open_adapter_from_gdi_display_name;
            writes D3DKMTOpenAdapterFromDeviceName(D3DKMT_OPENADAPTERFROMDEVICENAME) open_adapter_from_device_name;
            writes D3DKMTOpenAdapterFromHdc(D3DKMT_OPENADAPTERFROMHDC) open_adapter_from_hdc;
            reads D3DKMTCloseAdapter(D3DKMT_CLOSEADAPTER) close_adapter;
            reads D3DKMTQueryAdapterInfo(D3DKMT_QUERYADAPTERINFO) query_adapter_info;
            writes D3DKMTQueryVideoMemoryInfo(D3DKMT_QUERYVIDEOMEMORYINFO) query_video_memory_info;
            reads D3DKMTChangeVideoMemoryReservation(D3DKMT_CHANGEVIDEOMEMORYRESERVATION) change_video_memory_reservation;
            writes D3DKMTIsFeatureEnabled(D3DKMT_ISFEATUREENABLED) is_feature_enabled;
            writes D3DKMTQueryClockCalibration(D3DKMT_QUERYCLOCKCALIBRATION) query_clock_calibration;
            writes D3DKMTQueryStatistics(D3DKMT_QUERYSTATISTICS) query_statistics;
            reads D3DKMTSetHwProtectionTeardownRecovery(D3DKMT_SETHWPROTECTIONTEARDOWNRECOVERY) set_hw_protection_teardown_recovery lacks "no adapter of this kernel protects content: the function has no effect";
            reads D3DKMTSetStablePowerState(D3DKMT_SETSTABLEPOWERSTATE) set_stable_power_state;
            tells D3DKMTEnumProcesses(D3DKMT_ENUMPROCESSES) enum_processes;
            reads D3DKMTEscape(D3DKMT_ESCAPE) escape;
            // Displays.
            reads D3DKMTSetVidPnSourceOwner(D3DKMT_SETVIDPNSOURCEOWNER) set_vidpn_source_owner "shared and GDI owners";
            reads D3DKMTCheckVidPnExclusiveOwnership(D3DKMT_CHECKVIDPNEXCLUSIVEOWNERSHIP) check_vidpn_exclusive_ownership;
            writes D3DKMTGetSharedPrimaryHandle(D3DKMT_GETSHAREDPRIMARYHANDLE) get_shared_primary_handle;
            reads D3DKMTCheckOcclusion(D3DKMT_CHECKOCCLUSION) check_occlusion;
            reads D3DKMTSetVidPnSourceOwner1(D3DKMT_SETVIDPNSOURCEOWNER1) set_vidpn_source_owner1 "as of SetVidPnSourceOwner, and NT handles of displays";
            reads D3DKMTSetVidPnSourceOwner2(D3DKMT_SETVIDPNSOURCEOWNER2) set_vidpn_source_owner2 "as of SetVidPnSourceOwner, and NT handles of displays";
            writes D3DKMTSetDisplayMode(D3DKMT_SETDISPLAYMODE) set_display_mode "interlaced modes, turned displays, private formats";
            tells D3DKMTGetDisplayModeList(D3DKMT_GETDISPLAYMODELIST) get_display_mode_list;
            writes D3DKMTPresent(D3DKMT_PRESENT) present "windows, stretches, color fills, private data, broadcasts, limits by semaphore, history tokens, stereo and all other flags; a flip, and a blt of a surface or of parts of it work";
            writes D3DKMTSubmitPresentToHwQueue(D3DKMT_SUBMITPRESENTTOHWQUEUE) submit_present_to_hw_queue "as of Present, and blts; a flip works";
            writes D3DKMTSetQueuedLimit(D3DKMT_SETQUEUEDLIMIT) set_queued_limit;
            reads D3DKMTWaitForVerticalBlankEvent(D3DKMT_WAITFORVERTICALBLANKEVENT) wait_for_vertical_blank_event "waits without a device";
            reads D3DKMTWaitForVerticalBlankEvent2(D3DKMT_WAITFORVERTICALBLANKEVENT2) wait_for_vertical_blank_event2 "waits without a device, events beside the vertical blank";
            // Devices.
            writes D3DKMTCreateDevice(D3DKMT_CREATEDEVICE) create_device;
            reads D3DKMTDestroyDevice(D3DKMT_DESTROYDEVICE) destroy_device;
            writes D3DKMTGetDeviceState(D3DKMT_GETDEVICESTATE) get_device_state;
            reads D3DKMTMarkDeviceAsError(D3DKMT_MARKDEVICEASERROR) mark_device_as_error;
            reads D3DKMTWaitForIdle(D3DKMT_WAITFORIDLE) wait_for_idle lacks "signals, waits and empty submissions without commands behind them are not waited for";
            // Allocations and resources.
            writes D3DKMTCreateAllocation(D3DKMT_CREATEALLOCATION) create_allocation;
            writes D3DKMTCreateAllocation2(D3DKMT_CREATEALLOCATION) create_allocation2;
            reads D3DKMTDestroyAllocation(D3DKMT_DESTROYALLOCATION) destroy_allocation;
            reads D3DKMTDestroyAllocation2(D3DKMT_DESTROYALLOCATION2) destroy_allocation2;
            reads D3DKMTSetAllocationPriority(D3DKMT_SETALLOCATIONPRIORITY) set_allocation_priority;
            reads D3DKMTGetAllocationPriority(D3DKMT_GETALLOCATIONPRIORITY) get_allocation_priority;
            writes D3DKMTUpdateAllocationProperty(D3DDDI_UPDATEALLOCPROPERTY) update_allocation_property;
            reads D3DKMTQueryAllocationResidency(D3DKMT_QUERYALLOCATIONRESIDENCY) query_allocation_residency;
            writes D3DKMTQueryResourceInfo(D3DKMT_QUERYRESOURCEINFO) query_resource_info;
            writes D3DKMTQueryResourceInfoFromNtHandle(D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE) query_resource_info_from_nt_handle;
            writes D3DKMTOpenResource(D3DKMT_OPENRESOURCE) open_resource;
            writes D3DKMTOpenResource2(D3DKMT_OPENRESOURCE) open_resource2;
            writes D3DKMTOpenResourceFromNtHandle(D3DKMT_OPENRESOURCEFROMNTHANDLE) open_resource_from_nt_handle;
            writes D3DKMTGetSharedResourceAdapterLuid(D3DKMT_GETSHAREDRESOURCEADAPTERLUID) get_shared_resource_adapter_luid;
            reads D3DKMTCheckSharedResourceAccess(D3DKMT_CHECKSHAREDRESOURCEACCESS) check_shared_resource_access;
            writes D3DKMTOpenNtHandleFromName(D3DKMT_OPENNTHANDLEFROMNAME) open_nt_handle_from_name;
            // Residency.
            writes D3DKMTCreatePagingQueue(D3DKMT_CREATEPAGINGQUEUE) create_paging_queue;
            writes D3DKMTDestroyPagingQueue(D3DDDI_DESTROYPAGINGQUEUE) destroy_paging_queue;
            tells D3DKMTMakeResident(D3DDDI_MAKERESIDENT) make_resident;
            writes D3DKMTEvict(D3DKMT_EVICT) evict;
            reads D3DKMTOfferAllocations(D3DKMT_OFFERALLOCATIONS) offer_allocations;
            writes D3DKMTReclaimAllocations2(D3DKMT_RECLAIMALLOCATIONS2) reclaim_allocations2;
            writes D3DKMTReclaimAllocations(D3DKMT_RECLAIMALLOCATIONS) reclaim_allocations;
            writes D3DKMTQueryProcessOfferInfo(D3DKMT_QUERYPROCESSOFFERINFO) query_process_offer_info lacks "DecommitUniqueness is 0";
            writes D3DKMTRegisterTrimNotification(D3DKMT_REGISTERTRIMNOTIFICATION) register_trim_notification;
            writes D3DKMTUnregisterTrimNotification(D3DKMT_UNREGISTERTRIMNOTIFICATION) unregister_trim_notification;
            writes D3DKMTRegisterBudgetChangeNotification(D3DKMT_REGISTERBUDGETCHANGENOTIFICATION) register_budget_change_notification;
            reads D3DKMTUnregisterBudgetChangeNotification(D3DKMT_UNREGISTERBUDGETCHANGENOTIFICATION) unregister_budget_change_notification;
            reads D3DKMTFlushHeapTransitions(D3DKMT_FLUSHHEAPTRANSITIONS) flush_heap_transitions;
            // CPU access.
            writes D3DKMTLock(D3DKMT_LOCK) lock;
            reads D3DKMTUnlock(D3DKMT_UNLOCK) unlock;
            writes D3DKMTLock2(D3DKMT_LOCK2) lock2;
            reads D3DKMTUnlock2(D3DKMT_UNLOCK2) unlock2;
            reads D3DKMTInvalidateCache(D3DKMT_INVALIDATECACHE) invalidate_cache;
            // GPU virtual addresses.
            writes D3DKMTMapGpuVirtualAddress(D3DDDI_MAPGPUVIRTUALADDRESS) map_gpu_virtual_address;
            writes D3DKMTReserveGpuVirtualAddress(D3DDDI_RESERVEGPUVIRTUALADDRESS) reserve_gpu_virtual_address;
            reads D3DKMTFreeGpuVirtualAddress(D3DKMT_FREEGPUVIRTUALADDRESS) free_gpu_virtual_address;
            reads D3DKMTUpdateGpuVirtualAddress(D3DKMT_UPDATEGPUVIRTUALADDRESS) update_gpu_virtual_address;
            // Packet contexts.
            writes D3DKMTCreateContext(D3DKMT_CREATECONTEXT) create_context;
            writes D3DKMTCreateContextVirtual(D3DKMT_CREATECONTEXTVIRTUAL) create_context_virtual;
            reads D3DKMTDestroyContext(D3DKMT_DESTROYCONTEXT) destroy_context;
            writes D3DKMTRender(D3DKMT_RENDER) render;
            reads D3DKMTSubmitCommand(D3DKMT_SUBMITCOMMAND) submit_command;
            reads D3DKMTSetContextSchedulingPriority(D3DKMT_SETCONTEXTSCHEDULINGPRIORITY) set_context_scheduling_priority;
            writes D3DKMTGetContextSchedulingPriority(D3DKMT_GETCONTEXTSCHEDULINGPRIORITY) get_context_scheduling_priority;
            reads D3DKMTSetContextInProcessSchedulingPriority(D3DKMT_SETCONTEXTINPROCESSSCHEDULINGPRIORITY) set_context_in_process_scheduling_priority;
            writes D3DKMTGetContextInProcessSchedulingPriority(D3DKMT_GETCONTEXTINPROCESSSCHEDULINGPRIORITY) get_context_in_process_scheduling_priority;
            // Synchronization objects.
            writes D3DKMTCreateSynchronizationObject(D3DKMT_CREATESYNCHRONIZATIONOBJECT) create_synchronization_object;
            writes D3DKMTCreateSynchronizationObject2(D3DKMT_CREATESYNCHRONIZATIONOBJECT2) create_synchronization_object2;
            reads D3DKMTDestroySynchronizationObject(D3DKMT_DESTROYSYNCHRONIZATIONOBJECT) destroy_synchronization_object;
            writes D3DKMTOpenSynchronizationObject(D3DKMT_OPENSYNCHRONIZATIONOBJECT) open_synchronization_object;
            writes D3DKMTOpenSyncObjectFromNtHandle(D3DKMT_OPENSYNCOBJECTFROMNTHANDLE) open_sync_object_from_nt_handle;
            writes D3DKMTOpenSyncObjectFromNtHandle2(D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2) open_sync_object_from_nt_handle2;
            writes D3DKMTOpenSyncObjectNtHandleFromName(D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME) open_sync_object_nt_handle_from_name;
            reads D3DKMTWaitForSynchronizationObject(D3DKMT_WAITFORSYNCHRONIZATIONOBJECT) wait_for_synchronization_object;
            reads D3DKMTSignalSynchronizationObject(D3DKMT_SIGNALSYNCHRONIZATIONOBJECT) signal_synchronization_object;
            reads D3DKMTWaitForSynchronizationObject2(D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2) wait_for_synchronization_object2;
            reads D3DKMTSignalSynchronizationObject2(D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2) signal_synchronization_object2;
            reads D3DKMTWaitForSynchronizationObjectFromCpu(D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU) wait_for_synchronization_object_from_cpu;
            writes D3DKMTCreateSyncFile(D3DKMT_CREATESYNCFILE) create_sync_file;
            reads D3DKMTSignalSynchronizationObjectFromCpu(D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU) signal_synchronization_object_from_cpu;
            reads D3DKMTWaitForSynchronizationObjectFromGpu(D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU) wait_for_synchronization_object_from_gpu;
            reads D3DKMTSignalSynchronizationObjectFromGpu(D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU) signal_synchronization_object_from_gpu;
            reads D3DKMTSignalSynchronizationObjectFromGpu2(D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2) signal_synchronization_object_from_gpu2;
            writes D3DKMTCreateNativeFence(D3DKMT_CREATENATIVEFENCE) create_native_fence;
            writes D3DKMTOpenNativeFenceFromNtHandle(D3DKMT_OPENNATIVEFENCEFROMNTHANDLE) open_native_fence_from_nt_handle;
            // Hardware queues.
            writes D3DKMTCreateHwContext(D3DKMT_CREATEHWCONTEXT) create_hw_context;
            reads D3DKMTDestroyHwContext(D3DKMT_DESTROYHWCONTEXT) destroy_hw_context;
            writes D3DKMTCreateHwQueue(D3DKMT_CREATEHWQUEUE) create_hw_queue;
            reads D3DKMTDestroyHwQueue(D3DKMT_DESTROYHWQUEUE) destroy_hw_queue;
            reads D3DKMTSubmitCommandToHwQueue(D3DKMT_SUBMITCOMMANDTOHWQUEUE) submit_command_to_hw_queue;
            reads D3DKMTSubmitWaitForSyncObjectsToHwQueue(D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE) submit_wait_for_sync_objects_to_hw_queue;
            reads D3DKMTSubmitSignalSyncObjectsToHwQueue(D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE) submit_signal_sync_objects_to_hw_queue;
            writes D3DKMTGetNativeFenceLogDetail(D3DKMT_GETNATIVEFENCELOGDETAIL) get_native_fence_log_detail;
            writes D3DKMTCreateDoorbell(D3DKMT_CREATE_DOORBELL) create_doorbell;
            reads D3DKMTConnectDoorbell(D3DKMT_CONNECT_DOORBELL) connect_doorbell;
            reads D3DKMTDestroyDoorbell(D3DKMT_DESTROY_DOORBELL) destroy_doorbell;
            reads D3DKMTNotifyWorkSubmission(D3DKMT_NOTIFY_WORK_SUBMISSION) notify_work_submission;
            // Keyed mutexes.
            writes D3DKMTCreateKeyedMutex(D3DKMT_CREATEKEYEDMUTEX) create_keyed_mutex;
            writes D3DKMTCreateKeyedMutex2(D3DKMT_CREATEKEYEDMUTEX2) create_keyed_mutex2;
            writes D3DKMTOpenKeyedMutex(D3DKMT_OPENKEYEDMUTEX) open_keyed_mutex;
            writes D3DKMTOpenKeyedMutex2(D3DKMT_OPENKEYEDMUTEX2) open_keyed_mutex2;
            writes D3DKMTOpenKeyedMutexFromNtHandle(D3DKMT_OPENKEYEDMUTEXFROMNTHANDLE) open_keyed_mutex_from_nt_handle;
            reads D3DKMTDestroyKeyedMutex(D3DKMT_DESTROYKEYEDMUTEX) destroy_keyed_mutex;
            writes D3DKMTAcquireKeyedMutex(D3DKMT_ACQUIREKEYEDMUTEX) acquire_keyed_mutex;
            writes D3DKMTAcquireKeyedMutex2(D3DKMT_ACQUIREKEYEDMUTEX2) acquire_keyed_mutex2;
            writes D3DKMTReleaseKeyedMutex(D3DKMT_RELEASEKEYEDMUTEX) release_keyed_mutex;
            writes D3DKMTReleaseKeyedMutex2(D3DKMT_RELEASEKEYEDMUTEX2) release_keyed_mutex2;
            // Services of the operating system on Windows.
            writes OpenWddmCreateEvent(OPENWDDM_CREATEEVENT) create_event;
            reads OpenWddmWaitEvent(OPENWDDM_WAITEVENT) wait_event;
            reads OpenWddmSetEvent(OPENWDDM_SETEVENT) set_event;
            reads OpenWddmResetEvent(OPENWDDM_RESETEVENT) reset_event;
            reads OpenWddmCloseHandle(OPENWDDM_CLOSEHANDLE) close_handle;
            writes OpenWddmExportHandle(OPENWDDM_EXPORTHANDLE) export_handle;
            writes OpenWddmImportHandle(OPENWDDM_IMPORTHANDLE) import_handle;
            writes OpenWddmOpenProcess(OPENWDDM_OPENPROCESS) open_process;
            writes OpenWddmQueryProcess(OPENWDDM_QUERYPROCESS) query_process;
            writes OpenWddmCreateSection(OPENWDDM_CREATESECTION) create_section;
        }
    };
}

macro_rules! list_each {
    ($session:expr; $($kind:ident $name:ident($of:ident) $body:ident $($rest:literal)? $(lacks $lack:literal)?;)*) => {
        &[$(Function {
            name: stringify!($name),
            parameters: list_parameters!($kind $of),
            returns: "NTSTATUS",
            state: list_state!($($rest)? $(lacks $lack)?),
        },)*]
    };
}

macro_rules! list_parameters {
    (reads $of:ident) => {
        concat!("CONST ", stringify!($of), "*")
    };
    ($kind:ident $of:ident) => {
        concat!(stringify!($of), "*")
    };
}

macro_rules! list_state {
    () => {
        FunctionState::Works
    };
    ($rest:literal) => {
        FunctionState::Partly($rest)
    };
    (lacks $lack:literal) => {
        FunctionState::Lacks($lack)
    };
}

/// Those with one structure.
pub const FUNCTIONS: &[Function] = functions! { [list_each] () };

/// Those whose parameters are no one structure, or that return no status.
pub const PLAIN: &[Function] = &[
    plain("D3DKMTShareObjects", "UINT, CONST D3DKMT_HANDLE*, CONST OBJECT_ATTRIBUTES*, DWORD, HANDLE*"),
    Function {
        state: FunctionState::Partly("the class of another process"),
        ..plain("D3DKMTSetProcessSchedulingPriorityClass", "HANDLE, D3DKMT_SCHEDULINGPRIORITYCLASS")
    },
    Function {
        state: FunctionState::Partly("the class of another process"),
        ..plain("D3DKMTGetProcessSchedulingPriorityClass", "HANDLE, D3DKMT_SCHEDULINGPRIORITYCLASS*")
    },
    Function {
        state: FunctionState::Partly("the displays of another process"),
        ..plain("D3DKMTReleaseProcessVidPnSourceOwners", "HANDLE")
    },
    Function {
        state: FunctionState::Lacks("the kernel is no guest: each use is `GRAPHICS_VAIL_STATE_CHANGED`"),
        ..plain("D3DKMTRegisterVailProcess", "CONST GUID*")
    },
    Function { returns: "BOOLEAN", ..plain("D3DKMTCheckExclusiveOwnership", "VOID") },
    Function { returns: "VOID", ..plain("D3DKMTCloseDxCoreDevice", "VOID") },
];

const fn plain(name: &'static str, parameters: &'static str) -> Function {
    Function { name, returns: "NTSTATUS", parameters, state: FunctionState::Works }
}

/// Every exported function.
pub fn functions() -> impl Iterator<Item = &'static Function> {
    FUNCTIONS.iter().chain(PLAIN).chain(UNSUPPORTED)
}
