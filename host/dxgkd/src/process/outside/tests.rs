//! Questions and answers, without a process between but where it is silent.

use super::*;

/// The answers to these bytes.
fn answers(file: Option<&Path>, asks: &[u8]) -> Vec<(bool, String)> {
    let mut out = Vec::new();
    look(file, None, asks, &mut out).expect("memory takes everything");
    let (mut rest, mut answers) = (&out[..], Vec::new());
    while let Some((head, more)) = rest.split_first_chunk::<5>() {
        let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
        answers.push((head[0] == 1, String::from_utf8(more[..length].to_vec()).expect("text")));
        rest = &more[length..];
    }
    answers
}

#[test]
fn a_process_has_a_name_while_it_is_there() {
    // CAST: the operating system's numbers fit.
    let own = std::process::id() as i32;
    let known = name_of(own).expect("this program has a name");
    assert!(!known.is_empty() && !known.ends_with('\n'));
    let asks = [Ask::Name(own).bytes(), Ask::Name(i32::MAX).bytes(), Ask::Name(own).bytes()].concat();
    let [first, none, again] = <[_; 3]>::try_from(answers(None, &asks)).expect("three answers");
    assert_eq!((first, again), ((true, known.clone()), (true, known)));
    assert_eq!(none, (false, format!("process {} has no name", i32::MAX)));
}

#[test]
fn the_file_is_read_anew_at_its_path_and_no_other_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("serve.toml");
    std::fs::write(&path, "a").expect("a file");
    assert_eq!(answers(Some(&path), &Ask::File.bytes()), [(true, "a".to_owned())]);
    std::fs::write(folder.path().join("new"), "bc").expect("a file");
    std::fs::rename(folder.path().join("new"), &path).expect("it takes its place");
    assert_eq!(answers(Some(&path), &Ask::File.bytes()), [(true, "bc".to_owned())]);
    std::fs::write(&path, vec![b'x'; ANSWER_BYTES_MAX + 1]).expect("a file");
    assert!(!answers(Some(&path), &Ask::File.bytes())[0].0, "it is too long");
    assert!(!answers(None, &Ask::File.bytes())[0].0, "there is none");
    assert_eq!(answers(Some(&path), &[9, 0, 0, 0, 0]), [(false, "no question has the number 9".to_owned())]);
    assert_eq!(answers(Some(&path), &[2, 0, 0]), [], "a part of a question");
}

#[test]
fn a_process_that_does_not_speak_is_asked_once() {
    let outside = Outside::start(Command::new("true")).expect("it starts");
    assert!(matches!(outside.file(), Err(OutsideError::Silent(_))));
    assert!(matches!(outside.file(), Err(OutsideError::GivenUp)));
    assert_eq!(outside.name_of(1), None);
}

#[test]
fn records_have_files_of_their_own_and_a_bound() {
    let folder = tempfile::tempdir().expect("a folder");
    let ask = |text: &[u8]| [&Ask::Record(u32::try_from(text.len()).expect("short")).bytes()[..], text].concat();
    let many: Vec<u8> = (0..=RECORDS_MAX).flat_map(|nth| ask(format!("record {nth}").as_bytes())).collect();
    let mut out = Vec::new();
    look(None, Some(folder.path()), &many[..], &mut out).expect("memory takes everything");
    let mut texts: Vec<String> = std::fs::read_dir(folder.path())
        .expect("the folder")
        .map(|file| std::fs::read_to_string(file.expect("a file").path()).expect("its text"))
        .collect();
    texts.sort_by_key(|text| text.split(' ').next_back().and_then(|nth| nth.parse::<u32>().ok()));
    assert_eq!(texts, (0..RECORDS_MAX).map(|nth| format!("record {nth}")).collect::<Vec<_>>());
    assert!(String::from_utf8_lossy(&out).contains("all 16 records that it may"), "the last is refused");
    let mut out = Vec::new();
    look(None, None, &ask(b"record")[..], &mut out).expect("memory takes everything");
    assert!(String::from_utf8_lossy(&out).contains("no folder for records"), "there is no folder");
}
