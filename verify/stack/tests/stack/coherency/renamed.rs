//! The same platform under WDDM 2, where the user-mode driver knows the users of each resource: its dynamic resources maintain the caches by
//! themselves, and the program that maps them sees every byte.

use std::sync::{Arc, Mutex};

use d3dkmt::{Fence, NativeFenceRequest};
use dxgk_host::{Host, HostConfig, Mode, ProcessLink, Profile};
use kmt_calls::{Call, PropertyCall, SignalFlags, SyncCall};
use kmt_link::{Link, Routed};
use softgpu_umd::{ContextId, Contexts, DynamicResource, Gpu, MapKind, RenamePolicy, Surface, SurfaceKind};
use wddm_types::NodeId;

use stack::world::{MIB, VIRTUAL};

const BYTES: u64 = 8192;

struct Program {
    resource: DynamicResource,
    plain: Surface,
    context: ContextId,
    contexts: Contexts,
    gpu: Gpu,
}

impl Program {
    fn new(io_coherent: bool, mode: Mode) -> Program {
        Program::over(ProcessLink::new(Program::host(io_coherent, mode)), io_coherent)
    }

    fn host(io_coherent: bool, mode: Mode) -> Arc<Host> {
        let config = HostConfig {
            vram_bytes: 8 * MIB,
            page_table_bytes: 16 * MIB,
            system_bytes: 64 * MIB,
            io_coherent,
            ..HostConfig::new(Profile::named("noncoherent").expect("a built-in profile"), mode)
        };
        Host::start(config).expect("the host starts")
    }

    fn over(link: Arc<dyn Link>, io_coherent: bool) -> Program {
        let gpu = Gpu::open(link).expect("the adapter opens");
        assert_eq!(gpu.is_io_coherent(), io_coherent);
        let mut contexts = Contexts::new();
        let context = contexts.add(&gpu, NodeId(0), None).unwrap();
        let policy = RenamePolicy { cached: true, ..RenamePolicy::default() };
        let resource = DynamicResource::create(&gpu, SurfaceKind::System, BYTES, policy).unwrap();
        let plain = gpu.create_surface(SurfaceKind::System, BYTES).unwrap();
        gpu.pin(&plain).unwrap();
        Program { resource, plain, context, contexts, gpu }
    }

    fn write(&mut self, kind: MapKind, offset: u64, value: u64) {
        let lock = self.resource.map(&self.gpu, &mut self.contexts, kind, false).unwrap();
        lock.write_words(offset, &[value]);
        self.resource.unmap().unwrap();
    }

    fn read(&mut self, offset: u64) -> u64 {
        let lock = self.resource.map(&self.gpu, &mut self.contexts, MapKind::Read, false).unwrap();
        let word = lock.read_word(offset);
        self.resource.unmap().unwrap();
        word
    }

    fn gpu_fills(&mut self, value: u32) {
        let va = self.resource.record_write(&mut self.contexts, self.context);
        self.contexts.commands(self.context).fill(va, BYTES, value);
    }

    /// The GPU fills half of the resource in a context, when the gate has got to a value.
    fn fills_behind(&mut self, context: ContextId, gate: &Fence, value: u64, half: u64, pattern: u32) {
        let va = self.resource.record_write(&mut self.contexts, context);
        self.contexts.commands(context).wait(gate, value).fill(va.offset(half * BYTES / 2), BYTES / 2, pattern);
        self.contexts.flush(&self.gpu, context).expect("a submission");
    }

    /// Opens the gate, and waits for all that these contexts have submitted.
    fn opens(&self, gate: &Fence, value: u64, contexts: &[ContextId]) {
        self.gpu.device().signal(gate, value).expect("a signal");
        for context in contexts {
            let lane = self.contexts.lane(*context);
            self.gpu.device().wait(&[(lane.progress(), lane.last_value())]).expect("it completes");
        }
    }

    /// The words at both halves, as a map of a kind shows them.
    fn halves(&mut self, kind: MapKind) -> [u32; 2] {
        let lock = self.resource.map(&self.gpu, &mut self.contexts, kind, false).unwrap();
        let words = [8, BYTES - 8].map(|offset| lock.read_word(offset) as u32);
        self.resource.unmap().unwrap();
        words
    }

    /// The word at an offset, as the GPU reads it.
    fn gpu_copies(&mut self, offset: u64) -> u64 {
        let va = self.resource.record_read(&mut self.contexts, self.context);
        self.contexts.commands(self.context).copy(va, self.plain.va(), BYTES);
        let value = self.contexts.flush(&self.gpu, self.context).unwrap().expect("something was recorded");
        self.gpu.device().wait(&[(self.contexts.lane(self.context).progress(), value)]).unwrap();
        self.plain.lock().unwrap().read_word(offset)
    }
}

#[test]
fn a_mapped_resource_is_coherent_because_its_driver_sees_to_it() {
    // spec: memory §6.7, memory §6.4, memory §10.1
    // seed: U30, U31
    for (io_coherent, mode) in [(false, VIRTUAL), (false, Mode::Real), (true, VIRTUAL)] {
        let mut program = Program::new(io_coherent, mode);
        program.write(MapKind::WriteDiscard, 0, 1);
        assert_eq!(program.gpu_copies(0), 1, "coherent {io_coherent}: written, then read by the GPU");
        program.gpu_fills(2);
        assert_eq!(program.read(8), 2 << 32 | 2, "coherent {io_coherent}: written by the GPU, then read");
        // Many times, each side over the other's writes.
        for round in 3..20u32 {
            let (word, filled) = (u64::from(round), u64::from(round) << 32 | u64::from(round));
            program.write(MapKind::Write, 16, word);
            program.write(MapKind::WriteNoOverwrite, 64, word);
            assert_eq!(program.gpu_copies(16), word);
            assert_eq!(program.gpu_copies(64), word);
            program.gpu_fills(round);
            assert_eq!([program.read(16), program.read(4096)], [filled; 2], "round {round}");
        }
    }
}

/// Two contexts write, and a map that waits for nothing comes while one of them or both still do: what the GPU writes behind the map is
/// seen by the next one that reads.
#[test]
fn a_write_that_still_runs_at_a_map_is_not_forgotten() {
    // spec: memory §6.7, memory §6.4
    // seed: U31
    for (mode, running) in [VIRTUAL, Mode::Real].into_iter().flat_map(|mode| [0, 1].map(|running| (mode, running))) {
        let mut program = Program::new(false, mode);
        let second = program.contexts.add(&program.gpu, NodeId(0), None).unwrap();
        let contexts = [program.context, second];
        let gate = program.gpu.device().create_native_fence(NativeFenceRequest::default()).unwrap();
        program.write(MapKind::Write, 0, 1);
        // One is over, the other runs.
        program.fills_behind(contexts[1 - running], &gate, 0, 0, 2);
        program.opens(&gate, 1, &[contexts[1 - running]]);
        program.fills_behind(contexts[running], &gate, 2, 1, 3);
        assert_eq!(program.halves(MapKind::WriteNoOverwrite), [2, 0], "{mode:?}, {running}: one is over");
        program.opens(&gate, 2, &contexts);
        assert_eq!(program.halves(MapKind::Read), [2, 3], "{mode:?}, {running}: now both are");
        // Both run, in two instances of the resource; the first is mapped again for reading when it is current again.
        program.fills_behind(contexts[running], &gate, 3, 0, 4);
        program.fills_behind(contexts[1 - running], &gate, 4, 1, 5);
        assert_eq!(program.halves(MapKind::WriteNoOverwrite), [2, 3], "{mode:?}, {running}: both run");
        program.opens(&gate, 3, &[contexts[running]]);
        assert_eq!(program.halves(MapKind::WriteNoOverwrite), [4, 3], "{mode:?}, {running}: one runs");
        let first = program.resource.va();
        program.write(MapKind::WriteDiscard, 0, 6);
        assert_ne!(program.resource.va(), first, "{mode:?}, {running}: the other instance");
        program.fills_behind(contexts[running], &gate, 5, 0, 7);
        program.fills_behind(contexts[1 - running], &gate, 5, 1, 8);
        program.halves(MapKind::WriteNoOverwrite);
        program.opens(&gate, 5, &contexts);
        assert_eq!(program.halves(MapKind::Read), [7, 8], "{mode:?}, {running}: in the second instance");
    }
}

/// The write is over just when the kernel has invalidated the CPU's lines: the CPU may have lines from between.
#[test]
fn a_write_that_ends_behind_the_maintenance_of_a_map_is_not_forgotten() {
    // spec: memory §6.7
    // seed: U31
    // The device and its gate, once a map is to find the write over as soon as the lines are invalidated.
    let opens = Arc::new(Mutex::new(None));
    let (host, opened) = (Program::host(false, VIRTUAL), Arc::clone(&opens));
    let link = Routed::new(ProcessLink::new(Arc::clone(&host)), move |link: &ProcessLink, call| {
        let maintains = matches!(call, Call::Property(PropertyCall::InvalidateCache { .. }));
        let answer = link.call(call);
        if maintains && let Some((device, gate)) = opened.lock().unwrap().take() {
            let (points, flags) = (vec![(gate, 1)], SignalFlags::empty());
            let signal = SyncCall::SignalSynchronizationObjectFromCpu { device, points, flags };
            link.call(Call::Sync(signal)).expect("a signal");
            while host.step() {}
        }
        answer
    });
    let mut program = Program::over(Arc::new(link), false);
    let context = program.context;
    let gate = program.gpu.device().create_native_fence(NativeFenceRequest::default()).unwrap();
    program.write(MapKind::Write, 0, 1);
    program.fills_behind(context, &gate, 0, 0, 2);
    program.fills_behind(context, &gate, 1, 1, 3);
    *opens.lock().unwrap() = Some((program.gpu.device().handle(), gate.handle()));
    // It stays mapped: the end of a map maintains the caches, too.
    let _mapped = program.resource.map(&program.gpu, &mut program.contexts, MapKind::WriteNoOverwrite, false).unwrap();
    assert!(opens.lock().unwrap().is_none(), "the map has maintained the caches");
    assert_eq!(program.halves(MapKind::Read), [2, 3]);
}
