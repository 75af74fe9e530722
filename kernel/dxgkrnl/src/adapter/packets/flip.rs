//! Flips of contexts that are patched (memory §5.7): Present with a list that names the primary, and without a DMA buffer. Where lists
//! are residency (memory §6.1) the primary is brought in for the flip as it would be for a buffer. No residency list names it: a pin keeps
//! it until another one has replaced it, and then it may leave like everything that buffers have named.

use ddi::RenderStatus;
use kmt_calls::Refusal;
use vidmm::{AllocationId, Cut, EvictFlags, Portion, PortionError, Use};

use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::number::{DeviceNumber, PacketContextNumber};
use crate::packet::{ListEntry, Listed, driver_list};

impl Adapter {
    /// Tells the driver of a flip on a context whose lists it patches: where the primary is now, if it is anywhere.
    // spec: memory §5.7
    pub(in crate::adapter) fn tell_of_flip(
        &mut self,
        cx: &mut Cx<'_>,
        context: PacketContextNumber,
        primary: Listed,
    ) -> Result<(), Refusal> {
        let known = &self.packets[context];
        if known.addresses {
            return Ok(());
        }
        let (device, kmd) = (known.device, known.kmd);
        let list = [ListEntry::default(), ListEntry { allocation: Some(primary), ..ListEntry::default() }];
        // The caller of this has refused entries that the list may not name.
        let list = driver_list(&self.bind(device, &list).0, None);
        let driver = self.driver.call(cx).packet_scheduling().expect("it made this context");
        match driver.present_flip(kmd, &list) {
            Ok(()) => Ok(()),
            Err(RenderStatus::InsufficientDmaBuffer) => {
                self.stop(cx, "the driver wants a larger DMA buffer for a flip, which has none".into());
                self.life.running()
            }
            Err(status) => Err(self.refused_by_driver(cx, device, status)),
        }
    }

    /// Whether a primary is brought in for each flip: no residency list of its device holds it, and its driver knows none.
    pub(in crate::adapter) fn is_brought_in(&self, device: DeviceNumber, primary: AllocationId) -> bool {
        let listed = self.owners.facts_of(device).is_none_or(|facts| self.vidmm.count(facts.vidmm, primary) > 0);
        self.lists_are_residency() && !listed
    }

    /// Brings a primary in, and pins it. Its device must not be suspended.
    ///
    /// # Errors
    /// As of Render; nothing has changed.
    // spec: memory §6.1, memory §7.3, memory §8.2
    pub(in crate::adapter) fn bring_in_primary(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
        primary: AllocationId,
    ) -> Result<(), Refusal> {
        let (owner, process) = (self.owners.vidmm_of(device), self.owners.process_of(device));
        debug_assert!(!self.vidmm.is_suspended(owner), "nothing comes for a device before its turn: {device:?}");
        let whole = [Use { slot: 0, split_offset: 0, allocation: Some(primary) }];
        let made = match self.bring_in(cx, device, &whole, &Cut::default()) {
            Ok(made) => made,
            Err(error) => return Err(self.portion_refused(cx, device, error)),
        };
        for work in made.work {
            self.queue_work(cx, process, None, Some(work), Vec::new());
        }
        // Without addresses all that is in system memory is in an aperture.
        let shown = self.vidmm.pin_displayed(primary).expect("it was just brought in, and is not offered");
        assert!(shown.is_none(), "it is where engines reach it by physical address");
        // A display only reads: clean content stays clean.
        let flags = EvictFlags { only_if_necessary: true, not_written_to: true };
        let leaves = self.vidmm.evict(owner, &[primary], flags, &[]).expect("it was counted when it was brought in");
        self.queue_any(cx, process, leaves);
        Ok(())
    }

    /// Decides the next portion of a buffer. Devices with nothing to run give way before the kernel refuses.
    // spec: memory §10.1 row 10
    pub(super) fn bring_in(
        &mut self,
        cx: &Cx<'_>,
        device: DeviceNumber,
        uses: &[Use],
        from: &Cut,
    ) -> Result<Portion<gpu_fence::FenceId>, PortionError> {
        let owner = self.owners.vidmm_of(device);
        match self.vidmm.bring_in(owner, uses, from) {
            Err(PortionError::Held { .. }) if self.note_idle_devices(cx) => self.vidmm.bring_in(owner, uses, from),
            made => made,
        }
    }
}
