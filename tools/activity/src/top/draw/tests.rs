//! The page on terminals of several sizes: nothing is cut, columns stand under their heads, and every figure is one that is known.

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::fixture::{MIB, adapter, process};
use crate::top::page::Key;
use d3dkmt::AdapterStatistics;

const COLOURED: Ink = Ink { coloured: true };

/// Two answers, a second apart, between which something was done.
fn page() -> Page {
    let mut page = Page::new("/run/openwddm/kernel".to_owned(), 1000);
    let mut now = adapter();
    page.told(vec![now.clone()]);
    for step in 1..=60u64 {
        now.now_ns += 1_000_000_000;
        work(&mut now, step);
        page.told(vec![now.clone()]);
    }
    page
}

fn work(now: &mut AdapterStatistics, step: u64) {
    now.counts.interrupts += 1204;
    now.counts.fence_interrupts += 800;
    now.counts.fences_signaled += 12_100;
    now.paging.in_bytes += (step % 10) * 100 * MIB;
    now.paging.out_bytes += 50 * MIB;
    for (node, busy_ms) in [(0, 750), (1, 10 * (step % 30)), (2, 200)] {
        now.nodes[node].work.running_ns += busy_ms * 1_000_000;
        now.nodes[node].work.completed += busy_ms;
        now.processes[1].nodes[node].running_ns += busy_ms * 500_000;
        now.processes[2].nodes[node].running_ns += busy_ms * 250_000;
    }
    now.processes[1].paging.in_bytes += 3 * MIB;
    now.sources[0].shown += 60;
}

#[allow(clippy::print_stdout, reason = "for the person who looks at it")]
fn drawn(page: &Page, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal of memory");
    let ink = COLOURED;
    terminal.draw(|frame| draw(page, ink, frame.area(), frame.buffer_mut())).expect("it is drawn");
    let cells = terminal.backend().buffer();
    let row = |row: &[ratatui::buffer::Cell]| row.iter().map(ratatui::buffer::Cell::symbol).collect();
    let lines: Vec<String> = cells.content.chunks(width as usize).map(row).collect();
    if std::env::var_os("SHOW_PAGE").is_some() {
        println!("{}\n", lines.join("\n"));
    }
    lines
}

fn line<'a>(lines: &'a [String], part: &str) -> &'a str {
    lines.iter().find(|line| line.contains(part)).unwrap_or_else(|| panic!("{part} is not in\n{}", lines.join("\n")))
}

#[test]
fn every_size_shows_what_is_known_and_cuts_nothing() {
    for (width, height) in [(80, 24), (120, 40), (200, 50)] {
        let lines = drawn(&page(), width, height);
        assert_eq!(lines.len(), height as usize);
        let compute = line(&lines, "compute");
        assert!(compute.contains("75.0%") && compute.contains("750/s"), "{compute}");
        assert!(line(&lines, "1 local").contains("400 MiB of 512 MiB"));
        assert!(line(&lines, "2 aperture").contains("96.0 MiB of 1.00 GiB"));
        assert!(
            line(&lines, "engine resets").contains("interrupts ")
                && line(&lines, "engine resets").contains(" 1.20k/s ")
        );
        assert!(line(&lines, "│ out ").contains("50.0 MiB/s"));
        let row = line(&lines, "train-4");
        for figure in ["4 ", "37.5%", "256 MiB", "384 MiB", "32.0 MiB", "3.00 MiB"] {
            assert!(row.contains(figure), "{figure} is not in {row}");
        }
        // Every frame is closed, on the same cell in each of its rows.
        for line in lines.iter().filter(|line| line.starts_with('│')) {
            assert!(line.ends_with('│'), "{line}");
        }
        assert!(lines[height as usize - 1].contains("? help"), "{}", lines[height as usize - 1]);
    }
}

#[test]
fn figures_end_where_their_heads_end() {
    let lines = drawn(&page(), 140, 40);
    let cells = |text: &str| text.chars().collect::<Vec<char>>();
    let head = cells(line(&lines, "RESIDENT"));
    let end = |title: &str| {
        let text: String = head.iter().collect();
        let at = text.find(title).expect("a head");
        text[..at].chars().count() + title.chars().count()
    };
    for row in ["train-4", "train-7", "train-12"] {
        let row = cells(line(&lines, row));
        for title in ["LOAD", "RESIDENT", "COMMITTED", "DEMOTED", "BUDGET", "IN/s", "OUT/s", "USED", "BUFFERS/s"] {
            let end = end(title);
            assert!(row[end - 1] != ' ' && row[end] == ' ', "{title}: {}", row.iter().collect::<String>());
        }
    }
}

#[test]
fn bars_show_whose_memory_is_there_and_what_could_leave() {
    let lines = drawn(&page(), 80, 24);
    let at = lines.iter().position(|line| line.contains("1 local")).expect("it is there") + 1;
    let bar: String = lines[at].chars().skip(42).take(36).collect();
    let count = |mark: char| bar.chars().filter(|cell| *cell == mark).count();
    // 400 of 512 MiB are 28 of 36 cells; a list requires 256, which are 18.
    assert_eq!(count('█') + count('▒'), 28, "{bar}");
    assert!(bar.starts_with(&"█".repeat(18)), "{bar}");
    assert_eq!(count('─'), 8, "{bar}");
}

#[test]
fn a_terminal_too_small_says_so_and_any_size_can_be_drawn() {
    let page = page();
    assert!(drawn(&page, 40, 5)[0].starts_with("40×5 is too small"));
    for width in 1..140 {
        for height in [1, 2, 9, 10, 11, 12, 15, 19, 20, 21, 24, 33, 34, 60] {
            assert_eq!(drawn(&page, width, height).len(), height as usize);
        }
    }
}

#[test]
fn a_page_without_adapters_without_processes_and_before_the_second_answer() {
    let mut page = Page::new("/run/kernel".to_owned(), 1000);
    assert!(drawn(&page, 80, 24).iter().any(|line| line.contains("no adapter")));
    let mut now = adapter();
    now.processes.clear();
    page.told(vec![now]);
    let lines = drawn(&page, 80, 24);
    assert!(line(&lines, "no process has a device here").starts_with('│'));
    assert!(line(&lines, "compute").contains('–'), "there is no rate yet");
    page.pressed(Key::Char('/'));
    page.pressed(Key::Char('x'));
    let lines = drawn(&page, 80, 24);
    assert!(lines.iter().any(|line| line.contains("no process matches \"x\"")));
    assert!(lines.iter().any(|line| line.contains("find: x▏")));
}

#[test]
fn many_of_everything_are_cut_with_a_word_about_it() {
    let mut page = page();
    let mut now = page.adapter().expect("one").now.clone();
    now.now_ns += 1_000_000_000;
    now.processes.extend((100..200).map(|id| process(id, 2, [1, 1, 0], false)));
    now.nodes = (0..30).map(|_| now.nodes[0].clone()).collect();
    now.segments = (0..20).map(|_| now.segments[0]).collect();
    page.told(vec![now]);
    let lines = drawn(&page, 80, 24);
    line(&lines, "… and 23 more");
    line(&lines, "… and 13 more");
    line(&lines, "more ↓");
}

#[test]
fn what_is_wrong_stands_out() {
    let mut page = page();
    let mut now = page.adapter().expect("one").now.clone();
    now.now_ns += 1;
    now.counts.adapter_resets += 1;
    page.told(vec![now.clone()]);
    assert!(drawn(&page, 80, 24)[0].contains("recovered a moment ago"));
    now.stopped = Some("its driver broke the contract".to_owned());
    page.told(vec![now]);
    assert!(drawn(&page, 80, 24)[0].contains("stopped: its driver"));
    line(&drawn(&page, 80, 24), "!12 ");
}

#[test]
fn several_adapters_have_names_and_a_key() {
    let mut page = page();
    let mut other = adapter();
    (other.adapter, other.name) = (wddm_types::Luid(9), "wddm2-packets".to_owned());
    page.told(vec![adapter(), other]);
    page.pressed(Key::Tab);
    let lines = drawn(&page, 80, 24);
    assert!(lines[0].contains("discrete-4k  wddm2-packets") && lines[23].contains("tab adapter"));
    page.pressed(Key::Char('?'));
    line(&drawn(&page, 80, 24), "the next adapter");
}

#[test]
fn without_colour_no_cell_has_one() {
    let area = Rect::new(0, 0, 80, 24);
    let mut out = Buffer::empty(area);
    draw(&page(), Ink { coloured: false }, area, &mut out);
    assert!(out.content.iter().all(|cell| cell.fg == ratatui::style::Color::Reset));
    let mut coloured = Buffer::empty(area);
    draw(&page(), COLOURED, area, &mut coloured);
    assert!(coloured.content.iter().any(|cell| cell.fg != ratatui::style::Color::Reset));
}
