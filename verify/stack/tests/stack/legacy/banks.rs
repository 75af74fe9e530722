//! Bank hints from a program's private data down to the segment: the driver passes them on, and content lies in the bank that it names.

use std::sync::Arc;

use d3dkmt::MakeResidentFlags;
use ddi::{PreferredBank, SegmentBankPreference};
use dxgk_host::{Host, Mode};
use kmt_calls::{Call, LockCall, Reply};
use kmt_link::Link;
use softgpu_spec::bus::CPU_BAR_BASE;
use softgpu_spec::private_data::{AllocationRequest, Details};
use softgpu_umd::SurfaceKind;
use wddm_types::{CpuPlace, PAGE_BYTES};

use super::{Old, config, old};
use stack::world::{MIB, VIRTUAL};

/// Byte offset in the segment of content with this hint.
fn place(client: &Old, bank: u8, top_down: bool) -> u64 {
    let request = AllocationRequest {
        kind: SurfaceKind::LocalThenSystem,
        cpu_visible: true,
        cached: false,
        accessed_physically: true,
        size_bytes: 4 * PAGE_BYTES,
    };
    let hinted_bank = SegmentBankPreference::of(&[PreferredBank { bank, top_down }]).bits();
    let details = Details { hinted_bank, ..Details::default() };
    let allocation =
        client.gpu.device().create_allocation(request.encode_with(&details).to_vec()).expect("an allocation");
    client.gpu.paging().make_resident(vec![allocation.handle()], MakeResidentFlags::empty()).expect("room");
    let device = client.gpu.device().handle();
    let call = Call::Lock(LockCall::Lock2 { device, allocation: allocation.handle(), flags: 0 });
    let Reply::Mapped(mapped) = client.link.call(call).expect("a lock") else { panic!("a lock answers with memory") };
    let [run] = mapped.runs[..] else { panic!("one piece: {:?}", mapped.runs) };
    assert_eq!(run.place, CpuPlace::Bar);
    client.link.call(Call::Lock(LockCall::Unlock2 { device, allocation: allocation.handle() })).expect("it is locked");
    std::mem::forget(Arc::clone(&allocation));
    run.run.first * PAGE_BYTES - CPU_BAR_BASE
}

/// Four banks of a mebibyte.
#[test]
fn a_hint_of_a_program_leads_to_its_bank() {
    // spec: memory §1.8, memory §2.5, memory §8.1
    // seed: M28
    for mode in [VIRTUAL, Mode::Real] {
        let host = Host::start(config(mode)).expect("the host starts");
        let client = old(&host);
        for (bank, top_down, first) in [
            (3, false, 2 * MIB),
            (2, false, MIB),
            (4, false, 3 * MIB),
            (3, true, 3 * MIB - 4 * PAGE_BYTES),
            (1, false, 0),
        ] {
            assert_eq!(place(&client, bank, top_down), first, "{mode:?}: bank {bank}, from the end {top_down}");
        }
    }
}
