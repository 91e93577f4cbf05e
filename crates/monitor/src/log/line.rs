use std::io::Write;
use std::time::SystemTime;

/// A longer line is cut into pieces of this size.
pub(crate) const LONGEST: usize = 16 * 1024;

/// Which of a container's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// Whether a piece ends its line.
#[derive(Clone, Copy)]
enum Tag {
    Full,
    Partial,
}

/// The bytes of one stream that become lines of a log.
#[derive(Debug)]
pub(crate) struct Lines {
    stream: Stream,
    /// The start of a line whose end has not arrived; at most [`LONGEST`] bytes.
    begun: Vec<u8>,
}

impl Lines {
    pub(crate) fn new(stream: Stream) -> Self {
        Self { stream, begun: Vec::new() }
    }

    pub(crate) fn stream(&self) -> Stream {
        self.stream
    }

    /// The lines that are complete with these bytes, as of this moment.
    pub(crate) fn feed(&mut self, bytes: &[u8], now: SystemTime) -> Vec<u8> {
        let stamp = stamp(now);
        let mut out = Vec::with_capacity(bytes.len() + bytes.len() / 4 + 64);
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            match piece.strip_suffix(b"\n") {
                Some(end) => self.end_line(end, &stamp, &mut out),
                None => self.begin_line(piece, &stamp, &mut out),
            }
        }
        out
    }

    /// The last line without a newline, if there is one.
    pub(crate) fn finish(&mut self, now: SystemTime) -> Vec<u8> {
        let mut out = Vec::new();
        let begun = std::mem::take(&mut self.begun);
        if !begun.is_empty() {
            self.put(&mut out, &stamp(now), Tag::Partial, &begun);
        }
        out
    }

    fn end_line(&mut self, end: &[u8], stamp: &str, out: &mut Vec<u8>) {
        if self.begun.is_empty() && end.len() <= LONGEST {
            return self.put(out, stamp, Tag::Full, end);
        }
        self.begin_line(end, stamp, out);
        let line = std::mem::take(&mut self.begun);
        self.put(out, stamp, Tag::Full, &line);
    }

    fn begin_line(&mut self, part: &[u8], stamp: &str, out: &mut Vec<u8>) {
        let mut rest = part;
        while self.begun.len() + rest.len() > LONGEST {
            let (now, later) = rest.split_at(LONGEST - self.begun.len());
            self.begun.extend_from_slice(now);
            let piece = std::mem::take(&mut self.begun);
            self.put(out, stamp, Tag::Partial, &piece);
            rest = later;
        }
        self.begun.extend_from_slice(rest);
    }

    fn put(&self, out: &mut Vec<u8>, stamp: &str, tag: Tag, text: &[u8]) {
        let tag = match tag {
            Tag::Full => 'F',
            Tag::Partial => 'P',
        };
        // Writing to memory does not fail.
        let _ = write!(out, "{stamp} {} {tag} ", self.stream.name());
        out.extend_from_slice(text);
        out.push(b'\n');
    }
}

/// The moment, to the nanosecond, without zeros at its end.
fn stamp(now: SystemTime) -> String {
    let text = humantime::format_rfc3339_nanos(now).to_string();
    let digits = text.trim_end_matches('Z').trim_end_matches('0').trim_end_matches('.');
    // A whole second ends in digits of its own, which may be zeros too.
    if digits.len() <= "2006-01-02T15:04:05".len() {
        return format!("{}Z", text.get(.."2006-01-02T15:04:05".len()).unwrap_or(digits));
    }
    format!("{digits}Z")
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    const AT: &str = "1970-01-01T00:00:01.5Z";

    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(1500)
    }

    fn text(bytes: &[u8]) -> String {
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[test]
    fn moments_have_no_zeros_at_their_end() {
        let at = |nanos| stamp(UNIX_EPOCH + Duration::from_nanos(nanos));
        assert_eq!(at(1_123_456_789), "1970-01-01T00:00:01.123456789Z");
        assert_eq!(at(1_120_000_000), "1970-01-01T00:00:01.12Z");
        assert_eq!(at(10_000_000_000), "1970-01-01T00:00:10Z");
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(1), "1970-01-01T00:00:00.000000001Z");
    }

    #[test]
    fn a_line_is_stamped_named_and_tagged() {
        let mut lines = Lines::new(Stream::Stdout);
        assert_eq!(text(&lines.feed(b"one\n\ntw", now())), format!("{AT} stdout F one\n{AT} stdout F \n"));
        assert_eq!(text(&lines.feed(b"o\n", now())), format!("{AT} stdout F two\n"));
        assert_eq!(lines.finish(now()), b"");
    }

    #[test]
    fn a_last_line_without_an_end_is_partial() {
        let mut lines = Lines::new(Stream::Stderr);
        assert_eq!(lines.feed(b"abc", now()), b"");
        assert_eq!(text(&lines.finish(now())), format!("{AT} stderr P abc\n"));
        assert_eq!(lines.finish(now()), b"");
    }

    #[test]
    fn a_line_of_the_longest_size_is_whole_and_one_more_byte_is_not() {
        let long = "x".repeat(LONGEST);
        let mut lines = Lines::new(Stream::Stdout);
        assert_eq!(
            text(&lines.feed(format!("{long}\n").as_bytes(), now())),
            format!("{AT} stdout F {long}\n")
        );
        assert_eq!(
            text(&lines.feed(format!("{long}y\n").as_bytes(), now())),
            format!("{AT} stdout P {long}\n{AT} stdout F y\n")
        );
    }

    /// However the bytes come, the log is the same.
    #[test]
    fn cuts_between_reads_change_nothing() {
        let mut bytes = Vec::new();
        for length in [0, 1, 5, LONGEST - 1, LONGEST, LONGEST + 1, 2 * LONGEST, 2 * LONGEST + 7] {
            bytes.extend(std::iter::repeat_n(b'z', length));
            bytes.push(b'\n');
        }
        bytes.extend_from_slice(b"rest");
        let of = |size: usize| {
            let mut lines = Lines::new(Stream::Stdout);
            let mut out: Vec<u8> = bytes.chunks(size).flat_map(|part| lines.feed(part, now())).collect();
            out.extend(lines.finish(now()));
            out
        };
        let whole = of(bytes.len());
        for size in [1, 2, 3, 4096, LONGEST, LONGEST + 1, 65536] {
            assert!(of(size) == whole, "pieces of {size}");
        }
    }
}
