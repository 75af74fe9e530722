//! Work that writes a primary which is shown, or about to be, waits: packets in address spaces, packets with lists, hardware queues.

use d3dkmt::{Context, VirtualContext};
use softgpu_spec::private_data::{AllocationRequest, Details, Kind};
use softgpu_umd::{DmaBuffers, ListedCommands, context_data};

use wddm_types::{NtStatus, RawHandle};

use super::*;

fn started(heard: &Heard) -> usize {
    heard.times(|event| matches!(event, Event::PacketStarted { .. })).len()
}

#[test]
fn a_buffer_that_writes_what_is_shown_waits_for_the_flip_that_replaces_it() {
    // spec: memory §5.6, memory §10.1
    // seed: R18
    let (host, heard) = host_of(&profile(), VIRTUAL);
    let mut game = Game::new(&host, 2);
    game.draw(0, 1, 1);
    game.draw(1, 2, 1);
    assert_eq!(started(&heard), 0, "the first one writes what is shown, and the second is behind it");
    let other = Context::create(game.gpu.device(), NodeId(1), context_data(DmaBuffers::Contiguous).to_vec()).unwrap();
    other.flip(game.primaries[1].allocation(), 1).unwrap();
    (0..2).for_each(|_| game.blank());
    let starts = heard.times(|event| matches!(event, Event::PacketStarted { .. }));
    assert_eq!((heard.shown(), starts.first()), (vec![blank_at(&host, 1)], Some(&blank_at(&host, 1))));
    assert_eq!(starts.len(), 1, "the second writes the primary that is shown now");
    host.check_invariants().unwrap();
}

/// Real primaries in the 16 entries of a context with addresses: a written one holds its buffer while it is shown, any other entry
/// holds nothing, brings nothing in and keeps nothing; a primary off the device's list costs the device.
#[test]
fn the_sixteen_entries_track_written_primaries_and_nothing_else() {
    // spec: memory §5.6, memory §5.8, memory §10.1
    // seed: R16, R17, R22
    for profile in [profile(), *Profile::named("wddm2-packets").unwrap(), *Profile::named("mixed-engines").unwrap()] {
        let (host, heard) = host_of(&profile, VIRTUAL);
        let game = Game::new(&host, 2);
        let device = game.gpu.device();
        let context = VirtualContext::create(device, NodeId(0), vec![]).unwrap();
        let [buffer, plain] = [(); 2].map(|()| {
            let surface = game.gpu.create_lockable_surface(Kind::System, 4096, false).unwrap();
            game.gpu.pin(&surface).unwrap();
            surface
        });
        let mut commands = Commands::new();
        commands.fill(plain.va(), 4096, 6);
        buffer.lock().unwrap().write_words(0, commands.words());
        let bytes = commands.words().len() as u32 * 8;
        let submit = |written: Vec<RawHandle>| {
            let queued = context.submit(buffer.va(), bytes, written);
            while host.step() {}
            queued
        };
        let [shown, hidden] = [0, 1].map(|nth: usize| game.primaries[nth].allocation().handle());
        let (name, other) = (profile.name, plain.allocation().handle());
        // A list of sixteen fits: writes to a hidden primary, or to an allocation that is no primary, do not wait.
        submit(vec![hidden; 16]).unwrap();
        submit([vec![other; 15], vec![hidden]].concat()).unwrap();
        assert_eq!(started(&heard), 2, "{name}: nothing that is shown is written");
        let refused = submit(vec![hidden; 17]).unwrap_err();
        assert_eq!(refused.status, NtStatus::INVALID_PARAMETER, "{name}: {refused}");
        // The last of sixteen counts like the first.
        submit([vec![other; 15], vec![shown]].concat()).unwrap();
        submit(vec![]).unwrap();
        assert_eq!(started(&heard), 2, "{name}: one writes what is shown, the other is behind it");
        game.flip(1, 1).unwrap();
        (0..2).for_each(|_| game.blank());
        while host.step() {}
        assert_eq!(started(&heard), 4, "{name}: it is not shown any more");
        // An entry brings nothing in: a primary that only this list names is rejected.
        let away = game.gpu.create_primary(SOURCE, WIDTH, HEIGHT).unwrap();
        let rejected = submit([vec![other; 15], vec![away.allocation().handle()]].concat()).unwrap_err();
        assert_eq!(rejected.status, NtStatus::GRAPHICS_INVALID_ALLOCATION_USAGE, "{name}: {rejected}");
        assert_eq!(device.state().unwrap(), d3dkmt::DeviceState::ErrorDmaFault, "{name}");
        host.check_invariants().unwrap();
    }
}

#[test]
fn lists_of_patched_buffers_say_what_they_write() {
    // spec: memory §5.6, memory §6.1, memory §10.1
    let (host, heard) = host_of(&profile(), VIRTUAL);
    let game = Game::new(&host, 1);
    let details = Details { display_width: WIDTH, display_height: HEIGHT, ..Details::default() };
    let request = AllocationRequest {
        kind: Kind::Local,
        cpu_visible: true,
        cached: false,
        accessed_physically: true,
        size_bytes: game.primaries[0].bytes(),
    };
    let physical = game.gpu.device().create_primary(request.encode_with(&details).to_vec(), SOURCE).unwrap();
    game.gpu.paging().make_resident(vec![physical.handle()], Default::default()).unwrap();
    let context = Context::create(game.gpu.device(), NodeId(1), context_data(DmaBuffers::Contiguous).to_vec()).unwrap();
    context.flip(&physical, 1).unwrap();
    game.blank();
    let mut writes = ListedCommands::new();
    writes.fill((&physical, 0), 4096, 7);
    writes.render(&context).unwrap();
    game.blank();
    assert_eq!((heard.shown().len(), started(&heard)), (1, 0), "it is shown");
    game.flip(0, 1).unwrap();
    game.blank();
    assert_eq!((heard.shown().len(), started(&heard)), (2, 1));
    // A packet that only reads it does not wait.
    context.flip(&physical, 1).unwrap();
    game.blank();
    let mut reads = ListedCommands::new();
    let target = request_of(&game, &request);
    reads.copy((&physical, 0), (&target, 0), 4096);
    reads.render(&context).unwrap();
    game.blank();
    assert_eq!(started(&heard), 2);
}

fn request_of(game: &Game, request: &AllocationRequest) -> Arc<d3dkmt::Allocation> {
    let allocation = game.gpu.device().create_allocation(request.encode().to_vec()).unwrap();
    game.gpu.paging().make_resident(vec![allocation.handle()], Default::default()).unwrap();
    allocation
}

#[test]
fn a_hardware_queue_flips_behind_what_was_submitted_on_it() {
    // spec: memory §5.6, sync §2.11 (PresentToHwQueue), sync §3.17
    for profile in [profile(), queued()] {
        let (host, heard) = host_of(&profile, VIRTUAL);
        let mut game = Game::new(&host, 2);
        game.stream = KernelFedStream::hardware(&game.gpu, NodeId(0), StreamConfig::default()).unwrap();
        // More than two frames: 400,000 bytes in a microsecond.
        let times = 5 * PERIOD / 2 / (game.primaries[1].bytes() * 1000 / 400_000 + 1_050);
        let last = (0..8).map(|_| game.draw(1, 7, times as usize / 8)).last();
        assert_eq!(game.flip(1, 1).unwrap(), 1, "it is queued, and its caller goes on");
        // The work behind the flip writes the primary that is shown until then.
        let behind = game.draw(0, 8, 1);
        let mut drawn = None;
        for blank in 1..6 {
            game.blank();
            let done = game.stream.progress().current() >= last.unwrap();
            drawn = drawn.or(done.then_some(blank));
        }
        assert_eq!((drawn, heard.shown()), (Some(3), vec![blank_at(&host, 3)]), "the first blank behind it");
        assert_eq!(game.stream.progress().current(), behind);
        host.check_invariants().unwrap();
        // A queue that goes takes its flips with it.
        game.draw(1, 9, 1);
        game.flip(0, 1).unwrap();
        game.stream = KernelFedStream::packets(&game.gpu, NodeId(0), StreamConfig::default()).unwrap();
        assert_eq!(heard.dropped(), 1);
        host.check_invariants().unwrap();
    }
}

#[test]
fn a_hardware_queue_is_held_before_a_command_that_writes_what_is_shown() {
    // spec: memory §10.1 row 31
    let (host, heard) = host_of(&profile(), VIRTUAL);
    let game = Game::new(&host, 2);
    let context = game.gpu.device().create_context(NodeId(1)).unwrap();
    let queue = context.create_kernel_queue().unwrap();
    let memory = game.gpu.create_lockable_surface(Kind::System, 4096, false).unwrap();
    game.gpu.pin(&memory).unwrap();
    let progress = queue.progress();
    let mut words = Vec::new();
    for value in 1..=3u64 {
        let mut commands = Commands::new();
        commands.signal(progress, value);
        words.push(commands.words().to_vec());
    }
    let bytes = words[0].len() as u64 * 8;
    memory.lock().unwrap().write_words(0, &words.concat());
    let buffer = |nth: u64| wddm_types::GpuVa(memory.va().0 + nth * bytes);
    let primaries = [0, 1].map(|at: usize| game.primaries[at].allocation().handle());
    queue.submit_writing(buffer(0), bytes as u32, 1, vec![primaries[1]]).unwrap();
    queue.submit_writing(buffer(1), bytes as u32, 2, primaries.to_vec()).unwrap();
    queue.submit(buffer(2), bytes as u32, 3).unwrap();
    while host.step() {}
    assert_eq!(progress.current(), 1, "the first is not shown, the second is, the third is behind it");
    assert_eq!(heard.times(|event| matches!(event, Event::QueueHeldForFlip { .. })).len(), 1);
    // Both are shown or about to be until the display is given back.
    game.flip(1, 1).unwrap();
    (0..2).for_each(|_| game.blank());
    assert_eq!(progress.current(), 1);
    game.gpu.device().own_sources(&[]).unwrap();
    game.gpu.device().wait(&[(progress, 3)]).unwrap();
    host.check_invariants().unwrap();
    // A queue that is held can be destroyed.
    game.gpu.device().own_sources(&[SOURCE]).unwrap();
    game.gpu.device().set_display_mode(game.primaries[0].allocation()).unwrap();
    queue.submit_writing(buffer(0), bytes as u32, 4, vec![primaries[0]]).unwrap();
    drop((queue, context));
    game.gpu.device().own_sources(&[]).unwrap();
    while host.step() {}
    host.check_invariants().unwrap();
}
