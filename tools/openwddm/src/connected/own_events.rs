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

#[cfg(test)]
mod tests {
    use d3dkmt::NativeFenceRequest;
    use dxgk_host::{Host, HostConfig, Mode, Profile};
    use dxgkd::{Daemon, Limits};
    use softgpu_umd::Gpu;

    use super::*;

    #[test]
    fn each_event_of_a_process_is_kept_or_counted_as_lost() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("kernel");
        let profile = Profile::named("discrete-4k").expect("a built-in profile");
        let mut config = HostConfig::new(profile, Mode::Real);
        (config.vram_bytes, config.page_table_bytes, config.system_bytes) = (16 << 20, 4 << 20, 32 << 20);
        config.isolates_processes = true;
        let host = Host::start(config).expect("a kernel");
        let _daemon = Daemon::serve(Arc::clone(&host), &path, 0o600, Limits::default()).expect("a socket");
        let [busy, quiet] = [(); 2].map(|()| SocketLink::connect(&path).expect("a kernel"));
        let mut kept = [&busy, &quiet].map(Kept::begin);
        let gpu = Gpu::open(Arc::clone(&busy) as Arc<dyn kmt_link::Link>).expect("the adapter opens");
        let fence = gpu.device().create_native_fence(NativeFenceRequest::default()).expect("a fence");
        kept[0].drain();
        // More than the daemon has room for, and no look at them meanwhile.
        let signals = 60_000;
        (1..=signals).for_each(|value| gpu.device().signal(&fence, value).expect("the kernel does not wait for it"));
        kept.iter_mut().for_each(Kept::drain);
        let (events, lost) = merged(kept.into());
        let is_signal = |own: &&OwnEvent| matches!(own.event, Event::FenceSignaledFromCpu { .. });
        let told = events.iter().filter(is_signal).count() as u64;
        assert!(told > 0 && lost > 0 && told + lost >= signals, "{told} of {signals} are kept, {lost} are lost");
        let starts = events.iter().filter(|own| matches!(own.event, Event::AdapterStarted { .. }));
        assert_eq!(starts.count(), 1, "each process was told of the adapter");
    }
}
