//! The CPU uses memory that the GPU uses: which maps wait, how, and with how many calls to the kernel.

mod packets;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use d3dkmt::{Fence, NativeFenceRequest};
use dxgk_host::Mode;
use softgpu_umd::{
    ContextId, Contexts, DO_NOT_WAIT, DynamicResource, Gpu, MapError, MapKind, RenamePolicy, SurfaceKind, pattern,
};
use wddm_types::NodeId;

use stack::counting::Counting;
use stack::world::{MIB, VIRTUAL, host};

const BYTES: u64 = 4096;

/// A process with a context whose work stands behind a gate.
struct Runtime {
    resource: DynamicResource,
    gate: Fence,
    context: ContextId,
    contexts: Contexts,
    gpu: Gpu,
    counting: Arc<Counting>,
}

fn runtime(mode: Mode, instances_max: usize) -> Runtime {
    let host = host(mode, 4 * MIB);
    let (link, counting) = Counting::of(&host);
    let gpu = Gpu::open(link).expect("the adapter opens");
    let mut contexts = Contexts::new();
    let context = contexts.add(&gpu, NodeId(0), None).expect("a stream");
    let gate = gpu.device().create_native_fence(NativeFenceRequest::default()).expect("a fence");
    let policy = RenamePolicy { instances_max, cached: false };
    let resource = DynamicResource::create(&gpu, SurfaceKind::LocalThenSystem, BYTES, policy).expect("room");
    Runtime { resource, gate, context, contexts, gpu, counting }
}

impl Runtime {
    /// Maps a resource that the GPU still writes behind the gate: one call blocks, made before the gate opens at `round`, and the map makes no
    /// other call, however long it takes.
    fn maps_by_one_blocking_call(&mut self, round: u64, kind: MapKind, what: &str) {
        let (calls, waits) = (self.counting.calls.load(Ordering::SeqCst), self.waits());
        let Runtime { resource, gate, contexts, gpu, counting, .. } = self;
        let lock = std::thread::scope(|scope| {
            let opener = scope.spawn(|| {
                while counting.waits.load(Ordering::SeqCst) == waits {
                    std::thread::yield_now();
                }
                gpu.device().signal(gate, round).expect("a signal");
            });
            let lock = resource.map(gpu, contexts, kind, false).expect("after the wait");
            opener.join().expect("a thread of ours");
            lock
        });
        assert_eq!(lock.read_word(16), pattern::word(round, 16), "{what}: the write is over");
        assert_eq!(self.waits() - waits, 1, "{what}: one wait, however long it takes");
        // The wait, the opener's signal, and the lock that is made once.
        let made = self.counting.calls.load(Ordering::SeqCst) - calls;
        assert_eq!(made, if round == 1 { 3 } else { 2 }, "{what}");
    }

    /// Records commands that write a pattern when the gate has got to a value.
    fn write_behind_gate(&mut self, gate: u64, seed: u64) {
        let va = self.resource.record_write(&mut self.contexts, self.context);
        self.contexts.commands(self.context).wait(&self.gate, gate).pattern(va, BYTES, seed);
    }

    /// Records commands that read it when the gate has got to a value.
    fn read_behind_gate(&mut self, gate: u64) {
        let va = self.resource.record_read(&mut self.contexts, self.context);
        self.contexts.commands(self.context).wait(&self.gate, gate).touch(va, BYTES, false);
    }

    fn flush(&mut self) {
        self.contexts.flush(&self.gpu, self.context).expect("a submission");
    }

    fn map(&mut self, kind: MapKind, do_not_wait: bool) -> Result<Arc<d3dkmt::Lock>, MapError> {
        self.resource.map(&self.gpu, &mut self.contexts, kind, do_not_wait)
    }

    fn waits(&self) -> u64 {
        self.counting.waits.load(Ordering::SeqCst)
    }

    fn open(&self, value: u64) {
        self.gpu.device().signal(&self.gate, value).expect("a signal");
    }

    /// Opens the gate and lets everything finish.
    fn finish(&mut self, value: u64) {
        self.open(value);
        let stream = self.contexts.lane(self.context);
        self.gpu.device().wait(&[(stream.progress(), stream.last_value())]).expect("it completes");
    }
}

fn drawing(answer: Result<Arc<d3dkmt::Lock>, MapError>) {
    let error = answer.err().expect("the GPU has not finished");
    assert_eq!(error.hresult(), Some(0x887A_000A), "{error}");
    assert_eq!(error.hresult_d3d9(), Some(0x8876_021C));
}

// spec: memory §6.4
// seed: M48
// seed: U06
#[test]
fn busy_and_do_not_wait_is_answered_at_once_and_still_flushes() {
    for mode in [VIRTUAL, Mode::Real] {
        let mut runtime = runtime(mode, 8);
        runtime.write_behind_gate(1, 7);
        let waits = runtime.waits();
        assert_eq!(runtime.contexts.lane(runtime.context).last_value(), 0, "recorded, not submitted");
        drawing(runtime.map(MapKind::Read, true));
        assert_eq!(runtime.contexts.lane(runtime.context).last_value(), 1, "{mode:?}: the attempt submitted it");
        drawing(runtime.map(MapKind::Write, true));
        drawing(runtime.map(MapKind::ReadWrite, true));
        assert_eq!(runtime.waits(), waits, "no map waited");
        assert!(runtime.resource.unmap().is_err(), "nothing was mapped");
        runtime.finish(1);
        let lock = runtime.map(MapKind::Read, true).expect("a later attempt succeeds");
        assert_eq!(lock.read_word(8), pattern::word(7, 8), "{mode:?}");
    }
}

// spec: memory §6.4
// seed: M47
#[test]
fn reading_waits_for_writes_only_and_writing_for_both() {
    for mode in [VIRTUAL, Mode::Real] {
        let mut runtime = runtime(mode, 8);
        runtime.read_behind_gate(1);
        runtime.map(MapKind::Read, true).expect("two readers do not disturb each other");
        assert_eq!(runtime.contexts.lane(runtime.context).last_value(), 1, "it flushed what refers to the resource");
        drawing(runtime.map(MapKind::Write, true));
        drawing(runtime.map(MapKind::ReadWrite, true));
        runtime.finish(1);
        runtime.map(MapKind::Write, true).expect("the read is over");
    }
}

/// The one call that blocks is made before the gate opens, and it is the only one.
// spec: memory §6.4, memory §6.1
// seed: M49
// seed: U07
#[test]
fn a_wait_is_one_blocking_call() {
    let mut runtime = runtime(Mode::Real, 8);
    for (round, kind) in (1u64..).zip([MapKind::Read, MapKind::Write, MapKind::ReadWrite]) {
        runtime.write_behind_gate(round, round);
        runtime.flush();
        runtime.maps_by_one_blocking_call(round, kind, &format!("{kind:?}"));
        runtime.resource.unmap().expect("it is mapped");
    }
}

// spec: memory §6.1, memory §6.4
// seed: M46
// seed: U01
// seed: U05
#[test]
fn discard_renames_and_the_gpu_reads_what_it_was_given() {
    for mode in [VIRTUAL, Mode::Real] {
        let mut runtime = runtime(mode, 4);
        let target = runtime.gpu.create_lockable_surface(SurfaceKind::System, 8 * BYTES, false).expect("a surface");
        runtime.gpu.pin(&target).expect("room");
        let waits = runtime.waits();
        let mut addresses = Vec::new();
        for draw in 0..4u64 {
            let lock = runtime.map(MapKind::WriteDiscard, true).expect("there is an instance");
            lock.fill_words(0, BYTES / 8, |word| pattern::word(draw, word * 8));
            runtime.resource.unmap().expect("it is mapped");
            let va = runtime.resource.record_read(&mut runtime.contexts, runtime.context);
            addresses.push(va);
            let commands = runtime.contexts.commands(runtime.context);
            commands.wait(&runtime.gate, 1).copy(va, target.va().offset(draw * BYTES), BYTES);
            // Some are submitted, the last is not.
            if draw < 3 {
                runtime.flush();
            }
        }
        addresses.sort_unstable_by_key(|va| va.0);
        addresses.dedup();
        assert_eq!(addresses.len(), 4, "every draw in flight has an instance of its own");
        assert_eq!(runtime.waits(), waits, "{mode:?}: the CPU waited for nothing");
        drawing(runtime.map(MapKind::WriteDiscard, true));
        assert_eq!(runtime.resource.instances(), 4, "the list is as long as it may be");
        runtime.flush();
        runtime.finish(1);
        let seen = target.lock().expect("system memory");
        for draw in 0..4 {
            let expected = pattern::word(draw, 24);
            assert_eq!(seen.read_word(draw * BYTES + 24), expected, "{mode:?}: draw {draw} read its own content");
        }
        // All are idle now: no more are made.
        let creations = runtime.counting.creations.load(Ordering::SeqCst);
        for _ in 0..6 {
            runtime.map(MapKind::WriteDiscard, true).expect("idle instances are used again");
            runtime.resource.unmap().expect("it is mapped");
            runtime.read_behind_gate(1);
            runtime.flush();
            runtime.finish(1);
        }
        assert_eq!(runtime.counting.creations.load(Ordering::SeqCst), creations);
        assert_eq!(
            runtime.resource.trim(&runtime.contexts),
            3 * BYTES,
            "idle instances go when the kernel asks for memory"
        );
        assert_eq!(runtime.resource.instances(), 1);
    }
}

// spec: memory §6.4
// seed: U05
#[test]
fn no_overwrite_never_waits_and_discard_waits_only_when_the_list_is_full() {
    let mut runtime = runtime(Mode::Real, 2);
    let first = runtime.resource.va();
    runtime.read_behind_gate(1);
    runtime.flush();
    let waits = runtime.waits();
    runtime.map(MapKind::WriteNoOverwrite, true).expect("no synchronisation");
    runtime.map(MapKind::WriteNoOverwrite, false).expect("and nested");
    assert_eq!((runtime.waits(), runtime.resource.va()), (waits, first), "the same instance, at once");
    runtime.resource.unmap().expect("twice mapped");
    runtime.resource.unmap().expect("once mapped");
    runtime.map(MapKind::WriteDiscard, false).expect("a new instance");
    runtime.resource.unmap().expect("mapped");
    assert_ne!(runtime.resource.va(), first);
    runtime.read_behind_gate(2);
    runtime.flush();
    runtime.open(1);
    // Both are in use, the first one soon not: it is waited for, though the second never ends.
    runtime.map(MapKind::WriteDiscard, false).expect("one call, one wait at most");
    assert_eq!(runtime.resource.va(), first);
    assert!(runtime.waits() <= waits + 1);
    runtime.finish(2);
}

// spec: memory §6.4
#[test]
fn wrong_arguments_are_refused_and_change_nothing() {
    let mut runtime = runtime(VIRTUAL, 2);
    assert_eq!(runtime.resource.unmap().expect_err("not mapped").hresult(), Some(MapError::E_INVALIDARG));
    runtime.map(MapKind::Write, true).expect("idle");
    runtime.map(MapKind::Read, true).expect("mapped is no reason to refuse");
    for _ in 0..2 {
        runtime.resource.unmap().expect("as often as it was mapped");
    }
    assert_eq!(runtime.resource.unmap().expect_err("not mapped").hresult(), Some(MapError::E_INVALIDARG));
    assert_eq!(MapKind::decode(4, DO_NOT_WAIT).expect("they exist"), (MapKind::WriteDiscard, true));
    for (map, flags) in [(0, 0), (6, 0), (1, 1), (5, DO_NOT_WAIT << 1)] {
        let refused = MapKind::decode(map, flags).expect_err("no such number");
        assert_eq!(refused.hresult(), Some(MapError::E_INVALIDARG), "{map} {flags:#x}");
    }
}
