//! Memory figures and reservations of another process, by a handle of it (memory §5.5).

use std::sync::Arc;

use d3dkmt::{FenceFlags, NativeFenceRequest, NtHandle, OpenSyncObjectRequest, ProcessAccess, VideoMemoryInfo};
use dxgk_host::{Host, Mode};
use kmt_link::Link;
use softgpu_umd::SurfaceKind;
use wddm_types::{NtStatus, ProcessId};

use stack::world::{Client, MIB, VIRTUAL, client, host};

const QUERY: ProcessAccess = ProcessAccess::QUERY_INFORMATION;
const SET: ProcessAccess = ProcessAccess::SET_INFORMATION;

fn link(of: &Client) -> Arc<dyn Link> {
    Arc::clone(&of.link) as Arc<dyn Link>
}

/// A handle that the host gives one process of another.
fn handle(host: &Host, from: &Client, of: &Client, access: ProcessAccess) -> NtHandle {
    let token = host.open_process(from.link.process(), of.link.process(), access).unwrap();
    NtHandle::adopt(link(from), token)
}

fn own(client: &Client, local: bool) -> VideoMemoryInfo {
    client.gpu.adapter().video_memory_info(local).unwrap()
}

#[test]
fn a_process_sees_and_changes_what_its_handle_of_another_allows() {
    // spec: memory §5.5
    for mode in [VIRTUAL, Mode::Real] {
        let host = host(mode, 8 * MIB);
        let (asks, other) = (client(&host), client(&host));
        let _mine = asks.pinned(SurfaceKind::Local, MIB);
        let _theirs = [other.pinned(SurfaceKind::Local, 3 * MIB), other.pinned(SurfaceKind::System, 64 << 10)];
        let adapter = asks.gpu.adapter();
        let (sees, changes) = (handle(&host, &asks, &other, QUERY), handle(&host, &asks, &other, SET));
        for local in [true, false] {
            assert_eq!(adapter.video_memory_info_of(&sees, local).unwrap(), own(&other, local), "{mode:?} {local}");
            assert_ne!(own(&other, local), own(&asks, local), "{mode:?} {local}: not its own");
        }
        for (local, bytes) in [(true, MIB), (false, 4096)] {
            let before = own(&asks, local).current_reservation_bytes;
            adapter.change_reservation_of(&changes, local, bytes).unwrap();
            assert_eq!(own(&other, local).current_reservation_bytes, bytes, "{mode:?} {local}");
            assert_eq!(own(&asks, local).current_reservation_bytes, before, "{mode:?} {local}: not its own");
        }
        // More than the other has for it.
        let available = own(&other, true).available_for_reservation_bytes;
        let refused = adapter.change_reservation_of(&changes, true, available + 1).unwrap_err();
        assert_eq!(refused.status, NtStatus::INVALID_PARAMETER, "{refused}");
        assert_eq!(own(&other, true).current_reservation_bytes, MIB);
        // One right is not the other.
        let refused = adapter.change_reservation_of(&sees, true, 0).unwrap_err();
        assert_eq!(refused.status, NtStatus::ACCESS_DENIED, "{refused}");
        let refused = adapter.video_memory_info_of(&changes, true).unwrap_err();
        assert_eq!(refused.status, NtStatus::ACCESS_DENIED, "{refused}");
        assert_eq!(own(&other, true).current_reservation_bytes, MIB, "nothing has changed");
        // A handle of itself is a handle like any other.
        let itself = handle(&host, &asks, &asks, QUERY | SET);
        assert_eq!(adapter.video_memory_info_of(&itself, true).unwrap(), own(&asks, true));
        host.check_invariants().unwrap();
    }
}

#[test]
fn a_handle_of_a_process_is_its_holders_alone() {
    // spec: memory §5.5, memory §9.3
    let host = host(VIRTUAL, 8 * MIB);
    let (holder, other, stranger) = (client(&host), client(&host), client(&host));
    let held = handle(&host, &holder, &other, QUERY | SET);
    let status = |of: &Client, token: u64| {
        // Told, not held: dropping it closes nothing of another process.
        let told = NtHandle::adopt(link(of), token);
        let seen = of.gpu.adapter().video_memory_info_of(&told, true).err().map(|refused| refused.status);
        let changed = of.gpu.adapter().change_reservation_of(&told, true, 0).err().map(|refused| refused.status);
        assert_eq!(seen, changed);
        seen
    };
    assert_eq!(status(&stranger, held.token()), Some(NtStatus::INVALID_HANDLE), "being told a handle is not having it");
    assert_eq!(status(&holder, 12345), Some(NtStatus::INVALID_HANDLE));
    // A process handle opens as no object, and an object's handle names no process.
    let refused = |request| holder.gpu.device().open_native_fence(request).err().expect("no fence").status;
    let request = OpenSyncObjectRequest { handle: held.token(), ..OpenSyncObjectRequest::default() };
    assert_eq!(refused(request), NtStatus::INVALID_PARAMETER);
    let flags = FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING;
    let request = NativeFenceRequest { flags, ..NativeFenceRequest::default() };
    let fence = holder.gpu.device().create_native_fence(request).unwrap();
    let name = fence.share(d3dkmt::SyncObjectAccess::ALL_ACCESS).unwrap();
    assert_eq!(
        holder.gpu.adapter().video_memory_info_of(&name, true).unwrap_err().status,
        NtStatus::INVALID_PARAMETER,
        "a fence"
    );
    // The process ends: what was left is the handle.
    let reservation = own(&stranger, true).current_reservation_bytes;
    drop(other);
    let gone = holder.gpu.adapter().video_memory_info_of(&held, true).unwrap_err();
    assert_eq!((gone.status, gone.reason.as_ref()), (NtStatus::INVALID_PARAMETER, "the process has ended"));
    let gone = holder.gpu.adapter().change_reservation_of(&held, true, 0).unwrap_err();
    assert_eq!(gone.status, NtStatus::INVALID_PARAMETER);
    let token = held.token();
    drop(held);
    assert_eq!(status(&holder, token), Some(NtStatus::INVALID_HANDLE), "it is closed");
    assert_eq!(own(&stranger, true).current_reservation_bytes, reservation);
    host.check_invariants().unwrap();
}

#[test]
fn a_process_without_a_device_has_nothing_and_reserves_nothing() {
    // spec: memory §5.5
    let host = host(VIRTUAL, 8 * MIB);
    let asks = client(&host);
    let bare = host.process_created();
    let token = host.open_process(asks.link.process(), bare, QUERY | SET).unwrap();
    let held = NtHandle::adopt(link(&asks), token);
    let seen = asks.gpu.adapter().video_memory_info_of(&held, true).unwrap();
    assert_eq!((seen.current_usage_bytes, seen.current_reservation_bytes), (0, 0));
    asks.gpu.adapter().change_reservation_of(&held, true, 0).expect("it reserves nothing");
    let refused = asks.gpu.adapter().change_reservation_of(&held, true, 1).unwrap_err();
    assert_eq!(refused.status, NtStatus::INVALID_PARAMETER, "{refused}");
    for (from, of, access) in [
        (asks.link.process(), ProcessId(u32::MAX), QUERY),
        (ProcessId(u32::MAX), asks.link.process(), QUERY),
        (asks.link.process(), bare, ProcessAccess::from_bits_retain(1)),
    ] {
        assert_eq!(host.open_process(from, of, access).unwrap_err().status, NtStatus::INVALID_PARAMETER);
    }
    host.process_died(bare);
    host.check_invariants().unwrap();
}
