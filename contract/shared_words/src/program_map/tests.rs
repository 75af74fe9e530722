//! Lines of the list of mappings, and the reasons why memory is not given.

use super::*;

#[test]
fn a_line_is_read_as_the_operating_system_writes_it() {
    let line = "7f0000001000-7f0000004000 rw-s 00002000 08:03 1234                       /memfd:x (deleted)";
    let whole = Part {
        start: 0x7f00_0000_1000,
        end: 0x7f00_0000_4000,
        protection: READ | WRITE,
        shared: true,
        of: (0x8_0000_0003, 1234, 0x2000),
    };
    assert_eq!(part(line), Some(whole));
    for (rights, protection) in [("r--p", 1), ("-w-p", 2), ("--xp", 4), ("rwxp", 7), ("---p", 0)] {
        let found = part(&line.replace("rw-s", rights)).expect("a line");
        assert_eq!((found.protection, found.shared), (protection, false), "{rights}");
    }
    for wrong in ["", "7f00-", "x-y rw-s 0 0:0 1", "1-2 rw-s 0 0 1", "1-2 rw-s 0 0:0"] {
        assert_eq!(part(wrong), None, "{wrong}");
    }
}

#[test]
fn a_refusal_says_where_and_what_to_do() {
    for (error, says) in [
        (ProgramError::NotMapped(0x7000), "no memory at 0x7000"),
        (
            ProgramError::Mixed(0x7000),
            "0x7000 is shared (MAP_SHARED), and the range is not consecutive bytes of one file",
        ),
        (
            ProgramError::NoDescriptor(0x7000),
            "0x7000 is shared (MAP_SHARED), and the program has no descriptor of its file",
        ),
        (ProgramError::NotSealed(0x7000), "0x7000 is shared (MAP_SHARED) by a file that cannot take the seal"),
        (ProgramError::System(Errno::PERM), "does not let memory of the program be given: Operation not permitted"),
    ] {
        assert!(error.to_string().contains(says), "{error}");
    }
}
