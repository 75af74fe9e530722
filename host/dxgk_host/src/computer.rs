//! The memory that the computer has for this program: all of it, or less where a control group limits it. A host's configuration asks for
//! it; this reserves nothing.

use std::path::{Path, PathBuf};

/// Assumed where the operating system does not say: 4 GiB.
const UNKNOWN_BYTES: u64 = 4 << 30;

/// Bytes of memory that this program may use at most: those of the computer, or of the tightest control group that it is in. Other programs
/// may already use some of them.
pub fn memory_bytes() -> u64 {
    let total = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_of(&text));
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = limit_files(&groups).into_iter().filter_map(|file| limit_of(&std::fs::read_to_string(file).ok()?));
    total.into_iter().chain(limits).min().unwrap_or(UNKNOWN_BYTES)
}

/// `MemTotal` of `/proc/meminfo`.
fn total_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The files that may limit a process of these control groups (`/proc/self/cgroup`): a group's own, and those of all above it.
fn limit_files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            of_first if of_first.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let inside = Path::new(path.trim_start_matches('/'));
        files.extend(inside.ancestors().map(|group| Path::new(root).join(group).join(file)));
    }
    files
}

/// The limit in such a file; `None`: no limit.
fn limit_of(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_computer_says_what_it_has() {
        assert_eq!(total_of("MemTotal:       24684084 kB\nMemFree: 1 kB\n"), Some(24_684_084 * 1024));
        assert_eq!(total_of("MemFree: 1 kB\n"), None);
        assert!(memory_bytes() > 0 && memory_bytes().is_multiple_of(1024));
    }

    #[test]
    fn each_group_above_a_process_may_limit_it() {
        let files = limit_files("0::/user.slice/run.scope\n");
        let names: Vec<&str> = files.iter().filter_map(|file| file.to_str()).collect();
        let root = "/sys/fs/cgroup";
        let expected = [
            format!("{root}/user.slice/run.scope/memory.max"),
            format!("{root}/user.slice/memory.max"),
            format!("{root}/memory.max"),
        ];
        assert_eq!(names, expected);
        let first = limit_files("5:cpu,memory:/a\n1:name=systemd:/b\n");
        assert_eq!(first[0], Path::new("/sys/fs/cgroup/memory/a/memory.limit_in_bytes"));
        assert_eq!((first.len(), limit_files("nonsense\n").len()), (2, 0));
        assert_eq!((limit_of("max\n"), limit_of("1048576\n")), (None, Some(1 << 20)));
    }
}
