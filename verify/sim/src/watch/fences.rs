//! Native fences, as the filter shows them.

use super::*;

impl NativeFencesFilter for Watched {
    fn create_native_fence(
        &mut self,
        next: &mut dyn NativeFences,
        create: &mut CreateNativeFence<'_>,
    ) -> Result<KmdGlobalFence, DriverStatus> {
        let fence = next.create(create)?;
        if let Some(folds) = &self.tampering.folds {
            folds.created(fence, create.fence);
        }
        self.see(CONTRACT, |ledger| {
            ledger.frames.fence(fence, create.fence);
            ledger.contract.create_fence(fence)
        });
        Ok(fence)
    }

    fn destroy_native_fence(&mut self, next: &mut dyn NativeFences, fence: KmdGlobalFence) {
        self.see(CONTRACT, |ledger| ledger.contract.destroy_fence(fence));
        if let Some(folds) = &self.tampering.folds {
            folds.destroyed(fence);
        }
        next.destroy(fence);
    }

    fn open_native_fence(
        &mut self,
        next: &mut dyn NativeFences,
        open: &mut OpenNativeFence<'_>,
    ) -> Result<KmdLocalFence, DriverStatus> {
        let local = next.open(open)?;
        self.see(CONTRACT, |ledger| {
            if let Some(process) = ledger.contract.process_of(open.device) {
                ledger.frames.fence_shown(process, open.global, [open.current_va, open.monitored_va]);
            }
            ledger.contract.open_fence(local, open.global)
        });
        Ok(local)
    }

    fn close_native_fence(&mut self, next: &mut dyn NativeFences, fence: KmdLocalFence) {
        self.see(CONTRACT, |ledger| ledger.contract.close_fence(fence));
        next.close(fence);
    }

    fn update_monitored_values(
        &mut self,
        next: &mut dyn NativeFences,
        updates: &[MonitoredUpdate<'_>],
    ) -> Result<(), DriverStatus> {
        for update in updates {
            self.see(CONTRACT, |ledger| ledger.contract.live_fence(update.fence));
        }
        if self.sabotage != Sabotage::DriverIgnoresMonitored {
            next.update_monitored_values(updates)?;
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
        next: &mut dyn NativeFences,
        updates: &[CurrentUpdate<'_>],
        flags: UpdateCurrentFlags,
    ) -> Result<(), DriverStatus> {
        for update in updates {
            self.see(CONTRACT, |ledger| ledger.contract.live_fence(update.fence));
        }
        match self.sabotage {
            Sabotage::DriverForgetsNews => Ok(()),
            _ => next.update_current_values(updates, flags),
        }
    }
}
