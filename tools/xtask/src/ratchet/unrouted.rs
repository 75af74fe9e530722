//! Places on the way of a call that are asserted never to be reached: a new call compiles, and meets the assertion when it is made.

use super::source::Sources;
use super::{Measure, Measured};
use crate::report::Finding;

/// Macros that assert it.
const ASSERTIONS: [&str; 2] = ["unreachable", "panic"];

/// Those in the module that calls come through, and below it.
pub fn unrouted(sources: &Sources<'_>, folder: &str, module: &str) -> Measured {
    let (file, room) = (format!("{folder}/src/{module}.rs"), format!("{folder}/src/{module}/"));
    let mut concerned = sources.rust.iter().filter(|s| s.path == file || s.path.starts_with(&room)).peekable();
    concerned.peek().ok_or(format!("there is no {file}; tell the ratchet where calls come in"))?;
    let mut places = Vec::new();
    for source in concerned {
        for (number, line) in (1..).zip(source.product()) {
            let asserted =
                ASSERTIONS.iter().find(|name| line.has_word(name) && line.code.contains(&format!("{name}!")));
            places.extend(
                asserted.map(|name| Finding::new(source.path, number, format!("{name}! on the way of a call"))),
            );
        }
    }
    Ok(Measure::of(places))
}
