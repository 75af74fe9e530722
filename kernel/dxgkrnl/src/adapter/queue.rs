//! Hardware queues where they meet other parts (sync §2.5, §3.11): the driver, their progress fences, their logs, their doorbells, the
//! scheduler. Which queues there are is `queue`'s.
//!
//! | module | what |
//! |---|---|
//! | `context` | contexts: created, destroyed |
//! | `submission` | command buffers from the call to the hardware |
//! | `signal` | waits and signals between them |

mod context;
mod signal;
mod submission;

use std::collections::BTreeSet;

use ddi::{CreateHwQueue, DriverStatus, HwQueueFlags, KmdQueue, OsQueue, ProgressFence};
use events::Event;
use kmt_calls::{QueueFlags, Refusal};
use vidsch::QueueKind;
use wddm_types::{NodeId, ProcessId};

use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::fence_log::Logs;
use crate::number::{ContextNumber, QueueNumber};
use crate::queue::{Context, Feed, Queue, is_fed_in_user_mode};
use crate::refusal::from_driver;
use crate::scheduling_log::SchedulingLogs;
use crate::store::ObjectNumber;
use crate::sync::WaitsOf;

impl Adapter {
    /// `D3DKMTCreateHwQueue` with its native progress fence.
    // spec: sync §3.11, sync §2.5
    pub fn create_queue(
        &mut self,
        cx: &mut Cx<'_>,
        context: ContextNumber,
        flags: QueueFlags,
        private_data: &mut [u8],
    ) -> Result<QueueNumber, Refusal> {
        let Context { device, node, kmd: kmd_context, .. } = self.queues[context];
        let user_mode = is_fed_in_user_mode(&self.driver, node, flags)?;
        let process = self.owners.process_of(device);
        let progress = self.create_progress_fence(cx, device, process)?;
        self.sync.forbid_signals(progress);
        let slot = self.sync.fence(progress).slot;
        let fence = self.sync.fence(progress).kmd.expect("hardware queues go with native fences");
        let number = self.queues.next_number();
        let create = CreateHwQueue {
            context: kmd_context,
            queue: OsQueue(number.raw()),
            flags: HwQueueFlags::from_bits_truncate(flags.bits()) | HwQueueFlags::NATIVE_PROGRESS_FENCE,
            progress: ProgressFence { fence, current_va: slot.current_va, monitored_va: slot.monitored_va },
            private_data,
        };
        let kmd = match self.create_queue_in_driver(cx, create) {
            Ok(kmd) => kmd,
            Err(status) => {
                self.destroy_fence(cx, progress);
                return Err(from_driver(status));
            }
        };
        // spec: sync §3.14: none where the kernel sees every wait and signal by itself
        let logs = match user_mode.then(|| self.make_logs(cx, process, kmd)).transpose() {
            Ok(logs) => logs,
            Err(refusal) => {
                self.destroy_queue_in_driver(cx, kmd);
                self.destroy_fence(cx, progress);
                return Err(refusal);
            }
        };
        let kind = if user_mode { QueueKind::User } else { QueueKind::Kernel };
        let in_flight_max = self.driver.node(node).max_in_flight_buffers;
        let vidsch = self.open_scheduled(process, node, kind, in_flight_max.into());
        let queue = Queue {
            context,
            device,
            kmd,
            vidsch,
            progress,
            user_mode,
            doorbell: None,
            logs: Logs::new(logs),
            feed: Feed::default(),
            no_timeout: flags.contains(QueueFlags::DISABLE_GPU_TIMEOUT),
            no_broadcast_signal: flags.contains(QueueFlags::NO_BROADCAST_SIGNAL),
            counted_ns: self.hardware_count(cx, kmd),
        };
        assert_eq!(self.queues.add(queue), number);
        if self.is_suspended(device) {
            self.vidsch.queues.suspend(vidsch);
        }
        let (queue, fence, owner) = (number.raw(), progress.raw(), kmd_context.0);
        cx.emit(self.index, Event::QueueCreated { queue, node: node.0, user_mode, process: process.0, fence, owner });
        Ok(number)
    }

    /// A queue of the scheduler whose engine time counts as the process's.
    pub(super) fn open_scheduled(
        &mut self,
        process: ProcessId,
        node: NodeId,
        kind: QueueKind,
        in_flight_max: u32,
    ) -> vidsch::QueueId {
        let queue = self.vidsch.queues.create_queue(node, kind, in_flight_max);
        self.vidsch.queues.count_for(queue, process.0);
        queue
    }

    fn create_queue_in_driver(&mut self, cx: &Cx<'_>, create: CreateHwQueue<'_>) -> Result<KmdQueue, DriverStatus> {
        let (driver, mut host) = self.driver.with_host(cx);
        driver.hardware_queues().expect("checked at adapter start").create_hw_queue(&mut host, create)
    }

    fn destroy_queue_in_driver(&mut self, cx: &Cx<'_>, queue: KmdQueue) {
        let (driver, mut host) = self.driver.with_host(cx);
        driver.hardware_queues().expect("checked at adapter start").destroy_hw_queue(&mut host, queue);
    }

    /// `D3DKMTDestroyHwQueue`: when the driver returns, the hardware executes nothing for it any more.
    pub fn destroy_queue(&mut self, cx: &mut Cx<'_>, number: QueueNumber) {
        if let Some(doorbell) = self.queues[number].doorbell {
            self.destroy_doorbell(cx, doorbell);
        }
        self.charge_queue(cx, number);
        let queue = self.queues.remove(number);
        self.destroy_queue_in_driver(cx, queue.kmd);
        // The driver names it in no interrupt any more: the kernel looks for the signals of its end.
        if self.driver.names_signaled_fences() {
            self.look_at_processes(cx, &BTreeSet::from([self.owners.process_of(queue.device)]));
        }
        let process = self.owners.process_of(queue.device);
        queue.logs.into_all().for_each(|logs| self.end_logs(cx, process, logs));
        // Work that never started is dropped with the queue.
        let dropped = self.vidsch.queues.destroy_queue(queue.vidsch);
        self.drop_parts(cx, dropped);
        self.end_idle_waits(cx, WaitsOf::Queue(number));
        self.vidsch.ranks.waits_no_more(queue.vidsch);
        self.displays.forget_queue(number);
        self.lend_logs(cx, SchedulingLogs::read);
        self.queues.unlist(number, (queue.context, queue.device));
        // Paging work may stand behind the progress fence: it is reached for ever now, and goes when the ring has passed.
        self.signal_always(cx, queue.progress);
        self.defer_fence(queue.progress);
        cx.emit(self.index, Event::QueueDestroyed { queue: number.raw() });
    }
}
