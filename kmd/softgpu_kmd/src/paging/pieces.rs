//! One paging operation as a sequence of commands that can be resumed (memory §3.2, §3.4).

use ddi::{CopyEntries, PageTableUpdateMode, PagingOp, PagingStatus, Pte, PteFlags};
use softgpu_spec::bus::{PAGE_BYTES, aperture_entry};
use softgpu_spec::{Command, page_table};
use wddm_types::PhysicalAddress;

use PagingStatus::Fatal;

use crate::allocation::Rows;
use crate::gpu_va;
use crate::paging::pages::{Cursor, End};
use crate::paging::pairs::Pairs;
use crate::paging::tiled::TiledCopy;
use crate::segments::Geometry;

/// The commands of one operation that are still to come.
pub(super) enum Pieces<'a> {
    /// Rows to tiles or back.
    Tiled(TiledCopy<'a>),
    /// A copy from end to end.
    Copy { source: End<'a>, target: End<'a>, left: u64, done: u64 },
    /// Aperture pages from `first` on, to the pages of an MDL, which accesses snoop or not.
    Map { pages: Cursor<'a>, first: u64, left: u64, done: u64, snoops: bool },
    /// Entries from leaf table to leaf table, each of so many entries.
    Entries { ranges: &'a [CopyEntries], entries: u32, done: u64 },
    /// The head of a context allocation.
    Header { va: u64, allocation: u64, done: u64 },
    /// Words from an address on.
    Store { va: u64, data: &'a [u8], done: u64 },
    /// Entries of two halves.
    Pairs(Pairs),
    /// One command, or none.
    One(Option<Command<'static>>),
}

/// First word of a context allocation: "SGCTXT01". The driver's handle follows, then zeros.
const CONTEXT_MAGIC: u64 = u64::from_le_bytes(*b"SGCTXT01");

/// Words in one `Store`.
const STORE_WORDS_MAX: usize = 64;

impl<'a> Pieces<'a> {
    /// The pieces of an operation from `multipass` on.
    pub(super) fn new(
        geometry: &Geometry,
        rows: Option<Rows>,
        operation: &PagingOp<'a>,
        multipass: u64,
    ) -> Result<Pieces<'a>, PagingStatus> {
        match *operation {
            PagingOp::Transfer { transfer_offset, size_bytes, source, destination, mdl_offset, .. } => {
                whole_words(size_bytes)?;
                let end = |end| End::new(geometry, end, rows, (transfer_offset, mdl_offset), size_bytes);
                // spec: memory §3.5: after a reset the size is 0, there is nothing to copy
                let (mut source, mut target) =
                    if size_bytes == 0 { (End::Bus(0), End::Bus(0)) } else { (end(source)?, end(destination)?) };
                let left = size_bytes.checked_sub(multipass).ok_or(Fatal("the kernel changed a MultipassOffset"))?;
                source.advance(multipass)?;
                target.advance(multipass)?;
                Ok(Pieces::Copy { source, target, left, done: multipass })
            }
            PagingOp::Fill { size_bytes, pattern, segment, address, .. } => {
                whole_words(size_bytes)?;
                let target_bus = geometry.bus_of_range(segment, address, size_bytes).ok_or(OUTSIDE)?;
                Ok(Pieces::One((size_bytes > 0).then_some(Command::FillPhysical {
                    target_bus,
                    bytes: size_bytes,
                    pattern,
                })))
            }
            PagingOp::MapApertureSegment {
                segment,
                offset_in_pages,
                number_of_pages,
                mdl,
                mdl_offset,
                cache_coherent,
                ..
            } => {
                let first = first_in_aperture(geometry, segment, offset_in_pages, number_of_pages)?;
                let left =
                    number_of_pages.checked_sub(multipass).ok_or(Fatal("the kernel changed a MultipassOffset"))?;
                // spec: memory §3.4: aperture page OffsetInPages + i ← MDL page MdlOffset + i
                let mut pages = Cursor::new(mdl, mdl_offset)?;
                pages.advance(multipass * PAGE_BYTES)?;
                Ok(Pieces::Map { pages, first: first + multipass, left, done: multipass, snoops: cache_coherent })
            }
            PagingOp::UnmapApertureSegment { segment, offset_in_pages, number_of_pages, dummy_page, .. } => {
                let first = first_in_aperture(geometry, segment, offset_in_pages, number_of_pages)?;
                // spec: memory §3.4: to the dummy page, access left enabled
                let command =
                    Command::MapAperture { first, count: number_of_pages, system_address: dummy_page, step: 0 };
                Ok(Pieces::One((number_of_pages > 0).then_some(command)))
            }
            PagingOp::UpdatePageTable {
                level,
                table,
                table_va,
                start_index,
                count,
                first,
                first_64kb,
                repeat,
                mode,
                use_64kb_pages,
                ..
            } => {
                if level >= geometry.shape.levels() || use_64kb_pages && level > 0 {
                    return Err(Fatal("a page-table update that the caps do not offer"));
                }
                let virtually = mode == PageTableUpdateMode::GpuVirtual;
                let table_va = virtually.then_some(table_va);
                if geometry.shape.entry_words(level) == 2 {
                    let second = first_64kb.ok_or(Fatal("an entry of two halves without its second one"))?;
                    let halves = [first, second];
                    let pairs = Pairs::new(geometry, (table, table_va), (start_index, count), halves, repeat)?;
                    return Ok(Pieces::Pairs(pairs.resumed(multipass)));
                }
                if first_64kb.is_some() {
                    return Err(Fatal("an entry of two halves, which the caps do not offer"));
                }
                let unit = if use_64kb_pages { page_table::PAGES_64KB } else { 1 };
                let run = entry_run(geometry, level, table, (start_index, count, unit), first, repeat)?;
                let run = table_va.map_or(Ok(run), |va| by_address(run, va))?;
                Ok(Pieces::One((count > 0).then_some(run)))
            }
            PagingOp::FlushTlb { root, start, end, .. } => {
                let root = geometry.table_address(root).ok_or(OUTSIDE)?;
                Ok(Pieces::One(Some(Command::FlushTlb { root, first_va: start.0, last_va: end.0 })))
            }
            PagingOp::MapApertureSegment2 {
                segment,
                offset_in_pages,
                number_of_pages,
                adl,
                adl_offset,
                cache_coherent,
                ..
            } => {
                let first = first_in_aperture(geometry, segment, offset_in_pages, number_of_pages)?;
                let left =
                    number_of_pages.checked_sub(multipass).ok_or(Fatal("the kernel changed a MultipassOffset"))?;
                let mut pages = Cursor::device_pages(adl);
                pages.advance_pages(adl_offset.checked_add(multipass).ok_or(OUTSIDE)?)?;
                Ok(Pieces::Map { pages, first: first + multipass, left, done: multipass, snoops: cache_coherent })
            }
            PagingOp::ReadPhysical { segment, address } => touch(geometry, segment, address, false),
            PagingOp::WritePhysical { segment, address } => touch(geometry, segment, address, true),
            PagingOp::VirtualTransfer { size_bytes, source, destination, .. } => {
                whole_words(size_bytes)?;
                let command = Command::Copy { source_va: source.0, target_va: destination.0, bytes: size_bytes };
                Ok(Pieces::One((size_bytes > 0).then_some(command)))
            }
            PagingOp::VirtualFill { size_bytes, pattern, destination, .. } => {
                whole_words(size_bytes)?;
                let command = Command::Fill { va: destination.0, bytes: size_bytes, pattern };
                Ok(Pieces::One((size_bytes > 0).then_some(command)))
            }
            PagingOp::CopyPageTableEntries { ranges } => {
                Ok(Pieces::Entries { ranges, entries: geometry.shape.entries(0), done: multipass })
            }
            PagingOp::UpdateContextAllocation { va, size_bytes, private_data } => {
                context_words(va, size_bytes, private_data, multipass)
            }
            // The device keeps nothing beside the frames themselves: there is nothing to throw away, to save or to note. The
            // driver has lifted the CMP's seals on fences' words before.
            PagingOp::DiscardContent { .. }
            | PagingOp::NotifyResidency { .. }
            | PagingOp::NotifyFenceResidency { .. }
            | PagingOp::NotifyAlloc { .. } => Ok(Pieces::One(None)),
            PagingOp::InitContextResource { va, .. } if va.is_null() => {
                Err(Fatal("a context allocation without an address in the paging process"))
            }
            PagingOp::InitContextResource { allocation, va, .. } => {
                Ok(Pieces::Header { va: va.0, allocation: allocation.0, done: multipass })
            }
            PagingOp::SpecialLockTransfer { .. } => unreachable!("it is a tiled copy or a plain transfer"),
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

    /// The next command; `words` is where inline data go.
    pub(super) fn next<'w>(&mut self, words: &'w mut Vec<u64>) -> Result<Option<Command<'w>>, PagingStatus> {
        match self {
            Pieces::One(command) => Ok(command.take()),
            Pieces::Tiled(copy) => copy.next(),
            Pieces::Pairs(pairs) => pairs.next(),
            Pieces::Copy { left: 0, .. } | Pieces::Map { left: 0, .. } => Ok(None),
            Pieces::Entries { ranges, entries, done } => {
                let Some(range) = ranges.get(usize::try_from(*done).unwrap_or(usize::MAX)) else { return Ok(None) };
                *done += 1;
                entry_copy(*entries, range).map(Some)
            }
            Pieces::Header { done: 1.., .. } => Ok(None),
            Pieces::Header { va, allocation, done } => {
                *done = 1;
                words.clear();
                words.extend([CONTEXT_MAGIC, *allocation]);
                Ok(Some(Command::Store { va: *va, words }))
            }
            Pieces::Store { va, data, done } => {
                let left = &data[usize::try_from(*done).unwrap_or(usize::MAX).min(data.len())..];
                let (part, _) = left.as_chunks::<8>();
                let part = &part[..part.len().min(STORE_WORDS_MAX)];
                if part.is_empty() {
                    return Ok(None);
                }
                let at = *va + *done;
                *done += part.len() as u64 * 8;
                words.clear();
                words.extend(part.iter().map(|bytes| u64::from_le_bytes(*bytes)));
                Ok(Some(Command::Store { va: at, words }))
            }
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
            Pieces::Map { pages, first, left, done, snoops } => {
                let (system_address, room) = pages.here()?;
                let count = (*left).min(room / PAGE_BYTES);
                // spec: memory §6.7
                let system_address = system_address | if *snoops { aperture_entry::COHERENT } else { 0 };
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
    pub(super) fn done(&self) -> u64 {
        match self {
            Pieces::Tiled(copy) => copy.done(),
            Pieces::Pairs(pairs) => pairs.done(),
            Pieces::Copy { done, .. }
            | Pieces::Map { done, .. }
            | Pieces::Entries { done, .. }
            | Pieces::Header { done, .. }
            | Pieces::Store { done, .. } => *done,
            Pieces::One(_) => 0,
        }
    }
}

pub(super) const OUTSIDE: PagingStatus = Fatal("an address outside its segment");

/// Where pages of an aperture segment begin in the device's aperture.
fn first_in_aperture(
    geometry: &Geometry,
    segment: wddm_types::SegmentId,
    first: u64,
    count: u64,
) -> Result<u64, PagingStatus> {
    let (begins, pages) = geometry.aperture(segment).ok_or(OUTSIDE)?;
    let inside = first.checked_add(count).is_some_and(|end| end <= pages);
    if inside { Ok(begins + first) } else { Err(OUTSIDE) }
}

pub(super) fn whole_words(bytes: u64) -> Result<(), PagingStatus> {
    if bytes.is_multiple_of(8) { Ok(()) } else { Err(Fatal("content is made of 64-bit words")) }
}

/// 1 to 8 bytes at an address: the word that they are in.
fn touch(
    geometry: &Geometry,
    segment: wddm_types::SegmentId,
    address: u64,
    write: bool,
) -> Result<Pieces<'static>, PagingStatus> {
    let bus = geometry.bus_of_range(segment, address / 8 * 8, 8).ok_or(OUTSIDE)?;
    Ok(Pieces::One(Some(Command::TouchPhysical { bus, write })))
}

/// One range of entries: the tables lie in the queue's own space, so this is a copy of words.
fn entry_copy(entries: u32, range: &CopyEntries) -> Result<Command<'static>, PagingStatus> {
    let within = |start: u32| u64::from(start) + u64::from(range.count) <= u64::from(entries);
    if !within(range.source_start) || !within(range.target_start) {
        return Err(Fatal("entries beyond their table"));
    }
    let entry = |table: wddm_types::GpuVa, start: u32| table.0 + u64::from(start) * 8;
    Ok(Command::CopyRun {
        source_va: entry(range.source_table, range.source_start),
        target_va: entry(range.target_table, range.target_start),
        count: range.count,
    })
}

/// Words into a context allocation: the first of the driver's own private data says where, in bytes.
fn context_words(va: wddm_types::GpuVa, size: u64, data: &[u8], multipass: u64) -> Result<Pieces<'_>, PagingStatus> {
    let Some((offset, words)) = data.split_first_chunk::<8>() else {
        return Err(Fatal("an update of a context allocation without an offset"));
    };
    let offset = u64::from_le_bytes(*offset);
    let fits = offset.checked_add(words.len() as u64).is_some_and(|end| end <= size);
    if !fits || !offset.is_multiple_of(8) || !words.len().is_multiple_of(8) {
        return Err(Fatal("an update beyond its context allocation"));
    }
    Ok(Pieces::Store { va: va.0 + offset, data: words, done: multipass })
}

/// The entries of one update: start and count in 4-KB entries, and how many of those one entry of the table stands for.
/// Only entries that name pages count up; an invalid one has no page to count.
// spec: memory §3.4, memory §4.4, memory §4.5
fn entry_run(
    geometry: &Geometry,
    level: u32,
    table: PhysicalAddress,
    (start, count, unit): (u32, u32, u32),
    first: Pte,
    repeat: bool,
) -> Result<Command<'static>, PagingStatus> {
    let table = geometry.table_address(table).ok_or(OUTSIDE)?;
    if u64::from(start) + u64::from(count) > u64::from(geometry.shape.entries(level)) {
        return Err(Fatal("a page-table update beyond the table"));
    }
    let aligned = first.address.offset.is_multiple_of(u64::from(unit) * PAGE_BYTES);
    if !start.is_multiple_of(unit) || !count.is_multiple_of(unit) || !aligned {
        return Err(Fatal("an update of 64-KB entries in parts of them"));
    }
    let (start, count) = (start / unit, count / unit);
    let entry = gpu_va::encode(geometry, first).map_err(Fatal)?;
    let names_page = first.flags.contains(PteFlags::VALID) && !first.flags.contains(PteFlags::ZERO);
    let step = if repeat || !names_page { 0 } else { u64::from(unit) * PAGE_BYTES };
    Ok(Command::WriteEntryRun { table, first: start, count, entry, step })
}

/// The update by the table's address in the paging process.
// spec: memory §4.2
pub(super) fn by_address(run: Command<'static>, table: wddm_types::GpuVa) -> Result<Command<'static>, PagingStatus> {
    match run {
        Command::WriteEntryRun { first, count, entry, step, .. } if !table.is_null() => {
            let va = table.0 + u64::from(first) * page_table::ENTRY_BYTES;
            Ok(Command::StoreRun { va, count, first: entry, step })
        }
        _ => Err(Fatal("a page-table update in mode GPU_VIRTUAL without the table's address")),
    }
}
