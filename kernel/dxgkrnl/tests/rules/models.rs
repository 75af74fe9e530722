//! Which models of GPU virtual addresses an adapter may report, alone and together.

use std::sync::{Arc, Mutex};

use ddi::*;
use dxgkrnl::{IoMmu, Platform};
use wddm_types::{CpuVa, PageRun, Pages, Pasid, SegmentId};

use super::{expect_error, first_generation};
use crate::start_behind;
use crate::stub::Answers;

/// Takes packets, and has neither addresses of its own nor what needs them: nothing but its capabilities is in the way.
fn without_tables(memory: VidMmCaps) -> Answers {
    Answers {
        caps: AdapterCaps { memory, ..Default::default() },
        has_gpu_va: false,
        has_hardware_queues: false,
        has_packets: true,
        native_cap: false,
        native_facet: false,
        ..Answers::default()
    }
}

/// An adapter of the IoMmu model as it should be: behind it there is system memory only.
fn behind_the_iommu() -> Answers {
    let memory = VidMmCaps::VIRTUAL_ADDRESSING_SUPPORTED | VidMmCaps::IO_MMU_SUPPORTED;
    let usual = Answers::default();
    Answers {
        caps: AdapterCaps { memory, ..Default::default() },
        has_gpu_va: false,
        segments: usual.segments[1..].to_vec(),
        paging_buffer: PagingBufferInfo { segment: SegmentId(1), ..usual.paging_buffer },
        ..usual
    }
}

/// An IOMMU that remembers what it was asked to map.
#[derive(Debug, Default)]
struct Mapped(Mutex<Vec<(Pasid, PageRun, bool)>>);

/// A computer with that IOMMU.
#[derive(Debug)]
struct Shares(Arc<Mapped>);

impl Platform for Shares {
    fn io_mmu(&self) -> Option<&dyn IoMmu> {
        Some(&*self.0)
    }
}

impl IoMmu for Mapped {
    fn map(&self, pasid: Pasid, first: CpuVa, run: PageRun, writable: bool) {
        assert!(!first.is_null());
        self.0.lock().unwrap().push((pasid, run, writable));
    }
    fn unmap(&self, _pasid: Pasid, _first: CpuVa, _count: Pages) {}
    fn invalidate(&self, _pasid: Pasid, _first: CpuVa, _last: CpuVa) {}
    fn release(&self, _pasid: Pasid) {}
}

fn start_with_iommu(answers: Answers) -> (Result<(), String>, Arc<Mapped>, Vec<Option<Pasid>>) {
    let mapped = Arc::new(Mapped::default());
    let (result, seen) = start_behind(answers, vec![], Shares(Arc::clone(&mapped)));
    let seen = seen.lock().unwrap();
    assert_eq!(seen.started - seen.stopped, u32::from(result.is_ok()), "a start that fails stops the device");
    (result.map_err(|error| error.to_string()), mapped, seen.pasids.clone())
}

#[test]
fn an_adapter_that_shares_the_cpu_s_page_tables_is_told_its_processes_numbers() {
    // spec: memory §4.1, memory §7.1
    let (result, mapped, pasids) = start_with_iommu(behind_the_iommu());
    result.expect("it keeps the rules");
    assert_eq!(pasids, [Some(Pasid(1)); 2], "the paging process and its device");
    let mapped = mapped.0.lock().unwrap();
    assert!(!mapped.is_empty(), "fence words and paging buffers are where the system process has them");
    assert!(mapped.iter().all(|(pasid, ..)| *pasid == Pasid(1)));
    assert!(mapped.iter().any(|(.., writable)| *writable), "and the engine signals there");
    // Others have no numbers, IOMMU or not.
    let (result, mapped, pasids) = start_with_iommu(Answers::default());
    result.expect("with page tables of its own it starts");
    assert_eq!(pasids, [None; 2]);
    assert!(mapped.0.lock().unwrap().is_empty(), "and the platform translates nothing for it");
}

#[test]
fn an_adapter_of_the_model_needs_an_iommu_and_system_memory_only_and_queues_and_fences() {
    // spec: memory §4.1, sync §3.1
    expect_error(behind_the_iommu(), "not supported: IoMmuSupported: this computer has no IOMMU to share");
    let usual = Answers::default();
    for (words, answers) in [
        ("segment 1: behind the IOMMU there is system memory only", {
            Answers { segments: usual.segments.clone(), paging_buffer: usual.paging_buffer, ..behind_the_iommu() }
        }),
        ("without hardware queues", Answers { has_hardware_queues: false, ..behind_the_iommu() }),
        ("whose progress fences are monitored fences", Answers { native_cap: false, ..behind_the_iommu() }),
        ("GpuMmuSupported of a node needs", Answers { node_lies: true, ..behind_the_iommu() }),
    ] {
        let (result, ..) = start_with_iommu(answers);
        let error = result.expect_err(words);
        assert!(error.contains(words), "expected `{words}` in: {error}");
    }
    let mut by_address = behind_the_iommu();
    by_address.caps.paging_by_gpu_va = true;
    let (result, ..) = start_with_iommu(by_address);
    assert!(result.expect_err("nothing to page by").contains("paging by GPU virtual address needs"));
}

#[test]
fn the_models_of_addresses_are_reported_whole_and_one_at_a_time() {
    // spec: memory §4.1, memory §1.14, memory §10.2
    use VidMmCaps as C;
    let (addresses, io, gpu) = (C::VIRTUAL_ADDRESSING_SUPPORTED, C::IO_MMU_SUPPORTED, C::GPU_MMU_SUPPORTED);
    expect_error(without_tables(io), "broke a rule at adapter start: IoMmuSupported needs VirtualAddressingSupported");
    expect_error(without_tables(addresses), "VirtualAddressingSupported needs GpuMmuSupported or IoMmuSupported");
    expect_error(without_tables(addresses | gpu | io), "GpuMmuSupported needs the entry points");
    let both = Answers { has_gpu_va: true, ..without_tables(addresses | gpu | io) };
    expect_error(both, "GpuMmuSupported and IoMmuSupported exclude each other");
    // Its facet says GpuMmu, whatever its bits leave out.
    expect_error(Answers { has_gpu_va: true, ..without_tables(io) }, "exclude each other");

    // spec: memory §1.14: a driver that must be isolated is not started without
    let secure = Answers { has_gpu_va: true, ..without_tables(C::IO_MMU_SECURE_MODE_REQUIRED) };
    expect_error(secure, "not supported: IoMmuSecureModeRequired");

    let mut old = first_generation(DdiVersion::WDDM_1_3);
    old.caps.memory = addresses | io;
    expect_error(old, "GPU virtual addresses are WDDM 2");
}

#[test]
fn what_rests_on_page_tables_needs_their_entry_points() {
    // spec: memory §4.1, memory §3.3
    let words = "GpuMmuSupported of a node needs the entry points";
    expect_error(Answers { node_lies: true, ..without_tables(VidMmCaps::empty()) }, words);
    let mut by_address = without_tables(VidMmCaps::empty());
    by_address.caps.paging_by_gpu_va = true;
    expect_error(by_address, "paging by GPU virtual address needs the entry points");
}
