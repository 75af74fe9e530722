//! Flags of allocations and of the calls about them (memory §2.2, §2.7, §2.8).

bitflags::bitflags! {
    /// `DXGK_ALLOCATIONINFOFLAGS` and `DXGK_ALLOCATIONINFOFLAGS_WDDM2_0` (memory §2.2): the two versions give some bits different names.
    /// The driver's version decides between them.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct AllocationFlags: u32 {
        /// The CPU may lock it.
        const CPU_VISIBLE = 1 << 0;
        /// Keep the system copy while in a memory segment; requires CPU_VISIBLE.
        const PERMANENT_SYS_MEM = 1 << 1;
        /// Backing store is cacheable; requires CPU_VISIBLE.
        const CACHED = 1 << 2;
        /// Backing store in kernel space.
        const PROTECTED = 1 << 3;
        /// Backing store is the caller's memory.
        const EXISTING_SYS_MEM = 1 << 4;
        /// Backing store is kernel memory that exists.
        const EXISTING_KERNEL_SYS_MEM = 1 << 5;
        /// Search free space from the top.
        const FROM_END_OF_SEGMENT = 1 << 6;
        /// WDDM 1: VidMm tracks the swizzle state (memory §6.5).
        const SWIZZLED = 1 << 7;
        /// WDDM 2: never use a large-page entry.
        const DISABLE_LARGE_PAGE_MAPPING = 1 << 7;
        /// Pinned, in the last fifth of a segment.
        const OVERLAY = 1 << 8;
        /// Pinned like an overlay.
        const CAPTURE = 1 << 9;
        /// WDDM 1: a primary that is locked only through its swizzling range.
        const USE_ALTERNATE_VA = 1 << 10;
        /// WDDM 2.1: in a protected range.
        const CREATE_IN_VPR = 1 << 10;
        /// WDDM 1: paging waits for the allocation to be idle.
        const SYNCHRONOUS_PAGING = 1 << 11;
        /// WDDM 1: one backing store, replicated on every linked GPU.
        const LINK_MIRRORED = 1 << 12;
        /// WDDM 1: one backing store per linked GPU.
        const LINK_INSTANCED = 1 << 13;
        /// WDDM 2.9: a CPU address is wanted when it is mapped in the aperture.
        const MAP_APERTURE_CPU_VISIBLE = 1 << 13;
        /// A history buffer.
        const HISTORY_BUFFER = 1 << 14;
        /// Contiguous in memory segments, mapped in the aperture when in system memory.
        const ACCESSED_PHYSICALLY = 1 << 15;
        /// NOTIFY_RESIDENCY is wanted; needs ACCESSED_PHYSICALLY.
        const EXPLICIT_RESIDENCY_NOTIFICATION = 1 << 16;
        /// Content of digital rights management.
        const HARDWARE_PROTECTED = 1 << 17;
        /// CPU-visible, with an address only while mapped.
        const CPU_VISIBLE_ON_DEMAND = 1 << 18;
        /// Unknown bits are kept, so that they can be refused.
        const _ = !0;
    }

    /// `DXGK_ALLOCATIONINFOFLAGS2` (memory §2.2).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct AllocationFlags2: u32 {
        /// The driver gets the kernel address of the backing store.
        const SHARE_BACKING_STORE_WITH_KMD = 1 << 0;
        /// Opts out of the synchronisation of primaries.
        const NO_IMPLICIT_SYNCHRONIZATION = 1 << 1;
        /// All or nothing is resident.
        const DISABLE_PARTIAL_RESIDENCY = 1 << 2;
        /// Never in two segments.
        const RESTRICTED_TO_SINGLE_SEGMENT = 1 << 3;
        /// The driver wants to hear of evictions.
        const NOTIFY_EVICTION = 1 << 4;
        /// The driver wants to hear when an IOMMU mapping goes.
        const NOTIFY_IO_MMU_UNMAP = 1 << 5;
        /// Unknown bits are kept, so that they can be refused.
        const _ = !0;
    }

    /// Flags of `DXGKARG_CREATEALLOCATION` (memory §2.7).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct CreateAllocationFlags: u32 {
        /// The allocations belong to a resource.
        const RESOURCE = 1 << 0;
    }

    /// Flags of `DXGKARG_OPENALLOCATION` (memory §2.7).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct OpenAllocationFlags: u32 {
        /// The open that follows the creation.
        const CREATE = 1 << 0;
        /// Opened for reading.
        const READ_ONLY = 1 << 1;
    }

    /// Flags of `DXGKARG_DESTROYALLOCATION` (memory §2.7).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct DestroyAllocationFlags: u32 {
        /// The resource goes too.
        const DESTROY_RESOURCE = 1 << 0;
    }

    /// Flags of an allocation that can change (memory §2.8).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct UpdateAllocationPropertyFlags: u32 {
        /// Contiguous in memory segments.
        const ACCESSED_PHYSICALLY = 1 << 0;
        /// Stays where it is.
        const UNMOVEABLE = 1 << 1;
        /// Unknown bits are kept, so that they can be refused.
        const _ = !0;
    }

    /// The properties that change (memory §2.8).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct UpdateAllocationPropertyMask: u32 {
        /// `SetAccessedPhysically`.
        const ACCESSED_PHYSICALLY = 1 << 0;
        /// `SetSupportedSegmentSet`.
        const SUPPORTED_SEGMENT_SET = 1 << 1;
        /// `SetPreferredSegment`.
        const PREFERRED_SEGMENT = 1 << 2;
        /// `SetUnmoveable`.
        const UNMOVEABLE = 1 << 3;
        /// Unknown bits are kept, so that they can be refused.
        const _ = !0;
    }

    /// Flags of a usage hint (memory §2.1).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct UsageHintFlags: u32 {
        /// The format is the driver's own.
        const PRIVATE_FORMAT = 1 << 0;
        /// The texels are swizzled.
        const SWIZZLED = 1 << 1;
        /// The allocation holds a mip chain.
        const MIP_MAP = 1 << 2;
        /// A cube.
        const CUBE = 1 << 3;
        /// A volume.
        const VOLUME = 1 << 4;
        /// A vertex buffer.
        const VERTEX = 1 << 5;
        /// An index buffer.
        const INDEX = 1 << 6;
    }
}
