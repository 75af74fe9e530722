//! Signals that other devices wait for (sync §3.18): words that are shared with peers, the peers' inboxes and bells, and the device's own
//! inbox.
//!
//! ```text
//!  engine: store, barrier ─► is the word shared? ─► lane in the peer's inbox, barrier ─► bell
//!                                                                                         │
//!  parked queues of that word are looked at ◄── which word is it here? ◄── own inbox ◄────┘ (at the peer)
//! ```
//! A signal costs one load while no word is shared. The lists change by commands of the driver.
//!
//! Lock order: a thread holds no lock of this file while it rings; a device that is rung takes `seen`, then the CMP's table.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Weak};

use device_port::{PeerBell, Unit};
use shared_words::Word;
use shared_words::peer::{self, LANES, Lane, MemoryLane, Posted};
use softgpu_spec::bus::{Place, place};
use softgpu_spec::register::{self, ABSENT};

use crate::bus::Site;
use crate::device::SoftGpu;
use crate::lock;
use crate::order::Place as Ordered;

pub(crate) struct Peers {
    /// How many words are shared. Stored under the list's lock, loaded by every signal.
    pub(crate) count: AtomicU64,
    words: Mutex<Vec<SharedWord>>,
    own: AtomicU64,
    inbox: AtomicU64,
    selected: AtomicU64,
    /// Inboxes of peers, by number. Held while a lane is written: it has one writer at a time.
    inboxes: Mutex<BTreeMap<u32, u64>>,
    bells: Mutex<BTreeMap<u32, Weak<dyn PeerBell>>>,
    /// Overflows seen in each lane of the own inbox. Held while one is read.
    seen: Mutex<[u64; LANES as usize]>,
    pub(crate) rung: AtomicU64,
}

/// A word that peers are told of.
#[derive(Clone, Copy)]
struct SharedWord {
    site: Site,
    fence: u64,
    peers: u64,
}

impl Default for Peers {
    fn default() -> Self {
        Peers {
            count: AtomicU64::new(0),
            words: Mutex::default(),
            own: AtomicU64::new(0),
            inbox: AtomicU64::new(ABSENT),
            selected: AtomicU64::new(0),
            inboxes: Mutex::default(),
            bells: Mutex::default(),
            seen: Mutex::default(),
            rung: AtomicU64::new(0),
        }
    }
}

impl Peers {
    pub(crate) fn write(&self, offset: u32, value: u64) {
        match offset {
            register::PEER_SELF => self.own.store(value, Ordering::Relaxed),
            register::PEER_INBOX => self.inbox.store(value, Ordering::Relaxed),
            register::PEER_SELECT => self.selected.store(value, Ordering::Relaxed),
            register::PEER_ADDRESS => {
                // A peer that there cannot be is not selected.
                let selected = self.selected.load(Ordering::Relaxed);
                let Some(peer) = u32::try_from(selected).ok().filter(|peer| u64::from(*peer) < LANES) else { return };
                let mut inboxes = lock(&self.inboxes);
                match value {
                    ABSENT => inboxes.remove(&peer),
                    inbox => inboxes.insert(peer, inbox),
                };
            }
            _ => {}
        }
    }
}

impl SoftGpu {
    /// Connects the bell of another device, by the number that its driver will give it. The platform's wiring: before anything runs.
    pub fn connect_peer(&self, number: u32, bell: Weak<dyn PeerBell>) {
        lock(&self.peers.bells).insert(number, bell);
    }

    /// Peers are told of signals of this word from now on; none: it is a word like any other.
    pub(crate) fn share_word(&self, site: Site, fence: u64, peers: u64) {
        let mut words = lock(&self.peers.words);
        words.retain(|word| word.site != site);
        if peers != 0 {
            words.push(SharedWord { site, fence, peers });
        }
        Word::store(&self.ordered_at(Unit::Cmp, Ordered::Shared), words.len() as u64);
    }

    /// After a store to `site` and a full barrier: tells the peers of the word. Whether it has any.
    // spec: sync §3.18
    #[inline(always)]
    pub(crate) fn tell_peers(&self, unit: Unit, site: Site, value: u64) -> bool {
        if Word::load(&self.ordered_at(unit, Ordered::Shared)) == 0 {
            return false;
        }
        let shared = lock(&self.peers.words).iter().find(|word| word.site == site).copied();
        if let Some(shared) = shared {
            self.post_to_peers(unit, shared, value);
        }
        shared.is_some()
    }

    fn post_to_peers(&self, unit: Unit, shared: SharedWord, value: u64) {
        let own = self.peers.own.load(Ordering::Relaxed);
        // CAST: lanes are counted in ones.
        for peer in (0..LANES as u32).filter(|peer| shared.peers >> peer & 1 != 0) {
            {
                let inboxes = lock(&self.peers.inboxes);
                let lane = inboxes.get(&peer).and_then(|inbox| self.lane(unit, *inbox, own));
                let Some(lane) = lane else { continue };
                peer::post(|| self.barrier(unit), &lane, shared.fence, value);
            }
            let bell = lock(&self.peers.bells).get(&peer).and_then(Weak::upgrade);
            if let Some(bell) = bell {
                self.peers.rung.fetch_add(1, Ordering::Relaxed);
                // CAST: as above.
                bell.rung(own as u32, self.now());
            }
        }
    }

    /// A lane of an inbox somewhere in system memory, as a unit sees it.
    fn lane(&self, unit: Unit, inbox: u64, writer: u64) -> Option<impl Lane + '_> {
        match place(inbox) {
            Place::System(offset) => MemoryLane::new(&self.bus.system, offset, writer, move |at| {
                self.ordered_at(unit, Ordered::Memory(Site::System(at)))
            }),
            _ => None,
        }
    }
}

impl PeerBell for SoftGpu {
    // spec: sync §3.18: only the queues that are parked on the fence are looked at
    fn rung(&self, source: u32, at_ns: u64) {
        if self.is_virtual() {
            // The effects of the ring happen now, not when this device last did something.
            self.clock.set(at_ns);
        }
        let Some(lane) = self.lane(Unit::Cmp, self.peers.inbox.load(Ordering::Relaxed), u64::from(source)) else {
            return;
        };
        let mut seen = lock(&self.peers.seen);
        peer::drain(
            || self.barrier(Unit::Cmp),
            &lane,
            &mut seen[source as usize],
            |posted| match posted {
                Posted::Any => self.unpark_any(),
                Posted::Fence { fence, .. } => {
                    let here = lock(&self.peers.words).iter().find(|word| word.fence == fence).map(|word| word.site);
                    // A device that does not share it any more has no waiter for it.
                    if let Some(site) = here {
                        self.unpark_after_store(Unit::Cmp, site);
                    }
                }
            },
        );
    }
}
