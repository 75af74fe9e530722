//! Judges the path of a file, and writes the file without harm to what is there. The crate's page has the table.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, FallocateFlags, Gid, Mode, OFlags, Uid, access, fallocate, fchmod, fchown, flistxattr};
use rustix::io::Errno;

use super::temporary::Temporary;

/// Links that are followed, as many as the operating system follows.
const LINKS_MAX: usize = 40;
/// The mode of a new file, less what the process does not give.
const NEW_MODE: u32 = 0o666;
/// The mode of a temporary file, before it gets the owner and the mode of the file that it replaces.
const OWN_MODE: u32 = 0o600;

/// Why no file can be written there, and the remedy.
#[derive(Debug)]
pub struct Unfit {
    /// What is wrong with the path.
    pub problem: String,
    /// A better path.
    pub remedy: &'static str,
}

/// The identity of an output: the existing file, or the path of a new one.
#[derive(Debug, PartialEq, Eq)]
pub enum Identity {
    /// A file that is there.
    Stands {
        /// Its file system.
        device: u64,
        /// Its number there.
        inode: u64,
    },
    /// A file that is not there yet.
    Will(PathBuf),
}

/// A place, with all links followed.
#[derive(Debug)]
pub enum Place {
    /// This program's own.
    StandardOutput,
    /// This program's own.
    ErrorStream,
    /// Written into: a pipe, a terminal, a device, another descriptor.
    Into(PathBuf, Metadata),
    /// A regular file, or none yet.
    File(PathBuf, Option<Metadata>),
}

impl Place {
    /// The place that a path names.
    ///
    /// # Errors
    /// [`Unfit`]: a path that the crate's table refuses, or in a folder that does not exist.
    pub fn of(path: &Path) -> Result<Place, Unfit> {
        let mut path = path.to_path_buf();
        for _ in 0..LINKS_MAX {
            let (folder, target) = followed(&path)?;
            let stands = match fs::symlink_metadata(&target) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Place::File(target, None)),
                other => other.map_err(|error| unfit(format!("cannot be looked at: {error}"), "name another file"))?,
            };
            if !stands.is_symlink() {
                return judged(target, stands);
            }
            if folder.starts_with("/proc") {
                return descriptor(&folder, target);
            }
            let link = fs::read_link(&target);
            path =
                folder.join(link.map_err(|error| {
                    unfit(format!("the symbolic link cannot be read: {error}"), "name another file")
                })?);
        }
        Err(unfit("too many symbolic links".to_owned(), "name the file itself"))
    }

    /// Whether it can be written, as far as that can be known before.
    ///
    /// # Errors
    /// [`Unfit`]: it cannot.
    pub fn probe(&self) -> Result<(), Unfit> {
        let (target, stands) = match self {
            Place::StandardOutput | Place::ErrorStream => return Ok(()),
            Place::Into(target, _) => return writable(target),
            Place::File(target, stands) => (target, stands),
        };
        if stands.is_some() {
            return writable(target);
        }
        // Only creating a file tells whether it can be created: permissions do not tell of a full or read-only disk.
        let folder = folder_of(target);
        Temporary::within(folder, OWN_MODE).map(drop).map_err(|error| {
            let problem = format!("the folder {} cannot be written to: {error}", folder.display());
            unfit(problem, "choose a folder that you may write to")
        })
    }

    /// Its identity; none for a place that can be several outputs.
    pub fn identity(&self) -> Option<Identity> {
        match self {
            Place::Into(_, stands) if stands.file_type().is_fifo() => Some(identity(stands)),
            Place::StandardOutput | Place::ErrorStream | Place::Into(..) => None,
            Place::File(_, Some(stands)) => Some(identity(stands)),
            Place::File(target, None) => Some(Identity::Will(target.clone())),
        }
    }

    /// Writes it. A file is on its disk when this returns.
    ///
    /// # Errors
    /// The failure of the write; then no partial file is left, and an existing file is unchanged.
    pub fn write(self, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        self.write_to(true, content)
    }

    /// The same of a file that is written again and again: a loss of power may lose the newest content, and leaves an older one whole.
    pub(crate) fn write_again(self, content: &[u8]) -> io::Result<()> {
        self.write_to(false, |sink| sink.write_all(content))
    }

    /// Opens it for lines that are added one by one: a regular file is emptied, anything else is written into as by [`Place::write`].
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn stream(self) -> io::Result<File> {
        match self {
            Place::StandardOutput => io::stdout().as_fd().try_clone_to_owned().map(File::from),
            Place::ErrorStream => io::stderr().as_fd().try_clone_to_owned().map(File::from),
            Place::Into(target, stands) => into(&target, &stands),
            Place::File(target, _) => File::create(target),
        }
    }

    fn write_to(self, durably: bool, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        match self {
            Place::StandardOutput => buffered(io::stdout().lock(), content).map(drop),
            Place::ErrorStream => buffered(io::stderr().lock(), content).map(drop),
            Place::Into(target, stands) => buffered(into(&target, &stands)?, content).map(drop),
            Place::File(target, None) => {
                let (temporary, file) = Temporary::within(folder_of(&target), NEW_MODE)?;
                let file = buffered(file, content)?;
                if durably {
                    file.sync_all()?;
                }
                temporary.take_place(&target)?;
                if durably {
                    sync_folder(&target);
                }
                Ok(())
            }
            Place::File(target, Some(stands)) => replace(&target, &stands, durably, content),
        }
    }
}

/// What is no file of its own, opened: a file behind a descriptor keeps what other descriptors have written, and no terminal becomes this
/// program's controlling one.
fn into(target: &Path, stands: &Metadata) -> io::Result<File> {
    let mut open = OpenOptions::new();
    open.write(true).append(stands.is_file()).custom_flags(OFlags::NOCTTY.bits() as i32); // CAST: a C int
    open.open(target)
}

/// The folder and the file that a path names, the folder's links followed.
fn followed(path: &Path) -> Result<(PathBuf, PathBuf), Unfit> {
    let names_folder = || unfit("this names a folder".to_owned(), "name a file");
    if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return Err(names_folder());
    }
    let name = path.file_name().ok_or_else(names_folder)?;
    let folder = folder_of(path);
    let real = fs::canonicalize(folder).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            let problem = format!("the folder {} does not exist", folder.display());
            unfit(problem, "create it, or name a file in a folder that exists")
        }
        _ => unfit(format!("the folder {}: {error}", folder.display()), "name a file in a folder that you may use"),
    })?;
    let target = real.join(name);
    Ok((real, target))
}

/// Judges a file that is no link.
fn judged(target: PathBuf, stands: Metadata) -> Result<Place, Unfit> {
    let kind = stands.file_type();
    if kind.is_dir() {
        return Err(unfit("this names a folder".to_owned(), "name a file"));
    }
    if kind.is_block_device() {
        let problem = "this is a block device, and writing would destroy what it holds".to_owned();
        return Err(unfit(problem, "name a file"));
    }
    if kind.is_socket() {
        return Err(unfit("this is a socket, which is no place for a file".to_owned(), "name a file"));
    }
    Ok(if kind.is_file() { Place::File(target, Some(stands)) } else { Place::Into(target, stands) })
}

/// A descriptor, of this program or another, by its link in the process file system. Such a link leads to what is open, which need not
/// have a name.
fn descriptor(folder: &Path, target: PathBuf) -> Result<Place, Unfit> {
    let ours = fs::canonicalize("/proc/self").is_ok_and(|ours| folder.starts_with(ours)) && folder.ends_with("fd");
    match target.file_name().and_then(|name| name.to_str()).filter(|_| ours) {
        Some("1") => return Ok(Place::StandardOutput),
        Some("2") => return Ok(Place::ErrorStream),
        _ => {}
    }
    let stands = fs::metadata(&target);
    let stands = stands.map_err(|error| unfit(format!("cannot be looked at: {error}"), "name another file"))?;
    match judged(target, stands)? {
        Place::File(target, Some(stands)) => Ok(Place::Into(target, stands)),
        other => Ok(other),
    }
}

/// Has a new file take the place of a regular one, or writes over it where that would lose more than its bytes.
fn replace(
    target: &Path,
    stands: &Metadata,
    durably: bool,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let beside = if is_its_bytes(target, stands) { Temporary::within(folder_of(target), OWN_MODE).ok() } else { None };
    let Some((temporary, file)) = beside else {
        let mut bytes = Vec::new();
        content(&mut bytes)?;
        return write_over(target, &bytes);
    };
    let mut file = buffered(file, content)?;
    // The owner first: a change of owner takes bits of the mode away.
    let (owner, group) = (Uid::from_raw(stands.uid()), Gid::from_raw(stands.gid()));
    let kept = fchown(&file, Some(owner), Some(group))
        .and_then(|()| fchmod(&file, Mode::from_raw_mode(stands.mode())))
        .map_err(io::Error::from)
        .and_then(|()| if durably { file.sync_all() } else { Ok(()) });
    let mut bytes = Vec::new();
    if kept.is_err() {
        file.rewind()?;
        file.read_to_end(&mut bytes)?;
        return write_over(target, &bytes);
    }
    match temporary.take_place(target) {
        // Something is mounted there, or the folder keeps others' files.
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::BUSY | Errno::PERM | Errno::ACCESS)) => {
            file.rewind()?;
            file.read_to_end(&mut bytes)?;
            write_over(target, &bytes)
        }
        taken => {
            if durably {
                sync_folder(target);
            }
            taken
        }
    }
}

/// Whether a file is nothing but its bytes, its mode and its owner: no other name, no attributes but those that every file gets.
fn is_its_bytes(target: &Path, stands: &Metadata) -> bool {
    let mut names = [0; 4096];
    let listed = File::open(target).map(|file| flistxattr(&file, &mut names[..]));
    let names = match listed {
        Ok(Ok(bytes)) => &names[..bytes],
        // A file system without them.
        Ok(Err(Errno::NOTSUP)) => &[],
        // It cannot be read, or has too many.
        _ => return false,
    };
    let own = |name: &[u8]| !name.is_empty() && !name.starts_with(b"security.");
    stands.nlink() == 1 && !names.split(|byte| *byte == 0).any(own)
}

/// Writes over a file. It has room for all before its first byte changes, where the file system can promise that.
fn write_over(target: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(target)?;
    let length = bytes.len() as u64; // CAST: bytes in memory
    if length > 0 {
        match fallocate(&file, FallocateFlags::KEEP_SIZE, 0, length) {
            Ok(()) | Err(Errno::NOTSUP | Errno::NOSYS | Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
    }
    file.write_all(bytes)?;
    file.set_len(length)?;
    file.sync_all()
}

fn buffered<W: Write>(sink: W, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<W> {
    let mut sink = BufWriter::new(sink);
    // A failed write is not tried again when the buffer is dropped.
    match content(&mut sink).and_then(|()| sink.flush()) {
        Ok(()) => sink.into_inner().map_err(io::IntoInnerError::into_error),
        Err(error) => {
            drop(sink.into_parts());
            Err(error)
        }
    }
}

/// The new name survives a loss of power, too, where the file system has folders that can be synchronised.
fn sync_folder(target: &Path) {
    // The file is whole, whatever comes of this.
    let _ = File::open(folder_of(target)).and_then(|folder| folder.sync_all());
}

fn writable(target: &Path) -> Result<(), Unfit> {
    access(target, Access::WRITE_OK)
        .map_err(|error| unfit(format!("may not be written to: {error}"), "name another file, or change its mode"))
}

fn identity(stands: &Metadata) -> Identity {
    Identity::Stands { device: stands.dev(), inode: stands.ino() }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn unfit(problem: String, remedy: &'static str) -> Unfit {
    Unfit { problem, remedy }
}
