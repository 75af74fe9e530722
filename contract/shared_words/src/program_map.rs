//! The program's mappings, as the operating system lists them, and the reasons why its memory cannot be given to a kernel. The two ways
//! in which memory is given read it: pages that others take the place of ([`crate::ProgramPages`]), and a file that is handed over
//! ([`crate::ProgramFile`]).

use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::mm::MprotectFlags;

/// Why memory of a program was not given; it is what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramError {
    /// No memory is there.
    NotMapped(u64),
    /// From this address on it is shared, and the rest of the range is not of the same file.
    Mixed(u64),
    /// It is shared by a file of which the program has no descriptor.
    NoDescriptor(u64),
    /// It is shared by a file that is none in memory, or can become smaller.
    NotSealed(u64),
    /// The operating system holds no stores, and so many other threads of the program run, which could store while the pages change.
    NoHold {
        /// How many.
        others: usize,
        /// What the operating system says instead of holding stores.
        why: Errno,
    },
    /// The operating system refuses.
    System(Errno),
}

impl std::fmt::Display for ProgramError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let advice = "memory of memfd_create(MFD_ALLOW_SEALING), or a section (OpenWddmCreateSection), is memory that both reach";
        match self {
            ProgramError::NotMapped(address) => write!(f, "the program has no memory at {address:#x}"),
            ProgramError::Mixed(address) => write!(
                f,
                "the memory at {address:#x} is shared (MAP_SHARED), and the range is not consecutive bytes of one file: ask for each file by itself"
            ),
            ProgramError::NoDescriptor(address) => write!(
                f,
                "the memory at {address:#x} is shared (MAP_SHARED), and the program has no descriptor of its file to hand over: MAP_ANONYMOUS has none, and that of a memfd stays open until the allocation is created; {advice}"
            ),
            ProgramError::NotSealed(address) => write!(
                f,
                "the memory at {address:#x} is shared (MAP_SHARED) by a file that cannot take the seal F_SEAL_SHRINK: it could become smaller under the GPU; {advice}"
            ),
            ProgramError::NoHold { others, why } => write!(
                f,
                "stores into memory of the program cannot be held while its pages change: userfaultfd fails ({why}; a seccomp filter of the container, or an emulator, forbids it), and the program has {others} threads beside the caller: allow userfaultfd, make this call while the program has one thread, or give memory of memfd_create(MFD_ALLOW_SEALING) that is mapped MAP_SHARED"
            ),
            ProgramError::System(errno) => {
                write!(f, "the operating system does not let memory of the program be given: {errno}")
            }
        }
    }
}

impl std::error::Error for ProgramError {}

impl From<Errno> for ProgramError {
    fn from(errno: Errno) -> ProgramError {
        ProgramError::System(errno)
    }
}

/// Most mappings that the operating system lets a process have. Read once; where it does not say, as in a process that may read no files any
/// more, Linux's own default.
pub fn mappings_max() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| {
        let said = std::fs::read_to_string("/proc/sys/vm/max_map_count").ok();
        said.and_then(|said| said.trim().parse().ok()).unwrap_or(65_530)
    })
}

/// A mapping of this process, cut to the pages that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub start: u64,
    pub end: u64,
    pub protection: u32,
    pub shared: bool,
    /// Device, inode and offset of what is mapped.
    pub of: (u64, u64, u64),
}

/// The mappings at these addresses, without a hole.
pub(crate) fn parts(base: u64, bytes: u64) -> Result<Vec<Part>, ProgramError> {
    let found = parts_there(base, bytes)?;
    let mut next = base;
    for part in &found {
        if part.start != next {
            return Err(ProgramError::NotMapped(next));
        }
        next = part.end;
    }
    if next == base + bytes { Ok(found) } else { Err(ProgramError::NotMapped(next)) }
}

/// The mappings at these addresses; holes are left out.
pub(crate) fn parts_there(base: u64, bytes: u64) -> Result<Vec<Part>, Errno> {
    let end = base.checked_add(bytes).ok_or(Errno::INVAL)?;
    let maps = std::fs::read("/proc/self/maps").map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let lines = maps.split(|byte| *byte == b'\n').filter_map(|line| part(&String::from_utf8_lossy(line)));
    let within = lines.filter(|part| part.start < end && base < part.end);
    Ok(within.map(|part| cut(part, base, end)).collect())
}

/// Neighbours that show consecutive bytes of one file are one part: a program may protect them otherwise at any time.
pub(crate) fn joined(parts: Vec<Part>) -> Vec<Part> {
    let mut joined: Vec<Part> = Vec::with_capacity(parts.len());
    for part in parts {
        match joined.last_mut() {
            Some(last) if last.end == part.start && last.shared == part.shared && last.of_end() == part.of => {
                last.end = part.end;
            }
            _ => joined.push(part),
        }
    }
    joined
}

impl Part {
    /// The file position that a mapping behind it would have if it went on.
    fn of_end(&self) -> (u64, u64, u64) {
        (self.of.0, self.of.1, self.of.2 + (self.end - self.start))
    }
}

fn cut(part: Part, base: u64, end: u64) -> Part {
    let start = part.start.max(base);
    let offset = part.of.2 + (start - part.start);
    Part { start, end: part.end.min(end), of: (part.of.0, part.of.1, offset), ..part }
}

/// A line of `/proc/self/maps`: `start-end rwxs offset major:minor inode path`.
fn part(line: &str) -> Option<Part> {
    let mut words = line.split_ascii_whitespace();
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = words.next()?.split_once('-')?;
    let rights = words.next()?.as_bytes();
    let offset = hex(words.next()?)?;
    let (major, minor) = words.next()?.split_once(':')?;
    let inode = words.next()?.parse().ok()?;
    let bit = |at: usize, letter: u8, bit: u32| if rights.get(at) == Some(&letter) { bit } else { 0 };
    Some(Part {
        start: hex(start)?,
        end: hex(end)?,
        protection: bit(0, b'r', READ) | bit(1, b'w', WRITE) | bit(2, b'x', EXECUTE),
        shared: rights.get(3) == Some(&b's'),
        of: (hex(major)? << 32 | hex(minor)?, inode, offset),
    })
}

pub(crate) const READ: u32 = MprotectFlags::READ.bits();
pub(crate) const WRITE: u32 = MprotectFlags::WRITE.bits();
const EXECUTE: u32 = MprotectFlags::EXEC.bits();

#[cfg(test)]
mod tests;
