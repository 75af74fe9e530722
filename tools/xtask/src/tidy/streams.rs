//! The command line prints through one place, [`CONSOLE`], which lets nothing through that a terminal would obey, and knows what a
//! reader that has gone and a full disk mean. A second way out would have to know all of that again, so there is none but those in [`OWN`].

use crate::report::Finding;
use crate::rust_text::Line;

/// The crate that prints, and those that do their part of it.
const CRATES: [&str; 3] = ["tools/openwddm/src/", "tools/activity/src/", "tools/terminal_text/src/"];
/// The file that may print.
const CONSOLE: &str = "tools/openwddm/src/console.rs";
/// Files that may use standard streams for reasons of their own: the page of `top` consists of cells and control sequences, `hangup` asks
/// the descriptors of the terminal whether it has hung up, and an output can be standard output.
const OWN: [&str; 3] =
    ["tools/activity/src/top/screen.rs", "tools/activity/src/top/hangup.rs", "tools/openwddm/src/output/place.rs"];
/// Names that code uses to print.
const STREAMS: [&str; 6] = ["stdout", "stderr", "println", "eprintln", "print", "eprint"];

/// Judges one source file.
pub fn check(path: &str, lines: &[Line]) -> Vec<Finding> {
    let concerns = CRATES.iter().any(|folder| path.starts_with(folder))
        && path != CONSOLE
        && !OWN.contains(&path)
        && !path.contains("/tests");
    let opens = |line: &Line, word: &str| {
        let called = [format!("{word}("), format!("{word}!(")];
        line.has_word(word) && called.iter().any(|call| line.code.contains(&**call)) && !line.code.contains("fn ")
    };
    let own = |line: &Line| line.code.contains("out.print(") || line.code.contains(".print_");
    (1..)
        .zip(lines)
        .filter(|(_, line)| concerns && !own(line) && STREAMS.iter().any(|word| opens(line, word)))
        .map(|(number, _)| Finding::new(path, number, format!("what is printed goes through {CONSOLE}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rust_text::split;

    #[test]
    fn the_command_line_prints_in_one_place() {
        let found = |path: &str, code: &str| check(path, &split(code)).len();
        for code in ["println!(\"x\");", "let _ = std::io::stdout();", "eprint!(\"x\");", "io::stderr().flush()"] {
            assert_eq!(found("tools/openwddm/src/serve.rs", code), 1, "{code}");
            assert_eq!((found(CONSOLE, code), found("verify/sim/src/main.rs", code)), (0, 0), "{code}");
        }
        for code in ["out.print(&text)?;", "// println!(x)", "let printable = 1;"] {
            assert_eq!(found("tools/openwddm/src/serve.rs", code), 0, "{code}");
        }
    }
}
