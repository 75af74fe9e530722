//! The figures as calls get them: the counts, and the present state.

use kmt_calls::{
    AdapterStatistics, ClockCalibration, NodeStatistics, NodeWork, ProcessMemory, ProcessSegment, ProcessStatistics,
    Refusal, SegmentStatistics, SourceStatistics,
};
use vidmm::{SegmentGroup, SpaceTally};
use wddm_types::{NodeId, ProcessId};

use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::number::DeviceNumber;
use crate::refusal::{from_driver, invalid};
use crate::tally::ProcessTally;

impl Adapter {
    /// All figures of this moment.
    pub fn statistics(&mut self, cx: &Cx<'_>) -> AdapterStatistics {
        self.meter_nodes(cx);
        self.charge_queues(cx);
        let memory = self.vidmm.tally();
        AdapterStatistics {
            now_ns: cx.now_ns,
            adapter: self.luid,
            name: self.config.name.clone(),
            ddi_version: self.driver.reported().ddi_version.0,
            stopped: self.life.why_stopped().map(str::to_owned),
            awake: !self.life.is_off(),
            counts: self.tally.counts(),
            paging: self.tally.paging(),
            nodes: self.node_statistics(cx),
            segments: self.segment_statistics(&memory),
            sources: self.source_statistics(),
            left: self.tally.left().collect(),
            processes: self.owners.processes().map(|(id, _)| self.of_process(cx, id, &memory)).collect(),
        }
    }

    /// Where figures of memory, as calls get them, contradict each other.
    pub fn contradiction(&self) -> Option<String> {
        let tally = self.vidmm.tally();
        let process = |(process, _): (ProcessId, _)| {
            let memory = self.memory_of(process, tally.spaces.get(&self.owners.space_of(process)));
            ProcessStatistics { process, memory, ..ProcessStatistics::default() }
        };
        let processes = self.owners.processes().map(process).collect();
        let segments = self.segment_statistics(&tally);
        AdapterStatistics { processes, segments, ..AdapterStatistics::default() }.contradiction()
    }

    /// The processes that have a device here.
    pub fn process_ids(&self) -> Vec<ProcessId> {
        self.owners.processes().map(|(process, _)| process).filter(|process| *process != ProcessId::SYSTEM).collect()
    }

    /// Whether a process, which is not the kernel, has a device here.
    pub fn knows(&self, process: ProcessId) -> bool {
        process != ProcessId::SYSTEM && self.owners.has_process(process)
    }

    /// `D3DKMTQueryProcessOfferInfo`: the memory manager's figure of a process; 0 for a process without a device here.
    // spec: memory §5.9
    pub fn decommittable_bytes(&self, process: ProcessId) -> u64 {
        match self.owners.has_process(process) {
            true => self.vidmm.decommittable_bytes(self.owners.space_of(process)),
            false => 0,
        }
    }

    /// `D3DKMTQueryClockCalibration`: both clocks now. A device without power has none that runs.
    ///
    /// # Errors
    /// The adapter has no power, or no such node; the driver's own refusal.
    pub fn calibration(&self, now_ns: u64, node: NodeId) -> Result<ClockCalibration, Refusal> {
        self.life.awake()?;
        let count = self.driver.nodes().len();
        if usize::from(node.0) >= count {
            return Err(invalid(format!("the adapter has {count} nodes")));
        }
        let clock = self.driver.calibrate_gpu_clock(node).map_err(from_driver)?;
        Ok(ClockCalibration { gpu_frequency_hz: clock.frequency_hz, gpu_counter: clock.counter, cpu_ns: now_ns })
    }

    fn node_statistics(&self, cx: &Cx<'_>) -> Vec<NodeStatistics> {
        let one = |(ordinal, node): (usize, &ddi::NodeMetadata)| {
            // CAST: at most 64 nodes.
            let ordinal = NodeId(ordinal as u16);
            let paging = self.ring_work(cx, ordinal);
            let (counted, context_switches) = self.tally.counts_of(ordinal);
            let work = NodeWork {
                submitted: counted.submitted + paging.submitted,
                completed: counted.completed + paging.completed,
                ..counted
            };
            NodeStatistics { node: ordinal, name: node.name.to_owned(), work, context_switches }
        };
        self.driver.nodes().iter().enumerate().map(one).collect()
    }

    /// The buffers of a ring with a hardware queue of its own: its fence counts them.
    fn ring_work(&self, cx: &Cx<'_>, node: NodeId) -> NodeWork {
        let here = node == self.paging_node() && self.memory.ring.kmd_queue().is_some();
        let reach = self.ring_reach(cx).filter(|_| here);
        reach.map_or(NodeWork::default(), |(completed, submitted)| NodeWork {
            submitted,
            completed: completed.min(submitted),
            ..NodeWork::default()
        })
    }

    fn segment_statistics(&self, tally: &vidmm::Tally) -> Vec<SegmentStatistics> {
        let known = self.vidmm.segments().iter().zip(&tally.segments).zip(&tally.apart);
        let one =
            |((segment, tally), apart): ((&vidmm::Segment, &vidmm::SegmentTally), &vidmm::Apart)| SegmentStatistics {
                segment: segment.id,
                aperture: segment.is_aperture(),
                local: self.vidmm.group_of(segment.id) == SegmentGroup::Local,
                capacity_bytes: segment.capacity_bytes(),
                committed_bytes: tally.committed_bytes,
                resident_bytes: tally.resident_bytes,
                unowned_bytes: apart.unowned_bytes,
                repeated_bytes: apart.repeated_bytes,
            };
        known.map(one).collect()
    }

    fn source_statistics(&self) -> Vec<SourceStatistics> {
        let one = |display: kmt_calls::DisplayInfo| self.tally.flips_of(display.source);
        self.displays.info().into_iter().map(one).collect()
    }

    fn of_process(&self, cx: &Cx<'_>, process: ProcessId, tally: &vidmm::Tally) -> ProcessStatistics {
        let is_theirs = |device: DeviceNumber| self.owners.process_of(device) == process;
        let hardware = self.queues.contexts().filter(|(_, context)| is_theirs(context.device)).count();
        let packets = self.packets.contexts().filter(|(_, context)| is_theirs(context.device)).count();
        let queues = self.queues.iter().filter(|(_, queue)| is_theirs(queue.device)).count();
        let lost = self.owners.devices_of(process).filter(|device| !self.owners.is_active(*device)).count();
        let counted = self.tally.of_process(process);
        // CAST: handles bound how many a process has.
        ProcessStatistics {
            process,
            // The machine knows it, and puts it in.
            identity: None,
            priority_class: self.owners.class_of(process),
            devices: self.owners.devices_of(process).count() as u32,
            devices_lost: lost as u32,
            contexts: (hardware + packets) as u32,
            queues: queues as u32,
            memory: self.memory_of(process, tally.spaces.get(&self.owners.space_of(process))),
            paging: counted.map(ProcessTally::paging).unwrap_or_default(),
            fences_signaled: counted.map_or(0, ProcessTally::fences_signaled),
            nodes: self.work_of(cx, process, counted),
        }
    }

    fn work_of(&self, cx: &Cx<'_>, process: ProcessId, counted: Option<&ProcessTally>) -> Vec<NodeWork> {
        let one = |node: NodeId| {
            let known = counted.map(|counted| counted.work_on(node)).unwrap_or_default();
            let paging = if process == ProcessId::SYSTEM { self.ring_work(cx, node) } else { NodeWork::default() };
            NodeWork {
                submitted: known.submitted + paging.submitted,
                completed: known.completed + paging.completed,
                ..known
            }
        };
        // CAST: at most 64 nodes.
        self.driver.node_ids().map(one).collect()
    }

    fn memory_of(&self, process: ProcessId, tally: Option<&SpaceTally>) -> ProcessMemory {
        // The kernel itself has no lists and no budget.
        let group = |local| match process {
            ProcessId::SYSTEM => kmt_calls::VideoMemoryInfo::default(),
            _ => self.video_memory_info(process, local),
        };
        let none = SpaceTally::default();
        let tally = tally.unwrap_or(&none);
        let segments = self.vidmm.segments().iter().enumerate().map(|(at, segment)| {
            let here = tally.segments.get(at).copied().unwrap_or_default();
            ProcessSegment {
                segment: segment.id,
                committed_bytes: here.committed_bytes,
                resident_bytes: here.resident_bytes,
            }
        });
        ProcessMemory {
            local: group(true),
            non_local: group(false),
            allocations: tally.allocations,
            allocated_bytes: tally.allocated_bytes,
            demoted_bytes: tally.demoted_bytes,
            offered_bytes: tally.offered_bytes,
            segments: segments.collect(),
        }
    }
}
