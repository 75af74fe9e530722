//! The plan of the house is true: every crate stands in the table of ARCHITECTURE.md, every row of it is a crate, and
//! links between pages lead somewhere. Its list of modules with unsafe code names each of them and no other.

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

/// The heading over the list of modules with unsafe code: rows of crate, modules in backticks, and their purpose.
const UNSAFE: &str = "## Unsafe code\n";

/// Judges that list against the modules that allow unsafe code, as crate and path below `src`.
pub fn check_unsafe(page: &str, found: &BTreeSet<(&str, &str)>) -> Vec<Finding> {
    let section = page.split_once(UNSAFE).map_or("", |(_, rest)| rest.split("\n## ").next().unwrap_or(""));
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let listed: BTreeSet<(&str, &str)> = rows
        .flat_map(|(name, rest)| {
            let cell = rest.split(" | ").next().unwrap_or("");
            cell.split('`').skip(1).step_by(2).map(move |module| (name, module))
        })
        .collect();
    let missing =
        found.difference(&listed).map(|(name, module)| format!("{name}: {module} has unsafe code and is not listed"));
    let gone =
        listed.difference(found).map(|(name, module)| format!("{name}: {module} is listed and has no unsafe code"));
    missing.chain(gone).map(|text| Finding::new(PAGE, 0, text)).collect()
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
