//! Arguments and errors of maps: the map types and the flag of D3D11 by their numbers, and the refusals of that interface. Used by
//! runtimes; `dynamic` and `legacy` carry the maps out.

use crate::gpu::UmdError;

/// `D3D11_MAP`.
// spec: memory §6.4
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapKind {
    /// `D3D11_MAP_READ`.
    Read,
    /// `D3D11_MAP_WRITE`.
    Write,
    /// `D3D11_MAP_READ_WRITE`.
    ReadWrite,
    /// `D3D11_MAP_WRITE_DISCARD`: the caller gives up the old content.
    WriteDiscard,
    /// `D3D11_MAP_WRITE_NO_OVERWRITE`: the caller writes nothing that the GPU still uses.
    WriteNoOverwrite,
}

/// `D3D11_MAP_FLAG_DO_NOT_WAIT`.
pub const DO_NOT_WAIT: u32 = 0x10_0000;

/// Why a map or an unmap did nothing.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// The GPU still uses the resource, and the caller does not want to wait. The driver has submitted the recorded commands, so
    /// that a later attempt can succeed.
    #[error("the GPU still uses it")]
    WasStillDrawing,
    /// The caller unmaps what is not mapped, or names a map type or flag that does not exist.
    #[error("the resource is not mapped, or the map type or flag does not exist")]
    InvalidArgument,
    /// The driver could not do it.
    #[error(transparent)]
    Driver(#[from] UmdError),
}

impl MapError {
    /// `E_INVALIDARG`.
    pub const E_INVALIDARG: u32 = 0x8007_0057;
    /// `DXGI_ERROR_WAS_STILL_DRAWING` (D3D10 and later).
    pub const DXGI_WAS_STILL_DRAWING: u32 = 0x887A_000A;
    /// `D3DERR_WASSTILLDRAWING` (D3D9).
    pub const D3D9_WAS_STILL_DRAWING: u32 = 0x8876_021C;

    /// The status at the interface of D3D10 and later; `None` where that is the runtime's to say.
    pub fn hresult(&self) -> Option<u32> {
        match self {
            MapError::WasStillDrawing => Some(Self::DXGI_WAS_STILL_DRAWING),
            MapError::InvalidArgument => Some(Self::E_INVALIDARG),
            MapError::Driver(_) => None,
        }
    }

    /// The status at the interface of D3D9.
    pub fn hresult_d3d9(&self) -> Option<u32> {
        match self {
            MapError::WasStillDrawing => Some(Self::D3D9_WAS_STILL_DRAWING),
            _ => self.hresult(),
        }
    }
}

impl MapKind {
    /// Reads the two words of a map call; answers with the kind and whether not to wait.
    ///
    /// # Errors
    /// `InvalidArgument`: a number that is none of them.
    pub fn decode(map: u32, flags: u32) -> Result<(MapKind, bool), MapError> {
        let kind = match map {
            1 => MapKind::Read,
            2 => MapKind::Write,
            3 => MapKind::ReadWrite,
            4 => MapKind::WriteDiscard,
            5 => MapKind::WriteNoOverwrite,
            _ => return Err(MapError::InvalidArgument),
        };
        if flags & !DO_NOT_WAIT != 0 {
            return Err(MapError::InvalidArgument);
        }
        Ok((kind, flags & DO_NOT_WAIT != 0))
    }
}
