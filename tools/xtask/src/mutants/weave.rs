//! All breaks of a file in one text: each function begins with a choice, by a number that the environment names when the tests
//! run, between its own body and copies of it that are broken in one place each. So one build serves thousands of breaks.
//!
//! ```text
//! fn sum(a: u64, b: u64) -> u64 {
//!     match crate::mutant_switch::of(7, 8) {
//!         7 => return 0,            // a body that is replaced
//!         8 => return { a - b },    // a copy of the body with one break
//!         _ => {}
//!     }
//!     a + b
//! }
//! ```
//!
//! The body of a function that returns `impl Iterator` has one type, so there each copy, and the body itself, becomes a box of
//! `dyn Iterator`. A break outside of functions, in a `const fn`, or in a function that returns another `impl Trait` cannot be chosen when the
//! tests run: it stands apart, and has a build of its own.

use std::ops::Range;

use super::listing::{Break, Function, Place};
use crate::rust_text;

/// A file with its breaks.
#[derive(Debug, Default)]
pub struct Woven {
    /// The text.
    pub text: String,
    /// Where each break stands in it, by lines from 1.
    pub regions: Vec<(Range<usize>, u32)>,
    /// Where the functions with breaks stand in it, with the numbers of their breaks.
    pub functions: Vec<(Range<usize>, Vec<u32>)>,
    /// Breaks that the text does not hold.
    pub apart: Vec<u32>,
}

/// Weaves breaks with their numbers into a file. The numbers of one function's breaks follow each other.
pub fn weave(source: &str, breaks: &[(u32, &Break)]) -> Woven {
    let text = Text::of(source);
    let mut woven = Woven::default();
    let mut choices: Vec<Choice<'_>> = Vec::new();
    for (number, one) in breaks {
        let body = one.function.as_ref().and_then(|function| Some((function, text.body(function)?)));
        let Some((function, body)) = body else {
            woven.apart.push(*number);
            continue;
        };
        match choices.iter_mut().find(|choice| choice.body == body) {
            Some(choice) => choice.breaks.push((*number, one)),
            None => choices.push(Choice { function, body, breaks: vec![(*number, one)] }),
        }
    }
    choices.sort_by_key(|choice| choice.body.start);
    let mut written = Written::default();
    let (mut at, mut added) = (0, Vec::new());
    // The ends of the bodies that are put into boxes and that are not over.
    let mut boxes: Vec<usize> = Vec::new();
    for choice in &choices {
        at = written.to(&text, at, choice.body.start, &mut boxes);
        if boxed(choice.function).is_some() {
            boxes.push(choice.body.end);
        }
        let before = written.line;
        choice.write(&text, &mut written, &mut woven);
        added.push(written.line - before);
    }
    written.to(&text, at, text.chars.len(), &mut boxes);
    for (choice, (range, _)) in choices.iter().zip(&mut woven.functions) {
        let within = choices.iter().zip(&added).filter(|(other, _)| other.body.start < choice.body.end);
        range.end = choice.function.span.end.line + within.map(|(_, lines)| lines).sum::<usize>() + 1;
    }
    woven.text = written.text;
    woven
}

/// What a function begins with.
struct Choice<'a> {
    function: &'a Function,
    /// Characters between its braces.
    body: Range<usize>,
    breaks: Vec<(u32, &'a Break)>,
}

impl Choice<'_> {
    fn write(&self, text: &Text, written: &mut Written, woven: &mut Woven) {
        let numbers: Vec<u32> = self.breaks.iter().map(|(number, _)| *number).collect();
        let (first, last) = (numbers.iter().min().copied().unwrap_or(0), numbers.iter().max().copied().unwrap_or(0));
        woven.functions.push((written.line..written.line, numbers));
        written.push(&format!("\nmatch crate::mutant_switch::of({first}, {last}) {{\n"));
        for (number, one) in &self.breaks {
            let begin = written.line;
            let broken = self.broken(text, one);
            let broken = match boxed(self.function) {
                Some(boxed) => format!("{boxed}({broken})"),
                None => broken,
            };
            written.push(&format!("{number} => return {broken},\n"));
            woven.regions.push((begin..written.line, *number));
        }
        let body = boxed(self.function).map_or_else(String::new, |boxed| format!("{boxed}({{"));
        written.push(&format!("_ => {{}} }}\n{body}"));
    }

    fn broken(&self, text: &Text, one: &Break) -> String {
        if one.is_body() {
            return one.replacement.clone();
        }
        let before = text.part(self.body.start..text.at(one.span.start));
        let behind = text.part(text.at(one.span.end)..self.body.end);
        // The blanks keep an operator apart from its neighbours.
        format!("{{{before} {} {behind}\n}}", one.replacement)
    }
}

/// What makes a box of the iterator of a function that returns `impl Iterator`. It names the item's type, which the numbers in a
/// replacement take theirs from.
fn boxed(function: &Function) -> Option<String> {
    let bounds = function.return_type.strip_prefix("-> impl ")?;
    let (way, item) = match bounds.strip_prefix("DoubleEndedIterator<") {
        Some(item) => ("boxed_both_ways", item),
        None => ("boxed", bounds.strip_prefix("Iterator<")?),
    };
    let item = item.strip_prefix("Item")?.trim_start().strip_prefix('=')?;
    let mut depth = 0;
    let end = item.char_indices().find(|(at, c)| {
        match c {
            '<' | '(' | '[' => depth += 1,
            '>' if item[..*at].ends_with('-') => {}
            '>' | ')' | ']' => depth -= 1,
            _ => {}
        }
        depth < 0
    })?;
    let item = item[..end.0].trim();
    (!item.contains("impl ")).then(|| format!("crate::mutant_switch::{way}::<{item}>"))
}

/// A text that is being written.
struct Written {
    text: String,
    /// The line that its end stands in, from 1.
    line: usize,
}

impl Default for Written {
    fn default() -> Written {
        Written { text: String::new(), line: 1 }
    }
}

impl Written {
    /// Writes the source from one character to another, and closes the boxes whose bodies end there. Answers with the second.
    fn to(&mut self, text: &Text, mut from: usize, to: usize, boxes: &mut Vec<usize>) -> usize {
        while let Some(end) = boxes.pop_if(|end| *end <= to) {
            self.push(&text.part(from..end));
            self.push("})");
            from = end;
        }
        self.push(&text.part(from..to));
        to
    }

    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.line += text.matches('\n').count();
    }
}

/// A source by characters.
struct Text {
    chars: Vec<char>,
    /// Without comments and contents of strings.
    code: Vec<char>,
    /// The first character of each line.
    lines: Vec<usize>,
}

impl Text {
    fn of(source: &str) -> Text {
        let chars: Vec<char> = source.chars().collect();
        let behind = chars.iter().enumerate().filter(|(_, c)| **c == '\n').map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(behind).collect();
        Text { code: rust_text::blanked(source).chars().collect(), chars, lines }
    }

    fn part(&self, range: Range<usize>) -> String {
        self.chars[range].iter().collect()
    }

    fn at(&self, place: Place) -> usize {
        self.lines[place.line - 1] + place.column - 1
    }

    /// The characters between the braces of a function whose body can be chosen when it runs.
    fn body(&self, function: &Function) -> Option<Range<usize>> {
        let (start, end) = (self.at(function.span.start), self.at(function.span.end) - 1);
        let mut depth = 0;
        let open = (start..end).find(|at| {
            match self.code[*at] {
                '(' | '[' => depth += 1,
                ')' | ']' => depth -= 1,
                _ => {}
            }
            depth == 0 && self.code[*at] == '{'
        })?;
        let head: String = self.code[start..open].iter().collect();
        let is_const = head.split_whitespace().take_while(|word| *word != "fn").any(|word| word == "const");
        let chosen = !function.return_type.contains("impl ") || boxed(function).is_some();
        (!is_const && chosen).then_some(open + 1..end)
    }
}

#[cfg(test)]
mod tests {
    use super::super::listing;
    use super::*;

    const SOURCE: &str = "\
const TWO: u64 = 1 + 1;
/// A {sum}.
fn sum(a: [u64; 2]) -> u64 {
    // §
    let c = '{'; a[0] + a[1]
}
const fn half(a: u64) -> u64 {
    a / 2
}
fn even() -> impl Iterator<Item = u64> {
    (0..).map(|n| n * 2)
}
fn odd() -> impl Fn(u64) -> u64 {
    |n| n * 2 + 1
}
";

    fn listed() -> Vec<Break> {
        let place = |line: usize, column: usize| format!("{{\"line\":{line},\"column\":{column}}}");
        let span = |from: (usize, usize), to: (usize, usize)| {
            format!("{{\"start\":{},\"end\":{}}}", place(from.0, from.1), place(to.0, to.1))
        };
        let one = |genre: &str, at: String, with: &str, function: Option<(&str, String)>| {
            let function = function.map_or("null".to_string(), |(result, span)| {
                format!("{{\"function_name\":\"f\",\"return_type\":\"{result}\",\"span\":{span}}}")
            });
            format!(
                "{{\"name\":\"a.rs:1:1: {with}\",\"file\":\"a.rs\",\"span\":{at},\"replacement\":\"{with}\",\"genre\":\"{genre}\",\"function\":{function}}}"
            )
        };
        let sum = || Some(("-> u64", span((3, 1), (6, 2))));
        let all = [
            one("BinaryOperator", span((1, 20), (1, 21)), "-", None),
            one("FnValue", span((5, 5), (5, 29)), "0", sum()),
            one("BinaryOperator", span((5, 23), (5, 24)), "-", sum()),
            one("BinaryOperator", span((8, 7), (8, 8)), "%", Some(("-> u64", span((7, 1), (9, 2))))),
            one(
                "BinaryOperator",
                span((11, 21), (11, 22)),
                "+",
                Some(("-> impl Iterator<Item = u64>", span((10, 1), (12, 2)))),
            ),
            one(
                "BinaryOperator",
                span((14, 11), (14, 12)),
                "-",
                Some(("-> impl Fn(u64) -> u64", span((13, 1), (15, 2)))),
            ),
        ];
        let listing = listing::parse(&format!("[{}]", all.join(","))).expect("a listing");
        listing.into_values().next().expect("one file")
    }

    #[test]
    fn a_box_names_the_item_of_its_iterator() {
        let of = |return_type: &str| {
            let place = Place { line: 1, column: 1 };
            let span = super::super::listing::Span { start: place, end: place };
            boxed(&Function { return_type: return_type.to_string(), span })
        };
        let named = |way: &str, item: &str| Some(format!("crate::mutant_switch::{way}::<{item}>"));
        assert_eq!(of("-> impl Iterator<Item =(u64, Vec<&'a T>)>+'a"), named("boxed", "(u64, Vec<&'a T>)"));
        assert_eq!(of("-> impl Iterator<Item = u32>+use<>"), named("boxed", "u32"));
        assert_eq!(of("-> impl DoubleEndedIterator<Item = fn(u8) -> u8>"), named("boxed_both_ways", "fn(u8) -> u8"));
        assert_eq!(of("-> impl Iterator<Item = impl Fn()>"), None);
        assert_eq!(of("-> impl Fn(u64) -> u64"), None);
    }

    #[test]
    fn a_function_chooses_among_its_own_body_and_the_broken_ones() {
        let breaks = listed();
        let numbered: Vec<(u32, &Break)> = (1..).zip(&breaks).collect();
        let woven = weave(SOURCE, &numbered);
        let expected = "fn sum(a: [u64; 2]) -> u64 {
match crate::mutant_switch::of(2, 3) {
2 => return 0,
3 => return {
    // §
    let c = '{'; a[0]  -  a[1]

},
_ => {} }

    // §
    let c = '{'; a[0] + a[1]
}
";
        assert!(woven.text.contains(expected), "{}", woven.text);
        assert_eq!(woven.apart, [1, 4, 6], "a const, a const fn and an opaque result");
        let expected = "fn even() -> impl Iterator<Item = u64> {
match crate::mutant_switch::of(5, 5) {
5 => return crate::mutant_switch::boxed::<u64>({
    (0..).map(|n| n  +  2)

}),
_ => {} }
crate::mutant_switch::boxed::<u64>({
    (0..).map(|n| n * 2)
})}
";
        assert!(woven.text.contains(expected), "{}", woven.text);
        let lines: Vec<&str> = woven.text.lines().collect();
        for (range, number) in &woven.regions {
            assert!(lines[range.start - 1].starts_with(&format!("{number} => ")), "{range:?}");
        }
        let [(sum, numbers), (even, _)] = &woven.functions[..] else { panic!("{:?}", woven.functions) };
        assert_eq!((lines[sum.start - 1], lines[sum.end - 2]), ("fn sum(a: [u64; 2]) -> u64 {", "}"));
        assert_eq!(numbers, &[2, 3]);
        assert!(lines[even.start - 1].starts_with("fn even") && lines[even.end - 2].ends_with('}'), "{even:?}");
    }
}
