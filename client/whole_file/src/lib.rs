//! Files that a program writes for its user: written whole or not at all, and existing files are not lost. Every writer of such a file in this
//! workspace goes through a [`Place`]: the outputs of the command line, and the tables and traces of the C library.
//!
//! | at the path | the output |
//! |---|---|
//! | nothing | a new file, which appears when it is whole |
//! | a regular file | another takes its place at once, with its mode and its owner; until then it is what it was |
//! | a regular file with several names, attributes or an owner that cannot be given to another, or in a folder that takes no file | it is written over, when the whole content is there and has room |
//! | a symbolic link, also to another, also to nothing yet | is followed |
//! | a pipe, a terminal, a character device, a descriptor of this program (`/dev/stdout`, `/dev/fd/3`) | is written into |
//! | a folder, a socket, a block device, a file that may not be written to | is refused before anything is written |

mod place;
mod temporary;

use std::io;
use std::path::Path;

pub use place::{Identity, Place, Unfit};
pub use temporary::abandon;

/// Writes a file that is written again and again: a loss of power may lose the newest content, and leaves an older one whole.
///
/// # Errors
/// A path that the table above refuses, or the failure of the write; then an existing file is unchanged.
pub fn write_again(path: &Path, content: &[u8]) -> io::Result<()> {
    Place::of(path).map_err(|unfit| io::Error::other(unfit.problem))?.write_again(content)
}

#[cfg(test)]
mod tests;
