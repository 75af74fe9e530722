//! Dependencies between crates: reads every manifest of the workspace and judges each edge by the law of the storeys.
//!
//! Storeys: contract · kernel, hardware, client · kmd, umd · host, workload · verify · tools. An arrow points to a lower
//! storey or stays within its room; rooms of one storey know nothing of each other. The law holds for dependencies of
//! tests and build scripts too: the author of a test has to know the crates that it imports.
//! Two sentences of the design are added by name: the software GPU's driver never sees the software GPU, and of the
//! upper rooms only the command line depends on verify.

mod law;
mod manifest;

#[cfg(test)]
mod tests;

use crate::report::{Finding, Report};
use crate::tree::House;
use manifest::{Target, Workspace};

/// Checks every edge of the workspace.
pub fn run(house: &House) -> Result<Report, String> {
    let workspace = Workspace::read(|path| house.read(path))?;
    Ok(check(&workspace))
}

fn check(workspace: &Workspace) -> Report {
    let mut report = Report::default();
    let mut edges = 0;
    for member in &workspace.members {
        let path = format!("{}/Cargo.toml", member.folder);
        let mut fault = |text: String| report.faults.push(Finding::new(&path, 0, text));
        if law::storey(&member.folder).is_none() {
            fault(format!("the house has no room for {}", member.folder));
        }
        for dependency in &member.dependencies {
            match &dependency.target {
                Target::Member(folder) => {
                    edges += 1;
                    if let Err(reason) = law::judge(&member.folder, folder) {
                        fault(format!("{} -> {folder} ({}): {reason}", member.folder, dependency.kind));
                    }
                }
                Target::Outside { inherited: false } => {
                    fault(format!(
                        "{} states its own version; take it from the root with workspace = true",
                        dependency.name
                    ));
                }
                Target::Outside { inherited: true } => {}
            }
        }
    }
    report.faults.extend(hidden_sights(workspace));
    report.summary =
        format!("arrows: {} crates, {edges} edges checked, {} broken", workspace.members.len(), report.faults.len());
    report
}

/// A crate that must not depend on another must not reach it through a third one either.
fn hidden_sights(workspace: &Workspace) -> Vec<Finding> {
    let mut faults = Vec::new();
    for (from, never) in law::NEVER_SEES {
        for path in workspace.ways(from, never).into_iter().filter(|way| way.len() > 2) {
            let text = format!("{from} must not see {never}, but does through {}", path.join(" -> "));
            faults.push(Finding::new(&format!("{from}/Cargo.toml"), 0, text));
        }
    }
    faults
}
