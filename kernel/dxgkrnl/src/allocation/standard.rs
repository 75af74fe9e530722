//! Allocations that the kernel describes (memory §2.7): it asks the driver twice for the private data, and treats the answer as an
//! allegation. User mode asks for one type, STAGING, by CreateAllocation over memory that exists. The program that embeds the kernel asks
//! for the surfaces of displays and windows, for a device of the process that is its window system.

use ddi::{
    AllocationFlags, AllocationInfo, GdiSurfaceKind, StandardAllocation, StandardAllocationDriverData, Surface,
    SurfaceFormat,
};
use kmt_calls::{AllocationInfoFlags, AllocationRequest, CreateAllocationFlags, Refusal, ResourceRequest};
use wddm_types::{Blame, NtStatus};

use super::{Created, Creation, PRIVATE_DATA_MAX};
use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::number::DeviceNumber;
use crate::refusal::{from_driver, invalid, not_supported, refuse};
use crate::scarcity::NotCreated;

/// A driver's answer about an allocation that the kernel describes.
pub(super) struct StandardData {
    pub allocation: Vec<u8>,
    pub resource: Vec<u8>,
    pub pitch_bytes: u32,
}

/// Rows that an allocation must have room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rows {
    /// Bytes from one to the next: the driver's pitch, or what the texels alone take.
    pub(super) pitch_bytes: u64,
    pub(super) count: u64,
    /// The CPU reads and writes them.
    pub(super) seen: bool,
}

impl Adapter {
    /// The driver's data of a standard allocation that user mode asks for; none of other creations.
    // spec: memory §2.7
    pub(super) fn staging_data(
        &mut self,
        cx: &Cx<'_>,
        requests: &[AllocationRequest],
        call: &ResourceRequest,
    ) -> Result<Option<StandardData>, Refusal> {
        let (true, [request]) = (call.is_standard(), requests) else { return Ok(None) };
        let range = request.existing.ok_or_else(|| invalid("a standard allocation without its memory"))?;
        self.driver_data(cx, StandardAllocation::Staging { size_bytes: range.size_bytes }).map(Some)
    }

    /// A surface that only the kernel asks for: the one allocation of a new shared resource. With it its pitch, if it has one.
    // spec: memory §2.7
    pub fn create_surface(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
        wanted: StandardAllocation,
    ) -> Result<(Created, Option<u32>), Refusal> {
        let Rows { pitch_bytes: row_bytes, count, seen } = rows(wanted)?;
        let mut request = AllocationRequest::default();
        if let StandardAllocation::SharedPrimary { video_source, .. } = wanted {
            (request.flags, request.video_source) = (AllocationInfoFlags::PRIMARY, video_source);
        }
        let flags = CreateAllocationFlags::CREATE_RESOURCE | CreateAllocationFlags::CREATE_SHARED;
        let mut call = ResourceRequest { flags, ..ResourceRequest::default() };
        self.check_create(std::slice::from_ref(&request), &call, None)?;
        let data = self.driver_data(cx, wanted)?;
        let pitch = seen.then_some(data.pitch_bytes);
        let pitch_bytes = pitch.map_or(row_bytes, u64::from);
        if pitch_bytes < row_bytes {
            return Err(broken(format!("the driver has a pitch of {pitch_bytes} bytes for rows of {row_bytes}")));
        }
        call.private_data = data.resource;
        let creation = Creation {
            requests: &[request],
            call: &call,
            blobs: vec![data.allocation],
            is_standard: true,
            rows: Some(Rows { pitch_bytes, count, seen }),
        };
        let created = self.create_described(cx, device, creation, None, vec![None]);
        // No call asks for it that could be answered later.
        let created = created.map_err(NotCreated::into_refusal)?;
        Ok((created, pitch))
    }

    /// `DxgkDdiGetStandardAllocationDriverData`: first the sizes, then the bytes.
    // spec: memory §2.7
    fn driver_data(&mut self, cx: &Cx<'_>, wanted: StandardAllocation) -> Result<StandardData, Refusal> {
        let mut query = StandardAllocationDriverData {
            wanted,
            allocation_bytes: 0,
            resource_bytes: 0,
            pitch_bytes: 0,
            buffers: None,
        };
        self.driver.call(cx).standard_allocation_driver_data(&mut query).map_err(from_driver)?;
        let sizes = [query.allocation_bytes as usize, query.resource_bytes as usize];
        if sizes.iter().any(|bytes| *bytes > PRIVATE_DATA_MAX) {
            return Err(not_supported("the driver wants more private data than the kernel keeps"));
        }
        let (mut allocation, mut resource) = (vec![0; sizes[0]], vec![0; sizes[1]]);
        (query.wanted, query.pitch_bytes) = (wanted, 0);
        query.buffers = Some((&mut allocation, &mut resource));
        self.driver.call(cx).standard_allocation_driver_data(&mut query).map_err(from_driver)?;
        let pitch_bytes = query.pitch_bytes;
        Ok(StandardData { allocation, resource, pitch_bytes })
    }
}

impl Rows {
    /// Whether what the driver has described is the surface.
    // spec: memory §2.1: the size includes the padding of pitches
    pub(super) fn check(&self, infos: &[AllocationInfo]) -> Result<(), Refusal> {
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
fn rows(wanted: StandardAllocation) -> Result<Rows, Refusal> {
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
