//! Tables and paragraphs of plain text in 80 columns.

/// The widest line that is readable everywhere.
pub const WIDTH: usize = 80;

/// Columns two blanks apart, as narrow as they can be.
pub fn table<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    let header = header.map(str::to_owned);
    let all = || std::iter::once(&header).chain(rows);
    let mut widths = [0; N];
    for row in all() {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in all() {
        let cells = widths.iter().zip(row).map(|(&width, cell)| format!("{cell:width$}  "));
        text.push_str(cells.collect::<String>().trim_end());
        text.push('\n');
    }
    text
}

/// `text` in lines of at most [`WIDTH`] columns, the second and later ones indented by `indent`.
pub fn wrapped(text: &str, indent: usize) -> String {
    let words = text.trim_start();
    let mut lines = String::new();
    let mut line = text.get(..text.len() - words.len()).unwrap_or_default().to_owned();
    for word in words.split_whitespace() {
        let blank = !line.is_empty() && !line.ends_with(' ');
        if blank && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push_str(&line);
            lines.push('\n');
            line = " ".repeat(indent);
        } else if blank {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines + &line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_no_blanks_at_the_end_of_a_line() {
        let rows = [["a".to_owned(), "long".to_owned()], ["bcd".to_owned(), String::new()]];
        assert_eq!(table(["X", "Y"], &rows), "X    Y\na    long\nbcd\n");
    }

    #[test]
    fn a_wrapped_line_is_never_wider_than_eighty_columns() {
        let text = wrapped(&"word ".repeat(60), 4);
        assert!(text.lines().count() > 3 && text.lines().all(|l| l.len() <= WIDTH), "{text}");
        assert_eq!(wrapped("  a  b", 4), "  a b\n");
        assert!(text.lines().skip(1).all(|l| l.starts_with("    word")), "{text}");
    }
}
