//! A resource that only NT handles keep: its driver's objects, its content under pressure, its maker's committed memory, and its end while
//! queued work may still use it.

use dxgk_host::{AccountId, Admission, Quota};
use kmt_calls::ShareCall;

use super::*;

const BY_NT_HANDLE: CreateAllocationFlags = SHARED.union(CreateAllocationFlags::NT_SECURITY_SHARING);

fn close(link: &dyn Link, name: ShareName) {
    let ShareName::NtHandle(handle) = name else { panic!("an NT handle") };
    assert_eq!(link.call(Call::Share(ShareCall::CloseNtHandle { handle })), Ok(Reply::Done));
}

fn make(client: &Client) -> Resource {
    let members = vec![request(Kind::LocalThenSystem, MIB), request(Kind::System, 4096)];
    Resource::create(client.gpu.device(), members, resource(BY_NT_HANDLE)).expect("there is memory")
}

// spec: memory §2.7, sync §2.2
#[test]
fn the_last_name_ends_what_no_device_has() {
    let (host, steps) = recorded();
    let (mut maker, mut other) = (client(&host), client(&host));
    let ended = || -> Vec<_> {
        let steps = steps.lock().expect("a test");
        let ended = steps.iter().filter_map(|step| match step {
            Step::Destroy(allocations, how) => Some((allocations.len(), *how)),
            _ => None,
        });
        ended.filter(|(count, _)| *count == 2).collect()
    };
    let made = make(&maker);
    let seed = pattern::seed(3, 3);
    let va = pin(&maker, &made.allocations()[0], MIB / PAGE_BYTES);
    maker.run(|commands| {
        commands.pattern(va, MIB, seed);
    });
    let (first, second) = (made.share().unwrap(), made.share().unwrap());
    made.destroy(DestroyFlags::SYNCHRONOUS_DESTROY).unwrap();
    host.check_invariants().unwrap();
    // Others need the memory: the kernel evicts content that only a name keeps, like all content that no device lists.
    let all = other.pinned(SurfaceKind::Local, 7 * MIB);
    host.check_invariants().unwrap();
    drop(all);
    for _ in 0..2 {
        let opened = Resource::open(other.gpu.device(), first).expect("a name keeps it");
        assert_eq!(opened.allocations().len(), 2);
        let there = pin(&other, &opened.allocations()[0], MIB / PAGE_BYTES);
        let report = other.pinned(SurfaceKind::System, 4096);
        other.run(|commands| {
            commands.check(there, MIB, seed, report.va(), 1);
        });
        assert_eq!(report.lock().unwrap().read_word(0), 0, "the same bytes");
        opened.destroy(DestroyFlags::SYNCHRONOUS_DESTROY).unwrap();
        host.check_invariants().unwrap();
    }
    close(&*maker.link, first);
    let again = Resource::open(other.gpu.device(), second).expect("the other name keeps it");
    again.destroy(DestroyFlags::SYNCHRONOUS_DESTROY).unwrap();
    assert_eq!(ended(), []);
    close(&*maker.link, second);
    other.pinned(SurfaceKind::Local, 4096);
    assert_eq!(ended(), [(2, DestroyAllocationFlags::DESTROY_RESOURCE)]);
    host.check_invariants().unwrap();
}

// spec: memory §6.2, sync §2.2
#[test]
fn a_name_that_goes_while_work_is_queued_leaves_the_rest_to_that() {
    let (host, steps) = recorded();
    let mut maker = client(&host);
    let other = client(&host);
    let ended = |steps: &Shared<Step>| {
        steps
            .lock()
            .expect("a test")
            .iter()
            .filter(|step| matches!(step, Step::Destroy(list, _) if list.len() == 2))
            .count()
    };
    for opened_meanwhile in [false, true] {
        let before = ended(&steps);
        let made = make(&maker);
        let name = made.share().unwrap();
        let surface = maker.pinned(SurfaceKind::Local, 4 * MIB);
        let mut commands = softgpu_umd::Commands::new();
        (0..64).for_each(|_| {
            commands.touch(surface.va(), 4 * MIB, true);
        });
        let value = maker.stream.submit(&maker.gpu, &[], &commands).unwrap();
        made.destroy(DestroyFlags::empty()).unwrap();
        let opened = opened_meanwhile.then(|| Resource::open(other.gpu.device(), name).expect("a name keeps it"));
        host.check_invariants().unwrap();
        close(&*maker.link, name);
        host.check_invariants().unwrap();
        assert!(maker.stream.progress().current() < value, "the work is queued still");
        maker.stream.wait(&maker.gpu, value).unwrap();
        maker.pinned(SurfaceKind::Local, 4096);
        assert_eq!(ended(&steps) - before, usize::from(!opened_meanwhile));
        drop(opened);
        other.pinned(SurfaceKind::Local, 4096);
        assert_eq!(ended(&steps) - before, 1);
        host.check_invariants().unwrap();
    }
}

/// A process that destroys a resource which a handle of its own still keeps has not freed the committed memory.
// spec: memory §9.2, sync §2.2
#[test]
fn what_a_name_keeps_is_committed_still() {
    let host = host(VIRTUAL, 8 * MIB);
    let quota = Quota { committed_bytes: MIB, ..Quota::NONE };
    let admission = Admission { account: AccountId(3), process: quota, together: Quota::NONE };
    let link = ProcessLink::admitted(Arc::clone(&host), admission);
    let gpu = Gpu::open(Arc::clone(&link) as Arc<dyn Link>).expect("the adapter opens");
    let make = || Resource::create(gpu.device(), vec![request(Kind::System, MIB)], resource(BY_NT_HANDLE));
    let made = make().unwrap();
    let name = made.share().unwrap();
    made.destroy(DestroyFlags::SYNCHRONOUS_DESTROY).unwrap();
    assert_eq!(status(make().map(drop)), NtStatus::NO_MEMORY);
    close(&*link, name);
    make().expect("it is free again");
    host.check_invariants().unwrap();
}
