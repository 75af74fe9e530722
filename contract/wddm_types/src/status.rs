//! NTSTATUS values as the specification lists them (memory §9.1, sync §5), and whose fault a failure is.

use serde::{Deserialize, Serialize};

/// A status code. It appears only at the edges: inside a room an operation has an error enum of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NtStatus(pub u32);

macro_rules! statuses {
    ($($name:ident = $value:literal,)*) => {
        impl NtStatus {
            $(#[doc = concat!("`STATUS_", stringify!($name), "`")] pub const $name: NtStatus = NtStatus($value);)*

            /// All that have a name.
            pub const NAMED: &[NtStatus] = &[$(NtStatus::$name,)*];

            /// The name of the code without its prefix, where the specification gives one.
            pub fn name(self) -> Option<&'static str> {
                match self.0 { $($value => Some(stringify!($name)),)* _ => None }
            }
        }
    };
}

// spec: memory §9.1, sync §5
statuses! {
    SUCCESS = 0x0000_0000,
    ABANDONED = 0x0000_0080,
    TIMEOUT = 0x0000_0102,
    PENDING = 0x0000_0103,
    UNSUCCESSFUL = 0xC000_0001,
    NOT_IMPLEMENTED = 0xC000_0002,
    INVALID_HANDLE = 0xC000_0008,
    INVALID_PARAMETER = 0xC000_000D,
    NO_MEMORY = 0xC000_0017,
    CONFLICTING_ADDRESSES = 0xC000_0018,
    ILLEGAL_INSTRUCTION = 0xC000_001D,
    ACCESS_DENIED = 0xC000_0022,
    BUFFER_TOO_SMALL = 0xC000_0023,
    OBJECT_TYPE_MISMATCH = 0xC000_0024,
    OBJECT_NAME_NOT_FOUND = 0xC000_0034,
    OBJECT_NAME_COLLISION = 0xC000_0035,
    PRIVILEGE_NOT_HELD = 0xC000_0061,
    PRIVILEGED_INSTRUCTION = 0xC000_0096,
    INSUFFICIENT_RESOURCES = 0xC000_009A,
    NOT_SUPPORTED = 0xC000_00BB,
    INVALID_USER_BUFFER = 0xC000_00E8,
    COMMITMENT_LIMIT = 0xC000_012D,
    RETRY = 0xC000_022D,
    DEVICE_REMOVED = 0xC000_02B6,
    DEVICE_HUNG = 0xC000_0507,
    GRAPHICS_INSUFFICIENT_DMA_BUFFER = 0xC01E_0001,
    GRAPHICS_PRESENT_OCCLUDED = 0xC01E_0006,
    GRAPHICS_VAIL_STATE_CHANGED = 0xC01E_0011,
    GRAPHICS_NO_VIDEO_MEMORY = 0xC01E_0100,
    GRAPHICS_CANT_LOCK_MEMORY = 0xC01E_0101,
    GRAPHICS_ALLOCATION_BUSY = 0xC01E_0102,
    GRAPHICS_TOO_MANY_REFERENCES = 0xC01E_0103,
    GRAPHICS_CANT_EVICT_PINNED_ALLOCATION = 0xC01E_0109,
    GRAPHICS_INVALID_ALLOCATION_USAGE = 0xC01E_0110,
    GRAPHICS_CANT_RENDER_LOCKED_ALLOCATION = 0xC01E_0111,
    GRAPHICS_WRONG_ALLOCATION_DEVICE = 0xC01E_0115,
    GRAPHICS_ALLOCATION_CONTENT_LOST = 0xC01E_0116,
    GRAPHICS_DRIVER_MISMATCH = 0x401E_0117,
    GRAPHICS_GPU_EXCEPTION_ON_DEVICE = 0xC01E_0200,
    GRAPHICS_INVALID_VIDEO_PRESENT_SOURCE = 0xC01E_0304,
    GRAPHICS_VIDPN_SOURCE_IN_USE = 0xC01E_0342,
}

impl NtStatus {
    /// `NT_SUCCESS`: the value as a signed number is not negative (sync §5).
    pub const fn is_success(self) -> bool {
        self.0 as i32 >= 0
    }
}

impl std::fmt::Display for NtStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => write!(f, "STATUS_{name} ({:#010x})", self.0),
            None => write!(f, "{:#010x}", self.0),
        }
    }
}

impl std::fmt::Debug for NtStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// The party at fault for a failure; it decides what happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Blame {
    /// The caller: nothing has changed, a retry of the same call fails again.
    Caller,
    /// Scarcity: nothing has changed, a retry can succeed once something is freed.
    Scarcity,
    /// A limit that the host has set for this process, or its account: nothing has changed, a retry can succeed once it has freed
    /// something itself.
    Quota,
    /// A driver or the hardware: the guilty context is marked, innocents lose nothing.
    Driver,
}
