//! Native fences, as the decorator shows them.

use super::*;

impl NativeFences for Watched {
    fn caps(&self) -> NativeFenceCaps {
        self.fences
    }

    fn fence_storage(&mut self, surface: &mut FenceStorageSurface) -> Result<(), DriverStatus> {
        self.native().fence_storage(surface)
    }

    fn create(&mut self, create: &mut CreateNativeFence<'_>) -> Result<KmdGlobalFence, DriverStatus> {
        let fence = self.native().create(create)?;
        self.see(CONTRACT, |ledger| {
            ledger.frames.fence(fence, create.fence);
            ledger.contract.create_fence(fence)
        });
        Ok(fence)
    }

    fn destroy(&mut self, fence: KmdGlobalFence) {
        self.see(CONTRACT, |ledger| ledger.contract.destroy_fence(fence));
        self.native().destroy(fence);
    }

    fn open(&mut self, open: &mut OpenNativeFence<'_>) -> Result<KmdLocalFence, DriverStatus> {
        let local = self.native().open(open)?;
        self.see(CONTRACT, |ledger| {
            if let Some(process) = ledger.contract.process_of(open.device) {
                ledger.frames.fence_shown(process, open.global, [open.current_va, open.monitored_va]);
            }
            ledger.contract.open_fence(local, open.global)
        });
        Ok(local)
    }

    fn close(&mut self, fence: KmdLocalFence) {
        self.see(CONTRACT, |ledger| ledger.contract.close_fence(fence));
        self.native().close(fence);
    }

    fn update_monitored_values(&mut self, updates: &[MonitoredUpdate<'_>]) -> Result<(), DriverStatus> {
        for update in updates {
            self.see(CONTRACT, |ledger| ledger.contract.live_fence(update.fence));
        }
        if self.sabotage != Sabotage::DriverIgnoresMonitored {
            self.native().update_monitored_values(updates)?;
        }
        // spec: sync §3.9
        for update in updates {
            let stored = Word::load(update.monitored);
            let kept = stored == update.value;
            self.see(FENCES, |_| {
                if kept {
                    Ok(())
                } else {
                    Err(format!("MonitoredValue {} was to be stored, {stored} is there", update.value))
                }
            });
        }
        Ok(())
    }

    fn update_current_values(
        &mut self,
        updates: &[CurrentUpdate<'_>],
        flags: UpdateCurrentFlags,
    ) -> Result<(), DriverStatus> {
        for update in updates {
            self.see(CONTRACT, |ledger| ledger.contract.live_fence(update.fence));
        }
        match self.sabotage {
            Sabotage::DriverForgetsNews => Ok(()),
            _ => self.native().update_current_values(updates, flags),
        }
    }
}
