//! The types of the C declarations that are numbers, and the limits that C programs name.

use std::ffi::c_void;

use crate::description::NumberKind;
use crate::layout::layout;

pub type BYTE = u8;
pub type BOOLEAN = u8;
pub type WORD = u16;
pub type UINT16 = u16;
pub type BOOL = i32;
pub type INT = i32;
pub type LONG = i32;
pub type UINT = u32;
pub type ULONG = u32;
pub type DWORD = u32;
pub type LONGLONG = i64;
pub type UINT64 = u64;
pub type ULONGLONG = u64;
/// `LARGE_INTEGER`, as the one number that it holds; in C it is a union of that number and its halves.
pub type LARGE_INTEGER = i64;
pub type SIZE_T = usize;
pub type ULONG_PTR = usize;
pub type VOID = c_void;
/// A handle of the operating system.
pub type HANDLE = *mut c_void;
pub type D3DKMT_HANDLE = u32;
pub type D3DGPU_VIRTUAL_ADDRESS = u64;
pub type D3DGPU_SIZE_T = u64;
pub type D3DDDI_VIDEO_PRESENT_SOURCE_ID = u32;
pub type D3DDDI_VIDEO_PRESENT_TARGET_ID = u32;
pub type NTSTATUS = i32;
/// A wide character.
#[cfg(not(feature = "wsl"))]
pub type WCHAR = u16;
/// A wide character.
#[cfg(feature = "wsl")]
pub type WCHAR = u32;

// spec: sync §0, memory §0
pub const D3DDDI_MAX_OBJECT_WAITED_ON: usize = 32;
pub const D3DDDI_MAX_OBJECT_SIGNALED: usize = 32;
pub const D3DDDI_MAX_BROADCAST_CONTEXT: usize = 64;
pub const D3DDDI_MAX_WRITTEN_PRIMARIES: usize = 16;
pub const D3DKMT_MAX_OBJECTS_PER_HANDLE: usize = 3;
pub const D3DDDI_NATIVE_FENCE_PDD_SIZE: usize = 64;
pub const D3DDDI_DOORBELL_PRIVATEDATA_MAX_BYTES_WDDM3_1: usize = 16;
/// Adapters of `D3DKMT_ENUMADAPTERS`.
pub const MAX_ENUM_ADAPTERS: usize = 16;

/// The types that are numbers: size in bytes, and how each is to be read.
pub const NUMBERS: &[(&str, usize, NumberKind)] = &[
    ("BYTE", 1, NumberKind::Unsigned),
    ("BOOLEAN", 1, NumberKind::Unsigned),
    ("WORD", 2, NumberKind::Unsigned),
    ("UINT16", 2, NumberKind::Unsigned),
    ("BOOL", 4, NumberKind::Signed),
    ("INT", 4, NumberKind::Signed),
    ("LONG", 4, NumberKind::Signed),
    ("UINT", 4, NumberKind::Unsigned),
    ("ULONG", 4, NumberKind::Unsigned),
    ("DWORD", 4, NumberKind::Unsigned),
    ("LONGLONG", 8, NumberKind::Signed),
    ("UINT64", 8, NumberKind::Unsigned),
    ("ULONGLONG", 8, NumberKind::Unsigned),
    ("LARGE_INTEGER", 8, NumberKind::Signed),
    ("SIZE_T", 8, NumberKind::Unsigned),
    ("ULONG_PTR", 8, NumberKind::Unsigned),
    ("HANDLE", 8, NumberKind::Handle),
    ("NTSTATUS", 4, NumberKind::Signed),
    ("D3DKMT_HANDLE", 4, NumberKind::Handle),
    ("D3DGPU_VIRTUAL_ADDRESS", 8, NumberKind::GpuVa),
    ("D3DGPU_SIZE_T", 8, NumberKind::Unsigned),
    ("D3DDDI_VIDEO_PRESENT_SOURCE_ID", 4, NumberKind::Unsigned),
    ("D3DDDI_VIDEO_PRESENT_TARGET_ID", 4, NumberKind::Unsigned),
    ("WCHAR", size_of::<WCHAR>(), NumberKind::Wide),
];

layout! {
    /// Names an adapter as long as the machine runs.
    structure LUID { 8;
        0 LowPart: ULONG = "in: the lower half of the adapter's id, out where the structure around it is an answer",
        4 HighPart: LONG = "in: the upper half of the adapter's id, likewise",
    }
}
