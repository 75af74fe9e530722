//! The memory that a process keeps when the kernel has gone.

use std::sync::mpsc::channel;
use std::time::Duration;

use shared_words::Memory;

use super::*;
use crate::socket::message::PieceOf;
use crate::socket::packets::MESSAGE_MAX;

#[test]
fn a_store_that_is_held_goes_on_when_the_kernel_has_gone() {
    // spec: memory §6.3
    let (ours, theirs) = Packets::pair().expect("two ends");
    let (ours, theirs, hearing) = (Arc::new(ours), Packets::new(theirs), Arc::new(Hearing::default()));
    let listens = std::thread::spawn({
        let (stream, hearing) = (Arc::clone(&ours), Arc::downgrade(&hearing));
        move || listen(&stream, &hearing)
    });
    let memory = Memory::reserve_file(PAGE_BYTES).expect("a page");
    let file = memory.lend(&[(0, PAGE_BYTES)], shared_words::ClientAccess::ReadWrite).expect("its file");
    let say = |before, push: Push, files: &[std::os::fd::BorrowedFd<'_>]| {
        theirs.send(&encode(&Pushed { before, push }, Vec::new()), files).expect("the process hears");
    };
    let (mapping, size_bytes, pieces) =
        (MappingId(1), PAGE_BYTES, vec![PieceOf { file: FileOf::Message(0), offset: 0, bytes: PAGE_BYTES }]);
    let shows = Push::Shows { mapping, size_bytes, files: vec![PAGE_BYTES], pieces, complete: true };
    say(0, shows, &[std::os::fd::AsFd::as_fd(&*file)]);
    say(1, Push::Protected(mapping), &[]);
    theirs.receive(MESSAGE_MAX, 0).expect("that it holds");

    let shown = hearing.mapping(mapping).expect("it was told of");
    let (tells, told) = channel();
    let stores = std::thread::spawn(move || {
        match shown.range() {
            Ok(range) => range.store_words(0, 1, |_| 7),
            Err(_) => shown.write(0, 8, |memory, at, _, _| memory.write(at, &7_u64.to_ne_bytes())),
        }
        tells.send(()).expect("the test waits");
    });
    assert!(told.recv_timeout(Duration::from_millis(50)).is_err(), "content is being moved");
    drop(theirs);
    told.recv_timeout(Duration::from_secs(60)).expect("a store does not wait for a kernel that has gone");
    for thread in [listens, stores] {
        thread.join().expect("no panic");
    }
    let word = memory.word(0).load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(word, 7, "its memory stays what it was, and the store is there");
}

/// A process that hears, and its kernel's end of the stream.
fn hears() -> (Arc<Packets>, Packets, Arc<Hearing>, std::thread::JoinHandle<()>) {
    let (ours, theirs) = Packets::pair().expect("two ends");
    let (ours, theirs, hearing) = (Arc::new(ours), Packets::new(theirs), Arc::new(Hearing::default()));
    let listens = std::thread::spawn({
        let (stream, hearing) = (Arc::clone(&ours), Arc::downgrade(&hearing));
        move || listen(&stream, &hearing)
    });
    (ours, theirs, hearing, listens)
}

#[test]
fn messages_are_carried_out_in_their_order_whichever_way_they_come() {
    let (ours, theirs, hearing, listens) = hears();
    let address = |number| DoorbellAddress(number);
    let gone = |number| Push::DoorbellGone(address(number));
    // The stream is ahead of a response that brings the two messages before this one.
    theirs.send(&encode(&Pushed { before: 2, push: Push::Traces(false) }, Vec::new()), &[]).expect("it listens");
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(hearing.heard().messages, 0, "it waits for what comes before it");
    hearing.with_response(vec![gone(1), Push::Traces(true)], 2, &ours).expect("they are the next");
    assert!(hearing.up_to(3));
    assert!(!hearing.traces(), "the last one counts");
    // A response is ahead of the stream.
    std::thread::scope(|scope| {
        let carried = scope.spawn(|| hearing.with_response(vec![Push::Traces(false)], 5, &ours));
        std::thread::sleep(Duration::from_millis(20));
        assert!(!carried.is_finished(), "it waits for what comes before it");
        theirs.send(&encode(&Pushed { before: 3, push: Push::Traces(true) }, Vec::new()), &[]).expect("it listens");
        carried.join().expect("no panic").expect("it is the next");
    });
    assert!(!hearing.traces() && hearing.up_to(5));
    // A kernel that says one twice, or one that comes before the first, is not believed any more.
    let error = hearing.with_response(vec![Push::Traces(true)], 5, &ours).expect_err("it has been heard");
    assert!(error.to_string().contains("a message that has been heard already"), "{error}");
    listens.join().expect("no panic");
    assert!(hearing.with_response(vec![Push::Traces(true); 2], 1, &ours).is_err());
    assert!(!hearing.traces());
}

#[test]
fn a_message_that_waits_for_others_ends_with_the_stream() {
    let (ours, theirs, hearing, listens) = hears();
    theirs.send(&encode(&Pushed { before: 9, push: Push::Traces(true) }, Vec::new()), &[]).expect("it listens");
    std::thread::scope(|scope| {
        let carried = scope.spawn(|| hearing.with_response(vec![Push::Traces(true)], 7, &ours));
        std::thread::sleep(Duration::from_millis(20));
        hearing.end(&PacketError::Malformed("for a test"));
        carried.join().expect("no panic").expect_err("the stream has ended");
    });
    listens.join().expect("no panic");
    let why = hearing.blamed(PacketError::Closed).to_string();
    assert!(why.contains("for a test"), "the first reason stands: {why}");
}
