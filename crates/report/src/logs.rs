//! The logs of containers, printed as they grow.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use agent::logs::{Line, Reader, Stream};
use tokio::sync::watch;

use crate::printable;

/// How often logs are read on.
const PAUSE: Duration = Duration::from_millis(100);
/// No more of a line is kept; longer ones are printed in pieces.
const LONGEST: usize = 1 << 20;
/// As many pieces of one log are printed before it is another's turn.
const A_TURN: usize = 16;

/// How much of a log is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// What is there now.
    UpToNow,
    /// That, and what is still to come.
    Growing,
}

/// Whether there was anything to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Printed {
    /// Something, and there may be more.
    Some,
    /// All that there was.
    All,
}

/// One container's log and how its lines begin.
#[derive(Debug)]
pub struct Source {
    prefix: String,
    reader: Reader,
    /// What has come of a line that is not whole yet, for each stream.
    begun: [Vec<u8>; 2],
}

impl Source {
    /// The log in the directory `dir`; each line begins with `prefix`.
    #[must_use]
    pub fn new(prefix: String, dir: &Path, extent: Extent) -> Self {
        let reader = match extent {
            Extent::UpToNow => Reader::up_to_now(dir),
            Extent::Growing => Reader::new(dir),
        };
        Self { prefix, reader, begun: [Vec::new(), Vec::new()] }
    }

    /// Prints for one turn.
    fn print(&mut self) -> Printed {
        for _ in 0..A_TURN {
            // A log that cannot be read now may be later; the pod's status says why if not.
            let read = self.reader.read().unwrap_or_default();
            if read.is_empty() {
                return Printed::All;
            }
            read.into_iter()
                .filter_map(|line| self.whole(line))
                .for_each(|(stream, text)| write(stream, &text));
        }
        Printed::Some
    }

    /// The line, if it has become whole: a runtime cuts long ones into parts.
    fn whole(&mut self, line: Line) -> Option<(Stream, Vec<u8>)> {
        let [out, err] = &mut self.begun;
        let begun = if line.stream == Stream::Stdout { out } else { err };
        begun.extend(line.text);
        let is_whole = begun.ends_with(b"\n") || begun.len() > LONGEST;
        is_whole.then(|| (line.stream, [self.prefix.as_bytes(), &std::mem::take(begun)].concat()))
    }

    /// What was begun and will not go on.
    fn rest(&mut self) -> Vec<(Stream, Vec<u8>)> {
        let texts = self.begun.iter_mut().map(std::mem::take);
        let begun =
            [Stream::Stdout, Stream::Stderr].into_iter().zip(texts).filter(|(_, text)| !text.is_empty());
        begun.map(|(stream, text)| (stream, [self.prefix.as_bytes(), &text, b"\n"].concat())).collect()
    }
}

/// Prints some of what was written since the last time, of each log in turn.
pub fn print(sources: &mut [Source]) -> Printed {
    // Not the first that has more: each has its turn.
    let turns: Vec<Printed> = sources.iter_mut().map(Source::print).collect();
    if turns.contains(&Printed::Some) { Printed::Some } else { Printed::All }
}

/// Prints what was written since the last time, and then no more.
pub fn finish(sources: &mut [Source]) {
    while print(sources) == Printed::Some {}
    sources.iter_mut().flat_map(Source::rest).for_each(|(stream, text)| write(stream, &text));
}

/// As it is; on a terminal without control characters.
fn write(stream: Stream, text: &[u8]) {
    // A reader that has seen enough is no reason to fail.
    let _ = match stream {
        Stream::Stdout => shown(&mut std::io::stdout().lock(), text),
        Stream::Stderr => shown(&mut std::io::stderr().lock(), text),
    };
}

fn shown(out: &mut (impl Write + IsTerminal), text: &[u8]) -> std::io::Result<()> {
    if out.is_terminal() {
        return out.write_all(printable(&String::from_utf8_lossy(text)).as_bytes());
    }
    out.write_all(text)
}

/// Prints until `until` is true, and then the rest.
pub async fn follow(mut sources: Vec<Source>, mut until: watch::Receiver<bool>) {
    loop {
        let printed = print(&mut sources);
        if *until.borrow() {
            return finish(&mut sources);
        }
        match printed {
            Printed::Some => tokio::task::yield_now().await,
            Printed::All => drop(tokio::time::timeout(PAUSE, until.changed()).await),
        }
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
        let mut source = Source::new("a | ".to_owned(), dir.path(), Extent::UpToNow);
        let read = source.reader.read().unwrap();
        let lines: Vec<_> = read.into_iter().filter_map(|line| source.whole(line)).collect();
        assert_eq!(
            lines,
            [(Stream::Stderr, b"a | oops\n".to_vec()), (Stream::Stdout, b"a | one line\n".to_vec())]
        );
        assert_eq!(source.rest(), [(Stream::Stdout, b"a | rest\n".to_vec())]);
    }
}
