//! A device, one of its paging queues, or the adapter names a process's address space in calls about addresses.

use kmt_calls::{Call, GpuVaCall, Refusal, Reply};
use kmt_link::Link;
use wddm_types::{GpuVa, NtStatus, RawHandle};

use stack::world::{MIB, VIRTUAL, client, host};

const BYTES: u64 = 65536;

fn reserve(link: &dyn Link, owner: RawHandle) -> Result<GpuVa, Refusal> {
    reserve_from(link, owner, GpuVa::NULL)
}

fn reserve_from(link: &dyn Link, owner: RawHandle, minimum: GpuVa) -> Result<GpuVa, Refusal> {
    let reply = link.call(Call::GpuVa(GpuVaCall::ReserveGpuVirtualAddress {
        device: owner,
        base: GpuVa::NULL,
        minimum,
        maximum: GpuVa::NULL,
        size_bytes: BYTES,
        reservation_type: 0,
        driver_protection: 0,
    }))?;
    match reply {
        Reply::MappedVa { va, .. } => Ok(va),
        other => panic!("{other:?}"),
    }
}

fn free(link: &dyn Link, owner: RawHandle, base: GpuVa) -> Result<Reply, Refusal> {
    link.call(Call::GpuVa(GpuVaCall::FreeGpuVirtualAddress { device: owner, base, size_bytes: BYTES }))
}

#[test]
fn addresses_are_a_process_s_by_every_name() {
    // spec: memory §4.8
    let host = host(VIRTUAL, 4 * MIB);
    let client = client(&host);
    let link = client.link.as_ref();
    let owners =
        [client.gpu.device().handle(), client.gpu.paging().handle(), client.gpu.adapter().handle()].map(|owner| {
            let base = reserve(link, owner).expect("room");
            (owner, base)
        });
    // A call by one of them frees a range that another has reserved: it is one space.
    for (index, (_, base)) in owners.iter().enumerate() {
        free(link, owners[(index + 1) % owners.len()].0, *base).expect("it is reserved");
        assert_eq!(free(link, owners[index].0, *base).unwrap_err().status, NtStatus::INVALID_PARAMETER);
    }
}

#[test]
fn a_process_without_a_device_has_no_addresses() {
    let host = host(VIRTUAL, 4 * MIB);
    let stranger = dxgk_host::ProcessLink::new(std::sync::Arc::clone(&host));
    let adapter = d3dkmt::Adapter::open_first(std::sync::Arc::clone(&stranger) as _).expect("an adapter");
    let refusal = reserve(stranger.as_ref(), adapter.handle()).unwrap_err();
    assert_eq!(refusal.status, NtStatus::INVALID_PARAMETER, "{refusal}");
    let other = client(&host);
    let device = d3dkmt::Device::create(&adapter).expect("a device");
    let reserve_behind = |minimum| reserve_from(stranger.as_ref(), adapter.handle(), minimum);
    let base = reserve_behind(GpuVa(1 << 41)).expect("now it has");
    // The adapter's handle is the process's own: another one's space is not reached by it.
    assert!(free(other.link.as_ref(), other.gpu.adapter().handle(), base).is_err());
    assert_eq!(free(stranger.as_ref(), device.handle(), base), Ok(Reply::Done));
}
