//! Tests of the page's state: the effects of keys and of answers.

use super::*;
use crate::fixture::adapter;

fn page() -> Page {
    let mut page = Page::new("/run/kernel".to_owned(), 1000);
    page.told(vec![adapter()]);
    page
}

fn type_in(page: &mut Page, text: &str) {
    for typed in text.chars() {
        assert_eq!(page.pressed(Key::Char(typed)), Next::Stay);
    }
}

fn processes(page: &Page) -> Vec<u32> {
    page.rows().iter().map(|row| row.process.0).collect()
}

#[test]
fn two_answers_make_rates_and_curves_and_one_makes_none() {
    let mut page = page();
    assert_eq!(page.adapter().expect("one").rates, None);
    let mut later = adapter();
    later.now_ns += 2_000_000_000;
    later.nodes[2].work.running_ns += 1_000_000_000;
    later.paging.in_bytes += 1 << 30;
    page.told(vec![later.clone()]);
    let seen = page.adapter().expect("one");
    let rates = seen.rates.as_ref().expect("two answers");
    assert_eq!((rates.nodes[2].load, rates.paging.paged_in), (0.5, f64::from(1 << 29)));
    assert_eq!(seen.loads[2].last(9).collect::<Vec<_>>(), [0.5]);
    assert!(!seen.alarm);
    later.now_ns += 1;
    later.counts.adapter_resets += 1;
    page.told(vec![later]);
    assert!(page.adapter().expect("one").alarm, "something was reset");
}

#[test]
fn keys_sort_and_turn_the_order_round() {
    let mut page = page();
    assert_eq!((page.order.by, processes(&page)), (Column::Committed, vec![4, 12, 7, 0]));
    page.pressed(Key::Char('s'));
    assert_eq!((page.order.by, processes(&page)), (Column::Demoted, vec![12, 4, 0, 7]));
    page.pressed(Key::Char('r'));
    assert_eq!(processes(&page), [0, 7, 4, 12]);
    page.pressed(Key::Left);
    page.pressed(Key::Char('<'));
    assert_eq!((page.order.by, page.order.descending), (Column::Resident, true));
    for _ in 0..Column::ALL.len() {
        page.pressed(Key::Right);
    }
    assert_eq!(page.order.by, Column::Resident, "and round");
}

#[test]
fn a_filter_is_typed_kept_and_cleared() {
    let mut page = page();
    page.pressed(Key::Char('/'));
    type_in(&mut page, "lostq");
    assert!(processes(&page).is_empty(), "keys are text now");
    page.pressed(Key::Backspace);
    assert_eq!(page.pressed(Key::Enter), Next::Stay);
    assert_eq!((processes(&page), page.asking), (vec![12], Asking::Nothing));
    page.pressed(Key::Char('/'));
    assert_eq!(page.pressed(Key::Escape), Next::Stay, "this leaves the filter alone");
    assert_eq!((processes(&page).len(), page.order.filter.as_str()), (4, ""));
    page.pressed(Key::Char('/'));
    type_in(&mut page, &"1".repeat(100));
    assert_eq!(page.order.filter.len(), FILTER_MAX);
    assert_eq!(page.pressed(Key::Interrupt), Next::Quit);
}

#[test]
fn rows_are_scrolled_within_their_bounds() {
    let mut page = page();
    page.pressed(Key::Rows(-1));
    assert_eq!(page.first_row, 0);
    page.pressed(Key::Rows(2));
    assert_eq!(page.first_row, 2);
    page.pressed(Key::Pages(5));
    assert_eq!(page.first_row, 3);
    let mut fewer = adapter();
    fewer.processes.truncate(2);
    page.told(vec![fewer]);
    assert_eq!(page.first_row, 1, "the row of a process that has gone disappears");
    page.pressed(Key::Home);
    assert_eq!(page.first_row, 0);
}

#[test]
fn a_paused_page_does_not_change() {
    let mut page = page();
    page.pressed(Key::Char(' '));
    let before = page.clone();
    page.told(Vec::new());
    assert_eq!(page, before);
    page.pressed(Key::Char('p'));
    page.told(Vec::new());
    assert!(page.adapter().is_none() && page.rows().is_empty(), "the adapter has gone");
    assert_eq!(page.pressed(Key::Tab), Next::Stay, "there is no next adapter");
}

#[test]
fn tab_goes_from_adapter_to_adapter_and_intervals_have_bounds() {
    let mut page = page();
    let mut other = adapter();
    (other.adapter, other.name) = (Luid(8), "wddm2-packets".to_owned());
    page.told(vec![other, adapter()]);
    let name = |page: &Page| page.adapter().expect("one").now.name.clone();
    assert_eq!(name(&page), "discrete-4k");
    page.pressed(Key::Tab);
    assert_eq!(name(&page), "wddm2-packets");
    page.pressed(Key::Tab);
    assert_eq!(name(&page), "discrete-4k");
    for _ in 0..40 {
        page.pressed(Key::Char('+'));
    }
    assert_eq!(page.interval_ms, *INTERVALS_MS.end());
    for _ in 0..40 {
        page.pressed(Key::Char('-'));
    }
    assert_eq!(page.interval_ms, *INTERVALS_MS.start());
}

#[test]
fn quit_and_help() {
    let mut page = page();
    page.pressed(Key::Char('?'));
    assert_eq!(page.asking, Asking::Help);
    assert_eq!(page.pressed(Key::Char('q')), Next::Stay, "any key closes the help");
    assert_eq!(page.pressed(Key::Char('q')), Next::Quit);
    assert_eq!(page.pressed(Key::Escape), Next::Quit);
}
