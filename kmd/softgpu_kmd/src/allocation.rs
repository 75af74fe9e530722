//! From the user-mode driver's private data to a placement (memory §2), and the driver's side of opening, closing and
//! destroying. The bytes are untrusted; everything else about an allocation is VidMm's.

mod standard;

use ddi::{
    AllocationFlags, AllocationFlags2, AllocationInfo, CreateAllocation, CreateAllocationFlags, DestroyAllocation,
    DestroyAllocationFlags, DriverStatus, KmdAllocation, KmdDevice, KmdOpenAllocation, KmdResource, OpenAllocation,
    OpenPrivateData, PRIORITY_NORMAL, SegmentBankPreference, SegmentPreference, UpdateAllocationProperty,
    UpdateAllocationPropertyMask,
};
use softgpu_spec::private_data::{self, AllocationRequest, Details, Kind, RequestError};
use wddm_types::{SegmentId, SegmentSet};

use crate::display;
use crate::driver::SoftGpuKmd;
use crate::segments::Geometry;
use crate::swizzling::Tiles;

/// The driver's record of an allocation; it holds nothing that belongs to a device.
#[derive(Clone, Debug)]
pub(crate) struct Allocation {
    /// The alignment that the driver tells user mode when it first opens the allocation.
    pub(crate) alignment_bytes: u64,
    /// Bytes as asked for.
    pub(crate) size_bytes: u64,
    /// The segments that the driver supports for it.
    pub(crate) supported: SegmentSet,
    /// Nothing of a plain buffer.
    layout: Option<Box<Layout>>,
}

/// How content lies that is more than bytes one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Layout {
    tiles: Option<Tiles>,
    rows: Option<Rows>,
    shown: Option<(u32, u32)>,
}

impl Allocation {
    /// Its content lies in tiles.
    pub(crate) fn tiles(&self) -> Option<Tiles> {
        self.layout.as_ref()?.tiles
    }

    /// How its rows lie where pitches are aligned.
    pub(crate) fn rows(&self) -> Option<Rows> {
        self.layout.as_ref()?.rows
    }

    /// The part that a display shows: texels of a row, and rows.
    pub(crate) fn shown(&self) -> Option<(u32, u32)> {
        self.layout.as_ref()?.shown
    }
}

/// Rows of content, and how far apart they are in a segment that aligns pitches. In system memory there is nothing between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    /// Bytes of a row.
    pub(crate) row_bytes: u64,
    /// From one row to the next.
    pub(crate) pitch_bytes: u64,
    /// Bytes of all, with what is between.
    pub(crate) room_bytes: u64,
}

impl Rows {
    /// The rows that private data describe.
    // spec: memory §2.6
    fn of(details: &Details, size_bytes: u64, page_bytes: u64) -> Result<Rows, DriverStatus> {
        let (row_bytes, room_bytes) = (u64::from(details.row_bytes), details.pitch_aligned_size_bytes);
        let whole = row_bytes > 0 && row_bytes.is_multiple_of(8) && size_bytes.is_multiple_of(row_bytes);
        if !whole || !size_bytes.is_multiple_of(page_bytes) || size_bytes == 0 {
            return Err(DriverStatus::InvalidParameter("private data: content is whole rows, and whole pages"));
        }
        if details.tile_pitch != 0 {
            return Err(DriverStatus::InvalidParameter("private data: tiles, and rows with aligned pitches"));
        }
        let rows = size_bytes / row_bytes;
        let pitch_bytes = room_bytes / rows;
        if !room_bytes.is_multiple_of(rows) || !pitch_bytes.is_multiple_of(8) || pitch_bytes < row_bytes {
            return Err(DriverStatus::InvalidParameter(
                "private data: the aligned size is that of as many, longer rows",
            ));
        }
        Ok(Rows { row_bytes, pitch_bytes, room_bytes })
    }
}

/// An allocation as a device has it open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opened {
    device: KmdDevice,
    /// The allocation that is open.
    pub(crate) allocation: KmdAllocation,
}

impl SoftGpuKmd {
    // spec: memory §2.7
    pub(crate) fn place_allocations(&mut self, create: &mut CreateAllocation<'_, '_>) -> Result<(), DriverStatus> {
        // The call's own blob has no meaning for this device.
        let mut made = Vec::with_capacity(create.allocations.len());
        for new in create.allocations.iter_mut() {
            match self.place_allocation(new.private_data) {
                Ok(info) => {
                    made.push(info.allocation);
                    new.info = info;
                }
                Err(status) => {
                    for made in made {
                        self.allocations.remove(made.0, "allocation");
                    }
                    return Err(status);
                }
            }
        }
        if create.flags.contains(CreateAllocationFlags::RESOURCE) && create.resource == KmdResource::default() {
            create.resource = KmdResource(self.resources.insert(()));
        }
        Ok(())
    }

    // spec: memory §2.1
    fn place_allocation(&mut self, private_data: &[u8]) -> Result<AllocationInfo, DriverStatus> {
        let (request, details) = AllocationRequest::decode_with_details(private_data).map_err(refuse)?;
        let geometry = self.geometry.ok_or(DriverStatus::Unsuccessful("the device is not started"))?;
        let (preferred, supported) = placement(&geometry, request.kind);
        // spec: memory §1.5: 64-KB pages oblige every allocation that supports the segment
        let alignment_bytes =
            if supported.0 & geometry.memory_segments().0 != 0 { self.config.segment_page_bytes } else { 0 };
        let mut flags = AllocationFlags::empty();
        flags.set(AllocationFlags::CPU_VISIBLE, request.cpu_visible);
        flags.set(AllocationFlags::CACHED, request.cached);
        flags.set(AllocationFlags::ACCESSED_PHYSICALLY, request.accessed_physically);
        let info = AllocationInfo {
            alignment_bytes,
            size_bytes: request.size_bytes,
            preferred_segment: preferred,
            read_segments: supported,
            supported_segments: supported,
            flags,
            priority: PRIORITY_NORMAL,
            ..AllocationInfo::default()
        };
        let mut info = detailed(info, details)?;
        let pitch = details.map_or(0, |details| details.tile_pitch);
        let tiles = Tiles::asked(pitch, self.config.driver_model, &info)?;
        let pitched = geometry.pitched().filter(|id| info.supported_segments.contains(*id));
        let rows = match (pitched, details) {
            (Some(_), Some(details)) if info.pitch_aligned_size_bytes > 0 => {
                Some(Rows::of(&details, info.size_bytes, self.config.segment_page_bytes)?)
            }
            _ => None,
        };
        let shown = details.map(|details| display::size_of(&details, info.size_bytes)).transpose()?.flatten();
        // spec: memory §1.6
        if shown.is_some() && self.config.maps_displayed {
            info.flags.remove(AllocationFlags::ACCESSED_PHYSICALLY);
        }
        let layout = Layout { tiles, rows, shown };
        let kept = Allocation {
            alignment_bytes: info.alignment_bytes,
            size_bytes: info.size_bytes,
            supported: info.supported_segments,
            layout: (layout != Layout::default()).then(|| Box::new(layout)),
        };
        info.allocation = KmdAllocation(self.allocations.insert(kept));
        Ok(info)
    }

    // spec: memory §2.7
    pub(crate) fn open_allocations(&mut self, open: &mut OpenAllocation<'_, '_>) -> Result<(), DriverStatus> {
        for opened in open.allocations.iter_mut() {
            let known = self.allocations.get(opened.allocation.0).expect("the kernel opens what it created");
            if let OpenPrivateData::Create(bytes) = &mut opened.private_data {
                private_data::grant_alignment(bytes, known.alignment_bytes);
            }
            opened.open =
                KmdOpenAllocation(self.opened.insert(Opened { device: open.device, allocation: opened.allocation }));
            // An allocation is one surface, which begins at its first byte.
            let pitch = known.rows().map_or(0, |rows| rows.row_bytes);
            (open.subresource_offset, open.pitch) = (0, u32::try_from(pitch).unwrap_or(0));
        }
        Ok(())
    }

    // spec: memory §2.7
    pub(crate) fn close_allocations(&mut self, device: KmdDevice, open: &[KmdOpenAllocation]) {
        for handle in open {
            let opened = self.opened.remove(handle.0, "open allocation");
            assert_eq!(opened.device, device, "a device closes what it opened");
        }
    }

    // spec: memory §2.7
    pub(crate) fn destroy_allocations(&mut self, destroy: &mut DestroyAllocation<'_>) {
        for allocation in destroy.allocations {
            self.allocations.remove(allocation.0, "allocation");
        }
        if destroy.flags.contains(DestroyAllocationFlags::DESTROY_RESOURCE) && destroy.resource.0 != 0 {
            self.resources.remove(destroy.resource.0, "resource");
        }
    }

    // spec: memory §2.8
    pub(crate) fn validate_update(&mut self, update: UpdateAllocationProperty) -> Result<(), DriverStatus> {
        let known = self.allocations.get(update.allocation.0).expect("the kernel asks about what it created");
        let geometry = self.geometry.ok_or(DriverStatus::Unsuccessful("the device is not started"))?;
        let (local, system) = (geometry.memory_segments(), SegmentSet::only(geometry.system()));
        let changes_set = update.mask.contains(UpdateAllocationPropertyMask::SUPPORTED_SEGMENT_SET);
        if changes_set && update.supported_segments.0 & !local.with(system).0 != 0 {
            return Err(DriverStatus::InvalidParameter("a segment that this device does not have"));
        }
        // An aligned pitch needs more bytes, which only the creation can ask for.
        if changes_set
            && (known.rows().is_some() || geometry.pitched().is_some_and(|id| update.supported_segments.contains(id)))
        {
            return Err(DriverStatus::InvalidParameter("a segment that aligns pitches is named at creation or never"));
        }
        // Its alignment was chosen when it was created.
        let page_bytes = self.config.segment_page_bytes;
        if changes_set
            && update.supported_segments.0 & local.0 != 0
            && !known.alignment_bytes.is_multiple_of(page_bytes)
        {
            return Err(DriverStatus::InvalidParameter(
                "made for system memory, its alignment does not suit local memory",
            ));
        }
        if !changes_set && known.supported.is_empty() {
            return Err(DriverStatus::InvalidParameter("an allocation without segments"));
        }
        Ok(())
    }
}

/// Adds the details that the user-mode driver asks for. The driver passes them on unchecked: VidMm enforces the rules.
fn detailed(mut info: AllocationInfo, details: Option<Details>) -> Result<AllocationInfo, DriverStatus> {
    let Some(details) = details else { return Ok(info) };
    info.flags |= AllocationFlags::from_bits_retain(details.flags);
    info.flags2 = AllocationFlags2::from_bits_retain(details.flags2);
    if details.preferred_segment != 0 {
        info.preferred_segment = SegmentPreference::from_bits(details.preferred_segment)
            .ok_or(DriverStatus::InvalidParameter("private data: reserved bits of an order of preference"))?;
    }
    if details.supported_segments != 0 {
        info.supported_segments = SegmentSet(details.supported_segments);
        info.read_segments = info.supported_segments;
    }
    info.hinted_bank = SegmentBankPreference::from_bits(details.hinted_bank);
    info.eviction_segments = SegmentSet(details.eviction_segments);
    if details.priority != 0 {
        info.priority = details.priority;
    }
    info.pitch_aligned_size_bytes = details.pitch_aligned_size_bytes;
    info.alignment_bytes = info.alignment_bytes.max(details.alignment_bytes);
    Ok(info)
}

/// Plain system memory is asked for by naming the aperture (memory §1.6). A device without memory of its own has nothing
/// else to give.
fn placement(geometry: &Geometry, kind: Kind) -> (SegmentPreference, SegmentSet) {
    let of = |ids: &[SegmentId]| {
        (SegmentPreference::of(ids), ids.iter().fold(SegmentSet::NONE, |set, id| set.with(SegmentSet::only(*id))))
    };
    let mut order: Vec<SegmentId> = match kind {
        // spec: memory §2.6: without rows, nothing lies where pitches are aligned
        Kind::Local | Kind::LocalThenSystem => {
            geometry.memory_segments().iter().filter(|id| Some(*id) != geometry.pitched()).collect()
        }
        Kind::System => Vec::new(),
    };
    if order.is_empty() || kind == Kind::LocalThenSystem {
        order.push(geometry.system());
    }
    of(&order)
}

fn refuse(error: RequestError) -> DriverStatus {
    DriverStatus::InvalidParameter(match error {
        // spec: memory §9.2: written by a driver of this device, only not by one that goes with this
        RequestError::Version(_) => return DriverStatus::DriverMismatch("private data of another version"),
        RequestError::Length(_) => "private data of another length",
        RequestError::Magic(_) => "private data of another driver",
        RequestError::Kind(_) => "private data: no such kind",
        RequestError::Flags(_) | RequestError::Reserved => "private data: flags or reserved bytes",
        RequestError::Size(_) => "private data: no size of an allocation",
    })
}

#[cfg(test)]
mod tests;
