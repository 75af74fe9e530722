//! No member that a caller fills in is ignored in silence: each of the structures that a function takes is read, or written, in one of the
//! functions that take it, or stands here with the reason why it means nothing. Found by a look at the sources.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use d3dkmt_abi::{ITEMS, Shape};
use d3dkmt_c::{FUNCTIONS, Function, WITHOUT_EFFECT};

/// The members that mean nothing beside those of `WITHOUT_EFFECT`: answers, and members that are refused or documented to mean nothing.
const IDLE: &[(&str, &str, &str)] = &[
    ("D3DKMT_OPENADAPTERFROMDEVICENAME", "AdapterLuid", "an answer: no name is an adapter's"),
    ("D3DKMT_OPENADAPTERFROMDEVICENAME", "hAdapter", "as above"),
    ("D3DKMT_OPENADAPTERFROMHDC", "AdapterLuid", "an answer: there are no device contexts"),
    ("D3DKMT_OPENADAPTERFROMHDC", "VidPnSourceId", "as above"),
    ("D3DKMT_OPENADAPTERFROMHDC", "hAdapter", "as above"),
    ("D3DKMT_OPENKEYEDMUTEXFROMNTHANDLE", "PrivateRuntimeDataSize", "each handle is refused before (sync §2.2)"),
    ("D3DKMT_OPENKEYEDMUTEXFROMNTHANDLE", "pPrivateRuntimeData", "as above"),
    ("D3DKMT_OPENNATIVEFENCEFROMNTHANDLE", "Reserved", "programs of other kits have not its length there"),
    ("D3DKMT_PRESENT", "Anonymous2", "of indirect displays, whose flag is refused"),
    ("D3DKMT_PRESENT", "BroadcastContext", "a count that is not 0 is refused"),
    ("D3DKMT_PRESENT", "BroadcastDstAllocation", "as above"),
    ("D3DKMT_PRESENT", "BroadcastSrcAllocation", "as above"),
    ("D3DKMT_PRESENT", "Color", "of color fills, whose flag is refused"),
    ("D3DKMT_PRESENT", "Duration", "its flag is refused"),
    ("D3DKMT_PRESENT", "PresentCount", "its flag is refused"),
    ("D3DKMT_PRESENT", "pPrivateDriverData", "a size that is not 0 is refused"),
    ("D3DKMT_QUERYRESOURCEINFO", "pPrivateRuntimeData", "no byte is written there, as measured (memory §2.7)"),
    ("D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE", "pPrivateRuntimeData", "as above"),
    ("D3DKMT_RENDER", "BroadcastContext", "a count that is not 0 is refused"),
    ("D3DKMT_SUBMITCOMMAND", "HistoryBufferArray", "a count that is not 0 is refused"),
    ("D3DKMT_WAITFORVERTICALBLANKEVENT2", "ObjectHandleArray", "a count that is not 0 is refused"),
];

#[test]
fn every_member_is_looked_at_or_is_idle_for_a_reason() {
    let (bodies, mut unread) = (bodies(), BTreeSet::new());
    let mut looked_at = 0;
    for item in ITEMS.iter().copied().flatten() {
        let is_argument =
            |function: &Function| function.parameters.trim_start_matches("CONST ") == format!("{}*", item.name);
        let (Shape::Struct(fields), Some(body)) = (item.shape, bodies.get(item.name)) else { continue };
        if !FUNCTIONS.iter().any(is_argument) {
            continue;
        }
        for field in fields {
            looked_at += 1;
            if !has_word(body, field.name) {
                unread.insert((item.name.to_owned(), field.name.to_owned()));
            }
        }
    }
    assert!(looked_at > 300, "{looked_at} members are not all");
    let accepted =
        WITHOUT_EFFECT.iter().filter(|row| row.flag.is_empty() && argument(row.of)).map(|row| (row.of, row.member));
    let idle = IDLE.iter().map(|(structure, member, _)| (*structure, *member)).chain(accepted);
    let idle: BTreeSet<(String, String)> =
        idle.map(|(structure, member)| (structure.to_owned(), member.to_owned())).collect();
    let ignored: Vec<_> = unread.difference(&idle).collect();
    assert!(ignored.is_empty(), "ignored in silence: {ignored:?}");
    // A list of the right kind where one is refused by its count stands in the function that refuses it.
    let stale: Vec<_> = idle.difference(&unread).collect();
    assert!(stale.is_empty(), "no longer idle: {stale:?}");
}

/// Whether it is a structure that a function takes.
fn argument(of: &str) -> bool {
    FUNCTIONS.iter().any(|function| function.parameters.trim_start_matches("CONST ") == format!("{of}*"))
}

/// The page names everything that is accepted without effect, as the library does.
#[test]
fn the_page_has_the_table_of_what_has_no_effect() {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/calls.md"));
    let page = page.expect("the page is there");
    let named = |row: &d3dkmt_c::WithoutEffect| {
        let member = if row.member.is_empty() { String::new() } else { format!(".{}", row.member) };
        let flag = if row.flag.is_empty() { String::new() } else { format!(": {}", row.flag) };
        format!("| `{}{member}{flag}` | {} |", row.of, row.why)
    };
    let wanted: BTreeSet<String> = WITHOUT_EFFECT.iter().map(named).collect();
    let (_, behind) =
        page.split_once("| accepted without effect | because |\n|---|---|\n").expect("the page has the table");
    let found: BTreeSet<String> = behind.lines().take_while(|line| line.starts_with('|')).map(str::to_owned).collect();
    assert_eq!(found, wanted);
}

/// The header's word for a member that means nothing is that of the list, and no other member of an argument has it.
#[test]
fn the_header_calls_idle_members_unread() {
    let accepted = WITHOUT_EFFECT.iter().filter(|row| row.flag.is_empty()).map(|row| (row.of, row.member));
    let idle: BTreeSet<(&str, &str)> = IDLE.iter().map(|(of, member, _)| (*of, *member)).chain(accepted).collect();
    let mut wrong = Vec::new();
    for item in ITEMS.iter().copied().flatten().filter(|item| argument(item.name)) {
        let Shape::Struct(fields) = item.shape else { continue };
        for field in fields.iter().filter(|field| !field.says.is_empty()) {
            let is_idle = idle.contains(&(item.name, field.name));
            let says_so = field.says.starts_with("unread: ") || field.says == "out: never written";
            if is_idle != says_so {
                wrong.push(format!("{}.{}: {}", item.name, field.name, field.says));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The bodies of all functions that take a structure, by its name.
fn bodies() -> BTreeMap<String, String> {
    let mut bodies: BTreeMap<String, String> = BTreeMap::new();
    for source in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        for (start, _) in source.match_indices("fn ") {
            let Some(brace) = source[start..].find('{') else { continue };
            let signature = &source[start..start + brace];
            let body = block(&source[start + brace..]);
            for item in ITEMS.iter().copied().flatten() {
                if has_word(signature, item.name) {
                    bodies.entry(item.name.to_owned()).or_default().push_str(body);
                }
            }
        }
    }
    bodies
}

/// The text between the first brace and its end.
fn block(text: &str) -> &str {
    let mut depth = 0;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return &text[..=at];
        }
    }
    text
}

fn sources(folder: &Path) -> Vec<String> {
    let entries =
        std::fs::read_dir(folder).expect("the sources are there").map(|entry| entry.expect("an entry").path());
    let read = |path: std::path::PathBuf| match path.is_dir() {
        true => sources(&path),
        false => vec![std::fs::read_to_string(&path).expect("text")],
    };
    entries.flat_map(read).collect()
}

fn has_word(text: &str, word: &str) -> bool {
    let part = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    text.match_indices(word).any(|(at, _)| {
        let bytes = text.as_bytes();
        !part(at.checked_sub(1).and_then(|before| bytes.get(before))) && !part(bytes.get(at + word.len()))
    })
}
