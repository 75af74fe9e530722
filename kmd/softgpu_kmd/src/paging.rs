//! Paging operations as commands of the data sheet (memory §3). The kernel hands over one operation and the rest of a
//! buffer; this file cuts the operation into commands and writes as many as fit.
//!
//! An operation becomes a [`Pieces`]: a sequence of commands that can be resumed at a number. The number is the
//! `MultipassOffset`, which the driver owns (memory §3.2): bytes done of a transfer, pages done of a mapping, 0 for
//! what is one command. So an operation cut by full buffers gives the same commands as one that was not.
//!
//! | operation | commands |
//! |---|---|
//! | Transfer | `CopyPhysical`, one for each piece that is contiguous at both ends |
//! | Fill | `FillPhysical` |
//! | MapApertureSegment | `MapAperture`, one for each run of the MDL |
//! | UnmapApertureSegment | `MapAperture` with step 0 to the dummy page |
//! | UpdatePageTable | `WriteEntryRun` |
//! | FlushTlb | `FlushTlb` |
//! | SignalMonitoredFence | `Signal` |
//!
//! The same commands are carried out by the CPU in `immediate` when there is no buffer.

use ddi::{BuildPagingBuffer, Mdl, PageTableUpdateMode, PagingOp, PagingStatus, Pte, PteFlags, TransferEnd};
use softgpu_spec::bus::{PAGE_BYTES, SYSTEM_BASE};
use softgpu_spec::{Command, page_table};
use wddm_types::{PageRun, PhysicalAddress};

use crate::driver::SoftGpuKmd;
use crate::gpu_va;
use crate::segments::{APERTURE, Geometry};

use PagingStatus::Fatal;

impl SoftGpuKmd {
    // spec: memory §3.1, memory §3.2
    pub(crate) fn build_paging(&mut self, build: &mut BuildPagingBuffer<'_>) -> Result<(), PagingStatus> {
        let geometry = self.geometry.ok_or(Fatal("the device is not started"))?;
        build.written = 0;
        let mut pieces = Pieces::new(&geometry, &build.operation, build.multipass_offset)?;
        let mut words = Vec::new();
        while let Some(command) = pieces.next()? {
            if build.immediate {
                self.execute(&geometry, command)?;
                continue;
            }
            let room = &mut build.buffer[build.written..];
            if room.len() < command.words() {
                return Err(PagingStatus::InsufficientDmaBuffer);
            }
            words.clear();
            command.encode(&mut words);
            room[..words.len()].copy_from_slice(&words);
            build.written += words.len();
            build.multipass_offset = pieces.done();
        }
        Ok(())
    }
}

/// The commands of one operation that are still to come.
enum Pieces<'a> {
    /// A copy from end to end.
    Copy { source: End<'a>, target: End<'a>, left: u64, done: u64 },
    /// Aperture pages from `first` on, to the pages of an MDL.
    Map { pages: Cursor<'a>, first: u64, left: u64, done: u64 },
    /// One command, or none.
    One(Option<Command<'static>>),
}

/// An end of a copy, with the place reached.
enum End<'a> {
    /// Contiguous: the bus address.
    Bus(u64),
    /// System pages.
    Mdl(Cursor<'a>),
}

/// A place in an MDL.
struct Cursor<'a> {
    runs: &'a [PageRun],
    /// Bytes into the first of `runs`.
    into: u64,
}

impl<'a> Pieces<'a> {
    /// The pieces of an operation from `multipass` on.
    fn new(geometry: &Geometry, operation: &PagingOp<'a>, multipass: u64) -> Result<Pieces<'a>, PagingStatus> {
        match *operation {
            PagingOp::Transfer { transfer_offset, size_bytes, source, destination, mdl_offset, .. } => {
                if !size_bytes.is_multiple_of(8) {
                    return Err(Fatal("a transfer is made of 64-bit words"));
                }
                let end = |end| End::new(geometry, end, transfer_offset, mdl_offset, size_bytes);
                // spec: memory §3.5: after a reset the size is 0, there is nothing to copy
                let (mut source, mut target) =
                    if size_bytes == 0 { (End::Bus(0), End::Bus(0)) } else { (end(source)?, end(destination)?) };
                let left = size_bytes.checked_sub(multipass).ok_or(Fatal("the kernel changed a MultipassOffset"))?;
                source.advance(multipass)?;
                target.advance(multipass)?;
                Ok(Pieces::Copy { source, target, left, done: multipass })
            }
            PagingOp::Fill { size_bytes, pattern, segment, address, .. } => {
                if !size_bytes.is_multiple_of(8) {
                    return Err(Fatal("a fill is made of 64-bit words"));
                }
                let target_bus = geometry.bus_of_range(segment, address, size_bytes).ok_or(OUTSIDE)?;
                Ok(Pieces::One((size_bytes > 0).then_some(Command::FillPhysical {
                    target_bus,
                    bytes: size_bytes,
                    pattern,
                })))
            }
            PagingOp::MapApertureSegment { segment, offset_in_pages, number_of_pages, mdl, mdl_offset, .. } => {
                check_aperture(geometry, segment, offset_in_pages, number_of_pages)?;
                let left =
                    number_of_pages.checked_sub(multipass).ok_or(Fatal("the kernel changed a MultipassOffset"))?;
                // spec: memory §3.4: aperture page OffsetInPages + i ← MDL page MdlOffset + i
                let mut pages = Cursor::new(mdl, mdl_offset)?;
                pages.advance(multipass * PAGE_BYTES)?;
                Ok(Pieces::Map { pages, first: offset_in_pages + multipass, left, done: multipass })
            }
            PagingOp::UnmapApertureSegment { segment, offset_in_pages, number_of_pages, dummy_page, .. } => {
                check_aperture(geometry, segment, offset_in_pages, number_of_pages)?;
                // spec: memory §3.4: to the dummy page, access left enabled
                let command = Command::MapAperture {
                    first: offset_in_pages,
                    count: number_of_pages,
                    system_address: dummy_page,
                    step: 0,
                };
                Ok(Pieces::One((number_of_pages > 0).then_some(command)))
            }
            PagingOp::UpdatePageTable { level, table, start_index, count, first, repeat, mode, .. } => {
                if level >= page_table::LEVELS || mode == PageTableUpdateMode::GpuVirtual {
                    return Err(Fatal("a page-table update that the caps do not offer"));
                }
                entry_run(geometry, table, start_index, count, first, repeat).map(Pieces::One)
            }
            PagingOp::FlushTlb { root, start, end, .. } => {
                let root = geometry.table_offset(root).ok_or(OUTSIDE)?;
                Ok(Pieces::One(Some(Command::FlushTlb { root, first_va: start.0, last_va: end.0 })))
            }
            // The device keeps nothing beside the frames themselves: there is nothing to throw away and nothing to note.
            PagingOp::DiscardContent { .. } | PagingOp::NotifyResidency { .. } => Ok(Pieces::One(None)),
            // What the driver did not ask for must not come.
            PagingOp::ReadPhysical { .. }
            | PagingOp::WritePhysical { .. }
            | PagingOp::SpecialLockTransfer { .. }
            | PagingOp::VirtualTransfer { .. }
            | PagingOp::VirtualFill { .. }
            | PagingOp::InitContextResource { .. }
            | PagingOp::UpdateContextAllocation { .. }
            | PagingOp::CopyPageTableEntries { .. }
            | PagingOp::MapApertureSegment2 { .. }
            | PagingOp::NotifyFenceResidency { .. }
            | PagingOp::NotifyAlloc { .. } => Err(Fatal("an operation that the driver did not ask for")),
            PagingOp::SignalMonitoredFence { current, monitored, value } => {
                if monitored.is_null() {
                    return Err(Fatal("the device signals native fences only: a signal needs a MonitoredValue"));
                }
                Ok(Pieces::One(Some(Command::Signal {
                    current_va: current.0,
                    monitored_va: monitored.0,
                    value,
                    log: None,
                })))
            }
        }
    }

    /// The next command.
    fn next(&mut self) -> Result<Option<Command<'static>>, PagingStatus> {
        match self {
            Pieces::One(command) => Ok(command.take()),
            Pieces::Copy { left: 0, .. } | Pieces::Map { left: 0, .. } => Ok(None),
            Pieces::Copy { source, target, left, done } => {
                let (source_bus, source_room) = source.here()?;
                let (target_bus, target_room) = target.here()?;
                let bytes = (*left).min(source_room).min(target_room);
                source.advance(bytes)?;
                target.advance(bytes)?;
                *left -= bytes;
                *done += bytes;
                Ok(Some(Command::CopyPhysical { source_bus, target_bus, bytes }))
            }
            Pieces::Map { pages, first, left, done } => {
                let (system_address, room) = pages.here()?;
                let count = (*left).min(room / PAGE_BYTES);
                let command = Command::MapAperture { first: *first, count, system_address, step: PAGE_BYTES };
                pages.advance(count * PAGE_BYTES)?;
                *first += count;
                *left -= count;
                *done += count;
                Ok(Some(command))
            }
        }
    }

    /// Where to resume.
    fn done(&self) -> u64 {
        match self {
            Pieces::Copy { done, .. } | Pieces::Map { done, .. } => *done,
            Pieces::One(_) => 0,
        }
    }
}

const OUTSIDE: PagingStatus = Fatal("an address outside its segment");
const MDL_SHORT: PagingStatus = Fatal("the MDL has fewer pages than the operation");

impl<'a> End<'a> {
    /// The driver adds TransferOffset to a segment's address, never to an MDL, which is entered at MdlOffset.
    // spec: memory §10.2
    fn new(
        geometry: &Geometry,
        end: TransferEnd<'a>,
        transfer_offset: u64,
        mdl_offset: u64,
        bytes: u64,
    ) -> Result<End<'a>, PagingStatus> {
        match end {
            TransferEnd::Segment { segment, address } => {
                let address = address.checked_add(transfer_offset).ok_or(OUTSIDE)?;
                geometry.bus_of_range(segment, address, bytes).map(End::Bus).ok_or(OUTSIDE)
            }
            TransferEnd::Mdl(mdl) => Cursor::new(mdl, mdl_offset).map(End::Mdl),
        }
    }

    /// Bus address here, and how many bytes go on from it without a gap.
    fn here(&self) -> Result<(u64, u64), PagingStatus> {
        match self {
            End::Bus(bus) => Ok((*bus, u64::MAX)),
            End::Mdl(cursor) => cursor.here().map(|(address, room)| (SYSTEM_BASE + address, room)),
        }
    }

    fn advance(&mut self, bytes: u64) -> Result<(), PagingStatus> {
        match self {
            End::Bus(bus) => {
                *bus += bytes;
                Ok(())
            }
            End::Mdl(cursor) => cursor.advance(bytes),
        }
    }
}

impl<'a> Cursor<'a> {
    fn new(mdl: Mdl<'a>, first_page: u64) -> Result<Cursor<'a>, PagingStatus> {
        let mut cursor = Cursor { runs: mdl.runs, into: 0 };
        cursor.advance(first_page.checked_mul(PAGE_BYTES).ok_or(MDL_SHORT)?)?;
        Ok(cursor)
    }

    /// System address here, and the bytes left in this run.
    fn here(&self) -> Result<(u64, u64), PagingStatus> {
        let run = self.runs.first().ok_or(MDL_SHORT)?;
        Ok((run.first * PAGE_BYTES + self.into, run.count.bytes() - self.into))
    }

    /// Goes on; to the very end is allowed, behind it is not.
    fn advance(&mut self, bytes: u64) -> Result<(), PagingStatus> {
        let mut left = bytes;
        while let Some(run) = self.runs.first() {
            let room = run.count.bytes() - self.into;
            if left < room {
                self.into += left;
                return Ok(());
            }
            left -= room;
            self.into = 0;
            self.runs = &self.runs[1..];
        }
        if left == 0 { Ok(()) } else { Err(MDL_SHORT) }
    }
}

fn check_aperture(
    geometry: &Geometry,
    segment: wddm_types::SegmentId,
    first: u64,
    count: u64,
) -> Result<(), PagingStatus> {
    let inside = segment == APERTURE && first.checked_add(count).is_some_and(|end| end <= geometry.aperture_pages());
    if inside { Ok(()) } else { Err(OUTSIDE) }
}

/// The entries of one update. Only entries that name pages count up; an invalid one has no page to count.
// spec: memory §3.4, memory §4.4
fn entry_run(
    geometry: &Geometry,
    table: PhysicalAddress,
    start: u32,
    count: u32,
    first: Pte,
    repeat: bool,
) -> Result<Option<Command<'static>>, PagingStatus> {
    let table = geometry.table_offset(table).ok_or(OUTSIDE)?;
    if u64::from(start) + u64::from(count) > u64::from(page_table::ENTRIES) {
        return Err(Fatal("a page-table update beyond the table"));
    }
    let entry = gpu_va::encode(geometry, first).map_err(Fatal)?;
    let names_page = first.flags.contains(PteFlags::VALID) && !first.flags.contains(PteFlags::ZERO);
    let step = if repeat || !names_page { 0 } else { PAGE_BYTES };
    Ok((count > 0).then_some(Command::WriteEntryRun { table, first: start, count, entry, step }))
}

#[cfg(test)]
mod tests;
