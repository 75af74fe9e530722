//! Where things are: local memory, the aperture table behind it, the aperture; and the way from a segment's address to a
//! bus address. Used by every file that programs the device. `describe` has the answer to the segment query.

pub(crate) mod describe;

use ddi::DriverStatus;
use device_port::DevicePort;
use softgpu_spec::page_table::Shape;
use softgpu_spec::{bus, register};
use wddm_types::{PhysicalAddress, SegmentId, SegmentSet};

use crate::config::{KmdConfig, Layout, TableHome};

/// Most bytes of local memory that bus addresses leave room for.
const LOCAL_BYTES_MAX: u64 = bus::APERTURE_BASE - bus::LOCAL_BASE;
/// Most bytes of aperture.
const APERTURE_BYTES_MAX: u64 = bus::CPU_WINDOW_BASE - bus::APERTURE_BASE;
/// Bytes of an entry of the aperture table.
pub(crate) const ENTRY_BYTES: u64 = 8;

/// A part of the bus that is a segment. Its base address is its bus address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) id: SegmentId,
    pub(crate) base: u64,
    pub(crate) bytes: u64,
}

/// The device's memory, divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Local memory before the aperture table, hidden ranges included.
    pub(crate) local_bytes: u64,
    /// Where the aperture table lies: behind that, to the end.
    pub(crate) table: u64,
    /// Bytes of the aperture, reported or not.
    pub(crate) aperture_bytes: u64,
    /// The memory segments.
    memory: [Option<Range>; 2],
    /// The aperture as segments: one, or its halves.
    apertures: [Option<Range>; 2],
    /// The segment number that means system memory in sets and preferences.
    system: SegmentId,
    /// How the device cuts virtual addresses.
    pub(crate) shape: Shape,
    /// The memory segment that aligns pitches.
    pitched: Option<SegmentId>,
}

impl Geometry {
    /// Asks the device, and hides the aperture table at the end of local memory.
    // spec: memory §1.1
    pub(crate) fn read(port: &dyn DevicePort, config: &KmdConfig) -> Result<Geometry, DriverStatus> {
        let local_bytes = port.read_register(register::LOCAL_BYTES);
        let aperture_bytes = port.read_register(register::APERTURE_BYTES) & !(bus::PAGE_BYTES - 1);
        if local_bytes > LOCAL_BYTES_MAX
            || local_bytes > port.local_memory().bytes()
            || aperture_bytes > APERTURE_BYTES_MAX
        {
            return Err(DriverStatus::NotSupported("the device says that it has more memory than the bus reaches"));
        }
        if aperture_bytes == 0 {
            return Err(DriverStatus::NotSupported("a device without an aperture"));
        }
        let table_bytes = aperture_bytes / bus::PAGE_BYTES * ENTRY_BYTES;
        let table = local_bytes.saturating_sub(table_bytes) / config.segment_page_bytes * config.segment_page_bytes;
        if table == 0 {
            return Err(DriverStatus::NotSupported("local memory is too small to hold the aperture table"));
        }
        let shape = Shape::from_register(port.read_register(register::MMU_LEVELS))
            .ok_or(DriverStatus::NotSupported("the device cuts addresses in no way that its data sheet knows"))?;
        let geometry = divide(config.layout, config.segment_page_bytes, table, aperture_bytes, shape)?;
        let pitched = geometry.memory[1].filter(|_| config.pitch_aligned).map(|range| range.id);
        Ok(Geometry { pitched, ..geometry })
    }

    /// The memory segment in which rows are further apart than in system memory.
    // spec: memory §2.6
    pub(crate) fn pitched(&self) -> Option<SegmentId> {
        self.pitched
    }

    /// The first page of an aperture segment in the device's aperture, and how many it has. `None`: it is no such segment.
    pub(crate) fn aperture(&self, segment: SegmentId) -> Option<(u64, u64)> {
        let range = self.apertures.into_iter().flatten().find(|range| range.id == segment)?;
        Some(((range.base - bus::APERTURE_BASE) / bus::PAGE_BYTES, range.bytes / bus::PAGE_BYTES))
    }

    /// All segments in the order of their numbers: no layout has two of both kinds.
    pub(crate) fn segments(&self) -> impl Iterator<Item = Range> {
        let ([first, second], [aperture, other]) = (self.memory, self.apertures);
        [first, aperture, second, other].into_iter().flatten()
    }

    /// The memory segments.
    pub(crate) fn memory_segments(&self) -> SegmentSet {
        self.memory.into_iter().flatten().fold(SegmentSet::NONE, |set, range| set.with(SegmentSet::only(range.id)))
    }

    /// The segment number that means system memory in sets and preferences: the aperture, or the number behind the last segment.
    // spec: memory §1.6, memory §10.2
    pub(crate) fn system(&self) -> SegmentId {
        self.system
    }

    /// The segments of the page tables of a level, of processes and of the paging process; 0 is system memory.
    // spec: memory §4.3
    pub(crate) fn tables(&self, config: &KmdConfig, level: u32) -> [SegmentId; 2] {
        let homes = config.table_homes();
        let of_level = match level {
            0 => [homes.leaf, homes.paging_leaf],
            root if root == self.shape.root_level() => [homes.root, homes.paging_directories],
            _ => [homes.middle, homes.paging_directories],
        };
        of_level.map(|home| {
            let range = match home {
                TableHome::Local => self.memory[0],
                TableHome::Second => self.memory[1],
                TableHome::System => None,
            };
            range.map_or(SegmentId::SYSTEM, |range| range.id)
        })
    }

    /// The aperture, if it is reported; of two the first.
    pub(crate) fn aperture_segment(&self) -> Option<SegmentId> {
        self.apertures[0].map(|range| range.id)
    }

    /// All apertures that are reported.
    pub(crate) fn aperture_segments(&self) -> SegmentSet {
        self.apertures.into_iter().flatten().fold(SegmentSet::NONE, |set, range| set.with(SegmentSet::only(range.id)))
    }

    /// The first memory segment, if any is reported.
    pub(crate) fn first_memory_segment(&self) -> Option<SegmentId> {
        self.memory.iter().flatten().next().map(|range| range.id)
    }

    /// Pages of the aperture.
    pub(crate) fn aperture_pages(&self) -> u64 {
        self.aperture_bytes / bus::PAGE_BYTES
    }

    /// Bytes of the aperture table.
    pub(crate) fn table_bytes(&self) -> u64 {
        self.aperture_pages() * ENTRY_BYTES
    }

    /// Offset in local memory of the entry of an aperture page.
    pub(crate) fn entry(&self, page: u64) -> u64 {
        self.table + page * ENTRY_BYTES
    }

    /// The bus address of `bytes` bytes at a segment's GPU address (base + offset), or `None` when they are not all in the
    /// segment, so hidden memory is unreachable. A segment's base is its bus address, so the check is all there is to it.
    pub(crate) fn bus_of_range(&self, segment: SegmentId, address: u64, bytes: u64) -> Option<u64> {
        let range = self.segments().find(|range| range.id == segment)?;
        let offset = address.checked_sub(range.base)?;
        (offset.checked_add(bytes)? <= range.bytes).then_some(address)
    }

    /// The bus address of a page, as entries of page tables name it: an offset in a segment, or a system address.
    pub(crate) fn bus_of_page(&self, page: PhysicalAddress) -> Option<u64> {
        if !page.offset.is_multiple_of(bus::PAGE_BYTES) {
            return None;
        }
        if page.segment.is_system() {
            return bus::SYSTEM_BASE.checked_add(page.offset);
        }
        let range = self.segments().find(|range| range.id == page.segment)?;
        self.bus_of_range(range.id, range.base.checked_add(page.offset)?, bus::PAGE_BYTES)
    }

    /// The bus address of a page table.
    pub(crate) fn table_address(&self, table: PhysicalAddress) -> Option<u64> {
        if self.aperture(table.segment).is_some() { None } else { self.bus_of_page(table) }
    }
}

/// Numbers the segments and lays them over local memory, which ends at `end`.
fn divide(layout: Layout, page: u64, end: u64, aperture_bytes: u64, shape: Shape) -> Result<Geometry, DriverStatus> {
    let range = |id, base, bytes| Some(Range { id: SegmentId(id), base, bytes });
    let aperture = |id| [range(id, bus::APERTURE_BASE, aperture_bytes), None];
    let (memory, apertures, system) = match layout {
        Layout::Memory => ([range(1, bus::LOCAL_BASE, end), None], aperture(2), 2),
        Layout::ComputeOnly => ([range(1, bus::LOCAL_BASE, end), None], [None, None], 2),
        Layout::TwoApertures => {
            let half = aperture_bytes / 2 / bus::PAGE_BYTES * bus::PAGE_BYTES;
            if half == 0 {
                return Err(DriverStatus::InvalidParameter("an aperture of one page has no halves"));
            }
            let halves =
                [range(2, bus::APERTURE_BASE, half), range(3, bus::APERTURE_BASE + half, aperture_bytes - half)];
            ([range(1, bus::LOCAL_BASE, end), None], halves, 2)
        }
        Layout::Aperture => ([None, None], aperture(1), 1),
        Layout::TwoMemories { second_bytes, hidden_bytes } => {
            let whole = second_bytes > 0 && second_bytes.is_multiple_of(page) && hidden_bytes.is_multiple_of(page);
            let first = second_bytes.checked_add(hidden_bytes).and_then(|behind| end.checked_sub(behind));
            let Some(first) = first.filter(|&first| whole && first > 0) else {
                return Err(DriverStatus::InvalidParameter("two memory segments are whole pages of local memory"));
            };
            let second = range(3, bus::LOCAL_BASE + first + hidden_bytes, second_bytes);
            ([range(1, bus::LOCAL_BASE, first), second], aperture(2), 2)
        }
    };
    Ok(Geometry {
        local_bytes: end,
        table: end,
        aperture_bytes,
        memory,
        apertures,
        system: SegmentId(system),
        shape,
        pitched: None,
    })
}

/// The number of local memory in the usual layout.
#[cfg(test)]
pub(crate) const LOCAL: SegmentId = SegmentId(1);
/// The number of the aperture in the usual layout.
#[cfg(test)]
pub(crate) const APERTURE: SegmentId = SegmentId(2);

#[cfg(test)]
mod tests;
