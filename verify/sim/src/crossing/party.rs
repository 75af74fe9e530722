//! A process with work on both adapters, and what it knows of it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use d3dkmt::{Adapter, Fence, FenceFlags, NativeFenceRequest, NtHandle, OpenSyncObjectRequest, SyncObjectAccess};
use dxgk_host::{Host, ProcessLink};
use kmt_calls::Refusal;
use kmt_link::Link;
use softgpu_umd::{CrossFence, CrossMemory, Gpu, Lane, Surface, SurfaceKind, UmdError};
use wddm_types::{NodeId, ProcessId, RawHandle};

/// Slots of what crosses.
pub const SLOTS: usize = 3;
const SLOT_BYTES: u64 = 16 << 10;
/// Submissions of a lane that are under way at most: none of them blocks.
const UNDER_WAY_MAX: usize = 24;
const CROSS: FenceFlags = FenceFlags::SHARED.union(FenceFlags::NT_SECURITY_SHARING).union(FenceFlags::CROSS_ADAPTER);

/// A fence that all processes have on both adapters.
pub struct Common {
    name: NtHandle,
    promised: u64,
    /// The process whose engine gives each value.
    owners: BTreeMap<u64, usize>,
}

impl Common {
    /// The last promised value.
    pub fn promised(&self) -> u64 {
        self.promised
    }

    /// Promises the next value; `owner`: the process whose engine gives it later, `None` for a CPU.
    pub fn promise(&mut self, owner: Option<usize>) -> u64 {
        self.promised += 1;
        self.owners.extend(owner.map(|owner| (self.promised, owner)));
        self.promised
    }

    /// The process whose engine gives a value.
    pub fn owner(&self, value: u64) -> Option<usize> {
        self.owners.get(&value).copied()
    }
}

/// A value that a submission waits for: of a slot's fence, or of a common one.
#[derive(Clone, Copy, Debug)]
enum Awaited {
    Slot(usize, u64),
    Common(usize, u64),
}

/// A party's objects on an adapter. Lanes and surfaces go before the GPU.
struct Site {
    lane: Lane,
    /// Submissions that are not done, as far as anybody has looked, with what they wait for.
    under_way: VecDeque<(u64, Vec<Awaited>)>,
    /// A copy of each slot's content, from and for the memory that both reach.
    own: Surface,
    report: Surface,
    common: Vec<Fence>,
    gpu: Gpu,
}

struct Slot {
    fence: CrossFence,
    /// The last value given out.
    value: u64,
    seed: Option<u64>,
}

/// A process.
pub struct Party {
    pub id: ProcessId,
    slots: Vec<Slot>,
    memory: Vec<CrossMemory>,
    sites: [Site; 2],
    next_seed: u64,
    _link: Arc<ProcessLink>,
}

impl Party {
    /// A process on a host; the first one makes the common fences.
    pub fn new(host: &Arc<Host>, common: &mut Vec<Common>, fences: usize, next_seed: u64) -> Result<Party, String> {
        let link = ProcessLink::new(Arc::clone(host));
        let said = |error: UmdError| error.to_string();
        let gpu = |adapter: usize| {
            let link = Arc::clone(&link) as Arc<dyn Link>;
            let adapter = Adapter::open(link, host.adapter(adapter).luid()).map_err(|refusal| refusal.to_string())?;
            Gpu::on(adapter).map_err(said)
        };
        let gpus = [gpu(0)?, gpu(1)?];
        let both = [&gpus[0], &gpus[1]];
        let mut slots = Vec::new();
        let mut memory = Vec::new();
        for _ in 0..SLOTS {
            slots.push(Slot { fence: CrossFence::create(&both).map_err(said)?, value: 0, seed: None });
            memory.push(CrossMemory::create(&both, SLOT_BYTES).map_err(said)?);
        }
        if common.is_empty() {
            let native = both.iter().position(|gpu| gpu.has_native_fences()).ok_or("no native fences anywhere")?;
            for _ in 0..fences {
                // Else every death would let all CPUs go on that wait (sync §2.3).
                let flags = CROSS | FenceFlags::UNWAIT_CPU_WAITERS_ONLY_ON_DESTROY;
                let request = NativeFenceRequest { flags, ..NativeFenceRequest::default() };
                let made = gpus[native].device().create_native_fence(request).map_err(|refusal| refusal.to_string())?;
                let name = made.share(SyncObjectAccess::ALL_ACCESS).map_err(|refusal| refusal.to_string())?;
                common.push(Common { name, promised: 0, owners: BTreeMap::new() });
            }
        }
        let [first, second] = gpus.map(|gpu| Site::new(gpu, common));
        let sites = [first?, second?];
        Ok(Party { id: link.process(), slots, memory, sites, next_seed, _link: link })
    }

    /// Reads or writes a slot behind its last user; and behind that gives a common fence its next value, after a wait for the one before.
    pub fn submit(
        &mut self,
        adapter: usize,
        at: usize,
        writes: bool,
        common: Option<(usize, &mut Common)>,
        who: usize,
    ) {
        let site = &mut self.sites[adapter];
        site.reap();
        if site.under_way.len() >= UNDER_WAY_MAX {
            return;
        }
        let slot = &mut self.slots[at];
        let memory = self.memory[at].on(adapter);
        match slot.seed.filter(|_| !writes) {
            Some(seed) => {
                site.lane.copy(memory, 0, &site.own, 0, SLOT_BYTES);
                site.lane.check(&site.own, seed, &site.report, seed);
            }
            None => {
                self.next_seed += 1;
                slot.seed = Some(self.next_seed);
                site.lane.pattern(&site.own, self.next_seed);
                site.lane.copy(&site.own, 0, memory, 0, SLOT_BYTES);
            }
        }
        let mut awaited = Vec::new();
        if slot.value > 0 {
            awaited.push(Awaited::Slot(at, slot.value));
        }
        slot.value += 1;
        let mut gives = None;
        if let Some((fence, common)) = common {
            if common.promised() > 0 {
                awaited.push(Awaited::Common(fence, common.promised()));
            }
            gives = Some((fence, common.promise(Some(who))));
        }
        let point = |awaited: &Awaited| match *awaited {
            Awaited::Slot(at, value) => (self.slots[at].fence.on(adapter), value),
            Awaited::Common(fence, value) => (&site.common[fence], value),
        };
        let waits: Vec<_> = awaited.iter().map(point).collect();
        let slot = &self.slots[at];
        let mut signals = vec![(slot.fence.on(adapter), slot.value)];
        signals.extend(gives.map(|(fence, value)| (&site.common[fence], value)));
        let value = site.lane.submit_synced(&site.gpu, None, &waits, &signals).expect("a submission");
        site.under_way.push_back((value, awaited));
    }

    /// The next submission of a lane whose waits are all over, and which has not run.
    pub fn forgotten(&self) -> Option<String> {
        for (adapter, site) in self.sites.iter().enumerate() {
            let done = site.lane.progress().current();
            let Some((value, awaited)) = site.under_way.iter().find(|(value, _)| *value > done) else { continue };
            let missing = |awaited: &&Awaited| match **awaited {
                Awaited::Slot(at, value) => self.slots[at].fence.on(adapter).current() < value,
                Awaited::Common(fence, value) => site.common[fence].current() < value,
            };
            if awaited.iter().find(missing).is_none() {
                return Some(format!("submission {value} on adapter {adapter} stands, and {awaited:?} is there"));
            }
        }
        None
    }

    /// Whether all of its work is done.
    pub fn done(&self) -> bool {
        self.sites.iter().all(|site| site.lane.progress().current() >= site.lane.last_value())
    }

    /// The result of the first comparison that failed.
    pub fn content(&self) -> Result<(), String> {
        for (adapter, site) in self.sites.iter().enumerate() {
            let tag = site.report.lock().map_err(|error| error.to_string())?.read_word(0);
            if tag != 0 {
                return Err(format!("adapter {adapter} found other content than seed {tag} says"));
            }
        }
        Ok(())
    }

    /// CurrentValue of a common fence.
    pub fn current(&self, fence: usize) -> u64 {
        self.sites[0].common[fence].current()
    }

    /// The same by each adapter's address.
    pub fn currents(&self, fence: usize) -> [u64; 2] {
        self.sites.each_ref().map(|site| site.common[fence].current())
    }

    pub fn device(&self, adapter: usize) -> RawHandle {
        self.sites[adapter].gpu.device().handle()
    }

    pub fn handle(&self, adapter: usize, fence: usize) -> RawHandle {
        self.sites[adapter].common[fence].handle()
    }

    /// Signals a common fence from the CPU.
    pub fn signal(&self, adapter: usize, fence: usize, value: u64) -> Result<(), Refusal> {
        let site = &self.sites[adapter];
        site.gpu.device().signal(&site.common[fence], value)
    }

    /// Everything that it has goes at once, in the middle of whatever it does.
    pub fn die(self, host: &Host) {
        host.process_died(self.id);
    }
}

impl Site {
    fn new(gpu: Gpu, common: &[Common]) -> Result<Site, String> {
        let said = |error: UmdError| error.to_string();
        let surface = |kind: SurfaceKind, bytes: u64| {
            let surface = gpu.create_surface(kind, bytes).map_err(said)?;
            gpu.pin(&surface).map_err(said)?;
            Ok::<_, String>(surface)
        };
        let own = surface(SurfaceKind::Local, SLOT_BYTES)?;
        let report = surface(SurfaceKind::System, 4096)?;
        let lane = Lane::create(&gpu, NodeId(0)).map_err(said)?;
        let open = |common: &Common| {
            let request = OpenSyncObjectRequest { handle: common.name.token(), ..OpenSyncObjectRequest::default() };
            let opened = match gpu.has_native_fences() {
                true => gpu.device().open_native_fence(request),
                false => gpu.device().open_sync_object(request),
            };
            opened.map_err(|refusal| refusal.to_string())
        };
        let common = common.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        Ok(Site { lane, under_way: VecDeque::new(), own, report, common, gpu })
    }

    fn reap(&mut self) {
        let done = self.lane.progress().current();
        while self.under_way.front().is_some_and(|(value, _)| *value <= done) {
            self.under_way.pop_front();
        }
    }
}
