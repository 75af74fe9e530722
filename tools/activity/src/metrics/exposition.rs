//! Figures as text in the exposition format 0.0.4: families of samples, each with its help and its type. Names end in their unit, and
//! those of counters in `_total`. It makes no calls: the caller passes the answers of the kernel.

use std::fmt::{Display, Write};

use d3dkmt::{AdapterStatistics, NodeWork, PagingBytes, ProcessStatistics, VideoMemoryInfo};

/// The text about all adapters.
pub fn text(adapters: &[AdapterStatistics]) -> String {
    let mut text = Text { adapters, out: String::new() };
    text.adapters();
    text.nodes();
    text.segments();
    text.processes();
    text.out
}

/// The text so far, and the adapters that it is about.
struct Text<'a> {
    adapters: &'a [AdapterStatistics],
    out: String,
}

/// The type of a family's samples.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
}

use Kind::{Counter, Gauge};

/// Labels beside those of the adapter, and the sample.
type Sample = (String, String);

impl Text<'_> {
    /// A family: its samples of all adapters, one below the other.
    fn family(&mut self, kind: Kind, name: &str, help: &str, samples: impl Fn(&AdapterStatistics) -> Vec<Sample>) {
        let kind = if kind == Counter { "counter" } else { "gauge" };
        // Writing to a string does not fail.
        let _ = writeln!(self.out, "# HELP openwddm_{name} {help}\n# TYPE openwddm_{name} {kind}");
        for adapter in self.adapters {
            let of = format!("adapter=\"{}\",luid=\"{:#x}\"", escaped(&adapter.name), adapter.adapter.0);
            for (labels, sample) in samples(adapter) {
                let _ = writeln!(self.out, "openwddm_{name}{{{of}{labels}}} {sample}");
            }
        }
    }

    fn adapters(&mut self) {
        self.family(Gauge, "adapter_awake", "1 if the device has power, else 0.", |adapter| {
            one(u8::from(adapter.awake))
        });
        let stopped = |adapter: &AdapterStatistics| one(u8::from(adapter.stopped.is_some()));
        self.family(Gauge, "adapter_stopped", "1 if the kernel has stopped the adapter for good, else 0.", stopped);
        for (name, help, of) in COUNTS {
            self.family(Counter, name, help, |adapter| one(of(adapter)));
        }
        let paging = |adapter: &AdapterStatistics| moved("", &adapter.paging);
        self.family(Counter, "paging_bytes_total", "Bytes that paging has moved, by kind of move.", paging);
        self.family(Counter, "flips_total", "Flips of a display, shown or dropped.", |adapter| {
            let each = adapter.sources.iter().flat_map(|source| {
                let of = format!(",source=\"{}\"", source.source.0);
                let sample = |result, count: u64| (format!("{of},result=\"{result}\""), count.to_string());
                [sample("shown", source.shown), sample("dropped", source.dropped)]
            });
            each.collect()
        });
    }

    fn nodes(&mut self) {
        for (name, help, of) in WORK {
            let family = format!("node_{name}");
            self.family(Counter, &family, help, |adapter| {
                let each = adapter.nodes.iter().map(|node| {
                    let labels = format!(",node=\"{}\",name=\"{}\"", node.node.0, escaped(&node.name));
                    (labels, of(&node.work))
                });
                each.collect()
            });
        }
        self.family(
            Counter,
            "node_context_switches_total",
            "Changes of the node from one context to another.",
            |adapter| {
                let each = adapter.nodes.iter().map(|node| {
                    let labels = format!(",node=\"{}\",name=\"{}\"", node.node.0, escaped(&node.name));
                    (labels, node.context_switches.to_string())
                });
                each.collect()
            },
        );
    }

    fn segments(&mut self) {
        let families: [Of<d3dkmt::SegmentStatistics>; 3] = [
            ("segment_capacity_bytes", "Bytes of the segment that allocations can use.", |segment| {
                segment.capacity_bytes
            }),
            ("segment_committed_bytes", "Bytes of the segment that hold content of allocations.", |segment| {
                segment.committed_bytes
            }),
            ("segment_resident_bytes", "Bytes of the segment that residency lists of devices require.", |segment| {
                segment.resident_bytes
            }),
        ];
        for (name, help, of) in families {
            self.family(Gauge, name, help, |adapter| {
                let each = adapter.segments.iter().map(|segment| {
                    let group = if segment.local { "local" } else { "non-local" };
                    (format!(",segment=\"{}\",group=\"{group}\"", segment.segment.0), of(segment).to_string())
                });
                each.collect()
            });
        }
    }

    fn processes(&mut self) {
        let identity = |process: &ProcessStatistics| {
            let known = process.identity.iter();
            known.map(|one| (format!(",pid=\"{}\",name=\"{}\"", one.pid, escaped(&one.name)), "1".to_owned())).collect()
        };
        self.each_process(
            Gauge,
            "process_info",
            "1, with the process's number and name in the operating system.",
            identity,
        );
        for (name, help, of) in PROCESS {
            self.each_process(Gauge, name, help, |process| one(of(process)));
        }
        let signaled = |process: &ProcessStatistics| one(process.fences_signaled);
        self.each_process(
            Counter,
            "process_fences_signaled_total",
            "Fences of the process that the kernel has signalled.",
            signaled,
        );
        let paging = |process: &ProcessStatistics| moved("", &process.paging);
        self.each_process(
            Counter,
            "process_paging_bytes_total",
            "Bytes of the process's allocations that paging has moved, by kind of move.",
            paging,
        );
        let groups: [Of<VideoMemoryInfo>; 2] = [
            ("process_budget_bytes", "Budget of the process.", |info| info.budget_bytes),
            ("process_usage_bytes", "Bytes that the process uses of its budget.", |info| info.current_usage_bytes),
        ];
        for (name, help, of) in groups {
            self.each_process(Gauge, name, help, |process| {
                let sample = |group, info| (format!(",group=\"{group}\""), of(info).to_string());
                vec![sample("local", &process.memory.local), sample("non-local", &process.memory.non_local)]
            });
        }
        let segments: [Of<d3dkmt::ProcessSegment>; 2] = [
            ("process_committed_bytes", "Bytes of a segment that hold content of the process.", |segment| {
                segment.committed_bytes
            }),
            (
                "process_resident_bytes",
                "Bytes of a segment that residency lists of the process require, opened allocations of others among them.",
                |segment| segment.resident_bytes,
            ),
        ];
        for (name, help, of) in segments {
            self.each_process(Gauge, name, help, |process| {
                let each = process.memory.segments.iter();
                each.map(|segment| (format!(",segment=\"{}\"", segment.segment.0), of(segment).to_string())).collect()
            });
        }
        for (name, help, of) in WORK {
            self.each_process(Counter, &format!("process_node_{name}"), help, |process| {
                let each = process.nodes.iter().enumerate();
                each.map(|(node, work)| (format!(",node=\"{node}\""), of(work))).collect()
            });
        }
    }

    fn each_process(
        &mut self,
        kind: Kind,
        name: &str,
        help: &str,
        samples: impl Fn(&ProcessStatistics) -> Vec<Sample>,
    ) {
        self.family(kind, name, help, |adapter| {
            let each = adapter.processes.iter().flat_map(|process| {
                let of = format!(",process=\"{}\"", process.process.0);
                samples(process).into_iter().map(move |(labels, sample)| (format!("{of}{labels}"), sample))
            });
            each.collect()
        });
    }
}

/// A family's name and help, and its sample of a `T`.
type Of<T> = (&'static str, &'static str, fn(&T) -> u64);

/// Counts of an adapter since its start.
const COUNTS: [Of<AdapterStatistics>; 10] = [
    ("interrupts_total", "Interrupts for which the driver found a cause.", |of| of.counts.interrupts),
    ("fence_interrupts_total", "Fence interrupts dispatched.", |of| of.counts.fence_interrupts),
    ("fence_interrupts_in_vain_total", "Fence interrupts that released no wait.", |of| {
        of.counts.fence_interrupts_in_vain
    }),
    ("cpu_waits_total", "Waits of threads for fence values that were not reached yet.", |of| of.counts.cpu_waits),
    ("fences_signaled_total", "Fences that the kernel has signalled.", |of| of.counts.fences_signaled),
    ("engine_resets_total", "Resets of nodes.", |of| of.counts.engine_resets),
    ("adapter_resets_total", "Resets of the whole adapter.", |of| of.counts.adapter_resets),
    ("devices_lost_total", "Devices that went into error.", |of| of.counts.devices_lost),
    ("calls_refused_total", "Refused calls that named the adapter.", |of| of.counts.calls_refused),
    ("trims_total", "Requests of the kernel to trim, each to one device.", |of| of.counts.trims),
];

type Work = (&'static str, &'static str, fn(&NodeWork) -> String);

/// Counts of a node.
const WORK: [Work; 4] = [
    ("running_seconds_total", "Seconds in which the node executed work, or had packets.", |work| {
        seconds(work.running_ns)
    }),
    ("buffers_submitted_total", "Command buffers that the kernel gave to the driver.", |work| {
        work.submitted.to_string()
    }),
    ("buffers_completed_total", "Completed command buffers.", |work| work.completed.to_string()),
    ("buffers_preempted_total", "Command buffers that were preempted before they completed.", |work| {
        work.preempted.to_string()
    }),
];

/// Figures of a process now.
const PROCESS: [Of<ProcessStatistics>; 9] = [
    ("process_priority_class", "Priority class of the process, from 0 (idle) to 5 (realtime).", |process| {
        u64::from(process.priority_class)
    }),
    ("process_devices", "Devices of the process.", |process| u64::from(process.devices)),
    ("process_devices_lost", "Devices of the process that are lost.", |process| u64::from(process.devices_lost)),
    ("process_contexts", "Contexts of the process.", |process| u64::from(process.contexts)),
    ("process_queues", "Hardware queues of the process.", |process| u64::from(process.queues)),
    ("process_allocations", "Allocations of the process.", |process| u64::from(process.memory.allocations)),
    ("process_allocated_bytes", "Bytes of the process's allocations.", |process| process.memory.allocated_bytes),
    (
        "process_demoted_bytes",
        "Bytes of the process's allocations outside their preferred segment, for want of room.",
        |process| process.memory.demoted_bytes,
    ),
    ("process_offered_bytes", "Bytes of the process's allocations that it has offered.", |process| {
        process.memory.offered_bytes
    }),
];

fn one(sample: impl Display) -> Vec<Sample> {
    vec![(String::new(), sample.to_string())]
}

fn moved(labels: &str, bytes: &PagingBytes) -> Vec<Sample> {
    let sample = |how, bytes: u64| (format!("{labels},how=\"{how}\""), bytes.to_string());
    vec![
        sample("in", bytes.in_bytes),
        sample("out", bytes.out_bytes),
        sample("filled", bytes.filled_bytes),
        sample("relocated", bytes.relocated_bytes),
        sample("discarded", bytes.discarded_bytes),
    ]
}

/// Nanoseconds as seconds, exactly.
fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

/// A label's value: names come from drivers.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
pub(crate) mod tests;
