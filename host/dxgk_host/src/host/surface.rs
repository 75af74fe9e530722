//! The surfaces of displays and windows, which a window system needs beside its calls (memory §2.7). User mode has no call for them, so the
//! program that embeds the kernel decides which process is its window system, and creates them for it.

use ddi::StandardAllocation;
use dxgkrnl::CreatedSurface;
use kmt_calls::Refusal;
use wddm_types::{ProcessId, RawHandle};

use super::Host;

impl Host {
    /// Creates a surface for a device of a process; its handles are the process's own. Others open it by its global share
    /// handle.
    ///
    /// # Errors
    /// The process has no such device; the kernel or the driver knows no such surface; the driver describes another surface than the
    /// wanted one; memory is short. The surface does not exist then.
    pub fn create_standard_allocation(
        &self,
        process: ProcessId,
        device: RawHandle,
        wanted: StandardAllocation,
    ) -> Result<CreatedSurface, Refusal> {
        self.hold_sound()?.turn(|machine, cx| machine.create_standard_allocation(cx, process, device, wanted))
    }
}
