//! The context management processor: the table of parked queues, and the commands that a driver gives it.
//!
//! A queue that waits costs nothing once it is in the table. A unit that changes a word loads the number of parked queues (`parked`), and
//! looks into the table only if there are any. That load and the table's entry are the two sides of a store-and-load race: the signaller
//! stores the value and then loads the count, the waiter stores the count and then loads the value, each with a full barrier between.
//!
//! MonitoredValue may lie in local memory: an engine's load of it then does not cross the bus. Engines load it, and ask here only when
//! they find it exceeded; the CMP decides whether to interrupt. An update stores it, puts the full barrier and loads CurrentValue, in
//! this order. Every engine has the same barrier between its store of CurrentValue and its load of MonitoredValue, so when the command is
//! over each signal either stored its CurrentValue before that load, or loads the new MonitoredValue ([`shared_words::fence`]). The
//! register write returns when the command is over, and the driver's call with it.
//!
//! A sealed word is one that counts as reached for ever, because its signaller is lost. It holds the largest value, so that no wait for
//! it parks, and signals leave it alone.
//!
//! Lock order: an engine's state, then this table, then an engine's wake-up token; a thread that has the seals' lock takes no other.
//! Engines and registers call this file.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use device_port::Unit;
use shared_words::{Word, fence};
use softgpu_spec::register::{cmp, cmp_result, queue_state, record};

use crate::bus::Site;
use crate::device::SoftGpu;
use crate::interrupt::Record;
use crate::lock;
use crate::mmu::{Access, Flush, Target, translate};
use crate::order::Place;

#[derive(Default)]
pub(crate) struct Cmp {
    /// How many queues are parked. Stored under the table's lock, loaded by every signal.
    pub(crate) parked: AtomicU64,
    table: Mutex<Vec<Parked>>,
    /// The registers' values.
    pub(crate) root: AtomicU64,
    pub(crate) arguments: [AtomicU64; 3],
    pub(crate) result: AtomicU64,
    /// How many words are sealed. Stored under the list's lock, loaded by every signal.
    pub(crate) sealed: AtomicU64,
    seals: Mutex<Vec<Site>>,
    /// Interrupts raised by PUBLISH_MONITORED.
    pub(crate) publish_raised: AtomicU64,
}

#[derive(Clone, Copy)]
struct Parked {
    site: Site,
    wanted: u64,
    queue: u32,
}

impl SoftGpu {
    /// Parks a queue until the word reaches `wanted`. False if it has: the queue goes on.
    // spec: sync §3.8
    pub(crate) fn park(&self, unit: Unit, queue: u32, target: Target<'_>, wanted: u64) -> bool {
        let state = &self.queues[queue as usize].state;
        let mut table = lock(&self.cmp.table);
        table.push(Parked { site: target.site, wanted, queue });
        state.store(queue_state::PARKED, Ordering::Release);
        let (current, parked) = (self.ordered(unit, target), self.ordered_at(unit, Place::Parked));
        if fence::may_park(|| self.barrier(unit), &current, &parked, table.len() as u64, wanted) {
            return true;
        }
        table.pop();
        Word::store(&parked, table.len() as u64);
        state.store(queue_state::READY, Ordering::Release);
        false
    }

    /// After a store to `site` and a full barrier: unparks the queues that the value satisfies. Whether there were any.
    #[inline(always)]
    pub(crate) fn unpark_after_store(&self, unit: Unit, site: Site) -> bool {
        Word::load(&self.ordered_at(unit, Place::Parked)) != 0 && self.unpark(unit, Some(site))
    }

    /// Any word may have been written: unparks the queues that its value satisfies.
    pub(crate) fn unpark_any(&self) {
        self.unpark(Unit::Cmp, None);
    }

    /// Takes a queue out of the table, for whatever reason it is in.
    pub(crate) fn forget_parked(&self, queue: u32) {
        let mut table = lock(&self.cmp.table);
        table.retain(|parked| parked.queue != queue);
        Word::store(&self.ordered_at(Unit::Cmp, Place::Parked), table.len() as u64);
    }

    /// Carries out a command of the CMP.
    pub(crate) fn cmp_command(&self, command: u64) {
        let argument = |index: usize| self.cmp.arguments[index].load(Ordering::Relaxed);
        let done = match command {
            cmp::PUBLISH_MONITORED => self.publish_monitored(argument(0), argument(1), argument(2)),
            cmp::RESCAN if argument(0) == 0 => {
                self.unpark(Unit::Cmp, None);
                Some(())
            }
            cmp::RESCAN => self.cmp_word(argument(0), Access::Read).map(|target| {
                self.unpark(Unit::Cmp, Some(target.site));
            }),
            cmp::FLUSH_TLB => {
                self.flush(Flush { root: argument(0), first: argument(1), last: argument(2) });
                Some(())
            }
            cmp::SEAL => self.cmp_word(argument(0), Access::Write).map(|target| self.seal(target)),
            cmp::SHARE => self
                .cmp_word(argument(0), Access::Read)
                .map(|target| self.share_word(target.site, argument(1), argument(2))),
            cmp::UNSEAL if argument(0) == 0 => {
                self.unseal(|_| true);
                Some(())
            }
            cmp::UNSEAL => {
                self.cmp_word(argument(0), Access::Read).map(|target| self.unseal(|site| site == target.site))
            }
            _ => None,
        };
        let result = if done.is_some() { cmp_result::DONE } else { cmp_result::FAULT };
        self.cmp.result.store(result, Ordering::Release);
    }

    /// Whether signals of this word change nothing any more.
    #[inline(always)]
    pub(crate) fn is_sealed(&self, unit: Unit, site: Site) -> bool {
        Word::load(&self.ordered_at(unit, Place::Sealed)) != 0 && lock(&self.cmp.seals).contains(&site)
    }

    /// The word has its largest value for good. A signal that is under way stores its value, then, behind its barrier, asks
    /// whether the word is sealed; here the seal is published, then, behind the barrier, the value stored. So whichever stores
    /// last stores the largest.
    fn seal(&self, target: Target<'_>) {
        {
            let mut seals = lock(&self.cmp.seals);
            if !seals.contains(&target.site) {
                seals.push(target.site);
            }
            Word::store(&self.ordered_at(Unit::Cmp, Place::Sealed), seals.len() as u64);
        }
        self.barrier(Unit::Cmp);
        Word::store(&self.ordered(Unit::Cmp, target), u64::MAX);
        self.barrier(Unit::Cmp);
        self.unpark(Unit::Cmp, Some(target.site));
    }

    fn unseal(&self, gone: impl Fn(Site) -> bool) {
        let mut seals = lock(&self.cmp.seals);
        seals.retain(|site| !gone(*site));
        Word::store(&self.ordered_at(Unit::Cmp, Place::Sealed), seals.len() as u64);
    }

    /// An engine whose look at MonitoredValue, behind its barrier, found it exceeded asks whether to interrupt.
    // spec: sync §3.9
    #[inline]
    pub(crate) fn cmp_decides(&self, monitored: Target<'_>, value: u64) -> bool {
        fence::still_exceeds(&self.ordered(Unit::Cmp, monitored), value)
    }

    /// Stores the monitored value and asks whether the current one has passed it.
    // spec: sync §3.9
    fn publish_monitored(&self, current_va: u64, monitored_va: u64, value: u64) -> Option<()> {
        let current = self.cmp_word(current_va, Access::Read)?;
        let monitored = self.cmp_word(monitored_va, Access::Write)?;
        let (current, monitored) = (self.ordered(Unit::Cmp, current), self.ordered(Unit::Cmp, monitored));
        if fence::publish_monitored(|| self.barrier(Unit::Cmp), &current, &monitored, value) {
            self.cmp.publish_raised.fetch_add(1, Ordering::Relaxed);
            let passed = Word::load(&current);
            self.interrupts.raise(Record { kind: record::MONITORED, fields: [current_va, passed, 0] });
        }
        Some(())
    }

    /// A word of the CMP's own space.
    fn cmp_word(&self, va: u64, access: Access) -> Option<Target<'_>> {
        if !va.is_multiple_of(8) {
            return None;
        }
        let site = translate(&self.bus, self.cmp.root.load(Ordering::Relaxed), va, access).ok()?;
        let word = match access {
            Access::Read => self.bus.read_word(site),
            Access::Write => self.bus.write_word(site),
        };
        Some(Target { site, word })
    }

    /// Unparks the queues whose value has come, those at `site` or all, in the order in which they were parked. Whether there were any.
    fn unpark(&self, unit: Unit, site: Option<Site>) -> bool {
        let mut table = lock(&self.cmp.table);
        let parked = table.len();
        table.retain(|parked| {
            let meant = site.is_none_or(|site| site == parked.site);
            let word = Target { site: parked.site, word: self.bus.read_word(parked.site) };
            if !meant || Word::load(&self.ordered(unit, word)) < parked.wanted {
                return true;
            }
            self.queues[parked.queue as usize].state.store(queue_state::READY, Ordering::Release);
            self.wake(parked.queue);
            false
        });
        Word::store(&self.ordered_at(unit, Place::Parked), table.len() as u64);
        table.len() < parked
    }
}
