//! Monitored fences: one word in system memory, which the kernel watches (sync §1.2, §2.2). They are there on every adapter,
//! beside native ones too. How their signals are seen is `scan`.

use ddi::FenceType;
use gpu_fence::Extension;
use kmt_calls::{CpuCaching, CreatedMonitoredFence, FenceFlags, FencePrivateData, Refusal, SyncObjectAccess};
use wddm_types::RawHandle;

use super::lifetime::{NewFence, NewMonitored};
use crate::adapter::Adapter;
use crate::machine::Cx;
use crate::number::FenceOpenNumber;
use crate::object::DeviceNumber;
use crate::sync::{CommonWord, FenceWord, ObjectType, check_affinity, check_flags};

impl Adapter {
    /// The monitored type of `D3DKMTCreateSynchronizationObject2`: the creator's open.
    // spec: sync §2.2, sync §2.3, sync §1.5, sync §1.6
    pub fn create_monitored_fence(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
        flags: FenceFlags,
        initial_value: u64,
        engine_affinity: u32,
        common: Option<CommonWord>,
    ) -> Result<FenceOpenNumber, Refusal> {
        check_flags(ObjectType::MonitoredFence, flags)?;
        check_affinity(engine_affinity)?;
        let reached = self.engines_reach_words() && (common.is_none() || self.reaches_common_words());
        let mapped = reached && !flags.contains(FenceFlags::NO_GPU_ACCESS);
        // A word that no GPU reaches has 64 bits, whatever the GPU can do.
        let half = mapped && !self.driver.has_64_bit_atomics();
        let word = if half { FenceWord::Half(Extension::new(initial_value)) } else { FenceWord::Whole };
        let new = NewFence {
            device: Some(device),
            owner: self.owners.process_of(device),
            initial: initial_value,
            fence_type: FenceType::Default,
            monitored: Some(NewMonitored { mapped, word, periodic: None }),
            by_engines: mapped,
            common,
            flags,
            access: SyncObjectAccess::ALL_ACCESS,
            private_data: FencePrivateData::default(),
        };
        let (_, open, _) = self.make_fence(cx, new)?;
        self.devices[device].fences.insert(open);
        Ok(open)
    }

    /// Whether a process's words have addresses for engines: the GPU's, or in the IoMmu model the CPU's.
    // spec: sync §1.5
    pub fn engines_reach_words(&self) -> bool {
        self.driver.has_page_tables() || self.uses_cpu_addresses()
    }

    /// A monitored fence as a device that has it open sees it.
    // spec: sync §2.2, sync §1.5
    pub fn created_monitored_fence(
        &self,
        cx: &Cx<'_>,
        open: FenceOpenNumber,
        fence: RawHandle,
    ) -> CreatedMonitoredFence {
        let open = self.sync.open(open);
        let known = self.sync.fence(open.fence);
        let coherent = self.is_io_coherent(cx);
        let (current_va, _) = known.addresses(open.process);
        let (value_va, value_cpu_va) = self.va_for_gpu(current_va);
        CreatedMonitoredFence {
            fence,
            value: known.slot.current,
            value_va,
            value_cpu_va,
            caching: if coherent { CpuCaching::WriteBack } else { CpuCaching::Uncached },
            bits: known.word.bits(),
        }
    }
}
