//! Questions and answers, without a process between but where it is silent.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use super::look::look_by;
use super::*;

/// What was written, as several threads write it.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Written {
    /// The answers, in the order of their questions.
    fn answers(&self) -> Vec<(u32, bool, String)> {
        let mut pipes = Unread(self.0.lock().unwrap().clone());
        let mut answers: Vec<_> = std::iter::from_fn(|| pipes.next()).collect();
        answers.sort();
        answers
    }
}

/// Answers that were not taken yet.
struct Unread(Vec<u8>);

impl Unread {
    fn next(&mut self) -> Option<(u32, bool, String)> {
        let (of, (good, text)) = next_answer(&mut self.0).expect("answers")?;
        Some((of, good, text))
    }
}

/// The answers to these bytes.
fn answers(file: Option<&Path>, asks: &[u8]) -> Vec<(bool, String)> {
    let out = Written::default();
    look(file, None, asks, out.clone()).expect("memory takes everything");
    out.answers().into_iter().map(|(_, good, text)| (good, text)).collect()
}

#[test]
fn a_process_has_a_name_while_it_is_there() {
    // CAST: the operating system's numbers fit.
    let own = std::process::id() as i32;
    let known = name_of(own).expect("this program has a name");
    assert!(!known.is_empty() && !known.ends_with('\n'));
    let asks = [Ask::Name(own).bytes(1), Ask::Name(i32::MAX).bytes(2), Ask::Name(own).bytes(3)].concat();
    let [first, none, again] = <[_; 3]>::try_from(answers(None, &asks)).expect("three answers");
    assert_eq!((first, again), ((true, known.clone()), (true, known)));
    assert_eq!(none, (false, format!("process {} has no name", i32::MAX)));
}

#[test]
fn the_file_is_read_anew_at_its_path_and_no_other_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("serve.toml");
    std::fs::write(&path, "a").expect("a file");
    assert_eq!(answers(Some(&path), &Ask::File.bytes(1)), [(true, "a".to_owned())]);
    std::fs::write(folder.path().join("new"), "bc").expect("a file");
    std::fs::rename(folder.path().join("new"), &path).expect("it takes its place");
    assert_eq!(answers(Some(&path), &Ask::File.bytes(1)), [(true, "bc".to_owned())]);
    std::fs::write(&path, vec![b'x'; ANSWER_BYTES_MAX + 1]).expect("a file");
    assert!(!answers(Some(&path), &Ask::File.bytes(1))[0].0, "it is too long");
    assert!(!answers(None, &Ask::File.bytes(1))[0].0, "there is none");
    assert_eq!(answers(Some(&path), &[9; ASK_BYTES]), [(false, "no question has the number 9".to_owned())]);
    assert_eq!(answers(Some(&path), &[2, 0, 0]), [], "a part of a question");
}

#[test]
fn a_process_that_has_gone_is_asked_once() {
    let outside = Outside::start(Command::new("true")).expect("it starts");
    assert!(matches!(outside.file(), Err(OutsideError::Gone(_))));
    assert!(matches!(outside.file(), Err(OutsideError::GivenUp)));
    assert_eq!(outside.name_of(1), None);
}

#[test]
fn a_question_without_an_answer_fails_alone_and_its_late_answer_is_dropped() {
    // It answers the first question behind the second.
    let script = r"head -c 18 >/dev/null; printf '\1\1\0\0\0\4\0\0\0late\1\2\0\0\0\4\0\0\0good'; cat >/dev/null";
    let mut program = Command::new("sh");
    program.args(["-c", script]);
    let mut outside = Outside::start(program).expect("it starts");
    outside.within = Duration::from_millis(1);
    assert!(matches!(outside.file(), Err(OutsideError::Late(_))), "it waits for a second question");
    outside.within = Duration::from_secs(60);
    assert_eq!(outside.file().expect("an answer"), "good");
}

#[test]
fn a_file_that_blocks_its_reader_keeps_no_other_question_waiting() {
    let (unblock, blocked) = channel::<()>();
    let (blocked, begun) = (Arc::new(Mutex::new(blocked)), Arc::new(AtomicU32::new(0)));
    let nth = Arc::clone(&begun);
    let read = move || match nth.fetch_add(1, Ordering::AcqRel) {
        // The test ends it by dropping the sender.
        0 => Err(format!("{:?}", blocked.lock().unwrap().recv())),
        _ => Ok("text".to_owned()),
    };
    let (out, (asks, mut ask)) = (Written::default(), io::pipe().expect("a pipe"));
    let answers = out.clone();
    let looks = std::thread::spawn(move || look_by(read, None, asks, answers));
    let until = |holds: &dyn Fn() -> bool| {
        while !holds() {
            std::thread::yield_now()
        }
    };
    ask.write_all(&Ask::File.bytes(1)).expect("it is heard");
    until(&|| begun.load(Ordering::Acquire) == 1);
    // CAST: the operating system's numbers fit.
    ask.write_all(&[Ask::Name(std::process::id() as i32).bytes(2), Ask::File.bytes(3)].concat())
        .expect("they are heard");
    until(&|| out.answers().len() == 2);
    assert_eq!(out.answers()[1], (3, true, "text".to_owned()));
    drop(unblock);
    until(&|| out.answers().len() == 3);
    assert_eq!(out.answers()[0], (1, false, "Err(RecvError)".to_owned()), "a late answer says of what");
    drop(ask);
    looks.join().expect("no panic").expect("memory takes everything");
}

#[test]
fn a_pipe_at_the_path_is_refused_and_no_reader_waits_for_its_writer() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("serve.toml");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).expect("a pipe");
    let refused = (false, "it is no ordinary file; put one there".to_owned());
    assert_eq!(answers(Some(&path), &Ask::File.bytes(1)), [refused]);
    std::fs::remove_file(&path).expect("it goes");
    std::fs::write(&path, "a").expect("a file");
    assert_eq!(answers(Some(&path), &Ask::File.bytes(1)), [(true, "a".to_owned())]);
}

#[test]
fn records_have_files_of_their_own_and_a_bound() {
    let folder = tempfile::tempdir().expect("a folder");
    let ask = |text: &[u8]| [&Ask::Record(u32::try_from(text.len()).expect("short")).bytes(1)[..], text].concat();
    let many: Vec<u8> = (0..=RECORDS_MAX).flat_map(|nth| ask(format!("record {nth}").as_bytes())).collect();
    let out = Written::default();
    look(None, Some(folder.path()), &many[..], out.clone()).expect("memory takes everything");
    let mut texts: Vec<String> = std::fs::read_dir(folder.path())
        .expect("the folder")
        .map(|file| std::fs::read_to_string(file.expect("a file").path()).expect("its text"))
        .collect();
    texts.sort_by_key(|text| text.split(' ').next_back().and_then(|nth| nth.parse::<u32>().ok()));
    assert_eq!(texts, (0..RECORDS_MAX).map(|nth| format!("record {nth}")).collect::<Vec<_>>());
    let has = |out: &Written, said| out.answers().iter().any(|(_, good, text)| !good && text.contains(said));
    assert!(has(&out, "all 16 records that it may"), "the last is refused");
    let out = Written::default();
    look(None, None, &ask(b"record")[..], out.clone()).expect("memory takes everything");
    assert!(has(&out, "no folder for records"), "there is no folder");
}
