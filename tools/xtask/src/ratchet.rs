//! Ratchets: figures of the whole house that may fall and never rise, each on its way to a goal.
//!
//! A rule of `tidy` holds for every file from the start. A ratchet is for what the house does not keep yet: each is a function from the
//! sources to a number in one of the modules below, [`RATCHETS`] lists them with their goals, and a file ([`ceiling::PATH`]) has what each
//! may measure at most. `tidy` fails above a ceiling, and below one, too, until `tidy --lower` has lowered it: so an improvement is kept in
//! the commit that makes it. `tidy` calls [`check`], people `tidy --places NAME`.

mod ceiling;
mod cycle;
mod function;
mod length;
mod owner;
mod page;
mod rows;
mod signature;
mod source;
#[cfg(test)]
mod tests;
mod unrouted;

use crate::report::{Finding, Report};
use crate::tree::House;
use ceiling::Ceilings;
use source::Sources;

/// What a ratchet found.
#[derive(Debug, PartialEq, Eq)]
pub struct Measure {
    /// The figure.
    pub number: usize,
    /// Where it comes from.
    pub places: Vec<Finding>,
}

/// A measure, or why it could not be taken.
type Measured = Result<Measure, String>;

impl Measure {
    /// As many as there are places.
    fn of(places: Vec<Finding>) -> Measure {
        Measure { number: places.len(), places }
    }
}

/// One ratchet.
struct Ratchet {
    name: &'static str,
    /// Of what it is the number.
    counts: &'static str,
    goal: usize,
    measure: fn(&Sources<'_>) -> Measured,
}

const DXGKRNL: &str = "kernel/dxgkrnl";
const VIDMM: &str = "kernel/vidmm";

const RATCHETS: &[Ratchet] = &[
    Ratchet {
        name: "adapter-files",
        counts: "files of dxgkrnl that add methods to Adapter",
        goal: 12,
        measure: |sources| owner::files_of_methods(sources, DXGKRNL, "Adapter"),
    },
    Ratchet {
        name: "adapter-fields",
        counts: "fields of Adapter that other modules may touch",
        goal: 0,
        measure: |sources| owner::open_fields(sources, DXGKRNL, "Adapter"),
    },
    Ratchet {
        name: "vidmm-fields",
        counts: "fields of VidMm that other modules may touch",
        goal: 0,
        measure: |sources| owner::open_fields(sources, VIDMM, "VidMm"),
    },
    Ratchet {
        name: "dxgkrnl-cycle",
        counts: "modules of dxgkrnl that all need each other",
        goal: 4,
        measure: |sources| cycle::largest(sources, DXGKRNL),
    },
    Ratchet {
        name: "vidmm-cycle",
        counts: "modules of vidmm that all need each other",
        goal: 6,
        measure: |sources| cycle::largest(sources, VIDMM),
    },
    Ratchet {
        name: "bare-names",
        counts: "objects that a bare integer names in signatures of dxgkrnl",
        goal: 0,
        measure: |sources| signature::bare_names(sources, DXGKRNL),
    },
    Ratchet {
        name: "long-functions",
        counts: "functions of the product with more than 70 lines",
        goal: 10,
        measure: length::long_functions,
    },
    Ratchet {
        name: "unrouted-calls",
        counts: "assertions on the way of a call that it is never reached",
        goal: 0,
        measure: |sources| unrouted::unrouted(sources, DXGKRNL, "call"),
    },
    Ratchet {
        name: "rows-of-several",
        counts: "acceptance rows that speak of several things, and that no test proves with two",
        goal: 0,
        measure: rows::of_several,
    },
    Ratchet {
        name: "rows-unbroken",
        counts: "acceptance rows without a break that a test is known to see",
        goal: 0,
        measure: rows::without_break,
    },
    Ratchet {
        name: "pronouns-rs",
        counts: "pronouns in *.rs that hide who acts",
        goal: 60,
        measure: |sources| page::pronouns(sources, ".rs"),
    },
    Ratchet {
        name: "pronouns-md",
        counts: "pronouns in *.md that hide who acts",
        goal: 0,
        measure: |sources| page::pronouns(sources, ".md"),
    },
    Ratchet { name: "one-word-docs", counts: "doc comments of one word", goal: 0, measure: page::one_word_docs },
    Ratchet { name: "readme-lines", counts: "lines of the README", goal: 90, measure: page::readme_lines },
    Ratchet {
        name: "readme-longest",
        counts: "characters of the README's longest line",
        goal: 200,
        measure: page::readme_longest,
    },
];

/// Measures everything and holds it against the ceilings, which it lowers first if it is told to.
///
/// # Errors
/// The file of ceilings cannot be read or written, or a ratchet does not find what it measures.
pub fn check(house: &House, texts: &[(String, String)], lower: bool, report: &mut Report) -> Result<(), String> {
    let sources = Sources::of(texts);
    let mut measured = Vec::new();
    for ratchet in RATCHETS {
        measured.push((ratchet, take(ratchet, &sources)?.number));
    }
    let mut ceilings = Ceilings::parse(&house.read(ceiling::PATH)?)?;
    if lower {
        let lowered = measured.iter().filter(|(ratchet, number)| ceilings.lower(ratchet.name, *number)).count();
        report.listing.push(format!("{lowered} ceilings lowered in {}", ceiling::PATH));
        house.write(ceiling::PATH, &ceilings.to_string())?;
    }
    hold(&measured, &ceilings, report);
    Ok(())
}

/// The places that one ratchet counts.
///
/// # Errors
/// There is no such ratchet, or it does not find what it measures.
pub fn places(texts: &[(String, String)], name: &str) -> Result<Vec<Finding>, String> {
    let known = || RATCHETS.iter().map(|ratchet| ratchet.name).collect::<Vec<_>>().join(", ");
    let ratchet = RATCHETS.iter().find(|ratchet| ratchet.name == name);
    let ratchet = ratchet.ok_or_else(|| format!("there is no ratchet {name}; there are {}", known()))?;
    Ok(take(ratchet, &Sources::of(texts))?.places)
}

fn take(ratchet: &Ratchet, sources: &Sources<'_>) -> Measured {
    (ratchet.measure)(sources).map_err(|reason| format!("ratchet {}: {reason}", ratchet.name))
}

/// Lists each figure beside its ceiling and its goal; a fault where figure and ceiling differ.
fn hold(measured: &[(&Ratchet, usize)], ceilings: &Ceilings, report: &mut Report) {
    report.listing.push(format!("{:<16}{:>9}{:>9}{:>6}", "ratchet", "measured", "ceiling", "goal"));
    for (ratchet, number) in measured {
        let Ratchet { name, counts, goal, .. } = ratchet;
        let ceiling = ceilings.of(name);
        let shown = ceiling.map_or("none".to_string(), |ceiling| ceiling.to_string());
        report.listing.push(format!("{name:<16}{number:>9}{shown:>9}{goal:>6}  {counts}"));
        let fault = match ceiling {
            None => format!("{name} has no ceiling; {number} is measured: add the line \"{name} = {number}\""),
            Some(ceiling) if *number > ceiling => {
                format!("{name}: {number} {counts}, at most {ceiling}; `cargo xtask tidy --places {name}` lists them")
            }
            Some(ceiling) if *number < ceiling => {
                format!(
                    "{name}: {number} {counts}, and the ceiling is {ceiling}; `cargo xtask tidy --lower` lowers it, in this commit"
                )
            }
            Some(_) => continue,
        };
        report.faults.push(Finding::new(ceiling::PATH, 0, fault));
    }
    let known = |name: &&str| measured.iter().any(|(ratchet, _)| ratchet.name == *name);
    for name in ceilings.names().filter(|name| !known(name)) {
        report.faults.push(Finding::new(ceiling::PATH, 0, format!("{name} is no ratchet; take its line out")));
    }
}
