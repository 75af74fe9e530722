//! Calls about the CPU's access to allocations (memory §6.3, §6.5).

use kmt_calls::{Call, Refusal};

use crate::call::Turn;
use crate::lock::LockArguments;
use crate::machine::{Answer, Cx};

impl Turn<'_> {
    pub(super) fn on_lock(
        &mut self,
        cx: &mut Cx<'_>,
        call: Call,
        touched: &mut Option<u32>,
    ) -> Result<Answer, Refusal> {
        match call {
            Call::Lock2 { device, allocation, flags } => {
                let (index, device) = self.live_device(device, touched)?;
                let allocation = self.allocation_of(index, device, allocation)?;
                self.adapters[index as usize].lock2(cx, self.token, allocation, flags)
            }
            Call::Unlock2 { device, allocation } => {
                // Allowed on a device in error (memory §8.6).
                let (index, device) = self.device(device)?;
                *touched = Some(index);
                let allocation = self.allocation_of(index, device, allocation)?;
                self.adapters[index as usize].unlock2(cx, self.token, allocation)
            }
            Call::Lock { device, allocation, private_driver_data, pages, flags } => {
                let (index, device) = self.live_device(device, touched)?;
                let number = self.allocation_of(index, device, allocation)?;
                let arguments = LockArguments { private_driver_data, pages: &pages, flags };
                self.adapters[index as usize].lock_legacy(cx, self.token, number, allocation, arguments)
            }
            Call::Unlock { device, allocations } => {
                let (index, device) = self.device(device)?;
                *touched = Some(index);
                let numbers: Result<Vec<u64>, Refusal> =
                    allocations.iter().map(|allocation| self.allocation_of(index, device, *allocation)).collect();
                self.adapters[index as usize].unlock_legacy(cx, self.token, &numbers?)
            }
            call => self.on_allocation(cx, call, touched),
        }
    }
}
