//! Processes that only make ordinary calls, beside one whose work waits for a fence that it alone signals: an eviction of what that work uses
//! stands aside, and the paging ring goes on for all others.

use std::sync::Arc;

use d3dkmt::{DestroyFlags, EvictFlags, Fence, FenceFlags, MakeResidentFlags, NativeFenceRequest, Residency};
use dxgk_host::{Host, HostConfig, ProcessLink, Profile};
use events::{Cause, Move};
use kmt_calls::{Call, LockCall, Reply};
use kmt_link::Link;
use softgpu_spec::private_data::{AllocationRequest, Details, Kind};
use softgpu_umd::{Gpu, Lane, Stage, Surface, SurfaceKind};
use wddm_types::NodeId;

use crate::ahead::Moves;
use crate::timeouts::drain;
use stack::world::{MIB, VIRTUAL};

/// How long a call of a bystander takes at most, in virtual time: some milliseconds of paging.
pub const BOUND_NS: u64 = 50_000_000;
pub const USED: u64 = 2 * MIB;
const NODE: NodeId = NodeId(1);

/// The kinds of queues, each on an adapter that has it.
pub const QUEUES: [(&str, Stage); 7] = [
    ("discrete-4k", Stage::User),
    ("discrete-4k", Stage::Hardware),
    ("wddm2-packets", Stage::Packet),
    ("packets-by-address", Stage::Packet),
    ("iommu", Stage::User),
    ("idle-spaces", Stage::User),
    ("wddm1-banks", Stage::Packet),
];
/// Where the content lies that is evicted.
const KINDS: [SurfaceKind; 2] = [SurfaceKind::Local, SurfaceKind::System];

/// A process with a device and a lane.
pub struct Player {
    pub lane: Lane,
    pub gpu: Gpu,
    pub link: Arc<ProcessLink>,
}

/// A process whose lane is on the node of the paging ring.
pub fn player(host: &Arc<Host>, stage: Stage) -> Player {
    player_on(NODE, host, stage)
}

pub fn player_on(node: NodeId, host: &Arc<Host>, stage: Stage) -> Player {
    let link = ProcessLink::new(Arc::clone(host));
    let gpu = Gpu::open(Arc::clone(&link) as Arc<dyn Link>).expect("the adapter opens");
    let lane = Lane::create_at(&gpu, node, stage).expect("a lane");
    Player { lane, gpu, link }
}

impl Player {
    pub fn pinned(&self, kind: SurfaceKind, bytes: u64) -> Surface {
        let surface = self.gpu.create_surface(kind, bytes).expect("a surface");
        self.gpu.pin(&surface).expect("room");
        surface
    }

    pub fn fence(&self) -> Fence {
        let device = self.gpu.device();
        let fence = match self.gpu.has_native_fences() {
            true => device.create_native_fence(NativeFenceRequest::default()),
            false => device.create_monitored_fence(FenceFlags::empty(), 0),
        };
        fence.expect("a fence")
    }

    /// Writes a surface behind a wait. Answers with the value of the submission.
    pub fn writes(&mut self, surface: &Surface, behind: Option<&Fence>) -> u64 {
        if let Some(fence) = behind {
            self.lane.wait_on_gpu(&self.gpu, None, fence, 1).expect("a wait");
        }
        self.lane.fill(surface, 0, 4096, 7);
        self.submit()
    }

    pub fn submit(&mut self) -> u64 {
        self.lane.submit(&self.gpu, None).expect("a submission")
    }

    /// Submits, and waits until the work is done.
    pub fn completes(&mut self) {
        let value = self.submit();
        self.lane.wait(&self.gpu, value).expect("it completes");
    }

    pub fn evict(&self, surface: &Surface, flags: EvictFlags) {
        self.gpu.device().evict(vec![surface.allocation().handle()], flags).expect("it is on the list");
    }

    /// Makes a surface resident, beyond the budget where the memory lets it.
    pub fn make_resident(&self, surface: &Surface) -> Residency {
        let list = vec![surface.allocation().handle()];
        self.gpu.paging().make_resident(list, MakeResidentFlags::CANT_TRIM_FURTHER).expect("room")
    }
}

/// A process whose queue waits for its fence, and has work behind that which uses a surface; the surface is evicted.
struct World {
    host: Arc<Host>,
    moves: Moves,
    stage: Stage,
    holder: Player,
    go: Fence,
    used: Surface,
    last: u64,
}

pub fn host_of(profile: &str) -> (Arc<Host>, Moves) {
    let moves = Moves::default();
    let config = HostConfig {
        vram_bytes: 4 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        tracer: Box::new(moves.clone()),
        ..HostConfig::new(Profile::named(profile).expect("a built-in profile"), VIRTUAL)
    };
    (Host::start(config).expect("the host starts"), moves)
}

fn world(profile: &str, stage: Stage, kind: SurfaceKind) -> World {
    let (host, moves) = host_of(profile);
    let mut holder = player(&host, stage);
    let used = holder.pinned(kind, USED);
    let go = holder.fence();
    let last = holder.writes(&used, Some(&go));
    holder.evict(&used, EvictFlags::empty());
    host.check_invariants().expect("each hold has its end");
    World { host, moves, stage, holder, go, used, last }
}

impl World {
    /// Each ordinary call of a new process ends within a bounded time.
    fn bystander_goes_on(&self) {
        let link = ProcessLink::new(Arc::clone(&self.host));
        let mut before = link.now_ns();
        let mut within = |what: &str| {
            let now = link.now_ns();
            assert!(now - before <= BOUND_NS, "{what} of a bystander takes {} ns", now - before);
            before = now;
        };
        let mut other = player(&self.host, self.stage);
        within("the creation of a device and a queue");
        let surface = other.pinned(SurfaceKind::Local, MIB);
        within("MakeResident");
        let value = other.writes(&surface, None);
        other.lane.wait(&other.gpu, value).expect("it completes");
        within("a submission");
        other.evict(&surface, EvictFlags::empty());
        assert!(matches!(other.make_resident(&surface), Residency::Resident | Residency::Pending { .. }));
        other.gpu.pin(&surface).expect("it is there");
        within("an Evict, and MakeResident again");
        drop(surface);
        within("a destruction");
        drop(other);
        within("the end of the device");
        self.host.check_invariants().expect("each hold has its end");
    }

    /// Bytes that have left their places, for this reason.
    fn left(&self, why: Cause) -> u64 {
        [Move::PageOut, Move::Discard, Move::Unmap].into_iter().map(|how| self.moves.bytes(how, why)).sum()
    }
}

/// All kinds of queues and content.
fn each(mut test: impl FnMut(World)) {
    for (profile, stage) in QUEUES {
        for kind in KINDS {
            eprintln!("{profile}, {stage:?}, {kind:?}");
            test(world(profile, stage, kind));
        }
    }
}

/// The eviction stands aside while the work waits, and is carried out when the client lets its work go on.
#[test]
fn an_eviction_of_what_waiting_work_uses_holds_nobody() {
    // spec: memory §5.3, memory §10.1 row 9
    each(|world| {
        let gone = world.left(Cause::Evict);
        world.bystander_goes_on();
        drain(&world.host);
        world.bystander_goes_on();
        let own = 2 * MIB;
        assert_eq!(world.left(Cause::Evict) - gone, own, "only what the bystanders evicted");
        world.holder.gpu.device().signal(&world.go, 1).expect("the work goes on");
        drain(&world.host);
        assert_eq!(world.left(Cause::Evict) - gone, own + USED, "the use is over");
        world.host.check_invariants().expect("nothing stands aside any more");
    });
}

/// A MakeResident takes the eviction back: the content has not moved.
#[test]
fn what_stands_aside_is_taken_back_by_make_resident() {
    // spec: memory §5.2, memory §5.3
    each(|mut world| {
        assert_eq!(world.holder.make_resident(&world.used), Residency::Resident);
        world.bystander_goes_on();
        let gone = world.left(Cause::Evict);
        world.holder.gpu.device().signal(&world.go, 1).expect("the work goes on");
        world.holder.lane.wait(&world.holder.gpu, world.last).expect("it completes");
        drain(&world.host);
        assert_eq!(world.left(Cause::Evict), gone, "it is on the list");
        let value = world.holder.writes(&world.used, None);
        world.holder.lane.wait(&world.holder.gpu, value).expect("it is where it was");
        world.holder.evict(&world.used, EvictFlags::empty());
        drain(&world.host);
        assert_eq!(world.left(Cause::Evict) - gone, USED, "no work uses it");
    });
}

/// A destruction takes the eviction's place, and goes on when the use is over.
#[test]
fn what_stands_aside_is_destroyed_behind_its_use() {
    // spec: memory §6.2
    each(|world| {
        let left = |why| world.left(why);
        let before = [left(Cause::Evict), left(Cause::Destroy)];
        world.used.allocation().destroy(DestroyFlags::empty()).expect("it is there");
        world.host.check_invariants().expect("each hold has its end");
        let link = ProcessLink::new(Arc::clone(&world.host));
        let began = link.now_ns();
        let _other = player(&world.host, world.stage);
        assert!(link.now_ns() - began <= BOUND_NS, "a bystander's device");
        assert_eq!([left(Cause::Evict), left(Cause::Destroy)], before, "waiting work uses it still");
        world.holder.gpu.device().signal(&world.go, 1).expect("the work goes on");
        drain(&world.host);
        world.host.check_invariants().expect("nothing is left of it");
        assert_eq!([left(Cause::Evict), left(Cause::Destroy)], [before[0], before[1] + USED]);
    });
}

/// The end of the process lets its evictions go.
#[test]
fn what_stands_aside_goes_with_its_process() {
    // spec: memory §6.2, sync §3.4
    each(|world| {
        world.bystander_goes_on();
        world.host.process_died(world.holder.link.process());
        drain(&world.host);
        let [evicted, destroyed] = [Cause::Evict, Cause::Destroy].map(|why| world.left(why));
        assert!(evicted + destroyed >= USED, "{evicted} {destroyed}");
        world.bystander_goes_on();
        world.host.check_invariants().expect("nothing is left of it");
    });
}

/// A lock whose copy waits for what waiting work writes is answered behind that work, and the paging ring waits for neither.
#[test]
fn a_lock_of_what_waiting_work_uses_holds_no_other_process() {
    // spec: memory §6.3, memory §10.1
    for stage in [Stage::User, Stage::Hardware] {
        let (host, _) = host_of("discrete-4k");
        let mut holder = player(&host, stage);
        let request = AllocationRequest {
            kind: Kind::LocalThenSystem,
            cpu_visible: true,
            cached: false,
            accessed_physically: false,
            size_bytes: MIB,
        };
        // 1 << 1: a permanent copy in system memory, which a lock brings up to date.
        let data = request.encode_with(&Details { flags: 1 << 1, ..Details::default() });
        let device = holder.gpu.device();
        let allocation = device.create_allocation(data.to_vec()).expect("CPU-visible");
        let paging = holder.gpu.paging();
        let made = paging.make_resident(vec![allocation.handle()], MakeResidentFlags::empty()).expect("room");
        let (va, mapped) = paging.map(&allocation, MIB / 4096, true).expect("addresses");
        let Residency::Pending { paging_fence_value, .. } = made else { panic!("it had to come") };
        device.wait(&[(paging.fence(), mapped.max(paging_fence_value))]).expect("it comes");
        let go = holder.fence();
        holder.lane.wait_on_gpu(&holder.gpu, None, &go, 1).expect("a wait");
        let (Lane::Addressed(_, commands) | Lane::KernelFed(_, commands)) = &mut holder.lane else {
            panic!("a lane with addresses")
        };
        commands.fill(va, 4096, 7);
        let last = holder.lane.submit(&holder.gpu, None).expect("a submission");
        let lazily = EvictFlags::EVICT_ONLY_IF_NECESSARY;
        holder.gpu.device().evict(vec![allocation.handle()], lazily).expect("it is on the list");
        let call = Call::Lock(LockCall::Lock2 { device: device.handle(), allocation: allocation.handle(), flags: 0 });
        let pending = host.begin_call(holder.link.process(), call).expect_err("the work has not written yet");
        let mut other = player(&host, stage);
        let began = other.link.now_ns();
        let theirs = other.pinned(SurfaceKind::Local, MIB);
        let value = other.writes(&theirs, None);
        other.lane.wait(&other.gpu, value).expect("it completes");
        assert!(other.link.now_ns() - began <= BOUND_NS, "{} ns", other.link.now_ns() - began);
        host.check_invariants().expect("each hold has its end");
        holder.gpu.device().signal(&go, 1).expect("the work goes on");
        holder.lane.wait(&holder.gpu, last).expect("it completes");
        drain(&host);
        let answer = host.take_answer(pending).expect("the copy is there");
        assert!(matches!(answer, Ok(Reply::Mapped(_))), "{answer:?}");
        host.check_invariants().expect("nothing is left of it");
    }
}
