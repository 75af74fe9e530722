//! Which handles of the driver are alive, and whether the kernel respects it: created before used, opened before closed,
//! closed before destroyed, destroyed once, nothing before start or after stop.

use std::collections::{BTreeMap, BTreeSet};

use ddi::{
    KmdAllocation, KmdContext, KmdDevice, KmdDoorbell, KmdGlobalFence, KmdLocalFence, KmdOpenAllocation, KmdProcess,
    KmdQueue, OsDoorbell,
};
use wddm_types::NodeId;

/// A rule that was broken, in words.
pub type Broken = String;

/// The objects that the driver holds for the kernel.
#[derive(Debug, Default)]
pub struct Contract {
    started: bool,
    processes: BTreeMap<KmdProcess, bool>,
    devices: BTreeMap<KmdDevice, KmdProcess>,
    contexts: BTreeMap<KmdContext, KmdDevice>,
    suspended: BTreeSet<KmdContext>,
    /// Packet contexts of which the hardware has no packet.
    resting: BTreeSet<KmdContext>,
    /// The engine of each context, and those engines that have less power.
    nodes: BTreeMap<KmdContext, NodeId>,
    low: BTreeSet<NodeId>,
    queues: BTreeMap<KmdQueue, Queue>,
    doorbells: BTreeMap<KmdDoorbell, Bell>,
    /// With how often each is open.
    allocations: BTreeMap<KmdAllocation, u32>,
    opened: BTreeMap<KmdOpenAllocation, (KmdAllocation, KmdDevice)>,
    globals: BTreeMap<KmdGlobalFence, u32>,
    locals: BTreeMap<KmdLocalFence, KmdGlobalFence>,
}

#[derive(Debug)]
struct Queue {
    context: KmdContext,
    stopped: bool,
    last_value: u64,
}

#[derive(Debug)]
struct Bell {
    queue: KmdQueue,
    os: OsDoorbell,
    connected: bool,
}

/// The number of objects that the driver still holds, with the kernel's own: the paging process with its device, context, queue, fences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectCounts {
    /// Processes, the paging process included.
    pub processes: usize,
    /// Devices of all processes.
    pub devices: usize,
    /// Contexts of all devices.
    pub contexts: usize,
    /// Queues of all contexts.
    pub queues: usize,
    /// Doorbells of all queues.
    pub doorbells: usize,
    /// Allocations that are alive.
    pub allocations: usize,
    /// Fences that are alive.
    pub fences: usize,
    /// Opens of fences.
    pub opens: usize,
}

impl Contract {
    /// The number of objects held now.
    pub fn held(&self) -> ObjectCounts {
        ObjectCounts {
            processes: self.processes.len(),
            devices: self.devices.len(),
            contexts: self.contexts.len(),
            queues: self.queues.len(),
            doorbells: self.doorbells.len(),
            allocations: self.allocations.len(),
            fences: self.globals.len(),
            opens: self.locals.len(),
        }
    }

    /// The device has started, or is about to stop.
    pub fn started(&mut self, started: bool) -> Result<(), Broken> {
        if self.started == started {
            return Err(format!("started {started} twice"));
        }
        self.started = started;
        Ok(())
    }

    /// Paging operations come only between start and stop.
    pub fn running(&self) -> Result<(), Broken> {
        if self.started { Ok(()) } else { Err("a paging operation while the device is not started".into()) }
    }

    /// Whether a process is the paging process.
    pub fn is_system(&self, process: KmdProcess) -> bool {
        self.processes.get(&process).copied().unwrap_or(false)
    }

    /// The paging process.
    pub fn system(&self) -> Option<KmdProcess> {
        self.processes.iter().find(|(_, system)| **system).map(|(process, _)| *process)
    }

    /// A suspended context does not run until the kernel resumes it.
    pub fn suspended(&mut self, context: KmdContext, suspended: bool) {
        if suspended {
            self.suspended.insert(context);
        } else {
            self.suspended.remove(&context);
        }
    }

    /// The hardware has packets of all packet contexts but these.
    pub fn rest(&mut self, contexts: impl Iterator<Item = KmdContext>) {
        self.resting = contexts.collect();
    }

    /// A context of this process that may run.
    pub fn running_context(&self, process: KmdProcess) -> Option<KmdContext> {
        self.running_contexts(process).find(|context| !self.resting.contains(context))
    }

    /// Contexts of this process that may run. One of a lost device does not, whose queues were all stopped.
    fn running_contexts(&self, process: KmdProcess) -> impl Iterator<Item = KmdContext> + '_ {
        let of = move |device: &KmdDevice| self.devices.get(device) == Some(&process);
        let is_lost = |context: &KmdContext| {
            let mut queues = self.queues.values().filter(|queue| queue.context == *context).peekable();
            queues.peek().is_some() && queues.all(|queue| queue.stopped)
        };
        let runs = move |context: &KmdContext| !self.suspended.contains(context) && !is_lost(context);
        let all = self.contexts.iter().map(|(context, device)| (*context, *device));
        all.filter(move |(context, device)| of(device) && runs(context)).map(|(context, _)| context)
    }

    /// A process that exists.
    pub fn process(&self, process: KmdProcess) -> Result<(), Broken> {
        if self.processes.contains_key(&process) { Ok(()) } else { Err(format!("{process:?} is not alive")) }
    }

    /// An allocation that exists.
    pub fn allocation(&self, allocation: KmdAllocation) -> Result<(), Broken> {
        if self.allocations.contains_key(&allocation) { Ok(()) } else { Err(format!("{allocation:?} is not alive")) }
    }

    /// Whether contexts of this process exist.
    pub fn has_contexts(&self, process: KmdProcess) -> bool {
        self.contexts.values().any(|device| self.devices.get(device) == Some(&process))
    }

    /// A process was made.
    pub fn create_process(&mut self, process: KmdProcess, system: bool) -> Result<(), Broken> {
        fresh(self.processes.insert(process, system).is_none(), &process)
    }

    /// A process goes: its devices are gone.
    pub fn destroy_process(&mut self, process: KmdProcess) -> Result<(), Broken> {
        once(self.processes.remove(&process).is_some(), &process)?;
        none(self.devices.values().any(|of| *of == process), &process, "devices")
    }

    /// A device was made.
    pub fn create_device(&mut self, device: KmdDevice, process: KmdProcess) -> Result<(), Broken> {
        self.process(process)?;
        fresh(self.devices.insert(device, process).is_none(), &device)
    }

    /// A device goes: its contexts are gone.
    pub fn destroy_device(&mut self, device: KmdDevice) -> Result<(), Broken> {
        once(self.devices.remove(&device).is_some(), &device)?;
        none(self.contexts.values().any(|of| *of == device), &device, "contexts")?;
        none(self.opened.values().any(|(_, of)| *of == device), &device, "open allocations")
    }

    /// A context was made.
    pub fn create_context(&mut self, context: KmdContext, device: KmdDevice, node: NodeId) -> Result<(), Broken> {
        once(self.devices.contains_key(&device), &device)?;
        self.nodes.insert(context, node);
        fresh(self.contexts.insert(context, device).is_none(), &context)
    }

    /// A context goes: its queues are gone.
    pub fn destroy_context(&mut self, context: KmdContext) -> Result<(), Broken> {
        once(self.contexts.remove(&context).is_some(), &context)?;
        self.suspended.remove(&context);
        self.nodes.remove(&context);
        none(self.queues.values().any(|of| of.context == context), &context, "queues")
    }

    /// A queue was made, on a progress fence that is open.
    pub fn create_queue(
        &mut self,
        queue: KmdQueue,
        context: KmdContext,
        progress: KmdGlobalFence,
    ) -> Result<(), Broken> {
        once(self.contexts.contains_key(&context), &context)?;
        self.live_fence(progress)?;
        fresh(self.queues.insert(queue, Queue { context, stopped: false, last_value: 0 }).is_none(), &queue)
    }

    /// A queue goes: its doorbell is gone.
    pub fn destroy_queue(&mut self, queue: KmdQueue) -> Result<(), Broken> {
        once(self.queues.remove(&queue).is_some(), &queue)?;
        none(self.doorbells.values().any(|of| of.queue == queue), &queue, "doorbells")
    }

    /// A queue is stopped for good.
    pub fn stop_queue(&mut self, queue: KmdQueue) -> Result<(), Broken> {
        let found = self.queues.get_mut(&queue).ok_or_else(|| format!("{queue:?} is not alive"))?;
        found.stopped = true;
        Ok(())
    }

    /// A buffer is submitted: the queue runs, and its values rise.
    pub fn submit(&mut self, queue: KmdQueue, value: u64) -> Result<(), Broken> {
        let found = self.queues.get_mut(&queue).ok_or_else(|| format!("{queue:?} is not alive"))?;
        if found.stopped {
            return Err(format!("a buffer for {queue:?}, which was stopped"));
        }
        if value <= found.last_value {
            return Err(format!("progress value {value} after {} on {queue:?}", found.last_value));
        }
        found.last_value = value;
        let context = found.context;
        self.has_power(context)
    }

    /// A doorbell was made.
    pub fn create_doorbell(&mut self, doorbell: KmdDoorbell, os: OsDoorbell, queue: KmdQueue) -> Result<(), Broken> {
        once(self.queues.contains_key(&queue), &queue)?;
        fresh(self.doorbells.insert(doorbell, Bell { queue, os, connected: false }).is_none(), &doorbell)
    }

    /// A doorbell is connected or disconnected.
    pub fn connect(&mut self, doorbell: KmdDoorbell, connected: bool) -> Result<(), Broken> {
        let bell = self.doorbells.get_mut(&doorbell).ok_or_else(|| format!("{doorbell:?} is not alive"))?;
        if !connected && !bell.connected {
            return Err(format!("{doorbell:?} is disconnected without a connect"));
        }
        bell.connected = connected;
        let context = self.queues.get(&bell.queue).map(|queue| queue.context);
        if connected { context.map_or(Ok(()), |context| self.has_power(context)) } else { Ok(()) }
    }

    /// An engine gets less power or all of it: no process can ring it then.
    // spec: sync §3.17
    pub fn engine_power(&mut self, node: NodeId, low: bool) -> Result<(), Broken> {
        if !low {
            self.low.remove(&node);
            return Ok(());
        }
        self.low.insert(node);
        let there = |queue: &KmdQueue| {
            self.queues.get(queue).is_some_and(|queue| self.nodes.get(&queue.context) == Some(&node))
        };
        let rung = self.doorbells.iter().find(|(_, bell)| bell.connected && there(&bell.queue));
        rung.map_or(Ok(()), |(doorbell, _)| Err(format!("{doorbell:?} is connected to an engine with less power")))
    }

    /// The device gets power, or loses it: then no context runs there and no process rings.
    // spec: sync §3.17
    pub fn power(&mut self, on: bool) -> Result<(), Broken> {
        self.low.clear();
        if on {
            return Ok(());
        }
        if let Some((doorbell, _)) = self.doorbells.iter().find(|(_, bell)| bell.connected) {
            return Err(format!("{doorbell:?} is connected to a device without power"));
        }
        // Packets are not suspended: the hardware has none (`check::packets`).
        let queued: BTreeSet<_> = self.queues.values().map(|queue| queue.context).collect();
        let all = self.processes.iter().filter(|(_, system)| !**system);
        let runs = all.flat_map(|(process, _)| self.running_contexts(*process)).find(|of| queued.contains(of));
        runs.map_or(Ok(()), |context| Err(format!("{context:?} may run on a device without power")))
    }

    /// A context's engine has all its power.
    fn has_power(&self, context: KmdContext) -> Result<(), Broken> {
        let low = self.nodes.get(&context).filter(|node| self.low.contains(node));
        low.map_or(Ok(()), |node| Err(format!("{context:?} is given work on {node:?}, which has less power")))
    }

    /// The driver took a doorbell away.
    pub fn taken(&mut self, os: OsDoorbell) -> Result<(), Broken> {
        let found = self.doorbells.iter().find(|(_, bell)| bell.os == os).map(|(doorbell, _)| *doorbell);
        self.connect(found.ok_or_else(|| format!("{os:?} is not alive"))?, false)
    }

    /// A doorbell goes, disconnected.
    pub fn destroy_doorbell(&mut self, doorbell: KmdDoorbell) -> Result<(), Broken> {
        let bell = self.doorbells.remove(&doorbell).ok_or_else(|| format!("{doorbell:?} is destroyed twice"))?;
        none(bell.connected, &doorbell, "a connection")
    }

    /// A queue that is named in a notification.
    pub fn notify(&self, queue: KmdQueue) -> Result<(), Broken> {
        once(self.queues.contains_key(&queue), &queue)
    }

    /// An allocation was made.
    pub fn create_allocation(&mut self, allocation: KmdAllocation) -> Result<(), Broken> {
        fresh(self.allocations.insert(allocation, 0).is_none(), &allocation)
    }

    /// A device opened an allocation.
    // spec: memory §2.7
    pub fn open_allocation(
        &mut self,
        open: KmdOpenAllocation,
        allocation: KmdAllocation,
        device: KmdDevice,
    ) -> Result<(), Broken> {
        once(self.devices.contains_key(&device), &device)?;
        *self.allocations.get_mut(&allocation).ok_or_else(|| format!("an open of {allocation:?}, which is gone"))? += 1;
        fresh(self.opened.insert(open, (allocation, device)).is_none(), &open)
    }

    /// An open is closed, by the device that opened it.
    // spec: memory §2.7
    pub fn close_allocation(&mut self, open: KmdOpenAllocation, device: KmdDevice) -> Result<(), Broken> {
        let (allocation, of) = self.opened.remove(&open).ok_or_else(|| format!("{open:?} is closed twice"))?;
        none(of != device, &open, "another device")?;
        *self.allocations.get_mut(&allocation).ok_or_else(|| format!("{allocation:?} went before its close"))? -= 1;
        Ok(())
    }

    /// An allocation goes: no device has it open.
    // spec: memory §2.7
    pub fn destroy_allocation(&mut self, allocation: KmdAllocation) -> Result<(), Broken> {
        let opens = self.allocations.remove(&allocation).ok_or_else(|| format!("{allocation:?} is not alive"))?;
        none(opens != 0, &allocation, "opens")
    }

    /// The process of a device.
    pub fn process_of(&self, device: KmdDevice) -> Option<KmdProcess> {
        self.devices.get(&device).copied()
    }

    /// A fence was made.
    pub fn create_fence(&mut self, fence: KmdGlobalFence) -> Result<(), Broken> {
        fresh(self.globals.insert(fence, 0).is_none(), &fence)
    }

    /// A fence was opened.
    // spec: sync §3.2
    pub fn open_fence(&mut self, local: KmdLocalFence, global: KmdGlobalFence) -> Result<(), Broken> {
        *self.globals.get_mut(&global).ok_or_else(|| format!("an open of {global:?}, which is not alive"))? += 1;
        fresh(self.locals.insert(local, global).is_none(), &local)
    }

    /// An open is closed.
    pub fn close_fence(&mut self, local: KmdLocalFence) -> Result<(), Broken> {
        let global = self.locals.remove(&local).ok_or_else(|| format!("{local:?} is closed twice"))?;
        *self.globals.get_mut(&global).ok_or_else(|| format!("{global:?} was destroyed before its close"))? -= 1;
        Ok(())
    }

    /// A fence goes: every open is closed.
    // spec: sync §3.4
    pub fn destroy_fence(&mut self, fence: KmdGlobalFence) -> Result<(), Broken> {
        let opens = self.globals.remove(&fence).ok_or_else(|| format!("{fence:?} is destroyed twice"))?;
        none(opens != 0, &fence, "opens")
    }

    /// A fence that an update names is alive and open.
    pub fn live_fence(&self, fence: KmdGlobalFence) -> Result<(), Broken> {
        match self.globals.get(&fence) {
            Some(opens) if *opens > 0 => Ok(()),
            Some(_) => Err(format!("{fence:?} is named while no process has it open")),
            None => Err(format!("{fence:?} is named after its destruction")),
        }
    }
}

fn fresh(fresh: bool, what: &dyn std::fmt::Debug) -> Result<(), Broken> {
    if fresh { Ok(()) } else { Err(format!("{what:?} was given out twice")) }
}

fn once(alive: bool, what: &dyn std::fmt::Debug) -> Result<(), Broken> {
    if alive { Ok(()) } else { Err(format!("{what:?} is not alive")) }
}

fn none(some: bool, what: &dyn std::fmt::Debug, left: &str) -> Result<(), Broken> {
    if some { Err(format!("{what:?} goes while it has {left}")) } else { Ok(()) }
}
