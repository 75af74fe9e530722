//! The least time of a workload whose bytes move over a link, in and out at once. Pure arithmetic; called by programs that print it.

use crate::Bound;

/// Times that no memory manager goes below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeastTime {
    /// The link moves the fewest bytes: those in and those out at once, shared out as evenly as the fewest page-ins allow.
    pub link_ns: u64,
    /// The longer of that and the work itself, where its time is known: at best the link is busy while the engine works.
    pub total_ns: u64,
}

/// The least time for a bound over a link of so many bytes per second each way, beside work of `compute_ns`. Saturates.
#[must_use]
pub fn least_time(bound: &Bound, bytes_per_s: u64, compute_ns: Option<u64>) -> LeastTime {
    let busier = bound.paged_in_bytes.max(bound.moved_bytes.div_ceil(2));
    let ns = u128::from(busier) * 1_000_000_000 / u128::from(bytes_per_s.max(1));
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
            let time = least_time(&bound, 2_000_000_000, compute);
            (time.link_ns, time.total_ns)
        };
        assert_eq!(least(bound(4000, 1000), None), (1000, 1000), "half of it each way");
        assert_eq!(least(bound(4000, 3000), None), (1500, 1500), "more has to come in than half");
        assert_eq!(least(bound(4000, 3000), Some(1400)), (1500, 1500));
        assert_eq!(least(bound(4000, 3000), Some(1600)), (1500, 1600));
        assert_eq!(least_time(&bound(u64::MAX, u64::MAX), 0, None).link_ns, u64::MAX);
    }
}
