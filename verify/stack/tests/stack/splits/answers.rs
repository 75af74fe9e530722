//! A driver that answers Render against the contract: the adapter stops, its reason names the broken rule, and the kernel refuses later calls.

use ddi::{Render, RenderStatus};
use dxgk_host::{HostConfig, Profile};

use super::*;
use crate::stubborn::{Whims, wrapped};

/// Spoils an answer of the real driver.
type Spoil = fn(&mut Render<'_>) -> Result<(), RenderStatus>;

/// A host with a driver whose answers to Render are spoilt.
fn host_of(mode: Mode, spoil: Spoil) -> Arc<Host> {
    let render = Box::new(move |driver: &mut dyn ddi::PacketScheduling, context, render: &mut Render<'_>| {
        driver.render(context, render)?;
        spoil(render)
    });
    let config = HostConfig {
        vram_bytes: 4 * MIB,
        system_bytes: 64 * MIB,
        wrap_miniport: Some(wrapped(Whims { packets: true, render, ..Whims::default() })),
        ..HostConfig::new(Profile::named("wddm1-banks").expect("a built-in profile"), mode)
    };
    Host::start(config).expect("the host starts")
}

/// Two surfaces in one buffer: two commands, each with an address.
fn two_fills(gpu: &Gpu) -> Result<u32, kmt_calls::Refusal> {
    let context = Context::create(gpu.device(), COMPUTE, Vec::new())?;
    let surfaces = surfaces(gpu, 2, MIB);
    let mut commands = ListedCommands::new();
    for surface in &surfaces {
        commands.fill((surface.allocation(), 0), 4096, 7);
    }
    commands.render(&context)
}

#[test]
fn an_answer_that_breaks_a_rule_stops_the_adapter_with_its_name() {
    // spec: memory §7.1, memory §7.3
    let rows: [(Spoil, &str); 8] = [
        (
            |render| {
                let place = &mut render.patch_locations_out.list[1];
                place.split_offset = place.patch_offset + 8;
                Ok(())
            },
            "a split offset of the driver lies behind the address that it is for",
        ),
        (
            |render| {
                render.patch_locations_out.list[..2].iter_mut().zip([8, 0]).for_each(|(place, at)| {
                    place.split_offset = at;
                    place.patch_offset = 8;
                });
                Ok(())
            },
            "split offsets of the driver fall, or lie outside the buffer",
        ),
        (
            |render| {
                render.patch_locations_out.list[1].split_offset = render.dma_buffer.written as u32 * 8 + 8;
                Ok(())
            },
            "split offsets of the driver fall, or lie outside the buffer",
        ),
        (
            |render| {
                render.patch_locations_out.list[1].slot_id = (1 << 24) - 1;
                Ok(())
            },
            "a patch location of the driver names a slot that MaxAllocationListSlotId excludes",
        ),
        (
            |render| {
                render.patch_locations_out.list[1].allocation_index = render.allocation_list.len() as u32;
                Ok(())
            },
            "a patch location of the driver names an entry that the list has not",
        ),
        (
            |render| {
                render.patch_locations_out.list[1].patch_offset = render.dma_buffer.written as u32 * 8;
                Ok(())
            },
            "a patch location of the driver lies outside the buffer",
        ),
        // One command buffer is exactly one DMA buffer, of the size that the driver asked for.
        (|_| Err(RenderStatus::InsufficientDmaBuffer), "the driver wants a larger DMA buffer than it asked for"),
        (
            |render| {
                render.dma_buffer.written = render.dma_buffer.words.len() + 1;
                Ok(())
            },
            "the driver wrote past its DMA buffer, or nothing",
        ),
    ];
    for (spoil, rule) in rows {
        for mode in [VIRTUAL, Mode::Real] {
            let host = host_of(mode, spoil);
            let [first, other] = [open(&host), open(&host)];
            let refused = two_fills(&first).expect_err("the driver breaks the contract");
            assert_eq!(refused.status, NtStatus::DEVICE_REMOVED, "{refused}");
            assert!(refused.reason.contains(rule), "{mode:?}: {refused} instead of {rule}");
            assert_eq!(host.stopped().as_deref(), Some(rule), "{mode:?}");
            let refused =
                other.device().create_allocation(Vec::new()).map(drop).expect_err("a stopped adapter takes no call");
            assert_eq!(refused.status, NtStatus::DEVICE_REMOVED, "{refused}");
        }
    }
}

#[test]
fn an_answer_that_keeps_the_rules_runs() {
    // spec: memory §7.3
    // The driver's split offsets may be coarser than each command: the kernel then splits the buffer only there.
    let host = host_of(VIRTUAL, |render| {
        let listed = render.patch_locations_out.written;
        render.patch_locations_out.list[..listed].iter_mut().for_each(|place| place.split_offset = 0);
        Ok(())
    });
    let gpu = open(&host);
    two_fills(&gpu).expect("both fit at once");
    assert_eq!(host.stopped(), None);
}
