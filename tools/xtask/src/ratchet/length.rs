//! Functions that do not fit a screen.

use super::function::functions;
use super::source::Sources;
use super::{Measure, Measured};
use crate::report::Finding;

/// The most lines that fit, from `fn` to the closing bracket.
pub const SCREEN: usize = 70;

/// The product's functions that have more, longest first.
pub fn long_functions(sources: &Sources<'_>) -> Measured {
    let mut long = Vec::new();
    for source in &sources.rust {
        let over = functions(&source.code()).into_iter().filter(|function| function.lines > SCREEN);
        long.extend(over.map(|function| (source.path, function)));
    }
    long.sort_by_key(|(_, function)| std::cmp::Reverse(function.lines));
    let told = long.iter().map(|(path, f)| Finding::new(path, f.line, format!("{} has {} lines", f.name, f.lines)));
    Ok(Measure::of(told.collect()))
}
