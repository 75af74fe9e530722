//! Native fences: their words, their creation, who waits for them, who signals them (sync §1.5, §3.2–§3.9).
//!
//! Words of unshared fences of one process are packed: a slab is one page of CurrentValues, which the process maps
//! read-only for the CPU and read/write for the GPU, and one page of MonitoredValues, which it maps for the GPU only,
//! read-only. Both are mapped in the paging process too, for the context management processor.
//!
//! A published MonitoredValue is never trusted to have come in time: after each update the fence is sampled again, and
//! what that releases may change the value once more, until nothing changes (sync §3.9).

mod monitored;
mod storage;

pub use storage::{FenceSlab, FenceSlot};

use ddi::{
    CreateNativeFence, CurrentUpdate, DriverStatus, FenceType, KmdGlobalFence, KmdLocalFence, OpenNativeFence,
    OsGlobalFence, OsLocalFence, PRIVATE_DATA_BYTES, UpdateCurrentFlags,
};
use events::Event;
use gpu_fence::{FenceId, FenceKind, MonitoredUpdate, WaitMode, WaitOutcome};
use kmt_calls::{CreatedFence, FenceFlags, NativeFenceRequest, Refusal, Reply, WaitFlags};
use shared_words::{Word, fence::MONITORED_NONE};
use wddm_types::{FencePoint, ProcessId};

use crate::adapter::{Adapter, Waiter};
use crate::machine::{Answer, Cx, Token};
use crate::object::Fence;
use crate::refusal::{access_denied, from_driver, invalid, not_supported};

/// `D3DDDI_MAX_OBJECT_WAITED_ON` (sync §0).
pub const POINTS_MAX: usize = 32;

impl Adapter {
    /// `D3DKMTCreateNativeFence`.
    // spec: sync §3.2, sync §5
    pub fn create_native_fence(
        &mut self,
        cx: &mut Cx<'_>,
        device: u64,
        request: NativeFenceRequest,
    ) -> Result<u64, Refusal> {
        if self.miniport.native_fences().is_none() {
            return Err(not_supported("the adapter has no native fences"));
        }
        let flags = request.flags;
        match request.fence_type {
            0 => {}
            1 => return Err(not_supported("INTRA_GPU fences: the kernel does not announce SupportIntraGpuFenceType")),
            other => return Err(invalid(format!("fence type {other} does not exist"))),
        }
        if flags.contains(FenceFlags::NO_SIGNAL | FenceFlags::NO_WAIT) {
            return Err(invalid("NoSignal and NoWait exclude each other"));
        }
        if flags.intersects(FenceFlags::NO_GPU_ACCESS) {
            return Err(invalid("a native fence is mapped on the GPU: NoGPUAccess contradicts it"));
        }
        if flags.intersects(FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING | FenceFlags::CROSS_ADAPTER) {
            return Err(not_supported("shared native fences are not built yet"));
        }
        let allowed = FenceFlags::NO_SIGNAL
            | FenceFlags::NO_WAIT
            | FenceFlags::NO_SIGNAL_MAX_VALUE_ON_TDR
            | FenceFlags::TOP_OF_PIPELINE;
        if !allowed.contains(flags) {
            return Err(invalid(format!("fence flags {:#x} are reserved", flags.difference(allowed).bits())));
        }
        let owner = self.devices[device].process;
        let number = self.create_fence(cx, Some(device), owner, request.initial_value)?;
        let fence = &mut self.fences[number];
        fence.no_signal = flags.contains(FenceFlags::NO_SIGNAL);
        fence.no_wait = flags.contains(FenceFlags::NO_WAIT);
        self.devices[device].fences.insert(number);
        Ok(number)
    }

    /// Makes a fence: words, then the driver's create, then its open; published only when all has succeeded.
    pub fn create_fence(
        &mut self,
        cx: &mut Cx<'_>,
        device: Option<u64>,
        owner: ProcessId,
        initial: u64,
    ) -> Result<u64, Refusal> {
        let slot = self.take_fence_slot(cx, owner)?;
        Word::store(self.memory.word(slot.current.0), initial);
        Word::store(self.memory.word(slot.monitored.0), MONITORED_NONE);
        let number = self.fences.next_number();
        let kmd = match self.create_in_fence_driver(number, device, &slot) {
            Ok(kmd) => kmd,
            Err(status) => {
                self.give_back_slot(slot);
                return Err(from_driver(status));
            }
        };
        let waits = self.waits.create(if kmd.is_some() { FenceKind::Native } else { FenceKind::Monitored });
        let fence =
            Fence { device, waits, slot, kmd, no_wait: false, no_signal: false, always_signaled: false, doomed: false };
        assert_eq!(self.fences.insert(fence), number);
        self.fence_numbers.insert(waits, number);
        cx.emit(Event::FenceCreated { process: owner.0, fence: number, initial, current: slot.current.0 });
        Ok(number)
    }

    /// The driver's create, then its open. `None`: the adapter has no fences of its own, the kernel signals them.
    fn create_in_fence_driver(
        &mut self,
        number: u64,
        device: Option<u64>,
        slot: &FenceSlot,
    ) -> Result<Option<(KmdGlobalFence, KmdLocalFence)>, DriverStatus> {
        let kmd_device = device.map_or(self.ring.device, |device| self.devices[device].kmd);
        let Some(fences) = self.miniport.native_fences() else { return Ok(None) };
        let mut private_data = [0; PRIVATE_DATA_BYTES];
        let global = fences.create(&mut CreateNativeFence {
            fence: OsGlobalFence(number),
            fence_type: FenceType::Default,
            current_system_va: slot.system_current_va,
            monitored_system_va: slot.system_monitored_va,
            private_data: &mut private_data,
        })?;
        let opened = fences.open(&mut OpenNativeFence {
            global,
            local: OsLocalFence(number),
            device: kmd_device,
            current_va: slot.current_va,
            monitored_va: slot.monitored_va,
            private_data: &mut private_data,
        });
        match opened {
            Ok(local) => Ok(Some((global, local))),
            Err(status) => {
                // An open that failed is followed by destroy without close (sync §3.2).
                fences.destroy(global);
                Err(status)
            }
        }
    }

    /// Destroys a fence: its waiters go on, the driver closes and destroys, the words are given back (sync §3.4).
    // spec: sync §3.4
    pub fn destroy_fence(&mut self, cx: &mut Cx<'_>, number: u64) {
        let fence = self.fences.remove(number).expect("a fence is destroyed once");
        self.fence_numbers.remove(&fence.waits);
        let sampled = self.waits.destroy(fence.waits);
        self.due.extend(sampled.released);
        self.publish(cx, sampled.updates);
        if let (Some((global, local)), Some(fences)) = (fence.kmd, self.miniport.native_fences()) {
            fences.close(local);
            fences.destroy(global);
        }
        self.give_back_slot(fence.slot);
        if let Some(device) = fence.device.and_then(|device| self.devices.get_mut(device)) {
            device.fences.remove(&number);
        }
        cx.emit(Event::FenceDestroyed { fence: number });
    }

    /// A fence as its creator sees it.
    pub fn created_fence(&self, number: u64, handle: wddm_types::RawHandle) -> CreatedFence {
        let slot = &self.fences[number].slot;
        CreatedFence {
            fence: handle,
            current: slot.current,
            current_va: slot.current_va,
            monitored_va: slot.monitored_va,
        }
    }

    /// CurrentValue now.
    pub fn current_value(&self, number: u64) -> u64 {
        Word::load(self.memory.word(self.fences[number].slot.current.0))
    }

    /// A point of a fence as the scheduler and the memory manager carry it.
    pub fn point(&self, number: u64, value: u64) -> FencePoint<FenceId> {
        FencePoint { fence: self.fences[number].waits, value }
    }

    /// Points that still mean something: a fence that has gone holds nobody back.
    pub fn live_points(&self, points: Vec<FencePoint<FenceId>>) -> Vec<FencePoint<FenceId>> {
        points.into_iter().filter(|point| self.fence_numbers.contains_key(&point.fence)).collect()
    }

    /// `D3DKMTWaitForSynchronizationObjectFromCpu` with the blocking form.
    // spec: sync §3.5
    pub fn wait_from_cpu(
        &mut self,
        cx: &mut Cx<'_>,
        token: Token,
        device: u64,
        points: &[(u64, u64)],
        flags: WaitFlags,
    ) -> Result<Answer, Refusal> {
        if !WaitFlags::WAIT_ANY.contains(flags) {
            return Err(invalid(format!("wait flags {:#x} are reserved", flags.bits())));
        }
        if points.iter().any(|(fence, _)| self.fences[*fence].no_wait) {
            return Err(access_denied("the fence was created with NoWait"));
        }
        let mode = if flags.contains(WaitFlags::WAIT_ANY) { WaitMode::Any } else { WaitMode::All };
        let first = points[0];
        let points: Vec<_> = points.iter().map(|(fence, value)| self.point(*fence, *value)).collect();
        let Some(updates) = self.register_wait(&points, mode, Waiter::Answer { token, device }) else {
            return Ok(Answer::Done(Ok(Reply::Done)));
        };
        self.counters.cpu_waits += 1;
        let process = self.devices[device].process.0;
        cx.emit(Event::CpuWaitBegan { process, wait: token.0, fence: first.0, value: first.1 });
        // What this publishes may find the value there already: the wait ends in this turn then.
        self.publish(cx, updates);
        Ok(Answer::Later(token))
    }

    /// Registers a wait; true when it is satisfied at once (the waiter is dropped then).
    pub fn begin_wait(
        &mut self,
        cx: &mut Cx<'_>,
        points: &[FencePoint<FenceId>],
        mode: WaitMode,
        waiter: Waiter,
    ) -> bool {
        match self.register_wait(points, mode, waiter) {
            None => true,
            Some(updates) => {
                self.publish(cx, updates);
                false
            }
        }
    }

    /// Registers a wait and says what is to be published for it; `None` when it is satisfied at once.
    fn register_wait(
        &mut self,
        points: &[FencePoint<FenceId>],
        mode: WaitMode,
        waiter: Waiter,
    ) -> Option<Vec<MonitoredUpdate>> {
        let (memory, fences, numbers) = (&self.memory, &self.fences, &self.fence_numbers);
        let mut current = |fence: FenceId| Word::load(memory.word(fences[numbers[&fence]].slot.current.0));
        match self.waits.wait(points, mode, &mut current, waiter) {
            WaitOutcome::Satisfied(_) => None,
            WaitOutcome::Pending { updates, .. } => Some(updates),
        }
    }

    /// `D3DKMTSignalSynchronizationObjectFromCpu`.
    // spec: sync §3.6, sync §1.6
    pub fn signal_from_cpu(&mut self, cx: &mut Cx<'_>, points: &[(u64, u64)]) -> Result<(), Refusal> {
        for (number, value) in points {
            let fence = &self.fences[*number];
            if fence.no_signal {
                return Err(access_denied("the fence was created with NoSignal"));
            }
            let current = self.current_value(*number);
            if *value < current && !fence.always_signaled {
                return Err(invalid(format!("the fence has {current} already, {value} would take it back")));
            }
        }
        for (number, value) in points {
            self.signal_fence(cx, *number, *value);
        }
        Ok(())
    }

    /// Brings a fence to a value from the CPU and releases whom that satisfies. A value that it has already is no change.
    pub fn signal_fence(&mut self, cx: &mut Cx<'_>, number: u64, value: u64) {
        let fence = &self.fences[number];
        if fence.always_signaled || value <= self.current_value(number) {
            return;
        }
        let word = self.memory.word(fence.slot.current.0);
        match (fence.kmd, self.miniport.native_fences()) {
            (Some((global, _)), Some(fences)) => {
                let update = [CurrentUpdate { fence: global, value, current: word }];
                if let Err(status) = fences.update_current_values(&update, UpdateCurrentFlags::empty()) {
                    // Bug check 0x119, parameter 0x13 (sync §3.6).
                    self.stop(cx, format!("UpdateCurrentValuesFromCpu failed: {status}"));
                    return;
                }
            }
            _ => Word::store(word, value),
        }
        self.counters.cpu_signals += 1;
        cx.emit(Event::FenceSignaledFromCpu { fence: number, value });
        self.sample_fence(cx, number);
    }

    /// Looks at a fence's value and releases whom it satisfies. Returns how many.
    pub fn sample_fence(&mut self, cx: &mut Cx<'_>, number: u64) -> u32 {
        let current = self.current_value(number);
        let sampled = self.waits.sample(self.fences[number].waits, current);
        // CAST: waits are bounded by calls in flight.
        let mut released = sampled.released.len() as u32;
        self.release(cx, sampled.released);
        released += self.publish(cx, sampled.updates);
        released
    }

    /// Marks a fence satisfied for ever and releases everybody (sync §3.16).
    // spec: sync §3.16
    pub fn signal_always(&mut self, cx: &mut Cx<'_>, number: u64) {
        let fence = &mut self.fences[number];
        if std::mem::replace(&mut fence.always_signaled, true) {
            return;
        }
        let (kmd, word, waits) = (fence.kmd, fence.slot.current.0, fence.waits);
        Word::store(self.memory.word(word), u64::MAX);
        if let (Some((global, _)), Some(fences)) = (kmd, self.miniport.native_fences()) {
            let word = self.memory.word(word);
            let update = [CurrentUpdate { fence: global, value: ALWAYS_SIGNALED_VALUE, current: word }];
            if let Err(status) = fences.update_current_values(&update, UpdateCurrentFlags::ALWAYS_SIGNALED) {
                self.stop(cx, format!("UpdateCurrentValuesFromCpu failed: {status}"));
                return;
            }
        }
        let sampled = self.waits.always_signaled(waits);
        self.release(cx, sampled.released);
        self.publish(cx, sampled.updates);
    }

    /// Publishes MonitoredValues and samples again until nothing changes. Returns how many waits that released.
    // spec: sync §3.9
    pub fn publish(&mut self, cx: &mut Cx<'_>, mut updates: Vec<MonitoredUpdate>) -> u32 {
        let mut released = 0;
        while !updates.is_empty() && self.stopped.is_none() {
            let live: Vec<(u64, u64)> = updates
                .iter()
                .filter_map(|update| Some((*self.fence_numbers.get(&update.fence)?, update.value)))
                .collect();
            if live.is_empty() {
                break;
            }
            if let Err(status) = self.tell_monitored(&live) {
                // Bug check 0x119, parameter 0x12 (sync §3.9).
                self.stop(cx, format!("UpdateMonitoredValues failed: {status}"));
                break;
            }
            updates.clear();
            for (number, value) in live {
                cx.emit(Event::MonitoredValueUpdated { fence: number, value });
                let current = self.current_value(number);
                let sampled = self.waits.sample(self.fences[number].waits, current);
                // CAST: waits are bounded by calls in flight.
                released += sampled.released.len() as u32;
                self.release(cx, sampled.released);
                updates.extend(sampled.updates);
            }
        }
        released
    }

    /// Has the driver store MonitoredValues. A fence that only the kernel signals has nobody who reads its own.
    fn tell_monitored(&mut self, values: &[(u64, u64)]) -> Result<(), DriverStatus> {
        let update = |&(number, value): &(u64, u64)| {
            let fence = &self.fences[number];
            let monitored = self.memory.word(fence.slot.monitored.0);
            fence.kmd.map(|(global, _)| ddi::MonitoredUpdate { fence: global, value, monitored })
        };
        let batch: Vec<ddi::MonitoredUpdate<'_>> = values.iter().filter_map(update).collect();
        match self.miniport.native_fences() {
            Some(fences) if !batch.is_empty() => fences.update_monitored_values(&batch),
            _ => Ok(()),
        }
    }

    /// Queues what released waits do, and says so.
    fn release(&mut self, cx: &mut Cx<'_>, released: Vec<Waiter>) {
        for waiter in released {
            if let Waiter::Answer { token, device } = &waiter {
                let process = self.devices.get(*device).map_or(0, |device| device.process.0);
                cx.emit(Event::CpuWaitEnded { process, wait: token.0 });
            }
            self.due.push_back(waiter);
        }
    }

    /// Whether a fence is gone for those who could name it.
    pub fn fence_gone(&self, number: u64) -> bool {
        self.fences.get(number).is_none_or(|fence| fence.doomed)
    }
}

/// What the document gives as the value of an AlwaysSignaled update; drivers ignore it (sync §6 B12).
const ALWAYS_SIGNALED_VALUE: u64 = 0xFFFF_FFFF;
