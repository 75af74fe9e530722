//! The tests of a build with many breaks: which functions each of them runs, and which breaks it sees.
//!
//! A break meets only the tests that run its function, those first that have seen a break of the same function, then the fastest;
//! a run ends with the first test that fails. A test that fails without any break, or that takes too long, looks at none.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::build::Program;
use super::patience::Patience;

/// A test that takes longer alone looks at no break. Policy.
const TEST_MAX: Duration = Duration::from_secs(40);
/// What a run may take beside five times what its tests take without a break, of its own time ([`Patience`]): a break that hangs its test
/// costs as much.
const GRACE: Duration = Duration::from_secs(3);
/// Pages of memory that a run may have: a break that takes memory without end fails its test and not the machine. Policy.
const PAGES_MAX: u64 = (6 << 30) / 4096;
/// How often a run is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// A test.
#[derive(Debug)]
struct Test {
    program: usize,
    name: String,
    takes: Duration,
    /// Functions that it runs, by the first numbers of their breaks.
    runs: BTreeSet<u32>,
}

/// The tests of some programs.
pub struct Trial {
    programs: Vec<Program>,
    tests: Vec<Test>,
    /// Tests that have seen breaks, by function.
    saw: Mutex<BTreeMap<u32, Vec<usize>>>,
    /// What the tests of one break may take together.
    most: Duration,
}

impl Trial {
    /// Runs every test once by itself, and notes which functions it runs.
    pub fn new(programs: Vec<Program>, scratch: &Path, most: Duration) -> Result<Trial, String> {
        let mut named = Vec::new();
        for (program, of) in programs.iter().enumerate() {
            named.extend(names(of)?.into_iter().map(|name| (program, name)));
        }
        let tests = in_parallel(named.len(), |nth, worker| {
            let (program, name) = &named[nth];
            let reached = scratch.join(format!("reached-{worker}"));
            let _ = std::fs::remove_file(&reached);
            let mut command = command(&programs[*program], [name.as_str()]);
            let (seen, takes) = measured(command.env("MUTANT_REACH", &reached), TEST_MAX);
            let text = std::fs::read_to_string(&reached).unwrap_or_default();
            let runs: BTreeSet<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
            match seen {
                Some(_) => {
                    println!("   {name} fails or takes too long without a break: it looks at none");
                    None
                }
                None => (!runs.is_empty()).then(|| Test { program: *program, name: name.clone(), takes, runs }),
            }
        });
        let tests = tests.into_iter().flatten().collect();
        Ok(Trial { programs, tests, saw: Mutex::default(), most })
    }

    /// Which of these breaks, each with its function, no test sees.
    pub fn survivors(&self, breaks: &[(u32, u32)]) -> BTreeSet<u32> {
        let verdicts = in_parallel(breaks.len(), |nth, _| {
            let (number, function) = breaks[nth];
            (!self.is_seen(number, function)).then_some(number)
        });
        verdicts.into_iter().flatten().collect()
    }

    fn is_seen(&self, number: u32, function: u32) -> bool {
        let lock = || self.saw.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let known = lock().get(&function).cloned().unwrap_or_default();
        let runs = |test: &usize| self.tests[*test].runs.contains(&function);
        let mut others: Vec<usize> = (0..self.tests.len()).filter(|test| runs(test) && !known.contains(test)).collect();
        others.sort_by_key(|test| self.tests[*test].takes);
        let mut left = self.most;
        let within = |test: &usize| {
            let takes = self.tests[*test].takes;
            let fits = takes <= left;
            left = left.saturating_sub(takes);
            fits
        };
        let others: Vec<usize> = others.into_iter().take_while(within).collect();
        for tests in [known, others] {
            for program in 0..self.programs.len() {
                let of: Vec<usize> =
                    tests.iter().copied().filter(|test| self.tests[*test].program == program).collect();
                if of.is_empty() {
                    continue;
                }
                let takes: Duration = of.iter().map(|test| self.tests[*test].takes).sum();
                let names = of.iter().map(|test| self.tests[*test].name.as_str());
                let mut command = command(&self.programs[program], names);
                if let Some(failed) = ends(command.env("MUTANT", number.to_string()), takes * 5 + GRACE) {
                    let by = of.iter().find(|test| failed.as_ref() == Some(&self.tests[**test].name));
                    let mut saw = lock();
                    let list = saw.entry(function).or_default();
                    if let Some(by) = by.filter(|by| !list.contains(by)) {
                        list.push(*by);
                    }
                    return true;
                }
            }
        }
        false
    }
}

/// The tests of a program.
pub fn names(Program { path, .. }: &Program) -> Result<Vec<String>, String> {
    let output = Command::new(path).args(["--list", "--format", "terse"]).output();
    let output = output.map_err(|error| format!("{}: {error}", path.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|line| Some(line.strip_suffix(": test")?.to_string())).collect())
}

/// Whether a test fails, or takes too long, with this break of the build; without one, if there is no number.
pub fn fails(program: &Program, test: &str, number: Option<u32>) -> bool {
    let mut command = command(program, [test]);
    ends(command.env("MUTANT", number.unwrap_or(0).to_string()), TEST_MAX).is_some()
}

fn command<'a>(program: &Program, names: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(&program.path);
    command.args(["--test-threads=1", "--exact"]).args(names).current_dir(&program.folder);
    command.env("CARGO_MANIFEST_DIR", &program.folder).env("RUST_BACKTRACE", "0");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// Runs tests until one fails. `None`: all passed; else the name of the one that failed, if its program could still say so.
fn ends(command: &mut Command, within: Duration) -> Option<Option<String>> {
    measured(command, within).0
}

/// The same, and how long it took, without what it waited for a processor.
fn measured(command: &mut Command, within: Duration) -> (Option<Option<String>>, Duration) {
    let Ok(child) = command.spawn() else { return (Some(None), Duration::ZERO) };
    let (begun, mut patience) = (Instant::now(), Patience::new(within));
    let failed = watched(child, &mut patience);
    let spent = within.saturating_sub(patience.left());
    (failed, begun.elapsed().min(spent + LOOK))
}

fn watched(mut child: Child, patience: &mut Patience) -> Option<Option<String>> {
    let Some(output) = child.stdout.take() else { return end(child, None) };
    let (said, hears) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let Some(failed) = line.strip_suffix(" ... FAILED") else { continue };
            let _ = said.send(failed.trim_start_matches("test ").to_string());
        }
    });
    loop {
        let heard = hears.recv_timeout(LOOK);
        if let Ok(name) = heard {
            return end(child, Some(name));
        }
        // Programs that a test has started may keep the output open.
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return None,
            Ok(None) if patience.lasts(child.id()) && resident_pages(child.id()) <= PAGES_MAX => {}
            _ => return end(child, hears.try_recv().ok()),
        }
        if heard == Err(mpsc::RecvTimeoutError::Disconnected) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// 0: the process has ended, or this system does not say.
fn resident_pages(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/statm")).unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0)
}

fn end(mut child: Child, failed: Option<String>) -> Option<Option<String>> {
    let _ = child.kill();
    let _ = child.wait();
    Some(failed)
}

/// Answers for `0..count`, by as many threads as the machine has processors; the second argument is the thread's number.
fn in_parallel<T: Send>(count: usize, answer: impl Fn(usize, usize) -> T + Sync) -> Vec<T> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let mut answers: Vec<(usize, T)> = std::thread::scope(|scope| {
        let work = |worker: usize| {
            let (next, answer) = (&next, &answer);
            scope.spawn(move || {
                let mut mine = Vec::new();
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    if nth >= count {
                        return mine;
                    }
                    mine.push((nth, answer(nth, worker)));
                }
            })
        };
        let threads: Vec<_> = (0..workers).map(work).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a thread of this command")).collect()
    });
    answers.sort_by_key(|(nth, _)| *nth);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str) -> Command {
        let mut command = Command::new("sh");
        // A program that a shell leaves behind must not keep the error stream of these tests open.
        command.arg("-c").arg(text).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command
    }

    #[test]
    fn a_run_ends_with_the_first_test_that_fails() {
        let minute = Duration::from_secs(60);
        assert_eq!(ends(&mut shell("echo 'test a ... ok'"), minute), None);
        let fails = "echo 'test a ... ok'; echo 'test b ... FAILED'; sleep 60";
        assert_eq!(ends(&mut shell(fails), minute), Some(Some("b".to_string())));
        assert_eq!(ends(&mut shell("kill -9 $$"), minute), Some(None), "it died");
        assert_eq!(ends(&mut shell("sleep 60"), Duration::from_millis(20)), Some(None), "it took too long");
        let leaves = "sleep 60 & echo 'test a ... ok'";
        assert_eq!(ends(&mut shell(leaves), minute), None, "what it has started lives on");
    }

    #[test]
    fn answers_stand_in_the_order_of_their_questions() {
        assert_eq!(in_parallel(100, |nth, _| nth * nth), (0..100).map(|nth| nth * nth).collect::<Vec<_>>());
    }
}
