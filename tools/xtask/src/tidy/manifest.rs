//! The root manifest: beside every dependency from outside stands why it is there.

use crate::report::Finding;

/// Judges the lines of `[workspace.dependencies]`.
pub fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut faults = Vec::new();
    let mut section = "";
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.starts_with('[') {
            section = line;
            if section.starts_with("[workspace.dependencies.") {
                faults.push(Finding::new(path, number, "write the dependency on one line, its reason beside it"));
            }
        } else if section.starts_with("[workspace.dependencies]") && is_outside(line) && reason(line).is_empty() {
            let name = line.split(['=', ' ']).next().unwrap_or(line);
            faults.push(Finding::new(
                path,
                number,
                format!("{name} comes from outside and no reason stands beside it"),
            ));
        }
    }
    faults
}

fn is_outside(line: &str) -> bool {
    let value = line.split_once('=').map_or("", |(_, value)| value);
    !line.starts_with('#') && !value.is_empty() && !value.contains("path =")
}

/// The comment behind the value. A hash inside quotes opens none.
fn reason(line: &str) -> &str {
    let mut quoted = false;
    for (at, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '#' if !quoted => return line[at + 1..].trim(),
            _ => {}
        }
    }
    ""
}
