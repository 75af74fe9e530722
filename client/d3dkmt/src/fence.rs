//! Fences as user mode holds them.

use std::sync::Arc;

use kmt_calls::{
    Call, CpuCaching, CreatedFence, CreatedMonitoredFence, FencePrivateData, Refusal, Reply, ShareCall, SyncCall,
    SyncObjectAccess,
};
use kmt_link::Link;
use shared_words::ReadOnlyWord;
use wddm_types::{CpuVa, GpuVa, RawHandle, WordAddress};

use crate::{Owned, expect_reply};

/// A fence: polled by a load, waited for by a call, signalled by the GPU or the CPU.
///
/// The word is mapped read-only; only a signal changes it:
/// ```compile_fail
/// fn write(fence: &d3dkmt::Fence) {
///     fence.word().store(1);
/// }
/// ```
/// ```
/// fn read(fence: &d3dkmt::Fence) -> u64 {
///     fence.word().load()
/// }
/// ```
// spec: sync §1.4
pub struct Fence {
    handle: RawHandle,
    /// `None`: the CPU does not reach it.
    word: Option<ReadOnlyWord>,
    address: WordAddress,
    current_va: GpuVa,
    monitored_va: GpuVa,
    caching: CpuCaching,
    bits: u32,
    private_data: FencePrivateData,
    link: Arc<dyn Link>,
    // Held for its drop; a queue's own fence goes with the queue.
    _owned: Option<Owned>,
}

/// The address that a command names: the GPU's, or behind an IOMMU the CPU's.
fn engine_va(gpu: GpuVa, cpu: CpuVa) -> GpuVa {
    if cpu.is_null() { gpu } else { cpu.for_gpu() }
}

impl Fence {
    pub(crate) fn owned(link: Arc<dyn Link>, created: CreatedFence) -> Fence {
        let mut fence = Fence::borrowed(Arc::clone(&link), created);
        fence._owned = Some(destroys(link, created.fence));
        fence
    }

    pub(crate) fn borrowed(link: Arc<dyn Link>, created: CreatedFence) -> Fence {
        Fence {
            handle: created.fence,
            word: mapped(&link, &created),
            address: created.current,
            current_va: engine_va(created.current_va, created.current_cpu_va),
            monitored_va: created.monitored_va,
            caching: CpuCaching::WriteBack,
            bits: 64,
            private_data: created.private_data,
            link,
            _owned: None,
        }
    }

    pub(crate) fn monitored(link: Arc<dyn Link>, created: CreatedMonitoredFence) -> Fence {
        Fence {
            handle: created.fence,
            word: Some(link.read_only(created.value)),
            address: created.value,
            current_va: engine_va(created.value_va, created.value_cpu_va),
            monitored_va: GpuVa::NULL,
            caching: created.caching,
            bits: created.bits,
            private_data: FencePrivateData::default(),
            link: Arc::clone(&link),
            _owned: Some(destroys(link, created.fence)),
        }
    }

    /// The value, by a load from the read-only mapping; no call. Of a fence of 32 bits: the lower half.
    ///
    /// # Panics
    /// For an INTRA_GPU fence, which the CPU does not reach; [`Fence::is_mapped`] tells.
    pub fn current(&self) -> u64 {
        self.word().load()
    }

    /// Whether the CPU reaches the value.
    pub fn is_mapped(&self) -> bool {
        self.word.is_some()
    }

    /// The read-only mapping itself.
    ///
    /// # Panics
    /// As [`Fence::current`].
    pub fn word(&self) -> &ReadOnlyWord {
        self.word.as_ref().expect("the CPU does not reach an INTRA_GPU fence")
    }

    /// CurrentValue, or the one value of a monitored fence, for the GPU's commands: its GPU address, or on an adapter of the IoMmu
    /// model its CPU address (sync §1.5). NULL: it has no GPU access.
    pub fn current_va(&self) -> GpuVa {
        self.current_va
    }

    /// MonitoredValue for the GPU; NULL for a monitored fence, which has none.
    pub fn monitored_va(&self) -> GpuVa {
        self.monitored_va
    }

    /// System address of the word: names the fence in traces of the device.
    pub fn address(&self) -> WordAddress {
        self.address
    }

    /// How the mapping is cached.
    pub fn caching(&self) -> CpuCaching {
        self.caching
    }

    /// Bits of the word: 64, or 32 where the GPU updates no more.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// The blob that the kernel-mode driver wrote when the fence was created or opened.
    pub fn private_data(&self) -> &[u8; 64] {
        &self.private_data.0
    }

    /// `D3DKMTShareObjects`: a name by which other processes and devices open it, with this access.
    ///
    /// # Errors
    /// When it was not created with NtSecuritySharing; `ACCESS_DENIED` for more access than this open has.
    pub fn share(&self, access: SyncObjectAccess) -> Result<NtHandle, Refusal> {
        let call = Call::Share(ShareCall::ShareObjects { objects: vec![self.handle()], access, name: None });
        let token = expect_reply!(self.link.call(call)?, Reply::NtHandle(token) => token);
        Ok(NtHandle { link: Arc::clone(&self.link), token })
    }

    /// Its handle.
    pub fn handle(&self) -> RawHandle {
        self.handle
    }
}

fn mapped(link: &Arc<dyn Link>, created: &CreatedFence) -> Option<ReadOnlyWord> {
    (created.current != CreatedFence::NO_CPU_ADDRESS).then(|| link.read_only(created.current))
}

fn destroys(link: Arc<dyn Link>, handle: RawHandle) -> Owned {
    Owned { link, handle, destroy: |fence| Call::Sync(SyncCall::DestroySynchronizationObject { fence }) }
}

/// An NT handle of this process: a process that is told its number opens what it names, except a handle of a process. Dropping it closes
/// it; a fence lives as long as a device has it open or it has a name.
pub struct NtHandle {
    link: Arc<dyn Link>,
    token: u64,
}

impl NtHandle {
    /// A handle that the operating system has given this process.
    pub fn adopt(link: Arc<dyn Link>, token: u64) -> NtHandle {
        NtHandle { link, token }
    }

    /// The number by which other processes open it. It is unguessable.
    pub fn token(&self) -> u64 {
        self.token
    }
}

impl Drop for NtHandle {
    fn drop(&mut self) {
        // Refused only when the kernel has gone.
        let _ = self.link.call(Call::Share(ShareCall::CloseNtHandle { handle: self.token }));
    }
}
