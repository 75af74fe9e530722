//! Where things are: local memory, the aperture table behind it, the aperture; the segment query (memory §1); and
//! the way from a segment's address to a bus address. Used by every file that programs the device.

use ddi::{CpuAccess, DriverStatus, PagingBufferInfo, QuerySegment4, SegmentDescriptor4, SegmentFlags};
use device_port::DevicePort;
use softgpu_spec::{bus, register};
use wddm_types::{PhysicalAddress, SegmentId};

use crate::config::KmdConfig;
use crate::driver::SoftGpuKmd;

/// Local memory.
pub(crate) const LOCAL: SegmentId = SegmentId(1);
/// The aperture.
pub(crate) const APERTURE: SegmentId = SegmentId(2);

/// Most bytes of local memory that bus addresses leave room for.
const LOCAL_BYTES_MAX: u64 = bus::APERTURE_BASE - bus::LOCAL_BASE;
/// Most bytes of aperture.
const APERTURE_BYTES_MAX: u64 = bus::SYSTEM_BASE - bus::APERTURE_BASE;
/// Bytes of an entry of the aperture table.
const ENTRY_BYTES: u64 = 8;

/// The device's memory, divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Bytes of local memory that VidMm gets: from 0.
    pub(crate) segment_bytes: u64,
    /// Where the aperture table lies: behind that, to the end.
    pub(crate) table: u64,
    /// Bytes of the aperture.
    pub(crate) aperture_bytes: u64,
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
        Ok(Geometry { segment_bytes: table, table, aperture_bytes })
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
    /// segment. Both segments' bases are their bus addresses, so the check is all there is to it.
    pub(crate) fn bus_of_range(&self, segment: SegmentId, address: u64, bytes: u64) -> Option<u64> {
        let (base, size) = match segment {
            LOCAL => (bus::LOCAL_BASE, self.segment_bytes),
            APERTURE => (bus::APERTURE_BASE, self.aperture_bytes),
            _ => return None,
        };
        let offset = address.checked_sub(base)?;
        (offset.checked_add(bytes)? <= size).then_some(address)
    }

    /// The bus address of a page, as entries of page tables name it: an offset in a segment, or a system address.
    pub(crate) fn bus_of_page(&self, page: PhysicalAddress) -> Option<u64> {
        if !page.offset.is_multiple_of(bus::PAGE_BYTES) {
            return None;
        }
        match page.segment {
            SegmentId::SYSTEM => bus::SYSTEM_BASE.checked_add(page.offset),
            LOCAL => self.bus_of_range(LOCAL, bus::LOCAL_BASE.checked_add(page.offset)?, bus::PAGE_BYTES),
            APERTURE => self.bus_of_range(APERTURE, bus::APERTURE_BASE.checked_add(page.offset)?, bus::PAGE_BYTES),
            _ => None,
        }
    }

    /// The offset in local memory of a page table.
    pub(crate) fn table_offset(&self, table: PhysicalAddress) -> Option<u64> {
        if table.segment != LOCAL { None } else { self.bus_of_page(table).map(|bus| bus - bus::LOCAL_BASE) }
    }
}

impl SoftGpuKmd {
    /// The two-call query: the first call learns the count and nothing else.
    // spec: memory §1.3
    pub(crate) fn describe_segments(&self, query: &mut QuerySegment4<'_>) -> Result<(), DriverStatus> {
        let geometry = self.geometry.ok_or(DriverStatus::Unsuccessful("the device is not started"))?;
        let segments = [self.local_segment(&geometry), aperture_segment(&geometry)];
        let Some(descriptors) = &mut query.descriptors else {
            // CAST: two.
            query.count = segments.len() as u32;
            return Ok(());
        };
        // spec: memory §1.3: elements are written through the array's stride
        if query.count as usize != segments.len() || !descriptors.put_all(&segments) {
            return Err(DriverStatus::InvalidParameter("the count of the first call is the count of the second"));
        }
        // spec: memory §1.11: an aperture
        query.paging_buffer =
            PagingBufferInfo { segment: APERTURE, size_bytes: self.config.paging_buffer_bytes, private_data_bytes: 0 };
        Ok(())
    }

    // spec: memory §1.5, memory §1.7
    fn local_segment(&self, geometry: &Geometry) -> SegmentDescriptor4 {
        let mut flags = SegmentFlags::APPLICATION_TARGET | SegmentFlags::LOCAL_BUDGET_GROUP;
        flags.set(SegmentFlags::CPU_VISIBLE, self.config.cpu_visible);
        flags.set(SegmentFlags::USE_64KB_PAGES, self.config.segment_page_bytes == 65536);
        SegmentDescriptor4 {
            flags,
            base_address: bus::LOCAL_BASE,
            size_bytes: geometry.segment_bytes,
            commit_limit_bytes: geometry.segment_bytes,
            cpu: CpuAccess::Translated(if self.config.cpu_visible { bus::LOCAL_BASE } else { 0 }),
            ..SegmentDescriptor4::default()
        }
    }
}

// spec: memory §1.6
fn aperture_segment(geometry: &Geometry) -> SegmentDescriptor4 {
    SegmentDescriptor4 {
        flags: SegmentFlags::APERTURE
            | SegmentFlags::CACHE_COHERENT
            | SegmentFlags::APPLICATION_TARGET
            | SegmentFlags::NON_LOCAL_BUDGET_GROUP,
        base_address: bus::APERTURE_BASE,
        size_bytes: geometry.aperture_bytes,
        commit_limit_bytes: geometry.aperture_bytes,
        ..SegmentDescriptor4::default()
    }
}

#[cfg(test)]
mod tests;
