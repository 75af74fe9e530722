//! Whether a tool traces native fences, and which logs queues get for that (sync §3.14). `fence_log` makes the logs and reads them. Of queues and contexts
//! that the kernel feeds, which have no logs, this module tells a tool itself.

use events::Event;
use gpu_fence::FenceId;
use shared_words::log;
use wddm_types::{FencePoint, PAGE_BYTES, Pages};

use super::Synchronization;
use crate::effect::Cx;
use crate::number::{FenceNumber, PacketContextNumber, QueueNumber};
use crate::store::ObjectNumber;

/// Pages of each log of a queue while a tool traces. Policy: room for 5,460 entries, which a client that has
/// 64 submissions of some waits under way does not fill between two of its calls.
const TRACED_PAGES: u64 = 64;

/// What a tool has switched on.
#[derive(Debug, Default)]
pub(super) struct FenceTracing {
    on: bool,
    /// Further types of logs are there.
    verbose: bool,
}

/// The logs of a queue: how many there are, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogShape {
    /// Waits and signals, and submissions only while a tool wants them.
    // spec: sync §3.14 (both types are mandatory, others only while a tool has switched them on)
    pub logs: u64,
    /// Pages of all of them together.
    // spec: sync §3.14 (overrun)
    pub pages: Pages,
}

/// A queue or a context that the kernel feeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fed {
    /// A hardware queue.
    Queue(QueueNumber),
    /// A packet context.
    Packets(PacketContextNumber),
}

impl Synchronization {
    /// Whether a tool traces.
    pub fn is_traced(&self) -> bool {
        self.tracing.on
    }

    /// A tool begins or ceases to trace. Whether that is new.
    #[must_use]
    pub fn trace(&mut self, on: bool) -> bool {
        std::mem::replace(&mut self.tracing.on, on) != on
    }

    /// Whether queues have logs of further types.
    pub fn has_verbose_logs(&self) -> bool {
        self.tracing.verbose
    }

    /// A tool switches further types of logs on or off.
    pub fn set_verbose_logs(&mut self, on: bool) {
        self.tracing.verbose = on;
    }

    /// The logs that each queue is to have now.
    pub fn log_shape(&self) -> LogShape {
        let logs = 2 + u64::from(self.tracing.verbose);
        let each = if self.tracing.on { TRACED_PAGES } else { log::LOG_BYTES / PAGE_BYTES };
        LogShape { logs, pages: Pages(logs * each) }
    }

    /// A tool is told of waits and signals on a queue that the kernel feeds: they were submitted, or are done. Of these the kernel knows
    /// everything by itself; such queues have no logs.
    // spec: sync §3.14 (their waits and signals are software commands, which the kernel times itself)
    pub fn tell_fed(&self, cx: &mut Cx<'_>, of: Fed, points: &[(FenceNumber, u64)], signal: bool, done: bool) {
        if !self.is_traced() {
            return;
        }
        let (queue, packets) = match of {
            Fed::Queue(queue) => (queue.raw(), false),
            Fed::Packets(context) => (context.raw(), true),
        };
        for &(fence, value) in points {
            cx.emit(
                self.adapter,
                match done {
                    false => Event::KernelFedFenceQueued { queue, packets, fence: fence.raw(), value, signal },
                    true => Event::KernelFedFenceDone { queue, packets, fence: fence.raw(), value, signal },
                },
            );
        }
    }

    /// The same of waits that hold.
    pub fn tell_waited(&self, cx: &mut Cx<'_>, of: Fed, points: impl IntoIterator<Item = FencePoint<FenceId>>) {
        let numbered = |point: FencePoint<FenceId>| Some((self.number_if_there(point.fence)?, point.value));
        let points: Vec<(FenceNumber, u64)> = points.into_iter().filter_map(numbered).collect();
        self.tell_fed(cx, of, &points, false, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wddm_types::AdapterIndex;

    #[test]
    fn logs_are_long_while_a_tool_traces_and_more_while_it_wants_more() {
        // spec: sync §3.14
        let mut sync = Synchronization::new(AdapterIndex(0));
        let short = sync.log_shape();
        assert_eq!(short.logs, 2, "both types are mandatory");
        assert!(sync.trace(true) && !sync.trace(true), "only a change is new");
        assert_eq!(sync.log_shape().pages, Pages(2 * TRACED_PAGES));
        sync.set_verbose_logs(true);
        assert_eq!(sync.log_shape(), LogShape { logs: 3, pages: Pages(3 * TRACED_PAGES) });
        sync.set_verbose_logs(false);
        assert!(sync.trace(false));
        assert_eq!(sync.log_shape(), short);
    }
}
