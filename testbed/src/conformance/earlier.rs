//! The table that the document has: results of earlier runs.

use super::NOT_RUN;

/// What stands before the commit of a result that is older than the table.
const AT: &str = "; at ";

/// The results of an earlier run.
#[derive(Debug, Default)]
pub(super) struct Earlier<'a> {
    /// Its commit and date.
    run: &'a str,
    /// The cells of its tables, by row.
    rows: Vec<Vec<&'a str>>,
    /// The lines that name a spec which failed.
    failures: Vec<&'a str>,
}

impl<'a> Earlier<'a> {
    /// Reads what [`super::table`] has written.
    pub(super) fn read(table: &'a str) -> Self {
        let mut lines = table.lines();
        let run = lines.find_map(|line| line.strip_prefix("Commit ")?.strip_suffix('.'));
        let row = |line: &'a str| Some(line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect());
        Self {
            run: run.unwrap_or_default(),
            rows: table.lines().filter_map(row).collect(),
            failures: table.lines().filter(|line| line.starts_with("- ")).collect(),
        }
    }

    /// The cell of a column in the row that starts with this title, with the commit and date of its run.
    pub(super) fn cell(&self, title: &str, column: usize) -> Option<String> {
        let row = self.rows.iter().find(|row| row.first() == Some(&title))?;
        let cell = *row.get(column).filter(|cell| **cell != NOT_RUN)?;
        Some(if cell.contains(AT) { cell.to_owned() } else { format!("{cell}{AT}{}", self.run) })
    }

    /// The lines of the specs that failed in this place.
    pub(super) fn failed(&self, place: &str) -> String {
        let is_there = |line: &&&str| {
            line.strip_prefix("- ").is_some_and(|line| line.starts_with(&format!("{place}: ")))
        };
        self.failures.iter().filter(is_there).map(|line| format!("{line}\n")).collect()
    }
}
