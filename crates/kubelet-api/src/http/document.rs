//! Answers with documents of the page: with their policy, in no frame, and not again to a client that has them.

use hyper::StatusCode;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, ETAG, HeaderName, HeaderValue, LOCATION, REFERRER_POLICY,
    X_FRAME_OPTIONS,
};
use ring::digest::{SHA256, digest};

use super::answer::{Answer, text, typed};
use crate::page::Document;

/// How many bytes of a hash tell two documents apart.
const TAG_BYTES: usize = 16;

/// A page, a part of one, or its data. A client that has it already, by the tag that it sends, gets 304.
pub(super) fn document(document: Document, known: Option<&HeaderValue>) -> Answer {
    let tag = tag(&document.body);
    let is_known = known.is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut answer = if is_known {
        typed(StatusCode::NOT_MODIFIED, document.kind, "")
    } else {
        typed(StatusCode::OK, document.kind, document.body)
    };
    let headers = answer.headers_mut();
    headers.extend(HeaderValue::try_from(tag).ok().map(|tag| (ETAG, tag)));
    // Other pages cannot frame it, load it or learn its address.
    let policy = document.policy.map(|policy| format!("{policy}; frame-ancestors 'none'"));
    let policy = policy.and_then(|policy| HeaderValue::try_from(policy).ok());
    headers.extend(policy.map(|policy| (CONTENT_SECURITY_POLICY, policy)));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    let same_origin = HeaderValue::from_static("same-origin");
    headers.insert(HeaderName::from_static("cross-origin-resource-policy"), same_origin.clone());
    headers.insert(HeaderName::from_static("cross-origin-opener-policy"), same_origin);
    answer
}

fn tag(body: &str) -> String {
    let hash = digest(&SHA256, body.as_bytes());
    let short = hash.as_ref().get(..TAG_BYTES).unwrap_or_default();
    let hex: String = short.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("\"{hex}\"")
}

/// 307 to a path beside the one that was asked for: a proxy before this server has another path for it.
pub(super) fn moved(beside: &'static str) -> Answer {
    let mut answer = text(StatusCode::TEMPORARY_REDIRECT, "");
    answer.headers_mut().insert(LOCATION, HeaderValue::from_static(beside));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(body: &str) -> Document {
        let policy = Some("default-src 'none'".to_owned());
        Document { kind: "text/html; charset=utf-8", body: body.to_owned(), policy }
    }

    #[test]
    fn a_document_that_the_client_has_is_not_sent_again() {
        let first = document(page("a"), None);
        let tag = first.headers()[ETAG].clone();
        assert_eq!(first.status(), StatusCode::OK);
        assert_eq!(document(page("a"), Some(&tag)).status(), StatusCode::NOT_MODIFIED);
        assert_eq!(document(page("b"), Some(&tag)).status(), StatusCode::OK);
    }

    #[test]
    fn a_document_is_served_with_its_policy_and_in_no_frame() {
        let answer = document(page("a"), None);
        let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(header("content-security-policy"), "default-src 'none'; frame-ancestors 'none'");
        assert_eq!(
            (header("x-frame-options"), header("x-content-type-options")),
            ("DENY".into(), "nosniff".into())
        );
        assert_eq!(header("cache-control"), "no-cache, private");
    }
}
