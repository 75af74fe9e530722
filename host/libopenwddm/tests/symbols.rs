//! The shared library exports the functions that C programs of each kind want, and nothing else.

use std::collections::BTreeSet;
use std::process::Command;

/// Functions that every user-mode driver calls.
const ALL: &str = "CloseAdapter CreateAllocation2 CreateContextVirtual CreateDevice CreateHwQueue CreatePagingQueue \
    CreateSynchronizationObject2 DestroyAllocation2 DestroyContext DestroyDevice DestroyHwQueue DestroyPagingQueue \
    DestroySynchronizationObject Evict FreeGpuVirtualAddress GetDeviceState Lock2 MakeResident MapGpuVirtualAddress \
    OpenAdapterFromLuid OpenResourceFromNtHandle OpenSyncObjectFromNtHandle2 QueryAdapterInfo \
    QueryResourceInfoFromNtHandle ReserveGpuVirtualAddress ShareObjects SignalSynchronizationObjectFromCpu \
    SignalSynchronizationObjectFromGpu SubmitCommand SubmitCommandToHwQueue Unlock2 \
    WaitForSynchronizationObjectFromCpu WaitForSynchronizationObjectFromGpu";
/// Functions that some user-mode drivers call.
const SOME: &str = "CreateAllocation CreateHwContext CreateNativeFence CreateSynchronizationObject DestroyHwContext \
    EnumAdapters2 EnumAdapters3 EnumProcesses Escape InvalidateCache OpenResource OpenSyncObjectNtHandleFromName \
    QueryClockCalibration QueryResourceInfo QueryStatistics QueryVideoMemoryInfo RegisterTrimNotification \
    UnregisterTrimNotification SetAllocationPriority SetContextSchedulingPriority SignalSynchronizationObject \
    SignalSynchronizationObjectFromGpu2 SubmitSignalSyncObjectsToHwQueue SubmitWaitForSyncObjectsToHwQueue \
    UpdateGpuVirtualAddress WaitForSynchronizationObject";
/// Functions that programs call which share synchronization objects and keyed mutexes.
const SHARING: &str = "AcquireKeyedMutex ReleaseKeyedMutex CreateKeyedMutex CreateKeyedMutex2 OpenKeyedMutex \
    OpenKeyedMutex2 DestroyKeyedMutex DestroyAllocation OpenAdapterFromGdiDisplayName OpenNtHandleFromName \
    OpenResource2 OpenSyncObjectFromNtHandle OpenSynchronizationObject";
/// Functions that are newer, or older, than those.
const BESIDE: &str = "CreateContext Render OpenNativeFenceFromNtHandle CreateDoorbell ConnectDoorbell DestroyDoorbell \
    NotifyWorkSubmission OfferAllocations ReclaimAllocations2 Lock Unlock QueryAllocationResidency \
    ChangeVideoMemoryReservation EnumAdapters IsFeatureEnabled AcquireKeyedMutex2 ReleaseKeyedMutex2 \
    OpenKeyedMutexFromNtHandle SetVidPnSourceOwner CheckVidPnExclusiveOwnership CheckOcclusion OpenAdapterFromDeviceName \
    OpenAdapterFromHdc";
/// Functions that stand for calls of the operating system on Windows.
const SYSTEM: &str =
    "CreateEvent WaitEvent SetEvent ResetEvent CloseHandle ExportHandle ImportHandle OpenProcess CreateSection";

/// Those of the articles on native fences and on user-mode submission are among them, as the header names them.
// seed: C22
#[test]
fn the_library_exports_every_function_and_nothing_else() {
    let prefixed = |prefix: &'static str, names: &'static str| {
        names.split_whitespace().map(move |name| format!("{prefix}{name}")).collect::<Vec<_>>()
    };
    assert_eq!([ALL, SOME, SHARING].map(|names| names.split_whitespace().count()), [33, 26, 13]);
    let mut wanted = prefixed("D3DKMT", ALL);
    for names in [SOME, SHARING, BESIDE] {
        wanted.extend(prefixed("D3DKMT", names));
    }
    wanted.extend(prefixed("OpenWddm", SYSTEM));
    let wanted: BTreeSet<String> = wanted.into_iter().collect();

    let program = std::env::current_exe().expect("this test is a file");
    let library = program.with_file_name("libopenwddm.so");
    let output = Command::new("nm").args(["-D", "--defined-only", "--format=posix"]).arg(library).output();
    let output = output.expect("a machine with a C compiler has nm");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("names");
    let found = text.lines().filter_map(|line| line.split_whitespace().next());
    let found: BTreeSet<String> = found.map(str::to_owned).collect();
    let missing: Vec<_> = wanted.difference(&found).collect();
    let besides: Vec<_> = found.difference(&wanted).filter(|name| !name.starts_with("rust_eh_personality")).collect();
    assert!(missing.is_empty() && besides.is_empty(), "missing {missing:?}, besides {besides:?}");
}
