//! The events of the kernel about the processes of a run at a served kernel: each client drains its ring while it works. Called by `connected`.

use std::sync::Arc;

use events::Event;
use kmt_link::OwnEvent;
use kmt_link::socket::SocketLink;

/// Most events that are kept; more are counted.
const KEPT_MAX: usize = 4_000_000;

/// Those of one process.
pub struct Kept {
    link: Arc<SocketLink>,
    events: Vec<OwnEvent>,
    /// Events that had no room in the daemon, or here.
    lost: u64,
}

impl Kept {
    /// The kernel keeps events about this process from now on. A kernel that has gone tells nothing; the run itself fails then.
    pub fn begin(link: &Arc<SocketLink>) -> Kept {
        let mut kept = Kept { link: Arc::clone(link), events: Vec::new(), lost: 0 };
        kept.look();
        kept
    }

    /// Takes all that is there.
    pub fn drain(&mut self) {
        while self.look() {}
    }

    /// Takes some of it; whether there is more.
    fn look(&mut self) -> bool {
        let Ok(more) = self.link.own_events() else { return false };
        let room = KEPT_MAX - self.events.len();
        self.lost += more.lost + more.events.len().saturating_sub(room) as u64;
        self.events.extend(more.events.into_iter().take(room));
        more.more
    }
}

/// The events of all of them in the order of their times, and how many were lost. Each process was told the facts of the adapters, which stand
/// there once.
pub fn merged(all: Vec<Kept>) -> (Vec<OwnEvent>, u64) {
    let lost = all.iter().map(|kept| kept.lost).sum();
    let is_fact = |event: &Event| matches!(event, Event::AdapterStarted { .. } | Event::SegmentAdded { .. });
    let mut events: Vec<OwnEvent> = Vec::new();
    for (nth, kept) in all.into_iter().enumerate() {
        events.extend(kept.events.into_iter().filter(|own| nth == 0 || !is_fact(&own.event)));
    }
    // Stable: those of one process stay in their order.
    events.sort_by_key(|own| own.now_ns);
    (events, lost)
}
