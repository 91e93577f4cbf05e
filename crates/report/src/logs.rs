//! The logs of containers, printed as they grow.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use agent::Stored;
use agent::logs::{Line, Reader, Stream};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
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
    /// Only what is still to come.
    FromNow,
}

/// Whether there was anything to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Printed {
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
            Extent::FromNow => Reader::from_now(dir),
        };
        Self { prefix, reader, begun: [Vec::new(), Vec::new()] }
    }

    /// Prints for one turn. Fails if stdout or stderr cannot be written to.
    fn print(&mut self) -> io::Result<Printed> {
        for _ in 0..A_TURN {
            // A log that cannot be read now may be later; the pod's status says why if not.
            let read = self.reader.read().unwrap_or_default();
            if read.is_empty() {
                return Ok(Printed::All);
            }
            let mut lines = read.into_iter().filter_map(|line| self.whole(line));
            lines.try_for_each(|(stream, text)| write(stream, &text))?;
        }
        Ok(Printed::Some)
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

/// The logs of a pod's containers, or of the one that is named. Lines begin with the container's name, unless there is
/// only one.
///
/// # Errors
/// The names of the pod's containers, if none has the name that was given.
pub fn of_pod(pod: &Stored, wanted: Option<&str>, extent: Extent) -> Result<Vec<Source>, Vec<String>> {
    let spec = pod.record.pod.spec.clone().unwrap_or_default();
    let init = spec.init_containers.unwrap_or_default();
    let names: Vec<String> = init.into_iter().chain(spec.containers).map(|c| c.name).collect();
    if wanted.is_some_and(|wanted| !names.iter().any(|name| name == wanted)) {
        return Err(names);
    }
    let meant = names.iter().filter(|name| wanted.is_none_or(|wanted| wanted == name.as_str()));
    let is_alone = wanted.is_some() || names.len() == 1;
    let prefix = |name: &str| if is_alone { String::new() } else { format!("{name} | ") };
    Ok(meant.map(|name| Source::new(prefix(name), &pod.logs.join(name), extent)).collect())
}

/// Prints some of what was written since the last time, of each log in turn. Fails if stdout or stderr cannot be
/// written to, such as a pipe whose reader has gone.
fn print(sources: &mut [Source]) -> io::Result<Printed> {
    // Not the first that has more: each has its turn.
    let turns = sources.iter_mut().map(Source::print).collect::<io::Result<Vec<Printed>>>()?;
    Ok(if turns.contains(&Printed::Some) { Printed::Some } else { Printed::All })
}

/// Prints what was written since the last time, and then no more. Fails as [`print`].
fn finish(sources: &mut [Source]) -> io::Result<()> {
    while print(sources)? == Printed::Some {}
    sources.iter_mut().flat_map(Source::rest).try_for_each(|(stream, text)| write(stream, &text))
}

/// Prints the logs for as long as `goes_on`, and then the rest; ends also when the reader of stdout has gone.
///
/// # Errors
/// That of `goes_on`; inside, that of the output.
pub fn show<E>(
    sources: &mut [Source],
    mut goes_on: impl FnMut() -> Result<bool, E>,
) -> Result<io::Result<()>, E> {
    loop {
        loop {
            match print(sources) {
                Ok(Printed::Some) => {}
                Ok(Printed::All) => break,
                Err(error) => return Ok(Err(error)),
            }
        }
        // Asked after what is there was read: what a container writes last is not missed.
        if !goes_on()? || is_stdout_closed() {
            return Ok(finish(sources));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Whether the reader of stdout has gone. A write would tell, but a container may not write for long.
fn is_stdout_closed() -> bool {
    let stdout = io::stdout();
    let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
    let found = poll(&mut polled, Some(&Timespec::default()));
    found.is_ok() && polled.iter().any(|one| one.revents().intersects(PollFlags::ERR | PollFlags::HUP))
}

/// As it is; on a terminal without control characters.
fn write(stream: Stream, text: &[u8]) -> io::Result<()> {
    match stream {
        Stream::Stdout => shown(&mut io::stdout().lock(), text),
        Stream::Stderr => shown(&mut io::stderr().lock(), text),
    }
}

fn shown(out: &mut (impl Write + IsTerminal), text: &[u8]) -> io::Result<()> {
    if out.is_terminal() {
        return out.write_all(printable(&String::from_utf8_lossy(text)).as_bytes());
    }
    out.write_all(text)
}

/// Prints until `until` is true, and then the rest. A reader of the output that has gone is no reason to fail: the pods
/// go on.
pub async fn follow(mut sources: Vec<Source>, mut until: watch::Receiver<bool>) {
    loop {
        let printed = print(&mut sources);
        if *until.borrow() {
            let _ = finish(&mut sources);
            return;
        }
        match printed {
            Ok(Printed::Some) => tokio::task::yield_now().await,
            _ => drop(tokio::time::timeout(PAUSE, until.changed()).await),
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
