//! Native fences (sync §2.6): handles on two levels, and the two updates that go through the context management processor.
//!
//! A fence is created once on an adapter and opened by each process; interrupts name words by address, so the opens are
//! also found by (process, address of CurrentValue), and fences by their address in the CMP's space.
//!
//! UpdateMonitoredValues promises that every CurrentValue read after it has returned was written by hardware that had
//! seen the new MonitoredValue (sync §3.9). The CMP keeps that: it stores the value, puts its barrier against the engines and looks
//! at CurrentValue before the register write returns, and the kernel serialises these calls with the interrupt.

use std::collections::BTreeMap;
use std::sync::atomic::{Ordering, fence};

use ddi::{
    AllocationFlags, CreateNativeFence, CurrentUpdate, DriverStatus, FenceResidency, FenceStorageSurface, FenceType,
    FenceValueType, KmdGlobalFence, KmdLocalFence, KmdProcess, MonitoredUpdate, NativeFenceCaps, NativeFences,
    OpenNativeFence, OsGlobalFence, PagingStatus, SegmentPreference, UpdateCurrentFlags,
};
use shared_words::Word;
use softgpu_spec::register::{cmp, cmp_result};
use wddm_types::{GpuVa, SegmentId, SegmentSet};

use crate::driver::SoftGpuKmd;
use crate::handles::Handles;

/// A fence on the adapter.
#[derive(Debug)]
struct Global {
    /// The handle that interrupts report.
    os: OsGlobalFence,
    current_system_va: GpuVa,
    monitored_system_va: GpuVa,
    opens: u32,
    /// It counts as reached for good; the CMP holds a seal on its word.
    sealed: bool,
    /// The device tells peers of its signals; the CMP knows its word.
    shared: bool,
}

/// A process's open of it.
#[derive(Debug)]
struct Local {
    global: KmdGlobalFence,
    process: KmdProcess,
    current_va: GpuVa,
}

/// All fences.
#[derive(Debug, Default)]
pub(crate) struct FenceTable {
    globals: Handles<Global>,
    locals: Handles<Local>,
    /// By (process, CurrentValue, local handle): a process may open a fence twice at the same address (sync §3.3).
    by_va: BTreeMap<(KmdProcess, u64, u64), KmdGlobalFence>,
    by_system_va: BTreeMap<u64, KmdGlobalFence>,
}

impl FenceTable {
    pub(crate) fn exists(&self, fence: KmdGlobalFence) -> bool {
        self.globals.get(fence.0).is_some()
    }

    /// Where the CMP sees the CurrentValue of a fence.
    pub(crate) fn current_system_va(&self, fence: KmdGlobalFence) -> Option<GpuVa> {
        self.globals.get(fence.0).map(|global| global.current_system_va)
    }

    /// Notes whether the device tells peers of its signals.
    pub(crate) fn set_shared(&mut self, fence: KmdGlobalFence, shared: bool) {
        if let Some(global) = self.globals.get_mut(fence.0) {
            global.shared = shared;
        }
    }

    /// The kernel's handle.
    pub(crate) fn os(&self, fence: KmdGlobalFence) -> Option<OsGlobalFence> {
        self.globals.get(fence.0).map(|global| global.os)
    }

    /// The fence whose CurrentValue a process sees at `va`.
    pub(crate) fn in_process(&self, process: KmdProcess, va: u64) -> Option<OsGlobalFence> {
        let (_, fence) = self.by_va.range((process, va, 0)..=(process, va, u64::MAX)).next()?;
        self.os(*fence)
    }

    /// The fence whose CurrentValue the CMP sees at `va`.
    pub(crate) fn in_system(&self, va: u64) -> Option<OsGlobalFence> {
        self.os(*self.by_system_va.get(&va)?)
    }
}

impl SoftGpuKmd {
    /// The kernel is about to move the words of fences. The device finds words by address, and the kernel changes where those lead;
    /// but the CMP seals a place, and the place goes to another fence, so the driver lifts the seals. After the
    /// move the kernel marks the fences that are always signalled again.
    // spec: memory §3.4, operation 18
    pub(crate) fn words_move(&mut self, moved: &[FenceResidency]) -> Result<(), PagingStatus> {
        for FenceResidency { fence: os, .. } in moved {
            let named = |global: &Global| global.os == *os;
            let Some((handle, global)) = self.fences.globals.iter().find(|(_, global)| named(global)) else {
                return Err(PagingStatus::Fatal("words of a fence moved that there is not"));
            };
            let place = [global.current_system_va.0, 0, 0];
            if global.sealed && self.cmp_command(cmp::UNSEAL, place) != cmp_result::DONE {
                return Err(PagingStatus::Fatal("the CMP has no translation of a fence's words"));
            }
            self.fences.globals.get_mut(handle).expect("just seen").sealed = false;
        }
        Ok(())
    }

    /// The device forgets its seals with its power, while the kernel can still name fences to it. When it wakes the kernel marks the
    /// always-signalled fences again.
    pub(crate) fn unseal_all(&mut self) {
        let done = self.cmp_command(cmp::UNSEAL, [0, 0, 0]);
        assert_ne!(done, cmp_result::FAULT, "it names no address that could be missing");
        self.fences.globals.iter_mut().for_each(|(_, fence)| fence.sealed = false);
    }
}

/// Bytes of a cache line.
const LINE_BYTES: u32 = 64;

pub(crate) const NO_FENCE: DriverStatus = DriverStatus::InvalidParameter("no such native fence");

impl NativeFences for SoftGpuKmd {
    fn caps(&self) -> NativeFenceCaps {
        // A cache line each: two fences' monitored values are never written by two cores into one line.
        NativeFenceCaps {
            monitored_value_stride: LINE_BYTES,
            map_to_gpu_system_process: true,
            ..NativeFenceCaps::default()
        }
    }

    // spec: sync §1.4, sync §2.6
    fn fence_storage(&mut self, surface: &mut FenceStorageSurface) -> Result<(), DriverStatus> {
        let geometry = self.geometry.ok_or(DriverStatus::Unsuccessful("the device is not started"))?;
        let local = geometry.memory_segments();
        if local.is_empty() {
            return Err(DriverStatus::NotSupported("this device has no memory of its own"));
        }
        let feature = self.negotiated.native_fence.ok_or(DriverStatus::NotSupported("native fences are off"))?;
        if surface.fence_type == FenceType::Default {
            let optimized = feature.os_caps.optimized_default_fence_type && self.config.cpu_visible;
            if !optimized || surface.value_type == FenceValueType::Current {
                return Err(DriverStatus::NotSupported("these words of DEFAULT fences in local memory"));
            }
            surface.info.flags |= AllocationFlags::CPU_VISIBLE;
        }
        let first = SegmentId(1);
        // The engines reach system memory as well: the kernel may demote the words when it needs the room.
        let anywhere = local.with(SegmentSet::only(geometry.system()));
        surface.info.preferred_segment = SegmentPreference::of(&[first]);
        surface.info.supported_segments = anywhere;
        surface.info.read_segments = anywhere;
        surface.info.alignment_bytes = self.config.segment_page_bytes;
        Ok(())
    }

    fn create(&mut self, create: &mut CreateNativeFence<'_>) -> Result<KmdGlobalFence, DriverStatus> {
        let feature = self.negotiated.native_fence.ok_or(DriverStatus::NotSupported("native fences are off"))?;
        if create.fence_type == FenceType::IntraGpu && !feature.os_caps.intra_gpu_fence_type {
            return Err(DriverStatus::InvalidParameter("the kernel allows no INTRA_GPU fences"));
        }
        if create.current_system_va.is_null() || create.monitored_system_va.is_null() {
            return Err(DriverStatus::InvalidParameter("the caps ask for both words in the paging process"));
        }
        if self.fences.by_system_va.contains_key(&create.current_system_va.0) {
            return Err(DriverStatus::InvalidParameter("another fence has this CurrentValue"));
        }
        let global = KmdGlobalFence(self.fences.globals.insert(Global {
            os: create.fence,
            current_system_va: create.current_system_va,
            monitored_system_va: create.monitored_system_va,
            opens: 0,
            sealed: false,
            shared: false,
        }));
        self.fences.by_system_va.insert(create.current_system_va.0, global);
        Ok(global)
    }

    // spec: sync §3.4: after the last close; the handle is never named again
    fn destroy(&mut self, fence: KmdGlobalFence) {
        self.gather();
        let global = self.fences.globals.remove(fence.0, "native fence");
        assert_eq!(global.opens, 0, "a fence is destroyed after its last close");
        self.fences.by_system_va.remove(&global.current_system_va.0);
        // The word may be another fence's next.
        if global.shared && self.cmp_command(cmp::SHARE, [global.current_system_va.0, 0, 0]) == cmp_result::FAULT {
            panic!("the words of a fence are mapped until it is destroyed");
        }
        if global.sealed && self.cmp_command(cmp::UNSEAL, [global.current_system_va.0, 0, 0]) == cmp_result::FAULT {
            panic!("the words of a fence are mapped until it is destroyed");
        }
        self.gathered.forget_fence(global.os);
    }

    fn open(&mut self, open: &mut OpenNativeFence<'_>) -> Result<KmdLocalFence, DriverStatus> {
        let process = self.devices.get(open.device.0).ok_or(DriverStatus::InvalidParameter("no such device"))?.process;
        let global = self.fences.globals.get_mut(open.global.0).ok_or(NO_FENCE)?;
        global.opens += 1;
        let local = Local { global: open.global, process, current_va: open.current_va };
        let handle = self.fences.locals.insert(local);
        self.fences.by_va.insert((process, open.current_va.0, handle), open.global);
        Ok(KmdLocalFence(handle))
    }

    fn close(&mut self, fence: KmdLocalFence) {
        // A record that names the address is translated while the address still means this fence.
        self.gather();
        let local = self.fences.locals.remove(fence.0, "open of a native fence");
        self.fences.by_va.remove(&(local.process, local.current_va.0, fence.0));
        self.fences.globals.get_mut(local.global.0).expect("a fence outlives its opens").opens -= 1;
    }

    /// The CMP stores the value, puts the barrier against its engines and looks at CurrentValue. The lent word is the one
    /// that it stores; a store by the driver could not give the guarantee.
    // spec: sync §3.9
    fn update_monitored_values(&mut self, updates: &[MonitoredUpdate<'_>]) -> Result<(), DriverStatus> {
        for update in updates {
            let global = self.fences.globals.get(update.fence.0).ok_or(NO_FENCE)?;
            let arguments = [global.current_system_va.0, global.monitored_system_va.0, update.value];
            if self.cmp_command(cmp::PUBLISH_MONITORED, arguments) != cmp_result::DONE {
                return Err(DriverStatus::Unsuccessful("the CMP has no translation of a fence's words"));
            }
        }
        Ok(())
    }

    /// Store, barrier, kick. A fence that is always signalled is one whose word is sealed: it holds the largest value, which every
    /// wait passes, and the engines' signals leave it alone (sync §3.16).
    // spec: sync §3.6, sync §3.16
    fn update_current_values(
        &mut self,
        updates: &[CurrentUpdate<'_>],
        flags: UpdateCurrentFlags,
    ) -> Result<(), DriverStatus> {
        for update in updates {
            let global = self.fences.globals.get(update.fence.0).ok_or(NO_FENCE)?;
            let (cv, value) = (global.current_system_va.0, update.value);
            if flags.contains(UpdateCurrentFlags::ALWAYS_SIGNALED) {
                if self.cmp_command(cmp::SEAL, [cv, 0, 0]) != cmp_result::DONE {
                    return Err(DriverStatus::Unsuccessful("the CMP has no translation of a fence's words"));
                }
                self.fences.globals.get_mut(update.fence.0).expect("just seen").sealed = true;
                continue;
            }
            if !flags.contains(UpdateCurrentFlags::NOTIFICATION_ONLY) {
                match update.current {
                    Some(word) => Word::store(word, value),
                    // Only the CMP reaches it: any of its words is one that it can store.
                    None => {
                        if self.cmp_command(cmp::PUBLISH_MONITORED, [cv, cv, value]) != cmp_result::DONE {
                            return Err(DriverStatus::Unsuccessful("the CMP has no translation of a fence's words"));
                        }
                    }
                }
            }
            fence(Ordering::SeqCst);
            if self.cmp_command(cmp::RESCAN, [cv, 0, 0]) != cmp_result::DONE {
                // Without a translation the CMP does nothing; 0 makes it look at every parked wait.
                self.cmp_command(cmp::RESCAN, [0; 3]);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests;
