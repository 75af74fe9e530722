//! Permanent system copies as the CPU was shown them (memory §2.2). `adapter::lock` compares.

use vidmm::AllocationId;

use super::CpuView;

/// Ranges of an allocation's pages, ascending: first and how many.
pub type WrittenPages = Vec<(u64, u64)>;

/// A copy as the CPU saw it when it was shown it.
pub(super) enum Baseline {
    /// The copy is still being brought up to date: its process has not been shown it.
    Awaited,
    /// It was this.
    Bytes(Vec<u8>),
    /// There are no bytes.
    Unknown,
}

/// What the CPU was shown of a copy.
pub enum Shown<'a> {
    /// Nothing, or nothing yet.
    Nothing,
    /// A copy without bytes.
    Unknown,
    /// These bytes.
    Bytes(&'a [u8]),
}

impl CpuView {
    /// An allocation was locked for the first time whose copy is being brought up to date.
    pub fn await_copy(&mut self, id: AllocationId) {
        self.copies.insert(id, Baseline::Awaited);
    }

    /// Whether a copy is being brought up to date.
    pub fn awaits_copy(&self, id: AllocationId) -> bool {
        matches!(self.copies.get(&id), Some(Baseline::Awaited))
    }

    /// The CPU is about to see a copy that holds these bytes; `None`: it holds none.
    pub fn show_copy(&mut self, id: AllocationId, bytes: Option<Vec<u8>>) {
        debug_assert!(self.awaits_copy(id), "a copy is shown when it is up to date: {id:?}");
        self.copies.insert(id, bytes.map_or(Baseline::Unknown, Baseline::Bytes));
    }

    /// What the CPU was shown of a copy.
    pub fn copy(&self, id: AllocationId) -> Shown<'_> {
        match self.copies.get(&id) {
            None | Some(Baseline::Awaited) => Shown::Nothing,
            Some(Baseline::Unknown) => Shown::Unknown,
            Some(Baseline::Bytes(bytes)) => Shown::Bytes(bytes),
        }
    }

    /// The last lock of it has ended.
    pub fn forget_copy(&mut self, id: AllocationId) {
        self.copies.remove(&id);
    }

    /// An adapter that sleeps uploads these pages of a copy when it wakes.
    pub fn upload_late(&mut self, id: AllocationId, written: WrittenPages) {
        debug_assert!(!written.is_empty(), "pages are uploaded late: {id:?} has none");
        self.late.push((id, written));
    }

    /// The pages that were to be uploaded late.
    #[must_use]
    pub fn take_late(&mut self) -> Vec<(AllocationId, WrittenPages)> {
        std::mem::take(&mut self.late)
    }
}
