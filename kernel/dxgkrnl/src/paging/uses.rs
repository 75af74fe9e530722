//! The wait of the work at the head for uses of content that it takes: how long it lasts while other processes wait for the ring, and
//! how the works go on when the device gives way whose uses these are. `adapter::suspension` has the device give way.

use std::collections::{BTreeMap, BTreeSet};

use gpu_fence::FenceId;
use vidmm::{AllocationId, Operation, UsedContent, WithheldPlace};
use wddm_types::{FencePoint, ProcessId};

use super::PagingRing;
use crate::hold::{RUN_MAX_NS, USE_MAX_NS};
use crate::number::{PagingQueueNumber, PagingWorkNumber};

/// The wait of the work at the head.
pub(super) struct UseWait {
    began_ns: u64,
    /// The kernel has found since then that the hardware does not run the work of the uses.
    since_ns: u64,
    /// How long the hardware had run the work of the uses at that time; `None`: the kernel has not asked yet.
    ran_ns: Option<u64>,
    points: Vec<FencePoint<FenceId>>,
    /// The processes whose uses these are.
    users: BTreeSet<ProcessId>,
    /// The last work that was queued when a device was found that cannot give way.
    refused_at: Option<u64>,
}

impl PagingRing {
    /// The work at the head waits for these uses of these processes from now on.
    pub fn waits_for_uses(&mut self, now_ns: u64, points: Vec<FencePoint<FenceId>>, users: BTreeSet<ProcessId>) {
        self.uses = Some(UseWait { began_ns: now_ns, since_ns: now_ns, ran_ns: None, points, users, refused_at: None });
    }

    /// It waits for none any more.
    pub fn uses_over(&mut self) {
        self.uses = None;
    }

    /// The devices of the uses have given way: the wait was for nothing that brings content back to a device.
    pub fn way_given(&mut self, now_ns: u64) {
        if let Some(wait) = self.uses.take() {
            self.gave_way_ns += now_ns - wait.began_ns;
        }
    }

    /// The time without that in which works waited for devices that gave way then: differences of it are what works take.
    pub fn working_ns(&self, now_ns: u64) -> u64 {
        now_ns - self.gave_way_ns
    }

    /// Whether the work at the head waits for uses.
    pub fn waits_for_any_use(&self) -> bool {
        self.uses.is_some()
    }

    /// The uses that the work at the head waits for.
    pub fn uses(&self) -> &[FencePoint<FenceId>] {
        self.uses.as_ref().map_or(&[], |wait| &wait.points)
    }

    /// The processes of the works that have not started.
    pub fn held_processes(&self) -> impl Iterator<Item = ProcessId> + '_ {
        self.held.iter().map(|work| work.process)
    }

    /// When devices are to give way to these processes, which wait for the ring; `None`: the head waits for no use, or for uses of these alone.
    pub fn gives_way_ns(&self, mut waiting: impl Iterator<Item = ProcessId>) -> Option<u64> {
        let wait = self.uses.as_ref().filter(|wait| wait.refused_at != Some(self.last_queued))?;
        let is_other = |process: ProcessId| wait.users.iter().any(|user| *user != process);
        waiting.any(is_other).then_some(wait.since_ns + USE_MAX_NS)
    }

    /// Whether the ring waits on for the uses, because the hardware runs their work: it has run for so long until now. The ring waits for
    /// running work no longer than [`RUN_MAX_NS`].
    pub fn waits_for_running(&mut self, now_ns: u64, ran_ns: u64) -> bool {
        let Some(wait) = &mut self.uses else { return true };
        let before = wait.ran_ns.replace(ran_ns);
        let runs = before != Some(ran_ns);
        if runs {
            wait.since_ns = now_ns;
        }
        runs && now_ns < wait.began_ns + RUN_MAX_NS
    }

    /// A device cannot give way: it is asked again when another work stands behind.
    pub fn way_refused(&mut self) {
        let queued = self.last_queued;
        self.uses.iter_mut().for_each(|wait| wait.refused_at = Some(queued));
    }

    /// The content that works which have not started take behind uses, with the serials of the works.
    pub fn used_content(&self) -> impl Iterator<Item = (u64, &UsedContent<FenceId>)> {
        let works = self.held.iter().rev().scan(0, |serial, work| {
            // The first parts of a work stand before the one that has the serial.
            *serial = if work.serial == 0 { *serial } else { work.serial };
            Some((*serial, work))
        });
        works.flat_map(|(serial, work)| work.used.iter().map(move |used| (serial, used)))
    }

    /// The works that have not started complete no values of this paging queue any more. `kept`: values that the kernel signals behind works.
    /// Answers with all these values, each with the place behind what has come before it.
    pub fn complete_no_more(
        &mut self,
        queue: PagingQueueNumber,
        kept: &BTreeMap<PagingWorkNumber, u64>,
    ) -> Vec<(u64, WithheldPlace)> {
        let (mut serial, mut values) = (0, Vec::new());
        for work in &mut self.held {
            serial = work.serial.max(serial);
            let completes = work.completes.take_if(|(of, _)| *of == queue).map(|(_, value)| value);
            let value = completes.or_else(|| kept.get(&work.number).copied());
            values.extend(value.map(|value| (value, WithheldPlace::behind(serial))));
        }
        values
    }

    /// The first work that has not started.
    pub fn first_held(&self) -> Option<PagingWorkNumber> {
        self.held.front().map(|work| work.number)
    }

    /// The uses up to points like these hold no work any more: each work saves first what it would have dropped.
    pub fn save_first(
        &mut self,
        is_over: impl Fn(&FencePoint<FenceId>) -> bool,
        mut save: impl FnMut(&UsedContent<FenceId>) -> Vec<Operation>,
    ) {
        let used = self.held.iter().flat_map(|work| &work.used);
        let of: BTreeSet<AllocationId> =
            used.filter(|used| used.until.iter().any(&is_over)).map(|used| used.allocation).collect();
        for work in &mut self.held {
            for used in work.used.iter_mut().filter(|used| of.contains(&used.allocation)) {
                save(used).into_iter().rev().for_each(|operation| work.operations.push_front(operation));
                used.until.retain(|point| !is_over(point));
            }
            work.used.retain(|used| !used.until.is_empty() || !of.contains(&used.allocation));
        }
    }
}
