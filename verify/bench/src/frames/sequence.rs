//! The sequence of requests on which frame allocators are compared: log-uniform lengths from 4 KiB to 16 MiB, random frees,
//! a pool that is 95 % full. It is made without looking at what an allocator answers: what is refused counts as live
//! until it is freed. Called by `frames`.

use std::time::Instant;

/// Pages of the pool: 4 GiB.
pub(super) const POOL_PAGES: u64 = 1 << 20;
const FILL_PERCENT: u64 = 95;

/// One call. Live frames have a slot.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    Take { slot: u32, pages: u32 },
    Give { slot: u32 },
}

/// So many calls, and how many slots they use.
pub(super) fn sequence(calls: usize) -> (Vec<Call>, usize) {
    let mut state = 0x5EED_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let (mut made, mut live, mut vacant, mut slots) = (Vec::with_capacity(calls), Vec::new(), Vec::new(), 0);
    let mut used = 0;
    while made.len() < calls {
        let exponent = 12.0 * (random() >> 11) as f64 / (1u64 << 53) as f64;
        // CAST: between 1 and 4096 pages, the last one begun counted whole.
        let pages = exponent.exp2().ceil() as u32;
        while used + u64::from(pages) > POOL_PAGES * FILL_PERCENT / 100 {
            let (slot, pages): (u32, u32) = live.swap_remove((random() % live.len() as u64) as usize);
            made.push(Call::Give { slot });
            vacant.push(slot);
            used -= u64::from(pages);
        }
        let slot = vacant.pop().unwrap_or_else(|| {
            slots += 1;
            slots - 1
        });
        made.push(Call::Take { slot, pages });
        live.push((slot, pages));
        used += u64::from(pages);
    }
    (made, slots as usize)
}

/// The interface of an allocator here.
pub(super) trait Frames {
    /// Names what was taken.
    type Taken;

    fn take(&mut self, pages: u32) -> Option<Self::Taken>;
    fn give(&mut self, taken: Self::Taken);
}

/// Makes the calls; answers with nanoseconds for each, and how many requests were refused.
pub(super) fn make<A: Frames>(allocator: &mut A, calls: &[Call], slots: usize) -> (f64, u32) {
    let mut owned: Vec<Option<A::Taken>> = (0..slots).map(|_| None).collect();
    let mut refused = 0;
    let started = Instant::now();
    for call in calls {
        match *call {
            Call::Take { slot, pages } => {
                let taken = allocator.take(pages);
                refused += u32::from(taken.is_none());
                owned[slot as usize] = taken;
            }
            Call::Give { slot } => {
                if let Some(taken) = owned[slot as usize].take() {
                    allocator.give(taken);
                }
            }
        }
    }
    let ns = started.elapsed().as_nanos() as f64 / calls.len() as f64;
    owned.into_iter().flatten().for_each(|taken| allocator.give(taken));
    (ns, refused)
}
