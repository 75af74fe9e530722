//! Packet contexts through a sleep of the computer: the aperture that showed their DMA buffers has forgotten them.

use ddi::PowerState;

use super::*;

#[test]
fn dma_buffers_are_seen_again_when_the_computer_wakes() {
    // spec: memory §7.1, memory §8.4
    for mode in [VIRTUAL, Mode::Real] {
        for buffers in [DmaBuffers::Aperture, DmaBuffers::Contiguous] {
            let host = host(mode, 4 * MIB);
            let client = client(&host);
            let context = context(&client, buffers);
            let target = physical(&client, SurfaceKind::System, 4096);
            for (round, state) in [PowerState::Standby, PowerState::Hibernate].into_iter().enumerate() {
                let pattern = round as u32 + 1;
                let mut commands = ListedCommands::new();
                commands.fill((&target, 0), 4096, pattern);
                commands.render(&context).expect("a buffer");
                drain(&client, &context).expect("it runs");
                host.power_transition(state).expect("it falls asleep");
                host.power_transition(PowerState::On).expect("it wakes");
                let mut commands = ListedCommands::new();
                commands.fill((&target, 8), 8, pattern + 10);
                commands.render(&context).expect("the buffer that was kept");
                drain(&client, &context).unwrap_or_else(|lost| panic!("{mode:?} {buffers:?} {state:?}: {lost}"));
                let word = |value: u32| u64::from(value) << 32 | u64::from(value);
                assert_eq!([word(pattern), word(pattern + 10)], [0, 8].map(|at| super::word(&target, at)));
            }
        }
    }
}
