//! The time from a signal to its waiter, path by path, through the whole stack in real time, as seen by a program that picks a path. Beside
//! them stand the limits of the same processors: a cache line, a futex, an eventfd. Called by the command line.
//!
//! All times are the device's clock. Between engines two queues hand each other the turn many times, and the first of them writes
//! down when it had its first and its last; between an engine and a thread the engine writes it down before it signals, and the
//! thread reads it when it knows.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use d3dkmt::{Adapter, Fence, FenceFlags, NativeFenceRequest, OpenSyncObjectRequest, SyncObjectAccess, VirtualContext};
use dxgk_host::{AdapterSetup, Host, HostConfig, Mode, ProcessLink, Profile};
use kmt_link::Link;
use softgpu_umd::{Commands, Gpu, Stream, StreamConfig, Surface, SurfaceKind};
use wddm_types::{GpuVa, NodeId};

use crate::machine::{IdleExit, Machine};
use crate::pingpong::{eventfd_wake_ns, futex_wake_ns, line_one_way_ns};
use crate::report::BenchError;
use crate::statistic::median;
use crate::waits::{FromEngine, FromThread, Waiter};

const MIB: u64 = 1 << 20;
pub(crate) const COMPUTE: NodeId = NodeId(0);
const COPY: NodeId = NodeId(1);
/// How long everything is left alone before a turn begins: engines have parked, threads sleep.
pub(crate) const SETTLE: Duration = Duration::from_micros(500);
/// How long a batch may take before the measure gives up: many times what the slowest path needs on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// How much is measured.
#[derive(Clone, Copy)]
struct Amounts {
    batches: usize,
    /// Turns of a batch.
    turns: u64,
    wakes: u32,
}

const FULL: Amounts = Amounts { batches: 31, turns: 400, wakes: 501 };
const SMOKE: Amounts = Amounts { batches: 3, turns: 20, wakes: 21 };

/// One path.
struct Path {
    name: &'static str,
    ns: f64,
    /// Interrupts that the kernel dispatched, a turn.
    interrupts: Option<f64>,
}

/// Measures every path and prints the table. `smoke`: few rounds, which show in seconds that everything runs.
///
/// # Errors
/// When the output or the memory fails, or the kernel refuses what the measure needs.
pub fn fence_paths(smoke: bool, out: &mut dyn Write) -> Result<(), BenchError> {
    let amounts = if smoke { SMOKE } else { FULL };
    // The paths that sleep are those whose processor may halt.
    let machine = Machine::look(IdleExit::NotHeld("it is part of what is measured".into()));
    let Some(pair) = machine.pair else {
        writeln!(out, "{machine}\nfence paths need two processors")?;
        return Ok(());
    };
    let line = line_one_way_ns(pair, 9, 5_000);
    let futex = futex_wake_ns(pair, amounts.wakes);
    let mut paths = vec![
        Path { name: "cache line, one way (limit)", ns: line, interrupts: None },
        Path { name: "futex wake of a sleeper (reference)", ns: futex, interrupts: None },
        Path {
            name: "eventfd wake of a sleeper (reference)",
            ns: eventfd_wake_ns(pair, amounts.wakes),
            interrupts: None,
        },
    ];
    paths.extend(engine_paths(amounts)?);
    paths.extend(thread_paths(amounts)?);
    paths.push(between_threads(pair, amounts.wakes)?);
    write(&machine, &paths, [line, futex], out)
}

fn write(machine: &Machine, paths: &[Path], [line, futex]: [f64; 2], out: &mut dyn Write) -> Result<(), BenchError> {
    writeln!(out, "{machine}")?;
    let head = ["path", "time", "cache lines", "of a futex wake", "interrupts a turn"].map(String::from);
    let cells = |path: &Path| {
        let interrupts = path.interrupts.map_or("-".into(), |count| format!("{count:.2}"));
        let (lines, wakes) = (path.ns / line.max(1.0), path.ns / futex.max(1.0));
        [path.name.into(), format!("{:.0} ns", path.ns), format!("{lines:.1}"), format!("{wakes:.3}"), interrupts]
    };
    let rows: Vec<[String; 5]> = std::iter::once(head).chain(paths.iter().map(cells)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 5] = std::array::from_fn(width);
    for row in &rows {
        let cells: Vec<_> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        writeln!(out, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

/// The paths from engine to engine.
fn engine_paths(amounts: Amounts) -> Result<Vec<Path>, BenchError> {
    let mut paths = Vec::new();
    for (name, profiles) in [
        ("engine to engine, native fence, one GPU", &["discrete-4k"][..]),
        ("GPU to GPU, native fence, by doorbell", &["peer-doorbells", "peer-doorbells"]),
        ("GPU to GPU, native fence, one storage for both", &["peer-linear", "peer-linear"]),
        ("GPU to GPU, native fence, through the CPU", &["discrete-4k", "discrete-4k"]),
    ] {
        let world = World::start(profiles)?;
        let mut players = world.native_players()?;
        let (ns, interrupts) = world.turns(amounts, &mut players)?;
        paths.push(Path { name, ns, interrupts: Some(interrupts) });
    }
    let world = World::start(&["wddm2-packets"])?;
    let mut players = world.packet_players(amounts.turns)?;
    let (ns, interrupts) = world.turns(amounts, &mut players)?;
    paths.push(Path { name: "engine to engine, monitored fence, through the CPU", ns, interrupts: Some(interrupts) });
    Ok(paths)
}

/// A kernel with adapters in this process, in real time.
pub(crate) struct World {
    pub host: Arc<Host>,
    link: Arc<ProcessLink>,
}

/// A player that waits for every other value of a fence and signals the next.
struct Player {
    gpu: Gpu,
    fence: Fence,
    work: Work,
    /// Where it writes down when it had its first turn of a batch, and its last.
    stamps: Surface,
}

enum Work {
    Stream(Box<Stream>),
    /// A context, and memory for the commands of a batch.
    Packets(VirtualContext, Surface),
}

impl World {
    pub fn start(profiles: &[&str]) -> Result<World, BenchError> {
        let setup = |name: &&str| AdapterSetup {
            vram_bytes: 16 * MIB,
            page_table_bytes: 16 * MIB,
            system_bytes: 64 * MIB,
            ..AdapterSetup::new(Profile::named(name).expect("a built-in profile"), Mode::Real)
        };
        let mut setups = profiles.iter().map(setup);
        let first = setups.next().expect("one at least");
        let config = HostConfig {
            vram_bytes: first.vram_bytes,
            page_table_bytes: first.page_table_bytes,
            system_bytes: first.system_bytes,
            others: setups.collect(),
            ..HostConfig::new(&first.profile, Mode::Real)
        };
        let host = Host::start(config).map_err(|error| BenchError::Device(error.to_string()))?;
        let link = ProcessLink::new(Arc::clone(&host));
        Ok(World { host, link })
    }

    pub fn gpu(&self, adapter: usize) -> Result<Gpu, BenchError> {
        let link = Arc::clone(&self.link) as Arc<dyn Link>;
        Ok(Gpu::on(Adapter::open(link, self.host.adapter(adapter).luid())?)?)
    }

    /// Two streams over one fence: on the two engines of one GPU, or on the first engines of two.
    fn native_players(&self) -> Result<[Player; 2], BenchError> {
        let last = self.host.adapters() - 1;
        let (one, other) = (self.gpu(0)?, self.gpu(last)?);
        let mut flags = FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING;
        flags.set(FenceFlags::CROSS_ADAPTER, last != 0);
        let fence = one.device().create_native_fence(NativeFenceRequest { flags, ..NativeFenceRequest::default() })?;
        let name = fence.share(SyncObjectAccess::ALL_ACCESS)?;
        let request = OpenSyncObjectRequest { handle: name.token(), ..OpenSyncObjectRequest::default() };
        let opened = other.device().open_native_fence(request)?;
        let node = if last == 0 { COPY } else { COMPUTE };
        let streams = [
            Stream::create(&one, COMPUTE, StreamConfig::default())?,
            Stream::create(&other, node, StreamConfig::default())?,
        ];
        let [first, second] = streams.map(|stream| Work::Stream(Box::new(stream)));
        Ok([Player::new(one, fence, first)?, Player::new(other, opened, second)?])
    }

    /// Two contexts whose engines signal by commands, and which the kernel holds until then.
    fn packet_players(&self, turns: u64) -> Result<[Player; 2], BenchError> {
        let (one, other) = (self.gpu(0)?, self.gpu(0)?);
        let flags = FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING;
        let fence = one.device().create_monitored_fence(flags, 0)?;
        let name = fence.share(SyncObjectAccess::ALL_ACCESS)?;
        let request = OpenSyncObjectRequest { handle: name.token(), ..OpenSyncObjectRequest::default() };
        let opened = other.device().open_sync_object(request)?;
        let player = |gpu: Gpu, fence: Fence, node: NodeId| -> Result<Player, BenchError> {
            let context = VirtualContext::create(gpu.device(), node, Vec::new())?;
            let surface = gpu.create_surface(SurfaceKind::System, (turns * 64 + 128).next_multiple_of(4096))?;
            gpu.pin(&surface)?;
            Player::new(gpu, fence, Work::Packets(context, surface))
        };
        Ok([player(one, fence, COMPUTE)?, player(other, opened, COPY)?])
    }

    /// Nanoseconds a turn and interrupts a turn: the medians of the batches.
    fn turns(&self, amounts: Amounts, players: &mut [Player; 2]) -> Result<(f64, f64), BenchError> {
        let (mut times, mut interrupts) = (Vec::new(), Vec::new());
        let dispatched =
            || (0..self.host.adapters()).map(|at| self.host.adapter(at).counters().interrupt_dispatches).sum::<u64>();
        // One batch more than wanted: the first is the warm-up.
        for batch in 0..=amounts.batches as u64 {
            let begin = batch * (amounts.turns + 1);
            for (first, player) in (1..).zip(players.iter_mut()) {
                player.queue(begin + first, amounts.turns)?;
            }
            std::thread::sleep(SETTLE);
            let (before, device, fence) = (dispatched(), players[0].gpu.device(), &players[0].fence);
            let started = Instant::now();
            device.signal(fence, begin + 1)?;
            let last = begin + 1 + amounts.turns;
            while fence.current() < last {
                if started.elapsed() > PATIENCE {
                    return Err(BenchError::Device(format!(
                        "a turn was lost: the fence stands at {}",
                        fence.current()
                    )));
                }
                std::thread::sleep(Duration::from_micros(50));
            }
            let stamps = players[0].stamps.lock()?;
            let spent = stamps.read_word(8).saturating_sub(stamps.read_word(0));
            // Of the first player's turns the last begins when all but one have been handed on.
            times.push(spent as f64 / (amounts.turns - 2) as f64);
            interrupts.push((dispatched() - before) as f64 / amounts.turns as f64);
        }
        Ok((median(times.split_off(1)), median(interrupts.split_off(1))))
    }
}

impl Player {
    fn new(gpu: Gpu, fence: Fence, work: Work) -> Result<Player, BenchError> {
        let stamps = gpu.create_lockable_surface(SurfaceKind::System, 4096, false)?;
        gpu.pin(&stamps)?;
        Ok(Player { gpu, fence, work, stamps })
    }

    /// Queues every other turn of a batch, from a value on: wait for it, signal the next.
    fn queue(&mut self, first: u64, turns: u64) -> Result<(), BenchError> {
        let (fence, stamps) = (&self.fence, self.stamps.va());
        let last = first + turns - 2;
        // Written down: the first turn and the last.
        let stamp = |value: u64| match value {
            _ if value == first => Some(stamps),
            _ if value == last => Some(GpuVa(stamps.0 + 8)),
            _ => None,
        };
        let mine = (first..=last).step_by(2);
        match &mut self.work {
            Work::Stream(stream) => {
                let mut commands = Commands::new();
                for value in mine {
                    commands.wait(fence, value);
                    if let Some(va) = stamp(value) {
                        commands.timestamp(va);
                    }
                    commands.signal(fence, value + 1);
                }
                stream.submit(&self.gpu, &[], &commands)?;
            }
            Work::Packets(context, surface) => {
                let (mut commands, mut ends) = (Commands::new(), Vec::new());
                for value in mine {
                    let begin = commands.words().len() as u64 * 8;
                    if let Some(va) = stamp(value) {
                        commands.timestamp(va);
                    }
                    commands.signal_monitored(fence.current_va(), value + 1);
                    ends.push((value, begin, commands.words().len() as u64 * 8));
                }
                surface.lock()?.write_words(0, commands.words());
                for (value, begin, end) in ends {
                    context.wait(fence, value)?;
                    // CAST: a signal command has few words.
                    context.submit(GpuVa(surface.va().0 + begin), (end - begin) as u32, Vec::new())?;
                }
            }
        }
        Ok(())
    }
}

/// The paths from an engine to a thread that waits: it looks, or it sleeps.
fn thread_paths(amounts: Amounts) -> Result<Vec<Path>, BenchError> {
    let mut woken = FromEngine::start()?;
    let mut path = |name, waiter: Waiter, rounds: u64| {
        let (times, interrupts) = woken.batch(waiter, rounds)?;
        Ok::<_, BenchError>(Path { name, ns: median(times), interrupts: Some(interrupts) })
    };
    Ok(vec![
        path("engine to thread that polls the word", Waiter::Polls, amounts.turns * amounts.batches as u64)?,
        path("engine to thread that sleeps in a wait", Waiter::Sleeps, u64::from(amounts.wakes))?,
    ])
}

/// From the call of a thread that signals to the return of another's wait.
fn between_threads(pair: [usize; 2], rounds: u32) -> Result<Path, BenchError> {
    let ns = FromThread::start()?.ns(pair, rounds)?;
    Ok(Path { name: "thread to thread that sleeps in a wait", ns, interrupts: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_is_measured() {
        let mut out = Vec::new();
        fence_paths(true, &mut out).expect("the smoke run goes through");
        let text = String::from_utf8(out).expect("the table is text");
        for path in ["cache line", "futex", "eventfd", "by doorbell", "through the CPU", "polls", "sleeps"] {
            assert!(text.contains(path), "{path} in\n{text}");
        }
    }
}
