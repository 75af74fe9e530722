//! Transfers that turn rows into tiles or tiles into rows (memory §6.5): the surface is named whole, and the part that is
//! moved is named in linear order, at the end that is linear. Used by `paging` only.

use ddi::{PagingOp, PagingStatus, TransferEnd, TransferFlags};
use softgpu_spec::Command;
use softgpu_spec::tile::Tiling;

use super::pages::End;
use super::pieces::{OUTSIDE, whole_words};
use crate::driver::SoftGpuKmd;
use crate::segments::Geometry;

use PagingStatus::Fatal;

/// The rest of such a transfer.
pub(super) struct TiledCopy<'a> {
    surface_bus: u64,
    linear: End<'a>,
    tiling: Tiling,
    /// Rows become tiles.
    swizzle: bool,
    /// Where in the linear surface the rest begins.
    at: u64,
    left: u64,
    done: u64,
}

impl<'a> TiledCopy<'a> {
    /// The next command.
    pub fn next(&mut self) -> Result<Option<Command<'static>>, PagingStatus> {
        if self.left == 0 {
            return Ok(None);
        }
        let (linear_bus, room) = self.linear.here()?;
        let bytes = self.left.min(room);
        let command = Command::CopyTiled {
            linear_bus,
            surface_bus: self.surface_bus,
            offset: self.at,
            bytes,
            tiling: self.tiling,
            swizzle: self.swizzle,
        };
        self.linear.advance(bytes)?;
        self.at += bytes;
        self.left -= bytes;
        self.done += bytes;
        Ok(Some(command))
    }

    /// Where to resume.
    pub fn done(&self) -> u64 {
        self.done
    }
}

impl SoftGpuKmd {
    /// The transfer that an operation is, if it changes the form of its content; `multipass` bytes of it are done.
    // spec: memory §6.5, memory §3.4
    pub(super) fn tiled_copy<'a>(
        &self,
        geometry: &Geometry,
        operation: &PagingOp<'a>,
        multipass: u64,
    ) -> Result<Option<TiledCopy<'a>>, PagingStatus> {
        let (transfer_offset, size_bytes, source, destination, mdl_offset) = match *operation {
            PagingOp::Transfer { transfer_offset, size_bytes, source, destination, mdl_offset, .. }
            | PagingOp::SpecialLockTransfer { transfer_offset, size_bytes, source, destination, mdl_offset, .. } => {
                (transfer_offset, size_bytes, source, destination, mdl_offset)
            }
            _ => return Ok(None),
        };
        let memory = |end: &TransferEnd<'_>| match *end {
            TransferEnd::Segment { segment, address } if geometry.memory_segments().contains(segment) => {
                Some((segment, address))
            }
            _ => None,
        };
        let (surface, linear, swizzle) = match (memory(&source), memory(&destination)) {
            (None, Some(surface)) => (surface, source, true),
            (Some(surface), None) => (surface, destination, false),
            // Within memory tiles stay tiles.
            _ => return Ok(None),
        };
        let tiling = match *operation {
            PagingOp::SpecialLockTransfer { allocation, .. } => self.shown_in_rows(allocation),
            PagingOp::Transfer { allocation, flags, .. } => self.converted(allocation, swizzle, flags),
            _ => None,
        };
        let Some(tiling) = tiling.filter(|_| size_bytes > 0) else { return Ok(None) };
        whole_words(size_bytes)?;
        let end =
            transfer_offset.checked_add(size_bytes).and_then(|end| end.checked_next_multiple_of(tiling.band_bytes()));
        let surface_bus = geometry.bus_of_range(surface.0, surface.1, end.ok_or(OUTSIDE)?).ok_or(OUTSIDE)?;
        let mut linear = End::new(geometry, linear, None, (transfer_offset, mdl_offset), size_bytes)?;
        let left = size_bytes.checked_sub(multipass).ok_or(Fatal("the kernel changed a MultipassOffset"))?;
        linear.advance(multipass)?;
        let at = transfer_offset + multipass;
        Ok(Some(TiledCopy { surface_bus, linear, tiling, swizzle, at, left, done: multipass }))
    }
}

/// The operation as an ordinary transfer: nothing in it changes its form.
pub(super) fn plain<'a>(operation: PagingOp<'a>) -> PagingOp<'a> {
    match operation {
        PagingOp::SpecialLockTransfer {
            allocation,
            transfer_offset,
            size_bytes,
            source,
            destination,
            flags,
            mdl_offset,
            ..
        } => PagingOp::Transfer {
            allocation: Some(allocation),
            transfer_offset,
            size_bytes,
            source,
            destination,
            flags: flags.difference(TransferFlags::SWIZZLE | TransferFlags::UNSWIZZLE),
            mdl_offset,
        },
        other => other,
    }
}
