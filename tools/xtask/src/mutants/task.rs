//! The files that a stage of tests has to look at, and how many of them share a build.

use super::ledger::{Excuses, Unit};
use super::listing::Break;
use super::target::Stage;

/// Breaks of one build. Policy: a larger build takes more memory, more builds take more time.
const BREAKS_MAX: usize = 1_500;

/// One file that a stage of tests has to look at.
pub struct Task {
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
        stage: Stage,
        file: &str,
        breaks: &[Break],
        (hash, known): (String, Option<Unit>),
        (excuses, again): (&Excuses, bool),
    ) -> Option<Task> {
        let survivors: Option<&[String]> = known.as_ref().map(|unit| &unit.survivors[..]);
        let open = survivors.map(|survivors| excuses.split(survivors).1);
        let tried: Vec<Break> = match (stage, &known, &open) {
            (Stage::Own, None, _) => breaks.to_vec(),
            // An excused break is tried by the tests of its own crate, the first time, and by no others.
            (Stage::Own, Some(_), Some(open)) if again => {
                breaks.iter().filter(|one| open.contains(&one.key().as_str())).cloned().collect()
            }
            (Stage::Above, Some(unit), Some(open)) if unit.stage == Stage::Own => {
                breaks.iter().filter(|one| open.contains(&one.key().as_str())).cloned().collect()
            }
            _ => return None,
        };
        let worth = !tried.is_empty() || known.is_none();
        worth.then(|| Task { file: file.to_string(), hash, found: breaks.len(), tried, known })
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

/// Tasks of one build each.
pub fn batches(tasks: Vec<Task>) -> Vec<Vec<Task>> {
    let mut batches: Vec<Vec<Task>> = Vec::new();
    for task in tasks {
        let breaks = |batch: &Vec<Task>| batch.iter().map(|task| task.tried.len()).sum::<usize>();
        match batches.last_mut().filter(|batch| breaks(batch) + task.tried.len() <= BREAKS_MAX) {
            Some(batch) => batch.push(task),
            None => batches.push(vec![task]),
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::super::listing;
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
        let task = |stage, known, again| Task::of(stage, "a.rs", &breaks, ("h".into(), known), (&excuses, again));
        let names = |task: Option<Task>| task.map(|task| task.tried.iter().map(Break::key).collect::<Vec<_>>());
        let known = || Some(unit(Stage::Own, &["a.rs: y", "a.rs: z"]));
        assert_eq!(names(task(Stage::Own, None, false)).map(|names| names.len()), Some(3));
        assert_eq!(names(task(Stage::Own, known(), false)), None, "it has looked");
        assert_eq!(names(task(Stage::Own, known(), true)), Some(vec!["a.rs: y".to_string()]));
        assert_eq!(names(task(Stage::Above, known(), false)), Some(vec!["a.rs: y".to_string()]));
        assert_eq!(names(task(Stage::Above, Some(unit(Stage::Own, &["a.rs: z"])), false)), None, "it is excused");
        assert_eq!(names(task(Stage::Above, Some(unit(Stage::Above, &["a.rs: y"])), false)), None);
        let seen = task(Stage::Above, known(), false).expect("a task").unit(Stage::Above, Vec::new(), 0);
        assert_eq!((seen.killed, seen.unviable, seen.stage), (1, 1, Stage::Above));
        assert_eq!(seen.survivors, ["a.rs: z"], "what was not tried survives still");
    }

    #[test]
    fn a_build_has_no_more_breaks_than_it_may_and_files_are_whole() {
        let task = |name: &str, count: usize| {
            let tried = vec![listed(name, &["x"]).remove(0); count];
            Task { file: name.into(), hash: String::new(), found: count, tried, known: None }
        };
        let tasks = vec![task("a", 1_000), task("b", 500), task("c", 1), task("d", 2_000), task("e", 2)];
        let files: Vec<Vec<String>> =
            batches(tasks).into_iter().map(|batch| batch.into_iter().map(|task| task.file).collect()).collect();
        assert_eq!(files, [vec!["a", "b"], vec!["c"], vec!["d"], vec!["e"]]);
    }
}
