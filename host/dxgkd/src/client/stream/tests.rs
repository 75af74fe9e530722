//! The daemon's messages to a client, the reasons to end a client, and stores that the daemon holds without asking the client.

use std::sync::mpsc::channel;

use shared_words::{AddressRange, Memory};

use super::*;

use crate::limits::user::Users;
use crate::limits::{Limits, ProcessLimits, UNLIMITED, UserLimits};

const SHORT: Duration = Duration::from_millis(20);
/// An event that has not happened within this never does.
const LONG: Duration = Duration::from_secs(60);

fn user(unheard: u64, together: u64) -> Arc<User> {
    let process = ProcessLimits { unheard, answer_ms: SHORT.as_millis() as u64, ..ProcessLimits::default() };
    let user = UserLimits { unheard: together, ..UserLimits::default() };
    Users::default().find(1000, &Limits { process, user, ..Limits::default() })
}

fn stream_of(user: &Arc<User>) -> (Stream, Packets) {
    let (ours, theirs) = Packets::pair().expect("two descriptors");
    (Stream::new(ours, Arc::clone(user), None), Packets::new(theirs))
}

/// A stream, and the client's end of it.
fn stream(unheard: u64) -> (Stream, Packets) {
    stream_of(&user(unheard, UNLIMITED))
}

#[test]
fn who_does_not_answer_for_a_mapping_is_ended() {
    let (stream, _client) = stream(8);
    stream.push_shows(MappingId(1), 0, Vec::new());
    stream.push_protected(MappingId(1));
    assert!(
        stream.send_all(&|_| {}).contains("has not acknowledged a change of a mapping within 20ms, of 20ms in all")
    );
}

#[test]
fn who_answers_for_one_of_two_changes_is_ended_for_the_other() {
    let (stream, _client) = stream(8);
    (0..3).for_each(|_| stream.push_shows(MappingId(1), 0, Vec::new()));
    stream.answered(MappingId(1));
    assert!(stream.send_all(&|_| {}).contains("has not acknowledged a change of a mapping"));
}

#[test]
fn who_answers_is_not() {
    let (stream, client) = stream(8);
    (0..2).for_each(|_| stream.push_shows(MappingId(1), 0, Vec::new()));
    stream.answered(MappingId(1));
    (0..3).for_each(|_| stream.push_shows(MappingId(2), 0, Vec::new()));
    stream.push_gone(MappingId(2));
    std::thread::scope(|scope| {
        let sends = scope.spawn(|| stream.send_all(&|_| {}));
        std::thread::sleep(3 * SHORT);
        assert!(!sends.is_finished());
        drop(client);
        stream.end("over");
        assert_eq!(sends.join().expect("no panic"), "over");
    });
}

#[test]
fn a_client_that_reads_slowly_reads_all_in_order() {
    // The limit is so long that a slow machine does not end the client.
    let process = ProcessLimits { unheard: UNLIMITED, answer_ms: 60_000, ..ProcessLimits::default() };
    let user = UserLimits { unheard: UNLIMITED, ..UserLimits::default() };
    let user = Users::default().find(1000, &Limits { process, user, ..Limits::default() });
    let (stream, client) = stream_of(&user);
    std::thread::scope(|scope| {
        let sends = scope.spawn(|| stream.send_all(&|_| {}));
        // The stream sends some messages at once; the others are more than any socket takes.
        for part in 0..4 {
            let mappings = part * 5_000..(part + 1) * 5_000;
            mappings.clone().for_each(|mapping| stream.push(Push::Gone(MappingId(mapping)), Vec::new()));
            for mapping in mappings {
                let (bytes, _) = client.receive(64, 0).expect("a message");
                let expected = Pushed { before: mapping, push: Push::Gone(MappingId(mapping)) };
                assert_eq!(kmt_calls::wire::decode::<Pushed>(&bytes).ok(), Some(expected));
            }
        }
        stream.end("over");
        assert_eq!(sends.join().expect("no panic"), "over");
    });
    assert_eq!(stream.pushed(true).0, 20_000);
}

#[test]
fn who_leaves_too_much_unheard_is_ended_and_nothing_more_is_kept_for_it() {
    let (stream, _client) = stream(3);
    for mapping in 0..4 {
        stream.push(Push::Gone(MappingId(mapping)), Vec::new());
    }
    assert_eq!(stream.pushed(true).0, 3);
    assert!(stream.has_ended() && stream.state().waiting.is_empty());
    assert!(
        stream
            .send_all(&|_| {})
            .contains("limit of unheard messages: 3 wait for the process, which may leave 3 unheard")
    );
}

#[test]
fn who_hears_nothing_keeps_no_thread() {
    let (stream, _client) = stream(UNLIMITED);
    // More than any socket takes.
    for mapping in 0..100_000 {
        stream.push(Push::Gone(MappingId(mapping)), Vec::new());
    }
    assert!(stream.send_all(&|_| {}).contains("has read no message"));
}

#[test]
fn the_clients_of_a_user_share_what_they_may_leave_unheard() {
    let user = user(UNLIMITED, 5);
    let ((first, _first), (second, _second)) = (stream_of(&user), stream_of(&user));
    (0..3).for_each(|mapping| first.push(Push::Gone(MappingId(mapping)), Vec::new()));
    (0..2).for_each(|mapping| second.push(Push::Gone(MappingId(mapping)), Vec::new()));
    assert!(!first.has_ended() && !second.has_ended());
    second.push(Push::Gone(MappingId(2)), Vec::new());
    assert!(second.send_all(&|_| {}).contains("the processes of its user leave all 5 unheard"));
    // The ended stream's share is free for the other.
    (0..2).for_each(|mapping| first.push(Push::Gone(MappingId(mapping)), Vec::new()));
    assert!(!first.has_ended());
}

/// A client that has a page of a file at addresses of its own, and lets the daemon hold its stores.
struct Lends {
    user: Arc<User>,
    range: AddressRange,
    _memory: Arc<Memory>,
}

impl Lends {
    /// `None`: the operating system holds no stores.
    fn new() -> Option<Lends> {
        let range = AddressRange::reserve(PAGE_BYTES).ok()?;
        let memory = Memory::reserve_file(PAGE_BYTES).expect("a page");
        range.show([(&*memory, 0, PAGE_BYTES)].into_iter()).expect("a mapping");
        Some(Lends { user: user(8, UNLIMITED), range, _memory: memory })
    }

    fn stream(&self) -> (Stream, Packets) {
        let given = StoresElsewhere::ours().expect("a range has been reserved").try_clone_to_owned();
        let stores = StoresElsewhere::given(given.expect("a descriptor")).expect("it is one of these");
        let (ours, theirs) = Packets::pair().expect("two descriptors");
        (Stream::new(ours, Arc::clone(&self.user), Some(stores)), Packets::new(theirs))
    }

    /// The stream shows the client a mapping, and the client says where it has it.
    fn has(&self, stream: &Stream, mapping: MappingId) {
        stream.push_shows(mapping, PAGE_BYTES, Vec::new());
        stream.placed(&[Placed { mapping, address: self.range.base().as_ptr() as u64 }]);
    }

    /// Whether a store completes within this time; the end releases a store that waits.
    fn stores_within(&self, time: Duration) -> bool {
        let (says, hears) = channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                self.range.store_words(0, 1, |_| 7);
                says.send(()).expect("it is heard");
            });
            let is_over = hears.recv_timeout(time).is_ok();
            self.range.release();
            is_over
        })
    }
}

// spec: memory §6.3
#[test]
fn stores_of_a_client_are_held_without_asking_it() {
    let Some(client) = Lends::new() else { return };
    let (stream, hears) = client.stream();
    let mapping = MappingId(1);
    client.has(&stream, mapping);
    assert!(client.stores_within(LONG));
    stream.push_protected(mapping);
    let (says, holds) = channel();
    std::thread::scope(|scope| {
        scope.spawn(|| stream.send_all(&|mapping| says.send(mapping).expect("it is heard")));
        assert_eq!(holds.recv_timeout(LONG), Ok(mapping));
        assert!(!client.stores_within(10 * SHORT), "the client stores into memory that moves");
        stream.push_gone(mapping);
        // The client hears that the mapping shows something and that it is gone; the daemon did not ask it to hold its stores between.
        let told = [(); 2].map(|()| hears.receive(1 << 12, 0).expect("a message").0);
        assert!(matches!(kmt_calls::wire::decode(&told[0]), Ok(Pushed { before: 0, push: Push::Shows { .. } })));
        assert!(matches!(kmt_calls::wire::decode(&told[1]), Ok(Pushed { before: 1, push: Push::Gone(_) })));
        assert_eq!(stream.pushed(true).0, 2);
        stream.end("over");
    });
}

#[test]
fn nothing_stays_held_of_a_client_that_has_ended() {
    let Some(client) = Lends::new() else { return };
    for the_client_ends_it in [true, false] {
        let (stream, hears) = client.stream();
        client.has(&stream, MappingId(1));
        stream.push_protected(MappingId(1));
        let placement = Placement { address: client.range.base().as_ptr() as u64, bytes: PAGE_BYTES };
        match the_client_ends_it {
            true => hears.close(),
            false => _ = stream.end("over"),
        }
        stream.hold(placement).expect("its process is there");
        assert!(client.stores_within(LONG), "by the client: {the_client_ends_it}");
    }
}

#[test]
fn who_has_a_mapping_nowhere_where_it_says_is_ended() {
    let Some(client) = Lends::new() else { return };
    let (stream, _hears) = client.stream();
    stream.push_shows(MappingId(1), PAGE_BYTES, Vec::new());
    stream.placed(&[Placed { mapping: MappingId(1), address: u64::MAX - 0xfff }]);
    stream.push_protected(MappingId(1));
    assert!(stream.send_all(&|_| panic!("nothing is held")).contains("cannot hold its stores"));
}
