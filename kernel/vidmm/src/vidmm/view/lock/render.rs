//! Rendering from a locked allocation (memory §6.5, first generation): impossible in local memory. Locked allocations that a buffer names
//! leave their memory segments for an aperture before the buffer is bound; a buffer with one that cannot is refused. They do not come back
//! while they are locked (`may_enter_locked`).

use ddi::DriverModel;

use crate::allocation::Placement;
use crate::paging::Work;
use crate::slab::AllocationId;
use crate::vidmm::VidMm;
use crate::vidmm::placement::split::PortionError;

impl<F: Copy + Eq> VidMm<F> {
    /// Whether a buffer may name an allocation, locked or not.
    ///
    /// # Errors
    /// `Locked`: it lies in local memory, and may be nowhere else.
    // spec: memory §6.5
    pub fn may_render_from(&self, id: AllocationId) -> Result<(), PortionError> {
        let allocation = &self.allocations[id];
        let stays = allocation.pins > 0 || self.is_marked(id) || !self.supports_aperture(id);
        if self.is_locked_inside(id) && (stays || self.way_out(id).is_err()) {
            return Err(PortionError::Locked);
        }
        Ok(())
    }

    /// Has an allocation that a buffer names out of local memory if it is locked there; `None`: it need not leave.
    ///
    /// # Errors
    /// `Locked`: it has no other place; nothing has moved.
    // spec: memory §6.5
    pub fn render_from_locked(&mut self, id: AllocationId) -> Result<Option<Work<F>>, PortionError> {
        self.may_render_from(id)?;
        if !self.is_locked_inside(id) {
            return Ok(None);
        }
        let mut batch = self.works.begin();
        self.move_out(id, &mut batch).map_err(|_| PortionError::Locked)?;
        Ok(self.finish(batch, false))
    }

    fn is_locked_inside(&self, id: AllocationId) -> bool {
        let allocation = &self.allocations[id];
        let inside = matches!(allocation.placement, Placement::Memory(..));
        self.model == DriverModel::Wddm1 && allocation.locks.count > 0 && inside
    }
}
