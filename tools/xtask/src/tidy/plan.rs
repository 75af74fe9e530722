//! The plan of the house is true: every crate stands in the table of ARCHITECTURE.md, every row of it is a crate, and
//! links between pages lead somewhere.

use std::collections::BTreeSet;

use crate::report::Finding;

/// The page with the table: rows that begin with a crate's folder in backticks.
pub const PAGE: &str = "ARCHITECTURE.md";

/// The members that a root manifest lists, as `room/crate`.
pub fn members(root: &str) -> BTreeSet<&str> {
    let list = root.split_once("members").and_then(|(_, rest)| rest.split_once(']')).map_or("", |(list, _)| list);
    list.split('"').skip(1).step_by(2).collect()
}

/// Judges the table against the members.
pub fn check(page: &str, members: &BTreeSet<&str>) -> Vec<Finding> {
    let mut faults = Vec::new();
    let mut listed = BTreeSet::new();
    for (number, line) in (1..).zip(page.lines()) {
        let Some((name, _)) = line.strip_prefix("| `").and_then(|rest| rest.split_once('`')) else { continue };
        if !listed.insert(name) {
            faults.push(Finding::new(PAGE, number, format!("{name} stands in the table twice")));
        } else if !members.contains(name) {
            faults.push(Finding::new(PAGE, number, format!("{name} is no crate of the workspace")));
        }
    }
    let missing = members.difference(&listed);
    faults.extend(missing.map(|name| Finding::new(PAGE, 0, format!("{name} is missing in the table of crates"))));
    faults
}

/// Judges the relative links of a page.
pub fn check_links(path: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut faults = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for target in line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target) {
            let file = target.split('#').next().unwrap_or("");
            let elsewhere = file.is_empty() || file.contains("://") || file.starts_with("mailto:");
            if !elsewhere && !exists(&format!("{folder}/{file}")) {
                faults.push(Finding::new(path, number, format!("the link to {target} leads nowhere")));
            }
        }
    }
    faults
}
