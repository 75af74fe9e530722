//! The files that the ratchets measure, read once: the text of all, and of Rust files the code apart from comments, and the product apart
//! from its tests.

use crate::rust_text::{self, Line};

/// All text files of the house.
pub struct Sources<'a> {
    /// Each with its path below the root.
    pub texts: &'a [(String, String)],
    /// The Rust files among them.
    pub rust: Vec<Source<'a>>,
}

/// A Rust file.
pub struct Source<'a> {
    /// Below the root.
    pub path: &'a str,
    /// Its lines, split into code and comments.
    pub lines: Vec<Line>,
}

impl<'a> Sources<'a> {
    /// Reads these texts.
    pub fn of(texts: &'a [(String, String)]) -> Sources<'a> {
        let rust = texts.iter().filter(|(path, _)| path.ends_with(".rs"));
        let rust = rust.map(|(path, text)| Source { path, lines: rust_text::split(text) }).collect();
        Sources { texts, rust }
    }

    /// The files of one crate's own code.
    pub fn of_crate(&self, folder: &str) -> impl Iterator<Item = &Source<'a>> {
        let start = format!("{folder}/src/");
        self.rust.iter().filter(move |source| source.path.starts_with(&start))
    }

    /// The text of one file.
    ///
    /// # Errors
    /// There is none: a ratchet that measures nothing would stand at its goal.
    pub fn text(&self, path: &str) -> Result<&'a str, String> {
        let found = self.texts.iter().find(|(known, _)| known == path);
        found.map(|(_, text)| text.as_str()).ok_or(format!("there is no {path}; tell the ratchet where it went"))
    }
}

impl Source<'_> {
    /// The lines that are no tests.
    pub fn product(&self) -> &[Line] {
        rust_text::product(self.path, &self.lines)
    }

    /// The product's code in one piece, one line of it to each line of the file.
    pub fn code(&self) -> String {
        self.product().iter().flat_map(|line| [line.code.as_str(), "\n"]).collect()
    }
}

/// Where a word begins that stands alone in the code.
pub fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> {
    let stands_alone = |at: usize| !code[..at].ends_with(is_part) && !code[at + word.len()..].starts_with(is_part);
    code.match_indices(word).map(|(at, _)| at).filter(move |at| stands_alone(*at))
}

/// The identifier at the beginning of the code; empty if there is none.
pub fn identifier(code: &str) -> &str {
    &code[..code.find(|c| !is_part(c)).unwrap_or(code.len())]
}

/// The number of the line, from 1, on which this place of the code is.
pub fn line_of(code: &str, at: usize) -> usize {
    1 + code[..at].matches('\n').count()
}

/// The first bracket at or behind `at` that these pairs leave open no more, or a stop outside all of them.
pub fn end_of(code: &str, at: usize, stops: &[char]) -> Option<usize> {
    let mut depth = 0usize;
    let mut before = ' ';
    for (found, c) in code[at..].char_indices() {
        if depth == 0 && stops.contains(&c) {
            return Some(at + found);
        }
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            '>' if matches!(before, '-' | '=') => {}
            ')' | ']' | '}' | '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        before = c;
    }
    None
}

/// The parts of a list, split at the commas that stand outside all brackets.
pub fn parts(list: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = list;
    while let Some(comma) = end_of(rest, 0, &[',']) {
        parts.push(rest[..comma].trim());
        rest = &rest[comma + 1..];
    }
    parts.push(rest.trim());
    parts.retain(|part| !part.is_empty());
    parts
}

/// Whether a character belongs to a word of code.
pub fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
