//! `openwddm top --once --json`: the content of the page, for scripts. The fields are described in `JSON.md`, and promised there.

use d3dkmt::{AdapterStatistics, NodeWork, PagingBytes, ProcessStatistics, SegmentStatistics, VideoMemoryInfo};
use serde_json::{Value, json};

use super::page::{Page, Seen};
use super::rates::{NodeRates, PagingRates, ProcessRates, Rates};

/// All adapters of a page.
pub fn json(page: &Page) -> Value {
    json!({ "adapters": page.adapters.values().map(adapter).collect::<Vec<_>>() })
}

fn adapter(seen: &Seen) -> Value {
    let (now, rates) = (&seen.now, seen.rates.as_ref());
    json!({
        "adapter": now.name,
        "luid": now.adapter.0,
        "now_ns": now.now_ns,
        "elapsed_ns": rates.map(|rates| rates.elapsed_ns),
        "awake": now.awake,
        "stopped": now.stopped,
        "nodes": nodes(now, rates),
        "segments": now.segments.iter().map(segment).collect::<Vec<_>>(),
        "sources": now.sources.iter().map(|source| json!({
            "source": source.source.0, "shown": source.shown, "dropped": source.dropped,
        })).collect::<Vec<_>>(),
        "paging": paging(&now.paging, rates.map(|rates| &rates.paging)),
        "counts": counts(now, rates),
        "processes": now.processes.iter().enumerate().map(|(index, process)| {
            self::process(process, rates.and_then(|rates| rates.processes.get(index)))
        }).collect::<Vec<_>>(),
    })
}

fn nodes(now: &AdapterStatistics, rates: Option<&Rates>) -> Vec<Value> {
    let each = now.nodes.iter().enumerate().map(|(index, node)| {
        let rates = rates.and_then(|rates| rates.nodes.get(index));
        let mut value = work(&node.work, rates);
        value["node"] = json!(node.node.0);
        value["name"] = json!(node.name);
        value["context_switches"] = json!(node.context_switches);
        value
    });
    each.collect()
}

fn work(work: &NodeWork, rates: Option<&NodeRates>) -> Value {
    json!({
        "load": rates.map(|rates| rates.load),
        "running_ns": work.running_ns,
        "submitted": work.submitted,
        "completed": work.completed,
        "completed_per_s": rates.map(|rates| rates.completed),
        "preempted": work.preempted,
    })
}

fn segment(segment: &SegmentStatistics) -> Value {
    json!({
        "segment": segment.segment.0,
        "kind": if segment.aperture { "aperture" } else { "memory" },
        "budget_group": if segment.local { "local" } else { "non-local" },
        "capacity_bytes": segment.capacity_bytes,
        "committed_bytes": segment.committed_bytes,
        "resident_bytes": segment.resident_bytes,
        "unowned_bytes": segment.unowned_bytes,
        "repeated_bytes": segment.repeated_bytes,
    })
}

fn paging(sums: &PagingBytes, rates: Option<&PagingRates>) -> Value {
    json!({
        "paged_in_bytes": sums.in_bytes,
        "paged_out_bytes": sums.out_bytes,
        "filled_bytes": sums.filled_bytes,
        "relocated_bytes": sums.relocated_bytes,
        "discarded_bytes": sums.discarded_bytes,
        "paged_in_bytes_per_s": rates.map(|rates| rates.paged_in),
        "paged_out_bytes_per_s": rates.map(|rates| rates.paged_out),
    })
}

fn counts(now: &AdapterStatistics, rates: Option<&Rates>) -> Value {
    let (counts, rates) = (&now.counts, rates.map(|rates| &rates.counts));
    json!({
        "interrupts": counts.interrupts,
        "interrupts_per_s": rates.map(|rates| rates.interrupts),
        "fence_interrupts": counts.fence_interrupts,
        "fence_interrupts_in_vain": counts.fence_interrupts_in_vain,
        "cpu_waits": counts.cpu_waits,
        "fences_signaled": counts.fences_signaled,
        "fences_signaled_per_s": rates.map(|rates| rates.fences_signaled),
        "engine_resets": counts.engine_resets,
        "adapter_resets": counts.adapter_resets,
        "devices_lost": counts.devices_lost,
        "calls_refused": counts.calls_refused,
        "trims": counts.trims,
    })
}

fn process(process: &ProcessStatistics, rates: Option<&ProcessRates>) -> Value {
    let memory = &process.memory;
    let sum = |of: fn(&d3dkmt::ProcessSegment) -> u64| memory.segments.iter().map(of).sum::<u64>();
    json!({
        "process": process.process.0,
        "pid": process.identity.as_ref().map(|identity| identity.pid),
        "name": process.identity.as_ref().map(|identity| &identity.name).filter(|name| !name.is_empty()),
        "priority_class": process.priority_class,
        "devices": process.devices,
        "devices_lost": process.devices_lost,
        "contexts": process.contexts,
        "queues": process.queues,
        "load": rates.map(ProcessRates::load),
        "resident_bytes": sum(|segment| segment.resident_bytes),
        "committed_bytes": sum(|segment| segment.committed_bytes),
        "demoted_bytes": memory.demoted_bytes,
        "offered_bytes": memory.offered_bytes,
        "allocated_bytes": memory.allocated_bytes,
        "allocations": memory.allocations,
        "local": group(&memory.local),
        "non_local": group(&memory.non_local),
        "segments": memory.segments.iter().map(|segment| json!({
            "segment": segment.segment.0,
            "committed_bytes": segment.committed_bytes,
            "resident_bytes": segment.resident_bytes,
        })).collect::<Vec<_>>(),
        "paging": paging(&process.paging, rates.map(|rates| &rates.paging)),
        "fences_signaled": process.fences_signaled,
        "nodes": process.nodes.iter().enumerate().map(|(index, node)| {
            work(node, rates.and_then(|rates| rates.nodes.get(index)))
        }).collect::<Vec<_>>(),
    })
}

fn group(info: &VideoMemoryInfo) -> Value {
    json!({
        "budget_bytes": info.budget_bytes,
        "usage_bytes": info.current_usage_bytes,
        "reservation_bytes": info.current_reservation_bytes,
        "available_for_reservation_bytes": info.available_for_reservation_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{MIB, adapter};

    #[test]
    fn the_numbers_are_those_of_the_kernel_and_rates_are_null_before_there_are_any() {
        let mut page = Page::new(String::new(), 1000);
        let mut now = adapter();
        page.told(vec![now.clone()]);
        let first = json(&page);
        let shown = &first["adapters"][0];
        assert!(shown["elapsed_ns"].is_null() && shown["nodes"][0]["load"].is_null());
        assert_eq!(shown["segments"][0]["committed_bytes"], 400 * MIB);
        now.now_ns += 250_000_000;
        now.processes[1].nodes[1].running_ns += 125_000_000;
        now.paging.in_bytes += 1000;
        page.told(vec![now]);
        let second = json(&page);
        let shown = &second["adapters"][0];
        assert_eq!(
            (&shown["elapsed_ns"], &shown["paging"]["paged_in_bytes_per_s"]),
            (&json!(250_000_000), &json!(4000.0))
        );
        let process = &shown["processes"][1];
        assert_eq!((&process["pid"], &process["name"]), (&json!(4004), &json!("train-4")));
        assert!(shown["processes"][0]["pid"].is_null() && shown["processes"][0]["name"].is_null(), "the kernel");
        assert_eq!((&process["load"], &process["nodes"][1]["load"]), (&json!(0.5), &json!(0.5)));
        assert_eq!((&process["resident_bytes"], &process["committed_bytes"]), (&json!(256 * MIB), &json!(384 * MIB)));
    }
}
