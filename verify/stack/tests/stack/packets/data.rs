//! Private data that a user-mode driver hands along with a submission: they come to the kernel-mode driver unchanged, as many bytes as it
//! takes (memory §7.1, §7.4).

use std::sync::Arc;

use d3dkmt::{Context, VirtualContext};
use ddi::{PacketScheduling, Render};
use dxgk_host::Host;
use kmt_calls::{Call, PacketCall};
use kmt_link::Link;
use wddm_types::{GpuVa, NtStatus};

use super::*;
use crate::stubborn::{PacketStep, Shared, Whims, host_in};

/// A driver that notes the private data of each Render, and of each submission.
fn watched() -> (Arc<Host>, Shared<Vec<u8>>, Shared<Vec<u8>>) {
    let (rendered, submitted) = (Shared::<Vec<u8>>::default(), Shared::<Vec<u8>>::default());
    let (at_render, at_submission) = (Arc::clone(&rendered), Arc::clone(&submitted));
    let render = move |driver: &mut dyn PacketScheduling, context, render: &mut Render<'_>| {
        let given = &render.dma_buffer.private_data[..render.user_data_bytes as usize];
        at_render.lock().unwrap().push(given.to_vec());
        driver.render(context, render)
    };
    let hand_over = move |step: PacketStep| {
        if !step.patch && !step.flags.contains(ddi::SubmitFlags::PAGING) {
            at_submission.lock().unwrap().push(step.private_data);
        }
    };
    // This driver takes more than an allocation may have.
    let context = |info: &mut ddi::ContextInfo| info.dma_buffer_private_data_bytes = 10_000;
    let whims = Whims {
        packets: true,
        render: Box::new(render),
        hand_over: Box::new(hand_over),
        context: Box::new(context),
        ..Whims::default()
    };
    (host_in(VIRTUAL, 4 * MIB, whims), rendered, submitted)
}

fn data(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| at as u8).collect()
}

#[test]
fn a_submission_by_address_brings_private_data() {
    // spec: memory §7.1, memory §7.4
    let (host, _, submitted) = watched();
    let client = client(&host);
    let context = VirtualContext::create(client.gpu.device(), COPY, vec![]).unwrap();
    let submit = |bytes: usize| {
        let (context, commands, private_data) = (context.handle(), GpuVa(1 << 30), data(bytes));
        let submit = PacketCall::SubmitCommand {
            context,
            commands,
            command_bytes: 8,
            written_primaries: Vec::new(),
            private_data,
        };
        client.link.call(Call::Packet(submit)).map(drop).map_err(|refusal| refusal.status)
    };
    assert_eq!(submit(10_001), Err(NtStatus::INVALID_PARAMETER));
    assert_eq!(submit(10_000), Ok(()));
    while host.step() {}
    assert_eq!(*submitted.lock().unwrap(), [data(10_000)]);
}

#[test]
fn a_rendered_buffer_brings_private_data() {
    // spec: memory §7.1, memory §7.4
    let (host, rendered, submitted) = watched();
    let client = client(&host);
    let context = Context::create(client.gpu.device(), COPY, context_data(DmaBuffers::Aperture).to_vec()).unwrap();
    let render = |bytes: usize| {
        let render = PacketCall::Render {
            context: context.handle(),
            command: vec![0x100],
            allocation_list: Vec::new(),
            patch_location_list: Vec::new(),
            private_data: data(bytes),
        };
        client.link.call(Call::Packet(render)).map(drop).map_err(|refusal| refusal.status)
    };
    assert_eq!(render(10_001), Err(NtStatus::INVALID_PARAMETER));
    for bytes in [7, 0, 9_000] {
        assert_eq!(render(bytes), Ok(()));
        while host.step() {}
    }
    assert_eq!(*rendered.lock().unwrap(), [data(7), data(0), data(9_000)]);
    // With the buffer go all its private data: the user's first.
    let submitted = submitted.lock().unwrap();
    assert_eq!(submitted.len(), 3);
    assert_eq!((submitted[2].len(), &submitted[2][..9_000]), (10_000, &data(9_000)[..]));
}
