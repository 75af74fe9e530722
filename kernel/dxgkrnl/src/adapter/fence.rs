//! Fences with a word in memory, and MonitoredValue (sync §1.5, §3.2–§3.9). `lifetime` makes and ends them, `storage` places
//! their words, `signal` has the kernel's signals, `signaled` the engines'; `monitored` and `scan` are about
//! monitored fences alone, `periodic` about those that displays signal, `cross` about fences of several
//! adapters. Which fences there are, and which waits a value ends, `sync` knows.
//!
//! The kernel never trusts a published MonitoredValue to have come in time: after each update it samples the fence again, and the waits
//! that this releases may change the value once more, until nothing changes (sync §3.9).

mod cross;
mod lifetime;
mod local;
mod monitored;
mod moved;
mod open;
mod page;
mod periodic;
mod scan;
mod signal;
mod signaled;
mod storage;

pub use open::Opened;

use gpu_fence::MonitoredUpdate;

use crate::adapter::Adapter;
use crate::breach::Breach;
use crate::machine::Cx;
use crate::number::FenceNumber;

impl Adapter {
    /// Publishes MonitoredValues and samples again until nothing changes. Returns how many waits that released.
    // spec: sync §3.9
    pub fn publish(&mut self, cx: &mut Cx<'_>, mut updates: Vec<MonitoredUpdate>) -> u32 {
        let mut released = 0;
        while !updates.is_empty() && !self.life.has_stopped() {
            let live = self.sync.live_updates(&updates);
            if live.is_empty() {
                break;
            }
            let told = self.tell_monitored(cx, &live);
            if self.heed(cx, told).is_none() {
                break;
            }
            updates.clear();
            for published in live {
                let sampled = self.sync.value_published(cx, cx.memory, published);
                released += self.release(cx, sampled.released);
                updates.extend(sampled.updates);
            }
        }
        released
    }

    /// Has the driver store MonitoredValues. No engine reads the MonitoredValue of a fence that only the kernel signals. A device without
    /// power signals nothing, and is told when it wakes; words that move, when they are there.
    // spec: sync §3.9
    fn tell_monitored(&mut self, cx: &Cx<'_>, values: &[(FenceNumber, u64)]) -> Result<(), Breach> {
        if self.life.is_off() {
            return Ok(());
        }
        // The values lent to the driver borrow nothing that its call needs.
        let (memory, bus) = (cx.memory, cx.platform(self.index).bus());
        let (vidmm, sync, done) = (&self.vidmm, &self.sync, self.ring.done());
        let words = moved::MonitoredWords { memory, bus, vidmm, sync, done };
        let update = |&(number, value): &(FenceNumber, u64)| {
            let fence = self.sync.fence(number);
            let (global, monitored) = (fence.kmd?, words.of(fence)?);
            Some(ddi::MonitoredUpdate { fence: global, value, monitored })
        };
        let batch: Vec<ddi::MonitoredUpdate<'_>> = values.iter().filter_map(update).collect();
        let told = match self.driver.call(cx).native_fences() {
            Some(fences) if !batch.is_empty() => fences.update_monitored_values(&batch),
            _ => Ok(()),
        };
        told.map_err(|status| {
            Breach(format!("bug check 0x119, parameter 0x12: UpdateMonitoredValues failed: {status}"))
        })
    }
}
