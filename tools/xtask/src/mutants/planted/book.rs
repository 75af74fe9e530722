//! The table of planted breaks. Each names its function and a piece of the function's text, and no line: so it outlives moves, and a change
//! of the rule's code itself has to bring a break that applies.

use std::fmt;

use serde::Deserialize;

use super::super::listing::{Break, Function, Place, Span};
use crate::rust_text;

#[derive(Deserialize)]
struct Table {
    #[serde(default, rename = "break")]
    breaks: Vec<toml::Spanned<Planted>>,
}

/// One break.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Planted {
    /// The acceptance row, or the room of a rule that no row has.
    pub row: String,
    /// Path below the root.
    pub file: String,
    /// The name of the function.
    pub function: String,
    /// A piece of the function's text that is in no other function of this name, and there once.
    pub text: String,
    /// What stands in its place.
    pub instead: String,
    /// The package of the test.
    pub package: String,
    /// The test, with its modules.
    pub test: String,
    /// The day on which a person saw the test fail.
    pub seen: String,
    /// The line of the entry in the table, from 1.
    #[serde(skip)]
    pub line: usize,
}

impl fmt::Display for Planted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}: {}) {}", self.row, self.file, self.function, self.test)
    }
}

/// Reads the table.
pub fn parse(text: &str) -> Result<Vec<Planted>, String> {
    let table: Table = toml::from_str(text).map_err(|error| format!("{}: {error}", super::TABLE))?;
    let line = |at: usize| text[..at].matches('\n').count() + 1;
    let planted = |spanned: toml::Spanned<Planted>| {
        let line = line(spanned.span().start);
        Planted { line, ..spanned.into_inner() }
    };
    Ok(table.breaks.into_iter().map(planted).collect())
}

impl Planted {
    /// The break in its file.
    ///
    /// # Errors
    /// The function or the text is not there, or there more than once.
    pub fn place(&self, source: &str) -> Result<Break, String> {
        let functions = functions(source, &self.function);
        if functions.is_empty() {
            return Err(format!("{} has no function {}", self.file, self.function));
        }
        let at = |from: usize, to: usize| source[from..to].match_indices(&self.text).map(move |(at, _)| from + at);
        let found: Vec<(usize, &Stretch)> = functions
            .iter()
            .flat_map(|function| at(function.start, function.end).map(move |at| (at, function)))
            .collect();
        let [(start, function)] = found[..] else {
            return Err(format!("`{}` is in {} of {} {} times", self.text, self.function, self.file, found.len()));
        };
        let span = span(source, start, start + self.text.len());
        let around = Function {
            return_type: function.return_type.clone(),
            span: self::span(source, function.start, function.end),
        };
        let name = format!("{}:{}:{}: {}", self.file, span.start.line, span.start.column, self.row);
        Ok(Break::planted(name, self.file.clone(), span, self.instead.clone(), around))
    }

    #[cfg(test)]
    pub fn example(row: &str, text: &str) -> Planted {
        let [file, function, instead] = ["a/src/b.rs", "sum", "a - b"].map(str::to_string);
        let [package, test, seen] = ["a", "tests::a", "2026-12-01"].map(str::to_string);
        Planted { row: row.into(), file, function, text: text.into(), instead, package, test, seen, line: 1 }
    }
}

/// A function: bytes from its first word to behind its closing brace.
struct Stretch {
    start: usize,
    end: usize,
    return_type: String,
}

/// The functions of this name in a formatted source: each ends with the first brace that stands as far from the margin as it begins.
fn functions(source: &str, name: &str) -> Vec<Stretch> {
    let blanked = rust_text::blanked(source);
    let mut found = Vec::new();
    let mut begun: Option<(usize, usize)> = None;
    let mut at = 0;
    for (line, code) in source.split_inclusive('\n').zip(blanked.split_inclusive('\n')) {
        let (indent, code) = (code.len() - code.trim_start().len(), code.trim_end());
        let begins = code.split_once(&format!("fn {name}")).is_some_and(|(_, rest)| rest.starts_with(['(', '<']));
        if begun.is_none() && begins {
            begun = Some((at + indent, indent));
        }
        if let Some((start, depth)) = begun
            && code.ends_with('}')
            && (begins || indent == depth && code.trim_start() == "}")
        {
            let end = at + line.trim_end().len();
            found.push(Stretch { start, end, return_type: return_type(&rust_text::blanked(&source[start..end])) });
            begun = None;
        }
        at += line.len();
    }
    found
}

/// The type behind the arrow of a signature.
fn return_type(function: &str) -> String {
    let head = function.split_once('{').map_or(function, |(head, _)| head);
    let arrow = head.rsplit_once(") ->").map_or("", |(_, behind)| behind);
    arrow.split_once(" where").map_or(arrow, |(kind, _)| kind).trim().to_string()
}

/// The places of a stretch of bytes.
fn span(source: &str, start: usize, end: usize) -> Span {
    let place = |at: usize| {
        let before = &source[..at];
        let line = before.rsplit('\n').next().unwrap_or("");
        Place { line: before.matches('\n').count() + 1, column: line.chars().count() + 1 }
    };
    Span { start: place(start), end: place(end) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
impl A {
    /// `fn sum(a)` of § things.
    pub fn sum(&self, a: u64) -> Result<u64, (u64, u64)>
    where
        u64: Copy,
    {
        if a > 1 {
            return Ok(a + b);
        }
        Err((a, a))
    }
    fn short(&self) -> u64 { a + c }
}
impl B {
    fn sum(&self) { a.summed(\"}\") }
}
";

    #[test]
    fn a_break_is_found_by_its_function_and_text() {
        let one = Planted::example("N01", "a + b").place(SOURCE).expect("it is there once");
        assert_eq!((one.span.start, one.span.end), (Place { line: 8, column: 23 }, Place { line: 8, column: 28 }));
        let function = one.function.as_ref().expect("a function");
        assert_eq!(function.return_type, "Result<u64, (u64, u64)>");
        assert_eq!((function.span.start.line, function.span.end), (3, Place { line: 11, column: 6 }));
        assert!(one.applied(SOURCE).contains("return Ok(a - b);"), "{}", one.applied(SOURCE));
        for (text, why) in [("a + d", "0 times"), ("a", "times"), ("a + c", "0 times")] {
            let refused = Planted::example("N01", text).place(SOURCE).expect_err(text);
            assert!(refused.contains(why) && refused.contains("sum of a/src/b.rs"), "{refused}");
        }
        let nowhere = Planted { function: "none".into(), ..Planted::example("N01", "a") }.place(SOURCE);
        assert!(nowhere.is_err_and(|why| why.contains("no function none")));
    }

    #[test]
    fn a_table_says_the_lines_of_its_entries_and_refuses_what_it_does_not_know() {
        let entry = "[[break]]\nrow = \"N01\"\nfile = \"f\"\nfunction = \"g\"\ntext = \"a\"\ninstead = \"b\"\npackage = \"p\"\ntest = \"t\"\nseen = \"2026-12-01\"\n";
        let table = parse(&format!("# A table.\n\n{entry}\n{entry}")).expect("two");
        assert_eq!(table.iter().map(|planted| planted.line).collect::<Vec<_>>(), [3, 13]);
        assert!(parse(&format!("{entry}line = 3\n")).is_err());
        assert!(parse("[[break]]\nrow = \"N01\"\n").is_err_and(|why| why.contains("breaks.toml")));
    }
}
