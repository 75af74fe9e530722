//! A store at a doorbell's address reaches the page that is shown there, in both forms.

use std::sync::atomic::AtomicBool;
use std::sync::mpsc;

use shared_words::Word;

use super::*;

const AT: [u64; 2] = [4096, 3 * 4096];

/// A page in each form over the same window, and the doorbells that were woken.
fn pages() -> (Arc<Memory>, [DoorbellPage; 2], Arc<Mutex<Vec<u64>>>) {
    let window = Memory::reserve_file(4 * 4096).expect("a memory file");
    let woken: Arc<Mutex<Vec<u64>>> = Arc::default();
    let wake = || {
        let woken = Arc::clone(&woken);
        Box::new(move |place| woken.lock().unwrap().push(place)) as WakeEngine
    };
    let pages = [DoorbellPage::new(Arc::clone(&window), wake()), DoorbellPage::gated(Arc::clone(&window), wake())];
    (window, pages, woken)
}

fn rung(window: &Memory) -> [u64; 2] {
    AT.map(|at| Word::load(window.word(at)))
}

#[test]
fn a_ring_reaches_what_is_shown_and_nothing_else() {
    // spec: sync §2.9, sync §3.17
    let (window, pages, woken) = pages();
    for page in pages {
        let address = page.range().map(AddressRange::base);
        page.ring(8);
        assert!(page.show(Some(AT[0])));
        page.ring(16);
        assert_eq!(rung(&window), [16, 0], "the first one led nowhere");
        for wrong in [AT[0] + 64, 4 * 4096, !4095] {
            assert!(!page.show(Some(wrong)), "{wrong:#x}");
        }
        page.ring(24);
        assert_eq!(rung(&window), [24, 0], "a place that there is not changes nothing");
        page.hold();
        assert!(page.show(None));
        page.ring(32);
        assert!(page.show(Some(AT[1])));
        page.ring(40);
        assert_eq!(rung(&window), [24, 40]);
        assert_eq!(page.range().map(AddressRange::base), address, "the address stays");
        // An engine that sleeps is woken at the doorbell that was rung.
        assert_eq!(woken.lock().unwrap().len(), 0);
        Word::store(window.word(AT[1] + doorbell::ASLEEP_OFFSET), 1);
        page.ring(48);
        assert_eq!(std::mem::take(&mut *woken.lock().unwrap()), [AT[1]]);
        page.hold();
        page.show(None);
        page.ring(56);
        assert_eq!(
            (rung(&window), woken.lock().unwrap().len()),
            ([24, 48], 0),
            "a page that leads nowhere wakes no engine"
        );
        window.fill(0, 4 * 4096, 0);
    }
}

#[test]
fn a_ring_waits_while_its_page_is_held() {
    // spec: sync §3.17
    let (window, pages, _) = pages();
    for page in pages {
        assert!(page.show(Some(AT[0])));
        page.hold();
        let rang = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                page.ring(8);
                rang.store(true, Ordering::SeqCst);
            });
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!rang.load(Ordering::SeqCst), "it waits");
            assert_eq!(rung(&window), [0, 0]);
            page.show(None);
        });
        assert_eq!(rung(&window), [0, 0], "it led nowhere");
    }
}

/// A ring that meets a doorbell being taken away, between the page and the status, does not return before the status says so: the store
/// reaches no queue, and the ringing thread finds that out.
#[test]
fn no_ring_falls_between_the_page_and_the_status() {
    // spec: sync §3.17, sync §3.19
    const ROUNDS: u64 = 5;
    const CONNECTED: u64 = 0;
    const RETRY: u64 = 2;
    let (window, pages, _) = pages();
    let value = || window.word(AT[0]);
    for page in &pages {
        for round in 1..=ROUNDS {
            let status = &AtomicU64::new(CONNECTED);
            let ((goes, go), (rang, read)) = (mpsc::channel(), mpsc::channel());
            assert!(page.show(Some(AT[0])));
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    go.recv().unwrap();
                    page.ring(round * 8);
                    rang.send(Word::load(status)).unwrap();
                });
                page.hold();
                goes.send(()).unwrap();
                // A ring that the page does not hold is back by then, with the old status.
                let early = read.recv_timeout(std::time::Duration::from_millis(20));
                Word::store(status, RETRY);
                page.show(None);
                let seen = early.or_else(|_| read.recv()).unwrap();
                assert_eq!(seen, RETRY, "rung, and lost");
                assert_eq!(Word::load(value()), 0, "no ring reaches the doorbell that was taken away");
            });
        }
    }
}
