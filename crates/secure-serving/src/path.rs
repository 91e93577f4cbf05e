//! Paths and queries of requests.

use std::borrow::Cow;

/// A text without percent-encoding. An escape that is none stays as it is.
#[must_use]
pub fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let pair = (digit(after.first()), digit(after.get(1)));
        match (first, pair) {
            (b'%', (Some(high), Some(low))) => {
                bytes.push(u8::try_from(high * 16 + low).unwrap_or(b'?'));
                rest = after.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

/// The names and values of a query, in its order.
#[must_use]
pub fn form(query: &str) -> Vec<(String, String)> {
    let plus = |text: &str| decoded(&text.replace('+', " ")).into_owned();
    let pair = |pair: &str| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (plus(key), plus(value))
    };
    query.split('&').filter(|pair| !pair.is_empty()).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_pairs_in_their_order() {
        let pairs = form("a=1&&b+c=%2B+d&a=2&e").into_iter();
        let expected = [("a", "1"), ("b c", "+ d"), ("a", "2"), ("e", "")];
        assert!(pairs.eq(expected.map(|(key, value)| (key.to_owned(), value.to_owned()))));
    }

    #[test]
    fn escapes_are_decoded_once() {
        assert_eq!(decoded("/a%20b%2Fc"), "/a b/c");
        assert_eq!(decoded("%2541%zz%4"), "%41%zz%4");
        assert_eq!(decoded("%FF"), "\u{fffd}");
    }
}
