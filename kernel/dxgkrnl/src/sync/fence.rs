//! The fences of an adapter and the opens of them: which there are, and which process and device has them. Where their words lie, and what the driver is told of
//! them, is the business of `adapter/fence`; here a fence is what that made of it.

mod object;
mod slot;
mod word;

pub use object::{Fence, FenceOpen, Periodic};
pub use slot::{FenceSlot, FenceView, Home, LocalWord};
pub use word::FenceWord;

use std::collections::BTreeSet;
use std::collections::btree_map::Entry;

use ddi::KmdGlobalFence;
use gpu_fence::{FenceId, FenceKind, Sampled};
use kmt_calls::{FenceFlags, Refusal, SyncObjectAccess};
use shared_words::Memory;
use vidmm::StateDigest;
use wddm_types::{FencePoint, ProcessId};

use super::cross::News;
use super::{Synchronization, Waiter};
use crate::number::{CrossFenceNumber, DeviceNumber, FenceNumber, FenceOpenNumber};
use crate::refusal::{access_denied, invalid, no_memory};

impl Synchronization {
    /// A fence that is there.
    pub fn fence(&self, number: FenceNumber) -> &Fence {
        &self.fences[number]
    }

    /// A fence, unless it has gone.
    pub fn fence_if_there(&self, number: FenceNumber) -> Option<&Fence> {
        self.fences.get(number)
    }

    /// All fences.
    pub fn fences(&self) -> impl Iterator<Item = (FenceNumber, &Fence)> {
        self.fences.iter()
    }

    /// An open that is there.
    pub fn open(&self, number: FenceOpenNumber) -> &FenceOpen {
        &self.opens[number]
    }

    /// An open, unless it is closed.
    pub fn open_if_there(&self, number: FenceOpenNumber) -> Option<&FenceOpen> {
        self.opens.get(number)
    }

    /// All opens.
    pub fn fence_opens(&self) -> impl Iterator<Item = FenceOpenNumber> + '_ {
        self.opens.iter().map(|(number, _)| number)
    }

    /// The open of a fence that only its creator has open.
    pub fn only_open(&self, number: FenceNumber) -> FenceOpenNumber {
        *self.fences[number].opens.first().expect("its creator's")
    }

    /// The fence of a point. The point is of a fence that is there.
    pub fn number_of(&self, fence: FenceId) -> FenceNumber {
        self.numbers[&fence]
    }

    /// The same, unless the fence has gone.
    pub fn number_if_there(&self, fence: FenceId) -> Option<FenceNumber> {
        self.numbers.get(&fence).copied()
    }

    /// The number that the next fence gets.
    pub fn next_fence(&self) -> FenceNumber {
        self.fences.next_number()
    }

    /// The number that the next open gets.
    pub fn next_fence_open(&self) -> FenceOpenNumber {
        self.opens.next_number()
    }

    /// Its kind.
    pub fn kind_of(&self, number: FenceNumber) -> FenceKind {
        self.waits.kind(self.fences[number].waits)
    }

    /// Whether it was created as a monitored one.
    pub fn is_monitored(&self, number: FenceNumber) -> bool {
        self.kind_of(number) == FenceKind::Monitored
    }

    /// CurrentValue now.
    pub fn current_value(&self, memory: &Memory, number: FenceNumber) -> u64 {
        self.fences[number].value(memory)
    }

    /// The fence that a name in a log, or a tool's word, means by an open: one that the driver knows.
    pub fn driver_fence_of(&self, open: FenceOpenNumber) -> Option<FenceNumber> {
        let fence = self.opens.get(open)?.fence;
        self.fences[fence].kmd.map(|_| fence)
    }

    /// A point of a fence as the scheduler and the memory manager carry it.
    pub fn point(&self, number: FenceNumber, value: u64) -> FencePoint<FenceId> {
        FencePoint { fence: self.fences[number].waits, value }
    }

    /// Drops points that mean nothing any more: a fence that has gone holds no work back.
    pub fn live_points(&self, points: Vec<FencePoint<FenceId>>) -> Vec<FencePoint<FenceId>> {
        points.into_iter().filter(|point| self.numbers.contains_key(&point.fence)).collect()
    }

    /// Whether nothing waits for a point any more: its fence is there, or has gone.
    pub fn is_past(&self, memory: &Memory, point: &FencePoint<FenceId>) -> bool {
        self.number_if_there(point.fence).is_none_or(|number| self.current_value(memory, number) >= point.value)
    }

    /// A fence comes to be: without an open, and unknown to the driver.
    pub fn add_fence(&mut self, kind: FenceKind, new: impl FnOnce(FenceId) -> Fence) -> FenceNumber {
        let waits = self.waits.create(kind);
        let fence = new(waits);
        debug_assert!(fence.opens.is_empty() && fence.kmd.is_none() && fence.names == 0, "{fence:?}");
        let (half, cross) = (matches!(fence.word, FenceWord::Half(_)), fence.cross());
        let number = self.fences.insert(fence);
        let before = self.numbers.insert(waits, number);
        debug_assert!(before.is_none(), "waits are of one fence: {number:?} after {before:?}");
        if half {
            self.half.insert(number);
        }
        if let Some(cross) = cross {
            self.common.join(cross, number);
        }
        number
    }

    /// An object without opens goes, with its waits; its words are the caller's to give back.
    pub fn remove_fence(&mut self, number: FenceNumber) -> Fence {
        let fence = self.fences.remove(number).expect("a fence is destroyed once");
        assert!(fence.opens.is_empty() && fence.kmd.is_none(), "a fence is destroyed behind its last close");
        debug_assert_eq!(fence.names, 0, "a name keeps a fence");
        let known = self.numbers.remove(&fence.waits);
        debug_assert_eq!(known, Some(number), "a fence is known by its waits");
        let half = self.half.remove(&number);
        debug_assert_eq!(half, matches!(fence.word, FenceWord::Half(_)), "fences of 32 bits are looked at");
        if let Some(cross) = fence.cross() {
            self.common.leave(cross);
        }
        let released = self.waits.destroy(fence.waits);
        assert!(released.is_empty(), "its waiters went on with the last open");
        fence
    }

    /// A device has opened a fence that its process sees, if others may see it, too.
    pub fn add_fence_open(&mut self, open: FenceOpen) -> FenceOpenNumber {
        let (fence, process) = (open.fence, open.process);
        let number = self.opens.insert(open);
        let known = &mut self.fences[fence];
        let fresh = known.opens.insert(number);
        debug_assert!(fresh, "a fence knows an open once: {number:?}");
        if let Some(view) = known.views.get_mut(&process) {
            view.opens += 1;
        }
        number
    }

    /// A process has asked for this open of one of its devices, and may close it.
    pub fn list_fence_open(&mut self, number: FenceOpenNumber) {
        let device = self.opens[number].device.expect("a process opens fences on devices");
        let fresh = self.asked_for.entry(device).or_default().insert(number);
        debug_assert!(fresh, "a process asks for an open once: {number:?}");
    }

    /// The opens of a device that its process has asked for.
    pub fn fence_opens_of(&self, device: DeviceNumber) -> impl Iterator<Item = FenceOpenNumber> + '_ {
        self.asked_for.get(&device).into_iter().flatten().copied()
    }

    /// Whether a process has asked for an open, which may be closed then.
    pub fn is_asked_for(&self, open: FenceOpenNumber) -> bool {
        let device = self.opens[open].device.and_then(|device| self.asked_for.get(&device));
        device.is_some_and(|opens| opens.contains(&open))
    }

    /// An open ends. Answers with it, with the waits that end with it, and with whether it was the last.
    // spec: sync §2.3: by default CPU waiters go on with any of the opens, else with the last; nothing outlives that
    pub fn end_fence_open(&mut self, number: FenceOpenNumber) -> (FenceOpen, Sampled<Waiter>, bool) {
        let open = self.opens.remove(number).expect("an open is closed once");
        if let Some(Entry::Occupied(mut of)) = open.device.map(|device| self.asked_for.entry(device)) {
            of.get_mut().remove(&number);
            if of.get().is_empty() {
                of.remove();
            }
        }
        let fence = &mut self.fences[open.fence];
        let known = fence.opens.remove(&number);
        debug_assert!(known, "a fence knows its opens: {number:?}");
        if let Some(view) = fence.views.get_mut(&open.process) {
            debug_assert!(view.opens > 0, "a view counts the opens of its process: {view:?}");
            view.opens -= 1;
        }
        let last = fence.opens.is_empty();
        let only_on_destroy = fence.flags.contains(FenceFlags::UNWAIT_CPU_WAITERS_ONLY_ON_DESTROY);
        let mut ends = |waiter: &Waiter| {
            last || !only_on_destroy && matches!(waiter, Waiter::Answer { .. } | Waiter::Event { .. })
        };
        let ended = self.waits.end_waits_on(fence.waits, &mut ends);
        (open, ended, last)
    }

    /// A process sees the words of a shareable fence.
    pub fn add_view(&mut self, number: FenceNumber, process: ProcessId, view: FenceView) {
        let before = self.fences[number].views.insert(process, view);
        assert!(before.is_none(), "all opens of a process use one view");
        let fresh = self.seen.entry(process).or_default().insert(number);
        debug_assert!(fresh, "a process that gets a view did not see the fence: {number:?}");
    }

    /// The view of a process that has the fence open no more, if that is so. It sees the words no longer.
    pub fn take_unused_view(&mut self, number: FenceNumber, process: ProcessId) -> Option<FenceView> {
        let views = &mut self.fences[number].views;
        views.get(&process).filter(|view| view.opens == 0)?;
        let seen = self.seen.get_mut(&process).expect("it has a view");
        let listed = seen.remove(&number);
        debug_assert!(listed, "a process with a view sees the fence: {number:?}");
        if seen.is_empty() {
            self.seen.remove(&process);
        }
        views.remove(&process)
    }

    /// The driver has made a fence, and knows it by this name.
    pub fn made_in_driver(&mut self, number: FenceNumber, kmd: KmdGlobalFence) {
        let before = self.fences[number].kmd.replace(kmd);
        assert!(before.is_none(), "the driver makes a fence once, until it has destroyed it");
    }

    /// The driver is to forget a fence that no process has open: its name, if the driver knows it.
    pub fn take_from_driver(&mut self, number: FenceNumber) -> Option<KmdGlobalFence> {
        assert!(self.fences[number].opens.is_empty(), "a fence is open for as long as the driver has it");
        self.fences[number].kmd.take()
    }

    /// A fence that its process only waits for: the kernel or a queue signals it.
    pub fn forbid_signals(&mut self, number: FenceNumber) {
        let open = self.only_open(number);
        self.opens[open].flags |= FenceFlags::NO_SIGNAL;
    }

    /// A fence goes when the ring has passed: from now on its process has no name for it.
    pub fn doom(&mut self, number: FenceNumber) {
        let fence = &mut self.fences[number];
        debug_assert!(!fence.doomed, "a fence is doomed once: {fence:?}");
        fence.doomed = true;
    }

    /// `D3DKMTShareObjects` of a fence: it has one name more. A cross-adapter fence has its names with the machine.
    // spec: sync §2.2, sync §5
    pub fn share_fence(&mut self, open: FenceOpenNumber, access: SyncObjectAccess) -> Result<FenceNumber, Refusal> {
        let unknown = access.difference(SyncObjectAccess::ALL_ACCESS);
        if !unknown.is_empty() {
            return Err(invalid(format!("access {:#x} is nothing that a synchronization object has", unknown.bits())));
        }
        let open = &self.opens[open];
        let (number, fence) = (open.fence, &self.fences[open.fence]);
        if !fence.flags.contains(FenceFlags::NT_SECURITY_SHARING) {
            return Err(invalid("the synchronization object was not created with NtSecuritySharing"));
        }
        if !open.access.contains(access) {
            return Err(access_denied("the process's own open gives less access than the NT handle asks for"));
        }
        if fence.cross().is_none() {
            self.name_fence_again(number)?;
        }
        Ok(number)
    }

    /// Gives a fence that has a name, or gets its first, one more.
    pub fn name_fence_again(&mut self, number: FenceNumber) -> Result<(), Refusal> {
        let names = &mut self.fences[number].names;
        *names = names.checked_add(1).ok_or_else(|| no_memory("the fence has too many names"))?;
        Ok(())
    }

    /// A name of a fence has gone. Whether nothing keeps the fence any more.
    #[must_use]
    pub fn unname_fence(&mut self, number: FenceNumber) -> bool {
        let fence = &mut self.fences[number];
        debug_assert!(fence.names > 0, "a fence counts its names: {fence:?}");
        fence.names -= 1;
        fence.names == 0 && fence.opens.is_empty()
    }

    /// Something is news of a fence: other adapters are told, if it has any.
    pub fn tell_others(&mut self, number: FenceNumber, news: fn(CrossFenceNumber) -> News) {
        if let Some(cross) = self.fences[number].cross() {
            self.common.tell(news(cross));
        }
    }

    /// For the digest of the adapter's state.
    pub(super) fn add_fences_to(&self, digest: &mut StateDigest) {
        self.fences.iter().for_each(|(id, value)| digest.add("fence", &id, value));
        for (id, fence) in self.fences.iter().filter(|(_, fence)| self.waits.is_waited_for(fence.waits)) {
            digest.add("waits for a fence", &id, &self.waits.waiters(fence.waits));
        }
        self.opens.iter().for_each(|(id, value)| digest.add("open of a fence", &id, value));
    }

    /// The first thing of fences that is not as the head of this part says.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check_fences(&self) -> Result<(), String> {
        for (number, fence) in self.fences.iter() {
            let named = self.numbers.get(&fence.waits) == Some(&number);
            if !named || !self.waits.contains(fence.waits) {
                return Err(format!("fence {number:?} has no waits"));
            }
            let known = fence.opens.iter().all(|open| self.opens.get(*open).is_some_and(|o| o.fence == number));
            let kept = fence.names > 0 || !fence.opens.is_empty();
            let half = matches!(fence.word, FenceWord::Half(_)) == self.half.contains(&number);
            if !known || !kept || !half {
                return Err(format!("fence {number:?}: {fence:?}"));
            }
            for (process, view) in &fence.views {
                if !self.seen.get(process).is_some_and(|seen| seen.contains(&number)) {
                    return Err(format!("{process:?} sees fence {number:?}, and is not known to"));
                }
                let opens = fence.opens.iter().filter(|open| self.opens[**open].process == *process).count();
                if opens != view.opens as usize {
                    return Err(format!("fence {number:?} in {process:?}: {view:?}"));
                }
            }
        }
        for (number, open) in self.opens.iter() {
            if !self.fences.get(open.fence).is_some_and(|fence| fence.opens.contains(&number)) {
                return Err(format!("open {number:?} is of no fence: {open:?}"));
            }
        }
        for (device, opens) in &self.asked_for {
            let is_of = |open: &FenceOpenNumber| self.opens.get(*open).is_some_and(|open| open.device == Some(*device));
            if !opens.iter().all(is_of) {
                return Err(format!("device {device:?} has not all of {opens:?}"));
            }
        }
        let views: usize = self.fences.iter().map(|(_, fence)| fence.views.len()).sum();
        if self.seen.values().map(BTreeSet::len).sum::<usize>() != views {
            return Err(format!("there are {views} views, and processes see {:?}", self.seen));
        }
        let (named, fences) = (self.numbers.len(), self.fences.iter().count());
        if named != fences {
            return Err(format!("{named} fences are known by their waits, {fences} there"));
        }
        self.check_packed_words()
    }
}
