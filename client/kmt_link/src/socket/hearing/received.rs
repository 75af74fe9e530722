//! The memory that files which come with messages hold: pages of words, parts of mappings, doorbells' pages.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use kmt_calls::DoorbellAddress;
use kmt_calls::wire::encode;
use rustix::io::Errno;
use shared_words::{AddressRange, Memory, ReadOnlyMemory};
use wddm_types::PAGE_BYTES;

use super::arenas::Arenas;
use crate::socket::message::{FileOf, PieceOf, Said};
use crate::socket::packet::PacketError;
use crate::socket::packets::Packets;
use crate::{CpuMapping, DoorbellPage, NoAddresses, Piece};

/// A page of words, and where in what was received it begins.
#[derive(Clone, Debug)]
pub(in crate::socket) enum Page {
    /// One to look at.
    ReadOnly(ReadOnlyMemory, u64),
    /// One to write, too.
    Writable(Arc<Memory>, u64),
    /// The process could not take its file.
    Lost,
}

/// Whether the process lacks what a file takes, a descriptor or addresses: the connection goes on.
pub(super) fn is_scarce(error: &PacketError) -> bool {
    match error {
        PacketError::System(errno) => matches!(*errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM),
        PacketError::Memory(error) => error.is_scarcity(),
        _ => false,
    }
}

/// A page of words in a file that came with its message.
pub(super) fn page_of(
    came: Result<Option<OwnedFd>, PacketError>,
    file_bytes: u64,
    offset: u64,
    writable: bool,
) -> Result<Page, PacketError> {
    let page = came.and_then(|came| {
        let file = came.ok_or(PacketError::Malformed("a page of words without exactly one descriptor, its file"))?;
        Ok(match writable {
            true => Page::Writable(Memory::from_file(file, file_bytes)?, offset),
            false => Page::ReadOnly(ReadOnlyMemory::from_file(file, file_bytes)?, offset),
        })
    });
    match page {
        Err(error) if is_scarce(&error) => Ok(Page::Lost),
        page => page,
    }
}

/// The one file that came with a message.
pub(super) fn only(files: Vec<OwnedFd>) -> Option<OwnedFd> {
    <[OwnedFd; 1]>::try_from(files).ok().map(|[file]| file)
}

/// The parts that a message shows, each of an arena or of one of the files that came with it.
pub(super) fn parts_of(
    arenas: &Arenas,
    files: Vec<OwnedFd>,
    sizes: &[u64],
    pieces: Vec<PieceOf>,
) -> Result<Vec<Piece>, PacketError> {
    if sizes.len() != files.len() {
        return Err(PacketError::Malformed("files without sizes"));
    }
    let received = files.into_iter().zip(sizes).map(|(file, bytes)| Memory::from_file(file, *bytes));
    let memories = received.collect::<Result<Vec<_>, _>>()?;
    let part = |PieceOf { file, offset, bytes }| {
        let known = match file {
            FileOf::Message(place) => memories.get(place as usize),
            FileOf::Arena(number) => arenas.memory(number)?,
        };
        let memory = known.filter(|memory| memory.contains(offset, bytes));
        let memory = memory.ok_or(PacketError::Malformed("a part of no file"))?;
        Ok(Piece { memory: Arc::clone(memory), offset, bytes })
    };
    pieces.into_iter().map(part).collect()
}

/// A doorbell's page, whose rings are said to the kernel where its engine sleeps.
pub(super) fn received_doorbell(
    came: Option<OwnedFd>,
    address: DoorbellAddress,
    rare_pays: bool,
    stream: &Arc<Packets>,
) -> Result<DoorbellPage, PacketError> {
    let file = came.ok_or(PacketError::Malformed("a doorbell without exactly one descriptor, its page"))?;
    let stream = Arc::clone(stream);
    let wake = move |_| {
        // A kernel that has gone has no engine to wake.
        let _ = stream.send(&encode(&Said::Rung(address), Vec::new()), &[]);
    };
    Ok(DoorbellPage::received(Memory::from_file(file, PAGE_BYTES)?, rare_pays, Box::new(wake)))
}

/// A lock's bytes: at addresses of their own where the operating system holds stores while content moves.
pub(super) fn shown(size_bytes: u64, pieces: Vec<Piece>) -> CpuMapping {
    let whole = pieces.iter().all(|piece| (piece.offset | piece.bytes).is_multiple_of(4096));
    if !whole {
        return CpuMapping::new(size_bytes, pieces, None, NoAddresses::RowsBelowPages);
    }
    let parts = pieces.iter().map(|piece| (&*piece.memory, piece.offset, piece.bytes));
    match AddressRange::showing(size_bytes, parts) {
        Ok(range) => CpuMapping::at_addresses(size_bytes, range),
        Err(error) => CpuMapping::new(size_bytes, pieces, None, NoAddresses::System(error.to_string())),
    }
}
