//! Cycles of imports: modules of a crate each of which needs, in the end, every other one. Nothing in a cycle can be read, tested or
//! replaced without the rest of it.
//!
//! A module here is one that `lib.rs` names, with all files below it. It needs another one where its product's code names that one by a
//! path (`crate::queue`, `super::queue` from its own file, a name that `lib.rs` re-exports from there). A method that is called on a value
//! imports nothing and is not seen.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Source, Sources, end_of, identifier, parts, words};
use super::{Measure, Measured};
use crate::report::Finding;

/// What each module needs.
type Needs<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// The largest cycle of a crate.
pub fn largest(sources: &Sources<'_>, folder: &str) -> Measured {
    let root = format!("{folder}/src/lib.rs");
    let lib = sources.of_crate(folder).find(|source| source.path == root);
    let lib = lib.ok_or(format!("there is no {root}; tell the ratchet where the crate went"))?.code();
    let names = Names::of(&lib);
    let files: Vec<(&str, String)> =
        sources.of_crate(folder).map(|source| (below_src(source), source.code())).collect();
    let mut needs = Needs::new();
    for (file, code) in &files {
        if let Some(module) = names.modules.get(file.split(['/', '.']).next().unwrap_or(file)) {
            needs
                .entry(module)
                .or_default()
                .extend(imports(code, depth(file)).filter_map(|name| names.module_of(name)));
        }
    }
    let cycle = largest_cycle(&needs);
    let told = cycle.iter().map(|module| {
        let others = needs[module].intersection(&cycle).filter(|other| *other != module).copied().collect::<Vec<_>>();
        let text = format!("needs {} of its cycle: {}", others.len(), others.join(", "));
        Finding::new(&format!("{folder}/src/{module}"), 0, text)
    });
    Ok(Measure { number: cycle.len(), places: told.collect() })
}

fn below_src<'a>(source: &Source<'a>) -> &'a str {
    source.path.rsplit_once("/src/").map_or(source.path, |(_, below)| below)
}

/// How many times `super` leads from this file's module to the crate.
fn depth(file: &str) -> usize {
    file.trim_end_matches("/mod.rs").split('/').count()
}

/// What `lib.rs` names.
struct Names<'a> {
    modules: BTreeSet<&'a str>,
    /// The module that each re-exported name comes from.
    exported: BTreeMap<&'a str, &'a str>,
}

impl<'a> Names<'a> {
    fn of(lib: &'a str) -> Names<'a> {
        let declared = words(lib, "mod").map(|at| identifier(lib[at + 3..].trim_start()));
        let modules: BTreeSet<&str> = declared.collect();
        let mut exported = BTreeMap::new();
        for at in words(lib, "use") {
            let path = lib[at + 3..].split(';').next().unwrap_or_default().trim_start();
            if let Some(module) = modules.get(identifier(path)) {
                let leaves = path.split(['{', '}', ',']).map(str::trim);
                exported.extend(leaves.filter_map(|leaf| leaf.rsplit([':', ' ']).next()).map(|leaf| (leaf, *module)));
            }
        }
        Names { modules, exported }
    }

    fn module_of(&self, name: &str) -> Option<&'a str> {
        self.modules.get(name).or(self.exported.get(name)).copied()
    }
}

/// The names that code at this depth takes from the crate's root.
fn imports(code: &str, depth: usize) -> impl Iterator<Item = &str> {
    let by_crate = words(code, "crate").map(|at| &code[at + 5..]);
    let by_super = words(code, "super").filter(|at| !code[..*at].ends_with("::")).filter_map(move |at| {
        let mut rest = &code[at + 5..];
        for _ in 1..depth {
            rest = rest.strip_prefix("::super")?;
        }
        Some(rest)
    });
    by_crate.chain(by_super).filter_map(|rest| rest.strip_prefix("::")).flat_map(first_names)
}

/// The first name of a path; of a group of paths, the first name of each.
fn first_names(path: &str) -> Vec<&str> {
    match path.strip_prefix('{') {
        Some(group) => {
            let group = &group[..end_of(group, 0, &['}']).unwrap_or(group.len())];
            parts(group).into_iter().map(identifier).collect()
        }
        None => vec![identifier(path)],
    }
}

/// The largest set of modules that all reach each other; empty if none reaches itself through another.
fn largest_cycle<'a>(needs: &Needs<'a>) -> BTreeSet<&'a str> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = needs.keys().map(|module| (*module, reach(needs, module))).collect();
    let together = |module: &&'a str| -> BTreeSet<&'a str> {
        needs
            .keys()
            .copied()
            .filter(|other| reached[module].contains(other) && reached[other].contains(module))
            .collect()
    };
    // Of several as large the one whose first module comes first.
    needs.keys().map(together).filter(|cycle| cycle.len() > 1).rev().max_by_key(BTreeSet::len).unwrap_or_default()
}

fn reach<'a>(needs: &Needs<'a>, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&str> = vec![from];
    while let Some(module) = next.pop() {
        for other in needs.get(module).into_iter().flatten() {
            if reached.insert(*other) {
                next.push(other);
            }
        }
    }
    reached
}
