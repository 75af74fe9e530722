//! The functions of a file: where each stands, how long it is, what its signature says. No parser: it counts brackets.

use super::source::{end_of, identifier, line_of, parts, words};

/// One function with a body, or one that a trait asks for.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line of its `fn`, from 1.
    pub line: usize,
    /// From there to its closing bracket; without a body, to the end of its signature.
    pub lines: usize,
    /// Name and type of each parameter; `self` is none.
    pub parameters: Vec<(String, String)>,
    /// The type of its result; empty if it has none.
    pub result: String,
}

/// All functions of this code, in order, inner ones too.
pub fn functions(code: &str) -> Vec<Function> {
    words(code, "fn").filter_map(|at| function(code, at)).collect()
}

fn function(code: &str, at: usize) -> Option<Function> {
    let named = at + 2 + code[at + 2..].find(|c: char| !c.is_whitespace())?;
    let name = identifier(&code[named..]);
    if name.is_empty() {
        return None; // a type: `fn(u64) -> u64`
    }
    // Behind the generics, whose bounds have parentheses of their own.
    let opening = end_of(code, named, &['('])?;
    let closing = end_of(code, opening + 1, &[')'])?;
    let body = end_of(code, closing + 1, &['{', ';'])?;
    let end = if code[body..].starts_with('{') { body_end(code, body)? } else { body };
    let line = line_of(code, at);
    Some(Function {
        name: name.to_string(),
        line,
        lines: 1 + line_of(code, end) - line,
        parameters: parts(&code[opening + 1..closing]).into_iter().filter_map(parameter).collect(),
        result: result(&code[closing + 1..body]),
    })
}

/// The bracket that closes the body; only curly ones count, since `<` and `>` compare there.
fn body_end(code: &str, body: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (found, c) in code[body..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return Some(body + found),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn parameter(text: &str) -> Option<(String, String)> {
    let (name, kind) = text.split_once(':')?;
    let name = name.trim().trim_start_matches("mut ").trim();
    (!matches!(name, "self" | "&self" | "&mut self")).then(|| (name.to_string(), squeezed(kind)))
}

fn result(text: &str) -> String {
    let text = words(text, "where").next().map_or(text, |at| &text[..at]);
    text.split_once("->").map_or(String::new(), |(_, kind)| squeezed(kind))
}

fn squeezed(kind: &str) -> String {
    kind.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_read_past_generics_and_over_lines() {
        let code = "impl A {\n    pub fn plain(&self) {}\n    fn one<F: Fn(u64) -> u64>(\n        &mut self,\n        mut device: Option<u64>,\n        \
                    pair: (u32, BTreeMap<u8, u16>),\n        f: F,\n    ) -> Result<u64, E>\n    where\n        F: Copy,\n    {\n        \
                    if a < b { c >> 1; }\n        fn inner(x: [u64; 4]) {}\n    }\n}\ntrait T { fn asked(&self) -> u8; }\ntype F = fn(u64);\n";
        let found = functions(code);
        let seen: Vec<_> = found.iter().map(|f| (&*f.name, f.line, f.lines, &*f.result)).collect();
        assert_eq!(
            seen,
            [("plain", 2, 1, ""), ("one", 3, 12, "Result<u64, E>"), ("inner", 13, 1, ""), ("asked", 16, 1, "u8")]
        );
        let named: Vec<_> = found[1].parameters.iter().map(|(name, kind)| (&**name, &**kind)).collect();
        assert_eq!(named, [("device", "Option<u64>"), ("pair", "(u32, BTreeMap<u8, u16>)"), ("f", "F")]);
        assert_eq!(found[2].parameters, [("x".to_string(), "[u64; 4]".to_string())]);
    }
}
