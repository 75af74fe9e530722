//! D3DKMTQueryAdapterInfo: one question of many (`KMTQUERYADAPTERINFOTYPE`), whose answer has exactly the size of its structure; and the
//! adapter behind the name of a display.

use d3dkmt_abi::*;
use kmt_calls::{AdapterCall, AdapterInfo, Call, FeatureResult, Refusal, Reply};
use wddm_types::{NtStatus, PciFunction, RawHandle};

use crate::adapter::{give_back, info, one_physical_adapter, open};
use crate::border::{Answer, Caller};
use crate::mode::current_display_mode;
use crate::refusal::{expect_reply, invalid, not_supported, refuse};
use crate::statistics::adapter_perf_data;

/// `DXGK_FEATURE_HWSCH`.
const HWSCH: u32 = DXGK_FEATURE_HWSCH;

pub fn query_adapter_info(caller: &Caller<'_>, arguments: &D3DKMT_QUERYADAPTERINFO) -> Answer {
    let D3DKMT_QUERYADAPTERINFO { hAdapter, Type, pPrivateDriverData: data, PrivateDriverDataSize: size } = *arguments;
    let info = info(caller, RawHandle(hAdapter))?;
    match Type {
        KMTQAITYPE_GETSEGMENTSIZE => put(caller, data.cast(), size, segment_sizes(&info)),
        KMTQAITYPE_GETSEGMENTGROUPSIZE => {
            of_the_one::<D3DKMT_SEGMENTGROUPSIZEINFO>(caller, data.cast(), size, |asked| asked.PhysicalAdapterIndex)?;
            put(caller, data.cast(), size, group_sizes(&info))
        }
        KMTQAITYPE_ADAPTERTYPE | KMTQAITYPE_ADAPTERTYPE_RENDER => put(caller, data.cast(), size, adapter_type(&info)),
        KMTQAITYPE_ADAPTERREGISTRYINFO | KMTQAITYPE_ADAPTERREGISTRYINFO_RENDER => {
            put(caller, data.cast(), size, registry(&info))
        }
        KMTQAITYPE_DRIVERVERSION | KMTQAITYPE_DRIVERVERSION_RENDER => {
            put(caller, data.cast(), size, driver_version(&info)?)
        }
        KMTQAITYPE_PHYSICALADAPTERCOUNT => put(caller, data.cast(), size, D3DKMT_PHYSICAL_ADAPTER_COUNT { Count: 1 }),
        KMTQAITYPE_ADAPTERADDRESS | KMTQAITYPE_ADAPTERADDRESS_RENDER => put(caller, data.cast(), size, address(&info)),
        KMTQAITYPE_PHYSICALADAPTERDEVICEIDS => {
            of_the_one::<D3DKMT_QUERY_DEVICE_IDS>(caller, data.cast(), size, |asked| asked.PhysicalAdapterIndex)?;
            put(caller, data.cast(), size, device_ids(&info))
        }
        KMTQAITYPE_NODEMETADATA => {
            let asked: D3DKMT_NODEMETADATA = take(caller, data.cast(), size)?;
            put(caller, data.cast(), size, node(&info, asked.NodeOrdinalAndAdapterIndex)?)
        }
        KMTQAITYPE_NODEPERFDATA => {
            let asked: D3DKMT_NODE_PERFDATA = take(caller, data.cast(), size)?;
            put(caller, data.cast(), size, node_perf_data(&info, &asked)?)
        }
        KMTQAITYPE_ADAPTERPERFDATA => {
            of_the_one::<D3DKMT_ADAPTER_PERFDATA>(caller, data.cast(), size, |asked| asked.PhysicalAdapterIndex)?;
            put(caller, data.cast(), size, adapter_perf_data(caller, info.luid)?)
        }
        KMTQAITYPE_ADAPTERPERFDATA_CAPS => {
            of_the_one::<D3DKMT_ADAPTER_PERFDATACAPS>(caller, data.cast(), size, |asked| asked.PhysicalAdapterIndex)?;
            // Most of nothing that a driver reports.
            put(caller, data.cast(), size, D3DKMT_ADAPTER_PERFDATACAPS::zeroed())
        }
        KMTQAITYPE_WDDM_1_2_CAPS | KMTQAITYPE_WDDM_1_2_CAPS_RENDER => {
            put(caller, data.cast(), size, wddm_1_2_caps(&info))
        }
        KMTQAITYPE_WDDM_2_0_CAPS => put(caller, data.cast(), size, wddm_2_0_caps(&info)),
        KMTQAITYPE_WDDM_2_7_CAPS => put(caller, data.cast(), size, wddm_2_7_caps(caller, hAdapter)?),
        KMTQAITYPE_WDDM_3_0_CAPS => {
            put(caller, data.cast(), size, D3DKMT_WDDM_3_0_CAPS { Value: info.wddm_3_0_caps.bits() })
        }
        KMTQAITYPE_WDDM_3_1_CAPS => {
            put(caller, data.cast(), size, D3DKMT_WDDM_3_1_CAPS { Value: info.wddm_3_1_caps.bits() })
        }
        KMTQAITYPE_WDDM_1_3_CAPS | KMTQAITYPE_WDDM_1_3_CAPS_RENDER => {
            put(caller, data.cast(), size, wddm_1_3_caps(&info))
        }
        KMTQAITYPE_WDDM_2_9_CAPS => put(caller, data.cast(), size, wddm_2_9_caps(caller, hAdapter)?),
        KMTQAITYPE_CURRENTDISPLAYMODE => {
            let asked: D3DKMT_CURRENTDISPLAYMODE = take(caller, data.cast(), size)?;
            put(caller, data.cast(), size, current_display_mode(&info, asked.VidPnSourceId)?)
        }
        KMTQAITYPE_VIRTUALADDRESSINFO => put(caller, data.cast(), size, virtual_address_info(&info)),
        KMTQAITYPE_QUERY_GPUMMU_CAPS => {
            of_the_one::<D3DKMT_QUERY_GPUMMU_CAPS>(caller, data.cast(), size, |asked| asked.PhysicalAdapterIndex)?;
            put(caller, data.cast(), size, gpu_mmu_caps(&info)?)
        }
        // A driver is there as long as its adapter is.
        KMTQAITYPE_CHECKDRIVERUPDATESTATUS | KMTQAITYPE_CHECKDRIVERUPDATESTATUS_RENDER => {
            put::<BOOL>(caller, data.cast(), size, 0)
        }
        other => Err(no_answer(other)),
    }
}

/// Why a question has no answer: the interface has no such question, or no driver here answers it.
fn no_answer(question: KMTQUERYADAPTERINFOTYPE) -> Refusal {
    const RESERVED: KMTQUERYADAPTERINFOTYPE = 14;
    if question == RESERVED || !(KMTQAITYPE_UMDRIVERPRIVATE..=KMTQAITYPE_WDDM_3_1_CAPS).contains(&question) {
        return invalid(format!("QueryAdapterInfo has no type {question}"));
    }
    not_supported(reason(question))
}

/// Why a question that a program may well ask has no answer.
fn reason(question: KMTQUERYADAPTERINFOTYPE) -> String {
    let because = match question {
        KMTQAITYPE_UMDRIVERPRIVATE => "the drivers have no private data for it",
        KMTQAITYPE_UMDRIVERNAME => "adapters have no user-mode driver in a file",
        KMTQAITYPE_QUERY_HW_PROTECTION_TEARDOWN_COUNT => "there is no protected content",
        _ => "this kernel does not implement it",
    };
    format!("type {question} of QueryAdapterInfo: {because}")
}

/// Writes an answer of exactly this size.
fn put<T: Copy>(caller: &Caller<'_>, data: *mut T, size: u32, answer: T) -> Answer {
    sized::<T>(size)?;
    caller.room(data, 1)?.write(&[answer]);
    Ok(NtStatus::SUCCESS)
}

/// Reads the part of a question that stands in the place of the answer.
fn take<T: Copy>(caller: &Caller<'_>, data: *mut T, size: u32) -> Result<T, Refusal> {
    sized::<T>(size)?;
    let given = caller.array(data.cast_const(), 1)?;
    Ok(given[0])
}

/// Reads the number of the physical adapter that a question is about: an adapter has one.
fn of_the_one<T: Copy>(caller: &Caller<'_>, data: *mut T, size: u32, number: fn(&T) -> u32) -> Result<(), Refusal> {
    one_physical_adapter(number(&take(caller, data, size)?))
}

fn sized<T>(size: u32) -> Result<(), Refusal> {
    if size as usize == size_of::<T>() {
        return Ok(());
    }
    Err(invalid(format!("the answer has {} bytes, not {size}", size_of::<T>())))
}

/// Memory segments are the adapter's own memory, apertures show system memory that is shared.
fn segment_sizes(info: &AdapterInfo) -> D3DKMT_SEGMENTSIZEINFO {
    let of = |aperture: bool| {
        let segments = info.segments.iter().filter(move |segment| segment.aperture == aperture);
        segments.map(|segment| segment.size_bytes).sum()
    };
    D3DKMT_SEGMENTSIZEINFO {
        DedicatedVideoMemorySize: of(false),
        DedicatedSystemMemorySize: 0,
        SharedSystemMemorySize: of(true),
    }
}

// spec: memory §5.5
fn group_sizes(info: &AdapterInfo) -> D3DKMT_SEGMENTGROUPSIZEINFO {
    let of = |local: bool| {
        let segments = info.segments.iter().filter(move |segment| segment.local == local);
        segments.map(|segment| segment.size_bytes).sum()
    };
    D3DKMT_SEGMENTGROUPSIZEINFO {
        PhysicalAdapterIndex: 0,
        LegacyInfo: segment_sizes(info),
        LocalMemory: of(true),
        NonLocalMemory: of(false),
        NonBudgetMemory: 0,
    }
}

/// All 0: the engines of a software GPU have no clock and no voltage of their own.
fn node_perf_data(info: &AdapterInfo, asked: &D3DKMT_NODE_PERFDATA) -> Result<D3DKMT_NODE_PERFDATA, Refusal> {
    one_physical_adapter(asked.PhysicalAdapterIndex)?;
    let (node, nodes) = (asked.NodeOrdinal, info.nodes.len());
    if node as usize >= nodes {
        return Err(invalid(format!("no node has the number {node}; there are {nodes}, counted from 0")));
    }
    Ok(D3DKMT_NODE_PERFDATA { NodeOrdinal: node, ..D3DKMT_NODE_PERFDATA::zeroed() })
}

fn adapter_type(info: &AdapterInfo) -> D3DKMT_ADAPTERTYPE {
    let display = if info.displays.is_empty() { 0 } else { D3DKMT_ADAPTERTYPE::DisplaySupported };
    D3DKMT_ADAPTERTYPE { Value: D3DKMT_ADAPTERTYPE::RenderSupported | display }
}

fn virtual_address_info(info: &AdapterInfo) -> D3DKMT_VIRTUALADDRESSINFO {
    let supported = if gpu_mmu(info) { D3DKMT_VIRTUALADDRESSINFO::VirtualAddressSupported } else { 0 };
    D3DKMT_VIRTUALADDRESSINFO { Value: supported }
}

fn registry(info: &AdapterInfo) -> D3DKMT_ADAPTERREGISTRYINFO {
    D3DKMT_ADAPTERREGISTRYINFO { AdapterString: wide(&info.name), ..D3DKMT_ADAPTERREGISTRYINFO::zeroed() }
}

// spec: sync §2.10
fn address(info: &AdapterInfo) -> D3DKMT_ADAPTERADDRESS {
    let place = info.pci.address;
    let [bus, device, function] = [place.bus(), place.device(), place.function()].map(UINT::from);
    D3DKMT_ADAPTERADDRESS { BusNumber: bus, DeviceNumber: device, FunctionNumber: function }
}

// spec: sync §2.10
fn device_ids(info: &AdapterInfo) -> D3DKMT_QUERY_DEVICE_IDS {
    let PciFunction { vendor, device, subsystem_vendor, subsystem, revision, bus_type, address: _ } = info.pci;
    let ids = D3DKMT_DEVICE_IDS {
        VendorID: vendor.into(),
        DeviceID: device.into(),
        SubVendorID: subsystem_vendor.into(),
        SubSystemID: subsystem.into(),
        RevisionID: revision.into(),
        BusType: bus_type,
    };
    D3DKMT_QUERY_DEVICE_IDS { PhysicalAdapterIndex: 0, DeviceIds: ids }
}

/// By the interface that the driver was written for.
fn driver_version(info: &AdapterInfo) -> Result<D3DKMT_DRIVERVERSION, Refusal> {
    // The highest byte and a half of the interface's number counts generations.
    let version = match info.ddi_version >> 12 {
        0x1 => KMT_DRIVERVERSION_WDDM_1_0,
        0x2 => KMT_DRIVERVERSION_WDDM_1_1,
        0x3 => KMT_DRIVERVERSION_WDDM_1_2,
        0x4 => KMT_DRIVERVERSION_WDDM_1_3,
        0x5 => KMT_DRIVERVERSION_WDDM_2_0,
        0x6 => KMT_DRIVERVERSION_WDDM_2_1,
        0x7 => KMT_DRIVERVERSION_WDDM_2_2,
        0x8 => KMT_DRIVERVERSION_WDDM_2_3,
        0x9 => KMT_DRIVERVERSION_WDDM_2_4,
        0xa => KMT_DRIVERVERSION_WDDM_2_5,
        0xb => KMT_DRIVERVERSION_WDDM_2_6,
        0xc => KMT_DRIVERVERSION_WDDM_2_7,
        0xd => KMT_DRIVERVERSION_WDDM_2_8,
        0xe => KMT_DRIVERVERSION_WDDM_2_9,
        0xf => KMT_DRIVERVERSION_WDDM_3_0,
        0x10 => KMT_DRIVERVERSION_WDDM_3_1,
        0x11 => KMT_DRIVERVERSION_WDDM_3_2,
        _ => {
            return Err(not_supported(format!(
                "no D3DKMT_DRIVERVERSION names interface version {:#x}",
                info.ddi_version
            )));
        }
    };
    Ok(version)
}

/// The ordinal stands in the lower half, the physical adapter in the upper. No driver tells the kind of a node's engines.
// spec: sync §2.9
fn node(info: &AdapterInfo, asked: u32) -> Result<D3DKMT_NODEMETADATA, Refusal> {
    one_physical_adapter(asked >> 16)?;
    let ordinal = (asked & 0xffff) as usize;
    let name = info.nodes.get(ordinal).ok_or_else(|| {
        invalid(format!("there is no node {ordinal}; the adapter has {}, counted from 0", info.nodes.len()))
    })?;
    Ok(D3DKMT_NODEMETADATA {
        NodeOrdinalAndAdapterIndex: asked,
        NodeData: DXGK_NODEMETADATA {
            EngineType: DXGK_ENGINE_TYPE_OTHER,
            FriendlyName: wide(name),
            Flags: DXGK_NODEMETADATA_FLAGS::default(),
            GpuMmuSupported: gpu_mmu(info).into(),
            IoMmuSupported: info.cpu_addresses.into(),
        },
    })
}

/// Engines translate addresses by tables of their own.
fn gpu_mmu(info: &AdapterInfo) -> bool {
    info.gpu_virtual_addresses && !info.cpu_addresses
}

// spec: sync §4.3
fn wddm_1_2_caps(info: &AdapterInfo) -> D3DKMT_WDDM_1_2_CAPS {
    let (graphics, compute) = info.preemption;
    D3DKMT_WDDM_1_2_CAPS {
        PreemptionCaps: D3DKMDT_PREEMPTION_CAPS {
            // CAST: enumerations of a few numbers.
            GraphicsPreemptionGranularity: graphics as i32,
            ComputePreemptionGranularity: compute as i32,
        },
        Anonymous: D3DKMT_WDDM_1_2_CAPS_FLAGS::default(),
    }
}

fn wddm_1_3_caps(info: &AdapterInfo) -> D3DKMT_WDDM_1_3_CAPS {
    let across = if info.cross_adapter_resources { D3DKMT_WDDM_1_3_CAPS::SupportCrossAdapterResource } else { 0 };
    D3DKMT_WDDM_1_3_CAPS { Value: across }
}

/// An adapter whose engines translate nothing, or the CPU's addresses, has no such caps.
// spec: memory §4.1
fn gpu_mmu_caps(info: &AdapterInfo) -> Result<D3DKMT_QUERY_GPUMMU_CAPS, Refusal> {
    if !gpu_mmu(info) {
        return Err(invalid("the adapter's engines have no page tables of their own"));
    }
    let (bits, width) = info.gpu_mmu;
    let caps = D3DKMT_GPUMMU_CAPS { Flags: D3DKMT_GPUMMU_CAPS_FLAGS { Value: bits }, VirtualAddressBitCount: width };
    Ok(D3DKMT_QUERY_GPUMMU_CAPS { PhysicalAdapterIndex: 0, Caps: caps })
}

fn wddm_2_0_caps(info: &AdapterInfo) -> D3DKMT_WDDM_2_0_CAPS {
    let bits = [
        (info.atomics_64_bit, D3DKMT_WDDM_2_0_CAPS::Support64BitAtomics),
        (gpu_mmu(info), D3DKMT_WDDM_2_0_CAPS::GpuMmuSupported),
        (info.cpu_addresses, D3DKMT_WDDM_2_0_CAPS::IoMmuSupported),
    ];
    D3DKMT_WDDM_2_0_CAPS { Value: bits.iter().filter(|(set, _)| *set).fold(0, |word, (_, bit)| word | bit) }
}

// spec: sync §2.10
fn hardware_scheduling(caller: &Caller<'_>, adapter: D3DKMT_HANDLE) -> Result<FeatureResult, Refusal> {
    let call = Call::Adapter(AdapterCall::IsFeatureEnabled { adapter: RawHandle(adapter), feature: HWSCH });
    Ok(expect_reply!(caller.process.call(call)?, Reply::Feature(state) => state))
}

/// `HwSchSupportState` is a `DXGK_FEATURE_SUPPORT`: 0 is none, 2 stable.
// spec: sync §2.10
fn wddm_2_9_caps(caller: &Caller<'_>, adapter: D3DKMT_HANDLE) -> Result<D3DKMT_WDDM_2_9_CAPS, Refusal> {
    const STABLE: u32 = 2;
    let state = hardware_scheduling(caller, adapter)?;
    let supported = if state.supported_by_driver { STABLE } else { 0 };
    let enabled = if state.enabled { D3DKMT_WDDM_2_9_CAPS::HwSchEnabled } else { 0 };
    Ok(D3DKMT_WDDM_2_9_CAPS { Value: supported | enabled })
}

// spec: sync §2.10
fn wddm_2_7_caps(caller: &Caller<'_>, adapter: D3DKMT_HANDLE) -> Result<D3DKMT_WDDM_2_7_CAPS, Refusal> {
    let state = hardware_scheduling(caller, adapter)?;
    let supported = if state.supported_by_driver { D3DKMT_WDDM_2_7_CAPS::HwSchSupported } else { 0 };
    let enabled = if state.enabled { D3DKMT_WDDM_2_7_CAPS::HwSchEnabled } else { 0 };
    Ok(D3DKMT_WDDM_2_7_CAPS { Value: supported | enabled })
}

/// Displays are named as their sources are counted: `\\.\DISPLAY1` is the first source of the first adapter that has one.
pub fn open_adapter_from_gdi_display_name(
    caller: &Caller<'_>,
    arguments: &mut D3DKMT_OPENADAPTERFROMGDIDISPLAYNAME,
) -> Answer {
    let number = display_number(&arguments.DeviceName)
        .ok_or_else(|| no_display("DeviceName is not \\\\.\\DISPLAY and a number"))?;
    let adapters = expect_reply!(caller.process.call(Call::Adapter(AdapterCall::EnumAdapters))?, Reply::Adapters(adapters) => adapters);
    let mut before = 0;
    for (luid, _) in adapters {
        let opened = open(caller, luid)?;
        let D3DKMT_ADAPTERINFO { hAdapter, AdapterLuid, NumOfSources, .. } = opened;
        if number <= before + NumOfSources {
            let answer = info(caller, RawHandle(hAdapter)).inspect_err(|_| give_back(caller, RawHandle(hAdapter)));
            let displays = answer?.displays;
            arguments.VidPnSourceId = displays[(number - before - 1) as usize].source.0;
            (arguments.hAdapter, arguments.AdapterLuid) = (hAdapter, AdapterLuid);
            return Ok(NtStatus::SUCCESS);
        }
        before += NumOfSources;
        give_back(caller, RawHandle(hAdapter));
    }
    Err(no_display(format!("there is no DISPLAY{number}: the adapters have {before} displays, counted from 1")))
}

/// The function has a status of its own for a display that there is not.
// spec: memory §9.2 (OpenAdapterFromGdiDisplayName)
fn no_display(reason: impl Into<std::borrow::Cow<'static, str>>) -> Refusal {
    refuse(NtStatus::UNSUCCESSFUL, reason)
}

/// The number in a name, which ends at a 0 or at its end; from 1.
fn display_number(name: &[WCHAR]) -> Option<u32> {
    let end = name.iter().position(|unit| *unit == 0)?;
    let text: String = name[..end].iter().map(|unit| char::from_u32((*unit).into())).collect::<Option<_>>()?;
    let digits = text.strip_prefix("\\\\.\\DISPLAY")?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    digits.parse().ok().filter(|_| plain)
}

/// A text in wide characters, cut to leave room for the 0 behind it.
fn wide<const ROOM: usize>(text: &str) -> [WCHAR; ROOM] {
    let mut name = [0; ROOM];
    #[cfg(not(feature = "wsl"))]
    let units = text.encode_utf16();
    #[cfg(feature = "wsl")]
    let units = text.chars().map(u32::from);
    for (place, unit) in name[..ROOM - 1].iter_mut().zip(units) {
        *place = unit;
    }
    name
}

#[cfg(test)]
mod tests;
