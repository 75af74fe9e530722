//! Private calls of a user-mode driver to its kernel-mode driver (`DxgkDdiEscape`).

use crate::queue::{KmdContext, KmdDevice, KmdProcess};

bitflags::bitflags! {
    /// `D3DDDI_ESCAPEFLAGS`, those of them that a driver gets to see.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct EscapeFlags: u32 {
        /// The driver may touch its device: the kernel has woken it, and does not reset it during the call.
        const HARDWARE_ACCESS = 1 << 0;
    }
}

/// `DXGKARG_ESCAPE`.
#[derive(Debug)]
pub struct Escape<'a> {
    /// `hKmdProcessHandle`: the calling process; `None` if it has no device on the adapter.
    pub process: Option<KmdProcess>,
    /// `hDevice`.
    pub device: Option<KmdDevice>,
    /// `hContext`, one of that device.
    pub context: Option<KmdContext>,
    /// Flags of the call.
    pub flags: EscapeFlags,
    /// `pPrivateDriverData`, as long as the caller says (`PrivateDriverDataSize`): untrusted. They are a copy, so that checked bytes do
    /// not change; the kernel returns them as the driver leaves them if it succeeds, and no byte more or less.
    pub private_data: &'a mut [u8],
}
