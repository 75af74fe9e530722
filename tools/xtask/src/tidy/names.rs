//! Names that say nothing: a file or module is named by the thing it holds.

use crate::report::Finding;
use crate::rust_text::Line;

/// Forbidden as a whole name: with a noun beside them they may mean something.
const ALONE: [&str; 4] = ["common", "base", "manager", "managers"];
/// Forbidden as any word of a name.
const ANYWHERE: [&str; 5] = ["util", "utils", "helper", "helpers", "misc"];

/// Judges each folder's and the file's name, of source files only.
pub fn check_path(path: &str) -> Vec<Finding> {
    let Some(names) = path.strip_suffix(".rs") else { return Vec::new() };
    let bad = names.split('/').filter(|name| says_nothing(name));
    bad.map(|name| Finding::new(path, 0, format!("the name \"{name}\" says nothing about what is inside"))).collect()
}

/// Judges the modules that a file declares.
pub fn check_modules(path: &str, lines: &[Line]) -> Vec<Finding> {
    let mut faults = Vec::new();
    for (number, line) in (1..).zip(lines) {
        let mut words = line.code.split_whitespace().skip_while(|word| *word != "mod").skip(1);
        let name = words.next().unwrap_or("").trim_end_matches([';', '{', '}']);
        if says_nothing(name) {
            faults.push(Finding::new(
                path,
                number,
                format!("the module name \"{name}\" says nothing about what is inside"),
            ));
        }
    }
    faults
}

fn says_nothing(name: &str) -> bool {
    ALONE.contains(&name) || name.split('_').any(|word| ANYWHERE.contains(&word))
}
