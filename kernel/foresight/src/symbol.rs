//! The symbol of an operation: what it looks like when the names of allocations are left out. Two operations with different symbols are
//! different; equal symbols may be chance, as in a model of many equal layers.
//!
//! Commutative, because the order of names in a list means nothing, and exact in sizes: another shape is another symbol. What is written
//! is not in it, because that is told later; deaths are not in it, because a garbage collector places them anywhere.

use crate::event::Item;

/// The symbol of a list.
pub(crate) fn of_list(list: &[Item]) -> u64 {
    let sum = list.iter().fold(0u64, |sum, item| sum.wrapping_add(mix(of_item(item))));
    sum.wrapping_mul(1 << 8) | (list.len() as u64 & 0xff)
}

/// What tells an item from others without its name.
pub(crate) fn of_item(item: &Item) -> u64 {
    mix(item.pages ^ u64::from(item.kind).rotate_right(16))
}

/// The symbol of the very allocations: equal for equal sets.
pub(crate) fn of_names(list: &[Item]) -> u64 {
    let name = |item: &Item| mix(u64::from(item.key.slot()) << 32 | u64::from(item.key.generation()));
    list.iter().fold(0u64, |sum, item| sum.wrapping_add(name(item)))
}

/// Spreads every bit over all others (the finalizer of `SplitMix64`).
pub(crate) fn mix(bits: u64) -> u64 {
    let bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Key;

    fn item(slot: u32, pages: u64, kind: u16) -> Item {
        Item { key: Key::new(slot, 0), pages, kind, has_content: false }
    }

    #[test]
    fn the_order_and_the_names_of_a_list_mean_nothing() {
        let list = [item(1, 4, 0), item(2, 8, 0), item(3, 4, 1)];
        let other = [item(9, 4, 1), item(7, 4, 0), item(8, 8, 0)];
        assert_eq!(of_list(&list), of_list(&other));
        assert_ne!(of_names(&list), of_names(&other));
    }

    #[test]
    fn sizes_kinds_and_counts_mean_something() {
        let all = [vec![], vec![item(1, 4, 0)], vec![item(1, 4, 1)], vec![item(1, 5, 0)], vec![item(1, 4, 0); 2]];
        for (index, list) in all.iter().enumerate() {
            assert!(all[..index].iter().all(|other| of_list(other) != of_list(list)), "{list:?}");
        }
    }
}
