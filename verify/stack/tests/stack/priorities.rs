//! Priorities as processes set them: the values, the rights to them, and their effect on a node.

use d3dkmt::{Context, PRIORITY_ABSOLUTE};
use kmt_calls::Refusal;
use softgpu_umd::SurfaceKind;
use wddm_types::{NodeId, NtStatus};

use crate::preemption::{COMPUTE, changes, client, host, short};
use stack::world::{MIB, VIRTUAL};

fn status(result: Result<(), Refusal>) -> NtStatus {
    result.expect_err("it is refused").status
}

#[test]
fn priorities_of_both_kinds_of_contexts_are_kept_and_have_bounds() {
    // spec: sync §4.2
    let host = stack::world::host(VIRTUAL, 4 * MIB);
    let client = stack::world::client(&host);
    let packets = Context::create(client.gpu.device(), NodeId(0), Vec::new()).unwrap();
    let hardware = client.gpu.device().create_context(NodeId(0)).unwrap();
    macro_rules! check {
        ($context:ident) => {
            assert_eq!(($context.priority(), $context.in_process_priority()), (Ok(0), Ok(0)));
            for wrong in [-8, 8, i32::MIN, i32::MAX, PRIORITY_ABSOLUTE | 32] {
                assert_eq!(status($context.set_priority(wrong)), NtStatus::INVALID_PARAMETER, "{wrong:#x}");
                assert_eq!(status($context.set_in_process_priority(wrong)), NtStatus::INVALID_PARAMETER, "{wrong:#x}");
            }
            $context.set_priority(-7).unwrap();
            $context.set_in_process_priority(7).unwrap();
            assert_eq!(($context.priority(), $context.in_process_priority()), (Ok(-7), Ok(7)));
        };
    }
    check!(packets);
    check!(hardware);
}

#[test]
fn what_is_above_the_ordinary_needs_the_privilege() {
    // spec: sync §4.2
    let host = stack::world::host(VIRTUAL, 4 * MIB);
    let client = stack::world::client(&host);
    let adapter = client.gpu.adapter();
    let packets = Context::create(client.gpu.device(), NodeId(0), Vec::new()).unwrap();
    let hardware = client.gpu.device().create_context(NodeId(0)).unwrap();
    for allowed in [false, true, false] {
        host.allow_raised_priority(client.link.process(), allowed);
        for ordinary in [packets.set_priority(1), hardware.set_priority(1)] {
            ordinary.unwrap();
        }
        for above in [2, 7, PRIORITY_ABSOLUTE, PRIORITY_ABSOLUTE | 31] {
            for context in [packets.set_priority(above), hardware.set_priority(above)] {
                match allowed {
                    true => context.unwrap(),
                    false => assert_eq!(status(context), NtStatus::PRIVILEGE_NOT_HELD, "{above:#x}"),
                }
            }
        }
        for class in [4, 5] {
            let class_before = adapter.priority_class().unwrap();
            match allowed {
                true => adapter.set_priority_class(class).unwrap(),
                false => {
                    assert_eq!(status(adapter.set_priority_class(class)), NtStatus::PRIVILEGE_NOT_HELD);
                    assert_eq!(adapter.priority_class(), Ok(class_before), "and nothing has changed");
                }
            }
        }
        assert_eq!(status(adapter.set_priority_class(6)), NtStatus::INVALID_PARAMETER);
        // A process keeps priorities that it set while it had the right.
        let kept = if allowed { PRIORITY_ABSOLUTE | 31 } else { hardware.priority().unwrap() };
        assert_eq!((packets.priority(), hardware.priority()), (Ok(kept), Ok(kept)));
    }
    // To go down again it needs none.
    packets.set_priority(0).unwrap();
    adapter.set_priority_class(2).unwrap();
    assert_eq!((packets.priority(), adapter.priority_class()), (Ok(0), Ok(2)));
}

/// The packet that is done first: of an ordinary process that has the node, or of another that comes to it.
#[test]
fn a_context_above_the_ordinary_takes_the_node_and_one_below_waits() {
    // spec: sync §4.2, sync §4.3
    let first = |first_class: u32, first_priority: i32, class: u32, priority: i32| {
        let (host, heard) = host(VIRTUAL);
        let (humble, proud) = (client(&host), client(&host));
        let (low, high) = (humble.context(COMPUTE), proud.context(COMPUTE));
        for (client, context, class, priority) in
            [(&humble, &low, first_class, first_priority), (&proud, &high, class, priority)]
        {
            host.allow_raised_priority(client.link.process(), true);
            client.gpu.adapter().set_priority_class(class).unwrap();
            context.set_priority(priority).unwrap();
        }
        let (one, other) = (humble.memory(SurfaceKind::System, MIB), proud.memory(SurfaceKind::System, 4096));
        humble.drain(&low);
        proud.drain(&high);
        heard.take_timed();
        changes(&one, MIB, 20).render(&low).unwrap();
        changes(&other, 4096, 1).render(&high).unwrap();
        humble.drain(&low);
        proud.drain(&high);
        let said = short(&heard.take_timed(), &[(1, 'l'), (2, 'h')]);
        said.into_iter().find(|what| what.ends_with('.')).unwrap()
    };
    let realtime = |level| PRIORITY_ABSOLUTE | level;
    #[rustfmt::skip]
    let table = [
        // running first       coming second        done first
        (2, 0,                 2, 0,                "l1."),
        (2, 0,                 3, 0,                "l1."),
        (2, 0,                 2, 1,                "l1."),
        (2, 0,                 2, 2,                "h1."),
        (2, 0,                 4, 0,                "h1."),
        (2, -1,                2, 0,                "h1."),
        (2, -1,                1, 0,                "h1."),
        (4, 0,                 2, 7,                "l1."),
        (4, 0,                 2, realtime(0),      "h1."),
        (5, 0,                 2, realtime(15),     "l1."),
        (5, 0,                 0, realtime(16),     "h1."),
        (2, realtime(31),      2, realtime(30),     "l1."),
    ];
    for (first_class, first_priority, class, priority, done) in table {
        let done_first = first(first_class, first_priority, class, priority);
        assert_eq!(done_first, done, "{first_class} {first_priority:#x} against {class} {priority:#x}");
    }
}
