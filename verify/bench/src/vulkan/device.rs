//! A Vulkan device that is the processor itself, lavapipe of Mesa, with one queue and one timeline semaphore: a measured peer. The loader is
//! looked for when the measure runs, so the program needs no Vulkan to build or to start. Called by `vulkan`.

#![allow(unsafe_code)] // the loader and all behind it is a C library

use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut};

use super::layout::{
    ApplicationInfo, DeviceInfo, InstanceInfo, KIND_CPU, Pointer, Properties, QueueInfo, STAGES_ALL, SemaphoreInfo,
    SemaphoreTypeInfo, SignalInfo, SubmitInfo, TimelineFeatures, TimelineSubmit, VERSION, WaitInfo,
};

/// A handle of an instance, a device or a queue.
type Handle = *mut c_void;
/// An answer: 0 is success.
type Answer = i32;

/// Most devices that are looked at.
const DEVICES_MAX: u32 = 16;
/// How long a wait may last.
const PATIENCE_NS: u64 = 10_000_000_000;

/// Declares functions of the interface under their own names, and looks each up with its type.
macro_rules! functions {
    ($table:ident { $($name:ident = $symbol:literal: fn($($of:ty),*) $(-> $to:ty)?;)* }) => {
        #[derive(Clone, Copy)]
        struct $table { $($name: unsafe extern "system" fn($($of),*) $(-> $to)?,)* }

        impl $table {
            /// The functions, as `find` finds their addresses.
            ///
            /// # Safety
            /// `find` answers a name with the function of this name in the Vulkan interface, or with null.
            unsafe fn found(find: impl Fn(&CStr) -> Pointer) -> Result<$table, String> {
                Ok($table { $($name: {
                    let symbol: &CStr = $symbol;
                    let address = find(symbol);
                    if address.is_null() {
                        return Err(format!("the Vulkan loader has no {}", symbol.to_string_lossy()));
                    }
                    // SAFETY: the function of this name has this type in the registry, and the caller vouches for `find`.
                    unsafe { std::mem::transmute::<Pointer, unsafe extern "system" fn($($of),*) $(-> $to)?>(address) }
                },)* })
            }
        }
    };
}

functions!(Loader {
    create_instance = c"vkCreateInstance": fn(*const InstanceInfo, Pointer, *mut Handle) -> Answer;
    destroy_instance = c"vkDestroyInstance": fn(Handle, Pointer);
    devices = c"vkEnumeratePhysicalDevices": fn(Handle, *mut u32, *mut Handle) -> Answer;
    properties = c"vkGetPhysicalDeviceProperties": fn(Handle, *mut Properties);
    create_device = c"vkCreateDevice": fn(Handle, *const DeviceInfo, Pointer, *mut Handle) -> Answer;
    destroy_device = c"vkDestroyDevice": fn(Handle, Pointer);
    device_function = c"vkGetDeviceProcAddr": fn(Handle, *const c_char) -> Pointer;
});

functions!(Calls {
    queue = c"vkGetDeviceQueue": fn(Handle, u32, u32, *mut Handle);
    wait_idle = c"vkDeviceWaitIdle": fn(Handle) -> Answer;
    create_semaphore = c"vkCreateSemaphore": fn(Handle, *const SemaphoreInfo, Pointer, *mut u64) -> Answer;
    destroy_semaphore = c"vkDestroySemaphore": fn(Handle, u64, Pointer);
    submit = c"vkQueueSubmit": fn(Handle, u32, *const SubmitInfo, u64) -> Answer;
    wait = c"vkWaitSemaphores": fn(Handle, *const WaitInfo, u64) -> Answer;
    signal = c"vkSignalSemaphore": fn(Handle, *const SignalInfo) -> Answer;
    value = c"vkGetSemaphoreCounterValue": fn(Handle, u64, *mut u64) -> Answer;
});

/// An instance, which ends with this.
struct Instance {
    loader: Loader,
    handle: Handle,
}

/// A device, which ends with this; its instance ends behind it.
struct Made {
    handle: Handle,
    instance: Instance,
}

/// The device with its queue and its semaphore.
pub(super) struct Device {
    calls: Calls,
    queue: Handle,
    semaphore: u64,
    /// Its own name.
    pub name: String,
    // Dropped behind the semaphore.
    made: Made,
}

impl Instance {
    fn create() -> Result<Instance, String> {
        // SAFETY: the name ends with 0; the library's constructors are those of the loader that the system has installed. It stays for good:
        // threads of drivers may outlive their devices.
        let library = unsafe { libc::dlopen(c"libvulkan.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return Err("no Vulkan here: libvulkan.so.1 is not installed".to_owned());
        }
        // SAFETY: the library is open, the name ends with 0, and the loader exports the interface under its own names.
        let loader = unsafe { Loader::found(|name| libc::dlsym(library, name.as_ptr()).cast_const())? };
        let application = ApplicationInfo::new();
        let (info, mut handle) = (InstanceInfo::new(&application), null_mut());
        // SAFETY: all that the structure names lives until the call returns; the handle has a place.
        done("vkCreateInstance", unsafe { (loader.create_instance)(&info, null(), &mut handle) })?;
        Ok(Instance { loader, handle })
    }

    /// The first device that is the processor itself.
    fn processor(&self) -> Result<(Handle, String), String> {
        let (mut handles, mut count) = ([null_mut(); DEVICES_MAX as usize], DEVICES_MAX);
        // SAFETY: there is room for as many handles as `count` says.
        let answer = unsafe { (self.loader.devices)(self.handle, &mut count, handles.as_mut_ptr()) };
        if answer < 0 {
            done("vkEnumeratePhysicalDevices", answer)?;
        }
        for handle in handles.iter().take(count as usize) {
            let mut properties = Properties::empty();
            // SAFETY: the handle is one of the instance's, and the structure has more room than its form takes.
            unsafe { (self.loader.properties)(*handle, &mut properties) };
            if properties.kind == KIND_CPU && properties.api_version >= VERSION {
                let name = CStr::from_bytes_until_nul(&properties.name).map_or("unnamed".into(), CStr::to_string_lossy);
                return Ok((*handle, name.into_owned()));
            }
        }
        Err("no lavapipe here: Vulkan has no device that is a processor and knows Vulkan 1.2".to_owned())
    }
}

impl Device {
    /// Opens it; else the reason why there is none.
    pub fn open() -> Result<Device, String> {
        let instance = Instance::create()?;
        let (physical, name) = instance.processor()?;
        let (features, priority) = (TimelineFeatures::wanted(), 1.0);
        let queue = QueueInfo::new(&priority);
        let (info, mut handle) = (DeviceInfo::new(&features, &queue), null_mut());
        // SAFETY: all that the structure names lives until the call returns; the handle has a place.
        let answer = unsafe { (instance.loader.create_device)(physical, &info, null(), &mut handle) };
        done("vkCreateDevice", answer)?;
        // From here on each early return ends the device before its instance.
        let made = Made { handle, instance };
        // SAFETY: the device lives, the names end with 0, and a device's functions are those of the interface.
        let calls = unsafe { Calls::found(|name| (made.instance.loader.device_function)(handle, name.as_ptr()))? };
        let mut device = Device { calls, queue: null_mut(), semaphore: 0, name, made };
        // SAFETY: the device was made with one queue of the first family; the handle has a place.
        unsafe { (calls.queue)(handle, 0, 0, &mut device.queue) };
        let timeline = SemaphoreTypeInfo::timeline();
        let info = SemaphoreInfo::new(&timeline);
        // SAFETY: all that the structure names lives until the call returns; the handle has a place.
        let answer = unsafe { (calls.create_semaphore)(handle, &info, null(), &mut device.semaphore) };
        done("vkCreateSemaphore", answer).map(|()| device)
    }

    /// Submits nothing but a wait for the semaphore's value, if any, and a signal of the next.
    pub fn submit(&self, wait: Option<u64>, signal: u64) -> Result<(), String> {
        let values = TimelineSubmit::new(wait.as_slice(), std::slice::from_ref(&signal));
        let info = SubmitInfo::new(&values, &self.semaphore, &STAGES_ALL);
        // SAFETY: the queue lives and this thread alone uses it; all that the structures name lives until the call returns.
        done("vkQueueSubmit", unsafe { (self.calls.submit)(self.queue, 1, &info, 0) })
    }

    /// The semaphore has this value from now on.
    pub fn signal(&self, value: u64) -> Result<(), String> {
        let info = SignalInfo::new(self.semaphore, value);
        // SAFETY: device and semaphore live, and the structure does until the call returns.
        done("vkSignalSemaphore", unsafe { (self.calls.signal)(self.made.handle, &info) })
    }

    /// Sleeps until the semaphore has this value.
    pub fn wait(&self, value: u64) -> Result<(), String> {
        let info = WaitInfo::new(&self.semaphore, &value);
        // SAFETY: device and semaphore live, and all that the structure names does until the call returns.
        done("vkWaitSemaphores", unsafe { (self.calls.wait)(self.made.handle, &info, PATIENCE_NS) })
    }

    /// The value of the semaphore.
    pub fn value(&self) -> Result<u64, String> {
        let mut value = 0;
        // SAFETY: device and semaphore live; the value has a place.
        done("vkGetSemaphoreCounterValue", unsafe {
            (self.calls.value)(self.made.handle, self.semaphore, &mut value)
        })?;
        Ok(value)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: nothing else has the device or its semaphore, and no work uses them once the device is idle. A semaphore of 0 is none, which
        // the interface allows.
        unsafe {
            (self.calls.wait_idle)(self.made.handle);
            (self.calls.destroy_semaphore)(self.made.handle, self.semaphore, null());
        }
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // SAFETY: nothing else has the device, all that was made of it is gone, and no work runs on it: `Device` has waited for it, or nothing
        // was ever submitted. The loader's own function serves every device of its instance, which lives.
        unsafe { (self.instance.loader.destroy_device)(self.handle, null()) };
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: its device is gone, and nothing else was made of it.
        unsafe { (self.loader.destroy_instance)(self.handle, null()) };
    }
}

fn done(call: &str, answer: Answer) -> Result<(), String> {
    match answer {
        0 => Ok(()),
        answer => Err(format!("{call} answered {answer}")),
    }
}
