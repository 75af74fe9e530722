//! The cost model: how long a command takes in virtual time. Integers only. It is stated, not measured: real time runs as
//! fast as the machine does and never asks here. Called by the engine when it begins a command in virtual time.
//!
//! | command | nanoseconds |
//! |---|---|
//! | Nop, Branch, BranchPhysical, Timestamp, FlushTlb | `command_ns` |
//! | Wait | `command_ns + wait_ns`; parked, it goes on `unpark_ns` after the signal |
//! | Signal, Complete | `command_ns + signal_ns` |
//! | Copy, CopyPhysical, CopyTiled, Fill, FillPhysical | `command_ns + copy_latency_ns + bytes ÷ rate`, rate `local_copy_bytes_per_us` when every end is local memory, else `copy_bytes_per_us` |
//! | Touch, Pattern, Check, Checksum, Saxpy | `command_ns + launch_ns + bytes ÷ rate`, rate `compute_bytes_per_us`, and no more than `copy_bytes_per_us` when an operand is not local |
//! | Work, and Touch within it | the `ns` of the command and nothing; no `command_ns` either |
//! | WriteEntries, WriteEntryRun, StoreRun, CopyRun, MapAperture | `command_ns + entries × entry_ps ÷ 1000` |
//!
//! On a duplex bus CopyPhysical and FillPhysical take the engine `command_ns + copy_latency_ns` and their lane the rest (module `wires`);
//! Nop, branches, FlushTlb, WriteEntries and WriteEntryRun go on beside them, all others begin when the lanes are empty.
//!
//! Where the bus is shared ([`Timing::shares_bus`]), what kernels use in system memory costs it `bytes ÷ copy_bytes_per_us`, also within a Work
//! (module `reads`).
//!
//! Commands that take nothing do not hold time up: from the 65,536th in a row on that an engine executes, each takes `command_ns`.
//!
//! Divisions round up. Where a range begins decides whether it is local. Touch with write, Copy and Saxpy count the bytes
//! of their range once: the rates are those of ranges, not of the memory's wires.

use softgpu_spec::Command;

/// The numbers of the cost model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Fetching and decoding any command.
    pub command_ns: u64,
    /// Starting a compute kernel.
    pub launch_ns: u64,
    /// Bytes that a kernel reads or writes in a microsecond.
    pub compute_bytes_per_us: u64,
    /// Bytes that a copy or fill moves in a microsecond when system memory is one end.
    pub copy_bytes_per_us: u64,
    /// Bytes that a copy or fill moves in a microsecond inside local memory.
    pub local_copy_bytes_per_us: u64,
    /// Starting a copy or fill.
    pub copy_latency_ns: u64,
    /// Storing a value and deciding about the interrupt.
    pub signal_ns: u64,
    /// Looking at a value.
    pub wait_ns: u64,
    /// From the signal until a parked queue executes its next command.
    pub unpark_ns: u64,
    /// Picoseconds for one page-table or aperture entry.
    pub entry_ps: u64,
    /// The bus carries both directions at once: an engine issues copies and fills by bus address, and goes on (module `wires`).
    /// Else it carries one of them at a time, and so does the engine.
    pub duplex: bool,
    /// Kernels that use system memory in place and copies into local memory share one bus (module `reads`). Else each engine has a bus to itself,
    /// and work of a known length takes that wherever its memory is.
    pub shares_bus: bool,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing::MIDDLE
    }
}

/// The wires that a command's data uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Local memory only.
    Local,
    /// The bus to system memory.
    Bus,
}

impl Timing {
    /// A device of the middle class: 1 TB/s of local memory, a bus of 25 GB/s.
    pub const MIDDLE: Timing = Timing {
        command_ns: 50,
        launch_ns: 2_000,
        compute_bytes_per_us: 1_000_000,
        copy_bytes_per_us: 25_000,
        local_copy_bytes_per_us: 400_000,
        copy_latency_ns: 1_000,
        signal_ns: 100,
        wait_ns: 100,
        unpark_ns: 500,
        entry_ps: 500,
        duplex: false,
        shares_bus: false,
    };

    /// The same device on a bus that carries so many bytes in a microsecond each way, both ways at once.
    #[must_use]
    pub fn with_link(self, bytes_per_us: u64) -> Timing {
        Timing { copy_bytes_per_us: bytes_per_us, duplex: true, ..self }
    }

    /// The same device, whose kernels and copies share the bus.
    #[must_use]
    pub fn with_shared_bus(self) -> Timing {
        Timing { shares_bus: true, ..self }
    }

    /// How long the bus carries what a kernel reads or writes in system memory.
    pub(crate) fn bus_ns(&self, bytes: u64) -> u64 {
        span(bytes, self.copy_bytes_per_us)
    }

    /// Of a copy or fill, the part that the engine takes to issue it.
    pub(crate) fn issue_ns(&self) -> u64 {
        self.command_ns.saturating_add(self.copy_latency_ns)
    }

    /// What a command takes instead of nothing when it is one of too many in a row.
    pub(crate) fn least_ns(&self) -> u64 {
        self.command_ns.max(1)
    }

    /// How long `command` takes, in nanoseconds. `path` matters only to commands that move bulk content.
    pub fn duration(&self, command: &Command<'_>, path: Path) -> u64 {
        let copy = |bytes: u64| {
            let rate = match path {
                Path::Local => self.local_copy_bytes_per_us,
                Path::Bus => self.copy_bytes_per_us,
            };
            self.copy_latency_ns.saturating_add(span(bytes, rate))
        };
        let kernel = |bytes: u64| {
            let rate = match path {
                Path::Local => self.compute_bytes_per_us,
                Path::Bus => self.compute_bytes_per_us.min(self.copy_bytes_per_us),
            };
            self.launch_ns.saturating_add(span(bytes, rate))
        };
        let entries = |count: u64| count.saturating_mul(self.entry_ps).div_ceil(1000);
        let work = match *command {
            Command::Work { ns } => return ns,
            Command::Touch { within: true, .. } => return 0,
            Command::Nop
            | Command::Branch { .. }
            | Command::BranchPhysical { .. }
            | Command::Timestamp { .. }
            | Command::FlushTlb { .. }
            | Command::Log { .. }
            | Command::Store { .. }
            | Command::TouchPhysical { .. } => 0,
            Command::Wait { .. } => self.wait_ns,
            Command::Signal { .. } | Command::SignalAlways { .. } | Command::Complete { .. } => self.signal_ns,
            Command::Copy { bytes, .. }
            | Command::CopyPhysical { bytes, .. }
            | Command::CopyTiled { bytes, .. }
            | Command::Fill { bytes, .. }
            | Command::FillPhysical { bytes, .. } => copy(bytes),
            Command::Touch { bytes, .. }
            | Command::Pattern { bytes, .. }
            | Command::Check { bytes, .. }
            | Command::Checksum { bytes, .. } => kernel(bytes),
            Command::Saxpy { elements, .. } => kernel(elements.saturating_mul(4)),
            Command::WriteEntries { entries: list, .. } => entries(list.len() as u64),
            Command::WriteEntryRun { count, .. } | Command::StoreRun { count, .. } | Command::CopyRun { count, .. } => {
                entries(u64::from(count))
            }
            Command::MapAperture { count, .. } => entries(count),
        };
        self.command_ns.saturating_add(work)
    }
}

/// Nanoseconds for `bytes` at a rate, rounded up. A rate of 0 counts as 1, so that nothing takes no end.
fn span(bytes: u64, bytes_per_us: u64) -> u64 {
    let ns = (u128::from(bytes) * 1000).div_ceil(u128::from(bytes_per_us.max(1)));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_above_is_what_is_charged() {
        let timing = Timing::default();
        let copy = Command::Copy { source_va: 0, target_va: 0, bytes: 1 << 20 };
        assert_eq!(timing.duration(&copy, Path::Bus), 50 + 1_000 + 41_944, "1 MiB at 25 GB/s, rounded up");
        assert_eq!(timing.duration(&copy, Path::Local), 50 + 1_000 + 2_622);
        let touch = Command::Touch { va: 0, bytes: 1_000_000, write: false, within: false };
        assert_eq!(timing.duration(&touch, Path::Local), 50 + 2_000 + 1_000);
        assert_eq!(timing.duration(&touch, Path::Bus), 50 + 2_000 + 40_000);
        assert_eq!(timing.duration(&Command::Work { ns: 7_000_001 }, Path::Local), 7_000_001, "and no more");
        let within = Command::Touch { va: 0, bytes: 1_000_000, write: true, within: true };
        assert_eq!(timing.duration(&within, Path::Bus), 0);
        assert_eq!(timing.duration(&Command::Wait { va: 0, value: 1, log: None }, Path::Local), 150);
        let run = Command::WriteEntryRun { table: 0, first: 0, count: 3, entry: 0, step: 0 };
        assert_eq!(timing.duration(&run, Path::Local), 52, "1500 ps are 2 ns");
    }

    #[test]
    fn absurd_sizes_and_rates_end() {
        let timing = Timing { copy_bytes_per_us: 0, ..Timing::default() };
        let copy = Command::Copy { source_va: 0, target_va: 0, bytes: !7 };
        assert_eq!(timing.duration(&copy, Path::Bus), u64::MAX);
    }
}
