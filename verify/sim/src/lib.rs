//! The whole world from one seed: processes, kernel, driver and device in virtual time, with every byte stored and very
//! little memory, so that everything is always being moved.
//!
//! [`run`] makes the world of a seed: an adapter of one of some profiles with 256 KiB to 4 MiB of video memory, and two to
//! four processes that create, map, make resident, evict, lock, submit to rings and to the kernel, signal and wait on
//! fences of every kind, destroy things in the middle, make calls that must be refused, and die in the middle. Between
//! their calls the hardware runs for a number of steps that the seed decides. The same seed gives the same events at the
//! same times, in every build: their hash says so. From seed 1000 on worlds are of several kinds: in some leaf tables are
//! converted, in some hardware wants idle address spaces, in some surfaces move within their segment, tiles are copied, or
//! roots grow while tables leave. Worlds 2000 to 3999 live by packets: contexts of different ranks that are preempted, buffers that
//! run in portions, and on every second adapter the locks and the residency of the first generation. In worlds 4000 to 5999
//! memory moves in other ways: in some paging is packets that work by GPU virtual address, in some packets run at the CPU's
//! addresses, in some the words of fences are in video memory, where they are evicted like content. From seed 6000 on the kinds take
//! turns, those of the first thousand and one with dual leaf tables among them: any thirteen seeds in a row cover every kind, as the run of
//! fresh seeds before each change does. In most of these doorbells are taken away, because there are fewer than queues or because an engine
//! has nothing to do, and in some the whole adapter sleeps now and then. One of the thirteen has another world beside it, in which
//! processes have work on two adapters ([`run_crossing`]); from seed 9500 on another of them has one in which they have displays
//! ([`run_displays`]). From seed 12000 on every fourth kernel lends its processes what they see, so that locks of video memory begin and
//! end at turns of the paging ring. From seed 13000 on a third of the thirteen has a world beside it in which CPUs wait for what queues of
//! all devices signal, while the driver is late with its interrupts ([`run_waiters`]). From seed 15000 on three in ten kernels plan their evictions. From seed 16000 on
//! a fourth of the thirteen has a world beside it in which processes repeat their work, and read in place what does not fit ([`run_readers`]).
//! From seed 17000 on the CPUs of two worlds in five look again and again at what they have locked, while other content takes its place.
//! From seed 10^10 on the drivers of half the worlds without packets are late with faults, and refuse meanwhile what is for the node.
//! From seed 10,000,000,000 on every world has a bystander, a process that only makes ordinary calls, and every seed has a world beside it, on any
//! built-in adapter, in which processes leave undone what others might wait for ([`run_holders`]).
//!
//! # What is checked, all the time
//! | checker | rule |
//! |---|---|
//! | frames | content enters a frame only when no entry and no TLB leads there; entries name only what is their process's |
//! | residency | no device of a process that behaves is ever lost |
//! | content | every check that a command buffer makes, every checksum, everything that the CPU reads back |
//! | fences | words never go back; no waiter is woken early; none is forgotten; MonitoredValues cover every wait |
//! | packets | a packet runs once, in its context's order; ids rise, those of paging buffers stay over a preemption |
//! | paging order | paging work is queued, submitted and completed in one order |
//! | answers | what behaves is refused only for scarcity; what does not is refused and changes nothing |
//! | bystander | each call of a process that only makes ordinary calls ends within a bounded virtual time, whatever others do |
//! | liveness | the world comes to its end, and every wait is answered |
//! | assertion | nothing in kernel, driver or device panics |
//! | invariants | the kernel's own account of pages, lists, addresses, objects agrees with itself |
//! | nothing left | what a process that died had is gone at rest, without another call |
//! | displays | no frame is torn, pictures come in their order; each flip is shown or dropped once, no process waits for ever |
//! | ddi contract | handles of the driver live from create to destroy; at the end it holds nothing of the dead; no process rings without power |
//!
//! [`Sabotage`] breaks something on purpose, so that each checker is seen to fail.

mod bystander;
mod caller;
mod check;
mod crossing;
mod displays;
mod holders;
mod neighbours;
mod process;
mod random;
mod readers;
mod renderers;
mod report;
mod sabotage;
mod shape;
mod waiters;
mod watch;
mod world;

pub use bystander::Bystander;
pub use random::Random;
pub use report::{Report, Violation};
pub use sabotage::Sabotage;
pub use shape::eviction;

/// Runs the world of a seed to its end.
///
/// # Errors
/// The first rule that was broken, with its seed.
pub fn run(seed: u64) -> Result<Report, Box<Violation>> {
    if shape::has_crossing(seed) {
        run_crossing(seed)?;
    }
    if shape::has_displays(seed) {
        run_displays(seed)?;
    }
    if shape::has_waiters(seed) {
        run_waiters(seed)?;
    }
    if shape::has_readers(seed) {
        run_readers(seed)?;
    }
    if shape::has_bystanders(seed) {
        run_holders(seed)?;
    }
    world::run(seed, Sabotage::None)
}

/// Runs the world of a seed in which processes have work on two adapters.
///
/// # Errors
/// The first rule that was broken, with its seed.
pub fn run_crossing(seed: u64) -> Result<Report, Box<Violation>> {
    crossing::run(seed, Sabotage::None)
}

/// Runs the world of a seed in which processes have displays.
///
/// # Errors
/// The first rule that was broken, with its seed.
pub fn run_displays(seed: u64) -> Result<Report, Box<Violation>> {
    displays::run(seed, Sabotage::None)
}

/// Runs the world of a seed in which CPUs wait for what queues of all devices signal.
///
/// # Errors
/// The first rule that was broken, with its seed.
pub fn run_waiters(seed: u64) -> Result<Report, Box<Violation>> {
    waiters::run(seed, Sabotage::None)
}

/// Runs the world of a seed in which processes repeat their work, and read in place what does not fit.
///
/// # Errors
/// The first rule that was broken, with its seed.
pub fn run_readers(seed: u64) -> Result<Report, Box<Violation>> {
    readers::run(seed)
}

/// Runs the world of a seed in which processes leave undone what others might wait for.
///
/// # Errors
/// The first rule that was broken, with its seed.
pub fn run_holders(seed: u64) -> Result<Report, Box<Violation>> {
    holders::run(seed, Sabotage::None)
}

/// As [`run_holders`] with something broken.
///
/// # Errors
/// The first rule that was broken: what is wanted here.
pub fn run_holders_sabotaged(seed: u64, sabotage: Sabotage) -> Result<Report, Box<Violation>> {
    holders::run(seed, sabotage)
}

/// The same of waiters with something broken.
///
/// # Errors
/// The first rule that was broken: what is wanted here.
pub fn run_waiters_sabotaged(seed: u64, sabotage: Sabotage) -> Result<Report, Box<Violation>> {
    waiters::run(seed, sabotage)
}

/// As [`run_displays`] with something broken.
///
/// # Errors
/// The first rule that was broken: what is wanted here.
pub fn run_displays_sabotaged(seed: u64, sabotage: Sabotage) -> Result<Report, Box<Violation>> {
    displays::run(seed, sabotage)
}

/// As [`run_crossing`] with something broken.
///
/// # Errors
/// The first rule that was broken: what is wanted here.
pub fn run_crossing_sabotaged(seed: u64, sabotage: Sabotage) -> Result<Report, Box<Violation>> {
    crossing::run(seed, sabotage)
}

/// Runs the world of a seed with something broken.
///
/// # Errors
/// The first rule that was broken: what is wanted here.
pub fn run_sabotaged(seed: u64, sabotage: Sabotage) -> Result<Report, Box<Violation>> {
    world::run(seed, sabotage)
}
