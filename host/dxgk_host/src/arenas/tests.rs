//! Whose an arena is, and what a process is told of one that is another's.

use kmt_calls::{DoorbellAddress, MappingId, Notification};
use shared_words::ClientAccess;

use super::*;
use crate::remote_process::FilePiece;

/// Notes why its process was lost.
#[derive(Default)]
pub(crate) struct Heard(pub Mutex<Vec<String>>);

impl RemoteProcess for Heard {
    fn shows(&self, _: MappingId, _: u64, _: Vec<FilePiece>) {}
    fn protected(&self, _: MappingId) {}
    fn gone(&self, _: MappingId) {}
    fn doorbell(&self, _: DoorbellAddress, _: Arc<LentFile>) {}
    fn doorbell_gone(&self, _: DoorbellAddress) {}
    fn notify(&self, _: Notification) {}
    fn traces(&self, _: bool) {}
    fn lost(&self, reason: &str) {
        self.0.lock().unwrap().push(reason.to_owned());
    }
}

#[test]
fn an_arena_is_its_process_s_and_no_other_s() {
    let [system, local] = [8, 4].map(|pages| Memory::reserve_file(pages * 4096).expect("a memory file"));
    let (arenas, one, other) = (Arenas::default(), ProcessId(1), ProcessId(2));
    for process in [one, other] {
        arenas.process_comes(process, Arc::new(Heard::default()), &system);
    }
    let of_one = arenas.of(one).expect("it has come");
    let made = || {
        let [written, read] = [ClientAccess::ReadWrite, ClientAccess::Read].map(|access| of_one.system(access));
        [written, read, of_one.local(&local)].map(|file| file.expect("a descriptor"))
    };
    let (files, again) = (made(), made());
    let accesses = [ClientAccess::ReadWrite, ClientAccess::Read, ClientAccess::ReadWrite];
    assert_eq!(files.each_ref().map(|file| file.access()), accesses);
    assert!(files.iter().zip(&again).all(|(file, again)| Arc::ptr_eq(file, again)), "each is made once");
    for file in &files {
        assert_eq!([one, other, ProcessId(3)].map(|process| arenas.may_have(process, file)), [true, false, false]);
    }
    let alone = system.lend(&[(0, 4096)], ClientAccess::Read).expect("a file");
    assert!(arenas.may_have(other, &alone), "files for several processes are no arenas");
    arenas.process_gone(one);
    assert!(arenas.of(one).is_none() && !arenas.may_have(one, &files[0]));
}
