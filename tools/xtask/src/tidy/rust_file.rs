//! House rules of a source file: its head, unfinished work, waived lints, unsafe blocks, and in the kernel's room
//! nothing that makes two runs differ.

use crate::report::Finding;
use crate::rust_text::{self, Line};

/// Names that would make the kernel anything but a pure machine, each with what it is.
const IMPURE: [(&str, &str); 14] = [
    ("HashMap", "hash order"),
    ("HashSet", "hash order"),
    ("std::thread", "a thread"),
    ("Instant", "a clock"),
    ("SystemTime", "a clock"),
    ("Mutex", "a lock"),
    ("RwLock", "a lock"),
    ("Condvar", "a lock"),
    ("std::fs", "a file"),
    ("std::net", "a socket"),
    ("println", "output"),
    ("eprintln", "output"),
    ("f32", "a float"),
    ("f64", "a float"),
];

/// Judges one source file.
pub fn check(path: &str, text: &str, lines: &[Line]) -> Vec<Finding> {
    let mut faults = Vec::new();
    if !text.starts_with("//!") {
        faults.push(Finding::new(path, 1, "a file begins with //!: what it is, what it is not, and its callers"));
    }
    let may_be_unsafe = lines.iter().any(|line| allows_unsafe(&line.code));
    for (index, line) in lines.iter().enumerate() {
        let mut fault = |text: String| faults.push(Finding::new(path, index + 1, text));
        if let Some(mark) = unfinished(&squeezed(&line.code)) {
            fault(format!("{mark} is unfinished work; what is not built answers with a clear error"));
        }
        for lint in waived(&squeezed(&line.code)) {
            if lint == "dead_code" || lint.starts_with("unused") {
                fault(format!("{lint} is waived; remove the unused code instead"));
            } else if !has_reason(lines, index) {
                fault(format!("{lint} is waived without a reason beside it"));
            }
        }
        if line.has_word("unsafe") {
            if !may_be_unsafe {
                fault("unsafe in a file that does not say #![allow(unsafe_code)]".to_string());
            } else if opens_unsafe(&line.code) && !has_safety(lines, index) {
                fault("no // SAFETY: comment says why this holds".to_string());
            }
        }
    }
    if path.starts_with("kernel/") {
        faults.extend(impure(path, lines));
    }
    faults
}

/// Whether this line lets its file, or what follows it, have unsafe code.
pub fn allows_unsafe(code: &str) -> bool {
    squeezed(code).contains("[allow(unsafe_code")
}

fn squeezed(code: &str) -> String {
    code.split_whitespace().collect()
}

fn unfinished(code: &str) -> Option<&'static str> {
    ["todo!", "unimplemented!", "#[ignore"].into_iter().find(|mark| code.contains(mark))
}

/// The lints named in `allow(…)` and `expect(…)` attributes of a squeezed line.
fn waived(code: &str) -> Vec<&str> {
    let mut lints = Vec::new();
    for attribute in code.split('#').skip(1).filter(|rest| rest.starts_with('[') || rest.starts_with("![")) {
        for opening in ["allow(", "expect("] {
            let inside = attribute.split_once(opening).map_or("", |(_, rest)| rest.split(')').next().unwrap_or(""));
            lints.extend(inside.split(',').filter(|lint| !lint.is_empty() && !lint.starts_with("reason=")));
        }
    }
    lints
}

/// A reason is `reason = "…"`, a comment on the line or above it, or for a whole file its head.
fn has_reason(lines: &[Line], index: usize) -> bool {
    let line = &lines[index];
    let above = index.checked_sub(1).map(|above| &lines[above]);
    line.code.contains("reason")
        || !line.comment.is_empty()
        || above.is_some_and(|above| !above.comment.is_empty() && above.code.trim().is_empty())
}

fn opens_unsafe(code: &str) -> bool {
    let code = squeezed(code);
    code.contains("unsafe{") || code.contains("unsafeimpl") || code.ends_with("unsafe")
}

/// Whether the line or the comment above its statement argues. Lines that end a statement or open a block part them.
fn has_safety(lines: &[Line], index: usize) -> bool {
    if lines[index].comment.contains("SAFETY:") {
        return true;
    }
    let above = lines[..index].iter().rev();
    let ours = above.take_while(|line| !line.code.trim_end().ends_with([';', '}', '{']));
    ours.into_iter().any(|line| line.comment.contains("SAFETY:"))
}

/// The kernel's own code; its tests may do as they like.
fn impure(path: &str, lines: &[Line]) -> Vec<Finding> {
    let mut faults = Vec::new();
    for (number, line) in (1..).zip(rust_text::product(path, lines)) {
        if let Some((word, what)) = IMPURE.iter().find(|(word, _)| line.has_word(word)) {
            let text = format!("{word}: {what}; the kernel's room is a pure machine and takes it as an argument");
            faults.push(Finding::new(path, number, text));
        }
    }
    faults
}
