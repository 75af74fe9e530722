//! ENGINE_RESET: which queues are forgotten, and which are not.

use softgpu_spec::engine;

use super::*;

/// Rings of other queues: nothing stands there.
const OTHERS: u64 = 0x8000;

fn fill(page: u64) -> Command<'static> {
    Command::FillPhysical { target_bus: 0x20_0000 + page * 0x1_0000, bytes: 0x1_0000, pattern: 7 }
}

fn filled(rig: &Rig, page: u64) -> bool {
    Word::load(rig.gpu.local_memory().word(0x20_0000 + page * 0x1_0000)) != 0
}

#[test]
fn an_engine_forgets_what_it_has_and_those_that_are_reset_with_it_do_too() {
    // spec: sync §4.4
    for group in [0, 0b11] {
        for told in [engine::COMPUTE, engine::COPY] {
            let mut rig = Rig::grouped(DataMode::Stored, true, group);
            assert_eq!(rig.gpu.read_register(RESET_GROUP), group);
            let (here, there) = (u64::from(told), u64::from(engine::COUNT - 1 - told));
            // Queue 0 runs on the engine that is told, 1 waits on the other, 2 was set aside, 3 is stopped.
            for (queue, engine) in [(0, here), (1, there), (2, here), (3, here)] {
                rig.enable(queue, engine, RING + queue * OTHERS, true);
            }
            for (queue, control) in [(2, queue_control::SUSPEND), (3, queue_control::PREEMPT)] {
                rig.gpu.write_register(QUEUE_SELECT, queue);
                rig.gpu.write_register(QUEUE_CONTROL, control);
            }
            rig.push(&[fill(0), fill(1), fill(2)]);
            // Into the middle of the second: 50 + 1000 + 164 ns each.
            rig.gpu.tick(2000);
            rig.gpu.write_register(ENGINE_RESET, 1 << told);
            let others = if group == 0 { queue_state::READY } else { queue_state::DISABLED };
            let states = [queue_state::DISABLED, others, queue_state::SUSPENDED, queue_state::PREEMPTED];
            assert_eq!([0, 1, 2, 3].map(|queue| rig.state(queue)), states, "{group} {told}");
            rig.gpu.write_register(QUEUE_SELECT, 0);
            assert_eq!(rig.gpu.read_register(QUEUE_READ_POINTER), 24, "the first is done");
            rig.drain();
            assert_eq!([0, 1, 2].map(|page| filled(&rig, page)), [true, false, false], "the second was left");
            // The engine works: the queue begins anew, and the queue that was set aside goes on.
            rig.written = 0;
            rig.enable(0, here, RING, true);
            rig.run(&[fill(2)]);
            rig.gpu.write_register(QUEUE_SELECT, 2);
            rig.gpu.write_register(QUEUE_CONTROL, queue_control::RESUME);
            assert_eq!((filled(&rig, 2), rig.state(2)), (true, queue_state::READY));
        }
    }
}

#[test]
fn no_command_waits_for_transfers_of_before_a_reset() {
    // spec: sync §4.4
    for told in [engine::COPY, engine::COMPUTE] {
        let timing = CONFIG.timing.with_link(1_000);
        let config = Config { timing, ..CONFIG };
        let mut rig = Rig::of(config, Memory::reserve(1 << 20).unwrap(), Arc::new(Pin::default()), true);
        // To system memory: issued after 1,050 ns, over 64 us later.
        rig.push(&[Command::CopyPhysical {
            source_bus: 0x20_0000,
            target_bus: SYSTEM_BASE + 0x1_0000,
            bytes: 0x1_0000,
        }]);
        rig.gpu.tick(2_000);
        rig.gpu.write_register(ENGINE_RESET, 1 << told);
        rig.gpu.write_register(QUEUE_SELECT, 0);
        rig.gpu.write_register(QUEUE_CONTROL, queue_control::DISABLE);
        rig.written = 0;
        rig.enable(0, engine_of(true), RING, true);
        rig.push(&[Command::Work { ns: 10 }]);
        let ends = if told == engine::COPY { 2_010 } else { 1_050 + 65_536 + 10 };
        rig.gpu.tick(2_000);
        assert_eq!(rig.gpu.next_event(), Some(ends), "engine {told}");
    }
}
