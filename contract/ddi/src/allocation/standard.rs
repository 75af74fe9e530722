//! Standard allocations: the kernel creates them by itself, and no user-mode driver describes them (memory §2.7). The kernel asks the
//! driver for the private data that the driver's CreateAllocation then gets. This file checks nothing.

/// The allocation that the kernel wants: `D3DKMDT_STANDARDALLOCATION_TYPE` with the data of its type. The kernel asks the facet
/// [`crate::NativeFences`] for type 6, FENCESTORAGE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandardAllocation {
    /// 1, `D3DKMDT_SHAREDPRIMARYSURFACEDATA`: a display shows it while no process's own primary is shown.
    SharedPrimary {
        /// Its texels.
        surface: Surface,
        /// How often it is shown.
        refresh_rate: RefreshRate,
        /// `VidPnSourceId`: of which display.
        video_source: u32,
    },
    /// 2, `D3DKMDT_SHADOWSURFACEDATA`: the CPU draws here what is then copied to the shared primary. It has a pitch.
    Shadow(Surface),
    /// 3: memory of a process that exists already.
    Staging {
        /// Bytes of it.
        size_bytes: u64,
    },
    /// 4, `D3DKMDT_GDISURFACEDATA`: windows are drawn into it.
    Gdi {
        /// Its texels.
        surface: Surface,
        /// The kind of use by GDI.
        kind: GdiSurfaceKind,
    },
    /// 5: of a virtual GPU. This kernel never asks for it.
    VirtualGpu,
}

/// Rows of texels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Surface {
    /// Texels of a row.
    pub width: u32,
    /// Rows of the surface.
    pub height: u32,
    /// Format of a texel.
    pub format: SurfaceFormat,
}

impl Surface {
    /// Bytes of a row without what may lie behind it; `None`: the format is not one of those named here.
    pub fn row_bytes(&self) -> Option<u64> {
        self.format.texel_bytes().map(|texel| u64::from(self.width) * texel)
    }
}

/// `D3DDDIFORMAT`: those that standard allocations have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SurfaceFormat(pub u32);

impl SurfaceFormat {
    /// 32 bits with alpha.
    pub const A8R8G8B8: SurfaceFormat = SurfaceFormat(21);
    /// 32 bits without alpha.
    pub const X8R8G8B8: SurfaceFormat = SurfaceFormat(22);
    /// 16 bits.
    pub const R5G6B5: SurfaceFormat = SurfaceFormat(23);
    /// Alpha alone.
    pub const A8: SurfaceFormat = SurfaceFormat(28);
    /// 32 bits with alpha, red first.
    pub const A8B8G8R8: SurfaceFormat = SurfaceFormat(32);
    /// 32 bits without alpha, red first.
    pub const X8B8G8R8: SurfaceFormat = SurfaceFormat(33);

    /// Bytes of a texel, if the format is one of these.
    pub fn texel_bytes(self) -> Option<u64> {
        match self {
            Self::A8R8G8B8 | Self::X8R8G8B8 | Self::A8B8G8R8 | Self::X8B8G8R8 => Some(4),
            Self::R5G6B5 => Some(2),
            Self::A8 => Some(1),
            _ => None,
        }
    }
}

/// `D3DDDI_RATIONAL`: times per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefreshRate {
    /// So many times.
    pub numerator: u32,
    /// In so many seconds; not 0.
    pub denominator: u32,
}

/// `D3DKMDT_GDISURFACETYPE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum GdiSurfaceKind {
    /// Drawn and composed by the GPU; the CPU does not see it.
    Texture = 1,
    /// The CPU reads and writes it, the GPU copies from it and to it. It has a pitch.
    StagingCpuVisible = 2,
    /// The GPU copies from it and to it; the CPU does not see it.
    Staging = 3,
    /// Bytes that text is blended by; the CPU does not see it.
    LookupTable = 4,
    /// Over memory that exists already.
    ExistingSysMem = 5,
    /// A texture that the CPU sees.
    TextureCpuVisible = 6,
    /// A texture of several adapters.
    TextureCrossAdapter = 7,
    /// A texture of several adapters that the CPU sees.
    TextureCrossAdapterCpuVisible = 8,
}

/// `DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA` (memory §2.7). First called with `buffers` `None`: the driver writes only the
/// two sizes. Then with buffers of these sizes.
#[derive(Debug)]
pub struct StandardAllocationDriverData<'a> {
    /// The allocation that the kernel wants. It does not read it again.
    pub wanted: StandardAllocation,
    /// Out on the first call: bytes of the allocation's private data.
    pub allocation_bytes: u32,
    /// Out on the first call: bytes of the resource's private data.
    pub resource_bytes: u32,
    /// Out on the second call, of shadow and CPU-visible staging surfaces: bytes from one row to the next.
    pub pitch_bytes: u32,
    /// The allocation's and the resource's private data, to be filled on the second call.
    pub buffers: Option<(&'a mut [u8], &'a mut [u8])>,
}
