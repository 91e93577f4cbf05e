use std::fmt;
use std::str::FromStr;

use crate::digest::Digest;
use crate::error::{Error, Result};

const DEFAULT_REGISTRY: &str = "docker.io";
const DEFAULT_TAG: &str = "latest";
const LONGEST: usize = 255;

/// The name of an image, in full: registry, repository, and a tag or a digest or both.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

impl Reference {
    /// The host, and port where it has one.
    #[must_use]
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The path on the registry.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag, if there is one.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest, if there is one.
    #[must_use]
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// What is requested from a registry: the digest if there is one, else the tag.
    #[must_use]
    pub fn wanted(&self) -> &str {
        let digest = self.digest.as_ref().map(Digest::as_str);
        digest.or(self.tag.as_deref()).unwrap_or(DEFAULT_TAG)
    }

    /// The name without tag and digest.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}", self.registry, self.repository)
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

impl FromStr for Reference {
    type Err = Error;

    /// As docker and containerd parse names: a name without a host is on docker.io, and one without tag and digest has
    /// the tag `latest`.
    fn from_str(text: &str) -> Result<Self> {
        let wrong = |why| Error::Reference { text: text.to_owned(), why };
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest.parse().map_err(|_| wrong("its digest is none"))?)),
            None => (text, None),
        };
        let (registry, rest) = match rest.split_once('/') {
            Some((first, rest)) if is_host(first) => (first, rest),
            _ => (DEFAULT_REGISTRY, rest),
        };
        let (path, tag) = match rest.rsplit_once(':') {
            Some((path, tag)) => (path, Some(tag)),
            None => (rest, None),
        };
        let library = registry == DEFAULT_REGISTRY && !path.contains('/');
        let repository = if library { format!("library/{path}") } else { path.to_owned() };
        if !is_registry(registry) {
            return Err(wrong("its registry is not a host name"));
        }
        if path.is_empty() || !repository.split('/').all(is_component) {
            return Err(wrong("its path may have lower-case letters, digits, and . _ - between them"));
        }
        if !tag.is_none_or(is_tag) {
            return Err(wrong("its tag may have letters, digits, and . _ - after the first, at most 128"));
        }
        if registry.len() + repository.len() > LONGEST {
            return Err(wrong("it is too long"));
        }
        let tag = tag.or(digest.is_none().then_some(DEFAULT_TAG)).map(str::to_owned);
        Ok(Self { registry: registry.to_owned(), repository, tag, digest })
    }
}

fn is_host(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost" || first.chars().any(char::is_uppercase)
}

fn is_registry(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => {
            let port = rest.strip_prefix(':');
            let fits = address.parse::<std::net::Ipv6Addr>().is_ok() && (rest.is_empty() || port.is_some());
            return fits && port.is_none_or(is_port);
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    host.split('.').all(label) && port.is_none_or(is_port)
}

fn is_port(text: &str) -> bool {
    !text.starts_with('+') && text.parse::<u16>().is_ok_and(|port| port > 0)
}

/// Letters and digits, with `.`, `_`, `__` or dashes between them.
fn is_component(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = |byte: Option<u8>| byte.is_some_and(plain);
    let separated = |run: &str| matches!(run, "" | "." | "_" | "__") || run.bytes().all(|byte| byte == b'-');
    ends(text.bytes().next())
        && ends(text.bytes().next_back())
        && text.bytes().all(|byte| plain(byte) || matches!(byte, b'.' | b'_' | b'-'))
        && text.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit()).all(separated)
}

fn is_tag(text: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.len() <= 128
        && text.bytes().next().is_some_and(word)
        && text.bytes().all(|byte| word(byte) || matches!(byte, b'.' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_are_of_docker_io_and_latest() {
        for (short, full) in [
            ("busybox", "docker.io/library/busybox:latest"),
            ("kindest/node:v1", "docker.io/kindest/node:v1"),
            ("localhost/x", "localhost/x:latest"),
            ("localhost:5000/a/b:1", "localhost:5000/a/b:1"),
            ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"),
            ("[::1]:5000/a", "[::1]:5000/a:latest"),
        ] {
            assert_eq!(short.parse::<Reference>().unwrap().to_string(), full);
        }
    }

    #[test]
    fn a_digest_stands_for_itself_and_beside_a_tag() {
        let digest = Digest::of(b"x");
        let by_digest: Reference = format!("quay.io/a/b@{digest}").parse().unwrap();
        assert_eq!((by_digest.tag(), by_digest.wanted()), (None, digest.as_str()));
        let both: Reference = format!("quay.io/a/b:1@{digest}").parse().unwrap();
        assert_eq!((both.tag(), both.wanted()), (Some("1"), digest.as_str()));
    }

    #[test]
    fn what_could_be_a_path_or_an_option_is_no_name() {
        let bad = [
            "",
            "/",
            "a/../b",
            "../a",
            "-a",
            "a b",
            "A",
            "a:",
            "a:-x",
            "a@sha256:1",
            "a//b",
            "host.io/",
            "a?b",
            "h.io:0/a",
            "h.io:99999/a",
            "h..io/a",
            "a:b\n",
            "a/b%2e",
            "a___b",
            "a._b",
        ];
        for text in bad {
            assert!(text.parse::<Reference>().is_err(), "{text:?}");
        }
    }
}
