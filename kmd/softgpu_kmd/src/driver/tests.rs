//! The address space that the engines use: processes with a PASID, and without.

use ddi::{ContextCaps, DriverStatus, KmdDevice, Miniport, VidMmCaps};
use ddi::{CreateContext, CreateContextFlags, CreateDevice, CreateHwContext, CreateProcess, OsContext, OsProcess};
use softgpu_spec::page_table::process_space;
use softgpu_spec::register;
use wddm_types::{NodeId, Pasid};

use crate::config::{Addressing, KmdConfig, Layout};
use crate::driver::SoftGpuKmd;
use crate::fake_port::{FakeHost, FakePort, started, stopped};

const SHARED: KmdConfig = KmdConfig { addressing: Addressing::IoMmu, layout: Layout::Aperture, ..KmdConfig::DEFAULT };

fn behind_an_iommu() -> (SoftGpuKmd, std::sync::Arc<FakePort>) {
    let (mut kmd, port) = stopped(SHARED);
    port.set(register::PASID_BITS, u64::from(process_space::PASID_BITS));
    kmd.start_device(&mut FakeHost::default()).unwrap();
    port.writes();
    (kmd, port)
}

fn device(kmd: &mut SoftGpuKmd, system: bool, pasid: u32) -> KmdDevice {
    let pasids = [Pasid(pasid)];
    let process = kmd
        .create_process(&mut FakeHost::default(), CreateProcess { process: OsProcess(1), system, pasids: &pasids })
        .unwrap();
    kmd.create_device(&mut FakeHost::default(), CreateDevice { process, system, pasid: Some(Pasid(pasid)) }).unwrap().0
}

#[test]
fn it_starts_only_where_an_iommu_translates_and_reports_its_model() {
    // spec: memory §4.1, memory §1.14
    let (mut kmd, _) = stopped(SHARED);
    let refused = kmd.start_device(&mut FakeHost::default()).unwrap_err();
    assert!(matches!(refused, DriverStatus::NotSupported(why) if why.contains("no IOMMU")), "{refused}");
    for wrong in [
        KmdConfig { layout: Layout::Memory, ..SHARED },
        KmdConfig { paging_by_gpu_va: true, ..SHARED },
        KmdConfig { driver_model: ddi::DriverModel::Wddm1, ..SHARED },
    ] {
        let (mut kmd, port) = stopped(wrong);
        port.set(register::PASID_BITS, 20);
        let refused = kmd.start_device(&mut FakeHost::default()).unwrap_err();
        assert!(matches!(refused, DriverStatus::InvalidParameter(_)), "{refused}");
    }
    let (mut kmd, _) = behind_an_iommu();
    let model = VidMmCaps::VIRTUAL_ADDRESSING_SUPPORTED | VidMmCaps::IO_MMU_SUPPORTED;
    assert_eq!(kmd.adapter_caps().memory, model | VidMmCaps::CROSS_ADAPTER_RESOURCE);
    assert!(kmd.gpu_va().is_none() && kmd.hardware_queues().is_some() && kmd.native_fences().is_some());
    assert!(!kmd.node_metadata(NodeId(0)).unwrap().gpu_mmu_supported);
}

#[test]
fn numbers_belong_to_the_model_and_to_their_process() {
    // spec: memory §4.1, memory §7.1
    let (mut kmd, _) = behind_an_iommu();
    let create = |kmd: &mut SoftGpuKmd, pasids: &[Pasid]| {
        let create = CreateProcess { process: OsProcess(1), system: false, pasids };
        kmd.create_process(&mut FakeHost::default(), create)
    };
    for wrong in [&[][..], &[Pasid(1), Pasid(2)], &[Pasid(1 << process_space::PASID_BITS)]] {
        assert!(matches!(create(&mut kmd, wrong), Err(DriverStatus::InvalidParameter(_))), "{wrong:?}");
    }
    let process = create(&mut kmd, &[Pasid(7)]).unwrap();
    for pasid in [None, Some(Pasid(8))] {
        let made = kmd.create_device(&mut FakeHost::default(), CreateDevice { process, system: false, pasid });
        assert!(matches!(made, Err(DriverStatus::InvalidParameter(_))), "{pasid:?}");
    }
    kmd.create_device(&mut FakeHost::default(), CreateDevice { process, system: false, pasid: Some(Pasid(7)) })
        .unwrap();
    let (mut other, ..) = started();
    assert!(
        matches!(create(&mut other, &[Pasid(7)]), Err(DriverStatus::InvalidParameter(_))),
        "page tables of its own"
    );
}

#[test]
fn contexts_run_in_their_process_s_address_space_from_their_creation_on() {
    // spec: memory §4.1
    let (mut kmd, port) = behind_an_iommu();
    let system = device(&mut kmd, true, 1);
    let create =
        CreateHwContext { device: system, context: OsContext(1), node: NodeId(1), system: true, private_data: &[] };
    kmd.hardware_queues().unwrap().create_hw_context(&mut FakeHost::default(), create).unwrap();
    assert_eq!(port.writes(), [(register::CMP_ROOT, process_space::root(1))], "and the CMP in the system process's");
    let client = device(&mut kmd, false, 9);
    let (addresses, plain) = (CreateContextFlags::VIRTUAL_ADDRESSING, CreateContextFlags::empty());
    for (flags, caps) in
        [(addresses, ContextCaps::NO_PATCHING_REQUIRED | ContextCaps::USE_IO_MMU), (plain, ContextCaps::empty())]
    {
        let create = CreateContext {
            device: client,
            context: OsContext(2),
            node: NodeId(0),
            engine_affinity: 1,
            flags,
            private_data: &[],
        };
        let packets = kmd.packet_scheduling().unwrap();
        let (_, info) = packets.create_context(&mut FakeHost::default(), create).unwrap();
        assert_eq!(info.caps, caps);
        let named = port.writes().contains(&(register::QUEUE_ROOT, process_space::root(9)));
        assert_eq!(named, flags == addresses, "{flags:?}");
    }
}
