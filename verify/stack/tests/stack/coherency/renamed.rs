//! The same platform under WDDM 2, where the user-mode driver knows the users of each resource: its dynamic resources maintain the caches by
//! themselves, and the program that maps them sees every byte.

use std::sync::Arc;

use dxgk_host::{Host, HostConfig, Mode, ProcessLink, Profile};
use kmt_link::Link;
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
        let config = HostConfig {
            vram_bytes: 8 * MIB,
            page_table_bytes: 16 * MIB,
            system_bytes: 64 * MIB,
            io_coherent,
            ..HostConfig::new(Profile::named("noncoherent").expect("a built-in profile"), mode)
        };
        let host = Host::start(config).expect("the host starts");
        let gpu = Gpu::open(ProcessLink::new(host) as Arc<dyn Link>).expect("the adapter opens");
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
