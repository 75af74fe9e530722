//! Which pages the kernel lets clients map, where the host lends them pages ([`ClientMemory`](crate::ClientMemory)): backing stores of
//! allocations from their first use on, pages of sections, and for how long. Not how they are lent: that is the host's.

use shared_words::ClientAccess;
use vidmm::{AllocationId, Move, MoveKind};
use wddm_types::{CpuPlace, CpuRun, PageRun, ProcessId};

use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::platform::Viewers;

impl Adapter {
    /// Pages that have returned to VidMm's pool are no client's any more. A page's next owner may have come in the call of VidMm that gave the
    /// page back, but VidMm stores nothing: so it is soon enough to say so before the kernel stores anything in pages of VidMm, has the
    /// hardware reach them, or shows them to a client. Each of these ways begins here, and so does the end of a turn.
    pub fn revoke_returned(&mut self, cx: &Cx<'_>) {
        let returned = self.vidmm.take_returned();
        if let Some(clients) = cx.platform(self.index).clients() {
            returned.into_iter().for_each(|run| clients.ends(CpuPlace::System, run));
        }
    }

    /// An allocation that this process has created has fresh system pages. Only its creator may lock it, shared or not, and sees the
    /// pages while they are the allocation's; nearly every allocation can be locked there, visible to the CPU or not (memory §6.3, row 8).
    /// The pages hold nothing before their first use: the kernel lends them then. Whether they are lent from now on, and zero.
    pub(super) fn lend_backing(&mut self, cx: &Cx<'_>, creator: ProcessId, allocation: AllocationId) -> bool {
        if cx.platform(self.index).clients().is_none() {
            return false;
        }
        if self.vidmm.uses_backing(allocation) {
            self.revoke_returned(cx);
            return self.begin_lending(cx, Viewers::One(creator), self.vidmm.backing(allocation));
        }
        self.memory.cpu_view.note_unused(allocation, creator);
        false
    }

    /// Provides the system pages of a new allocation: lends them if the allocation uses them from the begin, or else clears them of
    /// another owner's bytes. Freshly lent pages are zero already, and cost nothing until they are touched.
    pub(super) fn provide_backing(&mut self, cx: &Cx<'_>, creator: ProcessId, allocation: AllocationId) {
        if !self.lend_backing(cx, creator, allocation) {
            self.revoke_returned(cx);
            self.zero(cx, self.vidmm.pages_to_clear(allocation));
        }
    }

    /// The system pages of an allocation are about to be used: copied to, reached by the GPU, shown to the CPU. Whether they are zero,
    /// because they are lent from now on.
    pub(super) fn backing_used(&mut self, cx: &Cx<'_>, allocation: AllocationId) -> bool {
        let Some(creator) = self.memory.cpu_view.note_used(allocation) else { return false };
        self.revoke_returned(cx);
        self.begin_lending(cx, Viewers::One(creator), self.vidmm.backing(allocation))
    }

    /// The same of what has moved out of the adapter's memory, or is reached where it is. Answers which of it is zero for that.
    pub(super) fn backings_used(&mut self, cx: &Cx<'_>, moves: &[Move]) -> Vec<PageRun> {
        let mut zero = Vec::new();
        if self.memory.cpu_view.unused().len() == 0 {
            return zero;
        }
        for moved in moves.iter().filter(|moved| matches!(moved.kind, MoveKind::PageOut | MoveKind::Map)) {
            if self.backing_used(cx, moved.allocation) {
                zero.extend_from_slice(self.vidmm.backing(moved.allocation));
            }
        }
        zero
    }

    /// Lends the system pages of a section, which have just been taken, to each process that will have it. They cease to be lent when
    /// they return to VidMm's pool. Whether they are, and zero.
    pub fn lend_system(&mut self, cx: &Cx<'_>, runs: &[PageRun]) -> bool {
        self.revoke_returned(cx);
        self.begin_lending(cx, Viewers::Several, runs)
    }

    fn begin_lending(&self, cx: &Cx<'_>, viewers: Viewers, runs: &[PageRun]) -> bool {
        let clients = cx.platform(self.index).clients().filter(|_| !runs.is_empty());
        clients.is_some_and(|clients| clients.begins(viewers, CpuPlace::System, runs, ClientAccess::ReadWrite))
    }

    /// Whether these are shown to a client by lending it the adapter's own memory.
    pub(super) fn lends(&self, cx: &Cx<'_>, runs: &[CpuRun]) -> bool {
        let own = |run: &CpuRun| matches!(run.place, CpuPlace::Bar | CpuPlace::HostAperture);
        cx.platform(self.index).clients().is_some() && runs.iter().any(own)
    }

    /// Which of these have given their backing stores up: Reclaim gives them others, with nothing in them.
    pub(super) fn without_backing(&self, allocations: &[AllocationId]) -> Vec<AllocationId> {
        let bare = |id: &AllocationId| self.vidmm.backing(*id).is_empty();
        allocations.iter().copied().filter(bare).collect()
    }
}
