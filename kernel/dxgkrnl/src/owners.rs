//! Owners: which processes and devices an adapter has, the facts of them that never change, and whether a device is lost. The objects of
//! each stand elsewhere: each part keys its own record by the same number. This part is a leaf: every other part may ask it, and it asks
//! none.
//!
//! Relations between the fields, which `check` looks at and assertions hold:
//! - every device is of a process that is there and names it, and is found by its number at the memory manager;
//! - every process is found by its address space; beside the system's own each has a device, or is about to get its first.

use std::collections::{BTreeMap, BTreeSet};

use ddi::{DeviceInfo, KmdDevice, KmdProcess};
use kmt_calls::{DeviceFault, DeviceState};
use vidmm::{DeviceId, SpaceId};
use wddm_types::{ProcessId, RawHandle};

use crate::number::DeviceNumber;
use crate::store::Store;

/// The processes and devices of one adapter.
#[derive(Default)]
pub struct Owners {
    devices: Store<DeviceNumber, KnownDevice>,
    by_id: BTreeMap<DeviceId, DeviceNumber>,
    processes: BTreeMap<ProcessId, KnownProcess>,
    by_space: BTreeMap<SpaceId, ProcessId>,
}

/// The facts of a device, which never change.
#[derive(Clone, Copy, Debug)]
pub struct DeviceFacts {
    pub process: ProcessId,
    /// The adapter handle that it was created by, which stays open as long as the device is there.
    pub handle: RawHandle,
    pub vidmm: DeviceId,
    pub kmd: KmdDevice,
    /// The driver's needs of DMA buffers for contexts of which it says nothing.
    pub info: DeviceInfo,
}

/// The facts of a process on an adapter, which never change.
#[derive(Clone, Copy, Debug)]
pub struct ProcessFacts {
    /// Its GPU address space.
    pub space: SpaceId,
    /// The driver's handle.
    pub kmd: KmdProcess,
}

/// A device, as far as it is known here.
#[derive(Debug)]
pub struct KnownDevice {
    facts: DeviceFacts,
    state: DeviceState,
    /// Why it was lost; empty: it lives, or the adapter stopped.
    lost_for: String,
    /// The fault of its GPU's work, if it was lost for that.
    fault: Option<DeviceFault>,
}

/// A process, as far as it is known here.
#[derive(Debug)]
pub struct KnownProcess {
    facts: ProcessFacts,
    /// `D3DKMT_SCHEDULINGPRIORITYCLASS`.
    class: u32,
    /// Its devices here; the system's own, which is the paging ring's, is none of these.
    devices: BTreeSet<DeviceNumber>,
}

/// The processes of the adapter.
impl Owners {
    /// A process comes: it has no device yet.
    pub fn process_comes(&mut self, process: ProcessId, facts: ProcessFacts, class: u32) {
        let known = KnownProcess { facts, class, devices: BTreeSet::new() };
        assert!(self.processes.insert(process, known).is_none(), "{process:?} is there already");
        let before = self.by_space.insert(facts.space, process);
        debug_assert!(before.is_none(), "a space is one process's: {process:?} after {before:?}");
    }

    /// A process goes if its last device has gone. It had these; `None`: it stays, or was never there.
    pub fn process_goes(&mut self, process: ProcessId) -> Option<ProcessFacts> {
        if !self.processes.get(&process)?.devices.is_empty() {
            return None;
        }
        let facts = self.processes.remove(&process)?.facts;
        let found = self.by_space.remove(&facts.space);
        debug_assert_eq!(found, Some(process), "a process is found by its space");
        Some(facts)
    }

    /// Whether a process is here.
    pub fn has_process(&self, process: ProcessId) -> bool {
        self.processes.contains_key(&process)
    }

    /// All processes, the system among them.
    pub fn processes(&self) -> impl Iterator<Item = (ProcessId, &KnownProcess)> {
        self.processes.iter().map(|(process, known)| (*process, known))
    }

    /// The facts of a process; `None`: it is not here.
    pub fn facts_of_process(&self, process: ProcessId) -> Option<ProcessFacts> {
        self.processes.get(&process).map(|known| known.facts)
    }

    /// The address space of a process, which is here.
    pub fn space_of(&self, process: ProcessId) -> SpaceId {
        self.processes[&process].facts.space
    }

    /// The process in an address space; `None`: it has gone.
    pub fn process_in(&self, space: SpaceId) -> Option<ProcessId> {
        self.by_space.get(&space).copied()
    }

    /// The priority class of a process, which is here.
    pub fn class_of(&self, process: ProcessId) -> u32 {
        self.processes[&process].class
    }

    /// A process is of another class from now on. Whether it was of another one before.
    pub fn set_class(&mut self, process: ProcessId, class: u32) -> bool {
        let known = self.processes.get_mut(&process).expect("only a process that is here has a class");
        std::mem::replace(&mut known.class, class) != class
    }
}

/// The devices of the adapter.
impl Owners {
    /// A device comes.
    pub fn device_comes(&mut self, facts: DeviceFacts) -> DeviceNumber {
        let state = DeviceState::Active;
        let number = self.devices.insert(KnownDevice { facts, state, lost_for: String::new(), fault: None });
        let before = self.by_id.insert(facts.vidmm, number);
        debug_assert!(before.is_none(), "the memory manager has a number for one device: {number:?} after {before:?}");
        self.processes.get_mut(&facts.process).expect("a device's process is here").devices.insert(number);
        number
    }

    /// A device goes. It was this one.
    pub fn device_goes(&mut self, number: DeviceNumber) -> DeviceFacts {
        let facts = self.devices.remove(number).expect("a device is destroyed once").facts;
        let found = self.by_id.remove(&facts.vidmm);
        debug_assert_eq!(found, Some(number), "a device is found by the memory manager's number");
        let process = self.processes.get_mut(&facts.process).expect("a device's process is here");
        let listed = process.devices.remove(&number);
        debug_assert!(listed, "a process lists its devices: {number:?}");
        facts
    }

    /// All devices.
    pub fn devices(&self) -> impl Iterator<Item = (DeviceNumber, &KnownDevice)> {
        self.devices.iter()
    }

    /// The devices of a process, of which it has none when it is not here.
    pub fn devices_of(&self, process: ProcessId) -> impl Iterator<Item = DeviceNumber> + '_ {
        self.processes.get(&process).into_iter().flat_map(|known| known.devices.iter().copied())
    }

    /// The device that the memory manager knows by this number; `None`: it has gone.
    pub fn device_of(&self, id: DeviceId) -> Option<DeviceNumber> {
        self.by_id.get(&id).copied()
    }

    /// The facts of a device; `None`: it has gone.
    pub fn facts_of(&self, number: DeviceNumber) -> Option<DeviceFacts> {
        self.devices.get(number).map(|known| known.facts)
    }

    /// The process of a device.
    pub fn process_of(&self, number: DeviceNumber) -> ProcessId {
        self.devices[number].facts.process
    }

    /// The memory manager's number of a device.
    pub fn vidmm_of(&self, number: DeviceNumber) -> DeviceId {
        self.devices[number].facts.vidmm
    }

    /// The driver's handle of a device.
    pub fn kmd_of(&self, number: DeviceNumber) -> KmdDevice {
        self.devices[number].facts.kmd
    }

    /// Whether a device is there and not lost.
    pub fn is_active(&self, number: DeviceNumber) -> bool {
        self.devices.get(number).is_some_and(|known| known.state == DeviceState::Active)
    }

    /// The state of a device.
    pub fn state_of(&self, number: DeviceNumber) -> DeviceState {
        self.devices[number].state
    }

    /// Why a device was lost; `None`: it lives, has gone, or was lost with its adapter.
    pub fn loss_of(&self, number: DeviceNumber) -> Option<&str> {
        self.devices.get(number).map(|known| &known.lost_for[..]).filter(|reason| !reason.is_empty())
    }

    /// The fault that a device was lost for, if it was one.
    pub fn fault_of(&self, number: DeviceNumber) -> Option<DeviceFault> {
        self.devices[number].fault
    }

    /// A device is lost, into this state. False: it was lost before, and for that it stays.
    pub fn lose(&mut self, number: DeviceNumber, state: DeviceState, reason: &str) -> bool {
        let known = &mut self.devices[number];
        debug_assert_ne!(state, DeviceState::Active, "a device is lost into another state");
        let active = known.state == DeviceState::Active;
        if active {
            debug_assert!(known.lost_for.is_empty(), "what was not lost has no reason: {known:?}");
            (known.state, known.lost_for) = (state, reason.to_owned());
        }
        active
    }

    /// The work of a device has faulted, for which it is about to be lost; one that is lost keeps its own reason.
    pub fn note_fault(&mut self, number: DeviceNumber, fault: DeviceFault) {
        let known = &mut self.devices[number];
        if known.state == DeviceState::Active {
            known.fault = Some(fault);
        }
    }

    /// Finds a fault in the relations between the fields.
    pub fn check(&self) -> Result<(), String> {
        for (number, known) in self.devices.iter() {
            let listed = self.processes.get(&known.facts.process).is_some_and(|of| of.devices.contains(&number));
            if !listed || self.by_id.get(&known.facts.vidmm) != Some(&number) {
                return Err(format!("device {number:?} is of no process, or not found"));
            }
            if known.state == DeviceState::Active && !known.lost_for.is_empty() {
                return Err(format!("device {number:?} is not lost, and has a reason: {known:?}"));
            }
        }
        let counts = (self.by_space.len(), self.by_id.len());
        let there = (self.processes.len(), self.devices.iter().count());
        if counts != there {
            return Err(format!("{counts:?} processes and devices are found, {there:?} are there"));
        }
        let listed: usize = self.processes.values().map(|known| known.devices.len()).sum();
        if listed != there.1 {
            return Err(format!("processes name {listed} devices, {} are there", there.1));
        }
        let lost =
            |(process, known): &(&ProcessId, &KnownProcess)| self.by_space.get(&known.facts.space) != Some(process);
        match self.processes.iter().find(lost) {
            Some((process, _)) => Err(format!("process {} is not found by its space", process.0)),
            None => Ok(()),
        }
    }
}
