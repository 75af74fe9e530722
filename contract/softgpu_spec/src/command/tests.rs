//! Every command there and back, and what is no command.

use super::*;

const SLOT: LogSlot = LogSlot { entry_va: 0x1000, header_va: 0x2000, handle: 9 };

const ENTRIES: [u64; 3] = [1, 2, 3];

/// Each command, those with an optional part twice.
fn each() -> Vec<Command<'static>> {
    let tiling = Tiling::of_pitch(1024).expect("two tiles");
    vec![
        Command::Nop,
        Command::Wait { va: 8, value: 2, log: None },
        Command::Wait { va: 8, value: 2, log: Some(SLOT) },
        Command::Signal { current_va: 8, monitored_va: 16, value: 3, log: None },
        Command::Signal { current_va: 8, monitored_va: 16, value: 3, log: Some(SLOT) },
        Command::SignalAlways { va: 8, value: 3 },
        Command::Log { slot: SLOT, operation: 2, value: 3 },
        Command::Branch { va: 4096, words: 12 },
        Command::BranchPhysical { bus: 1 << 46, words: 12 },
        Command::Complete { value: u64::MAX },
        Command::Timestamp { va: 8 },
        Command::Copy { source_va: 1, target_va: 2, bytes: 8 },
        Command::Fill { va: 1, bytes: 16, pattern: 0xffff_0001 },
        Command::Store { va: 8, words: &ENTRIES },
        Command::StoreRun { va: 8, count: 512, first: 1, step: 4096 },
        Command::CopyRun { source_va: 8, target_va: 16, count: 512 },
        Command::TouchPhysical { bus: 8, write: true },
        Command::Touch { va: 1, bytes: 16, write: true, within: false },
        Command::Touch { va: 1, bytes: 16, write: false, within: true },
        Command::Work { ns: u64::MAX },
        Command::Pattern { va: 1, bytes: 16, seed: 3 },
        Command::Check { va: 1, bytes: 16, seed: 3, report_va: 4, tag: 5 },
        Command::Checksum { va: 1, bytes: 16, result_va: 3 },
        Command::Saxpy { x_va: 1, y_va: 2, elements: 4, a_bits: 0x3f80_0000 },
        Command::CopyPhysical { source_bus: 1, target_bus: 2, bytes: 8 },
        Command::FillPhysical { target_bus: 1, bytes: 16, pattern: 3 },
        Command::CopyTiled { linear_bus: 1, surface_bus: 2, offset: 8, bytes: 16, tiling, swizzle: true },
        Command::WriteEntries { table: 4096, first: 509, entries: &ENTRIES },
        Command::WriteEntryRun { table: 4096, first: 0, count: 512, entry: 1, step: 4096 },
        Command::MapAperture { first: 1, count: 2, system_address: 4096, step: 0 },
        Command::FlushTlb { root: u64::MAX, first_va: 0, last_va: 0 },
    ]
}

#[test]
fn every_command_decodes_to_itself() {
    let commands = each();
    let mut words = Vec::new();
    for command in &commands {
        let before = words.len();
        command.encode(&mut words);
        assert_eq!(words.len() - before, command.words(), "{command:?}");
    }
    let mut rest = &words[..];
    for command in &commands {
        let (decoded, length) = Command::decode(rest).expect("a command");
        assert_eq!(&decoded, command);
        rest = &rest[length..];
    }
    assert!(rest.is_empty());
}

#[test]
fn what_is_no_command_is_refused() {
    assert_eq!(Command::decode(&[]), Err(DecodeError::Cut { needed: 1, left: 0 }));
    assert!(Command::decode(&[0]).is_err(), "no words");
    assert_eq!(Command::decode(&[0x7f | 1 << 8]), Err(DecodeError::Opcode(0x7f)));
    assert_eq!(Command::decode(&[0x10 | 4 << 8, 0, 0]), Err(DecodeError::Cut { needed: 4, left: 3 }));
    assert!(Command::decode(&[0x10 | 4 << 8, 0, 0, 7]).is_err(), "not a multiple of 8");
    assert!(Command::decode(&[0x83 | 5 << 8 | 1 << 32, 0, 1 << 20, 0, 0]).is_err(), "beyond the table");
    assert!(Command::decode(&[0x87 | 6 << 8, 0, 0, 0, 8, 100]).is_err(), "no whole tiles");
    assert!(Command::decode(&[0x87 | 6 << 8, 0, 0, 0, 8, 512 | 2 << 32]).is_err(), "no such flag");
    assert!(Command::decode(&[0x20 | 3 << 8 | 4 << 32, 0, 8]).is_err(), "no third flag of a touch");
    assert!(Command::decode(&[0x25 | 3 << 8, 0, 0]).is_err(), "work has one operand");
}

/// The words of a command as its form says, with the operands that the command's words have in these places.
fn by_form(form: &Form, words: &[u64]) -> Vec<u64> {
    let tail = if form.tail.is_empty() { &[][..] } else { &words[form.words()..] };
    let head = if form.head.is_empty() { 0 } else { words[0] >> 32 };
    let length = form.words() + tail.len();
    let mut out = vec![u64::from(form.opcode) | (length as u64) << 8 | head << 32];
    for (word, found) in form.words.iter().zip(&words[1..]) {
        let short = |name: &str| form.operands.iter().any(|is| is.name == name && is.width == Width::Short);
        out.push(match word {
            Word::Of(name) if short(name) => *found & u64::from(u32::MAX),
            Word::Of(_) => *found,
            Word::Halves(low, high) => {
                assert!(short(low) && short(high));
                *found
            }
            Word::Count => tail.len() as u64,
        });
    }
    out.extend(tail);
    out
}

/// A word of another command, of another length or with another flag in its head would not come back as it is.
#[test]
fn every_command_has_its_form() {
    let mut seen = std::collections::BTreeSet::new();
    for command in each() {
        let mut words = Vec::new();
        command.encode(&mut words);
        let fits = |form: &&Form| {
            let fixed = form.words() == words.len() || !form.tail.is_empty();
            u64::from(form.opcode) == words[0] & 0xff && fixed
        };
        let forms: Vec<&Form> = FORMS.iter().filter(fits).collect();
        let [form] = forms[..] else { panic!("{command:?} has {} forms", forms.len()) };
        assert_eq!(by_form(form, &words), words, "{command:?} as {}", form.name);
        assert_eq!(form.privileged, command.is_privileged(), "{command:?}");
        seen.insert(form.name);
    }
    assert_eq!(seen.len(), FORMS.len(), "a form is no command's");
    for form in FORMS {
        let mut named: Vec<&str> = form.words.iter().flat_map(names).chain([form.head, form.tail]).collect();
        named.retain(|name| !name.is_empty());
        named.sort_unstable();
        let mut operands: Vec<&str> = form.operands.iter().map(|operand| operand.name).collect();
        operands.sort_unstable();
        assert_eq!(named, operands, "{}", form.name);
    }
}

fn names(word: &Word) -> Vec<&'static str> {
    match *word {
        Word::Of(name) => vec![name],
        Word::Halves(low, high) => vec![low, high],
        Word::Count => vec![],
    }
}
