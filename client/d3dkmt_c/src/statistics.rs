//! Figures: which processes use an adapter, what adapters, nodes, segments and sources have done, a node's clock. The kernel answers all of
//! them at once; here each type of D3DKMTQueryStatistics gets its own. A member that the kernel has no figure for is 0.

use d3dkmt_abi::*;
use kmt_calls::{AdapterStatistics, Call, ProcessAccess, ProcessStatistics, Refusal, Reply, StatisticsCall};
use wddm_types::{Luid, NtStatus, ProcessId};

use crate::adapter::{luid, one_physical_adapter};
use crate::border::{Answer, Caller};
use crate::event::handle::{process_handle, process_handle_in_c};
use crate::refusal::{expect_reply, invalid, not_supported, refuse};
use crate::statistics::answer::*;

mod answer;

/// Without an array: how many there are.
pub fn enum_processes(caller: &Caller<'_>, arguments: &mut D3DKMT_ENUMPROCESSES) -> Answer {
    let call = Call::Statistics(StatisticsCall::EnumProcesses { adapter: luid(arguments.AdapterLuid) });
    let processes = expect_reply!(caller.process.call(call)?, Reply::Processes(processes) => processes);
    let room = arguments.BufferCount;
    arguments.BufferCount = processes.len();
    if arguments.pBuffer.is_null() {
        return Ok(NtStatus::SUCCESS);
    }
    if room < processes.len() {
        return Err(refuse(
            NtStatus::BUFFER_TOO_SMALL,
            format!("there are {} processes, and the array holds {room}; give a larger one", processes.len()),
        ));
    }
    let ids: Vec<ULONG> = processes.into_iter().map(|process| process.0).collect();
    // CAST: a kernel has far fewer.
    caller.room(arguments.pBuffer, ids.len() as u32)?.write(&ids);
    Ok(NtStatus::SUCCESS)
}

/// `OpenProcess`: to see its figures.
pub fn open_process(caller: &Caller<'_>, arguments: &mut OPENWDDM_OPENPROCESS) -> Answer {
    let process = ProcessId(arguments.ProcessId);
    let access = ProcessAccess::from_bits_retain(arguments.DesiredAccess);
    let call = Call::Statistics(StatisticsCall::OpenProcess { process, access });
    let token = expect_reply!(caller.process.call(call)?, Reply::NtHandle(token) => token);
    arguments.hProcess = process_handle_in_c(caller, token)?;
    Ok(NtStatus::SUCCESS)
}

/// The number and the name of a process in the operating system: `GetProcessId` and `QueryFullProcessImageName` of Windows, whose process
/// numbers D3DKMTEnumProcesses would give there. Here it gives the kernel's numbers: two connections of one program are two processes.
pub fn query_process(caller: &Caller<'_>, arguments: &mut OPENWDDM_QUERYPROCESS) -> Answer {
    let process = process_handle(caller, arguments.hProcess)?;
    let call = Call::Statistics(StatisticsCall::QueryProcessIdentity { process });
    let identity = expect_reply!(caller.process.call(call)?, Reply::ProcessIdentity(identity) => identity);
    let identity = identity.unwrap_or_default();
    arguments.SystemProcessId = identity.pid;
    arguments.Name = [0; 64];
    let bytes = identity.name.as_bytes();
    // Its end is a zero, whatever the kernel says.
    let bytes = &bytes[..bytes.len().min(arguments.Name.len() - 1)];
    arguments.Name[..bytes.len()].copy_from_slice(bytes);
    Ok(NtStatus::SUCCESS)
}

pub fn query_clock_calibration(caller: &Caller<'_>, arguments: &mut D3DKMT_QUERYCLOCKCALIBRATION) -> Answer {
    let call = StatisticsCall::QueryClockCalibration {
        adapter: wddm_types::RawHandle(arguments.hAdapter),
        node: arguments.NodeOrdinal,
        physical_adapter: arguments.PhysicalAdapterIndex,
    };
    let clocks = caller.process.call(Call::Statistics(call))?;
    let clocks = expect_reply!(clocks, Reply::ClockCalibration(clocks) => clocks);
    arguments.ClockData = DXGK_GPUCLOCKDATA {
        GpuFrequency: clocks.gpu_frequency_hz,
        GpuClockCounter: clocks.gpu_counter,
        CpuClockCounter: clocks.cpu_ns,
        Flags: DXGK_GPUCLOCKDATA_FLAGS::default(),
    };
    Ok(NtStatus::SUCCESS)
}

pub fn query_statistics(caller: &Caller<'_>, arguments: &mut D3DKMT_QUERYSTATISTICS) -> Answer {
    let asked = Asked::of(arguments)?;
    let process = match asked.is_of_process() {
        true => Some(process_of(caller, arguments.hProcess)?),
        false => None,
    };
    let known = figures(caller, luid(arguments.AdapterLuid))?;
    let none = ProcessStatistics::default();
    let theirs = process.and_then(|process| known.processes.iter().find(|known| known.process == process));
    if let (Some(process), None) = (process, theirs) {
        asked.of_process_without_device(known.left.contains(&process))?;
    }
    let mut result = D3DKMT_QUERYSTATISTICS_RESULT { AdapterInformation: zeroed_adapter() };
    fill(&mut result, asked, &known, theirs.unwrap_or(&none))?;
    arguments.QueryResult = result;
    Ok(NtStatus::SUCCESS)
}

fn figures(caller: &Caller<'_>, adapter: Luid) -> Result<Box<AdapterStatistics>, Refusal> {
    let call = Call::Statistics(StatisticsCall::QueryStatistics { adapter });
    Ok(expect_reply!(caller.process.call(call)?, Reply::Statistics(known) => known))
}

/// `KMTQAITYPE_ADAPTERPERFDATA`.
pub fn adapter_perf_data(caller: &Caller<'_>, adapter: Luid) -> Result<D3DKMT_ADAPTER_PERFDATA, Refusal> {
    figures(caller, adapter).map(|known| perf_data(&known))
}

/// NULL and -1 are the calling process.
fn process_of(caller: &Caller<'_>, process: HANDLE) -> Result<ProcessId, Refusal> {
    let call = Call::Statistics(StatisticsCall::GetProcessId { process: process_handle(caller, process)? });
    let named = expect_reply!(caller.process.call(call)?, Reply::Processes(processes) => processes);
    named.first().copied().ok_or_else(|| invalid("the handle names no process"))
}

/// The question, with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Adapter,
    PhysicalAdapter,
    Process,
    ProcessAdapter,
    Segment(u32),
    ProcessSegment(u32),
    ProcessGroup(i32),
    SegmentUsage(u32),
    GroupUsage(i32),
    Node(u32),
    ProcessNode(u32),
    Source(u32),
}

impl Asked {
    fn of(arguments: &D3DKMT_QUERYSTATISTICS) -> Result<Asked, Refusal> {
        let query = &arguments.Anonymous;
        let of_physical = |index: u16, asked: Asked| one_physical_adapter(index.into()).map(|()| asked);
        match arguments.Type {
            D3DKMT_QUERYSTATISTICS_ADAPTER => Ok(Asked::Adapter),
            D3DKMT_QUERYSTATISTICS_PROCESS => Ok(Asked::Process),
            D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER => Ok(Asked::ProcessAdapter),
            D3DKMT_QUERYSTATISTICS_SEGMENT => Ok(Asked::Segment(query.QuerySegment().SegmentId)),
            D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT => Ok(Asked::ProcessSegment(query.QueryProcessSegment().SegmentId)),
            D3DKMT_QUERYSTATISTICS_NODE => Ok(Asked::Node(query.QueryNode().NodeId)),
            D3DKMT_QUERYSTATISTICS_PROCESS_NODE => Ok(Asked::ProcessNode(query.QueryProcessNode().NodeId)),
            D3DKMT_QUERYSTATISTICS_VIDPNSOURCE => Ok(Asked::Source(query.QueryVidPnSource().VidPnSourceId)),
            D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP => Ok(Asked::ProcessGroup(query.QueryProcessSegmentGroup())),
            D3DKMT_QUERYSTATISTICS_ADAPTER2 => of_physical(query.QueryAdapter2().PhysicalAdapterIndex, Asked::Adapter),
            D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER2 => {
                of_physical(query.QueryProcessAdapter2().PhysicalAdapterIndex, Asked::ProcessAdapter)
            }
            D3DKMT_QUERYSTATISTICS_SEGMENT2 => {
                let of = query.QuerySegment2();
                of_physical(of.PhysicalAdapterIndex, Asked::Segment(of.SegmentId.into()))
            }
            D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT2 => {
                let of = query.QueryProcessSegment2();
                of_physical(of.PhysicalAdapterIndex, Asked::ProcessSegment(of.SegmentId.into()))
            }
            D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP2 => {
                let of = query.QueryProcessSegmentGroup2();
                of_physical(of.PhysicalAdapterIndex, Asked::ProcessGroup(of.SegmentGroup.into()))
            }
            D3DKMT_QUERYSTATISTICS_SEGMENT_USAGE => {
                let of = query.QuerySegmentUsage();
                of_physical(of.PhysicalAdapterIndex, Asked::SegmentUsage(of.SegmentId.into()))
            }
            D3DKMT_QUERYSTATISTICS_SEGMENT_GROUP_USAGE => {
                let of = query.QuerySegmentGroupUsage();
                of_physical(of.PhysicalAdapterIndex, Asked::GroupUsage(of.SegmentGroup.into()))
            }
            D3DKMT_QUERYSTATISTICS_NODE2 => {
                let of = query.QueryNode2();
                of_physical(of.PhysicalAdapterIndex, Asked::Node(of.NodeOrdinal.into()))
            }
            D3DKMT_QUERYSTATISTICS_PROCESS_NODE2 => {
                let of = query.QueryProcessNode2();
                of_physical(of.PhysicalAdapterIndex, Asked::ProcessNode(of.NodeOrdinal.into()))
            }
            D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE => {
                Err(not_supported("flips are counted by source, not by process"))
            }
            D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER => {
                one_physical_adapter(query.QueryPhysAdapter().PhysicalAdapterIndex).map(|()| Asked::PhysicalAdapter)
            }
            other => Err(invalid(format!("no figures have the type {other}"))),
        }
    }

    /// Whether there is an answer for a process that has no device there: none, but zeros, was counted. What it has to do with the adapter
    /// begins with its first device, and with its nodes it has to do as long as it has one.
    // spec: sync §2.10 (QueryStatistics)
    fn of_process_without_device(self, had_one: bool) -> Result<(), Refusal> {
        match self {
            Asked::ProcessAdapter if !had_one => Err(invalid("the process never had a device on this adapter")),
            Asked::ProcessNode(_) => Err(invalid("the process has no device on this adapter")),
            _ => Ok(()),
        }
    }

    fn is_of_process(self) -> bool {
        use Asked::*;
        matches!(self, Process | ProcessAdapter | ProcessSegment(_) | ProcessGroup(_) | ProcessNode(_))
    }
}

fn fill(
    result: &mut D3DKMT_QUERYSTATISTICS_RESULT,
    asked: Asked,
    known: &AdapterStatistics,
    theirs: &ProcessStatistics,
) -> Result<(), Refusal> {
    match asked {
        Asked::Adapter => result.AdapterInformation = adapter(known),
        Asked::PhysicalAdapter => result.PhysAdapterInformation = physical_adapter(known),
        Asked::Process => result.ProcessInformation = process(known, theirs),
        Asked::ProcessAdapter => result.ProcessAdapterInformation = process_adapter(known, theirs),
        Asked::Segment(number) => result.SegmentInformation = segment(known, at(&known.segments, number, "segment")?),
        Asked::ProcessSegment(number) => {
            let at = at(&known.segments, number, "segment")?;
            result.ProcessSegmentInformation = process_segment(at.segment, theirs);
        }
        Asked::ProcessGroup(group) => result.ProcessSegmentGroupInformation = process_group(group, theirs)?,
        Asked::SegmentUsage(number) => {
            result.SegmentUsageInformation = usage([at(&known.segments, number, "segment")?]);
        }
        Asked::GroupUsage(group) => {
            let local = crate::adapter::is_local(group)?;
            let segments = known.segments.iter().filter(|segment| segment.local == local);
            result.SegmentGroupUsageInformation = usage(segments);
        }
        Asked::Node(number) => result.NodeInformation = node(at(&known.nodes, number, "node")?, known),
        Asked::ProcessNode(number) => {
            at(&known.nodes, number, "node")?;
            let work = theirs.nodes.get(number as usize).copied().unwrap_or_default();
            result.ProcessNodeInformation = process_node(&work, 0, Packets::Render);
        }
        Asked::Source(number) => {
            let found = known.sources.iter().find(|source| source.source.0 == number);
            let found = found.ok_or_else(|| invalid(format!("no source has the number {number}")))?;
            result.VidPnSourceInformation = source(found);
        }
    }
    Ok(())
}

/// Of a list that C programs count from 0.
fn at<'list, T>(list: &'list [T], number: u32, what: &str) -> Result<&'list T, Refusal> {
    let found = usize::try_from(number).ok().and_then(|number| list.get(number));
    found.ok_or_else(|| invalid(format!("no {what} has the number {number}; there are {}, counted from 0", list.len())))
}
