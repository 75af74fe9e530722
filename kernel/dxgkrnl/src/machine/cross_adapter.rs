//! Fences of several adapters come and go: their pages out of the creator's memory, and each adapter's part (`crate::cross_adapter` has the
//! fences, `news` carries what happens to them).

use kmt_calls::Refusal;
use wddm_types::{AdapterIndex, Pages};

use crate::adapter::Adapter;
use crate::cross_adapter::{CrossFences, Wanted};
use crate::effect::Cx;
use crate::machine::adapters::Adapters;
use crate::number::CrossFenceNumber;
use crate::sync::CommonWord;

/// The fences, with the adapters that may have them.
type Kept<'a> = (&'a mut CrossFences, &'a mut Adapters);

/// Creates one: `make` creates the creator's own fence over the word. The creator of one that its display signals keeps its own fence for as
/// long as any adapter has it: without it the display would have no fence to signal.
///
/// # Errors
/// The adapter has no page for it; or the error of `make`.
// spec: sync §2.2, sync §2.3
pub fn create<T>(
    cx: &mut Cx<'_>,
    (fences, adapters): Kept<'_>,
    index: AdapterIndex,
    wanted: Wanted,
    make: impl FnOnce(&mut Cx<'_>, &mut Adapter, CommonWord) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let adapter = &mut adapters[index];
    let linear = wanted.native && adapter.has_linear_storage();
    let page = adapter.take_common_pages(cx, Pages(1 + u64::from(linear)))?;
    let word = fences.enter(index, page, wanted);
    let made = make(cx, adapter, word);
    match made {
        Err(_) => give_back(cx, (fences, adapters), word.cross),
        Ok(_) if wanted.by_display => adapter.keep_fence(word.cross),
        Ok(_) => {}
    }
    made
}

/// One of its names has gone.
pub fn unname(cx: &mut Cx<'_>, (fences, adapters): Kept<'_>, number: CrossFenceNumber) {
    fences.unname(number);
    reap(cx, (fences, adapters), number);
}

/// Gives the word back when it has no name and no adapter reaches it.
pub(super) fn reap(cx: &mut Cx<'_>, (fences, adapters): Kept<'_>, number: CrossFenceNumber) {
    let Some((creator, by_display)) = fences.without_name(number).map(|fence| fence.creator()) else { return };
    let elsewhere = adapters.iter().any(|adapter| adapter.index() != creator && adapter.has_part_in(number));
    if by_display && !elsewhere {
        adapters[creator].drop_kept_fence(cx, number);
        adapters[creator].name_ended(cx);
    }
    if !adapters.iter().any(|adapter| adapter.reaches_common_word(number)) {
        give_back(cx, (fences, adapters), number);
    }
}

fn give_back(cx: &Cx<'_>, (fences, adapters): Kept<'_>, number: CrossFenceNumber) {
    let (creator, page) = fences.remove(number);
    adapters[creator].give_common_pages_back(cx, page);
}
