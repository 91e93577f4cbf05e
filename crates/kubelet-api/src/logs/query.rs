//! The parameters of a request for logs: PodLogOptions of v1.

use k8s_openapi::jiff::Timestamp;

use crate::http::form;

/// Which streams are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum LogStream {
    #[default]
    All,
    Stdout,
    Stderr,
}

/// What of a log is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LogQuery {
    pub(crate) follow: bool,
    pub(crate) previous: bool,
    pub(crate) timestamps: bool,
    /// Only lines from this time on.
    pub(crate) since: Option<Timestamp>,
    pub(crate) tail_lines: Option<u64>,
    pub(crate) limit_bytes: Option<u64>,
    pub(crate) stream: LogStream,
}

/// Why parameters are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueryError {
    /// A value cannot be read: 400.
    Undecodable,
    /// A value is not allowed: 422.
    Invalid,
}

/// The values as they are sent.
#[derive(Clone, Copy, Default)]
struct Values {
    follow: bool,
    previous: bool,
    timestamps: bool,
    since_seconds: Option<i64>,
    since_time: Option<Timestamp>,
    tail_lines: Option<i64>,
    limit_bytes: Option<i64>,
    stream: Option<LogStream>,
}

impl LogQuery {
    /// Reads the query of a URL. The first of several values counts; unknown parameters are ignored.
    pub(crate) fn parse(query: &str, now: Timestamp) -> Result<Self, QueryError> {
        Self::checked(Values::read(query)?, now)
    }

    fn checked(values: Values, now: Timestamp) -> Result<Self, QueryError> {
        let at_least = |value: Option<i64>, least: i64| match value {
            Some(value) if value < least => Err(QueryError::Invalid),
            value => Ok(value.and_then(|value| u64::try_from(value).ok())),
        };
        let tail_lines = at_least(values.tail_lines, 0)?;
        let limit_bytes = at_least(values.limit_bytes, 1)?;
        let since = match (at_least(values.since_seconds, 1)?, values.since_time) {
            (Some(_), Some(_)) => return Err(QueryError::Invalid),
            (Some(seconds), None) => {
                // A time before the first that can be expressed is before every line.
                let start = i64::try_from(seconds).ok().and_then(|s| now.as_second().checked_sub(s));
                let whole = start.and_then(|start| Timestamp::new(start, now.subsec_nanosecond()).ok());
                Some(whole.unwrap_or(Timestamp::MIN))
            }
            (None, time) => time,
        };
        let stream = values.stream.unwrap_or_default();
        if stream != LogStream::All && tail_lines.is_some() {
            return Err(QueryError::Invalid);
        }
        let Values { follow, previous, timestamps, .. } = values;
        Ok(Self { follow, previous, timestamps, since, tail_lines, limit_bytes, stream })
    }
}

impl Values {
    fn read(query: &str) -> Result<Self, QueryError> {
        let pairs = form(query);
        let get = |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let flag =
            |name: &str| get(name).is_some_and(|text| text != "0" && !text.eq_ignore_ascii_case("false"));
        let number = |name: &str| match get(name).map(str::parse) {
            Some(Err(_)) => Err(QueryError::Undecodable),
            Some(Ok(number)) => Ok(Some(number)),
            None => Ok(None),
        };
        // An old name of tailLines; `all` is the default.
        let tail_lines = match get("tail").filter(|text| !text.is_empty()) {
            Some("all") => None,
            Some(_) => number("tail")?,
            None => number("tailLines")?,
        };
        let since_time = match get("sinceTime") {
            None | Some("" | "null") => None,
            Some(text) => Some(text.parse().map_err(|_| QueryError::Undecodable)?),
        };
        let stream = match get("stream") {
            None => None,
            Some("All") => Some(LogStream::All),
            Some("Stdout") => Some(LogStream::Stdout),
            Some("Stderr") => Some(LogStream::Stderr),
            Some(_) => return Err(QueryError::Invalid),
        };
        Ok(Self {
            follow: flag("follow"),
            previous: flag("previous"),
            timestamps: flag("timestamps"),
            since_seconds: number("sinceSeconds")?,
            since_time,
            tail_lines,
            limit_bytes: number("limitBytes")?,
            stream,
        })
    }
}

/// A text of a query: `+` is a space.
#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-03-01T12:30:05.25Z".parse().unwrap()
    }

    fn parse(query: &str) -> Result<LogQuery, QueryError> {
        LogQuery::parse(query, now())
    }

    #[test]
    fn parameters_are_those_of_pod_log_options() {
        assert_eq!(parse(""), Ok(LogQuery::default()));
        let all = parse("follow=true&previous=1&timestamps&tailLines=5&limitBytes=9&stream=All&container=x")
            .unwrap();
        let wanted = LogQuery {
            follow: true,
            previous: true,
            timestamps: true,
            tail_lines: Some(5),
            limit_bytes: Some(9),
            ..LogQuery::default()
        };
        assert_eq!(all, wanted);
        assert_eq!(parse("follow=false&previous=0&timestamps=False"), Ok(LogQuery::default()));
        assert_eq!(parse("tail=3&tailLines=9").unwrap().tail_lines, Some(3));
        assert_eq!(parse("tail=all&tailLines=9").unwrap().tail_lines, None);
        assert_eq!(parse("tailLines=1&tailLines=2").unwrap().tail_lines, Some(1));
        assert_eq!(parse("stream=Stderr").unwrap().stream, LogStream::Stderr);
    }

    #[test]
    fn the_time_is_absolute_or_before_now() {
        let since = |query: &str| parse(query).unwrap().since;
        assert_eq!(since("sinceSeconds=5"), Some("2026-03-01T12:30:00.25Z".parse().unwrap()));
        assert_eq!(
            since("sinceTime=2026-03-01T12%3A30%3A05%2B01:00"),
            Some("2026-03-01T11:30:05Z".parse().unwrap())
        );
        assert_eq!(since("sinceSeconds=9223372036854775807"), Some(Timestamp::MIN));
        assert_eq!(since("sinceTime="), None);
    }

    #[test]
    fn what_cannot_be_read_is_told_from_what_is_not_allowed() {
        for query in [
            "tailLines=x",
            "tailLines=",
            "limitBytes=1.5",
            "sinceTime=yesterday",
            "sinceSeconds=99999999999999999999",
        ] {
            assert_eq!(parse(query), Err(QueryError::Undecodable), "{query}");
        }
        for query in [
            "tailLines=-1",
            "limitBytes=0",
            "sinceSeconds=0",
            "sinceSeconds=1&sinceTime=2026-03-01T12:30:05Z",
            "stream=stdout",
            "stream=Stdout&tailLines=1",
        ] {
            assert_eq!(parse(query), Err(QueryError::Invalid), "{query}");
        }
    }
}
