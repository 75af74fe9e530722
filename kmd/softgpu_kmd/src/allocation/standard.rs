//! Allocations that the kernel asks for by itself (memory §2.7), described as the user-mode driver would. A surface that
//! only the GPU draws lies in local memory; one that the CPU draws, in system memory, where it is cheap to reach.

use ddi::{DriverStatus, GdiSurfaceKind, StandardAllocation, StandardAllocationDriverData, Surface, SurfaceFormat};
use softgpu_spec::display::PITCH_ALIGNMENT_BYTES;
use softgpu_spec::private_data::{AllocationRequest, Details, Kind, SIZE_BYTES_MAX};

use crate::driver::SoftGpuKmd;

impl SoftGpuKmd {
    /// `GetStandardAllocationDriverData`. The resource has no private data.
    // spec: memory §2.7
    pub(crate) fn standard_data(&self, query: &mut StandardAllocationDriverData<'_>) -> Result<(), DriverStatus> {
        let (request, pitch_bytes) = self.describe_standard(query.wanted)?;
        let bytes = match query.wanted {
            StandardAllocation::SharedPrimary { surface, .. } => request.encode_with(&shown(surface)).to_vec(),
            _ => request.encode().to_vec(),
        };
        match &mut query.buffers {
            None => (query.allocation_bytes, query.resource_bytes) = (bytes.len() as u32, 0),
            Some((allocation, resource)) if (allocation.len(), resource.len()) == (bytes.len(), 0) => {
                allocation.copy_from_slice(&bytes);
                query.pitch_bytes = pitch_bytes;
            }
            Some(_) => {
                return Err(DriverStatus::InvalidParameter("a buffer of another size than the driver asked for"));
            }
        }
        Ok(())
    }

    /// Translates `wanted` into an allocation request and its pitch; 0: it has no rows.
    fn describe_standard(&self, wanted: StandardAllocation) -> Result<(AllocationRequest, u32), DriverStatus> {
        match wanted {
            StandardAllocation::Staging { size_bytes } => Ok((drawn_by_cpu(size_bytes), 0)),
            StandardAllocation::Shadow(surface)
            | StandardAllocation::Gdi { surface, kind: GdiSurfaceKind::StagingCpuVisible } => {
                let (pitch, size_bytes) = layout(surface)?;
                Ok((drawn_by_cpu(size_bytes), pitch))
            }
            // spec: memory §2.7: every segment of a primary is one that the CPU reaches
            StandardAllocation::SharedPrimary { surface, .. } => {
                let reached = self.config.cpu_visible || self.config.cpu_window_pages > 0;
                let (pitch, size_bytes) = layout(surface)?;
                Ok((drawn_by_gpu(if reached { Kind::Local } else { Kind::System }, size_bytes), pitch))
            }
            StandardAllocation::Gdi {
                surface,
                kind: GdiSurfaceKind::Texture | GdiSurfaceKind::Staging | GdiSurfaceKind::LookupTable,
            } => {
                let (pitch, size_bytes) = layout(surface)?;
                Ok((drawn_by_gpu(Kind::LocalThenSystem, size_bytes), pitch))
            }
            StandardAllocation::Gdi { .. } => {
                Err(DriverStatus::NotSupported("this device has no such surface of windows"))
            }
            StandardAllocation::VirtualGpu => Err(DriverStatus::NotSupported("this device has no virtual functions")),
        }
    }
}

/// The pitch of a surface, and its bytes.
fn layout(surface: Surface) -> Result<(u32, u64), DriverStatus> {
    let wrong = DriverStatus::InvalidParameter("a surface that this device has no format or no address for");
    let pitch = surface.row_bytes().ok_or(wrong)?.next_multiple_of(PITCH_ALIGNMENT_BYTES);
    let size_bytes = pitch.checked_mul(u64::from(surface.height)).filter(|bytes| (1..=SIZE_BYTES_MAX).contains(bytes));
    Ok((u32::try_from(pitch).map_err(|_| wrong)?, size_bytes.ok_or(wrong)?))
}

/// The size that a display shows of a primary: 0 where displays cannot read its format.
fn shown(surface: Surface) -> Details {
    let edges = (u16::try_from(surface.width), u16::try_from(surface.height));
    match edges {
        (Ok(display_width), Ok(display_height)) if surface.format == SurfaceFormat::X8R8G8B8 => {
            Details { display_width, display_height, ..Details::default() }
        }
        _ => Details::default(),
    }
}

fn drawn_by_cpu(size_bytes: u64) -> AllocationRequest {
    AllocationRequest { kind: Kind::System, cpu_visible: true, cached: true, accessed_physically: false, size_bytes }
}

fn drawn_by_gpu(kind: Kind, size_bytes: u64) -> AllocationRequest {
    AllocationRequest { kind, cpu_visible: false, cached: false, accessed_physically: false, size_bytes }
}

#[cfg(test)]
mod tests;
