//! Structures of the Vulkan interface, as its registry lays them out: those that a device with one queue and one timeline semaphore needs. No
//! calls. Read by `device`.

use std::ffi::{c_char, c_void};
use std::ptr::{null, null_mut};

/// The version of the interface that is asked for: 1.2, the first with timeline semaphores in its core.
pub(super) const VERSION: u32 = (1 << 22) | (2 << 12);
/// A device that is the processor itself.
pub(super) const KIND_CPU: u32 = 4;
/// All stages of a submission.
pub(super) const STAGES_ALL: u32 = 0x1_0000;
const TIMELINE: u32 = 1;

/// A pointer of this program, or nothing.
pub(super) type Pointer = *const c_void;

/// The numbers by which structures name themselves.
mod kind {
    pub const APPLICATION: u32 = 0;
    pub const INSTANCE: u32 = 1;
    pub const DEVICE_QUEUE: u32 = 2;
    pub const DEVICE: u32 = 3;
    pub const SUBMIT: u32 = 4;
    pub const SEMAPHORE: u32 = 9;
    pub const TIMELINE_FEATURES: u32 = 1_000_207_000;
    pub const SEMAPHORE_TYPE: u32 = 1_000_207_002;
    pub const TIMELINE_SUBMIT: u32 = 1_000_207_003;
    pub const SEMAPHORE_WAIT: u32 = 1_000_207_004;
    pub const SEMAPHORE_SIGNAL: u32 = 1_000_207_005;
}

/// `VkApplicationInfo`.
#[repr(C)]
pub(super) struct ApplicationInfo {
    kind: u32,
    next: Pointer,
    name: *const c_char,
    version: u32,
    engine_name: *const c_char,
    engine_version: u32,
    api_version: u32,
}

impl ApplicationInfo {
    pub fn new() -> ApplicationInfo {
        let (name, engine_name) = (c"openwddm bench".as_ptr(), null());
        ApplicationInfo {
            kind: kind::APPLICATION,
            next: null(),
            name,
            version: 0,
            engine_name,
            engine_version: 0,
            api_version: VERSION,
        }
    }
}

/// `VkInstanceCreateInfo`.
#[repr(C)]
pub(super) struct InstanceInfo {
    kind: u32,
    next: Pointer,
    flags: u32,
    application: *const ApplicationInfo,
    layer_count: u32,
    layers: Pointer,
    extension_count: u32,
    extensions: Pointer,
}

impl InstanceInfo {
    pub fn new(application: &ApplicationInfo) -> InstanceInfo {
        InstanceInfo {
            kind: kind::INSTANCE,
            next: null(),
            flags: 0,
            application,
            layer_count: 0,
            layers: null(),
            extension_count: 0,
            extensions: null(),
        }
    }
}

/// `VkPhysicalDeviceProperties`: its head, and more room than the rest of it takes (824 bytes all together).
#[repr(C, align(8))]
pub(super) struct Properties {
    pub api_version: u32,
    pub driver_version: u32,
    pub vendor: u32,
    pub device: u32,
    pub kind: u32,
    pub name: [u8; 256],
    rest: [u8; 1024],
}

impl Properties {
    pub fn empty() -> Properties {
        let (name, rest) = ([0; 256], [0; 1024]);
        Properties { api_version: 0, driver_version: 0, vendor: 0, device: 0, kind: 0, name, rest }
    }
}

/// `VkDeviceQueueCreateInfo`.
#[repr(C)]
pub(super) struct QueueInfo {
    kind: u32,
    next: Pointer,
    flags: u32,
    family: u32,
    count: u32,
    priorities: *const f32,
}

impl QueueInfo {
    /// One queue of the first family.
    pub fn new(priority: &f32) -> QueueInfo {
        QueueInfo { kind: kind::DEVICE_QUEUE, next: null(), flags: 0, family: 0, count: 1, priorities: priority }
    }
}

/// `VkPhysicalDeviceTimelineSemaphoreFeatures`.
#[repr(C)]
pub(super) struct TimelineFeatures {
    kind: u32,
    next: *mut c_void,
    timeline_semaphore: u32,
}

impl TimelineFeatures {
    pub fn wanted() -> TimelineFeatures {
        TimelineFeatures { kind: kind::TIMELINE_FEATURES, next: null_mut(), timeline_semaphore: 1 }
    }
}

/// `VkDeviceCreateInfo`.
#[repr(C)]
pub(super) struct DeviceInfo {
    kind: u32,
    next: *const TimelineFeatures,
    flags: u32,
    queue_count: u32,
    queues: *const QueueInfo,
    layer_count: u32,
    layers: Pointer,
    extension_count: u32,
    extensions: Pointer,
    features: Pointer,
}

impl DeviceInfo {
    pub fn new(features: &TimelineFeatures, queue: &QueueInfo) -> DeviceInfo {
        DeviceInfo {
            kind: kind::DEVICE,
            next: features,
            flags: 0,
            queue_count: 1,
            queues: queue,
            layer_count: 0,
            layers: null(),
            extension_count: 0,
            extensions: null(),
            features: null(),
        }
    }
}

/// `VkSemaphoreTypeCreateInfo`.
#[repr(C)]
pub(super) struct SemaphoreTypeInfo {
    kind: u32,
    next: Pointer,
    semaphore_type: u32,
    initial: u64,
}

impl SemaphoreTypeInfo {
    /// A timeline that begins at 0.
    pub fn timeline() -> SemaphoreTypeInfo {
        SemaphoreTypeInfo { kind: kind::SEMAPHORE_TYPE, next: null(), semaphore_type: TIMELINE, initial: 0 }
    }
}

/// `VkSemaphoreCreateInfo`.
#[repr(C)]
pub(super) struct SemaphoreInfo {
    kind: u32,
    next: *const SemaphoreTypeInfo,
    flags: u32,
}

impl SemaphoreInfo {
    pub fn new(of: &SemaphoreTypeInfo) -> SemaphoreInfo {
        SemaphoreInfo { kind: kind::SEMAPHORE, next: of, flags: 0 }
    }
}

/// `VkTimelineSemaphoreSubmitInfo`.
#[repr(C)]
pub(super) struct TimelineSubmit {
    kind: u32,
    next: Pointer,
    wait_count: u32,
    waits: *const u64,
    signal_count: u32,
    signals: *const u64,
}

impl TimelineSubmit {
    pub fn new(waits: &[u64], signals: &[u64]) -> TimelineSubmit {
        TimelineSubmit {
            kind: kind::TIMELINE_SUBMIT,
            next: null(),
            // CAST: one at most.
            wait_count: waits.len() as u32,
            waits: waits.as_ptr(),
            signal_count: signals.len() as u32,
            signals: signals.as_ptr(),
        }
    }
}

/// `VkSubmitInfo`.
#[repr(C)]
pub(super) struct SubmitInfo {
    kind: u32,
    next: *const TimelineSubmit,
    wait_count: u32,
    waits: *const u64,
    wait_stages: *const u32,
    command_count: u32,
    commands: Pointer,
    signal_count: u32,
    signals: *const u64,
}

impl SubmitInfo {
    /// A submission without a command: waits and signals of one semaphore, whose values are in `values`.
    pub fn new(values: &TimelineSubmit, semaphore: &u64, stages: &u32) -> SubmitInfo {
        SubmitInfo {
            kind: kind::SUBMIT,
            next: values,
            wait_count: values.wait_count,
            waits: semaphore,
            wait_stages: stages,
            command_count: 0,
            commands: null(),
            signal_count: values.signal_count,
            signals: semaphore,
        }
    }
}

/// `VkSemaphoreWaitInfo`.
#[repr(C)]
pub(super) struct WaitInfo {
    kind: u32,
    next: Pointer,
    flags: u32,
    count: u32,
    semaphores: *const u64,
    values: *const u64,
}

impl WaitInfo {
    pub fn new(semaphore: &u64, value: &u64) -> WaitInfo {
        WaitInfo { kind: kind::SEMAPHORE_WAIT, next: null(), flags: 0, count: 1, semaphores: semaphore, values: value }
    }
}

/// `VkSemaphoreSignalInfo`.
#[repr(C)]
pub(super) struct SignalInfo {
    kind: u32,
    next: Pointer,
    semaphore: u64,
    value: u64,
}

impl SignalInfo {
    pub fn new(semaphore: u64, value: u64) -> SignalInfo {
        SignalInfo { kind: kind::SEMAPHORE_SIGNAL, next: null(), semaphore, value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_registry() {
        // `sizeof` of each in vulkan_core.h, on 64 bits.
        let sizes = [
            (size_of::<ApplicationInfo>(), 48),
            (size_of::<InstanceInfo>(), 64),
            (size_of::<QueueInfo>(), 40),
            (size_of::<TimelineFeatures>(), 24),
            (size_of::<DeviceInfo>(), 72),
            (size_of::<SemaphoreTypeInfo>(), 32),
            (size_of::<SemaphoreInfo>(), 24),
            (size_of::<TimelineSubmit>(), 48),
            (size_of::<SubmitInfo>(), 72),
            (size_of::<WaitInfo>(), 40),
            (size_of::<SignalInfo>(), 32),
        ];
        assert!(sizes.iter().all(|(ours, theirs)| ours == theirs), "{sizes:?}");
        assert!(size_of::<Properties>() >= 824);
    }
}
