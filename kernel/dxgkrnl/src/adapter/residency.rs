//! Calls about what must be resident and what may go: MakeResident, Evict, Offer, Reclaim, budgets (memory §5). Placement and victims are
//! `vidmm`'s. The adapter joins its decisions with the queued work of devices, with the ring and with what paging queues promise; `residency`
//! says each in the words of the other side.

use events::Event;
use gpu_fence::{FenceId, WaitMode};
use kmt_calls::{
    DeviceState, EvictFlags, MakeResidentFlags, OfferFlags, ReclaimResult, Refusal, Residency, VideoMemoryInfo,
};
use vidmm::{DeviceId, MakeResidentError, Work};
use wddm_types::{FencePoint, NtStatus, ProcessId};

use crate::adapter::Adapter;
use crate::due::Waiter;
use crate::effect::Cx;
use crate::hold::{Hold, Until};
use crate::number::{AllocationNumber, DeviceNumber, PagingQueueNumber};
use crate::refusal::{invalid, refuse};
use crate::residency::{
    from_reclaim, group_of, how_to_evict, how_to_make_resident, how_to_offer, never_fits, out_of_memory, reclaim_result,
};
use crate::store::ObjectNumber;

impl Adapter {
    /// `D3DKMTMakeResident`.
    // spec: memory §5.2
    pub fn make_resident(
        &mut self,
        cx: &mut Cx<'_>,
        paging_queue: PagingQueueNumber,
        list: &[AllocationNumber],
        flags: MakeResidentFlags,
    ) -> Result<Residency, Refusal> {
        let how = how_to_make_resident(flags)?;
        let device = self.memory.paging_queues.device_of(paging_queue);
        let process = self.owners.process_of(device);
        let allocations = self.vidmm_list(device, list)?;
        let owner = self.owners.vidmm_of(device);
        let mut made = self.vidmm.make_resident_with(owner, &allocations, how);
        if matches!(made, Err(MakeResidentError::OutOfMemory { .. })) && self.note_idle_devices(cx) {
            // Devices with nothing to run give way before the kernel refuses (memory §10.1 row 10).
            made = self.vidmm.make_resident_with(owner, &allocations, how);
        }
        // CAST: bounded by LIST_MAX.
        let count = list.len() as u32;
        // For a device that is quiesced already nothing has to move now.
        let mut locked = allocations.iter().copied().find(|id| made.is_ok() && self.vidmm.is_kept_out(*id));
        if let Err(MakeResidentError::Locked { allocation }) = made {
            locked = Some(allocation);
            made = self.vidmm.make_resident_held(owner, &allocations, how);
        }
        debug_assert!(
            locked.is_none() || made.is_err() || self.vidmm.is_suspended(owner) || self.vidmm.withholds(owner),
            "a device that runs waits for no unlock: {locked:?} of {device:?}"
        );
        match made {
            Ok(work) => {
                let paging_fence_value = match locked {
                    // The turn that follows the unlock brings nothing that the device withholds.
                    _ if self.vidmm.withholds(owner) => {
                        self.queue_any(cx, process, work);
                        self.withheld_value(paging_queue)
                    }
                    Some(locked) => self.held_up_value(cx, paging_queue, locked, work),
                    None => self.paging_value_of(cx, process, paging_queue, work),
                };
                let place = |locked| allocations.iter().position(|id| *id == locked);
                // CAST: bounded by LIST_MAX.
                let locked = locked.and_then(place).map(|place| place as u32);
                cx.emit(self.index, Event::MakeResident { device: device.raw(), count, paging_fence_value });
                Ok(match paging_fence_value {
                    0 => Residency::Resident,
                    paging_fence_value => Residency::Pending { paging_fence_value, locked },
                })
            }
            Err(MakeResidentError::OutOfMemory { bytes_to_trim }) => {
                let never = self.vidmm.never_fits(&allocations);
                let bytes_to_trim = if never.is_some() { 0 } else { bytes_to_trim };
                cx.emit(self.index, Event::MakeResidentRefused { device: device.raw(), bytes_to_trim });
                if how.must_succeed {
                    self.fail_device(
                        cx,
                        device,
                        DeviceState::ErrorOutOfMemory,
                        "MakeResident with MustSucceed found no room".into(),
                    );
                }
                Err(never.map_or_else(|| out_of_memory(bytes_to_trim), never_fits))
            }
            Err(error @ (MakeResidentError::Offered { .. } | MakeResidentError::Locked { .. })) => {
                Err(invalid(error.to_string()))
            }
        }
    }

    /// `D3DKMTEvict`. Physical removal comes when everything that the device's queues were given before is over, and stands aside until then.
    /// Where buffers name all that they use, those count that name the allocation.
    // spec: memory §5.3, memory §10.1
    pub fn evict(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
        list: &[AllocationNumber],
        flags: EvictFlags,
    ) -> Result<u64, Refusal> {
        let how = how_to_evict(flags)?;
        let allocations = self.vidmm_list(device, list)?;
        self.check_rings_leaving(device, &allocations)?;
        let last_use = self.queued_work(cx, device)?;
        let (owner, process) = (self.owners.vidmm_of(device), self.owners.process_of(device));
        let not_written = how.not_written_to;
        let uses: Vec<_> = match self.lists_are_residency() {
            true => allocations.iter().map(|id| (*id, self.gpu_uses_of(cx, device, *id))).collect(),
            false => Vec::new(),
        };
        let (sync, memory) = (&self.sync, cx.memory);
        let is_over = |point: &FencePoint<FenceId>| sync.is_past(memory, point);
        let works = match self.lists_are_residency() {
            true => self.vidmm.evict_each(owner, &uses, how, &is_over),
            false => self.vidmm.evict_over(owner, &allocations, how, &last_use, &is_over).map(Vec::from_iter),
        };
        let works = works.map_err(|error| invalid(error.to_string()))?;
        // CAST: bounded by LIST_MAX.
        cx.emit(self.index, Event::Evict { device: device.raw(), count: list.len() as u32, not_written });
        if works.is_empty() {
            self.queue_any(cx, process, None);
        }
        self.queue_works(cx, process, works);
        Ok(self.vidmm.bytes_over_budget(self.vidmm.space_of(owner)))
    }

    /// `D3DKMTOfferAllocations`.
    // spec: memory §5.9
    pub fn offer(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
        list: &[AllocationNumber],
        priority: u32,
        flags: OfferFlags,
    ) -> Result<(), Refusal> {
        let (priority, how) = how_to_offer(priority, flags)?;
        let allocations = self.vidmm_list(device, list)?;
        self.check_rings(device, &allocations)?;
        let last_use = self.queued_work(cx, device)?;
        let owner = self.owners.vidmm_of(device);
        let offered = self.vidmm.offer(owner, &allocations, priority, how, &last_use);
        offered.map_err(|error| invalid(error.to_string()))?;
        // CAST: bounded by LIST_MAX.
        cx.emit(self.index, Event::Offered { device: device.raw(), count: list.len() as u32 });
        Ok(())
    }

    /// `D3DKMTReclaimAllocations`, without a fence: to be answered behind the paging ring.
    // spec: memory §5.9
    pub fn reclaim(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
        list: &[AllocationNumber],
        wanted: bool,
    ) -> Result<Vec<ReclaimResult>, Refusal> {
        let (results, work) = self.take_offers_back(cx, device, list, wanted)?;
        let process = self.owners.process_of(device);
        self.queue_any(cx, process, work);
        Ok(results)
    }

    /// `D3DKMTReclaimAllocations2`: the backing stores are there at return, the GPU waits for the value.
    // spec: memory §5.9
    pub fn reclaim2(
        &mut self,
        cx: &mut Cx<'_>,
        paging_queue: PagingQueueNumber,
        list: &[AllocationNumber],
    ) -> Result<(Vec<ReclaimResult>, u64), Refusal> {
        let device = self.memory.paging_queues.device_of(paging_queue);
        let (process, owner) = (self.owners.process_of(device), self.owners.vidmm_of(device));
        let ran = !self.vidmm.is_suspended(owner);
        let (results, work) = self.take_offers_back(cx, device, list, true)?;
        let value = if ran && self.vidmm.is_suspended(owner) {
            self.queue_work(cx, process, None, work, Vec::new());
            self.memory.paging_queues.promise_with_turn(paging_queue, self.memory.ring.place())
        } else {
            self.paging_value_of(cx, process, paging_queue, work)
        };
        Ok((results, value))
    }

    fn take_offers_back(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
        list: &[AllocationNumber],
        wanted: bool,
    ) -> Result<(Vec<ReclaimResult>, Option<Work<gpu_fence::FenceId>>), Refusal> {
        let allocations = self.vidmm_list(device, list)?;
        let bare = self.without_backing(&allocations);
        let reclaimed = self.vidmm.reclaim_with(self.owners.vidmm_of(device), &allocations, wanted);
        let reclaimed = reclaimed.map_err(|error| from_reclaim(&error))?;
        for id in bare {
            let creator = self.memory.allocations.body_of(id).creator;
            let _ = self.lend_backing(cx, creator, id);
        }
        let results: Vec<ReclaimResult> = reclaimed.results.into_iter().map(reclaim_result).collect();
        debug_assert_eq!(results.len(), list.len(), "each that is reclaimed has its answer");
        // CAST: bounded by LIST_MAX.
        let lost = results.iter().filter(|result| **result != ReclaimResult::Ok).count() as u32;
        cx.emit(self.index, Event::Reclaimed { device: device.raw(), count: list.len() as u32, lost });
        Ok((results, reclaimed.work))
    }

    /// `D3DKMTQueryVideoMemoryInfo` of the calling process. One without a device here has nothing and could have all.
    // spec: memory §5.5
    pub fn video_memory_info(&self, process: ProcessId, local: bool) -> VideoMemoryInfo {
        let group = group_of(local);
        let Some(facts) = self.owners.facts_of_process(process) else {
            return VideoMemoryInfo { budget_bytes: self.vidmm.group_bytes(group), ..VideoMemoryInfo::default() };
        };
        let info = self.vidmm.video_memory_info(facts.space, group);
        VideoMemoryInfo {
            budget_bytes: info.budget_bytes,
            current_usage_bytes: info.current_usage_bytes,
            current_reservation_bytes: info.current_reservation_bytes,
            available_for_reservation_bytes: info.available_for_reservation_bytes,
        }
    }

    /// `D3DKMTChangeVideoMemoryReservation`.
    // spec: memory §5.5
    pub fn change_reservation(&mut self, process: ProcessId, local: bool, bytes: u64) -> Result<(), Refusal> {
        let group = group_of(local);
        let Some(facts) = self.owners.facts_of_process(process) else {
            return match bytes {
                0 => Ok(()),
                _ => Err(invalid(format!("{bytes} bytes for a process without a device here, which may reserve 0"))),
            };
        };
        self.vidmm
            .change_reservation(facts.space, group, bytes)
            .map_err(|error| refuse(NtStatus::INVALID_PARAMETER, wddm_types::Blame::Caller, error.to_string()))
    }

    /// The value of a MakeResident that waits for an unlock; `work` stops the device.
    // spec: memory §10.1 row 23
    fn held_up_value(
        &mut self,
        cx: &mut Cx<'_>,
        paging_queue: PagingQueueNumber,
        locked: vidmm::AllocationId,
        work: Option<Work<gpu_fence::FenceId>>,
    ) -> u64 {
        let device = self.memory.paging_queues.device_of(paging_queue);
        let process = self.owners.process_of(device);
        self.queue_any(cx, process, work);
        let place = self.memory.ring.place();
        let paging_fence_value = self.memory.paging_queues.promise_with_turn(paging_queue, place);
        let allocation = self.memory.allocations.told_as(locked);
        cx.emit(self.index, Event::MakeResidentHeld { device: device.raw(), allocation, paging_fence_value });
        paging_fence_value
    }

    /// The value of a MakeResident whose content the device withholds.
    // spec: memory §4.9, memory §8.6
    fn withheld_value(&mut self, paging_queue: PagingQueueNumber) -> u64 {
        let device = self.memory.paging_queues.device_of(paging_queue);
        let places = self.vidmm.withheld_places(self.owners.vidmm_of(device));
        let [_, last] = places.expect("the device withholds what the call has made resident");
        self.memory.paging_queues.promise_with_turn(paging_queue, last)
    }

    /// Queues work for a paging queue, if there is any; the value that says that everything so far is there, 0 for now.
    fn paging_value_of(
        &mut self,
        cx: &mut Cx<'_>,
        process: ProcessId,
        paging_queue: PagingQueueNumber,
        work: Option<Work<gpu_fence::FenceId>>,
    ) -> u64 {
        match work {
            Some(work) => self.queue_for(cx, process, paging_queue, Some(work)),
            None => self.paging_value_now(cx, process, paging_queue).unwrap_or(0),
        }
    }
}

/// Evictions that stand aside until queued work has used their content for the last time (memory §5.3): the paging ring waits for no device's
/// use by them. `vidmm` has them; the hardware tells the kernel of the oldest of each device by a registered wait, and each turn of the machine
/// looks for the others.
impl Adapter {
    /// Carries out the evictions whose content no queued work uses any more.
    // spec: memory §5.3
    pub(super) fn carry_out_evictions(&mut self, cx: &mut Cx<'_>) {
        if !self.vidmm.any_aside() || self.life.has_stopped() {
            return;
        }
        let (sync, memory) = (&self.sync, cx.memory);
        // A fence that has gone holds no work back.
        let works = self.vidmm.evictions_over(&|point| sync.is_past(memory, point));
        let carried_out = !works.is_empty();
        for (device, work) in works {
            let number = self.owners.device_of(device);
            let process = number.map_or(ProcessId::SYSTEM, |number| self.owners.process_of(number));
            self.queue_work(cx, process, None, Some(work), Vec::new());
        }
        if carried_out {
            // No call has asked for these works now, so no later call may have to come for their room to be free.
            self.memory.ring.clear_behind();
        }
        self.watch_evictions(cx);
    }

    /// The wait for the uses of a device's oldest eviction is over.
    pub(super) fn eviction_due(&mut self, cx: &mut Cx<'_>, device: DeviceId) {
        self.memory.evictions.end(device);
        self.carry_out_evictions(cx);
    }

    /// Has the hardware tell when the use is over that the oldest eviction of each device waits for.
    pub(super) fn watch_evictions(&mut self, cx: &mut Cx<'_>) {
        if !self.vidmm.any_aside() {
            return;
        }
        let awaited = self.vidmm.uses_awaited().filter(|(device, _)| !self.memory.evictions.is_watched(*device));
        let awaited: Vec<(DeviceId, Vec<FencePoint<FenceId>>)> =
            awaited.map(|(device, points)| (device, points.to_vec())).collect();
        for (device, points) in awaited {
            self.memory.evictions.begin(device);
            let points = self.sync.live_points(points);
            let waiter = Waiter::Evictions { device };
            if self.begin_wait(cx, &points, WaitMode::All, Waiter::Evictions { device }) {
                self.due.wait_ended(waiter);
            }
        }
    }

    /// The evictions that stand aside.
    pub(super) fn eviction_holds(&self) -> impl Iterator<Item = Hold> + '_ {
        self.vidmm.asides().map(|(device, id)| {
            let until = Until::Wait(Waiter::Evictions { device });
            Hold::new("the eviction of allocation", self.memory.allocations.told_as(id), until)
        })
    }
}
