//! A command buffer under construction.

use softgpu_spec::Command;
use wddm_types::GpuVa;

/// Commands of one submission, encoded as they are added. Byte counts are rounded up to 8, which never leaves a page.
#[derive(Debug, Default)]
pub struct Commands {
    words: Vec<u64>,
}

impl Commands {
    /// None yet.
    pub fn new() -> Commands {
        Commands::default()
    }

    /// Reads a range, and writes it back changed if `write`.
    pub fn touch(&mut self, va: GpuVa, bytes: u64, write: bool) -> &mut Self {
        self.push(Command::Touch { va: va.0, bytes: bytes.next_multiple_of(8), write })
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

    /// Copies.
    pub fn copy(&mut self, source: GpuVa, target: GpuVa, bytes: u64) -> &mut Self {
        self.push(Command::Copy { source_va: source.0, target_va: target.0, bytes: bytes.next_multiple_of(8) })
    }

    /// Fills with a 32-bit pattern.
    pub fn fill(&mut self, va: GpuVa, bytes: u64, pattern: u32) -> &mut Self {
        self.push(Command::Fill { va: va.0, bytes: bytes.next_multiple_of(8), pattern })
    }

    /// Waits for a fence value on the GPU.
    pub fn wait(&mut self, current: GpuVa, value: u64) -> &mut Self {
        self.push(Command::Wait { va: current.0, value, log: None })
    }

    /// Signals a fence on the GPU.
    pub fn signal(&mut self, current: GpuVa, monitored: GpuVa, value: u64) -> &mut Self {
        self.push(Command::Signal { current_va: current.0, monitored_va: monitored.0, value, log: None })
    }

    /// Signals a monitored fence on the GPU: the processor is always interrupted.
    // spec: sync §3.7
    pub fn signal_monitored(&mut self, value_va: GpuVa, value: u64) -> &mut Self {
        self.push(Command::SignalAlways { va: value_va.0, value })
    }

    /// The same on a basic engine: a store, which interrupts nobody.
    // spec: sync §3.7
    pub fn store(&mut self, va: GpuVa, value: u64) -> &mut Self {
        self.push(Command::Store { va: va.0, words: &[value] })
    }

    /// The encoded words.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Empties the buffer for the next submission.
    pub fn clear(&mut self) {
        self.words.clear();
    }

    pub(crate) fn push(&mut self, command: Command<'_>) -> &mut Self {
        command.encode(&mut self.words);
        self
    }
}
