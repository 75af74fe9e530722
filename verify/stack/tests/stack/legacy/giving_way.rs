//! Buffers of a device that gives way: what they name comes back with turns of the device, to other places, and for one buffer after the other.

use std::sync::Arc;

use d3dkmt::{Allocation, Context, DestroyFlags, EvictFlags};
use dxgk_host::Host;
use softgpu_umd::{ListedCommands, SurfaceKind};

use super::rendering::surface_of;
use super::{COPY, ENTIRE, Old, config, old};
use stack::world::{MIB, VIRTUAL};

/// A buffer waits for a fence of its client, and content that it names lies where another process needs room: the device gives way, and with its
/// turn the buffer finds the content where it is then.
#[test]
fn a_buffer_whose_device_gives_way_finds_what_it_names_in_its_new_place() {
    // spec: memory §7.4, memory §8.6, memory §10.1
    let host = Host::start(config(VIRTUAL)).expect("the host starts");
    let [holder, other] = [old(&host), old(&host)];
    let target = surface_of(&holder, SurfaceKind::Local, 0, 2 * MIB);
    let taker = surface_of(&other, SurfaceKind::Local, 0, 3 * MIB);
    let before = surface_of(&holder, SurfaceKind::Local, 0, MIB);
    holder.list(&before);
    let go = holder.fence();
    holder.context.wait(&go, 1).expect("a wait");
    let mut commands = ListedCommands::new();
    commands.fill((&target, 0), 2 * MIB, 5);
    commands.render(&holder.context).expect("a buffer");
    before.destroy(DestroyFlags::empty()).expect("nothing uses it");
    other.list(&taker);
    other.run(|commands| _ = commands.fill((&taker, 0), 3 * MIB, 9));
    // The other process has nothing to run from now on.
    holder.gpu.device().signal(&go, 1).expect("the GPU goes on");
    let small = holder.surface(0, 0);
    holder.run(|commands| _ = commands.fill((&small, 0), 8, 1));
    host.check_invariants().expect("the kernel's invariants hold");
    for (of, bytes, colour) in [(&target, 2 * MIB, 5), (&taker, 3 * MIB, 9)] {
        let lock = of.lock_legacy(Vec::new(), ENTIRE).expect("a lock");
        let wrong = (0..bytes / 8).filter(|at| lock.read_word(at * 8) != colour << 32 | colour);
        assert_eq!(wrong.count(), 0, "words of colour {colour}");
    }
}

/// Buffers behind a fence of their client, or the portions of one buffer, need more memory together than there is, each of them fits: their device
/// gives way to another process, and has the content of each with a turn of its own. A buffer that comes meanwhile is queued behind them.
#[test]
fn buffers_that_do_not_fit_together_hold_no_other_process() {
    // spec: memory §7.3, memory §7.4, memory §8.6, memory §10.1
    for in_portions in [false, true] {
        let host = Host::start(config(VIRTUAL)).expect("the host starts");
        let [holder, other] = [old(&host), old(&host)];
        let local = |client: &Old, bytes| surface_of(client, SurfaceKind::Local, 0, bytes);
        let surfaces = [5, 5, 5, 2].map(|halves| (local(&holder, halves * MIB / 2), halves * MIB / 2));
        let go = holder.fence();
        holder.context.wait(&go, 1).expect("a wait");
        let mut commands = ListedCommands::new();
        for (nth, (surface, bytes)) in surfaces.iter().enumerate() {
            if nth == 2 {
                let (began, theirs) = (host.now_ns(), local(&other, 2 * MIB));
                other.list(&theirs);
                other.run(|commands| _ = commands.fill((&theirs, 0), 2 * MIB, 9));
                assert!(host.now_ns() - began < 185_000_000, "{in_portions}: {} ns", host.now_ns() - began);
            }
            // CAST: there are four.
            commands.fill((surface, 0), *bytes, nth as u32 + 1);
            if !in_portions || nth > 0 {
                std::mem::replace(&mut commands, ListedCommands::new()).render(&holder.context).expect("a buffer");
            }
        }
        host.check_invariants().expect("the kernel's invariants hold");
        holder.gpu.device().signal(&go, 1).expect("the GPU goes on");
        for (colour, (surface, bytes)) in (1..).zip(&surfaces) {
            let lock = surface.lock_legacy(Vec::new(), ENTIRE).expect("a lock");
            let wrong = (0..bytes / 8).filter(|at| lock.read_word(at * 8) != colour << 32 | colour);
            assert_eq!(wrong.count(), 0, "{in_portions}: words of colour {colour}");
        }
        host.check_invariants().expect("the kernel's invariants hold");
    }
}

/// Content that a device withholds may lie in memory still, where any other process takes it: a buffer that needs it waits for the turn that
/// brings it, although its own context is free.
#[test]
fn a_buffer_does_not_start_with_content_that_its_device_withholds() {
    // spec: memory §7.4, memory §8.6, memory §10.1
    for comes_late in [false, true] {
        let host = Host::start(config(VIRTUAL)).expect("the host starts");
        let [holder, other] = [old(&host), old(&host)];
        let local = |client: &Old, bytes| surface_of(client, SurfaceKind::Local, 0, bytes);
        let [one, two] = [5, 5].map(|halves| local(&holder, halves * MIB / 2));
        let (three, theirs, crowd) = (local(&holder, MIB), local(&other, MIB / 2), local(&other, MIB));
        let free = Context::create(holder.gpu.device(), COPY, Vec::new()).expect("a context");
        let long = || {
            let mut commands = ListedCommands::new();
            (0..12).for_each(|_| _ = commands.work(5_000_000));
            commands.fill((&three, 0), MIB, 7).render(&free).expect("a buffer");
        };
        let fill = |surface: &Arc<Allocation>, bytes| {
            other.list(surface);
            other.run(|commands| _ = commands.fill((surface, 0), bytes, 9));
        };
        if comes_late {
            holder.list(&three);
        }
        let go = holder.fence();
        holder.context.wait(&go, 1).expect("a wait");
        for surface in [&one, &two] {
            ListedCommands::new().fill((surface, 0), 5 * MIB / 2, 5).render(&holder.context).expect("a buffer");
        }
        if !comes_late {
            long();
        }
        fill(&theirs, MIB / 2);
        let let_run = || {
            let then = host.now_ns() + 60_000_000;
            while host.now_ns() < then && host.step() {}
        };
        // The holder's device has its turn with the first content.
        let_run();
        if comes_late {
            let lazily = EvictFlags::EVICT_ONLY_IF_NECESSARY;
            holder.unlist(&three, lazily);
            long();
        }
        fill(&crowd, MIB);
        let_run();
        holder.gpu.device().signal(&go, 1).expect("the GPU goes on");
        for (surface, bytes, colour) in
            [(&one, 5 * MIB / 2, 5), (&three, MIB, 7), (&theirs, MIB / 2, 9), (&crowd, MIB, 9)]
        {
            let lock = surface.lock_legacy(Vec::new(), ENTIRE).expect("a lock");
            let wrong = (0..bytes / 8).filter(|at| lock.read_word(at * 8) != colour << 32 | colour);
            assert_eq!(wrong.count(), 0, "{comes_late}: words of colour {colour}");
        }
        host.check_invariants().expect("the kernel's invariants hold");
    }
}
