//! Ends of transfers and maps: places in lists of system pages, and bus addresses. Used by `paging` only.

use ddi::{Adl, Mdl, PagingStatus, TransferEnd};
use softgpu_spec::bus::{PAGE_BYTES, SYSTEM_BASE};
use wddm_types::PageRun;

use super::pieces::OUTSIDE;
use crate::allocation::Rows;
use crate::segments::Geometry;

const SHORT: PagingStatus = PagingStatus::Fatal("the page list has fewer pages than the operation");

/// An end of a copy, with the place reached.
pub(super) enum End<'a> {
    /// Contiguous: the bus address.
    Bus(u64),
    /// Rows with room between them: the bus address of the first, and bytes of content passed.
    Rows(u64, Rows, u64),
    /// System pages.
    Pages(Cursor<'a>),
}

/// A place in a list of system pages.
pub(super) enum Cursor<'a> {
    /// In runs: bytes into the first of them.
    Runs(&'a [PageRun], u64),
    /// In one run: bytes into it.
    Run(PageRun, u64),
    /// In single pages: a page.
    Numbers(&'a [u64]),
}

impl<'a> End<'a> {
    /// The driver adds TransferOffset to a segment's address, never to an MDL, which is entered at MdlOffset.
    // spec: memory §10.2
    pub fn new(
        geometry: &Geometry,
        end: TransferEnd<'a>,
        rows: Option<Rows>,
        (transfer_offset, mdl_offset): (u64, u64),
        bytes: u64,
    ) -> Result<End<'a>, PagingStatus> {
        match end {
            // spec: memory §2.6: offsets count content, which lies in rows here
            TransferEnd::Segment { segment, address } if Some(segment) == geometry.pitched() => {
                let rows = rows.ok_or(PagingStatus::Fatal("content without rows where pitches are aligned"))?;
                let bus = geometry.bus_of_range(segment, address, rows.room_bytes).ok_or(OUTSIDE)?;
                Ok(End::Rows(bus, rows, transfer_offset))
            }
            TransferEnd::Segment { segment, address } => {
                let address = address.checked_add(transfer_offset).ok_or(OUTSIDE)?;
                geometry.bus_of_range(segment, address, bytes).map(End::Bus).ok_or(OUTSIDE)
            }
            TransferEnd::Mdl(mdl) => Cursor::new(mdl, mdl_offset).map(End::Pages),
        }
    }

    /// Bus address here, and how many bytes go on from it without a gap.
    pub fn here(&self) -> Result<(u64, u64), PagingStatus> {
        match self {
            End::Bus(bus) => Ok((*bus, u64::MAX)),
            End::Rows(bus, rows, passed) => {
                let (row, into) = (passed / rows.row_bytes, passed % rows.row_bytes);
                // Behind the last row nothing is left to be copied.
                let inside = row * rows.pitch_bytes < rows.room_bytes;
                inside.then_some((bus + row * rows.pitch_bytes + into, rows.row_bytes - into)).ok_or(OUTSIDE)
            }
            End::Pages(cursor) => cursor.here().map(|(address, room)| (SYSTEM_BASE + address, room)),
        }
    }

    /// Goes on.
    pub fn advance(&mut self, bytes: u64) -> Result<(), PagingStatus> {
        match self {
            End::Bus(bus) => {
                *bus += bytes;
                Ok(())
            }
            End::Rows(_, _, passed) => {
                *passed = passed.checked_add(bytes).ok_or(OUTSIDE)?;
                Ok(())
            }
            End::Pages(cursor) => cursor.advance(bytes),
        }
    }
}

impl<'a> Cursor<'a> {
    /// At a page of an MDL.
    pub fn new(mdl: Mdl<'a>, first_page: u64) -> Result<Cursor<'a>, PagingStatus> {
        let mut cursor = Cursor::Runs(mdl.runs, 0);
        cursor.advance_pages(first_page)?;
        Ok(cursor)
    }

    /// At the first page of an ADL, in either form.
    // spec: memory §3.4, operation 17
    pub fn device_pages(adl: Adl<'a>) -> Cursor<'a> {
        match adl {
            Adl::Contiguous(run) => Cursor::Run(run, 0),
            Adl::Pages(pages) => Cursor::Numbers(pages),
        }
    }

    /// System address here, and the bytes that go on without a gap.
    pub fn here(&self) -> Result<(u64, u64), PagingStatus> {
        let (first, pages, into) = match self {
            Cursor::Runs(runs, into) => runs.first().map(|run| (run.first, run.count.0, *into)).ok_or(SHORT)?,
            Cursor::Run(run, into) if *into < run.count.bytes() => (run.first, run.count.0, *into),
            Cursor::Run(..) => return Err(SHORT),
            Cursor::Numbers(pages) => {
                let first = *pages.first().ok_or(SHORT)?;
                let together = (first..).zip(*pages).take_while(|(expected, page)| expected == *page).count();
                (first, together as u64, 0)
            }
        };
        Ok((first * PAGE_BYTES + into, pages * PAGE_BYTES - into))
    }

    /// Goes on by pages.
    pub fn advance_pages(&mut self, pages: u64) -> Result<(), PagingStatus> {
        self.advance(pages.checked_mul(PAGE_BYTES).ok_or(SHORT)?)
    }

    /// Goes on; to the very end is allowed, behind it is not.
    pub fn advance(&mut self, bytes: u64) -> Result<(), PagingStatus> {
        match self {
            Cursor::Runs(runs, into) => {
                let mut left = bytes;
                while let Some(run) = runs.first() {
                    let room = run.count.bytes() - *into;
                    if left < room {
                        *into += left;
                        return Ok(());
                    }
                    left -= room;
                    *into = 0;
                    *runs = &runs[1..];
                }
                if left == 0 { Ok(()) } else { Err(SHORT) }
            }
            Cursor::Run(run, into) => {
                *into = into.checked_add(bytes).filter(|into| *into <= run.count.bytes()).ok_or(SHORT)?;
                Ok(())
            }
            Cursor::Numbers(pages) => {
                let count = usize::try_from(bytes / PAGE_BYTES).ok().filter(|count| *count <= pages.len());
                *pages = &pages[count.ok_or(SHORT)?..];
                Ok(())
            }
        }
    }
}
