//! What a reader meets first: the README, and the words of sentences.

use super::source::{Source, Sources, is_part};
use super::{Measure, Measured};
use crate::report::Finding;

/// The first page.
const README: &str = "README.md";
/// Pronouns that hide who acts. Put together from halves, so that this file counts none.
const PRONOUNS: [&str; 3] = [concat!("who", "ever"), concat!("no", "body"), concat!("some", "body")];

/// The README's lines.
pub fn readme_lines(sources: &Sources<'_>) -> Measured {
    let number = sources.text(README)?.lines().count();
    Ok(Measure { number, places: vec![Finding::new(README, number, "its last line")] })
}

/// Characters of the README's longest line.
pub fn readme_longest(sources: &Sources<'_>) -> Measured {
    let lengths = (1..).zip(sources.text(README)?.lines().map(|line| line.chars().count()));
    let (line, number) = lengths.max_by_key(|(_, length)| *length).unwrap_or_default();
    Ok(Measure { number, places: vec![Finding::new(README, line, format!("{number} characters"))] })
}

/// Pronouns that hide who acts, in files whose names end so: in comments and strings; a name that holds one among other words is none.
pub fn pronouns(sources: &Sources<'_>, ending: &str) -> Measured {
    let mut places = Vec::new();
    for (path, text) in sources.texts.iter().filter(|(path, _)| path.ends_with(ending)) {
        for (number, line) in (1..).zip(text.lines()) {
            let spoken = line.split(|c| !is_part(c)).map(str::to_lowercase);
            let hidden = spoken.filter(|word| PRONOUNS.contains(&word.as_str()));
            places.extend(hidden.map(|word| Finding::new(path, number, format!("\"{word}\" hides who acts"))));
        }
    }
    Ok(Measure::of(places))
}

/// Comments of an item that are one word. A name of code is none: it says what the item stands for.
pub fn one_word_docs(sources: &Sources<'_>) -> Measured {
    Ok(Measure::of(sources.rust.iter().flat_map(one_word_docs_of).collect()))
}

fn one_word_docs_of(source: &Source<'_>) -> Vec<Finding> {
    let mut places = Vec::new();
    let mut comment: Vec<&str> = Vec::new();
    let mut end = |line: usize, comment: &mut Vec<&str>| {
        if let [word] = comment[..]
            && word.starts_with(is_part)
        {
            places.push(Finding::new(source.path, line, format!("\"{word}\" is no sentence")));
        }
        comment.clear();
    };
    for (number, line) in (1..).zip(&source.lines) {
        let doc = line.comment.strip_prefix("///").filter(|_| line.code.trim().is_empty());
        match doc {
            Some(text) => comment.extend(text.split_whitespace()),
            None => end(number - 1, &mut comment),
        }
    }
    places
}
