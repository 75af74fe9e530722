//! Splits Rust source into code and comments, line by line, so that a rule about code is not fooled by a comment or by
//! the text inside a string, and a rule about comments not by code.
//!
//! This is no parser: it knows strings, raw strings, characters, lifetimes and nested comments, and nothing else.

/// One line of a source file.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Line {
    /// The code, with strings and characters emptied.
    pub code: String,
    /// The comment with its slashes, if there is one.
    pub comment: String,
}

impl Line {
    /// Whether the code contains `word` with no letter, digit or underscore beside it.
    pub fn has_word(&self, word: &str) -> bool {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        self.code
            .match_indices(word)
            .any(|(at, _)| !self.code[..at].ends_with(is_part) && !self.code[at + word.len()..].starts_with(is_part))
    }
}

/// The lines of a source text; as many as `str::lines` gives.
pub fn split(source: &str) -> Vec<Line> {
    let mut splitter = Splitter::of(source);
    if source.ends_with('\n') || source.is_empty() {
        splitter.lines.pop();
    }
    splitter.lines
}

/// The same text with blanks in place of comments and of the inside of strings and characters. It has as many characters and
/// lines: a place in it is the same place in the source.
pub fn blanked(source: &str) -> String {
    Splitter::of(source).blanked
}

/// The lines that are product: none of a test's file, and of any other those before the tests, which come last, in a module that is only
/// built for them.
pub fn product<'a>(path: &str, lines: &'a [Line]) -> &'a [Line] {
    let is_test = |part: &str| matches!(part, "tests" | "tests.rs" | "benches");
    if path.split('/').any(is_test) {
        return &[];
    }
    let starts = |pair: &[Line]| {
        pair[0].code.trim_end() == "#[cfg(test)]" && pair[1].code.starts_with("mod ") && pair[1].code.contains('{')
    };
    &lines[..lines.windows(2).position(starts).unwrap_or(lines.len())]
}

struct Splitter {
    chars: Vec<char>,
    at: usize,
    lines: Vec<Line>,
    blanked: String,
}

/// Where a character of the source goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Code,
    Comment,
    /// The inside of a string.
    Content,
}

impl Splitter {
    fn of(source: &str) -> Splitter {
        let blanked = String::with_capacity(source.len());
        let mut splitter = Splitter { chars: source.chars().collect(), at: 0, lines: vec![Line::default()], blanked };
        splitter.run();
        splitter
    }

    fn run(&mut self) {
        while let Some(c) = self.peek(0) {
            match c {
                '/' if self.peek(1) == Some('/') => self.line_comment(),
                '/' if self.peek(1) == Some('*') => self.block_comment(),
                '"' => self.string(),
                'r' if self.raw_hashes().is_some() => self.raw_string(),
                '\'' => self.quote(),
                _ => self.take_code(),
            }
        }
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn line(&mut self) -> &mut Line {
        self.lines.last_mut().expect("a splitter starts with one line")
    }

    /// Takes one character; a line's end starts a new line and belongs to none.
    fn take(&mut self, part: Part) {
        let Some(c) = self.peek(0) else { return };
        self.at += 1;
        if c == '\n' {
            self.lines.push(Line::default());
            self.blanked.push(c);
            return;
        }
        self.blanked.push(if part == Part::Code { c } else { ' ' });
        match part {
            Part::Code => self.line().code.push(c),
            Part::Comment => self.line().comment.push(c),
            Part::Content => {}
        }
    }

    fn take_code(&mut self) {
        self.take(Part::Code);
    }

    fn take_comment(&mut self) {
        self.take(Part::Comment);
    }

    fn skip(&mut self) {
        self.take(Part::Content);
    }

    fn line_comment(&mut self) {
        while self.peek(0).is_some_and(|c| c != '\n') {
            self.take_comment();
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        while let Some(c) = self.peek(0) {
            match (c, self.peek(1)) {
                ('/', Some('*')) => depth += 1,
                ('*', Some('/')) => depth -= 1,
                _ => {
                    self.take_comment();
                    continue;
                }
            }
            self.take_comment();
            self.take_comment();
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        self.take_code();
        while let Some(c) = self.peek(0) {
            match c {
                '"' => return self.take_code(),
                '\\' => {
                    self.skip();
                    self.skip();
                }
                _ => self.skip(),
            }
        }
    }

    /// The number of hashes, if a raw string starts here: `r"`, `r#"`, also behind `b` or `c`.
    fn raw_hashes(&self) -> Option<usize> {
        let is_part = |c: &char| c.is_alphanumeric() || *c == '_';
        let before = &self.chars[..self.at];
        let before = before.strip_suffix(&['b']).or(before.strip_suffix(&['c'])).unwrap_or(before);
        if before.last().is_some_and(is_part) {
            return None;
        }
        let hashes = self.chars[self.at + 1..].iter().take_while(|c| **c == '#').count();
        (self.peek(1 + hashes) == Some('"')).then_some(hashes)
    }

    fn raw_string(&mut self) {
        let hashes = self.raw_hashes().unwrap_or(0);
        for _ in 0..hashes + 2 {
            self.take_code();
        }
        while let Some(c) = self.peek(0) {
            let ends = c == '"' && (1..=hashes).all(|ahead| self.peek(ahead) == Some('#'));
            if ends {
                (0..=hashes).for_each(|_| self.take_code());
                return;
            }
            self.skip();
        }
    }

    /// A character or a lifetime.
    fn quote(&mut self) {
        let escaped = self.peek(1) == Some('\\');
        if !escaped && self.peek(2) != Some('\'') {
            return self.take_code();
        }
        self.take_code();
        if escaped {
            self.skip();
        }
        self.skip();
        while self.peek(0).is_some_and(|c| c != '\'') {
            self.skip();
        }
        self.take_code();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_and_comments_part() {
        let table = [
            ("let a = 1; // why", "let a = 1; ", "// why"),
            ("let a = \"// no comment\";", "let a = \"\";", ""),
            ("let a = \"\\\"// still none\"; // yes", "let a = \"\"; ", "// yes"),
            ("let a = r#\"a \" // \"#;", "let a = r#\"\"#;", ""),
            ("let a = br\"\\\"; // yes", "let a = br\"\"; ", "// yes"),
            ("let r#type = '\"'; f::<'a>('/')", "let r#type = ''; f::<'a>('')", ""),
            ("let a = '\\''; // x", "let a = ''; ", "// x"),
            ("let a = '\\u{1F600}'; // x", "let a = ''; ", "// x"),
            ("a /* b /* c */ d */ e", "a  e", "/* b /* c */ d */"),
            ("//! head", "", "//! head"),
        ];
        for (source, code, comment) in table {
            let lines = split(source);
            assert_eq!((lines[0].code.as_str(), lines[0].comment.as_str()), (code, comment), "{source}");
        }
    }

    #[test]
    fn lines_are_counted_through_strings_and_comments() {
        let source = "a\n\"x\ny\"\n/* p\nq */ b\n";
        let lines = split(source);
        assert_eq!(lines.len(), source.lines().count());
        assert_eq!(lines[4].code, " b");
        assert_eq!(split("").len(), 0);
    }

    #[test]
    fn a_blanked_text_keeps_every_place() {
        let source = "fn a() { /* { */ \"§}\" } // }\n'\\'' r#\"x\ny\"#";
        let expected = "fn a() {         \"  \" }     \n'  ' r#\" \n \"#";
        assert_eq!(blanked(source), expected);
    }

    #[test]
    fn tests_are_no_product() {
        let lines = split("fn f() {}\n#[cfg(test)]\nmod tests;\nfn g() {}\n#[cfg(test)]\nmod tests {\n}\n");
        let table = [
            ("a/src/b.rs", 4),
            ("a/src/b/tests.rs", 0),
            ("a/tests/b.rs", 0),
            ("a/benches/b.rs", 0),
            ("a/src/contests.rs", 4),
        ];
        for (path, expected) in table {
            assert_eq!(product(path, &lines).len(), expected, "{path}");
        }
    }

    #[test]
    fn a_word_stands_alone() {
        let line = &split("unsafe_code(unsafe) unsafely")[0];
        assert!(line.has_word("unsafe"));
        assert!(!split("unsafe_code unsafely my_unsafe")[0].has_word("unsafe"));
    }
}
