//! Sentences of the pages: each names its subject. A pronoun that hides who acts is a fault. Not judged: fenced code, which
//! shows the output of programs, and names in it; sources, whose comments have a law of their own. `tidy` calls it for each file.

use crate::report::Finding;

/// Pronouns for which a page says the kernel, the driver, the client, the waiter, no process …
const PUZZLES: [&str; 3] = ["whoever", "nobody", "somebody"];

/// Judges a page line by line.
pub fn check(path: &str, text: &str) -> Vec<Finding> {
    if !path.ends_with(".md") {
        return Vec::new();
    }
    let mut faults = Vec::new();
    let mut fenced = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let words = line.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        let found = words.map(str::to_lowercase).find(|word| PUZZLES.contains(&word.as_str()));
        if let (false, Some(word)) = (fenced, found) {
            faults.push(Finding::new(path, number, format!("\"{word}\" hides who acts: name the subject")));
        }
    }
    faults
}
