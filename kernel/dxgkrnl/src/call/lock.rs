//! Calls about the CPU's access to allocations (memory §6.3, §6.5).

use kmt_calls::{LockCall, LockFlags, Refusal};
use wddm_types::{AdapterIndex, RawHandle};

use crate::allocations::InstanceName;
use crate::call::Turn;
use crate::effect::{Answer, Cx};
use crate::lock::LockArguments;
use crate::number::AllocationNumber;
use crate::object::Object;

impl Turn<'_> {
    pub(super) fn on_lock(&mut self, cx: &mut Cx<'_>, call: LockCall) -> Result<Answer, Refusal> {
        match call {
            LockCall::Lock2 { device, allocation, flags } => {
                let (index, device) = self.live_device(device)?;
                let allocation = self.allocation_of(index, device, allocation)?;
                self.adapters[index].lock2(cx, self.token, allocation, flags)
            }
            LockCall::Unlock2 { device, allocation } => {
                // Allowed on a device in error (memory §8.6).
                let (index, device) = self.device(device)?;
                self.about = Some(index);
                let allocation = self.allocation_of(index, device, allocation)?;
                self.adapters[index].unlock2(cx, self.token, allocation)
            }
            LockCall::Lock { device, allocation, private_driver_data, pages, flags } => {
                let (index, device) = self.live_device(device)?;
                let number = self.allocation_of(index, device, allocation)?;
                let arguments = LockArguments { private_driver_data, pages: &pages, flags };
                let name = self.name_next_instance(index, number, allocation, flags)?;
                let adapter = &mut self.adapters[index];
                let answer = adapter.lock_legacy(cx, self.token, number, allocation, arguments);
                if let Some(handle) = name.filter(|_| answer.is_err())
                    && adapter.take_instance_name(number)
                {
                    self.process.handles.remove(handle);
                }
                answer
            }
            LockCall::Unlock { device, allocations } => {
                let (index, device) = self.device(device)?;
                self.about = Some(index);
                let numbers: Result<Vec<_>, Refusal> =
                    allocations.iter().map(|allocation| self.allocation_of(index, device, *allocation)).collect();
                self.adapters[index].unlock_legacy(cx, self.token, &numbers?)
            }
        }
    }

    /// A lock with Discard may answer with another handle. It may come to that when the call has long returned, so there has
    /// to be one before; it stays for the next rename.
    // spec: memory §6.5
    fn name_next_instance(
        &mut self,
        index: AdapterIndex,
        number: AllocationNumber,
        own: RawHandle,
        flags: LockFlags,
    ) -> Result<Option<RawHandle>, Refusal> {
        let wanted = self.adapters[index].instance_name_wanted(number);
        let Some(name) = wanted.filter(|_| flags.contains(LockFlags::DISCARD)) else { return Ok(None) };
        let handle = self.name(Object::Instance(index, number, name))?;
        let spare = InstanceName { handle, number: name };
        self.adapters[index].give_instance_name(number, own, spare);
        Ok(Some(handle))
    }
}
