//! A driver that trims as callbacks ask: the bytes that its process gives back, and those that it keeps.

use std::sync::Arc;

use d3dkmt::EvictFlags;
use dxgk_host::{Host, ProcessLink};
use kmt_link::Link;
use softgpu_umd::{Gpu, Lane, ResidencyList, Surface, SurfaceKind};
use wddm_types::NodeId;

use stack::world::{MIB, VIRTUAL, host};

/// A process that keeps on its list whatever it has used.
struct Keeper {
    lane: Lane,
    surfaces: Vec<Surface>,
    kept: ResidencyList,
    gpu: Gpu,
    link: Arc<ProcessLink>,
}

impl Keeper {
    /// With so many surfaces of a megabyte, each used once.
    fn new(host: &Arc<Host>, surfaces: u64) -> Keeper {
        let link = ProcessLink::new(Arc::clone(host));
        let gpu = Gpu::open(Arc::clone(&link) as Arc<dyn Link>).expect("the adapter opens");
        let lane = Lane::create(&gpu, NodeId(0)).expect("a lane");
        let kept = ResidencyList::create(&gpu).expect("a list");
        let surfaces = (0..surfaces).map(|_| gpu.create_surface(SurfaceKind::Local, MIB).expect("a surface")).collect();
        let mut keeper = Keeper { lane, surfaces, kept, gpu, link };
        (0..keeper.surfaces.len()).for_each(|which| keeper.work_on(which));
        keeper
    }

    fn work_on(&mut self, which: usize) {
        let surface = &self.surfaces[which];
        let made = self.kept.use_surfaces(&self.gpu, &mut self.lane, &[(surface, true)]).expect("room");
        self.lane.touch(surface, true);
        let value = self.lane.submit(&self.gpu, made.wait_for).expect("a submission");
        self.lane.wait(&self.gpu, value).expect("it completes");
    }

    /// Brings a surface in, whatever that takes, and leaves it where it is.
    fn take_and_leave(&mut self, bytes: u64) {
        let surface = self.gpu.create_surface(SurfaceKind::Local, bytes).expect("a surface");
        self.kept.use_surfaces(&self.gpu, &mut self.lane, &[(&surface, true)]).expect("room");
        let handle = vec![surface.allocation().handle()];
        self.gpu.device().evict(handle, EvictFlags::EVICT_ONLY_IF_NECESSARY).expect("it is listed");
        self.surfaces.push(surface);
    }

    fn used_bytes(&self) -> u64 {
        self.gpu.adapter().video_memory_info(true).expect("an adapter").current_usage_bytes
    }

    fn honour(&mut self) {
        self.kept.honour_trims(&self.gpu, self.lane.progress().current()).expect("the device lives");
    }

    /// The surfaces that the list still has: a second removal fails.
    fn listed(&self) -> Vec<usize> {
        let evict = |surface: &Surface| {
            let handle = vec![surface.allocation().handle()];
            self.gpu.device().evict(handle, EvictFlags::EVICT_ONLY_IF_NECESSARY).is_ok()
        };
        (0..self.surfaces.len()).filter(|which| evict(&self.surfaces[*which])).collect()
    }
}

#[test]
fn who_is_over_budget_gives_back_what_is_asked_for_and_the_longest_unused_first() {
    // spec: memory §5.4
    let host = host(VIRTUAL, 8 * MIB);
    let (mut keeper, beside) = (Keeper::new(&host, 5), Keeper::new(&host, 2));
    keeper.work_on(0);
    let before = keeper.used_bytes();
    host.set_process_budget(keeper.link.process(), Some(before - 2 * MIB));
    // The kernel asks a process over its budget again and again: virtual time goes on.
    for _ in 0..100 {
        assert!(host.step());
        keeper.honour();
        if keeper.kept.trimmed_bytes() > 0 {
            break;
        }
    }
    assert_eq!((keeper.kept.trimmed_bytes(), keeper.kept.len()), (2 * MIB, 3));
    assert_eq!(keeper.used_bytes(), before - 2 * MIB, "to the byte, and no byte more");
    // It is within its budget, so the kernel asks no more.
    while host.step() {}
    keeper.honour();
    assert_eq!(keeper.kept.trimmed_bytes(), 2 * MIB);
    assert_eq!(keeper.listed(), [0, 3, 4], "the first was used again");
    assert_eq!(beside.listed(), [0, 1], "the kernel asks no other process");
}

/// Another process needs room, and the keeper trims as the kernel asks.
fn press(host: &Arc<Host>, keeper: &mut Keeper) {
    // Three megabytes are brought in and left twice, where there is room for one of them.
    let mut other = Keeper::new(host, 0);
    for _ in 0..2 {
        other.take_and_leave(3 * MIB);
    }
    while host.step() {}
    keeper.honour();
}

#[test]
fn a_periodic_trim_takes_what_was_not_used_since_the_last() {
    // spec: memory §5.4
    let host = host(VIRTUAL, 8 * MIB);
    let mut keeper = Keeper::new(&host, 4);
    let before = keeper.used_bytes();
    press(&host, &mut keeper);
    assert_eq!((keeper.kept.trimmed_bytes(), keeper.used_bytes()), (0, before), "there was none before: it is noted");
    keeper.work_on(2);
    press(&host, &mut keeper);
    assert_eq!((keeper.kept.trimmed_bytes(), keeper.kept.len()), (3 * MIB, 1));
    assert_eq!(keeper.used_bytes(), before - 3 * MIB);
    press(&host, &mut keeper);
    assert_eq!((keeper.kept.len(), keeper.used_bytes()), (0, before - 4 * MIB), "nor was that since");
}

#[test]
fn a_quiesced_process_notes_the_time_and_keeps_what_it_could_not_use() {
    // spec: memory §5.4
    let host = host(VIRTUAL, 8 * MIB);
    let mut keeper = Keeper::new(&host, 4);
    let before = keeper.used_bytes();
    press(&host, &mut keeper);
    assert_eq!((keeper.kept.trimmed_bytes(), keeper.used_bytes()), (0, before), "there was none before: it is noted");
    // Another process insists on more than is left; the keeper's content comes back for its next work.
    Keeper::new(&host, 0).take_and_leave(6 * MIB);
    assert_eq!(keeper.kept.len(), 4, "the kernel does not ask a quiesced process");
    keeper.work_on(2);
    press(&host, &mut keeper);
    assert_eq!((keeper.kept.trimmed_bytes(), keeper.used_bytes()), (0, before), "only one had a chance to be used");
    keeper.work_on(1);
    press(&host, &mut keeper);
    assert_eq!((keeper.kept.trimmed_bytes(), keeper.kept.len()), (3 * MIB, 1), "since then others had, too");
}
