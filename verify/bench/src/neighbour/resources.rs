//! The resources that this program and its kernel hold, and those left behind.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use dxgk_host::StateDigest;

use super::soon;
use crate::report::BenchError;
use crate::served::Kernel;

/// Between two looks at what goes by itself.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// At one moment.
pub(super) struct HeldResources {
    /// The targets of open descriptors, each with how many.
    descriptors: BTreeMap<String, usize>,
    /// Memory files of which some page is mapped.
    memory_files: usize,
    /// Threads that serve clients.
    threads: usize,
    /// Processes, handles and objects of the kernel.
    state: StateDigest,
}

impl HeldResources {
    pub fn now(kernel: &Kernel) -> HeldResources {
        let list =
            |path| std::fs::read_dir(path).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
        let open = list("/proc/self/fd").filter_map(|path| std::fs::read_link(path).ok());
        // Numbers of sockets and of this list itself tell nothing.
        let name =
            |open: PathBuf| open.to_string_lossy().trim_end_matches(|c: char| "0123456789]".contains(c)).to_owned();
        let descriptors = counted(open.map(name));
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let inode = |line: &str| line.split_whitespace().nth(4).map(str::to_owned);
        let files: BTreeSet<_> = maps.lines().filter(|line| line.contains("/memfd:")).filter_map(inode).collect();
        let serves = |name: &String| ["stream ", "answers ", "lane ", "meet"].iter().any(|of| name.starts_with(of));
        let names = list("/proc/self/task").filter_map(|task| std::fs::read_to_string(task.join("comm")).ok());
        HeldResources {
            descriptors,
            memory_files: files.len(),
            threads: names.filter(serves).count(),
            state: kernel.host.state_digest(),
        }
    }

    /// When nothing goes any more. A kernel of an earlier measure may be on its way out with all that it has lent.
    pub fn settled(kernel: &Kernel, within: Duration) -> HeldResources {
        let mut last = HeldResources::now(kernel);
        soon(within, || {
            std::thread::sleep(BETWEEN_LOOKS);
            let earlier = std::mem::replace(&mut last, HeldResources::now(kernel));
            // Nothing has come, and nothing has gone.
            last.threads == 0 && earlier.left(&last, &[]).is_empty() && last.left(&earlier, &[]).is_empty()
        });
        last
    }

    /// Differences of the kernel's state in either direction, but for parts that begin like `own`; and resources of this program that there
    /// are more of now. Fewer is no fault: some may be of an earlier measure, and go.
    fn left(&self, now: &HeldResources, own: &[&str]) -> Vec<String> {
        let mut left = self.state.differences(&now.state);
        let names = now.descriptors.keys();
        let more: BTreeSet<_> = names.filter(|name| self.descriptors.get(*name) < now.descriptors.get(*name)).collect();
        left.extend(more.into_iter().map(|name| format!("open: {name}")));
        // These two count works, and never fall.
        left.retain(|part| !["adapter ", "works "].iter().chain(own).any(|own| part.starts_with(own)));
        let counts = [("memory files", self.memory_files, now.memory_files), ("threads", self.threads, now.threads)];
        let more = counts.iter().filter(|(_, before, after)| before < after);
        left.extend(more.map(|(what, before, after)| format!("{after} {what} instead of {before}")));
        left
    }

    /// The same once no client is connected and nothing is in flight; resources that have not gone by then are left.
    pub fn left_within(&self, kernel: &Kernel, within: Duration, own: &[&str]) -> Result<Vec<String>, BenchError> {
        kernel.until_alone(within)?;
        let mut left = Vec::new();
        soon(within, || {
            left = self.left(&HeldResources::now(kernel), own);
            left.is_empty()
        });
        kernel.host.check_invariants().map_err(|broken| BenchError::Device(broken.to_string()))?;
        Ok(left)
    }
}

fn counted(names: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    names.for_each(|name| *counted.entry(name).or_default() += 1);
    counted
}
