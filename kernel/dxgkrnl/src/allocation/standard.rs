//! Allocations that the kernel describes (memory §2.7): the surfaces of displays and windows, and how many rows each must have room for. What
//! the driver answers is an allegation, and is held against that.

use ddi::{AllocationFlags, AllocationInfo, GdiSurfaceKind, StandardAllocation, Surface, SurfaceFormat};
use kmt_calls::Refusal;
use wddm_types::{Blame, NtStatus};

use crate::refusal::{invalid, not_supported, refuse};

/// Rows that an allocation must have room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Bytes from one to the next: the driver's pitch, or what the texels alone take.
    pitch_bytes: u64,
    count: u64,
    /// The CPU reads and writes them.
    seen: bool,
}

impl Rows {
    /// Whether the CPU reads and writes them.
    pub fn are_seen(&self) -> bool {
        self.seen
    }

    /// The same with the driver's pitch, which counts where the CPU sees them.
    ///
    /// # Errors
    /// A pitch in which no row has room.
    // spec: memory §2.7
    pub fn with_pitch(self, pitch_bytes: u32) -> Result<Rows, Refusal> {
        let (row_bytes, pitch_bytes) = (self.pitch_bytes, u64::from(pitch_bytes));
        if !self.seen {
            return Ok(self);
        }
        if pitch_bytes < row_bytes {
            return Err(broken(format!("the driver has a pitch of {pitch_bytes} bytes for rows of {row_bytes}")));
        }
        Ok(Rows { pitch_bytes, ..self })
    }

    /// Whether what the driver has described is the surface.
    // spec: memory §2.1: the size includes the padding of pitches
    pub fn check(&self, infos: &[AllocationInfo]) -> Result<(), Refusal> {
        // Both factors came from 32 bits.
        let bytes = self.pitch_bytes * self.count;
        for info in infos {
            if info.size_bytes < bytes {
                let given = info.size_bytes;
                return Err(broken(format!("the driver gives {given} bytes to a surface of {bytes}")));
            }
            if self.seen && !info.flags.contains(AllocationFlags::CPU_VISIBLE) {
                return Err(broken("the driver hides from the CPU a surface that the CPU draws into"));
            }
        }
        Ok(())
    }
}

/// The rows of what is wanted, without anything between them.
pub fn rows(wanted: StandardAllocation) -> Result<Rows, Refusal> {
    use GdiSurfaceKind as Kind;
    let (surface, seen) = match wanted {
        StandardAllocation::SharedPrimary { surface, refresh_rate, .. } => {
            if refresh_rate.denominator == 0 {
                return Err(invalid("a refresh rate in no time"));
            }
            (surface, false)
        }
        StandardAllocation::Shadow(surface) => (surface, true),
        StandardAllocation::Gdi { surface, kind } => match kind {
            Kind::Texture | Kind::Staging | Kind::LookupTable => (surface, false),
            Kind::StagingCpuVisible => (surface, true),
            Kind::ExistingSysMem
            | Kind::TextureCpuVisible
            | Kind::TextureCrossAdapter
            | Kind::TextureCrossAdapterCpuVisible => {
                return Err(not_supported(format!("GDI surfaces of the kind {kind:?} are not built")));
            }
        },
        StandardAllocation::Staging { .. } => {
            return Err(invalid("a staging surface is created over memory of a process, by its own call"));
        }
        StandardAllocation::VirtualGpu => return Err(not_supported("VGPU: there are no virtual GPUs")),
    };
    check_format(wanted, surface)?;
    let row_bytes = surface.row_bytes().filter(|bytes| *bytes > 0 && *bytes <= u64::from(u32::MAX));
    match row_bytes {
        Some(pitch_bytes) if surface.height > 0 => Ok(Rows { pitch_bytes, count: u64::from(surface.height), seen }),
        _ => Err(invalid(format!("no surface has {} by {} texels", surface.width, surface.height))),
    }
}

/// A surface of windows has 32 bits a texel; alpha alone is for what is copied and what text is blended by.
// spec: memory §2.7
fn check_format(wanted: StandardAllocation, surface: Surface) -> Result<(), Refusal> {
    use GdiSurfaceKind as Kind;
    let texel_bytes = surface.format.texel_bytes();
    let fits = match wanted {
        StandardAllocation::Gdi { kind: Kind::LookupTable, .. } => surface.format == SurfaceFormat::A8,
        StandardAllocation::Gdi { kind: Kind::Staging | Kind::StagingCpuVisible, .. } => {
            texel_bytes == Some(4) || surface.format == SurfaceFormat::A8
        }
        StandardAllocation::Gdi { .. } => texel_bytes == Some(4),
        _ => texel_bytes.is_some() && surface.format != SurfaceFormat::A8,
    };
    if fits { Ok(()) } else { Err(invalid(format!("format {} is none of this surface", surface.format.0))) }
}

fn broken(reason: impl Into<std::borrow::Cow<'static, str>>) -> Refusal {
    refuse(NtStatus::INVALID_PARAMETER, Blame::Driver, reason)
}
