//! How client and server are to speak, from the headers of the client's request.

use hyper::header::{
    CONNECTION, HeaderMap, HeaderName, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use hyper::{Method, StatusCode};

use crate::command::Verdict;
use crate::spdy::sessions::Resizing;
use crate::websocket::{Closing, Coding};

/// SPDY's protocols in a client's order, and the one that was chosen.
pub(crate) const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");
/// What a client could have asked for instead.
pub(crate) const ACCEPTED_PROTOCOLS: HeaderName =
    HeaderName::from_static("x-accepted-stream-protocol-versions");

/// What a client came for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Command,
    PortForward,
}

/// What was agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speech {
    /// Exec or attach over WebSocket.
    Channels(Coding, Closing, Verdict),
    /// Exec or attach over SPDY.
    Streams(Resizing, Verdict),
    /// Ports over WebSocket, two channels each.
    PortChannels(Coding),
    /// Ports over SPDY.
    PortStreams,
    /// Ports over SPDY inside of WebSocket.
    PortTunnel,
}

/// A name in a list of protocols, the best first. Without a name: for WebSocket clients that name none.
type Protocol = (&'static str, Speech);

const COMMAND_WEBSOCKET: &[Protocol] = &[
    ("v5.channel.k8s.io", Speech::Channels(Coding::Plain, Closing::Possible, Verdict::Json)),
    ("v4.channel.k8s.io", Speech::Channels(Coding::Plain, Closing::Impossible, Verdict::Json)),
    ("v3.channel.k8s.io", Speech::Channels(Coding::Plain, Closing::Impossible, Verdict::Text)),
    ("v2.channel.k8s.io", Speech::Channels(Coding::Plain, Closing::Impossible, Verdict::Text)),
    ("channel.k8s.io", Speech::Channels(Coding::Plain, Closing::Impossible, Verdict::Text)),
    ("v4.base64.channel.k8s.io", Speech::Channels(Coding::Base64, Closing::Impossible, Verdict::Json)),
    ("base64.channel.k8s.io", Speech::Channels(Coding::Base64, Closing::Impossible, Verdict::Text)),
    ("", Speech::Channels(Coding::Plain, Closing::Impossible, Verdict::Text)),
];

const COMMAND_SPDY: &[Protocol] = &[
    ("v4.channel.k8s.io", Speech::Streams(Resizing::Possible, Verdict::Json)),
    ("v3.channel.k8s.io", Speech::Streams(Resizing::Possible, Verdict::Text)),
    ("v2.channel.k8s.io", Speech::Streams(Resizing::Impossible, Verdict::Text)),
    ("channel.k8s.io", Speech::Streams(Resizing::Impossible, Verdict::Text)),
];

const PORTS_WEBSOCKET: &[Protocol] = &[
    ("SPDY/3.1+portforward.k8s.io", Speech::PortTunnel),
    ("v4.channel.k8s.io", Speech::PortChannels(Coding::Plain)),
    ("v4.base64.channel.k8s.io", Speech::PortChannels(Coding::Base64)),
    ("", Speech::PortChannels(Coding::Plain)),
];

/// The protocol of ports over SPDY.
const PORTS_PROTOCOL: &str = "portforward.k8s.io";

const PORTS_SPDY: &[Protocol] = &[(PORTS_PROTOCOL, Speech::PortStreams)];

/// An upgrade that both sides can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    pub(crate) speech: Speech,
    /// Headers of the answer.
    pub(crate) headers: Vec<(HeaderName, String)>,
}

/// Why there is no upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) status: StatusCode,
    pub(crate) why: String,
    /// Headers of the answer.
    pub(crate) headers: Vec<(HeaderName, String)>,
}

impl Refused {
    pub(crate) fn new(status: StatusCode, why: impl Into<String>) -> Self {
        Self { status, why: why.into(), headers: Vec::new() }
    }
}

/// Agrees with a client on the first of its protocols that we speak.
pub(crate) fn negotiate(method: &Method, headers: &HeaderMap, purpose: Purpose) -> Result<Agreed, Refused> {
    let upgrade = tokens(headers, &UPGRADE).next().unwrap_or_default();
    if !tokens(headers, &CONNECTION).any(|token| token.eq_ignore_ascii_case("upgrade")) {
        let why = "an upgrade to WebSocket or SPDY/3.1 is needed";
        return Err(Refused::new(StatusCode::BAD_REQUEST, why));
    }
    if upgrade.eq_ignore_ascii_case("websocket") {
        websocket(method, headers, purpose)
    } else if upgrade.eq_ignore_ascii_case("SPDY/3.1") {
        spdy(headers, purpose)
    } else {
        Err(Refused::new(
            StatusCode::BAD_REQUEST,
            format!("no upgrade to {upgrade:?}: WebSocket and SPDY/3.1"),
        ))
    }
}

fn websocket(method: &Method, headers: &HeaderMap, purpose: Purpose) -> Result<Agreed, Refused> {
    let supported = match purpose {
        Purpose::Command => COMMAND_WEBSOCKET,
        Purpose::PortForward => PORTS_WEBSOCKET,
    };
    let mut headers_of_answer = handshake(method, headers)?;
    let mut wanted: Vec<_> = tokens(headers, &SEC_WEBSOCKET_PROTOCOL).collect();
    if wanted.is_empty() {
        wanted.push("");
    }
    let (name, speech) = choose(&wanted, supported)?;
    if !name.is_empty() {
        headers_of_answer.push((SEC_WEBSOCKET_PROTOCOL, name.to_owned()));
    }
    Ok(Agreed { speech, headers: headers_of_answer })
}

/// The headers of an answer to a WebSocket client, but for the protocol.
fn handshake(method: &Method, headers: &HeaderMap) -> Result<Vec<(HeaderName, String)>, Refused> {
    if method != Method::GET {
        return Err(Refused::new(StatusCode::METHOD_NOT_ALLOWED, "WebSocket begins with GET"));
    }
    if tokens(headers, &SEC_WEBSOCKET_VERSION).next() != Some("13") {
        let mut refused = Refused::new(StatusCode::UPGRADE_REQUIRED, "WebSocket's version 13 is needed");
        refused.headers.push((SEC_WEBSOCKET_VERSION, "13".to_owned()));
        return Err(refused);
    }
    let Some(key) = tokens(headers, &SEC_WEBSOCKET_KEY).next() else {
        return Err(Refused::new(StatusCode::BAD_REQUEST, "Sec-WebSocket-Key is missing"));
    };
    Ok(vec![
        (UPGRADE, "websocket".to_owned()),
        (CONNECTION, "Upgrade".to_owned()),
        (hyper::header::SEC_WEBSOCKET_ACCEPT, accept(key)),
    ])
}

/// The handshakes of a session between a WebSocket client and a runtime that speaks SPDY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bridged {
    /// Headers of the answer to the client.
    pub(crate) answer: Vec<(HeaderName, String)>,
    /// Headers of the request to the runtime.
    pub(crate) request: Vec<(HeaderName, String)>,
}

/// What a WebSocket client of ports puts before the name of a protocol that is spoken inside.
const TUNNEL: &str = "SPDY/3.1+";
/// Closing of channels is new in it.
const COMMAND_BRIDGED: &str = "v5.channel.k8s.io";

impl Bridged {
    /// `None` if the client does not offer a protocol that is bridged.
    pub(crate) fn of(
        method: &Method,
        headers: &HeaderMap,
        purpose: Purpose,
    ) -> Result<Option<Self>, Refused> {
        let is_websocket = tokens(headers, &UPGRADE).any(|name| name.eq_ignore_ascii_case("websocket"));
        let (of_client, of_runtime) = match purpose {
            Purpose::Command => (COMMAND_BRIDGED.to_owned(), "v4.channel.k8s.io"),
            Purpose::PortForward => (format!("{TUNNEL}{PORTS_PROTOCOL}"), PORTS_PROTOCOL),
        };
        if !is_websocket || !tokens(headers, &SEC_WEBSOCKET_PROTOCOL).any(|name| name == of_client) {
            return Ok(None);
        }
        let mut answer = handshake(method, headers)?;
        answer.push((SEC_WEBSOCKET_PROTOCOL, of_client));
        let request = vec![
            (UPGRADE, "SPDY/3.1".to_owned()),
            (CONNECTION, "Upgrade".to_owned()),
            (STREAM_PROTOCOL, of_runtime.to_owned()),
        ];
        Ok(Some(Self { answer, request }))
    }
}

fn spdy(headers: &HeaderMap, purpose: Purpose) -> Result<Agreed, Refused> {
    let supported = match purpose {
        Purpose::Command => COMMAND_SPDY,
        Purpose::PortForward => PORTS_SPDY,
    };
    let wanted: Vec<_> = tokens(headers, &STREAM_PROTOCOL).collect();
    if wanted.is_empty() {
        return Err(Refused::new(StatusCode::BAD_REQUEST, "X-Stream-Protocol-Version is missing"));
    }
    let (name, speech) = choose(&wanted, supported).map_err(|mut refused| {
        refused.headers =
            supported.iter().map(|(name, _)| (ACCEPTED_PROTOCOLS, (*name).to_owned())).collect();
        refused
    })?;
    let headers = vec![
        (UPGRADE, "SPDY/3.1".to_owned()),
        (CONNECTION, "Upgrade".to_owned()),
        (STREAM_PROTOCOL, name.to_owned()),
    ];
    Ok(Agreed { speech, headers })
}

fn choose(wanted: &[&str], supported: &[Protocol]) -> Result<Protocol, Refused> {
    let known = |name: &&str| supported.iter().find(|(known, _)| known == name).copied();
    wanted.iter().find_map(known).ok_or_else(|| {
        let names: Vec<_> = supported.iter().map(|(name, _)| *name).filter(|name| !name.is_empty()).collect();
        let why = format!("none of the protocols {wanted:?}: {}", names.join(", "));
        Refused::new(StatusCode::FORBIDDEN, why)
    })
}

/// The members of a header that is a list, wherever it is cut.
fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|token| !token.is_empty())
}

/// Proves to a client that we have read its key as RFC 6455 §4.2.2 wants.
fn accept(key: &str) -> String {
    use base64::Engine;
    let text = [key, "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"].concat();
    let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    base64::engine::general_purpose::STANDARD.encode(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(given: &[(&'static str, &'static str)]) -> HeaderMap {
        given.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    const WEBSOCKET: [(&str, &str); 4] = [
        ("connection", "keep-alive, Upgrade"),
        ("upgrade", "WebSocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];

    fn agreed(extra: &[(&'static str, &'static str)], purpose: Purpose) -> Result<Agreed, Refused> {
        negotiate(&Method::GET, &headers(&[&WEBSOCKET[..], extra].concat()), purpose)
    }

    #[test]
    fn the_key_of_the_standard_gets_the_standards_answer() {
        assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn the_first_protocol_of_the_client_that_is_known_is_chosen() {
        let offered = [("sec-websocket-protocol", "v9.channel.k8s.io, v4.channel.k8s.io,v5.channel.k8s.io")];
        let agreed = agreed(&offered, Purpose::Command).unwrap();
        assert_eq!(agreed.speech, Speech::Channels(Coding::Plain, Closing::Impossible, Verdict::Json));
        assert!(agreed.headers.contains(&(SEC_WEBSOCKET_PROTOCOL, "v4.channel.k8s.io".to_owned())));
    }

    #[test]
    fn a_websocket_client_need_not_name_a_protocol() {
        let agreed = agreed(&[], Purpose::Command).unwrap();
        assert_eq!(agreed.speech, Speech::Channels(Coding::Plain, Closing::Impossible, Verdict::Text));
        assert!(agreed.headers.iter().all(|(name, _)| name != SEC_WEBSOCKET_PROTOCOL));
    }

    #[test]
    fn what_only_a_client_of_kubectls_speaks_is_bridged_to_what_every_runtime_does() {
        let of = |offered: &'static str, purpose| {
            let all = headers(&[&WEBSOCKET[..], &[("sec-websocket-protocol", offered)]].concat());
            Bridged::of(&Method::GET, &all, purpose).unwrap()
        };
        let protocols = |bridged: Bridged| {
            let named = |headers: &[(HeaderName, String)], name: &HeaderName| {
                headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()).unwrap()
            };
            (named(&bridged.answer, &SEC_WEBSOCKET_PROTOCOL), named(&bridged.request, &STREAM_PROTOCOL))
        };
        let pair = |one: &str, other: &str| (one.to_owned(), other.to_owned());
        let command = of("v4.channel.k8s.io, v5.channel.k8s.io", Purpose::Command).unwrap();
        assert_eq!(protocols(command), pair("v5.channel.k8s.io", "v4.channel.k8s.io"));
        let ports = of("SPDY/3.1+portforward.k8s.io", Purpose::PortForward).unwrap();
        assert_eq!(protocols(ports), pair("SPDY/3.1+portforward.k8s.io", "portforward.k8s.io"));
        assert_eq!(of("v4.channel.k8s.io", Purpose::Command), None);
        assert_eq!(of("v5.channel.k8s.io", Purpose::PortForward), None);
        let spdy = headers(&[("connection", "Upgrade"), ("upgrade", "SPDY/3.1")]);
        assert_eq!(Bridged::of(&Method::POST, &spdy, Purpose::Command), Ok(None));
        let posted = headers(&[&WEBSOCKET[..], &[("sec-websocket-protocol", "v5.channel.k8s.io")]].concat());
        let refused = Bridged::of(&Method::POST, &posted, Purpose::Command).unwrap_err();
        assert_eq!(refused.status, StatusCode::METHOD_NOT_ALLOWED);
    }

    #[test]
    fn unknown_protocols_are_refused_with_those_that_are_known() {
        let refused = agreed(&[("sec-websocket-protocol", "chat")], Purpose::PortForward).unwrap_err();
        assert_eq!(refused.status, StatusCode::FORBIDDEN);
        assert!(refused.why.contains("SPDY/3.1+portforward.k8s.io, v4.channel.k8s.io"), "{}", refused.why);
    }

    #[test]
    fn spdy_needs_a_protocol() {
        let spdy = [("connection", "Upgrade"), ("upgrade", "SPDY/3.1")];
        let refused = negotiate(&Method::POST, &headers(&spdy), Purpose::Command).unwrap_err();
        assert_eq!(refused.status, StatusCode::BAD_REQUEST);
        let unknown = [&spdy[..], &[("x-stream-protocol-version", "v9.channel.k8s.io")]].concat();
        let refused = negotiate(&Method::POST, &headers(&unknown), Purpose::Command).unwrap_err();
        assert_eq!(refused.status, StatusCode::FORBIDDEN);
        assert_eq!(refused.headers.len(), COMMAND_SPDY.len());
        let known = [&unknown[..], &[("x-stream-protocol-version", "v3.channel.k8s.io")]].concat();
        let agreed = negotiate(&Method::POST, &headers(&known), Purpose::Command).unwrap();
        assert_eq!(agreed.speech, Speech::Streams(Resizing::Possible, Verdict::Text));
    }

    #[test]
    fn what_is_no_upgrade_is_refused() {
        let plain = negotiate(&Method::GET, &headers(&[]), Purpose::Command).unwrap_err();
        assert_eq!(plain.status, StatusCode::BAD_REQUEST);
        let posted = negotiate(&Method::POST, &headers(&WEBSOCKET), Purpose::Command).unwrap_err();
        assert_eq!(posted.status, StatusCode::METHOD_NOT_ALLOWED);
        let other = [("connection", "upgrade"), ("upgrade", "h2c")];
        let other = negotiate(&Method::GET, &headers(&other), Purpose::Command).unwrap_err();
        assert_eq!(other.status, StatusCode::BAD_REQUEST);
    }
}
