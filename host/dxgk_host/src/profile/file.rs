//! Adapters as data: a TOML file beside the built-in profiles. `keys` lists what a file may say, `form` has the forms of values, `draft`
//! the adapter while it is put together. Called by the command line, the daemon and `libopenwddm`, each where it takes a profile's name.
//!
//! # Law of this boundary
//! - A text that ends in `.toml` is the path of a file; any other text is the name of a built-in profile.
//! - A name that the file leaves out is as in the first built-in profile, so a file of three lines is an adapter. `name` alone must be there.
//! - Each value is checked alone where it stands. The rules between values are those of the driver and of the kernel's adapter start: this
//!   room starts the adapter once, in virtual time and without a stored byte, and believes the refusal. No rule is written down twice.
//! - A refusal names the line. For a rule between values it is the last line without which no rule is broken.
//! - A file is refused whole, before anything that its reader started.

mod draft;
mod form;
mod keys;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use toml::de::{DeTable, DeValue};

use self::draft::Draft;
use self::keys::KEYS;
use crate::host::lock;
use crate::profile::{PROFILES, Profile};

/// The part of the file that has the choices of the memory manager, which name themselves.
const CHOICES: &str = "choices";

/// Why there is no adapter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// No built-in profile has this name, and it is no path of a file.
    #[error("no profile is called {0:?}; a file that describes an adapter has a name that ends in .toml")]
    Unknown(String),
    /// The file cannot be read.
    #[error("{path}: {problem}")]
    Unread {
        /// Its path.
        path: String,
        /// The operating system's words.
        problem: String,
    },
    /// The file is no adapter.
    #[error("{path}: {wrong}")]
    Wrong {
        /// Its path.
        path: String,
        /// The fault, with its place.
        wrong: FileError,
    },
}

/// A fault in the text of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct FileError {
    /// The line, from 1 on.
    pub line: usize,
    /// The character in the line, from 1 on.
    pub column: usize,
    /// The value and the rule.
    pub problem: String,
}

/// A value of the file with its name and its place.
struct Entry<'a> {
    name: String,
    at: usize,
    value: &'a DeValue<'a>,
}

impl Profile {
    /// The adapter that a text asks for: a built-in profile by name, or what a file describes whose path ends in `.toml`.
    ///
    /// # Errors
    /// See [`ProfileError`].
    pub fn asked(text: &str) -> Result<&'static Profile, ProfileError> {
        if !text.ends_with(".toml") {
            return Profile::named(text).ok_or_else(|| ProfileError::Unknown(text.to_owned()));
        }
        let read = std::fs::read_to_string(Path::new(text));
        let read = read.map_err(|error| ProfileError::Unread { path: text.to_owned(), problem: error.to_string() })?;
        Profile::from_toml(&read).map_err(|wrong| ProfileError::Wrong { path: text.to_owned(), wrong })
    }

    /// The adapter that a file's text describes. The program keeps each different text's adapter until it ends.
    ///
    /// # Errors
    /// See [`FileError`].
    pub fn from_toml(text: &str) -> Result<&'static Profile, FileError> {
        // A program reads few different files, and many parts of it ask for the same one by its path.
        static READ: Mutex<BTreeMap<String, &'static Profile>> = Mutex::new(BTreeMap::new());
        if let Some(known) = lock(&READ).get(text) {
            return Ok(known);
        }
        let draft = read(text)?;
        let (name, description) = (draft.name.clone(), draft.description.clone());
        let profile = draft.finished().map_err(|problem| place(text, 0, problem))?;
        let kept: &'static Profile = Box::leak(Box::new(Profile {
            name: Box::leak(name.into_boxed_str()),
            description: Box::leak(description.into_boxed_str()),
            ..profile
        }));
        lock(&READ).insert(text.to_owned(), kept);
        Ok(kept)
    }

    /// The file that describes this adapter, with each name and its meaning.
    pub fn to_toml(&self) -> String {
        let draft = Draft::of(self);
        let mut text = HEAD.to_owned();
        let mut part = "";
        for key in KEYS {
            let (of, name) = key.name.split_once('.').unwrap_or(("", key.name));
            if of != part {
                text += &format!("\n[{of}]\n");
                part = of;
            }
            text += &format!("# {}\n{name} = {}\n", key.about, (key.write)(&draft));
        }
        text += &format!("\n# The choices of the memory manager, as `openwddm run --set` takes them.\n[{CHOICES}]\n");
        for (name, value) in self.memory_policy.written() {
            text += &format!("{name} = {}\n", form::choice::write(&value));
        }
        text
    }
}

const HEAD: &str = "# An adapter of openwddm. A name that is left out is as in the profile discrete-4k.\n";

/// The text's adapter, checked whole.
fn read(text: &str) -> Result<Draft, FileError> {
    let wrong = |error: &toml::de::Error| {
        let at = error.span().map_or(0, |span| span.start);
        place(text, at, error.message().to_owned())
    };
    let table = DeTable::parse(text).map_err(|error| wrong(&error))?;
    let mut entries = Vec::new();
    flatten(text, "", table.get_ref(), &mut entries)?;
    entries.sort_by_key(|entry| entry.at);
    let mut draft = Draft::of(&PROFILES[0]);
    for entry in &entries {
        apply(&mut draft, entry).map_err(|problem| place(text, entry.at, problem))?;
    }
    if !entries.iter().any(|entry| entry.name == "name") {
        return Err(place(text, 0, "the adapter has no name: give one, as name = \"my-gpu\"".to_owned()));
    }
    match broken(&draft) {
        None => Ok(draft),
        Some(rule) => {
            let entry = &entries[to_blame(&entries, &rule)];
            Err(place(text, entry.at, format!("with this {} a rule is broken: {rule}", entry.name)))
        }
    }
}

/// The entry to name for a broken rule: the last one without which no rule is broken. Where no entry is alone to blame, the one from which
/// on this rule is broken, when the entries are applied one by one.
fn to_blame(entries: &[Entry<'_>], rule: &str) -> usize {
    let without = |index: &usize| entries[..*index].iter().chain(&entries[index + 1..]);
    let repairs = |index: &usize| broken(&applied(without(index))).is_none();
    let kept_before = |index: &usize| broken(&applied(&entries[..*index])).is_none_or(|other| other != rule);
    let places = || (0..entries.len()).rev();
    places().find(repairs).or_else(|| places().find(kept_before)).unwrap_or(0)
}

/// The adapter when only these entries are applied.
fn applied<'a>(entries: impl IntoIterator<Item = &'a Entry<'a>>) -> Draft {
    let mut draft = Draft::of(&PROFILES[0]);
    for entry in entries {
        apply(&mut draft, entry).expect("it was applied before");
    }
    draft
}

/// The rule that the adapter breaks.
fn broken(draft: &Draft) -> Option<String> {
    match draft.finished() {
        Err(rule) => Some(rule),
        Ok(profile) => draft::refused(&profile),
    }
}

fn apply(draft: &mut Draft, entry: &Entry<'_>) -> Result<(), String> {
    if let Some((CHOICES, choice)) = entry.name.split_once('.') {
        let value = form::choice::read(entry.value)?;
        return draft.profile.memory_policy.choose(choice, &value).map_err(|error| error.to_string());
    }
    let key = KEYS.iter().find(|key| key.name == entry.name).ok_or_else(|| unknown(&entry.name))?;
    (key.read)(draft, entry.value).map_err(|problem| format!("{}: {problem}", key.name))
}

fn unknown(name: &str) -> String {
    let part = name.split_once('.').map(|(part, _)| part);
    let beside = |key: &&keys::Key| key.name.split_once('.').map(|(part, _)| part) == part;
    let mut known: Vec<&str> = KEYS.iter().filter(beside).map(|key| key.name).collect();
    if known.is_empty() {
        known = KEYS.iter().map(|key| key.name).collect();
    }
    format!("there is no {name}; there are {}", known.join(", "))
}

/// The values of a table and of the tables in it, each with its whole name.
fn flatten<'a>(text: &str, before: &str, table: &'a DeTable<'a>, into: &mut Vec<Entry<'a>>) -> Result<(), FileError> {
    for (key, value) in table.iter() {
        let (name, at) = (format!("{before}{}", key.get_ref()), key.span().start);
        match value.get_ref() {
            DeValue::Table(inner) => {
                let is_part = name == CHOICES || KEYS.iter().any(|key| key.name.starts_with(&format!("{name}.")));
                if !is_part {
                    return Err(place(text, at, unknown(&name)));
                }
                flatten(text, &format!("{name}."), inner, into)?;
            }
            value => into.push(Entry { name, at, value }),
        }
    }
    Ok(())
}

/// A fault at this byte of the text.
fn place(text: &str, at: usize, problem: String) -> FileError {
    let before = text.get(..at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    FileError { line: before.matches('\n').count() + 1, column: before[line_start..].chars().count() + 1, problem }
}
