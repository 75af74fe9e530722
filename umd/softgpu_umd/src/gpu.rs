//! An opened adapter with one device, and the surfaces on it.

use std::sync::Arc;

use d3dkmt::{
    Adapter, Allocation, Device, DeviceState, Lock, MakeResidentFlags, MonitoredFenceSignal, PagingQueue, Refusal,
    Residency, Wddm31Caps,
};
use kmt_link::Link;
use softgpu_spec::display::pitch_bytes;
use softgpu_spec::private_data::{AllocationRequest, Details, Kind};
use wddm_types::{GpuVa, NodeId, Pages, VidPnSourceId};

/// Why the driver could not do something.
#[derive(Debug, thiserror::Error)]
pub enum UmdError {
    /// The kernel refused.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// The adapter lacks something that this driver needs.
    #[error("the adapter has no {0}")]
    Lacks(&'static str),
    /// The device is in error, and its submissions did not complete.
    #[error("the device is lost: {0:?}")]
    Lost(DeviceState),
    /// The kernel-mode driver has made an allocation smaller than it was asked for.
    #[error("the driver has made an allocation of {shown} bytes instead of {bytes}")]
    Short {
        /// Bytes asked for.
        bytes: u64,
        /// Bytes that there are.
        shown: u64,
    },
    /// A queue that the process feeds itself, and a fence that its hardware does not know; this is where its value is.
    // spec: sync §1.2, sync §5
    #[error(
        "a queue that the process feeds waits for native fences and signals them: the fence whose value is at {0:#x} is a monitored one; \
         create it or open it as a native fence, or submit to a queue that the kernel feeds"
    )]
    NotNative(u64),
    /// A signal that would wake no waiter: a value never exceeds itself.
    // spec: sync §3.7, sync §3.9
    #[error(
        "a signal names {0:#x} both as the fence's CurrentValue and as its MonitoredValue: no value exceeds itself, so no interrupt would \
         come; it takes the two addresses that the fence was created with"
    )]
    MonitorsItself(u64),
    /// A submission is larger than its stream can ever hold.
    #[error(
        "a submission of {words} words exceeds the stream's limit of {limit}; split it or configure a larger stream"
    )]
    TooLarge {
        /// Words of the submission.
        words: usize,
        /// Words that fit.
        limit: usize,
    },
}

/// An opened adapter with a device and its paging queue.
pub struct Gpu {
    // Dropped in this order: the kernel wants the queue to go before its device, the device before the adapter.
    paging: PagingQueue,
    device: Device,
    adapter: Adapter,
    addresses: bool,
    native_fences: bool,
    user_queues: bool,
    signals: Vec<MonitoredFenceSignal>,
    io_coherent: bool,
}

/// An allocation with a GPU virtual address, where there are such.
pub struct Surface {
    allocation: Arc<Allocation>,
    va: GpuVa,
    bytes: u64,
    /// Paging-fence value from which the address may be used.
    mapped_at: u64,
}

impl Gpu {
    /// Opens the kernel's first adapter.
    ///
    /// # Errors
    /// When there is none.
    pub fn open(link: Arc<dyn Link>) -> Result<Gpu, UmdError> {
        Gpu::on(Adapter::open_first(link)?)
    }

    /// Makes a device on an adapter of this driver.
    ///
    /// # Errors
    /// When the kernel has no memory for it, or the adapter has gone.
    pub fn on(adapter: Adapter) -> Result<Gpu, UmdError> {
        let info = adapter.info()?;
        let addresses = info.gpu_virtual_addresses || info.cpu_addresses;
        let native_fences = info.wddm_3_1_caps.contains(Wddm31Caps::NATIVE_GPU_FENCE_SUPPORTED);
        let user_queues = info.user_mode_submission && native_fences;
        let device = Device::create(&adapter)?;
        let paging = device.create_paging_queue()?;
        let signals = info.monitored_fence_signals;
        let io_coherent = info.io_coherent;
        Ok(Gpu { paging, device, adapter, addresses, native_fences, user_queues, signals, io_coherent })
    }

    /// Whether the engines have virtual addresses, the GPU's or the CPU's. Without, surfaces are named in lists only.
    pub fn has_addresses(&self) -> bool {
        self.addresses
    }

    /// Whether it has native fences. Without, all that it has are monitored.
    pub fn has_native_fences(&self) -> bool {
        self.native_fences
    }

    /// Whether the engines have queues that a process feeds itself, and native fences with them. Without, they take packets.
    pub fn has_user_queues(&self) -> bool {
        self.user_queues
    }

    /// How a node signals monitored fences; there is no such node: not at all.
    pub fn monitored_fence_signal(&self, node: NodeId) -> MonitoredFenceSignal {
        self.signals.get(usize::from(node.0)).copied().unwrap_or(MonitoredFenceSignal::Packet)
    }

    /// Whether the hardware keeps the CPU's caches and the GPU coherent. Without, this driver maintains them for surfaces that
    /// the CPU caches (memory §6.7).
    pub fn is_io_coherent(&self) -> bool {
        self.io_coherent
    }

    /// Makes an allocation and maps it, read/write, if there are addresses. It is not resident.
    ///
    /// # Errors
    /// When memory or addresses are short.
    pub fn create_surface(&self, kind: Kind, bytes: u64) -> Result<Surface, UmdError> {
        self.create(kind, bytes, kind == Kind::System, false)
    }

    /// Creates a surface that the CPU will lock wherever it lies. `cached`: through its caches, so never in local
    /// memory while it is locked (memory §6.3).
    ///
    /// # Errors
    /// When memory or addresses are short, or the kind can only be where the CPU does not reach.
    pub fn create_lockable_surface(&self, kind: Kind, bytes: u64, cached: bool) -> Result<Surface, UmdError> {
        self.create(kind, bytes, true, cached)
    }

    fn create(&self, kind: Kind, bytes: u64, cpu_visible: bool, cached: bool) -> Result<Surface, UmdError> {
        let accessed_physically = !self.addresses;
        let request = AllocationRequest { kind, cpu_visible, cached, accessed_physically, size_bytes: bytes };
        let allocation = self.device.create_allocation(request.encode().to_vec())?;
        self.mapped(allocation, bytes)
    }

    /// Makes a primary of a source and maps it: rows of `width` texels of 32 bits, [`pitch_bytes`] apart. It is not resident.
    ///
    /// # Errors
    /// When memory or addresses are short.
    pub fn create_primary(&self, source: VidPnSourceId, width: u16, height: u16) -> Result<Surface, UmdError> {
        let bytes = pitch_bytes(u32::from(width)) * u64::from(height);
        let request = AllocationRequest {
            kind: Kind::Local,
            cpu_visible: true,
            cached: false,
            // A display reads bus addresses: in an aperture too it is there as long as it is resident.
            accessed_physically: true,
            size_bytes: bytes,
        };
        let shown = Details { display_width: width, display_height: height, ..Details::default() };
        let allocation = self.device.create_primary(request.encode_with(&shown).to_vec(), source)?;
        self.mapped(allocation, bytes)
    }

    /// Maps an allocation of the device, read/write, if there are addresses.
    pub(crate) fn mapped(&self, allocation: Arc<Allocation>, bytes: u64) -> Result<Surface, UmdError> {
        let (va, mapped_at) = if !allocation.address().is_null() {
            // The IoMmu model: it has its address, and is there when it is resident.
            (allocation.address().for_gpu(), 0)
        } else if self.addresses {
            self.paging.map(&allocation, Pages::holding(bytes).0, true)?
        } else {
            (GpuVa::NULL, 0)
        };
        Ok(Surface { allocation, va, bytes, mapped_at })
    }

    /// Makes a surface resident for good and waits until it is: rings, command memory, results.
    ///
    /// # Errors
    /// When memory is short.
    pub fn pin(&self, surface: &Surface) -> Result<(), UmdError> {
        let flags = MakeResidentFlags::empty();
        let value = match self.paging.make_resident(vec![surface.allocation.handle()], flags)? {
            Residency::Resident => surface.mapped_at,
            Residency::Pending { paging_fence_value, .. } => paging_fence_value.max(surface.mapped_at),
        };
        if self.paging.fence().current() < value {
            self.device.wait(&[(self.paging.fence(), value)])?;
        }
        Ok(())
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The paging queue.
    pub fn paging(&self) -> &PagingQueue {
        &self.paging
    }

    /// The adapter.
    pub fn adapter(&self) -> &Adapter {
        &self.adapter
    }
}

impl Surface {
    /// Its address for the GPU: a GPU virtual address, or the CPU's on an adapter of the IoMmu model; NULL on one without.
    pub fn va(&self) -> GpuVa {
        self.va
    }

    /// Its size as asked for.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Paging-fence value from which the address may be used; making it resident waits for it too.
    pub fn mapped_at(&self) -> u64 {
        self.mapped_at
    }

    /// The allocation.
    pub fn allocation(&self) -> &Arc<Allocation> {
        &self.allocation
    }

    /// Locks it for the CPU.
    ///
    /// # Errors
    /// When it lies where the CPU does not reach, or its kernel-mode driver has made it smaller than was asked for.
    pub fn lock(&self) -> Result<Lock, UmdError> {
        let lock = self.allocation.lock()?;
        match lock.size_bytes() {
            shown if shown < self.bytes => Err(UmdError::Short { bytes: self.bytes, shown }),
            _ => Ok(lock),
        }
    }
}
