//! The planner's report of each memory segment in the words of the outcome.

use dxgk_host::HostAdapter;

use crate::outcome::{PlanSummary, StreamSummary};

/// How victims are chosen of which nothing is foreseen, by the number of the expert.
const EXPERTS: [&str; 3] = [
    "recency",
    "frequency with a half-life of 16 memories' worth of uses",
    "frequency with a half-life of 256 memories' worth of uses",
];

/// What is planned on an adapter, whose pages have so many bytes; nothing unless its evictions are planned.
pub(super) fn plans(adapter: HostAdapter<'_>, number: usize, page_bytes: u64) -> Vec<PlanSummary> {
    let plans = adapter.plans().into_iter();
    let plan = plans.map(|(segment, report)| PlanSummary {
        // CAST: adapters are counted in ones.
        adapter: number as u32,
        segment: segment.0,
        paged_in_bytes: report.actual.paged_in * page_bytes,
        paged_out_bytes: report.actual.paged_out * page_bytes,
        read_in_place_bytes: report.in_place.paged_in * page_bytes,
        written_in_place_bytes: report.in_place.paged_out * page_bytes,
        lru_paged_in_bytes: report.lru.paged_in * page_bytes,
        lru_paged_out_bytes: report.lru.paged_out * page_bytes,
        unread_bytes: report.unread * page_bytes,
        at_stake_bytes: report.loss.potential * page_bytes,
        lent_bytes: report.loss.lent * page_bytes,
        owed_bytes: report.loss.owed * page_bytes,
        deviated_bytes: report.loss.deviated * page_bytes,
        followed_bytes: report.loss.followed * page_bytes,
        unknown_by: EXPERTS.get(report.expert).copied().unwrap_or("an expert that has no name here"),
        streams: report.streams.iter().map(stream).collect(),
    });
    plan.filter(|plan| !plan.streams.is_empty()).collect()
}

fn stream(stream: &dxgk_host::PlanStream) -> StreamSummary {
    StreamSummary {
        process: stream.process,
        ended: stream.ended,
        operations: stream.operations,
        repeats_after: stream.repeats_after,
        foreseen: stream.followed,
        otherwise: stream.slips,
        lost: stream.lost,
    }
}
