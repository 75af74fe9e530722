//! What it says of native fences, and what it hears of them.

use ddi::*;

use super::{FenceStep, NameFences, Stubborn};

/// Interrupts with other names in them.
pub struct Renamed<'a> {
    pub notify: &'a mut dyn Notify,
    pub name: &'a NameFences,
}

impl Notify for Renamed<'_> {
    fn interrupt(&mut self, interrupt: Interrupt<'_>) {
        match interrupt {
            Interrupt::NativeFenceSignaled { node, fences, queues, flags } => {
                let named = (self.name)(fences.map(<[_]>::to_vec));
                let fences = named.as_deref();
                self.notify.interrupt(Interrupt::NativeFenceSignaled { node, fences, queues, flags });
            }
            other => self.notify.interrupt(other),
        }
    }
}

impl Stubborn {
    fn fences(&mut self) -> &mut dyn NativeFences {
        self.inner.native_fences().expect("the facet was there when the kernel asked")
    }

    fn updated(&mut self, step: FenceStep) -> Result<(), DriverStatus> {
        let fails = (self.whims.fail_fence_update)(&step);
        (self.whims.hear_fence)(step);
        if fails { Err(DriverStatus::Unsuccessful("as the test wants")) } else { Ok(()) }
    }
}

impl NativeFences for Stubborn {
    fn caps(&self) -> NativeFenceCaps {
        let mut caps =
            NativeFenceCaps { monitored_value_stride: 64, map_to_gpu_system_process: true, ..Default::default() };
        (self.whims.fence_caps)(&mut caps);
        caps
    }
    fn fence_storage(&mut self, surface: &mut FenceStorageSurface) -> Result<(), DriverStatus> {
        self.fences().fence_storage(surface)
    }
    fn create(&mut self, create: &mut CreateNativeFence<'_>) -> Result<KmdGlobalFence, DriverStatus> {
        let global = self.fences().create(create)?;
        (self.whims.hear_fence)(FenceStep::Create(global));
        Ok(global)
    }
    fn destroy(&mut self, fence: KmdGlobalFence) {
        self.fences().destroy(fence);
        (self.whims.hear_fence)(FenceStep::Destroy(fence));
    }
    fn open(&mut self, open: &mut OpenNativeFence<'_>) -> Result<KmdLocalFence, DriverStatus> {
        if (self.whims.refuse_fence_open)(open) {
            return Err(DriverStatus::InvalidParameter("as the test wants"));
        }
        let local = self.fences().open(open)?;
        (self.whims.hear_fence)(FenceStep::Open(open.global, local, open.device));
        Ok(local)
    }
    fn close(&mut self, fence: KmdLocalFence) {
        self.fences().close(fence);
        (self.whims.hear_fence)(FenceStep::Close(fence));
    }
    fn update_monitored_values(&mut self, updates: &[MonitoredUpdate<'_>]) -> Result<(), DriverStatus> {
        let told = updates.iter().map(|update| (update.fence, update.value)).collect();
        self.updated(FenceStep::Monitored(told))?;
        self.fences().update_monitored_values(updates)
    }
    fn update_current_values(
        &mut self,
        updates: &[CurrentUpdate<'_>],
        flags: UpdateCurrentFlags,
    ) -> Result<(), DriverStatus> {
        let told = updates.iter().map(|update| (update.fence, update.value)).collect();
        self.updated(FenceStep::Current(told, flags))?;
        self.fences().update_current_values(updates, flags)
    }
}
