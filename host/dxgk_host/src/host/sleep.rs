//! Sleep and waking of the computer (memory §1.10), and the stop of its adapter: memory without power loses its content. The kernel saves
//! content before.

use ddi::PowerState;
use device_port::DevicePort;
use dxgkrnl::{Answer, SegmentReport};
use kmt_calls::Refusal;
use wddm_types::PAGE_BYTES;

use super::Pending;
use super::adapter::HostAdapter;

/// The content of memory after it was without power.
const LOST: u32 = 0xA5A5_A5A5;
/// The host overwrites a segment up to this size to its last byte. In larger ones it overwrites only pages that are not zero: pages that were
/// never written cost no memory, and a sleep must not change that.
const LOST_WHOLE_MAX: u64 = 64 << 20;

impl HostAdapter<'_> {
    /// The adapter sleeps or wakes. When a sleep returns, the kernel has saved all content and the device is off: content that its segments
    /// do not promise to keep is gone from its memory (memory §1.10). A process that connects a doorbell wakes the adapter (sync §3.17),
    /// perhaps before this returns.
    ///
    /// # Errors
    /// It sleeps already, or does not sleep (any more); its driver failed. In virtual time also when queued work never ends.
    pub fn power_transition(&self, state: PowerState) -> Result<(), Refusal> {
        let answer = self.host.hold().turn(|machine, cx| machine.power(cx, self.index, state));
        match answer {
            Answer::Done(result) => result?,
            Answer::Later(token) => self.host.finish(None, Pending(token)).0?,
        };
        if state != PowerState::On {
            self.lose_memory(state);
        }
        Ok(())
    }

    /// PnP stops the adapter. At return its memory is empty, its devices are in state Stopped, their calls are refused with
    /// `DEVICE_REMOVED`, and addresses of locks are gone (memory §8.4, §8.6). The driver stops its device when the last
    /// process has destroyed its objects there. Only another host can start the adapter again.
    ///
    /// # Errors
    /// It sleeps, or was stopped before. In virtual time also when queued work never ends.
    pub fn stop(&self) -> Result<(), Refusal> {
        let answer = self.host.hold().turn(|machine, cx| machine.stop_adapter(cx, self.index));
        match answer {
            Answer::Done(result) => result.map(drop),
            Answer::Later(token) => self.host.finish(None, Pending(token)).0.map(drop),
        }
    }

    /// Overwrites the content of memory without power, except where a segment keeps it.
    fn lose_memory(&self, state: PowerState) {
        let mut held = self.host.hold();
        // An adapter that has woken already keeps its memory; the lock keeps it from waking meanwhile.
        if held.machine.has_power(self.index) {
            return;
        }
        let segments =
            held.turn(|machine, cx| machine.describe(cx, self.index)).expect("the adapter has started").segments;
        let kept: Vec<(u64, u64)> = segments.iter().filter_map(|s| kept_bytes(s, state)).collect();
        let small = segments.iter().filter(|s| !s.aperture && s.size_bytes <= LOST_WHOLE_MAX);
        let small: Vec<_> = small.map(|s| s.base_address..s.base_address + s.size_bytes).collect();
        let local = self.host.devices[self.index.0 as usize].local_memory();
        for first in (0..local.bytes()).step_by(PAGE_BYTES as usize) {
            let bytes = PAGE_BYTES.min(local.bytes() - first);
            let lost = !kept.iter().any(|&(from, to)| from <= first && first + bytes <= to);
            let whole = small.iter().any(|of| of.contains(&first));
            if lost && (whole || local.scan_words(first, bytes / 8, |_, word| word == 0).is_some()) {
                local.fill(first, bytes, LOST);
            }
        }
    }
}

/// The bytes of local memory that a segment keeps through a sleep.
// spec: memory §1.10
fn kept_bytes(segment: &SegmentReport, state: PowerState) -> Option<(u64, u64)> {
    use ddi::SegmentFlags as F;
    let (standby, whole) = (F::PRESERVED_DURING_STANDBY, F::PRESERVED_DURING_HIBERNATE);
    let bytes = match state {
        _ if segment.aperture => return None,
        PowerState::Standby if segment.flags.contains(standby) => segment.size_bytes,
        PowerState::Hibernate if segment.flags.contains(whole) => segment.size_bytes,
        PowerState::Hibernate if segment.flags.contains(F::PARTIALLY_PRESERVED_DURING_HIBERNATE) => {
            segment.system_memory_end_address.saturating_add(1)
        }
        _ => return None,
    };
    Some((segment.base_address, segment.base_address + bytes))
}
