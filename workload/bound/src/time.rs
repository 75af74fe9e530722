//! The least time of a workload whose bytes move over a link. Pure arithmetic; called by programs that print it.

use crate::Bound;

/// A link between the memory and the outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Bytes per second each way.
    pub bytes_per_s: u64,
    /// Whether it carries both ways at once, or one at a time.
    pub both_ways: bool,
}

/// Times that no memory manager goes below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeastTime {
    /// The link moves the fewest bytes; where it carries both ways at once, shared out as evenly as the fewest page-ins allow.
    pub link_ns: u64,
    /// The longer of that and the work itself, where its time is known: at best the link is busy while the engine works.
    pub total_ns: u64,
}

/// The least time for a bound over a link, beside work of `compute_ns`. Saturates.
#[must_use]
pub fn least_time(bound: &Bound, link: Link, compute_ns: Option<u64>) -> LeastTime {
    let carried = match link.both_ways {
        true => bound.paged_in_bytes.max(bound.moved_bytes.div_ceil(2)),
        false => bound.moved_bytes,
    };
    let ns = u128::from(carried) * 1_000_000_000 / u128::from(link.bytes_per_s.max(1));
    let link_ns = u64::try_from(ns).unwrap_or(u64::MAX);
    LeastTime { link_ns, total_ns: link_ns.max(compute_ns.unwrap_or(0)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Effort;

    #[test]
    fn the_busier_way_counts_and_the_work_hides_the_link() {
        let bound = |moved_bytes, paged_in_bytes| Bound {
            moved_bytes,
            paged_in_bytes,
            cold_bytes: 0,
            effort: Effort::default(),
        };
        let least = |bound: Bound, compute| {
            let time = least_time(&bound, Link { bytes_per_s: 2_000_000_000, both_ways: true }, compute);
            (time.link_ns, time.total_ns)
        };
        assert_eq!(least(bound(4000, 1000), None), (1000, 1000), "half of it each way");
        assert_eq!(least(bound(4000, 3000), None), (1500, 1500), "more has to come in than half");
        assert_eq!(least(bound(4000, 3000), Some(1400)), (1500, 1500));
        assert_eq!(least(bound(4000, 3000), Some(1600)), (1500, 1600));
        let at_a_time = |bytes_per_s| Link { bytes_per_s, both_ways: false };
        assert_eq!(least_time(&bound(4000, 3000), at_a_time(2_000_000_000), None).link_ns, 2000);
        assert_eq!(least_time(&bound(u64::MAX, u64::MAX), at_a_time(0), None).link_ns, u64::MAX);
    }
}
