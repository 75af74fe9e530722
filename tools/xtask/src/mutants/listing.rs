//! The breaks that cargo-mutants finds, with their places: each is a stretch of one file and the text that takes its place.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::ledger;

/// A place in a file: line and column from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Place {
    /// From 1.
    pub line: usize,
    /// From 1.
    pub column: usize,
}

/// A stretch of a file; `end` is the place behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Span {
    /// The first place.
    pub start: Place,
    /// Behind the last place.
    pub end: Place,
}

/// One break.
#[derive(Clone, Debug, Deserialize)]
pub struct Break {
    /// `file:line:column: what`.
    name: String,
    /// Path below the root.
    pub file: String,
    /// The stretch that is replaced.
    pub span: Span,
    /// The text in its place.
    pub replacement: String,
    /// `FnValue` for a whole body; an operator, an arm, a guard, a field otherwise.
    genre: String,
    /// The function around it.
    pub function: Option<Function>,
}

/// A function.
#[derive(Clone, Debug, Deserialize)]
pub struct Function {
    /// With its arrow; empty without one.
    pub return_type: String,
    /// From its first word to its closing brace.
    pub span: Span,
}

impl Break {
    /// A break within a function that a person has planted.
    pub fn planted(name: String, file: String, span: Span, replacement: String, function: Function) -> Break {
        Break { name, file, span, replacement, genre: "Planted".to_string(), function: Some(function) }
    }

    /// The text of its file with this break alone.
    pub fn applied(&self, source: &str) -> String {
        let at = |place: Place| -> usize {
            let before: usize = source.split_inclusive('\n').take(place.line - 1).map(str::len).sum();
            before + source[before..].chars().take(place.column - 1).map(char::len_utf8).sum::<usize>()
        };
        let (start, end) = (at(self.span.start), at(self.span.end));
        format!("{}{}{}", &source[..start], self.replacement, &source[end..])
    }

    /// Its name without line and column, as the ledger has it.
    pub fn key(&self) -> String {
        ledger::key(&self.name)
    }

    /// Whether the replacement takes the place of a whole body.
    pub fn is_body(&self) -> bool {
        self.genre == "FnValue"
    }
}

/// The breaks of a crate by file, in the order of cargo-mutants.
pub type Listing = BTreeMap<String, Vec<Break>>;

/// Reads what `cargo mutants --list --json` prints.
pub fn parse(text: &str) -> Result<Listing, String> {
    let breaks: Vec<Break> = serde_json::from_str(text).map_err(|error| format!("cargo mutants --list: {error}"))?;
    let mut listing = Listing::new();
    for one in breaks {
        listing.entry(one.file.clone()).or_default().push(one);
    }
    Ok(listing)
}
