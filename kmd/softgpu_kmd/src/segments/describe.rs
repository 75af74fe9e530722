//! The segment query in the form of each generation (memory §1.3): the same segments in three forms. The first call
//! learns the count and nothing else.

use ddi::{
    CpuAccess, CpuHostAperture, DriverModel, DriverStatus, PagingBufferInfo, QuerySegment, QuerySegment3,
    QuerySegment4, SegmentDescriptor, SegmentDescriptor3, SegmentDescriptor4, SegmentFlags,
};
use softgpu_spec::bus;
use wddm_types::SegmentId;

use super::{Geometry, Range};
use crate::driver::SoftGpuKmd;
use crate::packet::translate;

const OTHER_GENERATION: DriverStatus = DriverStatus::NotSupported("the segment query of another generation");
const OTHER_COUNT: DriverStatus =
    DriverStatus::InvalidParameter("the count of the first call is the count of the second");

impl SoftGpuKmd {
    // spec: memory §1.3
    pub(crate) fn describe_segments(&self, query: &mut QuerySegment4<'_>) -> Result<(), DriverStatus> {
        let segments = self.segments_of(DriverModel::Wddm2)?;
        let Some(descriptors) = &mut query.descriptors else {
            // CAST: three at most.
            query.count = segments.len() as u32;
            return Ok(());
        };
        // spec: memory §1.3: elements are written through the array's stride
        if query.count as usize != segments.len() || !descriptors.put_all(&segments) {
            return Err(OTHER_COUNT);
        }
        query.paging_buffer = self.paging_buffer()?;
        Ok(())
    }

    // spec: memory §1.3
    pub(crate) fn describe_segments3(&self, query: &mut QuerySegment3<'_>) -> Result<(), DriverStatus> {
        let segments = self.segments_of(DriverModel::Wddm1)?;
        let Some(descriptors) = &mut query.descriptors else {
            // CAST: three at most.
            query.count = segments.len() as u32;
            return Ok(());
        };
        if query.count as usize != segments.len() || descriptors.len() < segments.len() {
            return Err(OTHER_COUNT);
        }
        for (out, segment) in descriptors.iter_mut().zip(&segments) {
            *out = self.third_form(segment);
        }
        query.paging_buffer = self.paging_buffer()?;
        Ok(())
    }

    // spec: memory §1.3
    pub(crate) fn describe_segments1(&self, query: &mut QuerySegment<'_>) -> Result<(), DriverStatus> {
        let segments = self.segments_of(DriverModel::Wddm1)?;
        let Some(descriptors) = &mut query.descriptors else {
            // CAST: three at most.
            query.count = segments.len() as u32;
            return Ok(());
        };
        if query.count as usize != segments.len() || descriptors.len() < segments.len() {
            return Err(OTHER_COUNT);
        }
        for (out, segment) in descriptors.iter_mut().zip(&segments) {
            let told = self.third_form(segment);
            *out = SegmentDescriptor {
                base_address: told.base_address,
                cpu_translated_address: told.cpu_translated_address,
                size_bytes: told.size_bytes,
                bank_count: told.bank_count,
                bank_ends: told.bank_ends,
                commit_limit_bytes: told.commit_limit_bytes,
                flags: told.flags,
            };
        }
        query.paging_buffer = self.paging_buffer()?;
        Ok(())
    }

    /// The segments, if this is the generation that the driver speaks.
    fn segments_of(&self, model: DriverModel) -> Result<Vec<SegmentDescriptor4>, DriverStatus> {
        let geometry = self.geometry.ok_or(DriverStatus::Unsuccessful("the device is not started"))?;
        if self.config.driver_model != model {
            return Err(OTHER_GENERATION);
        }
        let describe = |range: Range| match geometry.aperture(range.id) {
            Some(_) => aperture_segment(range, self.config.aperture_visible),
            None => self.memory(range),
        };
        Ok(geometry.segments().map(describe).collect())
    }

    // spec: memory §1.11: an aperture, or system memory where there is none
    fn paging_buffer(&self) -> Result<PagingBufferInfo, DriverStatus> {
        let geometry: Geometry = self.geometry.ok_or(DriverStatus::Unsuccessful("the device is not started"))?;
        Ok(PagingBufferInfo {
            segment: geometry.aperture_segment().unwrap_or(SegmentId::SYSTEM),
            size_bytes: self.config.paging_buffer_bytes,
            private_data_bytes: translate::PRIVATE_DATA_BYTES,
        })
    }

    // spec: memory §1.5, memory §1.7
    fn memory(&self, range: Range) -> SegmentDescriptor4 {
        let window = self.config.cpu_window_pages;
        let mut flags = SegmentFlags::APPLICATION_TARGET | SegmentFlags::LOCAL_BUDGET_GROUP;
        flags |= self.config.preserved & power_flags();
        flags.set(SegmentFlags::PITCH_ALIGNMENT, self.geometry.and_then(|known| known.pitched()) == Some(range.id));
        flags.set(SegmentFlags::CPU_VISIBLE, self.config.cpu_visible);
        flags.set(SegmentFlags::SUPPORTS_CPU_HOST_APERTURE, window > 0);
        flags.set(SegmentFlags::USE_64KB_PAGES, self.config.segment_page_bytes == 65536);
        let cpu = match window {
            0 if self.config.cpu_visible => CpuAccess::Translated(cpu_address(range.base)),
            0 => CpuAccess::Translated(0),
            pages => {
                // Each memory segment has a window of its own, never larger than itself, so that they do not overlap.
                let whole = range.bytes / self.config.segment_page_bytes;
                // CAST: no more than `pages`.
                let size_in_pages = u64::from(pages).min(whole) as u32;
                CpuAccess::HostAperture(CpuHostAperture {
                    physical_address: bus::CPU_WINDOW_BASE + range.base,
                    size_in_pages,
                })
            }
        };
        let partly = flags.contains(SegmentFlags::PARTIALLY_PRESERVED_DURING_HIBERNATE);
        SegmentDescriptor4 {
            flags,
            base_address: range.base,
            size_bytes: range.bytes,
            commit_limit_bytes: range.bytes,
            // The first half survives.
            system_memory_end_address: if partly { range.bytes / 2 - 1 } else { 0 },
            cpu,
            ..SegmentDescriptor4::default()
        }
    }

    // spec: memory §1.4, memory §1.8
    fn third_form(&self, segment: &SegmentDescriptor4) -> SegmentDescriptor3 {
        let banks = u64::from(self.config.banks);
        let divided = banks > 0 && !segment.flags.contains(SegmentFlags::APERTURE);
        let mut flags = segment.flags;
        flags.set(SegmentFlags::USE_BANKING, divided);
        let page = self.config.segment_page_bytes;
        let end =
            |bank: u64| (u128::from(segment.size_bytes) * u128::from(bank) / u128::from(banks)) as u64 / page * page;
        SegmentDescriptor3 {
            flags,
            base_address: segment.base_address,
            cpu_translated_address: segment.cpu.translated().unwrap_or(0),
            size_bytes: segment.size_bytes,
            bank_count: if divided { u32::from(self.config.banks) } else { 0 },
            // The last end may be left out.
            bank_ends: if divided { (1..banks).map(end).collect() } else { Vec::new() },
            commit_limit_bytes: segment.commit_limit_bytes,
            system_memory_end_address: segment.system_memory_end_address,
        }
    }
}

/// Where the CPU finds the byte of local memory that engines have at this bus address, while all of it is behind a resized BAR.
// spec: memory §1.7
pub(crate) const fn cpu_address(engine_address: u64) -> u64 {
    bus::CPU_BAR_BASE + (engine_address - bus::LOCAL_BASE)
}

fn power_flags() -> SegmentFlags {
    SegmentFlags::PRESERVED_DURING_STANDBY
        | SegmentFlags::PRESERVED_DURING_HIBERNATE
        | SegmentFlags::PARTIALLY_PRESERVED_DURING_HIBERNATE
}

// spec: memory §1.6, memory §1.7
fn aperture_segment(range: Range, visible: bool) -> SegmentDescriptor4 {
    let mut flags = SegmentFlags::APERTURE
        | SegmentFlags::CACHE_COHERENT
        | SegmentFlags::APPLICATION_TARGET
        | SegmentFlags::NON_LOCAL_BUDGET_GROUP;
    flags.set(SegmentFlags::CPU_VISIBLE, visible);
    let shown = bus::CPU_APERTURE_BASE + (range.base - bus::APERTURE_BASE);
    SegmentDescriptor4 {
        flags,
        cpu: CpuAccess::Translated(if visible { shown } else { 0 }),
        base_address: range.base,
        size_bytes: range.bytes,
        commit_limit_bytes: range.bytes,
        ..SegmentDescriptor4::default()
    }
}
