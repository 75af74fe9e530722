//! The layouts that a user-mode driver shares with the kernel-mode one, as data: the C header `openwddm/softgpu.h` is written from this
//! table. The modules that read and write the bytes are the law: [`private_data`](crate::private_data),
//! [`context_data`](crate::context_data), [`queue_data`](crate::queue_data), [`private_call`](crate::private_call) and
//! [`pattern::report`](crate::pattern::report).

/// One layout.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Its name in C.
    pub name: &'static str,
    /// Its bytes.
    pub bytes: usize,
    /// The call that carries it, and what for.
    pub says: &'static str,
    /// Its members, in their order.
    pub members: &'static [Member],
}

/// One member: a number, little-endian.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// Its name.
    pub name: &'static str,
    /// Its first byte.
    pub at: usize,
    /// Its bits: 8, 16, 32 or 64.
    pub bits: usize,
    /// Its direction and meaning.
    pub says: &'static str,
}

const fn member(at: usize, bits: usize, name: &'static str, says: &'static str) -> Member {
    Member { name, at, bits, says }
}

/// Every layout.
#[rustfmt::skip]
pub const LAYOUTS: &[Layout] = &[
    Layout {
        name: "SOFTGPU_ALLOCATION",
        bytes: crate::private_data::BYTES,
        says: "pPrivateDriverData of an allocation (D3DDDI_ALLOCATIONINFO, D3DDDI_ALLOCATIONINFO2): softgpu_allocation fills it in.",
        members: &[
            member(0, 32, "magic", "in: SOFTGPU_ALLOCATION_MAGIC"),
            member(4, 16, "version", "in: SOFTGPU_ALLOCATION_VERSION; SOFTGPU_ALLOCATION_VERSION_DETAILED in a SOFTGPU_DETAILED_ALLOCATION"),
            member(6, 8, "kind", "in: SOFTGPU_LOCAL, SOFTGPU_SYSTEM or SOFTGPU_LOCAL_THEN_SYSTEM"),
            member(7, 8, "reserved", "in: 0"),
            member(8, 32, "flags", "in: bits of SOFTGPU_CPU_VISIBLE, SOFTGPU_CACHED (with the first), SOFTGPU_ACCESSED_PHYSICALLY"),
            member(12, 32, "alignment", "in: 0; out: bytes of alignment in video memory"),
            member(16, 64, "size", "in: bytes, 1 to SOFTGPU_ALLOCATION_SIZE_MAX"),
        ],
    },
    Layout {
        name: "SOFTGPU_ALLOCATION_DETAILS",
        bytes: 56,
        says: "More of an allocation's description; a member that is 0 is left to the driver, and the kernel refuses what breaks its rules.",
        members: &[
            member(0, 32, "flags", "in: bits of the kernel's allocation flags (DXGK_ALLOCATIONINFOFLAGS), beside those of the allocation"),
            member(4, 32, "flags2", "in: bits of the kernel's second allocation flags"),
            member(8, 32, "preferred_segment", "in: segments in the order of preference (DXGK_SEGMENTPREFERENCE)"),
            member(12, 32, "hinted_bank", "in: banks of memory in the order of preference (DXGK_SEGMENTBANKPREFERENCE)"),
            member(16, 32, "supported_segments", "in: one bit a segment that may hold it, bit 0 for segment 1"),
            member(20, 32, "eviction_segments", "in: one bit an aperture segment through which it may be evicted"),
            member(24, 32, "priority", "in: starting priority"),
            member(28, 32, "tile_pitch", "in: bytes of a row of a tiled surface; 0: the content is linear"),
            member(32, 64, "pitch_aligned_size", "in: bytes in a segment that aligns pitches"),
            member(40, 64, "alignment", "in: bytes, if more than the driver's own alignment"),
            member(48, 32, "row_bytes", "in: bytes of a row of content where pitches are aligned"),
            member(52, 16, "display_width", "in: texels of a row of a primary, 4 bytes each; 0: no display shows the surface"),
            member(54, 16, "display_height", "in: rows of a primary"),
        ],
    },
    Layout {
        name: "SOFTGPU_CONTEXT",
        bytes: crate::context_data::BYTES,
        says: "pPrivateDriverData of a packet context (D3DKMT_CREATECONTEXT, D3DKMT_CREATECONTEXTVIRTUAL); without it the driver chooses.",
        members: &[
            member(0, 32, "magic", "in: SOFTGPU_CONTEXT_MAGIC"),
            member(4, 16, "version", "in: SOFTGPU_CONTEXT_VERSION"),
            member(6, 8, "dma_buffers", "in: SOFTGPU_DMA_CONTIGUOUS, SOFTGPU_DMA_APERTURE or SOFTGPU_DMA_LOCAL"),
            member(7, 8, "reserved", "in: 0"),
        ],
    },
    Layout {
        name: "SOFTGPU_QUEUE",
        bytes: crate::queue_data::BYTES,
        says: "pPrivateDriverData of a hardware queue (D3DKMT_CREATEHWQUEUE): the answer is an operand of the signal command, which \
               D3DKMT_CREATEHWQUEUE has no member for.",
        members: &[
            member(0, 32, "magic", "in: SOFTGPU_QUEUE_MAGIC"),
            member(4, 16, "version", "in: SOFTGPU_QUEUE_VERSION"),
            member(6, 16, "reserved", "in: 0"),
            member(8, 64, "progress_monitored_va", "in: 0; out: GPU address of the progress fence's MonitoredValue"),
        ],
    },
    Layout {
        name: "SOFTGPU_HARDWARE",
        bytes: crate::private_call::BYTES - 8,
        says: "The answer to SOFTGPU_ASK_HARDWARE: what the device says of itself. The call needs Flags.HardwareAccess.",
        members: &[
            member(0, 64, "id", "out: SOFTGPU_ID, the name of this kind of device"),
            member(8, 64, "timestamp", "out: nanoseconds since the device was switched on"),
            member(16, 64, "local_bytes", "out: bytes of local memory"),
            member(24, 64, "aperture_bytes", "out: bytes of the aperture"),
            member(32, 32, "signal_bits", "out: bits that an engine stores in one piece, 32 or 64"),
            member(36, 32, "pasid_bits", "out: bits of a process's number at the IOMMU; 0: the device has none"),
            member(40, 32, "doorbells", "out: doorbells with a page of their own"),
            member(44, 32, "ranges", "out: unswizzling ranges"),
            member(48, 64, "reserved", "out: 0"),
        ],
    },
    Layout {
        name: "SOFTGPU_USAGE",
        bytes: crate::private_call::BYTES - 8,
        says: "The answer to SOFTGPU_ASK_USAGE: what the drivers use of the device.",
        members: &[
            member(0, 32, "queues", "out: hardware queues of the device"),
            member(4, 32, "queues_taken", "out: of these, the ones in use by any process"),
            member(8, 32, "contexts", "out: contexts of D3DKMT_ESCAPE's hDevice; 0 without hDevice"),
            member(12, 32, "reserved", "out: 0"),
            member(16, 64, "connections", "out: doorbells connected so far, each again counted again"),
            member(24, 64, "reserved0", "out: 0"),
            member(32, 64, "reserved1", "out: 0"),
            member(40, 64, "reserved2", "out: 0"),
            member(48, 64, "reserved3", "out: 0"),
        ],
    },
    Layout {
        name: "SOFTGPU_REPORT",
        bytes: crate::pattern::report::WORDS as usize * 8,
        says: "The report of the check command, in memory that the program has filled with 0.",
        members: &[
            member(0, 64, "tag", "out: the tag of the check that failed, plus 1; 0: no check has failed"),
            member(8, 64, "offset", "out: byte offset of the first word that differs"),
            member(16, 64, "found", "out: the word that is there"),
            member(24, 64, "expected", "out: the word that the seed's content has there"),
        ],
    },
];

// The layouts are C structures without holes: a compiler adds none, and no member is forgotten.
const _: () = {
    let mut layout = 0;
    while layout < LAYOUTS.len() {
        let (mut next, mut member) = (0, 0);
        while member < LAYOUTS[layout].members.len() {
            let is = LAYOUTS[layout].members[member];
            assert!(is.at == next && (is.at * 8).is_multiple_of(is.bits));
            next = is.at + is.bits / 8;
            member += 1;
        }
        assert!(next == LAYOUTS[layout].bytes);
        layout += 1;
    }
};
