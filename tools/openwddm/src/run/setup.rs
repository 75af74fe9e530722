//! What the arguments and the workload together ask for: the adapter and its sizes, judged before anything is started.

use std::sync::Arc;

use device_port::Probe;
use dxgk_host::{Host, HostConfig, MemoryPolicy, Mode, PROFILES, Profile, page_table_bytes};
use replay::{ContentMode, Stage};

use crate::error::RunError;
use crate::run::recorder::{Listener, Recorder};
use crate::run::{RunOptions, Terms, stages};

/// System memory beside the workload's own: rings, command memory, reports.
const SYSTEM_EXTRA_BYTES: u64 = 256 << 20;

/// The adapter and the sizes of a run.
pub struct Setup {
    /// The profile asked for, as it is for the stage.
    pub profile: Profile,
    /// Who hands work to the engine.
    pub stage: Stage,
    /// What the memory manager chooses: the profile's choices, and what the arguments say otherwise.
    pub memory_policy: MemoryPolicy,
    /// Most bytes alive at once.
    pub peak_bytes: u64,
    /// Video memory, in whole pages of the segment.
    pub vram_bytes: u64,
    /// Bytes of addresses and backing stores that can be in use at once.
    mapped_bytes: u64,
    /// How many processes there will be.
    processes: u64,
}

impl Setup {
    /// Judges the arguments against the workload.
    ///
    /// # Errors
    /// An unknown profile, a stage that it has not, a choice that cannot be made, too little video memory for one page or for the largest operation.
    pub fn judge(
        options: &RunOptions,
        workloads: &[(replay::Workload, Terms)],
        stage: Option<Stage>,
    ) -> Result<Setup, RunError> {
        let profile = match &options.adapter {
            None => &PROFILES[0],
            Some(name) => Profile::named(name).ok_or_else(|| unknown_profile(name))?,
        };
        let stage = stage.unwrap_or_else(|| stages::latest(profile));
        let profile = stages::adapter(profile, stage)?;
        let mut memory_policy = profile.memory_policy;
        for choice in &options.choices {
            memory_policy.choose(&choice.name, &choice.value).map_err(|error| RunError::Argument {
                argument: format!("--set {}={}", choice.name, choice.value),
                problem: error.to_string(),
                remedy: format!("`openwddm adapters {}` says what it chooses", profile.name),
            })?;
        }
        let page = profile.segment_page_bytes();
        let each = || workloads.iter().map(|(workload, _)| workload);
        let peak_bytes = each().map(|workload| workload.peak_bytes(options.steps)).fold(0, u64::saturating_add);
        let vram_bytes = options.vram.bytes(peak_bytes) / page * page;
        let largest = each().map(|workload| largest_op_pages(workload, page)).max().unwrap_or(0);
        if vram_bytes < largest {
            return Err(RunError::Argument {
                argument: format!("--vram {}", options.vram.bytes(peak_bytes)),
                problem: format!(
                    "the largest operation needs {largest} bytes at once, {vram_bytes} bytes of whole pages are given"
                ),
                remedy: format!("give at least {largest} bytes (the peak is {peak_bytes})"),
            });
        }
        // Each storage is rounded up to a page; while the CPU runs ahead of the GPU, dead storages linger for a while.
        let storages: usize = each().map(|workload| workload.storages().len()).sum();
        let rounding = (storages as u64).saturating_mul(65536);
        let mapped_bytes = peak_bytes.saturating_mul(2).saturating_add(rounding);
        let processes = workloads.len() as u64;
        Ok(Setup { profile, stage, memory_policy, peak_bytes, vram_bytes, mapped_bytes, processes })
    }

    /// Whether bytes are written and checked.
    pub fn content(&self, options: &RunOptions) -> ContentMode {
        match (options.virtual_time, options.verify) {
            (true, _) => ContentMode::Timed,
            (false, true) => ContentMode::Verified,
            (false, false) => ContentMode::Written,
        }
    }

    /// Starts the kernel with its adapter.
    ///
    /// # Errors
    /// When there is no address space for it.
    pub fn start_host(&self, options: &RunOptions, recorder: &Arc<Recorder>) -> Result<Arc<Host>, RunError> {
        let mode = if options.virtual_time { Mode::Virtual { stored: false } } else { Mode::Real };
        let probe = options.recorded.then(|| Arc::clone(recorder) as Arc<dyn Probe>);
        let config = HostConfig {
            vram_bytes: self.vram_bytes,
            page_table_bytes: page_table_bytes(self.mapped_bytes),
            memory_policy: self.memory_policy,
            recovery: options.recovery,
            system_bytes: self.mapped_bytes.saturating_add(SYSTEM_EXTRA_BYTES.saturating_mul(self.processes)),
            tracer: Box::new(Listener(Arc::clone(recorder))),
            probe,
            ..HostConfig::new(&self.profile, mode)
        };
        Host::start(config).map_err(|error| RunError::Kernel {
            problem: format!("the adapter did not start: {error}"),
            remedy: "ask for less video memory, or use --virtual-time, which stores no bytes".to_owned(),
        })
    }
}

/// What the largest operation needs when each storage takes whole pages.
fn largest_op_pages(workload: &replay::Workload, page: u64) -> u64 {
    let storages = workload.storages();
    let set_bytes = |reads: &[u32], writes: &[u32]| {
        let mut set: Vec<u32> = reads.iter().chain(writes).copied().collect();
        set.sort_unstable();
        set.dedup();
        set.iter().map(|index| storages[*index as usize].bytes.next_multiple_of(page)).fold(0, u64::saturating_add)
    };
    let needs = workload.events().iter().map(|event| match event {
        replay::Event::Op { reads, writes, .. } => set_bytes(reads, writes),
        replay::Event::Death(_) => 0,
    });
    needs.max().unwrap_or(0)
}

fn unknown_profile(name: &str) -> RunError {
    let known: Vec<&str> = PROFILES.iter().map(|profile| profile.name).collect();
    RunError::Argument {
        argument: format!("--adapter {name}"),
        problem: "no profile has this name".to_owned(),
        remedy: format!("give one of {}; `openwddm adapters` says what they are", known.join(", ")),
    }
}
