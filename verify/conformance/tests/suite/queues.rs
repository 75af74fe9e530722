//! Queues that the kernel feeds, by packets and by hardware queues: order within one, values that rise, work beside each other.

use conformance::{MIB, World, over_every_link};
use softgpu_umd::{Lane, Stage, Surface, SurfaceKind, pattern};

over_every_link!(a_queue_keeps_its_order, processes_work_beside_each_other_and_find_their_bytes);

const STAGES: [Stage; 2] = [Stage::Packet, Stage::Hardware];

fn is_intact(report: &Surface) -> bool {
    report.lock().expect("system memory").read_word(pattern::report::TAG * 8) == 0
}

// spec: sync §4.1
fn a_queue_keeps_its_order(world: &World) {
    let client = world.client();
    let (surface, report) = (client.pinned(SurfaceKind::Local, MIB), client.pinned(SurfaceKind::System, 4096));
    for stage in STAGES {
        let mut lane = client.lane(stage);
        let mut last = 0;
        for seed in 1..=20 {
            lane.pattern(&surface, seed);
            let value = lane.submit(&client.gpu, None).expect("a submission");
            assert!(value > last, "{stage:?}: values rise");
            lane.check(&surface, seed, &report, seed);
            last = lane.submit(&client.gpu, None).expect("a submission");
        }
        lane.wait(&client.gpu, last).expect("all of it");
        assert!(is_intact(&report), "{stage:?}: each check ran behind its own pattern");
        assert_eq!(lane.progress().current(), last, "{stage:?}");
    }
}

// spec: memory §8.3
fn processes_work_beside_each_other_and_find_their_bytes(world: &World) {
    // Three times four surfaces of a mebibyte, of which eight fit.
    std::thread::scope(|scope| {
        for seed in 0..3 {
            scope.spawn(move || {
                let client = world.client();
                let mut list = softgpu_umd::ResidencyList::create(&client.gpu).expect("a list");
                let mut lane = client.lane(STAGES[seed as usize % 2]);
                let report = client.pinned(SurfaceKind::System, 4096);
                let create = |_| client.gpu.create_surface(SurfaceKind::LocalThenSystem, MIB).expect("a surface");
                let surfaces: Vec<Surface> = (0..4).map(create).collect();
                for round in 0..6 {
                    for (index, surface) in (0..).zip(&surfaces) {
                        let own = seed * 1000 + index;
                        use_one(&client.gpu, &mut list, &mut lane, surface, |lane| match round {
                            0 => lane.pattern(surface, own),
                            _ => lane.check(surface, own, &report, own),
                        });
                    }
                }
                assert!(is_intact(&report), "process {seed}");
            });
        }
    });
}

fn use_one(
    gpu: &softgpu_umd::Gpu,
    list: &mut softgpu_umd::ResidencyList,
    lane: &mut Lane,
    surface: &Surface,
    record: impl FnOnce(&mut Lane),
) {
    let made = list.use_surfaces(gpu, lane, &[(surface, true)]).expect("room, some time");
    record(lane);
    let value = lane.submit(gpu, made.wait_for).expect("a submission");
    lane.wait(gpu, value).expect("it completes");
}
