//! Offer and Reclaim in all forms: by allocation and by whole resource, with a fence and without, and when reclaimed content
//! does not fit beside others any more.

use d3dkmt::{
    AllocationRequest, CreateAllocationFlags, EvictFlags, MakeResidentFlags, OfferFlags, OfferList, ReclaimResult,
    Refusal, Residency, ResidencyStatus, Resource, ResourceRequest,
};
use dxgk_host::Mode;
use kmt_calls::{Call, ProcessAccess, Reply, StatisticsCall};
use kmt_link::Link;
use softgpu_spec::private_data::{self, Kind};
use softgpu_umd::{Surface, SurfaceKind, pattern};
use wddm_types::{NtStatus, RawHandle};

use stack::world::{Client, MIB, VIRTUAL, client, host};

fn resource(client: &Client, sizes: &[u64]) -> Resource {
    let request = |size_bytes: &u64| {
        let (kind, size_bytes) = (Kind::Local, *size_bytes);
        let data = private_data::AllocationRequest {
            kind,
            cpu_visible: false,
            cached: false,
            accessed_physically: false,
            size_bytes,
        };
        AllocationRequest { private_data: data.encode().to_vec(), ..AllocationRequest::default() }
    };
    let flags = CreateAllocationFlags::CREATE_RESOURCE;
    let whole = ResourceRequest { flags, ..ResourceRequest::default() };
    Resource::create(client.gpu.device(), sizes.iter().map(request).collect(), whole).expect("backing store")
}

fn list(client: &Client, handles: Vec<RawHandle>) {
    let made = client.gpu.paging().make_resident(handles, MakeResidentFlags::empty()).expect("room");
    wait(client, if let Residency::Pending { paging_fence_value, .. } = made { paging_fence_value } else { 0 });
}

fn wait(client: &Client, value: u64) {
    client.gpu.device().wait(&[(client.gpu.paging().fence(), value)]).expect("it is reached");
}

fn status<T>(result: Result<T, Refusal>) -> NtStatus {
    result.err().expect("it is refused").status
}

#[test]
fn resources_are_offered_and_reclaimed_whole() {
    // spec: memory §5.9, memory §9.2
    let host = host(VIRTUAL, 4 * MIB);
    let client = client(&host);
    let (whole, other) = (resource(&client, &[MIB, MIB / 2]), resource(&client, &[4096]));
    let members: Vec<RawHandle> = whole.allocations().iter().map(|allocation| allocation.handle()).collect();
    list(&client, members.clone());
    let named = || OfferList::Resources(vec![whole.handle(), other.handle()]);
    let (device, paging) = (client.gpu.device(), client.gpu.paging());
    let offer = |list: OfferList| device.offer(list, 1, OfferFlags::empty());
    let twice = OfferList::Resources(vec![whole.handle(); 2]);
    let wrong = OfferList::Resources(members.clone());
    for refused in [twice, wrong, OfferList::Resources(Vec::new()), OfferList::Allocations(Vec::new())] {
        assert_eq!(status(offer(refused.clone())), NtStatus::INVALID_PARAMETER, "{refused:?}");
    }
    offer(named()).expect("they are not offered");
    assert_eq!(status(offer(members.clone().into())), NtStatus::INVALID_PARAMETER, "each of them is offered");
    assert_eq!(paging.reclaim(named()).expect("both").0, [ReclaimResult::Ok; 2], "one answer for each resource");
    offer(named()).expect("they were taken back");
    // Room for three: it is taken from the larger one.
    let room = resource(&client, &[3 * MIB]);
    list(&client, vec![room.allocations()[0].handle()]);
    device.evict(vec![room.allocations()[0].handle()], EvictFlags::empty()).expect("counted");
    let (results, value) = paging.reclaim(named()).expect("both");
    assert_eq!(results, [ReclaimResult::Discarded, ReclaimResult::Ok], "the worst of what a resource has");
    wait(&client, value);
    assert_eq!(status(paging.reclaim(named())), NtStatus::INVALID_PARAMETER, "not offered any more");
}

#[test]
fn the_form_without_a_fence_answers_when_the_gpu_may_use_them() {
    // spec: memory §5.9
    for mode in [VIRTUAL, Mode::Real] {
        let host = host(mode, 4 * MIB);
        let mut client = client(&host);
        let [kept, gone] = [(); 2].map(|()| client.pinned(SurfaceKind::Local, 3 * MIB / 2));
        let report = client.pinned(SurfaceKind::System, 4096);
        client.run(|commands| _ = commands.pattern(kept.va(), MIB, 7).pattern(gone.va(), MIB, 8));
        let both = || vec![kept.allocation().handle(), gone.allocation().handle()];
        let device = client.gpu.device();
        device.offer(vec![kept.allocation().handle()], 3, OfferFlags::empty()).expect("not offered");
        device.offer(vec![gone.allocation().handle()], 1, OfferFlags::empty()).expect("not offered");
        let room = client.gpu.create_surface(SurfaceKind::Local, 2 * MIB).expect("a surface");
        list(&client, vec![room.allocation().handle()]);
        client.gpu.device().evict(vec![room.allocation().handle()], EvictFlags::empty()).expect("counted");
        assert_eq!(client.gpu.device().reclaim(both(), true), Ok(vec![false, true]), "{mode:?}: the lowest went");
        // The client need not wait for a fence.
        client.run(|commands| _ = commands.check(kept.va(), MIB, 7, report.va(), 1));
        assert_eq!(report.lock().expect("system memory").read_word(pattern::report::TAG * 8), 0, "{mode:?}");
        client.gpu.device().offer(both(), 2, OfferFlags::empty()).expect("not offered");
        assert_eq!(client.gpu.device().reclaim(both(), false), Ok(Vec::new()), "{mode:?}: the call did not ask");
        assert_eq!(status(client.gpu.device().reclaim(both(), true)), NtStatus::INVALID_PARAMETER);
    }
}

/// Another process has the pages of a discarded backing store in between: the process that takes the offer back reads none of that process's
/// bytes, by CPU or by GPU.
#[test]
fn a_new_backing_store_shows_no_other_process_s_bytes() {
    // spec: memory §5.9
    for kind in [SurfaceKind::System, SurfaceKind::LocalThenSystem] {
        let host = host(VIRTUAL, 4 * MIB);
        let (mut client, other) = (client(&host), client(&host));
        let [by_cpu, by_gpu] =
            [(); 2].map(|()| client.gpu.create_lockable_surface(kind, MIB, false).expect("a surface"));
        let target = client.pinned(SurfaceKind::System, MIB);
        let both = || vec![by_cpu.allocation().handle(), by_gpu.allocation().handle()];
        client.gpu.device().offer(both(), 1, OfferFlags::ALLOW_DECOMMIT).expect("not offered");
        // The other client takes all free memory, and the offered one.
        let create = || other.gpu.create_surface(SurfaceKind::System, MIB / 2).ok();
        let secrets: Vec<_> = std::iter::from_fn(create).collect();
        for secret in &secrets {
            secret.lock().expect("system memory").fill_words(0, MIB / 16, |_| u64::MAX);
        }
        let (results, value) = client.gpu.paging().reclaim(both()).expect("both are offered");
        assert_eq!(results, [ReclaimResult::NotCommitted; 2], "{kind:?}: no memory is left, and they stay offered");
        wait(&client, value);
        assert_eq!(
            client.gpu.device().reclaim(both(), true),
            Ok(vec![true; 2]),
            "{kind:?}: which this form cannot say"
        );
        assert!(by_cpu.lock().is_err() && by_gpu.lock().is_err(), "{kind:?}: of what is offered nothing is seen");
        drop((secrets, other));
        assert_eq!(client.gpu.device().reclaim(both(), true), Ok(vec![true; 2]), "{kind:?}: both were given up");
        let read = |surface: &Surface| {
            let lock = surface.lock().expect("the CPU reaches it");
            (0..MIB / 8).map(|index| lock.read_word(index * 8)).fold(0, |all, word| all | word)
        };
        assert_eq!(read(&by_cpu), 0, "{kind:?}");
        client.gpu.pin(&by_gpu).expect("room");
        client.run(|commands| _ = commands.copy(by_gpu.va(), target.va(), MIB));
        assert_eq!(read(&target), 0, "{kind:?}");
    }
}

#[test]
fn what_does_not_fit_beside_others_comes_with_a_turn() {
    // spec: memory §5.9, memory §9.2
    for mode in [VIRTUAL, Mode::Real] {
        let host = host(mode, 4 * MIB);
        let (mut humble, proud) = (client(&host), client(&host));
        host.set_process_priority(proud.link.process(), 4);
        let offered = humble.pinned(SurfaceKind::Local, 3 * MIB);
        let other = proud.gpu.create_surface(SurfaceKind::Local, 3 * MIB).expect("a surface");
        let handle = || vec![offered.allocation().handle()];
        for with_fence in [true, false] {
            humble.gpu.device().offer(handle(), 1, OfferFlags::empty()).expect("not offered");
            list(&proud, vec![other.allocation().handle()]);
            if with_fence {
                let paging = humble.gpu.paging();
                let (results, value) = paging.reclaim(handle()).expect("it will have its turn");
                assert_eq!(results, [ReclaimResult::Discarded]);
                assert!(paging.fence().current() < value, "{mode:?}: not beside what is better protected");
            } else {
                assert_eq!(humble.gpu.device().reclaim(handle(), true), Ok(vec![true]), "{mode:?}");
            }
            assert_eq!(offered.allocation().residency(), Ok(ResidencyStatus::NotResident), "{mode:?}");
            proud.gpu.device().evict(vec![other.allocation().handle()], EvictFlags::empty()).expect("counted");
            // It runs when all of its list is there.
            humble.run(|commands| _ = commands.pattern(offered.va(), MIB, 5));
        }
        // With more of its own it can never fit.
        humble.gpu.device().offer(handle(), 1, OfferFlags::empty()).expect("not offered");
        let _more = humble.pinned(SurfaceKind::Local, 2 * MIB);
        assert_eq!(status(humble.gpu.device().reclaim(handle(), true)), NtStatus::NO_MEMORY, "{mode:?}");
    }
}

/// Each process's own: content offered with ALLOW_DECOMMIT that lies in no segment, as long as it has its backing store.
#[test]
fn the_kernel_says_how_much_offered_content_of_a_process_it_can_give_up() {
    // spec: memory §5.9
    let host = host(VIRTUAL, 4 * MIB);
    let (one, other) = (client(&host), client(&host));
    let of = |asks: &Client, process: u64| match asks
        .link
        .call(Call::Statistics(StatisticsCall::QueryProcessOfferInfo { process }))
    {
        Ok(Reply::DecommittableBytes(bytes)) => Ok(bytes),
        Ok(reply) => panic!("{reply:?}"),
        Err(refusal) => Err(refusal.status),
    };
    let (large, small) = (resource(&one, &[MIB, MIB / 2]), resource(&one, &[4096]));
    let resident = resource(&one, &[2 * MIB]);
    list(&one, vec![resident.allocations()[0].handle()]);
    assert_eq!(of(&one, 0), Ok(0), "nothing is offered");
    let offer = |resource: &Resource, how| {
        one.gpu.device().offer(OfferList::Resources(vec![resource.handle()]), 1, how).expect("not offered");
    };
    offer(&small, OfferFlags::empty());
    assert_eq!(of(&one, 0), Ok(0), "its backing store stays");
    offer(&large, OfferFlags::ALLOW_DECOMMIT);
    assert_eq!(of(&one, 0), Ok(3 * MIB / 2));
    offer(&resident, OfferFlags::ALLOW_DECOMMIT);
    assert_eq!(of(&one, 0), Ok(3 * MIB / 2), "it lies in video memory");
    assert_eq!(of(&other, 0), Ok(0), "the other process has offered nothing");
    let held = host.open_process(other.link.process(), one.link.process(), ProcessAccess::QUERY_INFORMATION).unwrap();
    assert_eq!(of(&other, held), Ok(3 * MIB / 2));
    assert_eq!(of(&one, held), Err(NtStatus::INVALID_HANDLE), "it is another process's handle");
    let back = OfferList::Resources(vec![large.handle()]);
    assert_eq!(one.gpu.device().reclaim(back, true), Ok(vec![false]));
    assert_eq!(of(&one, 0), Ok(0));
    host.check_invariants().unwrap();
}
