//! The files that a stage of tests has to look at, and how many of them share a build.

use super::ledger::{Excuses, Unit};
use super::listing::Break;
use super::target::{Stage, Target};

/// Breaks of one build. Policy: a larger build takes more memory, more builds take more time.
const BREAKS_MAX: usize = 1_500;

/// Which of the tests look, and at what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Looks {
    /// Those of the crate at what is new, and those above at what these left.
    #[default]
    Both,
    /// Those of the crate look once more at what survived, too.
    Again,
    /// Those above alone, also at what is new: one build of them serves all crates.
    AboveAlone,
}

/// One file that a stage of tests has to look at.
pub struct Task {
    /// Its crate.
    pub target: &'static Target,
    /// Path below the root.
    pub file: String,
    hash: String,
    /// All breaks that were found in the file.
    found: usize,
    /// Those that are tried now.
    pub tried: Vec<Break>,
    /// What is known of the file as it is.
    known: Option<Unit>,
}

impl Task {
    /// `None`: this stage has looked at this very file already.
    pub fn of(
        (target, stage): (&'static Target, Stage),
        file: &str,
        breaks: &[Break],
        (hash, known): (String, Option<Unit>),
        (excuses, looks): (&Excuses, Looks),
    ) -> Option<Task> {
        let survivors: Option<&[String]> = known.as_ref().map(|unit| &unit.survivors[..]);
        let open = survivors.map(|survivors| excuses.split(survivors).1);
        let tried: Vec<Break> = match (stage, &known, &open) {
            (Stage::Own, None, _) => breaks.to_vec(),
            (Stage::Above, None, _) if looks == Looks::AboveAlone => breaks.to_vec(),
            // An excused break is tried by the tests of its own crate, the first time, and by no others.
            (Stage::Own, Some(_), Some(open)) if looks == Looks::Again => {
                breaks.iter().filter(|one| open.contains(&one.key().as_str())).cloned().collect()
            }
            (Stage::Above, Some(unit), Some(open)) if unit.stage == Stage::Own => {
                breaks.iter().filter(|one| open.contains(&one.key().as_str())).cloned().collect()
            }
            _ => return None,
        };
        let worth = !tried.is_empty() || known.is_none();
        worth.then(|| Task { target, file: file.to_string(), hash, found: breaks.len(), tried, known })
    }

    /// The folder of its crate.
    pub fn room(&self) -> Option<&str> {
        self.file.split_once("/src/").map(|(room, _)| room)
    }

    /// What is known when these survive of those that were tried, and these do not compile.
    pub fn unit(&self, stage: Stage, mut survivors: Vec<String>, unviable: usize) -> Unit {
        let unviable = self.known.as_ref().map_or(unviable, |known| known.unviable);
        let tried: Vec<String> = self.tried.iter().map(Break::key).collect();
        let untried = self.known.iter().flat_map(|known| &known.survivors).filter(|name| !tried.contains(name));
        survivors.extend(untried.cloned());
        survivors.sort();
        Unit {
            file: self.file.clone(),
            hash: self.hash.clone(),
            stage: self.known.as_ref().map_or(stage, |known| known.stage.max(stage)),
            killed: self.found - unviable - survivors.len(),
            unviable,
            survivors,
        }
    }
}

/// Tasks of one build each: the tests above crates are the same or nearly, and cost most to build; those of a crate are its own.
pub fn batches(stage: Stage, tasks: Vec<Task>) -> Vec<Vec<Task>> {
    let mut batches: Vec<Vec<Task>> = Vec::new();
    for task in tasks {
        let breaks = |batch: &Vec<Task>| batch.iter().map(|task| task.tried.len()).sum::<usize>();
        let fits = |batch: &&mut Vec<Task>| {
            let alike = stage == Stage::Above || batch[0].target.name == task.target.name;
            alike && breaks(batch) + task.tried.len() <= BREAKS_MAX
        };
        match batches.last_mut().filter(fits) {
            Some(batch) => batch.push(task),
            None => batches.push(vec![task]),
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::super::listing;
    use super::super::target::TARGETS;
    use super::*;

    fn listed(file: &str, names: &[&str]) -> Vec<Break> {
        let span = r#"{"start":{"line":1,"column":1},"end":{"line":1,"column":2}}"#;
        let one = |name: &&str| {
            format!(
                r#"{{"name":"{file}:1:1: {name}","file":"{file}","span":{span},"replacement":"","genre":"FnValue","function":null}}"#
            )
        };
        let text = names.iter().map(one).collect::<Vec<_>>().join(",");
        listing::parse(&format!("[{text}]")).expect("a listing").remove(file).unwrap_or_default()
    }

    #[test]
    fn a_stage_looks_at_what_is_new_and_at_what_the_stage_before_it_left() {
        let breaks = listed("a.rs", &["x", "y", "z"]);
        let excuses = Excuses::parse("[[excused]]\nmutant = \"a.rs: z\"\nreason = \"a hint\"\n").expect("excuses");
        let unit = |stage, survivors: &[&str]| {
            let survivors = survivors.iter().map(ToString::to_string).collect();
            Unit { file: "a.rs".into(), hash: "h".into(), stage, killed: 0, unviable: 1, survivors }
        };
        let task = |stage, known, looks| {
            Task::of((&TARGETS[0], stage), "a.rs", &breaks, ("h".into(), known), (&excuses, looks))
        };
        let names = |task: Option<Task>| task.map(|task| task.tried.iter().map(Break::key).collect::<Vec<_>>());
        let known = || Some(unit(Stage::Own, &["a.rs: y", "a.rs: z"]));
        assert_eq!(names(task(Stage::Own, None, Looks::Both)).map(|names| names.len()), Some(3));
        assert_eq!(names(task(Stage::Own, known(), Looks::Both)), None, "it has looked");
        assert_eq!(names(task(Stage::Above, None, Looks::Both)), None, "the crate's own look first");
        assert_eq!(names(task(Stage::Above, None, Looks::AboveAlone)).map(|names| names.len()), Some(3));
        assert_eq!(names(task(Stage::Own, known(), Looks::Again)), Some(vec!["a.rs: y".to_string()]));
        assert_eq!(names(task(Stage::Above, known(), Looks::Both)), Some(vec!["a.rs: y".to_string()]));
        assert_eq!(names(task(Stage::Above, Some(unit(Stage::Own, &["a.rs: z"])), Looks::Both)), None, "it is excused");
        assert_eq!(names(task(Stage::Above, Some(unit(Stage::Above, &["a.rs: y"])), Looks::Both)), None);
        let seen = task(Stage::Above, known(), Looks::Both).expect("a task").unit(Stage::Above, Vec::new(), 0);
        assert_eq!((seen.killed, seen.unviable, seen.stage), (1, 1, Stage::Above));
        assert_eq!(seen.survivors, ["a.rs: z"], "what was not tried survives still");
    }

    #[test]
    fn a_build_has_no_more_breaks_than_it_may_and_files_are_whole() {
        let task = |name: &str, count: usize| {
            let tried = vec![listed(name, &["x"]).remove(0); count];
            Task { target: &TARGETS[0], file: name.into(), hash: String::new(), found: count, tried, known: None }
        };
        let tasks = vec![task("a", 1_000), task("b", 500), task("c", 1), task("d", 2_000), task("e", 2)];
        let files: Vec<Vec<String>> = batches(Stage::Own, tasks)
            .into_iter()
            .map(|batch| batch.into_iter().map(|task| task.file).collect())
            .collect();
        assert_eq!(files, [vec!["a", "b"], vec!["c"], vec!["d"], vec!["e"]]);
    }
}
