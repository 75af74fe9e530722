//! Files that processes hand over, until the kernel has put them in place of pages ([`dxgkrnl::GivenMemory`]). The host checks each file when
//! it comes (`shared_words::GivenFile`), and names it by a number that is valid for the one call that it came with.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dxgkrnl::GivenMemory;
use kmt_calls::{Call, Refusal, Reply, SectionCall};
use shared_words::{GivenError, GivenFile, Memory};
use wddm_types::{Blame, NtStatus, PAGE_BYTES, PageRun, ProcessId, RawHandle};

use crate::host::Host;

/// The files whose calls are under way.
pub(crate) struct GivenFiles {
    system: Arc<Memory>,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    files: BTreeMap<(ProcessId, u64), GivenFile>,
    numbers: u64,
}

impl GivenFiles {
    /// None yet; they take the place of pages of this memory.
    pub fn new(system: Arc<Memory>) -> GivenFiles {
        GivenFiles { system, waiting: Mutex::default() }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn runs(runs: &[PageRun]) -> Vec<(u64, u64)> {
        runs.iter().map(|run| (run.first * PAGE_BYTES, run.count.bytes())).collect()
    }
}

impl std::fmt::Debug for GivenFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("GivenFiles")
    }
}

impl GivenMemory for GivenFiles {
    fn takes(&self, process: ProcessId, given: u64, runs: &[PageRun]) -> Result<(), String> {
        let waiting = self.waiting();
        let file = waiting.files.get(&(process, given)).ok_or("the process has handed over no such file")?;
        let runs = GivenFiles::runs(runs);
        let bytes: u64 = runs.iter().map(|(_, bytes)| bytes).sum();
        if bytes != file.bytes() {
            return Err(format!("a section of {bytes} bytes over {} bytes of a file", file.bytes()));
        }
        self.system.place(file, &runs).map_err(|error| format!("the file is not to be mapped for stores: {error}"))
    }

    fn returns(&self, runs: &[PageRun]) {
        for (offset, bytes) in GivenFiles::runs(runs) {
            // PANIC: as when lent pages are taken back: going on would show the process the content of the pages' next owner.
            self.system.take_back(offset, bytes).expect("a mapping of ours in place of another");
        }
    }
}

impl Host {
    /// Creates a section of a process over bytes of a file that it has handed over: `adapter` as of [`SectionCall::Create`].
    ///
    /// # Errors
    /// The file could end this program when it is touched, or the bytes lie outside it; or the kernel refuses the section.
    // spec: memory §2.7
    pub fn section_over(
        &self,
        process: ProcessId,
        adapter: RawHandle,
        file: OwnedFd,
        offset: u64,
        size_bytes: u64,
    ) -> Result<Reply, Refusal> {
        let file = GivenFile::take(file, offset, size_bytes).map_err(|error| refused(&error))?;
        let given = {
            let mut waiting = self.given_files().waiting();
            waiting.numbers += 1;
            let given = waiting.numbers;
            waiting.files.insert((process, given), file);
            given
        };
        let answer = self.call(process, Call::Section(SectionCall::CreateOver { adapter, size_bytes, given }));
        self.given_files().waiting().files.remove(&(process, given));
        answer
    }
}

fn refused(error: &GivenError) -> Refusal {
    let (status, blame) = match error {
        GivenError::NoMemoryFile | GivenError::MayShrink => (NtStatus::NOT_SUPPORTED, Blame::Caller),
        GivenError::Outside(_) => (NtStatus::INVALID_PARAMETER, Blame::Caller),
        GivenError::System(_) => (NtStatus::NO_MEMORY, Blame::Scarcity),
    };
    Refusal { status, blame, reason: error.to_string().into(), bytes_to_trim: 0 }
}
