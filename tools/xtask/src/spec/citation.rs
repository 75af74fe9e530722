//! The grammar of citations: `spec: sync §3.9, §6 B1, memory §5.2` and `seed: N30, N31` in a comment.
//!
//! A sheet's name holds until the next one. Words between citations (`step 5`) are for the reader. Outside of a `spec:`
//! a section is only mentioned.

/// A section or row of a sheet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// `memory` or `sync`.
    pub sheet: String,
    /// `5.2` or `6 B3`.
    pub section: String,
}

/// The sheets that may be cited.
const SHEETS: [&str; 2] = ["memory", "sync"];

/// A comment without its text in backticks: a quoted citation is an example.
pub fn unquoted(comment: &str) -> String {
    comment.split('`').step_by(2).collect()
}

/// Cuts a comment into its prose and the text behind `spec:`.
pub fn split(comment: &str) -> (&str, Option<&str>) {
    match comment
        .match_indices("spec:")
        .find(|(at, _)| !comment[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
    {
        Some((at, mark)) => (&comment[..at], Some(&comment[at + mark.len()..])),
        None => (comment, None),
    }
}

/// The places that the text behind a `spec:` cites. A text that names neither sheet nor section is prose.
pub fn places(text: &str) -> Result<Vec<Place>, String> {
    let first = text.split_whitespace().next().unwrap_or("");
    let found = scan(text);
    if found.iter().any(|(sheet, _)| sheet.is_none()) {
        return Err("the citation names no sheet; write memory or sync before the section".to_string());
    }
    if found.is_empty() && SHEETS.contains(&first) {
        return Err("the citation names no section; write § and its number".to_string());
    }
    Ok(found.into_iter().filter_map(place).collect())
}

/// The places that running text mentions: a section directly behind a sheet's name, and those that follow.
pub fn mentions(prose: &str) -> Vec<Place> {
    scan(prose).into_iter().filter_map(place).collect()
}

/// The ids behind `seed:`, as far as they are separated by commas.
pub fn rows(comment: &str) -> Vec<&str> {
    parts(comment).into_iter().map(|(id, _)| id).collect()
}

/// The ids whose test has two of what its row speaks of: `seed: N112 (two)`.
pub fn rows_of_two(comment: &str) -> Vec<&str> {
    let of_two = |(id, rest): (_, &str)| (rest.trim_start().starts_with("(two)")).then_some(id);
    parts(comment).into_iter().filter_map(of_two).collect()
}

/// The ids, each with the text behind it.
fn parts(comment: &str) -> Vec<(&str, &str)> {
    let Some((before, behind)) = comment.split_once("seed:") else { return Vec::new() };
    let is_mark = before.trim_start_matches(['/', '!']).chars().last().is_none_or(|c| !c.is_alphanumeric());
    let is_id = |id: &str| {
        id.len() > 1 && id.starts_with(|c: char| c.is_ascii_uppercase()) && id[1..].bytes().all(|b| b.is_ascii_digit())
    };
    let ids = behind.split(',').map(|part| {
        let part = part.trim_start();
        let (id, rest) = part.split_at(part.find(char::is_whitespace).unwrap_or(part.len()));
        (id.trim_end_matches('.'), rest)
    });
    ids.take_while(|(id, _)| is_mark && is_id(id)).collect()
}

fn place((sheet, section): (Option<&'static str>, String)) -> Option<Place> {
    Some(Place { sheet: sheet?.to_string(), section })
}

/// Every `§` with a number, and the sheet that was named last before it.
fn scan(text: &str) -> Vec<(Option<&'static str>, String)> {
    let mut found = Vec::new();
    let mut sheet = None;
    let mut pieces = text.split('§');
    sheet = named_last(pieces.next().unwrap_or("")).or(sheet);
    for piece in pieces {
        let number: String = piece.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
        let rest = &piece[number.len()..];
        let number = number.trim_end_matches('.');
        if !number.is_empty() {
            let row = row_behind(rest).map_or(String::new(), |row| format!(" {row}"));
            found.push((sheet, format!("{number}{row}")));
        }
        sheet = named_last(rest).or(sheet);
    }
    found
}

fn named_last(text: &str) -> Option<&'static str> {
    let words = text.rsplit(|c: char| !c.is_alphanumeric() && c != '_');
    words.filter_map(|word| SHEETS.into_iter().find(|sheet| *sheet == word)).next()
}

/// A row's id directly behind a section: ` B3`.
fn row_behind(rest: &str) -> Option<&str> {
    let rest = rest.strip_prefix(' ')?;
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
    let digits = rest[..end].strip_prefix(|c: char| c.is_ascii_uppercase())?;
    (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())).then_some(&rest[..end])
}
