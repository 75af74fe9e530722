//! The hottest calls of the kernel, one after the other, for a counter of instructions that stands outside. Played by `part_process`,
//! which `cargo xtask instructions` starts under callgrind.
//!
//! Callgrind collects within [`counted_calls`] alone and writes a file each time that it returns; the part prints a line for each, in the same
//! order: the kind, the call, how many calls, and beside how many objects. The process is in the kernel's program and time is virtual, so no
//! other thread works meanwhile; counts differ from run to run by what random seeds of hash tables cost.

use super::crowd::{Crowd, Way};
use super::kind::{KINDS, Kind};
use super::strewn;
use crate::part_process::Measure;
use crate::report::BenchError;

/// The paths: a kind of [`KINDS`], and those of its calls that count, in an order in which they can be made. One crowd serves all calls of a kind.
const PATHS: [(&str, &[&str]); 6] = [
    ("allocations on a list", &["MakeResident, Evict", "Evict, MakeResident", "Lock2, Unlock2"]),
    ("allocations", &["CreateAllocation2", "DestroyAllocation2"]),
    ("mappings", &["MapGpuVirtualAddress"]),
    ("devices", &["GetDeviceState"]),
    ("native fences", &["SignalSynchronizationObjectFromCpu", "WaitForSynchronizationObjectFromCpu"]),
    (
        "waits for one fence",
        &["WaitForSynchronizationObjectFromCpu", "SignalSynchronizationObjectFromCpu that ends one"],
    ),
];
/// The crowds that each path is called beside.
const BESIDE: [usize; 2] = [500, 8_000];
/// Calls before those that count.
const WARM: usize = 16;
const CALLS: usize = 128;

/// Plays all paths.
///
/// # Errors
/// A call that the kernel refuses, and a path that no kind has.
pub(crate) fn play(measure: &Measure) -> Result<(), BenchError> {
    for beside in BESIDE {
        for (name, calls) in PATHS {
            let kind = KINDS.iter().find(|kind| kind.name == name);
            let kind = kind.ok_or_else(|| BenchError::Device(format!("no kind is called {name}")))?;
            let mut crowd = Crowd::start(Way::InProcess)?;
            while (kind.count)(&crowd) < beside {
                let many = (kind.count)(&crowd);
                (kind.make.1)(&mut crowd, many)?;
            }
            for call in calls {
                warm_and_counted(&mut crowd, &called(kind, call)?)?;
                measure.say(&format!("{name}\t{call}\t{CALLS}\t{beside}"))?;
            }
        }
    }
    Ok(())
}

/// One path.
struct Path {
    call: fn(&mut Crowd, usize) -> Result<(), BenchError>,
    /// The object that the n-th call is about, among so many.
    which: fn(usize, usize) -> usize,
    count: fn(&Crowd) -> usize,
}

/// The path of a kind with this name.
fn called(kind: &Kind, name: &str) -> Result<Path, BenchError> {
    let count = kind.count;
    if kind.make.0 == name {
        return Ok(Path { call: kind.make.1, which: |_, many| many, count });
    }
    let act = kind.calls.iter().chain(std::iter::once(&kind.destroy)).find(|act| act.0 == name);
    let act = act.ok_or_else(|| BenchError::Device(format!("{} have no call {name}", kind.name)))?;
    Ok(Path { call: act.1, which: strewn, count })
}

fn warm_and_counted(crowd: &mut Crowd, path: &Path) -> Result<(), BenchError> {
    calls(crowd, path, 0..WARM)?;
    counted_calls(crowd, path)
}

/// Callgrind knows this by its name.
#[inline(never)]
fn counted_calls(crowd: &mut Crowd, path: &Path) -> Result<(), BenchError> {
    calls(crowd, path, WARM..WARM + CALLS)
}

fn calls(crowd: &mut Crowd, path: &Path, mut numbers: std::ops::Range<usize>) -> Result<(), BenchError> {
    numbers.try_for_each(|nth| {
        let many = (path.count)(crowd);
        (path.call)(crowd, (path.which)(nth, many))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_is_a_call_of_a_kind() {
        for (name, calls) in PATHS {
            let kind = KINDS.iter().find(|kind| kind.name == name).expect(name);
            calls.iter().for_each(|call| assert!(called(kind, call).is_ok(), "{name}: {call}"));
        }
    }
}
