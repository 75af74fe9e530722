//! Makes text from elsewhere fit to be shown: names of a recording, paths, texts of other processes, clients' words in a daemon's log.
//!
//! A terminal obeys what is printed: a model whose name holds an escape sequence could clear the screen, and one with a line break or
//! an override of the writing direction could make a line say what this program never said. Here such characters become what they
//! would be in JSON (`\u001b`), so that text stays text, and JSON stays the same JSON. The streams of `console` let everything through
//! [`text`]; a caller that composes a line of several parts lets each through [`line`] or [`name`].

use std::borrow::Cow;
use std::path::Path;

/// Most characters of a field of one line.
const LINE_MAX: usize = 300;
/// Most characters of a name.
const NAME_MAX: usize = 80;
/// Most characters of a line of prose: it may hold a list that a reader needs whole, such as the adapters that there are.
const PROSE_MAX: usize = 4_000;

/// Text of several lines: line breaks and tabs stay.
pub fn text(text: &str) -> Cow<'_, str> {
    let harmless = |c: char| matches!(c, '\n' | '\t') || !is_obeyed(c);
    if text.chars().all(harmless) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().fold(String::new(), |shown, c| push(shown, c, harmless(c))))
}

/// One line, whatever it holds, and none that fills a screen.
pub fn line(text: &str) -> String {
    short(&escaped(text), LINE_MAX)
}

/// A name: one line of which the beginning and the end are enough to know it by.
pub fn name(text: &str) -> String {
    short(&escaped(text), NAME_MAX)
}

/// One line in whole.
pub fn escaped(text: &str) -> String {
    text.chars().fold(String::new(), |shown, c| push(shown, c, !is_obeyed(c)))
}

/// Prose of several lines, which none of its lines can pass off as something else: all but the first are indented. Lists in it stay whole.
pub fn paragraph(text: &str) -> String {
    let lines = text.trim_end().split('\n').map(|line| short(&escaped(line), PROSE_MAX));
    lines.collect::<Vec<_>>().join("\n    ")
}

/// A path in one line; bytes that are no text are `\xNN`.
pub fn path(path: &Path) -> String {
    let mut shown = String::new();
    for chunk in path.as_os_str().as_encoded_bytes().utf8_chunks() {
        shown.push_str(&escaped(chunk.valid()));
        chunk.invalid().iter().for_each(|byte| shown.push_str(&format!("\\x{byte:02x}")));
    }
    short(&shown, LINE_MAX)
}

/// A terminal does something else with it than to show it: control characters, what changes the writing direction, what cannot be
/// seen at all.
fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn push(mut shown: String, c: char, harmless: bool) -> String {
    if harmless {
        shown.push(c);
    } else {
        c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| shown.push_str(&format!("\\u{unit:04x}")));
    }
    shown
}

/// The beginning and the end of what is too long.
fn short(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let half = (most - 1) / 2;
    let (head, tail): (String, String) = (text.chars().take(half).collect(), text.chars().skip(count - half).collect());
    format!("{head}…{tail}")
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown_as_in_json() {
        let evil = "a\x1b[2J\x07\u{9b}31m\x7f\r\u{202e}gpj.\u{2066}\u{feff}\u{e0041}z";
        let shown = r"a\u001b[2J\u0007\u009b31m\u007f\u000d\u202egpj.\u2066\ufeff\udb40\udc41z";
        assert_eq!((text(evil).as_ref(), line(evil).as_str()), (shown, shown));
        let json = serde_json::json!({ "name": evil }).to_string();
        let back: serde_json::Value = serde_json::from_str(&text(&json)).expect("it is JSON still");
        assert_eq!(back["name"], evil);
        for harmless in ["größer", "日本語", "█░ 60 %", "a\u{301}", "👩\u{200d}🔬"] {
            assert!(matches!(text(harmless), Cow::Borrowed(same) if same == harmless));
        }
    }

    #[test]
    fn lines_stay_lines_and_are_not_endless() {
        assert_eq!((text("a\n\tb").as_ref(), line("a\nb").as_str()), ("a\n\tb", r"a\u000ab"));
        assert_eq!(paragraph("wrong\nerror: nothing\n"), "wrong\n    error: nothing");
        let list = "discrete-4k, ".repeat(100);
        assert_eq!(paragraph(&list), list.trim_end(), "a list is whole");
        assert_eq!(paragraph(&"x".repeat(5_000)).chars().count(), PROSE_MAX - 1);
        let long = name(&format!("head{}tail", "x".repeat(1000)));
        assert!(long.chars().count() <= NAME_MAX && long.starts_with("head") && long.ends_with("tail"), "{long}");
    }

    #[test]
    fn a_path_that_is_no_text_is_shown_byte_by_byte() {
        assert_eq!(path(Path::new(OsStr::from_bytes(b"a\xff/\x1b\xc3\xa4"))), r"a\xff/\u001bä");
    }
}
