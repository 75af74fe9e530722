//! Lists, contexts and flags that break a rule: refused, and nothing has changed.

use d3dkmt::{AllocationListFlags, AllocationListItem, DeviceState, PatchLocationItem, VirtualContext};
use kmt_calls::{Call, PacketCall};
use kmt_link::Link;
use softgpu_spec::private_data::AllocationRequest;
use softgpu_umd::{DmaBuffers, ListedCommands, SurfaceKind};
use wddm_types::{NodeId, NtStatus, RawHandle};

use super::{COPY, context, drain, physical, word};
use stack::world::{MIB, VIRTUAL, client, host};

#[test]
fn hostile_lists_are_refused_and_change_nothing() {
    // spec: memory §7.2, memory §7.3, memory §9.2, memory §9.3
    let host = host(VIRTUAL, 4 * MIB);
    let client = client(&host);
    let other_device = d3dkmt::Device::create(client.gpu.adapter()).unwrap();
    let request = AllocationRequest {
        kind: SurfaceKind::System,
        cpu_visible: true,
        cached: false,
        accessed_physically: true,
        size_bytes: 4096,
    };
    let foreign = other_device.create_allocation(request.encode().to_vec()).unwrap();
    let context = context(&client, DmaBuffers::Aperture);
    let target = physical(&client, SurfaceKind::System, 4096);
    let mut good = ListedCommands::new();
    good.fill((&target, 0), 4096, 2).fill((&target, 8), 8, 3);
    let item = |allocation, bits| AllocationListItem { allocation, flags: AllocationListFlags::from_bits_retain(bits) };
    let room = context.sizes().allocation_list_entries as usize;
    type Change = Box<dyn Fn(&mut ListedCommands)>;
    let place = |change: fn(&mut PatchLocationItem)| -> Change { Box::new(move |bad| change(&mut bad.places[0])) };
    let invalid = NtStatus::INVALID_PARAMETER;
    let (foreign_handle, target_handle) = (foreign.handle(), target.handle());
    let device_handle = client.gpu.device().handle();
    let cases: Vec<(&str, NtStatus, Change)> = vec![
        ("an index out of range", invalid, place(|p| p.allocation_index = 2)),
        ("an index far out of range", invalid, place(|p| p.allocation_index = u32::MAX)),
        ("reserved bits of a slot", invalid, place(|p| p.slot_id = 1 << 24)),
        ("a slot that there is not", invalid, place(|p| p.slot_id = 256)),
        ("an address outside the buffer", invalid, place(|p| p.patch_offset = 48)),
        ("an address far outside", invalid, place(|p| p.patch_offset = u32::MAX)),
        ("a split outside the buffer", invalid, place(|p| p.split_offset = 49)),
        ("splits that fall", invalid, place(|p| p.split_offset = 40)),
        ("an offset beyond the allocation", invalid, place(|p| p.allocation_offset = 4096)),
        ("a range beyond the allocation", invalid, place(|p| p.allocation_offset = 8)),
        ("an address in a NULL element", NtStatus::INVALID_USER_BUFFER, place(|p| p.allocation_index = 0)),
        ("an address between two words", NtStatus::INVALID_USER_BUFFER, place(|p| p.patch_offset = 9)),
        ("no patch locations", NtStatus::INVALID_USER_BUFFER, Box::new(|bad| bad.places.clear())),
        ("patch locations of no commands", invalid, Box::new(|bad| bad.words.clear())),
        ("too many commands", invalid, Box::new(|bad| bad.words = vec![0x100; 1 << 16])),
        ("words that are none", NtStatus::ILLEGAL_INSTRUCTION, Box::new(|bad| bad.words[0] = 0x7f | 1 << 8)),
        (
            "a page-table write",
            NtStatus::PRIVILEGED_INSTRUCTION,
            Box::new(|bad| bad.words = vec![0x83 | 5 << 8, 0, 0, 0, 0, 0x100]),
        ),
        ("a cut command", NtStatus::INVALID_USER_BUFFER, Box::new(|bad| bad.words.truncate(5))),
        ("a write to what is read", invalid, Box::new(move |bad| bad.allocations[1] = item(target_handle, 0))),
        ("reserved flags", invalid, Box::new(move |bad| bad.allocations[1] = item(target_handle, 1 | 1 << 5))),
        ("an offer in a list", invalid, Box::new(move |bad| bad.allocations[1] = item(target_handle, 1 | 1 << 2))),
        ("a handle of another kind", invalid, Box::new(move |bad| bad.allocations[1] = item(device_handle, 1))),
        ("no handle", invalid, Box::new(move |bad| bad.allocations[1] = item(RawHandle(u32::MAX), 1))),
        (
            "another device's allocation",
            NtStatus::GRAPHICS_WRONG_ALLOCATION_DEVICE,
            Box::new(move |bad| bad.allocations[1] = item(foreign_handle, 1)),
        ),
        (
            "a list that is too long",
            invalid,
            Box::new(move |bad| bad.allocations.resize(room + 1, item(target_handle, 1))),
        ),
        ("too many patch locations", invalid, Box::new(move |bad| bad.places.resize(room + 1, bad.places[1]))),
    ];
    for (name, status, change) in cases {
        let mut bad = good.clone();
        change(&mut bad);
        let refused = bad.render(&context).expect_err(name);
        assert_eq!(refused.status, status, "{name}: {refused}");
        assert_eq!(client.gpu.device().state().unwrap(), DeviceState::Active, "{name}");
    }
    assert_eq!(word(&target, 0), 0, "nothing of it ran");
    let mut nothing = good.clone();
    (nothing.words, nothing.places) = (Vec::new(), Vec::new());
    assert_eq!(nothing.render(&context).expect("a swap of buffers"), 0, "nothing is queued");
    // NULL elements unbind their slots; there is nothing to patch in them.
    let mut unbound = good.clone();
    let null =
        PatchLocationItem { allocation_index: 0, slot_id: 1, patch_offset: 41, split_offset: 24, ..Default::default() };
    unbound.places.insert(1, null);
    unbound.places.push(null);
    unbound.render(&context).expect("an unbind");
    drain(&client, &context).unwrap();
    assert_eq!([0, 8].map(|at| word(&target, at)), [2 << 32 | 2, 3 << 32 | 3]);
}

#[test]
fn wrong_contexts_and_flags_are_refused() {
    // spec: memory §5.6, sync §2.5
    // seed: R12, R16, R23
    let host = host(VIRTUAL, 4 * MIB);
    let client = client(&host);
    let device = client.gpu.device();
    let flags = kmt_calls::ContextFlags::empty();
    let create = |node, engine_affinity, flags, private_data| {
        Call::Packet(PacketCall::CreateContext {
            device: device.handle(),
            node: NodeId(node),
            engine_affinity,
            flags,
            private_data,
        })
    };
    let retained = kmt_calls::ContextFlags::from_bits_retain;
    let refused = [
        (create(7, 1, flags, vec![]), NtStatus::INVALID_PARAMETER),
        (create(1, 2, flags, vec![]), NtStatus::INVALID_PARAMETER),
        (create(1, 3, flags, vec![]), NtStatus::INVALID_PARAMETER),
        (create(1, 1, retained(1 << 9), vec![]), NtStatus::INVALID_PARAMETER),
        (create(1, 1, retained(1 << 1), vec![]), NtStatus::INVALID_PARAMETER),
        (create(1, 1, retained(1 << 4), vec![]), NtStatus::NOT_SUPPORTED),
        (create(1, 1, flags, vec![1, 2, 3]), NtStatus::INVALID_PARAMETER),
    ];
    for (call, status) in refused {
        assert_eq!(client.link.call(call.clone()).expect_err("refused").status, status, "{call:?}");
    }
    let listed = context(&client, DmaBuffers::Aperture);
    let virtual_context = VirtualContext::create(device, COPY, vec![]).unwrap();
    let hardware = device.create_context(COPY).unwrap();
    let hardware_queue = hardware.create_kernel_queue().unwrap();
    let render = |context| {
        Call::Packet(PacketCall::Render {
            context,
            command: vec![0x100],
            allocation_list: vec![],
            patch_location_list: vec![],
            private_data: Vec::new(),
        })
    };
    let (commands, written_primaries) = (wddm_types::GpuVa(4096), vec![]);
    let submit = Call::Packet(PacketCall::SubmitCommand {
        context: listed.handle(),
        commands,
        command_bytes: 8,
        written_primaries,
        private_data: Vec::new(),
    });
    let hardware_handle = hardware_queue.handle();
    for call in [render(virtual_context.handle()), render(hardware_handle), render(RawHandle::NONE), submit] {
        let refused = client.link.call(call.clone()).expect_err("lists belong to contexts that are patched");
        assert_eq!(refused.status, NtStatus::INVALID_PARAMETER, "{call:?}");
    }
    client.link.call(render(listed.handle())).expect("a buffer that names nothing");
    drain(&client, &listed).unwrap();
    assert_eq!(device.state().unwrap(), DeviceState::Active);
}
