//! Lines of a log as they are sent.

use agent::logs::{Line, Stream};
use k8s_openapi::jiff::Timestamp;

use super::query::{LogQuery, LogStream};

/// Writes lines as a query wants them.
pub(super) struct Format {
    query: LogQuery,
    left: u64,
    /// Whether the next piece begins a line.
    begins: bool,
}

impl Format {
    pub(super) fn new(query: LogQuery) -> Self {
        Self { query, left: query.limit_bytes.unwrap_or(u64::MAX), begins: true }
    }

    /// Whether as many bytes as are wanted are written.
    pub(super) fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Adds a piece of output to `out`.
    pub(super) fn write(&mut self, line: &Line, out: &mut Vec<u8>) {
        let Ok(time) = line.time.parse::<Timestamp>() else { return };
        let begins = std::mem::replace(&mut self.begins, line.text.ends_with(b"\n"));
        let is_wanted = match self.query.stream {
            LogStream::All => true,
            LogStream::Stdout => line.stream == Stream::Stdout,
            LogStream::Stderr => line.stream == Stream::Stderr,
        };
        if !is_wanted || self.query.since.is_some_and(|since| time < since) {
            return;
        }
        if self.query.timestamps && begins {
            self.add(padded(&line.time).as_bytes(), out);
            self.add(b" ", out);
        }
        self.add(&line.text, out);
    }

    fn add(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        out.extend_from_slice(bytes.get(..most).unwrap_or(bytes));
        self.left = self.left.saturating_sub(u64::try_from(most).unwrap_or(u64::MAX));
    }
}

/// The time with nine digits after the second.
fn padded(time: &str) -> String {
    let zone = time.rfind(['Z', 'z', '+', '-']).filter(|at| *at > 10).unwrap_or(time.len());
    let (clock, zone) = time.split_at_checked(zone).unwrap_or((time, ""));
    let (seconds, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let zone = if zone == "+00:00" { "Z" } else { zone };
    format!("{seconds}.{fraction:0<9.9}{zone}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(time: &str, stream: Stream, text: &str) -> Line {
        Line { time: format!("2026-03-01T12:30:{time}"), stream, text: text.as_bytes().to_vec() }
    }

    fn written(query: LogQuery) -> String {
        let mut format = Format::new(query);
        let mut out = Vec::new();
        for line in [
            line("01.5Z", Stream::Stdout, "one\n"),
            line("02.123456789Z", Stream::Stderr, "tw"),
            line("02.2+00:00", Stream::Stderr, "o\n"),
            Line { time: "t".into(), stream: Stream::Stdout, text: b"no time\n".to_vec() },
            line("03Z", Stream::Stdout, "three\n"),
        ] {
            if format.is_done() {
                break;
            }
            format.write(&line, &mut out);
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_are_joined_stamped_chosen_and_cut() {
        let all = LogQuery::default();
        assert_eq!(written(all), "one\ntwo\nthree\n");
        assert_eq!(
            written(LogQuery { timestamps: true, ..all }),
            "2026-03-01T12:30:01.500000000Z one\n2026-03-01T12:30:02.123456789Z two\n2026-03-01T12:30:03.000000000Z three\n"
        );
        assert_eq!(written(LogQuery { stream: LogStream::Stderr, ..all }), "two\n");
        assert_eq!(
            written(LogQuery { since: Some("2026-03-01T12:30:03Z".parse().unwrap()), ..all }),
            "three\n"
        );
        assert_eq!(written(LogQuery { limit_bytes: Some(6), ..all }), "one\ntw");
        assert_eq!(written(LogQuery { limit_bytes: Some(4), timestamps: true, ..all }), "2026");
    }

    #[test]
    fn times_keep_their_zone() {
        assert_eq!(padded("2026-03-01T12:30:05.1+02:00"), "2026-03-01T12:30:05.100000000+02:00");
        assert_eq!(padded("2026-03-01T12:30:05-05:00"), "2026-03-01T12:30:05.000000000-05:00");
        assert_eq!(padded("2026-03-01T12:30:05.123456789+00:00"), "2026-03-01T12:30:05.123456789Z");
    }
}
