//! The host itself: the machine under its lock, the devices, and the path of a call to its answer. `mount` builds an adapter, and `adapter`
//! has the calls about one; `state` is the state under the lock, `kernel_lock` the lock, `answers` the waits for answers, `event_loop` the
//! passing of time, `processes` their lives, `sleep` the loss of memory in a sleep, and `tracing` what tools switch on.

mod adapter;
mod answers;
mod clients;
mod descriptors;
mod event_loop;
mod inspect;
mod kernel_lock;
mod mount;
mod processes;
mod sleep;
mod state;
mod surface;
mod tracing;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use dxgkrnl::{Answer, CpuCache, DriverClock, Machine, StartError, Token};
use kmt_calls::{Call, DoorbellAddress, MappingId, ProcessIdentity, Reach, Refusal, Reply};
use kmt_link::{CallOrder, CpuMapping, Descriptors, DoorbellPage, OrderedAnswer};
use shared_words::{Memory, MemoryError, ReadOnlyMemory, ReadOnlyWord};
use softgpu::{DataMode, Running, SoftGpu};
use wddm_types::{AdapterIndex, Blame, ProcessId, WordAddress};

pub use self::adapter::HostAdapter;
pub(crate) use self::inspect::kernel_failed;
use crate::arenas::Arenas;
use crate::config::{HostConfig, Mode};
use crate::cpu_barrier::CpuBarrier;
use crate::cpu_cache::StaleCache;
use crate::cpu_mapping::Views;
use crate::doorbells::Doorbells;
use crate::faults::Faults;
use crate::given::GivenFiles;
use crate::host::event_loop::spawn_dispatcher;
use crate::host::mount::{Mounted, SharedParts};
use crate::host::state::HostState;
use crate::line::{LINES_MAX, Line};
use crate::own_commands::Commands;
use crate::own_events::{Heard, Rings};
use crate::time::{Clock, Stopwatch};

/// Bytes at the begin of each adapter's share of system memory for the kernel itself: fence words, rings of kernel-mode queues,
/// paging buffers.
pub const KERNEL_BYTES: u64 = 64 << 20;
/// The first adapter, which a host's own methods use.
const FIRST: AdapterIndex = AdapterIndex(0);

/// Why a host does not start.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// No address space for the memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The adapter did not start.
    #[error(transparent)]
    Adapter(#[from] StartError),
    /// Processes cannot be isolated from each other here.
    #[error(
        "processes are lent memory, and CPU caches are played in one memory for all (io_coherent off, or plays_caches)"
    )]
    Caches,
    /// Two adapters at one place of the bus.
    #[error("{0}")]
    Place(String),
    /// A size that no adapter can have.
    #[error("{0}")]
    Size(String),
}

impl HostError {
    pub(crate) fn too_large() -> HostError {
        HostError::Size("the memory sizes together exceed 64 bits".into())
    }
}

/// A call that has not been answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending(Token);

/// The number of a call in the kernel's order, and its answer; no number: the kernel has failed.
type TakenCall = (Option<u64>, Result<Result<Reply, Refusal>, Pending>);

/// A kernel with its adapters in this process. Methods about an adapter that name none use the first; [`Host::adapter`] gives the others.
pub struct Host {
    state: Mutex<HostState>,
    /// The kernel has failed. Its lock may not be poisoned yet.
    failed: Arc<AtomicBool>,
    line: Arc<Line>,
    devices: Vec<Arc<SoftGpu>>,
    system: Arc<Memory>,
    /// System memory again, mapped for reading only, for processes of this program; only where it is made of a file.
    shown: Option<ReadOnlyMemory>,
    doorbells: Arc<Doorbells>,
    mode: Mode,
    call_ns: u64,
    traces_fences: AtomicBool,
    threads: Mutex<Option<Threads>>,
    /// A thread on each processor, in real time, where processes elsewhere ring without a barrier of their own.
    cpu_barrier: Option<CpuBarrier>,
    /// The descriptors that stand for NT handles, once there is one.
    descriptors: Mutex<Option<Descriptors>>,
    given: Arc<GivenFiles>,
    /// The files of processes elsewhere.
    arenas: Arc<Arenas>,
    /// Failures that were asked for.
    faults: Option<Arc<Faults>>,
    /// Events of processes that ask for their own.
    own_events: Arc<Rings>,
    /// Commands of processes that ask for their own.
    own_commands: Arc<Commands>,
    /// This program's. Read at the start: later the program may have given up files.
    identity: ProcessIdentity,
}

struct Threads {
    running: Vec<Running>,
    dispatcher: JoinHandle<()>,
}

impl Host {
    /// Powers the devices on and starts their drivers under a fresh kernel.
    ///
    /// # Errors
    /// See [`HostError`].
    pub fn start(mut config: HostConfig) -> Result<Arc<Host>, HostError> {
        let mut setups = config.take_adapters();
        let faults = config.faults.take().map(|plan| Faults::before(&mut setups, &plan));
        if setups.len() > LINES_MAX {
            return Err(HostError::Size(format!("{} adapters: a host has at most {LINES_MAX}", setups.len())));
        }
        let (isolates, plays_caches) = (config.isolates_processes, config.plays_caches || !config.io_coherent);
        if isolates && plays_caches {
            return Err(HostError::Caches);
        }
        let (measured, system_total) = mount::measure(setups)?;
        let reserve = if config.memory_files { Memory::reserve_file } else { Memory::reserve };
        let system = reserve(system_total)?;
        let cpu_cache = plays_caches.then(|| StaleCache::new(&system)).transpose()?;
        let (clock, data) = (Clock::of(config.mode), data_of(config.mode));
        let (line, doorbells) = (Arc::new(Line::default()), Arc::new(Doorbells::default()));
        let (given, arenas) = (Arc::new(GivenFiles::new(Arc::clone(&system))), Arc::new(Arenas::default()));
        let (own_events, own_commands) = (Arc::new(Rings::default()), Arc::new(Commands::default()));
        let shared = SharedParts {
            system: &system,
            doorbells: &doorbells,
            reserve,
            data,
            isolates,
            given: &given,
            arenas: &arenas,
            cpu_cache: cpu_cache.clone().map(|cache| cache as Arc<dyn CpuCache>),
            snoops: config.io_coherent,
            driver_clock: matches!(config.mode, Mode::Real)
                .then(|| Arc::new(Stopwatch::start()) as Arc<dyn DriverClock>),
            commands: &own_commands,
        };
        let mounted = mount::all(measured, &shared, &line)?;
        let devices: Vec<Arc<SoftGpu>> = mounted.iter().map(|adapter| Arc::clone(&adapter.device)).collect();
        mount::connect(&devices, cpu_cache.as_ref().filter(|_| config.io_coherent));
        // The engines run before the drivers start: real hardware does not wait for its driver either.
        let running = matches!(config.mode, Mode::Real).then(|| devices.iter().map(SoftGpu::run_threads).collect());
        let machine = Machine::new(handle_key(config.mode));
        let views = Views::new(Arc::clone(&system), devices.clone(), cpu_cache, config.memory_files);
        let tracer = Box::new(Heard::new(&own_events, &own_commands, config.tracer));
        let mut state = HostState::new(machine, Arc::clone(&system), tracer, clock, Arc::clone(&line), views);
        for Mounted { miniport, adapter, provided, .. } in mounted {
            state.platforms.push(Box::new(provided));
            state.turn(|machine, cx| machine.start_adapter(cx, miniport, adapter))?;
        }
        let processors = config.processors.filter(|_| isolates && config.mode == Mode::Real);
        let host = Arc::new(Host {
            failed: Arc::clone(&state.failed),
            state: Mutex::new(state),
            line,
            devices,
            shown: (config.memory_files && !isolates).then(|| ReadOnlyMemory::of(&system)).transpose()?,
            system,
            doorbells,
            mode: config.mode,
            call_ns: config.profile.call_ns,
            traces_fences: AtomicBool::new(false),
            threads: Mutex::new(None),
            cpu_barrier: processors.as_ref().and_then(CpuBarrier::start),
            descriptors: Mutex::new(None),
            given,
            arenas,
            faults,
            own_events,
            own_commands,
            identity: own_identity(),
        });
        host.set_going(running, isolates);
        Ok(host)
    }

    /// Has time pass: the dispatcher carries on what the engines' threads report; in virtual time a view that waits takes the next step.
    fn set_going(self: &Arc<Self>, running: Option<Vec<Running>>, isolates: bool) {
        if matches!(self.mode, Mode::Virtual { .. }) {
            let weak = Arc::downgrade(self);
            let pass = move || weak.upgrade().is_some_and(|host| host.step());
            self.hold().views.pass_time_by(Arc::new(pass));
        }
        if let Some(running) = running {
            if isolates {
                clients::spawn_lender(self);
            }
            let dispatcher = spawn_dispatcher(Arc::downgrade(self), Arc::clone(&self.line));
            *lock(&self.threads) = Some(Threads { running, dispatcher });
        }
    }

    /// The arenas of processes elsewhere.
    pub(crate) fn arenas(&self) -> &Arenas {
        &self.arenas
    }

    /// The files that processes hand over.
    pub(crate) fn given_files(&self) -> &GivenFiles {
        &self.given
    }

    /// Makes a call and waits for its answer: on this thread in real time, by letting virtual time pass otherwise.
    ///
    /// # Errors
    /// The kernel's refusal. In virtual time also when no event is left that could end the call.
    pub fn call(&self, process: ProcessId, call: Call) -> Result<Reply, Refusal> {
        self.call_in_order(process, call, &|| {}).0
    }

    /// The same, and tells the call's place in the kernel's order. A call that the kernel has taken and answers later is told by `waits` before
    /// this thread waits for the answer. Calls that the kernel refuses because it has failed have no place.
    pub fn call_in_order(&self, process: ProcessId, call: Call, waits: &dyn Fn()) -> OrderedAnswer {
        match self.take_call(process, call, false) {
            (taken, Ok(result)) => (result, taken.map(|taken| CallOrder { taken, answered: taken })),
            (taken, Err(pending)) => {
                waits();
                let (result, answered) = self.finish(Some(process), pending);
                let order = taken.zip(answered).map(|(taken, answered)| CallOrder { taken, answered });
                (result, order)
            }
        }
    }

    /// Makes a call; [`Pending`] names an answer that comes later. For programs that run several processes by themselves, as a simulator does.
    ///
    /// # Errors
    /// The pending call: it is not a failure.
    pub fn begin_call(&self, process: ProcessId, call: Call) -> Result<Result<Reply, Refusal>, Pending> {
        self.take_call(process, call, false).1
    }

    /// A call that makes objects, behind the closes of descriptors before it: a quota counts nothing that only these kept.
    #[inline(never)] // off the way of all other calls
    fn take_behind_closes(&self, process: ProcessId, call: Call) -> TakenCall {
        match self.take_call(process, call.clone(), true) {
            (_, Ok(Err(refusal))) if refusal.blame == Blame::Quota => {
                self.close_nt_handles();
                self.take_call(process, call, true)
            }
            taken => taken,
        }
    }

    /// One turn of the kernel for a call, and its number in the kernel's order. `is_final`: the call is not made again for a quota.
    fn take_call(&self, process: ProcessId, call: Call, is_final: bool) -> TakenCall {
        match call.reach() {
            Reach::Own => {}
            Reach::New if is_final || !self.gives_descriptors() => {}
            Reach::New => return self.take_behind_closes(process, call),
            Reach::Others => self.close_nt_handles(),
        }
        let mut state = match self.hold_sound() {
            Ok(state) => state,
            Err(refusal) => return (None, Ok(Err(refusal))),
        };
        let taken = state.next_in_order();
        let refused = self.faults.as_ref().and_then(|faults| faults.refuses(call.name(), state.clock.now_ns()));
        let answer = match refused {
            None => state.turn(|machine, cx| machine.call(cx, process, call)),
            Some(refusal) => Answer::Done(Err(refusal)),
        };
        if matches!(self.mode, Mode::Virtual { .. }) {
            let until = state.clock.now_ns() + self.call_ns;
            self.run_until(&mut state, until);
        }
        let answered = match answer {
            Answer::Done(result) => Ok(result),
            Answer::Later(token) => match state.answers.remove(&token) {
                // Still the turn of the call, or virtual time that passes with it: no other call came between.
                Some(answer) => Ok(answer.result),
                None => Err(Pending(token)),
            },
        };
        (Some(taken), answered)
    }

    /// Virtual time: lets the next event happen. False: there is none, and there will be none without a call.
    pub fn step(&self) -> bool {
        self.step_locked(&mut self.hold())
    }

    /// Virtual time: lets the next event happen if its time is not after `until_ns`; else moves the clock to `until_ns` and returns false. In
    /// real time events happen by themselves.
    pub fn step_until(&self, until_ns: u64) -> bool {
        self.step_until_locked(&mut self.hold(), until_ns)
    }

    /// The kernel's clock.
    pub fn now_ns(&self) -> u64 {
        self.hold().clock.now_ns()
    }

    /// System memory.
    pub fn system_memory(&self) -> &Arc<Memory> {
        &self.system
    }

    /// A word that a process of this program may look at. Where memory is made of files a store through its address ends the program;
    /// else only its type keeps a program from one.
    // spec: sync §1.4
    pub fn read_only(&self, address: WordAddress) -> ReadOnlyWord {
        match &self.shown {
            Some(shown) => shown.word(address.0),
            None => ReadOnlyWord::new(Arc::clone(&self.system), address.0),
        }
    }

    /// The mapping behind a lock of a process.
    pub fn mapping(&self, process: ProcessId, mapping: MappingId) -> Option<Arc<CpuMapping>> {
        self.hold().views.of(process, mapping)
    }

    /// The page of a process's doorbell.
    pub fn doorbell(&self, process: ProcessId, address: DoorbellAddress) -> Option<Arc<DoorbellPage>> {
        self.doorbells.of(process, address)
    }
}

/// What the operating system says of this program.
fn own_identity() -> ProcessIdentity {
    ProcessIdentity::new(std::process::id(), &std::fs::read_to_string("/proc/self/comm").unwrap_or_default())
}

/// Locks a mutex also when a thread has panicked under it. That thread has left the machine between two events of ours, never between two
/// words of shared memory, and reports its panic itself; other threads go on.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the devices of a host store content.
fn data_of(mode: Mode) -> DataMode {
    if matches!(mode, Mode::Virtual { stored: false }) { DataMode::Modelled } else { DataMode::Stored }
}

/// The key under which the kernel draws NT handles: random where programs share a kernel, the same in every run of virtual time.
fn handle_key(mode: Mode) -> [u64; 2] {
    match mode {
        // The standard library seeds its hash maps from the operating system.
        Mode::Real => [0, 1].map(|half: u64| RandomState::new().hash_one(half)),
        Mode::Virtual { .. } => [0x6f70_656e_7764_646d, 0x6e74_2068_616e_646c],
    }
}
