//! Memory that a program shares with others (`MAP_SHARED`): it is bytes of a file, which is handed to a kernel as it is, and each process
//! that maps it sees what the GPU stores. Found by the address of the memory, among the descriptors that the program has open. Called for
//! a program that asks for an allocation over its memory; memory that is the program's alone is [`crate::ProgramPages`].
//!
//! # The law of this boundary
//! - The file is one in memory, and takes the seal `F_SEAL_SHRINK` if it does not have it: a file that becomes smaller would end the
//!   program of the kernel. From then on the program cannot make it smaller either.
//! - Nothing is opened but that file.

use std::fs::{OpenOptions, read_dir};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{SealFlags, fcntl_add_seals, fcntl_get_seals, major, minor, stat};
use rustix::io::Errno;

use crate::program_map::{Part, ProgramError, joined, parts};

/// Bytes of a file that a program has mapped at an address.
#[derive(Debug)]
pub struct ProgramFile {
    file: OwnedFd,
    base: u64,
    part: Part,
}

impl ProgramFile {
    /// The file that the program has mapped at these addresses; `None`: the memory is the program's alone.
    ///
    /// # Errors
    /// See [`ProgramError`].
    pub fn at(base: u64, bytes: u64) -> Result<Option<ProgramFile>, ProgramError> {
        let all = joined(parts(base, bytes)?);
        let Some(shared) = all.iter().find(|part| part.shared) else { return Ok(None) };
        let [part] = all[..] else { return Err(ProgramError::Mixed(shared.start)) };
        let path = descriptor(part)?.ok_or(ProgramError::NoDescriptor(base))?;
        let opened = OpenOptions::new().read(true).write(true).open(path);
        let file: OwnedFd = opened.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?.into();
        seal(&file).map_err(|_| ProgramError::NotSealed(base))?;
        Ok(Some(ProgramFile { file, base, part }))
    }

    /// The file.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Where in it the memory begins.
    pub fn offset(&self) -> u64 {
        self.part.of.2
    }

    /// Where these bytes of the program lie from the first that were given; `None`: they are not all among them.
    pub fn offset_of(&self, base: u64, bytes: u64) -> Option<u64> {
        let offset = base.checked_sub(self.base)?;
        (offset.checked_add(bytes)? <= self.part.end - self.part.start).then_some(offset)
    }

    /// Whether the program still has the same bytes of the file there.
    pub fn is_in_place(&self) -> bool {
        let Part { start, end, of, .. } = self.part;
        parts(start, end - start).is_ok_and(|now| matches!(joined(now)[..], [now] if now.shared && now.of == of))
    }
}

/// Where a descriptor of what is mapped can be opened anew.
fn descriptor(part: Part) -> Result<Option<PathBuf>, ProgramError> {
    let open = read_dir("/proc/self/fd").map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let is_it = |path: &PathBuf| stat(path).is_ok_and(|stat| identity(&stat) == (part.of.0, part.of.1));
    Ok(open.filter_map(Result::ok).map(|entry| entry.path()).find(is_it))
}

/// Device and inode as a list of mappings has them.
fn identity(stat: &rustix::fs::Stat) -> (u64, u64) {
    let device = stat.st_dev;
    (u64::from(major(device)) << 32 | u64::from(minor(device)), stat.st_ino)
}

/// The file does not become smaller any more.
fn seal(file: &OwnedFd) -> Result<(), Errno> {
    match fcntl_get_seals(file)?.contains(SealFlags::SHRINK) {
        true => Ok(()),
        false => fcntl_add_seals(file, SealFlags::SHRINK),
    }
}

#[cfg(test)]
mod tests;
