//! Messages that go with a response, and those that do not.

use std::sync::Arc;

use kmt_calls::MappingId;
use kmt_link::socket::{FileOf, Packets, PieceOf, Push, Pushed};

use super::{MESSAGES_MAX, PARTS_MAX};
use crate::client::stream::Stream;
use crate::limits::Limits;
use crate::limits::user::Users;

fn gone(mapping: u64) -> Push {
    Push::Gone(MappingId(mapping))
}

/// Runs a test on the thread of a lane, while the sending thread sleeps.
fn on_a_lane(test: impl FnOnce(&Stream, &Packets)) {
    let (ours, theirs) = Packets::pair().expect("two descriptors");
    let user = Users::default().find(1000, &Limits::default());
    let (stream, client) = (Stream::new(ours, Arc::clone(&user), None), Packets::new(theirs));
    std::thread::scope(|scope| {
        let sends = scope.spawn(|| stream.send_all(&|_| {}));
        while !stream.state().idle {
            std::thread::yield_now();
        }
        stream.serves_here();
        test(&stream, &client);
        stream.end("over");
        assert_eq!(sends.join().expect("no panic"), "over");
    });
}

/// The next message on the stream.
fn heard(client: &Packets) -> Pushed {
    let (bytes, _) = client.receive(1 << 16, 0).expect("a message");
    kmt_calls::wire::decode(&bytes).expect("a message of the daemon")
}

#[test]
fn what_a_call_causes_goes_with_its_response() {
    on_a_lane(|stream, client| {
        (0..3).for_each(|mapping| stream.push(gone(mapping), Vec::new()));
        assert_eq!(stream.pushed(false), (0, Vec::new()), "another lane's response does not wait for them");
        assert_eq!(stream.pushed(true), (3, (0..3).map(gone).collect()));
        assert_eq!(stream.pushed(true), (3, Vec::new()), "they go once");
        // None is on the stream: the next one there is the next one of all.
        stream.push(gone(3), Vec::new());
        stream.let_go();
        assert_eq!(heard(client), Pushed { before: 3, push: gone(3) });
    });
}

#[test]
fn what_comes_behind_on_the_stream_takes_them_with_it_in_order() {
    on_a_lane(|stream, client| {
        stream.push(gone(0), Vec::new());
        std::thread::scope(|scope| scope.spawn(|| stream.push(gone(1), Vec::new())).join().expect("no panic"));
        for before in 0..2 {
            assert_eq!(heard(client), Pushed { before, push: gone(before) });
        }
        assert_eq!(stream.pushed(true), (2, Vec::new()));
        stream.push(gone(2), Vec::new());
        assert_eq!(stream.pushed(true), (3, vec![gone(2)]), "and the next one is kept again");
    });
}

#[test]
fn a_call_that_sleeps_keeps_none() {
    on_a_lane(|stream, client| {
        stream.push(gone(0), Vec::new());
        stream.let_go();
        assert_eq!(heard(client), Pushed { before: 0, push: gone(0) });
        assert_eq!(stream.pushed(true), (1, Vec::new()));
    });
}

#[test]
fn a_response_stays_short() {
    on_a_lane(|stream, client| {
        (0..=MESSAGES_MAX as u64).for_each(|mapping| stream.push(gone(mapping), Vec::new()));
        (0..=MESSAGES_MAX as u64).for_each(|before| assert_eq!(heard(client).before, before));
        let piece = PieceOf { file: FileOf::Arena(0), offset: 0, bytes: 4096 };
        let shows = |parts| Push::Shows {
            mapping: MappingId(1),
            size_bytes: 4096 * parts as u64,
            files: Vec::new(),
            pieces: vec![piece; parts],
            complete: true,
        };
        stream.push(shows(PARTS_MAX), Vec::new());
        assert_eq!(stream.pushed(true).1, vec![shows(PARTS_MAX)]);
        stream.push(shows(PARTS_MAX + 1), Vec::new());
        assert_eq!(stream.pushed(true).1, Vec::new());
        assert_eq!(heard(client).push, shows(PARTS_MAX + 1));
    });
}
