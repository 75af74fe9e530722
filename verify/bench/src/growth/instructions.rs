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

/// The paths: a kind of [`KINDS`] and one of its calls.
const PATHS: [(&str, &str); 11] = [
    ("allocations on a list", "MakeResident, Evict"),
    ("allocations on a list", "Evict, MakeResident"),
    ("allocations on a list", "Lock2, Unlock2"),
    ("allocations", "CreateAllocation2"),
    ("allocations", "DestroyAllocation2"),
    ("mappings", "MapGpuVirtualAddress"),
    ("devices", "GetDeviceState"),
    ("native fences", "SignalSynchronizationObjectFromCpu"),
    ("native fences", "WaitForSynchronizationObjectFromCpu"),
    ("waits for one fence", "WaitForSynchronizationObjectFromCpu"),
    ("waits for one fence", "SignalSynchronizationObjectFromCpu that ends one"),
];
/// The crowds that each path is called beside.
const BESIDE: [usize; 2] = [1_000, 16_000];
/// Calls before those that count.
const WARM: usize = 64;
const CALLS: usize = 256;

type Call = fn(&mut Crowd, usize) -> Result<(), BenchError>;

/// Plays all paths.
///
/// # Errors
/// A call that the kernel refuses, and a path that no kind has.
pub(crate) fn play(measure: &Measure) -> Result<(), BenchError> {
    for (name, call) in PATHS {
        for beside in BESIDE {
            let kind = KINDS.iter().find(|kind| kind.name == name);
            let kind = kind.ok_or_else(|| BenchError::Device(format!("no kind is called {name}")))?;
            path(kind, call, beside)?;
            measure.say(&format!("{name}\t{call}\t{CALLS}\t{beside}"))?;
        }
    }
    Ok(())
}

fn path(kind: &Kind, name: &str, beside: usize) -> Result<(), BenchError> {
    let mut crowd = Crowd::start(Way::InProcess)?;
    // Destroyed ones are there before: at the end as many are left as there are beside the others.
    let destroyed = if kind.destroy.0 == name { WARM + CALLS } else { 0 };
    while (kind.count)(&crowd) < beside + destroyed {
        let many = (kind.count)(&crowd);
        (kind.make.1)(&mut crowd, many)?;
    }
    if kind.make.0 == name {
        return warm_and_counted(&mut crowd, kind.make.1, |nth| beside + nth);
    }
    if kind.destroy.0 == name {
        return warm_and_counted(&mut crowd, kind.destroy.1, |nth| strewn(nth, beside));
    }
    let act = kind.calls.iter().find(|act| act.0 == name);
    let act = act.ok_or_else(|| BenchError::Device(format!("{} have no call {name}", kind.name)))?;
    warm_and_counted(&mut crowd, act.1, |nth| strewn(nth, beside))
}

fn warm_and_counted(crowd: &mut Crowd, call: Call, which: impl Fn(usize) -> usize) -> Result<(), BenchError> {
    (0..WARM).try_for_each(|nth| call(crowd, which(nth)))?;
    let which: Vec<usize> = (WARM..WARM + CALLS).map(which).collect();
    counted_calls(crowd, call, &which)
}

/// Callgrind knows this by its name.
#[inline(never)]
fn counted_calls(crowd: &mut Crowd, call: Call, which: &[usize]) -> Result<(), BenchError> {
    which.iter().try_for_each(|&at| call(crowd, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_is_a_call_of_a_kind() {
        for (name, call) in PATHS {
            let kind = KINDS.iter().find(|kind| kind.name == name).expect(name);
            let acts = [kind.make.0, kind.destroy.0].into_iter().chain(kind.calls.iter().map(|act| act.0));
            assert!(acts.into_iter().any(|act| act == call), "{name}: {call}");
        }
    }
}
