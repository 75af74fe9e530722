//! The memory that a process keeps when the kernel has gone.

use std::sync::mpsc::channel;
use std::time::Duration;

use super::*;

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
    let say = |push: Push, files: &[std::os::fd::BorrowedFd<'_>]| {
        theirs.send(&encode(&push, Vec::new()), files).expect("the process hears");
    };
    let (mapping, size_bytes, pieces) =
        (MappingId(1), PAGE_BYTES, vec![PieceOf { file: FileOf::Message(0), offset: 0, bytes: PAGE_BYTES }]);
    let shows = Push::Shows { mapping, size_bytes, files: vec![PAGE_BYTES], pieces, complete: true };
    say(shows, &[std::os::fd::AsFd::as_fd(&*file)]);
    say(Push::Protected(mapping), &[]);
    theirs.receive(MESSAGE_MAX, 0).expect("that it holds");

    let shown = hearing.mapping(mapping).expect("it was told of");
    let (tells, told) = channel();
    let stores = std::thread::spawn(move || {
        match shown.range() {
            Ok(range) => range.store_words(0, 1, |_| 7),
            Err(_) => shown.write(0, 8, |_, _, _, _| {}),
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
    assert_eq!(word, 0, "a store after the kernel's end reaches no allocation");
}
