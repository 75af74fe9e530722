//! Which models of GPU virtual addresses an adapter may report, alone and together.

use ddi::*;

use super::{expect_error, first_generation};
use crate::start;
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

#[test]
fn an_adapter_that_shares_the_cpu_s_page_tables_is_refused_by_name_and_never_started_as_another_model() {
    // spec: memory §4.1
    use VidMmCaps as C;
    start(without_tables(C::empty()), vec![]).0.expect("without the capability it starts");
    let model = C::VIRTUAL_ADDRESSING_SUPPORTED | C::IO_MMU_SUPPORTED;
    expect_error(without_tables(model), "not supported: IoMmuSupported: the IoMmu model");
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
