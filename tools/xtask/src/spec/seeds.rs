//! The acceptance rows of the seeds: their ids, and which of them a test names.

use super::Named;
use super::sheet::row_id;

/// All rows.
#[derive(Debug)]
pub struct Seeds {
    rows: Vec<String>,
    tested: Named,
}

/// The rows of one letter.
#[derive(Debug)]
pub struct Group<'a> {
    /// The letter.
    pub letter: char,
    /// How many rows there are.
    pub rows: usize,
    /// How many of them a test names.
    pub tested: usize,
    /// The others.
    pub open: Vec<&'a str>,
}

impl Seeds {
    /// Reads the ids of all table rows.
    pub fn parse(text: &str) -> Seeds {
        Seeds { rows: text.lines().filter_map(row_id).map(str::to_string).collect(), tested: Named::new() }
    }

    /// Notes that a test names this row; whether there is such a row.
    pub fn test(&mut self, id: &str) -> bool {
        let known = self.rows.iter().any(|row| row == id);
        if known {
            self.tested.insert(id.to_string());
        }
        known
    }

    /// The rows by letter, in the order of the page.
    pub fn groups(&self) -> Vec<Group<'_>> {
        let mut groups: Vec<Group<'_>> = Vec::new();
        for row in &self.rows {
            let letter = row.chars().next().expect("an id begins with a letter");
            if groups.last().is_none_or(|group| group.letter != letter) {
                groups.push(Group { letter, rows: 0, tested: 0, open: Vec::new() });
            }
            let group = groups.last_mut().expect("a group was just made sure of");
            group.rows += 1;
            if self.tested.contains(row) {
                group.tested += 1;
            } else {
                group.open.push(row);
            }
        }
        groups
    }
}
