//! A command buffer under construction.

use std::sync::Arc;

use d3dkmt::QueuedFence;
use kmt_link::Link;
use softgpu_spec::{Command, LogSlot};
use wddm_types::{GpuVa, RawHandle};

use crate::gpu::{Gpu, UmdError};
use crate::logs::{FenceName, Logs};

/// Commands of one submission, encoded as they are added. Byte counts are rounded up to 8, which never leaves a page.
#[derive(Debug, Default)]
pub struct Commands {
    words: Vec<u64>,
    /// Its waits and signals, in their order.
    fenced: Vec<Fenced>,
    /// A signal among them that would wake no waiter.
    mute: Option<FenceName>,
    /// The value of a monitored fence that they wait for or signal.
    monitored: Option<GpuVa>,
    clock: Clock,
    /// A length of work stands before what is recorded: touches take no time of their own.
    within_work: bool,
}

/// The kernel's clock, for the times at which waits and signals are recorded, which a tracing tool gets. None: no times.
#[derive(Default)]
struct Clock(Option<Arc<dyn Link>>);

impl Clock {
    /// The kernel's time, as long as a tool traces.
    fn recorded_ns(&self) -> Option<u64> {
        self.0.as_ref().filter(|link| link.traces_fences()).map(|link| link.now_ns())
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Clock" } else { "no clock" })
    }
}

/// Words that a log slot adds to a command.
const LOG_WORDS: usize = LogSlot::WORDS;

/// A wait for a native fence, or a signal of one.
#[derive(Clone, Copy, Debug)]
struct Fenced {
    /// At which word it begins.
    at: usize,
    handle: RawHandle,
    /// When it was recorded, if a tool traced then.
    recorded_ns: Option<u64>,
}

impl Commands {
    /// An empty list. A tool that traces takes the time of its submission for that of the recording.
    pub fn new() -> Commands {
        Commands::default()
    }

    /// An empty list that notes when each wait and each signal is recorded, for a tool that traces.
    // spec: sync §3.14 (recording can precede execution by minutes)
    pub fn recorded(gpu: &Gpu) -> Commands {
        Commands { clock: Clock(Some(Arc::clone(gpu.device().link()))), ..Commands::default() }
    }

    /// What is recorded from here to the submission is work of a known length: in virtual time it takes so many nanoseconds, and the
    /// touches behind this call, which name its memory, take none. In real time it does nothing.
    pub fn work(&mut self, ns: u64) -> &mut Self {
        self.within_work = true;
        self.push(Command::Work { ns })
    }

    /// Reads a range, and writes it back changed if `write`.
    pub fn touch(&mut self, va: GpuVa, bytes: u64, write: bool) -> &mut Self {
        let within = self.within_work;
        self.push(Command::Touch { va: va.0, bytes: bytes.next_multiple_of(8), write, within })
    }

    /// Writes the content of a seed.
    pub fn pattern(&mut self, va: GpuVa, bytes: u64, seed: u64) -> &mut Self {
        self.push(Command::Pattern { va: va.0, bytes: bytes.next_multiple_of(8), seed })
    }

    /// Compares with the content of a seed; the first mismatch is written to `report` under `tag`.
    pub fn check(&mut self, va: GpuVa, bytes: u64, seed: u64, report: GpuVa, tag: u64) -> &mut Self {
        self.push(Command::Check { va: va.0, bytes: bytes.next_multiple_of(8), seed, report_va: report.0, tag })
    }

    /// Stores the sum of all 64-bit words of a range at `result`.
    pub fn checksum(&mut self, va: GpuVa, bytes: u64, result: GpuVa) -> &mut Self {
        self.push(Command::Checksum { va: va.0, bytes: bytes.next_multiple_of(8), result_va: result.0 })
    }

    /// Copies `bytes` bytes, rounded up to whole 64-bit words, from `source` to `target`.
    pub fn copy(&mut self, source: GpuVa, target: GpuVa, bytes: u64) -> &mut Self {
        self.push(Command::Copy { source_va: source.0, target_va: target.0, bytes: bytes.next_multiple_of(8) })
    }

    /// Fills with a 32-bit pattern.
    pub fn fill(&mut self, va: GpuVa, bytes: u64, pattern: u32) -> &mut Self {
        self.push(Command::Fill { va: va.0, bytes: bytes.next_multiple_of(8), pattern })
    }

    /// Waits for a fence value on the GPU.
    pub fn wait(&mut self, fence: impl Into<FenceName>, value: u64) -> &mut Self {
        let name = fence.into();
        self.note_kind(&name);
        let FenceName { handle, current, .. } = name;
        self.note_fenced(handle);
        self.push(Command::Wait { va: current.0, value, log: None })
    }

    /// Signals a fence on the GPU. The submission of a fence whose MonitoredValue is at the address of its CurrentValue is refused.
    pub fn signal(&mut self, fence: impl Into<FenceName>, value: u64) -> &mut Self {
        let name = fence.into();
        if name.check().is_err() {
            self.mute.get_or_insert(name);
        }
        self.note_kind(&name);
        let FenceName { handle, current, monitored } = name;
        self.note_fenced(handle);
        self.push(Command::Signal { current_va: current.0, monitored_va: monitored.0, value, log: None })
    }

    /// Signals a monitored fence on the GPU, always with an interrupt. For queues that the kernel feeds.
    // spec: sync §3.7
    pub fn signal_monitored(&mut self, value_va: GpuVa, value: u64) -> &mut Self {
        self.monitored.get_or_insert(value_va);
        self.push(Command::SignalAlways { va: value_va.0, value })
    }

    /// Signals a monitored fence on a basic engine: the engine stores the value and raises no interrupt.
    // spec: sync §3.7
    pub fn store(&mut self, va: GpuVa, value: u64) -> &mut Self {
        self.push(Command::Store { va: va.0, words: &[value] })
    }

    /// Stores the device's time.
    pub fn timestamp(&mut self, va: GpuVa) -> &mut Self {
        self.push(Command::Timestamp { va: va.0 })
    }

    /// The encoded words, as they run on queues without logs: those that the kernel feeds.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Empties the buffer for the next submission.
    pub fn clear(&mut self) {
        self.words.clear();
        self.fenced.clear();
        (self.mute, self.monitored, self.within_work) = (None, None, false);
    }

    fn note_fenced(&mut self, handle: RawHandle) {
        let recorded_ns = self.clock.recorded_ns();
        self.fenced.push(Fenced { at: self.words.len(), handle, recorded_ns });
    }

    fn note_kind(&mut self, name: &FenceName) {
        if name.check_native().is_err() {
            self.monitored.get_or_insert(name.current);
        }
    }

    /// Whether every fence that they wait for or signal is a native one, as queues that processes feed need it.
    // spec: sync §1.2, sync §5
    pub(crate) fn check_native(&self) -> Result<(), UmdError> {
        self.monitored.map_or(Ok(()), |va| Err(UmdError::NotNative(va.0)))
    }

    /// Whether every signal can wake a waiter.
    pub(crate) fn check_signals(&self) -> Result<(), UmdError> {
        self.mute.map_or(Ok(()), |name| name.check())
    }

    /// Its waits and signals, for a tool. A wait or signal without a time of recording counts as recorded now.
    pub(crate) fn queued(&self, now_ns: u64) -> impl Iterator<Item = QueuedFence> {
        self.fenced.iter().map(move |&Fenced { at, handle: fence, recorded_ns }| {
            let recorded_ns = recorded_ns.unwrap_or(now_ns);
            match Command::decode(&self.words[at..]).expect("it was encoded here").0 {
                Command::Wait { value, .. } => QueuedFence { fence, value, signal: false, recorded_ns },
                Command::Signal { value, .. } => QueuedFence { fence, value, signal: true, recorded_ns },
                _ => unreachable!("only waits and signals are noted"),
            }
        })
    }

    /// How many words they are on a queue with logs.
    pub(crate) fn logged_words(&self) -> usize {
        self.words.len() + self.fenced.len() * LOG_WORDS
    }

    /// The words as they run on a queue with logs: each wait and each signal names the entry that it writes.
    // spec: sync §3.14
    pub(crate) fn logged(&self, logs: &mut Logs, out: &mut Vec<u64>) {
        let mut copied = 0;
        for Fenced { at, handle, .. } in self.fenced.iter().copied() {
            out.extend_from_slice(&self.words[copied..at]);
            let (command, words) = Command::decode(&self.words[at..]).expect("it was encoded here");
            match command {
                Command::Wait { va, value, .. } => {
                    Command::Wait { va, value, log: Some(logs.waits.next(handle)) }.encode(out);
                }
                Command::Signal { current_va, monitored_va, value, .. } => {
                    let log = Some(logs.signals.next(handle));
                    Command::Signal { current_va, monitored_va, value, log }.encode(out);
                }
                _ => unreachable!("only waits and signals are noted"),
            }
            copied = at + words;
        }
        out.extend_from_slice(&self.words[copied..]);
    }

    pub(crate) fn push(&mut self, command: Command<'_>) -> &mut Self {
        command.encode(&mut self.words);
        self
    }
}
