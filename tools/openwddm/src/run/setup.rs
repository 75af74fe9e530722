//! The adapters and their sizes, from the arguments and the workloads together, judged before anything is started.

use std::sync::Arc;

use device_port::Probe;
use dxgk_host::{AdapterSetup, Eviction, Host, HostConfig, MemoryPolicy, Mode, PROFILES, Profile, page_table_bytes};
use replay::{ContentMode, Stage};

use crate::adapters::asked;
use crate::arguments::Policy;
use crate::error::RunError;
use crate::run::recorders::{Listener, Recorders};
use crate::run::{AdapterChoice, RunOptions, Terms, budget, stages, times};
use crate::size::MemorySize;

/// System memory of a process beside its storages: rings, command memory, reports.
pub(super) const PROCESS_SYSTEM_BYTES: u64 = 16 << 20;

/// The adapters and the sizes of a run.
pub struct Setup {
    /// In the order in which they are counted; one at least.
    pub adapters: Vec<Planned>,
    /// The path by which work reaches the engines; `None`: the latest stage that each adapter has.
    pub stage: Option<Stage>,
    /// Most bytes alive at once.
    pub peak_bytes: u64,
    /// Bytes of addresses that can be in use at once.
    mapped_bytes: u64,
    /// System memory of each adapter.
    system_bytes: u64,
}

/// Video memory of a built-in adapter when no argument says another amount.
const USUAL_VRAM: MemorySize = MemorySize::OfPeak { millionths: 600_000 };

/// One adapter of a run.
pub struct Planned {
    /// The profile asked for, as it is for the stage.
    pub profile: Profile,
    /// The path by which work reaches its engine.
    pub stage: Stage,
    /// The memory manager's choices: those of the profile, with the changes of the arguments.
    pub memory_policy: MemoryPolicy,
    /// Video memory, in whole pages of the segment.
    pub vram_bytes: u64,
    /// The file that says how much that is, where no argument does.
    pub vram_file: Option<String>,
}

impl Setup {
    /// Judges the arguments against the workloads.
    ///
    /// # Errors
    /// Times that no clock counts to, an unknown profile, a stage that it has not, a choice that cannot be made, too little video memory for one page or for the largest
    /// operation, or too small a budget.
    pub fn judge(
        options: &RunOptions,
        workloads: &[(replay::Workload, Terms)],
        stage: Option<Stage>,
    ) -> Result<Setup, RunError> {
        let each = || workloads.iter().map(|(workload, _)| workload);
        times::judge(options, workloads)?;
        let peak_bytes = each().map(|workload| workload.peak_bytes(options.steps)).fold(0, u64::saturating_add);
        let adapters = match &options.adapters[..] {
            [] => vec![Planned::judge(options, (0, None), each(), peak_bytes, stage)?],
            chosen => {
                let numbered = chosen.iter().enumerate();
                let planned = numbered
                    .map(|(number, choice)| Planned::judge(options, (number, Some(choice)), each(), peak_bytes, stage));
                planned.collect::<Result<_, _>>()?
            }
        };
        // Each storage is rounded up to a page; while the CPU runs ahead of the GPU, dead storages linger, of each process as many as
        // fit the video memory.
        let page = adapters.iter().map(|planned| planned.profile.segment_page_bytes()).max().expect("one at least");
        let peaks = each().map(|workload| workload.peak_page_bytes(options.steps, page));
        let alive_bytes = peaks.fold(0, u64::saturating_add);
        let vram_bytes = adapters.iter().map(|planned| planned.vram_bytes).max().expect("one at least");
        let processes = workloads.len() as u64;
        budget::judge(workloads, &adapters, options.steps)?;
        let lingering_bytes = vram_bytes.min(alive_bytes).saturating_mul(processes);
        let mapped_bytes = alive_bytes.saturating_add(lingering_bytes);
        let needed_bytes = alive_bytes.saturating_add(PROCESS_SYSTEM_BYTES.saturating_mul(processes));
        let system_bytes = system_bytes(options, &adapters, (peak_bytes, needed_bytes))?;
        Ok(Setup { adapters, stage, peak_bytes, mapped_bytes, system_bytes })
    }

    /// Video memory of all adapters.
    pub fn vram_bytes(&self) -> u64 {
        self.adapters.iter().map(|planned| planned.vram_bytes).fold(0, u64::saturating_add)
    }

    /// The stages of the adapters, each once, as one name.
    pub fn stage_name(&self) -> String {
        let mut names: Vec<&str> = self.adapters.iter().map(|planned| stages::name(planned.stage)).collect();
        names.dedup();
        names.join(" + ")
    }

    /// The profiles as one name.
    pub fn profile_name(&self) -> String {
        let names: Vec<&str> = self.adapters.iter().map(|planned| planned.profile.name).collect();
        names.join(" + ")
    }

    /// Whether bytes are written and checked.
    pub fn content(&self, options: &RunOptions) -> ContentMode {
        match (options.virtual_time, options.verify) {
            (true, _) => ContentMode::Timed,
            (false, true) => ContentMode::Verified,
            (false, false) => ContentMode::Written,
        }
    }

    /// Starts the kernel with its adapters.
    ///
    /// # Errors
    /// When there is no address space for it.
    pub fn start_host(&self, options: &RunOptions, recorders: &Arc<Recorders>) -> Result<Arc<Host>, RunError> {
        let mode = if options.virtual_time { Mode::Virtual { stored: false } } else { Mode::Real };
        let probe = |number: usize| options.recorded.then(|| recorders.of(number) as Arc<dyn Probe>);
        let (first, others) = self.adapters.split_first().expect("there is one at least");
        let system_bytes = self.system_bytes;
        let page_table_bytes = page_table_bytes(self.mapped_bytes);
        let other = |(number, planned): (usize, &Planned)| AdapterSetup {
            vram_bytes: planned.vram_bytes,
            page_table_bytes,
            memory_policy: planned.memory_policy,
            recovery: options.recovery,
            system_bytes,
            probe: probe(number),
            ..AdapterSetup::new(&planned.profile, mode)
        };
        let config = HostConfig {
            vram_bytes: first.vram_bytes,
            page_table_bytes,
            memory_policy: first.memory_policy,
            recovery: options.recovery,
            system_bytes,
            tracer: Box::new(Listener(Arc::clone(recorders))),
            probe: probe(0),
            io_coherent: self.adapters.iter().all(|planned| planned.profile.io_coherent),
            plays_caches: self.adapters.iter().any(|planned| planned.profile.plays_caches),
            others: others.iter().enumerate().map(|(at, planned)| other((at + 1, planned))).collect(),
            ..HostConfig::new(&first.profile, mode)
        };
        Host::start(config).map_err(|error| RunError::Kernel {
            problem: format!("the adapter did not start: {error}"),
            remedy: "ask for less video memory, or use --virtual-time, which stores no bytes".to_owned(),
        })
    }
}

impl Planned {
    /// Judges one adapter: its number, and its `--adapter` argument.
    fn judge<'a>(
        options: &RunOptions,
        (number, chosen): (usize, Option<&AdapterChoice>),
        workloads: impl Iterator<Item = &'a replay::Workload>,
        peak_bytes: u64,
        stage: Option<Stage>,
    ) -> Result<Planned, RunError> {
        let profile = match chosen {
            None => &PROFILES[0],
            Some(AdapterChoice { profile, .. }) => asked("--adapter", profile)?,
        };
        if options.adapters.len() > 1 && !profile.has_cross_adapter_resources() {
            return Err(RunError::Argument {
                argument: format!("--adapter {}", profile.name),
                problem:
                    "its driver is of the first generation (WDDM 1), which has no memory that several adapters reach"
                        .to_owned(),
                remedy: "run it alone, or give another --adapter".to_owned(),
            });
        }
        if let Some(bytes) = options.constants
            && !profile.has_addresses()
        {
            return Err(RunError::Argument {
                argument: format!("--constants {bytes}"),
                problem: format!("{} has no GPU virtual addresses, by which a renamed resource is found", profile.name),
                remedy: "leave it out, or give another --adapter".to_owned(),
            });
        }
        let stage = stage.unwrap_or_else(|| stages::latest(profile));
        let profile = stages::adapter(profile, stage)?;
        let memory_policy = memory_policy(options, &profile)?;
        let profile = match options.link {
            None => profile,
            Some(link) => Profile { timing: profile.timing.with_link(link.bytes_per_us), ..profile },
        };
        // What is read in place costs the bus that copies need.
        let profile = match memory_policy.read_in_place {
            true => Profile { timing: profile.timing.with_shared_bus(), ..profile },
            false => profile,
        };
        let page = profile.segment_page_bytes();
        let own = chosen.and_then(|choice| choice.vram);
        let file = chosen.map(|choice| &choice.profile).filter(|name| name.ends_with(".toml"));
        let vram_file = file.filter(|_| own.is_none() && options.vram.is_none()).cloned();
        let usual = vram_file.as_ref().map_or(USUAL_VRAM, |_| MemorySize::Bytes(profile.vram_bytes));
        let asked = own.or(options.vram).unwrap_or(usual);
        let vram_bytes = asked.bytes(peak_bytes) / page * page;
        // One that runs nothing still has a page.
        let (mut largest, mut fences) = (page, 0);
        for workload in workloads {
            largest = largest.max(largest_op_pages(workload, number, page));
            fences += profile.fence_bytes_local();
        }
        let largest = largest.saturating_add(fences);
        if vram_bytes < largest {
            return Err(RunError::Argument {
                argument: match (own, &vram_file) {
                    (None, None) => format!("--vram {}", asked.as_argument()),
                    (None, Some(file)) => format!("--adapter {file} (vram = {vram_bytes})"),
                    (Some(_), _) => format!("--adapter {},vram={}", profile.name, asked.as_argument()),
                },
                problem: format!(
                    "the largest operation needs {largest} bytes at once, and the argument gives {vram_bytes} bytes in whole pages"
                ),
                remedy: format!("give at least {largest} bytes (the peak is {peak_bytes})"),
            });
        }
        Ok(Planned { profile, stage, memory_policy, vram_bytes, vram_file })
    }
}

/// Bytes of the largest operation of an adapter when each storage takes whole pages.
pub(super) fn largest_op_pages(workload: &replay::Workload, adapter: usize, page: u64) -> u64 {
    let storages = workload.storages();
    let set_bytes = |reads: &[u32], writes: &[u32]| {
        let mut set: Vec<u32> = reads.iter().chain(writes).copied().collect();
        set.sort_unstable();
        set.dedup();
        set.iter().map(|index| storages[*index as usize].bytes.next_multiple_of(page)).fold(0, u64::saturating_add)
    };
    let needs = workload.events().iter().map(|event| match event {
        replay::Event::Op { adapter: at, reads, writes, .. } if at.unwrap_or(0) as usize == adapter => {
            set_bytes(reads, writes)
        }
        _ => 0,
    });
    needs.max().unwrap_or(0)
}

/// System memory of each adapter: the size that the arguments name, or that of this computer. In virtual time no byte of it exists, so it
/// is at least the size that the workloads need.
///
/// # Errors
/// One adapter has to hold all storages that are alive at once, and less is given, or is there.
fn system_bytes(options: &RunOptions, adapters: &[Planned], (peak, needed): (u64, u64)) -> Result<u64, RunError> {
    let mode = if options.virtual_time { Mode::Virtual { stored: false } } else { Mode::Real };
    let there = dxgk_host::system_bytes(mode);
    let (given, argument) = match options.system {
        Some(size) => (size.bytes(peak), format!("--system {}", size.as_argument())),
        None if options.virtual_time => (there.max(needed), String::new()),
        None => (there, "the system memory of this computer".to_owned()),
    };
    // Of several adapters each holds the storages of its own operations.
    if given >= needed || adapters.len() > 1 {
        return Ok(given);
    }
    let remedy = match options.system {
        Some(_) => format!("give at least {needed} bytes, or leave --system out"),
        None => "use --virtual-time, which stores no bytes".to_owned(),
    };
    let problem = format!(
        "every storage takes system memory, also while it is in video memory; the run needs up to {needed} bytes at once, and {given} are there"
    );
    Err(RunError::Argument { argument, problem, remedy })
}

/// The memory manager's choices: those of the profile, with the changes of the arguments. `--policy planner` is one of them, and no other
/// argument may take it back.
fn memory_policy(options: &RunOptions, profile: &Profile) -> Result<MemoryPolicy, RunError> {
    let mut chosen = profile.memory_policy;
    if options.policy == Policy::Planner {
        chosen.eviction = Eviction::Planner;
    }
    for choice in &options.choices {
        chosen.choose(&choice.name, &choice.value).map_err(|error| RunError::Argument {
            argument: format!("--set {}={}", choice.name, choice.value),
            problem: error.to_string(),
            remedy: format!("`openwddm adapters {}` says what it chooses", profile.name),
        })?;
    }
    if chosen.read_in_place && (chosen.eviction != Eviction::Planner || options.policy == Policy::Kept) {
        return Err(RunError::Argument {
            argument: "--set read_in_place=on".to_owned(),
            problem: "the planner of evictions alone says what operations read in place".to_owned(),
            remedy: "add --policy planner, or leave it out".to_owned(),
        });
    }
    if options.policy == Policy::Planner && chosen.eviction != Eviction::Planner {
        return Err(RunError::Argument {
            argument: "--policy planner --set eviction=lru".to_owned(),
            problem: "the first has the kernel plan its victims, and the second forbids it".to_owned(),
            remedy: "leave out one of the two".to_owned(),
        });
    }
    Ok(chosen)
}
