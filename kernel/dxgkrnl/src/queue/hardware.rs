//! Which hardware queues and contexts an adapter has, what each was made as, and what has become of it. Others read a [`Queue`] or a
//! [`Context`]; what changes in one, [`HardwareQueues`] alone changes.
//!
//! Not what a queue's packets are or whether it is suspended: the scheduler knows that (`vidsch`). This part asks no other. It holds, as
//! [`HardwareQueues::check`] checks:
//! - every queue is of a context that is there, names it, and is of the same device;
//! - every context and queue is listed for its device; of a device with none nothing is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Index;

use ddi::{KmdContext, KmdQueue};
use vidmm::StateDigest;
use wddm_types::{NodeId, ProcessId};

use super::Feed;
use crate::context_allocation::ContextAllocation;
use crate::fence_log::{LogPool, Logs};
use crate::number::{ContextNumber, DeviceNumber, DoorbellNumber, FenceNumber, QueueNumber};
use crate::store::Store;

/// A hardware context.
#[derive(Debug)]
pub struct Context {
    pub device: DeviceNumber,
    pub kmd: KmdContext,
    pub node: NodeId,
    pub queues: BTreeSet<QueueNumber>,
    /// The driver's allocations for it.
    pub allocations: Vec<ContextAllocation>,
}

/// A hardware queue.
#[derive(Debug)]
pub struct Queue {
    pub context: ContextNumber,
    pub device: DeviceNumber,
    pub kmd: KmdQueue,
    pub vidsch: vidsch::QueueId,
    /// Its progress fence.
    pub progress: FenceNumber,
    /// User-mode submission.
    pub user_mode: bool,
    pub doorbell: Option<DoorbellNumber>,
    /// Its logs, if its process feeds it.
    pub logs: Logs,
    /// The work that the kernel has fed it.
    pub feed: Feed,
    /// DisableGpuTimeout: its work may take as long as it takes.
    pub no_timeout: bool,
    /// NoBroadcastSignal: signals of several queues do not wait for it.
    pub no_broadcast_signal: bool,
    /// The hardware's count of its running time at the last charge; `None`: it does not count.
    pub counted_ns: Option<u64>,
}

/// The hardware queues of an adapter, and their contexts.
#[derive(Default)]
pub struct HardwareQueues {
    contexts: Store<ContextNumber, Context>,
    queues: Store<QueueNumber, Queue>,
    of_devices: BTreeMap<DeviceNumber, OfDevice>,
    /// The pages of logs of each process that has had any.
    log_pages: BTreeMap<ProcessId, LogPool>,
}

/// What a device has.
#[derive(Debug, Default)]
struct OfDevice {
    contexts: BTreeSet<ContextNumber>,
    /// Those of all its contexts.
    queues: BTreeSet<QueueNumber>,
}

/// The contexts.
impl HardwareQueues {
    /// The number that the next context gets.
    pub fn next_context(&self) -> ContextNumber {
        self.contexts.next_number()
    }

    /// A context comes.
    pub fn add_context(&mut self, context: Context) -> ContextNumber {
        debug_assert!(context.queues.is_empty(), "a new context has no queue: {context:?}");
        let device = context.device;
        let number = self.contexts.insert(context);
        let fresh = self.of_devices.entry(device).or_default().contexts.insert(number);
        debug_assert!(fresh, "a device is listed with a context once: {number:?}");
        number
    }

    /// A context goes, whose queues have gone.
    pub fn remove_context(&mut self, number: ContextNumber) -> Context {
        let context = self.contexts.remove(number).expect("a context is destroyed once");
        debug_assert!(context.queues.is_empty(), "queues go first");
        self.forget(context.device, |of| of.contexts.remove(&number));
        context
    }

    /// A context, if it is there.
    pub fn context(&self, number: ContextNumber) -> Option<&Context> {
        self.contexts.get(number)
    }

    /// All contexts.
    pub fn contexts(&self) -> impl Iterator<Item = (ContextNumber, &Context)> {
        self.contexts.iter()
    }

    /// The contexts of a device.
    pub fn contexts_of(&self, device: DeviceNumber) -> impl Iterator<Item = ContextNumber> + '_ {
        self.of_devices.get(&device).into_iter().flat_map(|of| of.contexts.iter().copied())
    }
}

/// The queues.
impl HardwareQueues {
    /// The number that the next queue gets.
    pub fn next_number(&self) -> QueueNumber {
        self.queues.next_number()
    }

    /// A queue comes, in a context that is there.
    pub fn add(&mut self, queue: Queue) -> QueueNumber {
        let (context, device) = (queue.context, queue.device);
        let number = self.queues.insert(queue);
        debug_assert_eq!(self.contexts[context].device, device, "a queue is of its context's device");
        let of_context = self.contexts[context].queues.insert(number);
        let of_device = self.of_devices.entry(device).or_default().queues.insert(number);
        debug_assert!(of_context && of_device, "a queue is listed once: {number:?}");
        number
    }

    /// A queue goes, whose doorbell has gone. Its context names it on, in logs that are still to be read, until [`HardwareQueues::unlist`].
    #[must_use = "it is unlisted behind its end"]
    pub fn remove(&mut self, number: QueueNumber) -> Queue {
        let queue = self.queues.remove(number).expect("a queue is destroyed once");
        debug_assert!(queue.doorbell.is_none(), "its doorbell goes first");
        queue
    }

    /// Nothing names a queue of this context and device any more.
    pub fn unlist(&mut self, number: QueueNumber, (context, device): (ContextNumber, DeviceNumber)) {
        debug_assert!(self.queues.get(number).is_none(), "a queue that is there is listed: {number:?}");
        let listed = self.contexts[context].queues.remove(&number);
        debug_assert!(listed, "a context lists its queues until their end: {number:?}");
        self.forget(device, |of| of.queues.remove(&number));
    }

    /// A queue, if it is there.
    pub fn get(&self, number: QueueNumber) -> Option<&Queue> {
        self.queues.get(number)
    }

    /// All queues.
    pub fn iter(&self) -> impl Iterator<Item = (QueueNumber, &Queue)> {
        self.queues.iter()
    }

    /// The queues of a device.
    pub fn of_device(&self, device: DeviceNumber) -> impl Iterator<Item = (QueueNumber, &Queue)> {
        let listed = self.of_devices.get(&device).into_iter().flat_map(|of| &of.queues);
        listed.filter_map(|number| Some((*number, self.queues.get(*number)?)))
    }

    /// The queues of a node.
    pub fn of_node(&self, node: NodeId) -> impl Iterator<Item = (QueueNumber, &Queue)> {
        self.queues.iter().filter(move |(_, queue)| self.contexts[queue.context].node == node)
    }

    /// The node that executes a queue.
    pub fn node_of(&self, number: QueueNumber) -> NodeId {
        self.contexts[self.queues[number].context].node
    }

    /// The work that the kernel has fed a queue, to note more of it.
    pub fn feed(&mut self, number: QueueNumber) -> &mut Feed {
        &mut self.queues[number].feed
    }

    /// The logs of a queue, to read or replace them.
    pub fn logs(&mut self, number: QueueNumber) -> &mut Logs {
        &mut self.queues[number].logs
    }

    /// The pages of a process's logs.
    pub fn log_pages(&mut self, process: ProcessId) -> &mut LogPool {
        self.log_pages.entry(process).or_default()
    }

    /// A process goes. These pages of logs it had.
    #[must_use = "they are still taken"]
    pub fn take_log_pages(&mut self, process: ProcessId) -> LogPool {
        self.log_pages.remove(&process).unwrap_or_default()
    }

    /// A queue that has none gets a doorbell.
    pub fn doorbell_comes(&mut self, number: QueueNumber, doorbell: DoorbellNumber) {
        let before = self.queues[number].doorbell.replace(doorbell);
        debug_assert!(before.is_none(), "a queue has one doorbell");
    }

    /// The doorbell of a queue goes. Its process has said that it has rung for work until here: memory must still wait for that.
    pub fn doorbell_goes(&mut self, number: QueueNumber, queued: u64) {
        let queue = &mut self.queues[number];
        debug_assert!(queue.doorbell.is_some(), "a doorbell that goes was its queue's: {queue:?}");
        queue.doorbell = None;
        queue.feed.submit(queued);
    }

    /// The running time of a queue was charged up to this count of the hardware's.
    pub fn charged(&mut self, number: QueueNumber, counted_ns: u64) {
        self.queues[number].counted_ns = Some(counted_ns);
    }
}

/// What holds for both.
impl HardwareQueues {
    fn forget(&mut self, device: DeviceNumber, leave: impl FnOnce(&mut OfDevice) -> bool) {
        let of = self.of_devices.get_mut(&device).expect("what is there is listed for its device");
        assert!(leave(of), "what is there is listed for its device");
        if of.contexts.is_empty() && of.queues.is_empty() {
            self.of_devices.remove(&device);
        }
    }

    /// Finds a fault in the relations between contexts, queues and devices.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(
        &self,
        is_there: impl Fn(DeviceNumber) -> bool,
        has_process: impl Fn(ProcessId) -> bool,
    ) -> Result<(), String> {
        if let Some(process) = self.log_pages.keys().find(|process| !has_process(**process)) {
            return Err(format!("{process:?} has gone, and has pages of logs"));
        }
        if let Some(device) = self.of_devices.keys().find(|device| !is_there(**device)) {
            return Err(format!("contexts are listed for device {device:?}, which has gone"));
        }
        for (number, context) in self.contexts.iter() {
            let listed = self.of_devices.get(&context.device).is_some_and(|of| of.contexts.contains(&number));
            let queues = context.queues.iter().all(|q| self.queues.get(*q).is_some_and(|q| q.context == number));
            if !listed || !queues {
                return Err(format!("context {number:?}: {context:?}"));
            }
        }
        for (number, queue) in self.queues.iter() {
            let context = self.contexts.get(queue.context).filter(|context| context.device == queue.device);
            let listed = self.of_devices.get(&queue.device).is_some_and(|of| of.queues.contains(&number));
            if !listed || !context.is_some_and(|context| context.queues.contains(&number)) {
                return Err(format!("queue {number:?} is of no context: {queue:?}"));
            }
        }
        let listed = |of: fn(&OfDevice) -> usize| self.of_devices.values().map(of).sum::<usize>();
        let counts = (listed(|of| of.contexts.len()), listed(|of| of.queues.len()));
        let there = (self.contexts.iter().count(), self.queues.iter().count());
        match counts == there {
            true => Ok(()),
            false => Err(format!("devices list {counts:?} contexts and queues, {there:?} are there")),
        }
    }

    /// For the digest of the adapter's state.
    pub fn add_to(&self, digest: &mut StateDigest) {
        self.contexts.iter().for_each(|(number, context)| digest.add("context", &number, context));
        self.queues.iter().for_each(|(number, queue)| digest.add("queue", &number, queue));
        let used = self.log_pages.iter().filter(|(_, pool)| pool.is_used());
        used.for_each(|(process, pool)| digest.add("logs of process", &process.0, pool));
    }
}

impl Index<QueueNumber> for HardwareQueues {
    type Output = Queue;

    /// # Panics
    /// For a queue that is gone: inside the kernel numbers are held only as long as their objects.
    fn index(&self, number: QueueNumber) -> &Queue {
        &self.queues[number]
    }
}

impl Index<ContextNumber> for HardwareQueues {
    type Output = Context;

    /// # Panics
    /// For a context that is gone, likewise.
    fn index(&self, number: ContextNumber) -> &Context {
        &self.contexts[number]
    }
}

#[cfg(test)]
mod tests {
    use vidsch::{Limits, QueueKind, Queues};

    use super::*;
    use crate::store::ObjectNumber;

    fn queue(context: ContextNumber, device: DeviceNumber) -> Queue {
        let mut scheduler = Queues::<(), u64>::new(Limits { packets_per_queue: 1 });
        Queue {
            context,
            device,
            kmd: KmdQueue(7),
            vidsch: scheduler.create_queue(NodeId(1), QueueKind::Kernel, 1),
            progress: FenceNumber::from_raw(1),
            user_mode: false,
            doorbell: None,
            logs: Logs::new(None),
            feed: Feed::default(),
            no_timeout: false,
            no_broadcast_signal: false,
            counted_ns: None,
        }
    }

    #[test]
    fn a_device_has_its_contexts_and_queues_and_nothing_when_they_have_gone() {
        let mut known = HardwareQueues::default();
        let (device, other) = (DeviceNumber::from_raw(3), DeviceNumber::from_raw(4));
        let context = |device, node| Context {
            device,
            kmd: KmdContext(5),
            node: NodeId(node),
            queues: BTreeSet::new(),
            allocations: Vec::new(),
        };
        let (first, second) = (known.add_context(context(device, 1)), known.add_context(context(other, 0)));
        let (a, b) = (known.add(queue(first, device)), known.add(queue(second, other)));
        let of = |known: &HardwareQueues, device| known.of_device(device).map(|(number, _)| number).collect::<Vec<_>>();
        assert_eq!((of(&known, device), of(&known, other)), (vec![a], vec![b]));
        assert_eq!(known.contexts_of(other).collect::<Vec<_>>(), [second]);
        assert_eq!(known.of_node(NodeId(1)).map(|(number, _)| number).collect::<Vec<_>>(), [a]);
        assert_eq!((known.node_of(b), known[first].queues.len()), (NodeId(0), 1));
        assert_eq!(known.check(|_| true, |_| true), Ok(()));
        assert!(
            known.check(|there| there == device, |_| true).is_err(),
            "the other device has gone, and its context is there"
        );

        drop(known.remove(a));
        assert_eq!((of(&known, device), known[first].queues.len()), (vec![], 1), "logs name it on");
        assert!(known.check(|_| true, |_| true).is_err(), "it is listed, and not there");
        known.unlist(a, (first, device));
        assert_eq!(known.check(|_| true, |_| true), Ok(()));
        drop(known.remove_context(first));
        assert_eq!((known.contexts_of(device).count(), known.contexts().count()), (0, 1));
        assert_eq!(
            known.check(|there| there == other, |_| true),
            Ok(()),
            "nothing is kept for a device that has nothing"
        );
    }

    #[test]
    fn work_rung_for_counts_on_when_its_doorbell_goes() {
        let mut known = HardwareQueues::default();
        let device = DeviceNumber::from_raw(3);
        let (kmd, node) = (KmdContext(5), NodeId(0));
        let context =
            known.add_context(Context { device, kmd, node, queues: BTreeSet::new(), allocations: Vec::new() });
        let number = known.add(queue(context, device));
        known.doorbell_comes(number, DoorbellNumber::from_raw(9));
        assert_eq!(known[number].doorbell, Some(DoorbellNumber::from_raw(9)));
        known.doorbell_goes(number, 12);
        assert_eq!((known[number].doorbell, known[number].feed.submitted()), (None, 12));
        known.charged(number, 40);
        assert_eq!(known[number].counted_ns, Some(40));
    }

    #[test]
    fn pages_of_logs_of_a_process_that_has_gone_are_found() {
        let mut known = HardwareQueues::default();
        let process = ProcessId(4);
        known.log_pages(process);
        assert_eq!(known.check(|_| true, |there| there == process), Ok(()));
        assert!(known.check(|_| true, |_| false).is_err_and(|wrong| wrong.contains("ProcessId(4)")));
        let _ = known.take_log_pages(process);
        assert_eq!(known.check(|_| true, |_| false), Ok(()));
    }
}
