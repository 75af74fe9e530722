//! A fact sheet: its headings, and the lettered rows that stand under lettered headings.

use super::Named;

/// One sheet and what has been cited of it.
#[derive(Debug)]
pub struct Sheet {
    /// The word by which citations name it.
    pub name: &'static str,
    sections: Vec<Section>,
    cited: Named,
}

/// One heading.
#[derive(Debug)]
pub struct Section {
    /// `5`, `5.2`, or `6 B` for a lettered part of section 6.
    pub number: String,
    /// The rest of the heading, cut to its first words.
    pub title: String,
    /// The ids of the table rows below a lettered heading: `B3`.
    rows: Vec<String>,
}

/// A listing shows so much of a heading.
const TITLE_CHARS: usize = 70;

impl Sheet {
    /// Reads the headings `## 5. Title`, `### 5.2 Title`, `### B. Title`.
    pub fn parse(name: &'static str, text: &str) -> Sheet {
        let mut sections: Vec<Section> = Vec::new();
        let mut chapter = "";
        for line in text.lines() {
            let heading = line.strip_prefix("### ").or(line.strip_prefix("## ")).and_then(|rest| rest.split_once(' '));
            if let Some((number, title)) = heading {
                let number = number.trim_end_matches('.');
                let number = match number.starts_with(|c: char| c.is_ascii_digit()) {
                    true => number.to_string(),
                    false => format!("{chapter} {number}"),
                };
                sections.push(Section { number, title: title.chars().take(TITLE_CHARS).collect(), rows: Vec::new() });
                if line.starts_with("## ") {
                    chapter = heading.map_or("", |(number, _)| number.trim_end_matches('.'));
                }
            } else if let (Some(id), Some(section)) = (row_id(line), sections.last_mut()) {
                section.rows.push(id.to_string());
            }
        }
        Sheet { name, sections, cited: Named::new() }
    }

    /// Looks up `5.2` or `6 B3`, and notes it as cited if asked to.
    #[must_use]
    pub fn find(&mut self, place: &str, cites: bool) -> Option<()> {
        let section = match place.split_once(' ') {
            None => self.sections.iter().find(|section| section.number == place),
            Some((chapter, row)) => {
                let part = format!("{chapter} {}", &row[..1]);
                let has_row = |section: &&Section| section.number == part && section.rows.iter().any(|id| id == row);
                self.sections.iter().find(has_row)
            }
        }?;
        if cites {
            self.cited.insert(section.number.clone());
        }
        Some(())
    }

    /// How many sections there are.
    pub fn len(&self) -> usize {
        self.sections.len()
    }

    /// The sections that no source cites. A chapter is cited when a part of it is.
    pub fn uncited(&self) -> impl Iterator<Item = &Section> {
        self.sections.iter().filter(|section| {
            let part_of_it = |cited: &String| {
                cited.strip_prefix(&section.number).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ' ']))
            };
            !self.cited.iter().any(part_of_it)
        })
    }
}

/// The id of a table row that begins with a letter and digits: `| B3 | …`.
pub fn row_id(line: &str) -> Option<&str> {
    let (id, _) = line.strip_prefix("| ")?.split_once(" |")?;
    let digits = id.strip_prefix(|c: char| c.is_ascii_uppercase())?;
    (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())).then_some(id)
}
