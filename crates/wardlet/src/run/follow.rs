//! What pods print.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use agent::logs::{Line, Reader, Stream};
use tokio::sync::watch;

/// How often logs are read on.
const PAUSE: Duration = Duration::from_millis(100);
/// No more of a line is kept; longer ones are printed in pieces.
const LONGEST: usize = 1 << 20;

/// One container's log and how its lines begin.
pub(crate) struct Source {
    prefix: String,
    reader: Reader,
    /// What has come of a line that is not whole yet, for each stream.
    begun: [String; 2],
}

impl Source {
    pub(crate) fn new(prefix: String, dir: &Path) -> Self {
        Self { prefix, reader: Reader::new(dir), begun: [String::new(), String::new()] }
    }

    /// The lines that have become whole: a runtime cuts long ones into parts.
    fn lines(&mut self) -> Vec<(Stream, String)> {
        // A log that cannot be read now may be later; the pod's status says why if not.
        let read = self.reader.read().unwrap_or_default();
        read.into_iter().filter_map(|line| self.whole(&line)).collect()
    }

    fn whole(&mut self, line: &Line) -> Option<(Stream, String)> {
        let [out, err] = &mut self.begun;
        let begun = if line.stream == Stream::Stdout { out } else { err };
        begun.push_str(&line.text);
        let is_whole = begun.ends_with('\n') || begun.len() > LONGEST;
        is_whole.then(|| (line.stream, format!("{}{}", self.prefix, std::mem::take(begun))))
    }

    /// What was begun and will not go on.
    fn rest(&mut self) -> Vec<(Stream, String)> {
        let texts = self.begun.iter_mut().map(std::mem::take);
        let begun =
            [Stream::Stdout, Stream::Stderr].into_iter().zip(texts).filter(|(_, text)| !text.is_empty());
        begun.map(|(stream, text)| (stream, format!("{}{text}\n", self.prefix))).collect()
    }
}

/// Prints what was written since the last time.
pub(crate) fn print(sources: &mut [Source]) {
    sources.iter_mut().flat_map(Source::lines).for_each(|(stream, text)| write(stream, &text));
}

/// Prints what was written since the last time, and then no more.
pub(crate) fn finish(sources: &mut [Source]) {
    print(sources);
    sources.iter_mut().flat_map(Source::rest).for_each(|(stream, text)| write(stream, &text));
}

fn write(stream: Stream, text: &str) {
    // A reader that has seen enough is no reason to fail.
    let _ = match stream {
        Stream::Stdout => std::io::stdout().lock().write_all(text.as_bytes()),
        Stream::Stderr => std::io::stderr().lock().write_all(text.as_bytes()),
    };
}

/// Prints until told that there will be no more, and then what is left.
pub(crate) async fn follow(mut sources: Vec<Source>, mut until: watch::Receiver<bool>) {
    loop {
        print(&mut sources);
        if *until.borrow() {
            return finish(&mut sources);
        }
        let _ = tokio::time::timeout(PAUSE, until.changed()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_the_runtime_cut_is_printed_whole_and_what_has_no_end_is_not_lost() {
        let dir = tempfile::tempdir().unwrap();
        let text = "t stdout P one \nt stderr F oops\nt stdout F line\nt stdout P rest\n";
        std::fs::write(dir.path().join("0.log"), text).unwrap();
        let mut source = Source::new("a | ".to_owned(), dir.path());
        let lines = source.lines();
        assert_eq!(
            lines,
            [(Stream::Stderr, "a | oops\n".to_owned()), (Stream::Stdout, "a | one line\n".to_owned())]
        );
        assert_eq!(source.rest(), [(Stream::Stdout, "a | rest\n".to_owned())]);
    }
}
