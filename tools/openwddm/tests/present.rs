//! `openwddm present`: nothing is torn as long as drawings say what they write, and much is when they do not.

use std::path::Path;
use std::process::{Command, Output};

fn present(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_openwddm"));
    command.current_dir(folder).arg("present").args(words).output().expect("the binary runs")
}

/// The number behind a word of the table.
fn number(output: &Output, word: &str) -> u64 {
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.trim_start().starts_with(word));
    let number = line.and_then(|line| line.split_whitespace().last()?.parse().ok());
    number.unwrap_or_else(|| panic!("no {word}: {text} {}", String::from_utf8_lossy(&output.stderr)))
}

const SMALL: [&str; 6] = ["--virtual-time", "--size", "64x48", "--frames", "12", "--pictures"];

#[test]
fn pictures_are_whole_because_drawings_say_what_they_write() {
    let folder = tempfile::tempdir().unwrap();
    let careful = present(folder.path(), &[&SMALL[..], &["."]].concat());
    assert_eq!(careful.status.code(), Some(0), "{careful:?}");
    assert_eq!((number(&careful, "flips shown"), number(&careful, "torn")), (12, 0));
    let pictures = || std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path()).collect::<Vec<_>>();
    assert_eq!(pictures().len() as u64, number(&careful, "frames"));
    // The last picture, as the engines have drawn it.
    let last = pictures().into_iter().max().unwrap();
    let mut reader =
        png::Decoder::new(std::io::BufReader::new(std::fs::File::open(last).unwrap())).read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut bytes).unwrap();
    assert_eq!((info.width, info.height, bytes.len()), (64, 48, 64 * 48 * 3));
    let bar = |row: usize| (0..64).position(|at| bytes[(row * 64 + at) * 3..][..3] == [0xff, 0xd7, 0x5f]);
    assert!((0..48).all(|row| bar(row) == bar(0)) && bar(0).is_some(), "one bar, whole");
    assert_eq!(bytes[..3], [24 + 11, 40 + 11, 72 + 11], "the ground of the last picture");
}

#[test]
fn what_is_torn_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let careless = present(folder.path(), &[&SMALL[..], &[".", "--careless"]].concat());
    assert_eq!(careless.status.code(), Some(0), "it was asked for: {careless:?}");
    assert!(number(&careless, "torn") >= 4, "{careless:?}");
    let torn = std::fs::read_dir(folder.path()).unwrap();
    let torn = torn.filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().contains("torn")).count();
    assert_eq!(torn as u64, number(&careless, "torn"));
    // Three surfaces, and slower; and without waiting for blanks.
    for words in [["--buffers", "3", "--interval", "2"], ["--buffers", "3", "--interval", "0"]] {
        let shown = present(folder.path(), &[&SMALL[..5], &words[..]].concat());
        assert_eq!((shown.status.code(), number(&shown, "flips shown")), (Some(0), 12));
        assert_eq!(number(&shown, "torn") > 0, words[3] == "0", "{shown:?}");
    }
}

/// In virtual time, so that the figures are exact.
#[test]
fn a_flip_queue_of_the_hardware_interrupts_only_for_flips_that_a_process_waits_for() {
    // spec: sync §4.6
    let folder = tempfile::tempdir().unwrap();
    let interrupts = |words: &[&str]| {
        let queue = ["--virtual-time", "--size", "64x48", "--frames", "60", "--adapter", "flip-queue"];
        let shown = present(folder.path(), &[&queue[..], words].concat());
        assert_eq!((number(&shown, "flips shown"), number(&shown, "torn")), (60, 0), "{shown:?}");
        (number(&shown, "interrupts of the display"), number(&shown, "when the kernel keeps the queue"))
    };
    assert_eq!(
        interrupts(&["--burst", "12"]),
        (7, 61),
        "the first flip, each burst's last, and the last picture's blank"
    );
    assert_eq!(
        interrupts(&["--buffers", "4", "--interval", "4"]),
        (70, 238),
        "the display interrupts for no blank between flips"
    );
}

#[test]
fn in_real_time_nothing_is_torn_either() {
    let folder = tempfile::tempdir().unwrap();
    for adapter in ["discrete-4k", "wddm1-banks", "iommu"] {
        let shown = present(folder.path(), &["--size", "64x48", "--frames", "6", "--adapter", adapter]);
        assert_eq!((shown.status.code(), number(&shown, "flips shown"), number(&shown, "torn")), (Some(0), 6, 0));
    }
}

/// Its lists say what is written and bring in what is flipped.
#[test]
fn an_adapter_of_the_first_generation_shows_whole_pictures_too() {
    // spec: memory §5.7, memory §6.1
    let folder = tempfile::tempdir().unwrap();
    let shown = present(folder.path(), &[&SMALL[..], &[".", "--adapter", "wddm1-banks"]].concat());
    assert_eq!((shown.status.code(), number(&shown, "flips shown"), number(&shown, "torn")), (Some(0), 12, 0));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count() as u64, number(&shown, "frames"));
}

#[test]
fn wrong_numbers_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (words, said) in [
        (["--size", "0x48"], "from 8 to"),
        (["--size", "large"], "WIDTHxHEIGHT"),
        (["--frames", "0"], "from 1 to"),
        (["--buffers", "1"], "from 2 to"),
        (["--burst", "17"], "from 2 to"),
        (["--interval", "5"], "0 to 4"),
        (["--adapter", "voodoo"], "discrete-4k"),
        (["--adapter", "datacenter"], "has no display"),
        (["--adapter=wddm1-banks", "--careless"], "say what they write"),
        (["--pictures", "no/such/folder"], "does not exist"),
    ] {
        let refused = present(folder.path(), &words);
        let text = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(2) && text.contains(said), "{words:?}: {text}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
