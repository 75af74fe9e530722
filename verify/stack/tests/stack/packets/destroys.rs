//! AssumeNotInUse beside buffers with lists: those that name the allocation are waited for, and no others.

use std::sync::Arc;

use d3dkmt::{
    AllocationRequest as Requested, CreateAllocationFlags, DestroyFlags, MakeResidentFlags, Resource, ResourceRequest,
};
use dxgk_host::Host;
use softgpu_spec::private_data::AllocationRequest;
use softgpu_umd::{DmaBuffers, ListedCommands, SurfaceKind};

use super::{context, drain, fence, physical};
use crate::stubborn::{Shared, Step, Whims, host_with};
use stack::world::{Client, MIB, client};

const NOW: DestroyFlags = DestroyFlags::ASSUME_NOT_IN_USE;

fn recorded() -> (Arc<Host>, Shared<Step>) {
    let steps: Shared<Step> = Arc::default();
    let heard = Arc::clone(&steps);
    let hear = Box::new(move |step| heard.lock().expect("a test").push(step));
    (host_with(8 * MIB, Whims { hear, packets: true, ..Whims::default() }), steps)
}

fn destroyed(steps: &Shared<Step>) -> usize {
    steps.lock().expect("a test").iter().filter(|step| matches!(step, Step::Destroy(..))).count()
}

fn resource(client: &Client) -> Resource {
    let request = AllocationRequest {
        kind: SurfaceKind::Local,
        cpu_visible: false,
        cached: false,
        accessed_physically: true,
        size_bytes: 4096,
    };
    let requests = vec![Requested { private_data: request.encode().to_vec(), ..Requested::default() }; 2];
    let call = ResourceRequest { flags: CreateAllocationFlags::CREATE_RESOURCE, ..ResourceRequest::default() };
    let resource = Resource::create(client.gpu.device(), requests, call).expect("a resource");
    let handles = resource.allocations().iter().map(|allocation| allocation.handle()).collect();
    client.gpu.paging().make_resident(handles, MakeResidentFlags::empty()).expect("room");
    resource
}

#[test]
fn only_lists_that_name_an_allocation_hold_up_its_end() {
    // spec: memory §6.2
    // seed: U04
    let (host, steps) = recorded();
    let client = client(&host);
    let context = context(&client, DmaBuffers::Aperture);
    let (named, other) = (physical(&client, SurfaceKind::Local, 4096), physical(&client, SurfaceKind::Local, 4096));
    let (listed, unlisted) = (resource(&client), resource(&client));
    let go = fence(&client);
    context.wait(&go, 1).expect("a wait");
    let mut commands = ListedCommands::new();
    commands.fill((&named, 0), 4096, 1).fill((&listed.allocations()[1], 0), 4096, 2);
    commands.render(&context).expect("a buffer that waits");
    let before = destroyed(&steps);
    // Neither form waits for a buffer that names something else.
    other.destroy(NOW | DestroyFlags::SYNCHRONOUS_DESTROY).expect("its own");
    assert_eq!(destroyed(&steps), before + 1, "it did not wait for a buffer that does not name it");
    unlisted.destroy(NOW | DestroyFlags::SYNCHRONOUS_DESTROY).expect("its own");
    assert_eq!(destroyed(&steps), before + 2, "the resource form");
    // Without the flag everything queued is waited for.
    let third = physical(&client, SurfaceKind::Local, 4096);
    third.destroy(DestroyFlags::empty()).expect("its own");
    // Those that the buffer names are waited for, whatever the caller says: it holds their addresses.
    named.destroy(NOW).expect("its own");
    listed.destroy(NOW).expect("its own");
    let fresh = physical(&client, SurfaceKind::Local, 4096);
    assert_eq!(destroyed(&steps), before + 2, "all three stay until it has run");
    client.gpu.device().signal(&go, 1).expect("the GPU goes on");
    drain(&client, &context).expect("nothing that it names has gone");
    drop(fresh);
    physical(&client, SurfaceKind::Local, 4096);
    assert!(destroyed(&steps) >= before + 5, "they went behind it");
    host.check_invariants().expect("in order");
}
