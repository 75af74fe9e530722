//! Locks of an allocation that a submitted buffer names while it waits for its device's turn: the allocation counts as in use by the GPU.

use std::sync::Arc;

use d3dkmt::{Allocation, AllocationListFlags, AllocationListItem, Context, DestroyFlags, EvictFlags, LockFlags};
use dxgk_host::{AccountId, Admission, Host, Pending, ProcessLink, Quota};
use kmt_calls::{Call, LockCall, PacketCall, Refusal, Reply};
use kmt_link::Link;
use softgpu_umd::{Gpu, ListedCommands, SurfaceKind};
use wddm_types::NtStatus;

use super::rendering::surface_of;
use super::{BYTES, COPY, ENTIRE, Old, config, old, rows};
use stack::world::{MIB, VIRTUAL};

const AT_ONCE: LockFlags = LockFlags::LOCK_ENTIRE.union(LockFlags::DONOT_WAIT);

/// A quiesced client, with a pending buffer that copies from `source` to `target`.
struct Crowded {
    host: Arc<Host>,
    humble: Old,
    proud: Old,
    listed: Arc<Allocation>,
    taker: Arc<Allocation>,
    source: Arc<Allocation>,
    target: Arc<Allocation>,
    render: Pending,
}

/// `before`: the client's work before the kernel quiesces it.
fn crowded(before: impl FnOnce(&Old)) -> Crowded {
    let host = Host::start(config(VIRTUAL)).expect("the host starts");
    let [humble, proud] = [old(&host), old(&host)];
    host.set_process_priority(proud.link.process(), 4);
    let [listed, taker] = [&humble, &proud].map(|client| surface_of(client, SurfaceKind::Local, 0, 3 * MIB));
    humble.list(&listed);
    let [source, target] = [(); 2].map(|()| humble.surface(0, 0));
    humble.write(&source, ENTIRE, 1);
    before(&humble);
    proud.list(&taker);
    let mut commands = ListedCommands::new();
    commands.copy((&source, 0), (&target, 0), BYTES);
    let render = render(&host, &humble, commands).expect_err("its device is quiesced");
    Crowded { host, humble, proud, listed, taker, source, target, render }
}

/// Submits a buffer that may wait.
fn render(host: &Host, client: &Old, commands: ListedCommands) -> Result<Result<Reply, Refusal>, Pending> {
    let call = PacketCall::Render {
        context: client.context.handle(),
        command: commands.words,
        allocation_list: commands.allocations,
        patch_location_list: commands.places,
        private_data: Vec::new(),
    };
    begin(host, client, Call::Packet(call))
}

fn begin(host: &Host, client: &Old, call: Call) -> Result<Result<Reply, Refusal>, Pending> {
    host.begin_call(client.link.process(), call)
}

impl Crowded {
    /// Begins a lock that may wait.
    fn lock(&self, allocation: &Allocation) -> Result<Result<Reply, Refusal>, Pending> {
        let (device, allocation) = (self.humble.gpu.device().handle(), allocation.handle());
        let call =
            Call::Lock(LockCall::Lock { device, allocation, private_driver_data: 0, pages: Vec::new(), flags: ENTIRE });
        begin(&self.host, &self.humble, call)
    }

    fn is_busy(&self, allocation: &Arc<Allocation>, flags: LockFlags) -> bool {
        match self.humble.places(allocation, AT_ONCE | flags) {
            Ok(_) => false,
            Err(refusal) => {
                assert_eq!(refusal.status, NtStatus::GRAPHICS_ALLOCATION_BUSY, "{refusal}");
                true
            }
        }
    }

    /// How many packets the buffer's context holds when the buffer has been queued.
    fn give_turn(&self) -> u32 {
        self.proud.unlist(&self.taker, EvictFlags::empty());
        assert_eq!(self.humble.link.wait_notification(), None, "time passes until nothing happens any more");
        match self.host.take_answer(self.render) {
            Some(Ok(Reply::Queued(queued))) => queued,
            other => panic!("the buffer has had its turn: {other:?}"),
        }
    }
}

#[test]
fn a_lock_waits_for_what_waits_for_its_turn() {
    // spec: memory §6.5, memory §6.1
    let mut go = None;
    let crowded = crowded(|humble| {
        let fence = humble.fence();
        humble.context.wait(&fence, 1).expect("a wait");
        go = Some(fence);
    });
    let (source, target) = (&crowded.source, &crowded.target);
    let uses = || {
        let none = LockFlags::empty();
        assert!(crowded.is_busy(source, none) && crowded.is_busy(target, none));
        assert!(!crowded.is_busy(source, LockFlags::IGNORE_READ_SYNC), "it is only read");
        assert!(crowded.is_busy(target, LockFlags::IGNORE_READ_SYNC), "it is written");
        assert!(!crowded.is_busy(target, LockFlags::IGNORE_SYNC), "the caller knows better");
    };
    uses();
    let lock = crowded.lock(target).expect_err("it waits");
    assert_eq!(crowded.give_turn(), 1, "it is with its context");
    uses();
    crowded.humble.gpu.device().signal(&go.expect("it was made"), 1).expect("the GPU goes on");
    let other = crowded.humble.surface(0, 0);
    crowded.humble.run(|commands| _ = commands.fill((&other, 0), 8, 0));
    assert!(matches!(crowded.host.take_answer(lock), Some(Ok(Reply::Locked { .. }))));
    assert_eq!(crowded.humble.read(target, ENTIRE), rows(1), "nested: the copy is over");
    assert!(!crowded.is_busy(source, LockFlags::empty()));
}

#[test]
fn discard_leaves_what_waits_for_its_turn_the_memory_that_it_names() {
    // spec: memory §6.5, memory §7.2
    for unsubmitted_name_none in [LockFlags::empty(), LockFlags::NO_EXISTING_REFERENCE] {
        let crowded = crowded(|_| {});
        for seed in [2, 3] {
            let discard = ENTIRE | LockFlags::DISCARD | unsubmitted_name_none;
            crowded.humble.write(&crowded.source, discard, seed);
        }
        crowded.give_turn();
        let [target, source] = [&crowded.target, &crowded.source].map(|of| crowded.humble.read(of, ENTIRE));
        assert_eq!((target, source), (rows(1), rows(3)), "{unsubmitted_name_none:?}");
    }
}

#[test]
fn no_lock_waits_for_a_buffer_that_waits_for_its_own_unlock() {
    // spec: memory §6.5, memory §10.1 row 23
    let crowded = crowded(|_| {});
    let held = crowded.listed.lock_legacy(Vec::new(), ENTIRE).expect("a lock");
    let refusal =
        crowded.lock(&crowded.target).expect("it does not wait").expect_err("the wait would be for its own unlock");
    assert_eq!(refusal.status, NtStatus::GRAPHICS_ALLOCATION_BUSY, "{refusal}");
    drop(held);
    crowded.give_turn();
    assert_eq!(crowded.humble.read(&crowded.target, ENTIRE), rows(1));
}

/// The turn of a quiesced device frees no lock: the kernel refuses at once a buffer that names locked content of local memory, or uses content
/// that a lock keeps out of it, and has changed nothing. A buffer that only lists content which is kept out waits for the turn.
#[test]
fn no_buffer_waits_that_its_turn_would_refuse() {
    // spec: memory §6.5, memory §9.2
    let mut held = None;
    let crowded = crowded(|humble| {
        let surfaces = [SurfaceKind::Local, SurfaceKind::LocalThenSystem, SurfaceKind::Local]
            .map(|kind| surface_of(humble, kind, 0, BYTES));
        humble.run(|commands| _ = commands.fill((&surfaces[0], 0), BYTES, 3).fill((&surfaces[1], 0), BYTES, 3));
        held = Some(surfaces.map(|surface| (surface.lock_legacy(Vec::new(), ENTIRE).expect("a lock"), surface)));
    });
    let [(lock, inside), (movable_lock, movable), (_outside_lock, outside)] = held.expect("they were locked");
    let fill = |surface: &Allocation| {
        let mut commands = ListedCommands::new();
        commands.fill((surface, 0), BYTES, 5);
        commands
    };
    let listing = |of: &Allocation| {
        let mut commands = fill(&crowded.target);
        commands.allocations.push(AllocationListItem { allocation: of.handle(), flags: AllocationListFlags::empty() });
        commands
    };
    let present = |to: &Allocation| {
        let (context, source) = (crowded.humble.context.handle(), crowded.source.handle());
        let present = PacketCall::Present { context, source, destination: to.handle(), rectangles: vec![] };
        begin(&crowded.host, &crowded.humble, Call::Packet(present))
    };
    let render = |commands| render(&crowded.host, &crowded.humble, commands);
    let before = crowded.host.state_digest();
    let refused =
        [render(fill(&inside)), render(listing(&inside)), present(&inside), render(fill(&outside)), present(&outside)];
    for (nth, refused) in refused.into_iter().enumerate() {
        let refusal = refused.expect("it does not wait").map(drop).expect_err("the turn frees no lock");
        assert_eq!(refusal.status, NtStatus::GRAPHICS_CANT_RENDER_LOCKED_ALLOCATION, "{nth}: {refusal}");
    }
    let changed = before.differences(&crowded.host.state_digest());
    assert!(changed.is_empty(), "{changed:?}");
    let waits =
        [listing(&outside), fill(&movable)].map(|commands| render(commands).expect_err("nothing bars its turn"));
    crowded.give_turn();
    for waits in waits {
        let answer = crowded.host.take_answer(waits);
        assert!(matches!(answer, Some(Ok(Reply::Queued(_)))), "{answer:?}");
    }
    drop(movable_lock);
    let read = |of| crowded.humble.read(of, ENTIRE)[0];
    assert_eq!((read(&crowded.target), read(&movable), lock.read_word(0)), (5 << 32 | 5, 5 << 32 | 5, 3 << 32 | 3));
}

/// A client has given up what it evicts: when it locks that, its quiesced device still has its turn, as no queued buffer names the allocation.
#[test]
fn a_lock_of_what_was_evicted_keeps_no_turn_away() {
    // spec: memory §5.3, memory §6.5, memory §10.1 row 23
    let mut other = None;
    let crowded = crowded(|humble| {
        let surface = humble.surface(0, 0);
        humble.list(&surface);
        other = Some(surface);
    });
    let other = other.expect("it was made");
    // All of its memory is listed, so it is queued at once, and runs with the turn.
    let mut commands = ListedCommands::new();
    commands.fill((&other, 0), 8, 3).render(&crowded.humble.context).expect("a buffer");
    crowded.humble.unlist(&crowded.listed, EvictFlags::empty());
    let held = crowded.listed.lock_legacy(Vec::new(), ENTIRE).expect("no buffer names it");
    held.write_words(0, &[4711]);
    let mut commands = ListedCommands::new();
    commands.fill((&crowded.target, 0), BYTES, 7);
    let behind = render(&crowded.host, &crowded.humble, commands).expect_err("the buffer waits for the turn");
    crowded.give_turn();
    assert!(matches!(crowded.host.take_answer(behind), Some(Ok(Reply::Queued(_)))));
    assert_eq!(crowded.humble.read(&crowded.target, ENTIRE)[0], 7 << 32 | 7);
    assert_eq!(crowded.humble.read(&other, ENTIRE)[0], 3 << 32 | 3, "its buffer ran");
    assert_eq!(held.read_word(0), 4711, "the lock shows what the CPU stored");
}

/// A lock that waits counts from its call on, once for each allocation, and no more when its wait has ended without it.
#[test]
fn a_lock_that_waits_counts_against_the_limit() {
    // spec: memory §6.3, memory §6.5, memory §9.2
    let host = Host::start(config(VIRTUAL)).expect("the host starts");
    let process = Quota { locked_bytes: BYTES, ..Quota::NONE };
    let admission = Admission { account: AccountId(1000), process, together: Quota::NONE };
    let link = ProcessLink::admitted(Arc::clone(&host), admission);
    let gpu = Gpu::open(Arc::clone(&link) as Arc<dyn Link>).expect("the adapter opens");
    let context = Context::create(gpu.device(), COPY, Vec::new()).expect("a context");
    let client = Old { gpu, context, link };
    let [one, other] = [(); 2].map(|()| client.surface(0, 0));
    [&one, &other].into_iter().for_each(|allocation| client.list(allocation));
    let go = client.fence();
    client.context.wait(&go, 1).expect("a wait");
    ListedCommands::new().copy((&one, 0), (&other, 0), BYTES).render(&client.context).expect("a buffer");
    let device = client.gpu.device().handle();
    let lock = |allocation: &Allocation| {
        let (allocation, pages) = (allocation.handle(), Vec::new());
        let call = LockCall::Lock { device, allocation, private_driver_data: 0, pages, flags: ENTIRE };
        begin(&host, &client, Call::Lock(call))
    };
    let beyond = |allocation| {
        let refused = lock(allocation).expect("no wait").expect_err("one lock waits for all that there may be");
        assert_eq!(refused.status, NtStatus::NO_MEMORY, "{refused}");
        assert!(refused.reason.contains(&format!("{BYTES} of {BYTES}")), "{refused}");
    };
    let waits = [lock(&one), lock(&one)].map(|lock| lock.expect_err("the GPU is to read it"));
    beyond(&other);
    client.gpu.device().signal(&go, 1).expect("the GPU goes on");
    while host.step() {}
    for wait in waits {
        host.take_answer(wait).expect("the GPU is past it").expect("a lock");
    }
    beyond(&other);
    for _ in 0..2 {
        let call = LockCall::Unlock { device, allocations: vec![one.handle()] };
        client.link.call(Call::Lock(call)).expect("it is locked twice");
    }
    // A wait that ends without a lock gives back what it counted.
    client.context.wait(&go, 2).expect("a wait");
    ListedCommands::new().copy((&one, 0), (&other, 0), BYTES).render(&client.context).expect("a buffer");
    let wait = lock(&one).expect_err("the GPU is to read it");
    beyond(&other);
    one.destroy(DestroyFlags::empty()).expect("its handle goes at once");
    let behind = lock(&other).expect_err("within the limit, and behind the GPU");
    client.gpu.device().signal(&go, 2).expect("the GPU goes on");
    while host.step() {}
    let gone = host.take_answer(wait).expect("the GPU is past it").expect_err("it was destroyed");
    assert_eq!(gone.status, NtStatus::INVALID_PARAMETER, "{gone}");
    host.take_answer(behind).expect("the GPU is past it").expect("a lock");
    host.check_invariants().expect("the kernel's invariants hold");
}
