//! What an HTTP probe asks, and where a redirection leads. A probe follows redirections to its own host only.

use hyper::Uri;

/// The URL scheme of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(super) fn of(name: Option<&str>) -> Self {
        if name.is_some_and(|name| name.eq_ignore_ascii_case("https")) { Self::Https } else { Self::Http }
    }

    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// The port of a URL that names none.
    pub(super) fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// The host, port and path of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) scheme: Scheme,
    pub(super) host: String,
    pub(super) port: u16,
    /// With its query.
    pub(super) path: String,
}

impl Target {
    /// The target that `location` names, as seen from this one; `None` if it is on another host or cannot be read.
    pub(super) fn redirected(&self, location: &str) -> Option<Self> {
        let location = location.split('#').next().unwrap_or_default();
        let absolute = match location.strip_prefix("//") {
            Some(rest) => format!("{}://{rest}", self.scheme.text()),
            None => location.to_owned(),
        };
        let is_scheme =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !absolute.split_once("://").is_some_and(|(scheme, _)| is_scheme(scheme)) {
            return Some(Self { path: self.relative(location), ..self.clone() });
        }
        let uri: Uri = absolute.parse().ok()?;
        let host = uri.host()?.trim_start_matches('[').trim_end_matches(']');
        if host != self.host {
            return None;
        }
        let scheme = Scheme::of(uri.scheme_str());
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Some(Self { scheme, host: self.host.clone(), port: uri.port_u16().unwrap_or(scheme.port()), path })
    }

    /// A reference without a host, in place of this path or of its last part.
    fn relative(&self, reference: &str) -> String {
        let path = self.path.split('?').next().unwrap_or_default();
        match reference {
            reference if reference.starts_with('/') => reference.to_owned(),
            reference if reference.is_empty() || reference.starts_with('?') => format!("{path}{reference}"),
            reference => {
                let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
                format!("{parent}/{reference}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: &str) -> Target {
        Target { scheme: Scheme::Http, host: "10.0.0.1".into(), port: 8080, path: path.into() }
    }

    #[test]
    fn a_redirection_is_followed_on_the_same_host_only() {
        let from = at("/a/b?c=d");
        for (location, path) in [
            ("/healthz", "/healthz"),
            ("e?f=g", "/a/e?f=g"),
            ("?f=g", "/a/b?f=g"),
            ("/e?f=http://0.0.0.0/", "/e?f=http://0.0.0.0/"),
            ("http://10.0.0.1:8080", "/"),
            ("//10.0.0.1:8080/x#part", "/x"),
        ] {
            assert_eq!(from.redirected(location), Some(at(path)), "{location}");
        }
        let secure = Target { scheme: Scheme::Https, port: 443, ..at("/x") };
        assert_eq!(from.redirected("https://10.0.0.1/x"), Some(secure));
        for location in ["http://0.0.0.0/", "//example.org:8080/x", "http://[::1"] {
            assert_eq!(from.redirected(location), None, "{location}");
        }
    }
}
