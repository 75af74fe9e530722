//! The stubborn driver's answers about native fences, and the kernel's calls about them.

use ddi::*;
use miniport_filter::{NativeFenceLogsFilter, NativeFencesFilter};
use shared_words::{Word, log};
use wddm_types::GpuVa;

use super::{NameFences, Stubborn};

pub type Lent = dyn FnMut(&[MonitoredUpdate<'_>]) + Send;
pub type LentLog = dyn FnMut(&SetNativeFenceLogBuffer<'_>) + Send;
pub type Storage = dyn Fn(&mut FenceStorageSurface) + Send;
pub type FenceCaps = dyn Fn(&mut NativeFenceCaps) + Send;
pub type FailUpdate = dyn Fn(&FenceStep) -> bool + Send;

/// A call to the driver about native fences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FenceStep {
    Create(KmdGlobalFence),
    Open(KmdGlobalFence, KmdLocalFence, KmdDevice),
    Close(KmdLocalFence),
    Destroy(KmdGlobalFence),
    /// One update of MonitoredValues.
    Monitored(Vec<(KmdGlobalFence, u64)>),
    /// One update of CurrentValues.
    Current(Vec<(KmdGlobalFence, u64)>, UpdateCurrentFlags),
}

/// A call to the driver about logs of native fences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogStep {
    /// A log with its type, its entries, and its place in its process and in the paging process.
    Set(KmdQueue, u64, u32, [GpuVa; 2]),
    Update(Vec<KmdQueue>),
    /// Further types are switched on or off.
    Verbose(bool),
}

/// Interrupts with other names in them.
pub struct Renamed<'a> {
    pub notify: &'a mut dyn Notify,
    pub name: &'a NameFences,
}

impl Notify for Renamed<'_> {
    fn interrupt(&mut self, interrupt: Interrupt<'_>) {
        match interrupt {
            Interrupt::NativeFenceSignaled { node, engine, fences, queues, flags } => {
                let named = (self.name)(fences.map(<[_]>::to_vec));
                let fences = named.as_deref();
                self.notify.interrupt(Interrupt::NativeFenceSignaled { node, engine, fences, queues, flags });
            }
            other => self.notify.interrupt(other),
        }
    }
}

impl Stubborn {
    fn updated(&mut self, step: FenceStep) -> Result<(), DriverStatus> {
        let fails = (self.whims.fail_fence_update)(&step);
        (self.whims.hear_fence)(step);
        if fails { Err(DriverStatus::Unsuccessful("as the test wants")) } else { Ok(()) }
    }
}

impl NativeFencesFilter for Stubborn {
    fn native_fence_caps(&self, mut caps: NativeFenceCaps) -> NativeFenceCaps {
        (self.whims.fence_caps)(&mut caps);
        caps
    }
    fn fence_storage(
        &mut self,
        next: &mut dyn NativeFences,
        surface: &mut FenceStorageSurface,
    ) -> Result<(), DriverStatus> {
        next.fence_storage(surface)?;
        (self.whims.fence_storage)(surface);
        Ok(())
    }
    fn create_native_fence(
        &mut self,
        next: &mut dyn NativeFences,
        create: &mut CreateNativeFence<'_>,
    ) -> Result<KmdGlobalFence, DriverStatus> {
        let global = next.create(create)?;
        (self.whims.hear_fence)(FenceStep::Create(global));
        Ok(global)
    }
    fn destroy_native_fence(&mut self, next: &mut dyn NativeFences, fence: KmdGlobalFence) {
        next.destroy(fence);
        (self.whims.hear_fence)(FenceStep::Destroy(fence));
    }
    fn open_native_fence(
        &mut self,
        next: &mut dyn NativeFences,
        open: &mut OpenNativeFence<'_>,
    ) -> Result<KmdLocalFence, DriverStatus> {
        if (self.whims.refuse_fence_open)(open) {
            return Err(DriverStatus::InvalidParameter("as the test wants"));
        }
        let local = next.open(open)?;
        (self.whims.hear_fence)(FenceStep::Open(open.global, local, open.device));
        Ok(local)
    }
    fn close_native_fence(&mut self, next: &mut dyn NativeFences, fence: KmdLocalFence) {
        next.close(fence);
        (self.whims.hear_fence)(FenceStep::Close(fence));
    }
    fn update_monitored_values(
        &mut self,
        next: &mut dyn NativeFences,
        updates: &[MonitoredUpdate<'_>],
    ) -> Result<(), DriverStatus> {
        let told = updates.iter().map(|update| (update.fence, update.value)).collect();
        self.updated(FenceStep::Monitored(told))?;
        next.update_monitored_values(updates)?;
        (self.whims.lent)(updates);
        Ok(())
    }
    fn update_current_values(
        &mut self,
        next: &mut dyn NativeFences,
        updates: &[CurrentUpdate<'_>],
        flags: UpdateCurrentFlags,
    ) -> Result<(), DriverStatus> {
        let told = updates.iter().map(|update| (update.fence, update.value)).collect();
        self.updated(FenceStep::Current(told, flags))?;
        next.update_current_values(updates, flags)
    }
}

impl NativeFenceLogsFilter for Stubborn {
    fn set_log_buffer(
        &mut self,
        next: &mut dyn NativeFenceLogs,
        set: SetNativeFenceLogBuffer<'_>,
    ) -> Result<(), DriverStatus> {
        let log_type = Word::load(&set.log[log::TYPE_OFFSET as usize / 8]);
        (self.whims.lent_log)(&set);
        (self.whims.hear_log)(LogStep::Set(set.queue, log_type, set.entries, [set.va, set.system_va]))?;
        next.set_log_buffer(set)
    }
    fn set_verbose_logs(&mut self, next: &mut dyn NativeFenceLogs, on: bool) {
        let _ = (self.whims.hear_log)(LogStep::Verbose(on));
        next.set_verbose_logs(on);
    }
    fn update_logs(&mut self, next: &mut dyn NativeFenceLogs, queues: &[KmdQueue]) -> Result<(), DriverStatus> {
        (self.whims.hear_log)(LogStep::Update(queues.to_vec()))?;
        next.update_logs(queues)
    }
}
