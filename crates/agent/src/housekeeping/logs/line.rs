/// The stream of a container's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Its standard output.
    Stdout,
    /// Its standard error.
    Stderr,
}

/// A piece of output: a line, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The time, as the runtime wrote it.
    pub time: String,
    /// The stream.
    pub stream: Stream,
    /// The bytes that the container wrote; with a newline if they end a line.
    pub text: Vec<u8>,
}

/// The complete lines in a piece of a log. An incomplete line at its end is ignored.
pub(super) struct Lines<'a>(&'a [u8]);

impl<'a> Lines<'a> {
    pub(super) fn over(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
}

impl Iterator for Lines<'_> {
    type Item = Line;

    fn next(&mut self) -> Option<Line> {
        loop {
            let end = self.0.iter().position(|byte| *byte == b'\n')?;
            let (line, rest) = self.0.split_at_checked(end)?;
            self.0 = rest.get(1..).unwrap_or_default();
            if let Some(line) = parsed(line) {
                return Some(line);
            }
        }
    }
}

fn parsed(line: &[u8]) -> Option<Line> {
    let mut words = line.splitn(4, |byte| *byte == b' ');
    let time = String::from_utf8_lossy(words.next()?).into_owned();
    let stream = match words.next()? {
        b"stdout" => Stream::Stdout,
        b"stderr" => Stream::Stderr,
        _ => return None,
    };
    let tag = words.next()?;
    let mut text = words.next().unwrap_or_default().to_vec();
    // P is a partial line: the output continues in the next line of the log.
    if !tag.split(|byte| *byte == b':').any(|word| word == b"P") {
        text.push(b'\n');
    }
    Some(Line { time, stream, text })
}
