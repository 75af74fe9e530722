//! Descriptors of other processes come in at one place: [`RECEIVER`], which counts them, closes those that its caller did not ask for
//! and marks all close-on-exec.
//! A second place would have to be judged for all of that again, so there is none.

use crate::report::Finding;
use crate::rust_text::Line;

/// The file that may receive messages.
const RECEIVER: &str = "client/kmt_link/src/socket/packet.rs";
/// The call by which descriptors come with a message. In the receiver it stands once.
const RECEIVES: &str = "recvmsg";
/// Other names that take descriptors from another process, or make a descriptor from a number.
const OTHERS: [&str; 5] = ["recvmmsg", "RecvAncillaryBuffer", "RecvAncillaryMessage", "pidfd_getfd", "receive_fd"];

/// Judges one source file.
pub fn check(path: &str, lines: &[Line]) -> Vec<Finding> {
    let with = |word: &'static str| {
        (1..).zip(lines).filter(move |(_, line)| line.has_word(word)).map(move |(number, _)| (number, word))
    };
    let mut found: Vec<(usize, &str)> = with(RECEIVES).collect();
    match path {
        RECEIVER => drop(found.drain(..1.min(found.len()))),
        _ => found.extend(OTHERS.into_iter().flat_map(with)),
    }
    let fault = |(number, word)| {
        Finding::new(path, number, format!("{word}: descriptors of others come in at one place, in {RECEIVER}"))
    };
    found.into_iter().map(fault).collect()
}
