//! Monitored fences, as far as they are built: on adapters whose hardware has no fences of its own. There every signal is
//! the kernel's, from the CPU or when packets are done, so nobody maps or monitors anything (sync §1.1, §2.2, §3.7).

use kmt_calls::{FenceFlags, MONITORED_FENCE, Refusal, SynchronizationObjectRequest};

use crate::adapter::Adapter;
use crate::machine::Cx;
use crate::refusal::{invalid, not_supported};

/// `D3DDDI_SYNCHRONIZATIONOBJECT_TYPE` ends here (sync §1.1).
const TYPE_LIMIT: u32 = 8;
/// `D3DDDI_NATIVE_FENCE`: it has a call of its own.
const NATIVE_FENCE: u32 = 7;

impl Adapter {
    /// `D3DKMTCreateSynchronizationObject2`.
    // spec: sync §2.2, sync §2.3
    pub fn create_monitored_fence(
        &mut self,
        cx: &mut Cx<'_>,
        device: u64,
        request: SynchronizationObjectRequest,
    ) -> Result<u64, Refusal> {
        let flags = request.flags;
        match request.object_type {
            MONITORED_FENCE => {}
            0 | NATIVE_FENCE | TYPE_LIMIT.. => {
                return Err(invalid(format!("synchronization object type {}", request.object_type)));
            }
            _ => return Err(not_supported("synchronization objects of the older types are not built")),
        }
        if flags.contains(FenceFlags::NO_SIGNAL | FenceFlags::NO_WAIT) {
            return Err(invalid("NoSignal and NoWait exclude each other"));
        }
        if flags.intersects(FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING | FenceFlags::CROSS_ADAPTER) {
            return Err(not_supported("shared monitored fences are not built"));
        }
        let allowed = FenceFlags::NO_SIGNAL
            | FenceFlags::NO_WAIT
            | FenceFlags::NO_SIGNAL_MAX_VALUE_ON_TDR
            | FenceFlags::NO_GPU_ACCESS;
        if !allowed.contains(flags) {
            return Err(invalid(format!("fence flags {:#x}", flags.difference(allowed).bits())));
        }
        if self.miniport.native_fences().is_some() {
            return Err(not_supported("monitored fences on an adapter with native fences are not built"));
        }
        let owner = self.devices[device].process;
        let number = self.create_fence(cx, Some(device), owner, request.initial_value)?;
        let fence = &mut self.fences[number];
        fence.no_signal = flags.contains(FenceFlags::NO_SIGNAL);
        fence.no_wait = flags.contains(FenceFlags::NO_WAIT);
        self.devices[device].fences.insert(number);
        Ok(number)
    }
}
