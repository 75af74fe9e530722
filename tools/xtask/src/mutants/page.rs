//! `docs/verification/mutants.md`: per crate, the breaks that were found, killed, excused and left.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use super::ledger::{self, Excuses, Ledger};
use super::listing::Listing;
use super::target::{Stage, TARGETS, Target};
use crate::tree::House;

const HEAD: &str = "\
# Breaks of the product, and the tests that see them

`cargo xtask mutants` breaks the crates below in every small way that cargo-mutants knows (a function's result, an operator, an
arm of a match), one break at a time, and runs the tests. A break that no test sees survives: either a rule lacks its test, or
the break changes nothing that a test could see, which `excused.toml` then says with the reason. The tests of the crate itself
look first, those of the crates above it at what these left: of the tests that run the broken function the fastest, as many as
take 60 seconds, and 15 seconds of those above. Up to 1,500 breaks share a build, in which each function chooses among its own
body and broken copies; a break that no function can choose (in a constant, in a `const fn`) has a build of its own. This page
is written by that command; the ledger beside it (`mutants.toml`) has each file with the hash of its code, so that a run goes on
where the last one ended and looks again at what has changed.

```
cargo install cargo-mutants --locked
cargo xtask mutants                        # all crates, what is not done yet: a night on two cores; fails below a goal
cargo xtask mutants vidsch --minutes 60    # one crate; no file begins after an hour
cargo xtask mutants vidsch --again         # new tests of the crate look at what survived
cargo xtask mutants vidmm dxgkrnl --above   # the tests above the crates alone, also at what is new: one build for all
cargo xtask mutants --shard 1/8            # this machine's eighth of the files; join the ledgers' texts afterwards
cargo xtask mutants --minutes 480          # nightly
cargo xtask mutants --page                 # this page alone
```

";

/// The page.
pub struct Page {
    rows: Vec<Row>,
}

/// One crate.
struct Row {
    target: &'static Target,
    found: usize,
    /// Breaks in files that have not been looked at as they are now.
    waiting: usize,
    /// Files that only the crate's own tests looked at, and that have survivors of these.
    half: usize,
    killed: usize,
    unviable: usize,
    excused: Vec<(String, String)>,
    survivors: Vec<String>,
}

impl Page {
    /// Puts together what is known of the files as they are now. `found`: the breaks of each crate, by file.
    pub fn new(
        house: &House,
        found: &BTreeMap<&str, Listing>,
        ledger: &Ledger,
        excuses: &Excuses,
    ) -> Result<Page, String> {
        let mut rows = Vec::new();
        for target in TARGETS {
            let files = &found[target.name];
            let mut row = Row {
                target,
                found: files.values().map(Vec::len).sum(),
                waiting: 0,
                half: 0,
                killed: 0,
                unviable: 0,
                excused: Vec::new(),
                survivors: Vec::new(),
            };
            for (file, breaks) in files {
                let hash = ledger::hash(&house.read(file)?);
                match ledger.of(file).filter(|unit| unit.hash == hash) {
                    None => row.waiting += breaks.len(),
                    Some(unit) => {
                        row.killed += unit.killed;
                        row.unviable += unit.unviable;
                        let (excused, open) = excuses.split(&unit.survivors);
                        row.excused.extend(excused.into_iter().map(|(name, why)| (name.to_string(), why.to_string())));
                        row.half += usize::from(unit.stage == Stage::Own && !open.is_empty());
                        row.survivors.extend(open.into_iter().map(str::to_string));
                    }
                }
            }
            rows.push(row);
        }
        Ok(Page { rows })
    }

    /// Whether no crate that was looked at whole misses its goal.
    pub fn meets_goals(&self) -> bool {
        self.rows.iter().all(|row| row.waiting > 0 || row.half > 0 || row.meets_goal())
    }

    /// The crates, one to a line.
    pub fn table(&self) -> String {
        let mut table = String::from(
            "| crate | found | not compiling | killed | excused | survived | not run yet | killed of run | goal |\n|---|---|---|---|---|---|---|---|---|\n",
        );
        for row in &self.rows {
            let of_run = row.per_mille().map_or("-".to_string(), |of| format!("{}.{} %", of / 10, of % 10));
            let half = if row.half > 0 {
                format!(" ({} files by their own crate's tests only)", row.half)
            } else {
                String::new()
            };
            let _ = writeln!(
                table,
                "| {} | {} | {} | {} | {} | {}{half} | {} | {of_run} | {} % |",
                row.target.name,
                row.found,
                row.unviable,
                row.killed,
                row.excused.len(),
                row.survivors.len(),
                row.waiting,
                row.target.goal
            );
        }
        table
    }
}

impl Row {
    /// How many of a thousand viable breaks, excused ones aside, were killed. `None`: none was tried.
    fn per_mille(&self) -> Option<usize> {
        let viable = self.killed + self.survivors.len();
        (viable > 0).then(|| self.killed * 1_000 / viable)
    }

    fn meets_goal(&self) -> bool {
        self.per_mille().is_none_or(|of| of >= self.target.goal as usize * 10)
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{HEAD}{}", self.table())?;
        for row in &self.rows {
            if !row.survivors.is_empty() {
                write!(f, "\n## {}: survived\n\n", row.target.name)?;
                row.survivors.iter().try_for_each(|name| writeln!(f, "- `{name}`"))?;
            }
            if !row.excused.is_empty() {
                write!(f, "\n## {}: excused\n\n", row.target.name)?;
                row.excused.iter().try_for_each(|(name, why)| writeln!(f, "- `{name}`: {why}"))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::ledger::Unit;
    use super::super::listing;
    use super::*;

    const SPAN: &str = r#"{"start":{"line":1,"column":1},"end":{"line":1,"column":2}}"#;

    #[test]
    fn a_changed_file_waits_and_an_excused_break_does_not_count() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("a.rs"), "one").expect("written");
        std::fs::write(folder.path().join("b.rs"), "two").expect("written");
        let name = |file: &str, what: &str| format!("{file}: {what}");
        let one = |file: &str, what: &str| {
            format!(
                r#"{{"name":"{file}:1:1: {what}","file":"{file}","span":{SPAN},"replacement":"","genre":"FnValue","function":null}}"#
            )
        };
        let all = [("a.rs", "x"), ("a.rs", "y"), ("a.rs", "z"), ("b.rs", "x"), ("b.rs", "y")];
        let all: Vec<String> = all.iter().map(|(file, what)| one(file, what)).collect();
        let breaks = listing::parse(&format!("[{}]", all.join(","))).expect("a listing");
        let mut found: BTreeMap<&str, Listing> = TARGETS.iter().map(|target| (target.name, Listing::new())).collect();
        found.insert("vidsch", breaks);
        let unit = |file: &str, hash: String| Unit {
            file: file.into(),
            hash,
            stage: Stage::Above,
            killed: 1,
            unviable: 0,
            survivors: vec![name(file, "y"), name(file, "z")],
        };
        let mut ledger = Ledger::default();
        ledger.enter(unit("a.rs", ledger::hash("one")));
        ledger.enter(unit("b.rs", ledger::hash("as it was")));
        let excuses = Excuses::parse("[[excused]]\nmutant = \"a.rs: z\"\nreason = \"a hint\"\n").expect("excuses");
        let page = Page::new(&House::at(folder.path()), &found, &ledger, &excuses).expect("a page");
        assert!(page.table().contains("| vidsch | 5 | 0 | 1 | 1 | 1 | 2 | 50.0 % | 95 % |"), "{}", page.table());
        let text = page.to_string();
        assert!(
            text.contains("## vidsch: survived\n\n- `a.rs: y`\n") && text.contains("- `a.rs: z`: a hint\n"),
            "{text}"
        );
        assert!(page.meets_goals(), "a crate that was not looked at whole misses nothing yet");
        ledger.enter(unit("b.rs", ledger::hash("two")));
        let page = Page::new(&House::at(folder.path()), &found, &ledger, &excuses).expect("a page");
        assert!(page.table().contains("| vidsch | 5 | 0 | 2 | 1 | 3 | 0 | 40.0 % | 95 % |"), "{}", page.table());
        assert!(!page.meets_goals());
    }
}
