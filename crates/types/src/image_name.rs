use std::fmt;

const DOCKER_HUB: &str = "docker.io";
const LEGACY_DOCKER_HUB: &str = "index.docker.io";
const LATEST: &str = "latest";
/// The longest repository, with its registry.
const LONGEST: usize = 255;

/// The name of an image, as docker, containerd and a kubelet read it: `busybox` is `docker.io/library/busybox:latest`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageName {
    text: String,
    repository: String,
    tag: Option<String>,
    digest: Option<String>,
}

/// Text that is no name of an image, in the kubelet's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("couldn't parse image name {text:?}: {cause}")]
pub struct NotAnImageName {
    text: String,
    cause: String,
}

impl ImageName {
    /// Parses a name.
    ///
    /// # Errors
    /// If the text is no name: of a repository, with a tag, a digest or both.
    pub fn parse(text: &str) -> Result<Self, NotAnImageName> {
        let wrong = |cause: &str| NotAnImageName { text: text.to_owned(), cause: cause.to_owned() };
        if text.len() == 64 && text.bytes().all(is_lower_hex) {
            let cause =
                format!("invalid repository name ({text}), cannot specify 64-byte hexadecimal strings");
            return Err(wrong(&cause));
        }
        let invalid = || wrong("invalid reference format");
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (text, None),
        };
        let (registry, rest) = match rest.split_once('/') {
            Some((first, rest)) if is_registry(first) => (first, rest),
            _ => (DOCKER_HUB, rest),
        };
        let (path, tag) = match rest.rsplit_once(':') {
            Some((path, tag)) => (path, Some(tag)),
            None => (rest, None),
        };
        let registry = if registry == LEGACY_DOCKER_HUB { DOCKER_HUB } else { registry };
        let is_official = registry == DOCKER_HUB && !path.contains('/');
        let path = if is_official { format!("library/{path}") } else { path.to_owned() };
        if path.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(wrong(&format!(
                "invalid reference format: repository name ({path}) must be lowercase"
            )));
        }
        let is_valid = is_host(registry)
            && path.split('/').all(is_component)
            && tag.is_none_or(is_tag)
            && digest.is_none_or(is_digest);
        if !is_valid {
            return Err(invalid());
        }
        let repository = format!("{registry}/{path}");
        if repository.len() > LONGEST {
            return Err(wrong("repository name must not be more than 255 characters"));
        }
        Ok(Self {
            text: text.to_owned(),
            repository,
            tag: tag.map(str::to_owned),
            digest: digest.map(str::to_owned),
        })
    }

    /// Registry and path, without tag and digest.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The name as it was written, with the tag `latest` if it has neither a tag nor a digest.
    #[must_use]
    pub fn with_default_tag(&self) -> String {
        let text = &self.text;
        if self.tag.is_none() && self.digest.is_none() { format!("{text}:{LATEST}") } else { text.clone() }
    }

    /// The same text for all names of one image of one repository: with the registry, and with the digest if it has one, else
    /// with the tag.
    #[must_use]
    pub fn canonical(&self) -> String {
        let Self { repository, tag, digest, .. } = self;
        match (digest, tag) {
            (Some(digest), _) => format!("{repository}@{digest}"),
            (None, tag) => format!("{repository}:{}", tag.as_deref().unwrap_or(LATEST)),
        }
    }

    /// Whether `other` names the same image of the same repository. A digest counts more than a tag.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.canonical() == other.canonical()
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether the first part of a name is a registry, and not part of a path on Docker Hub.
fn is_registry(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost" || first.bytes().any(|byte| byte.is_ascii_uppercase())
}

fn is_host(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => {
            let is_address = address.parse::<std::net::Ipv6Addr>().is_ok();
            return is_address && (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port));
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let is_label = |label: &str| {
        let ends = [label.bytes().next(), label.bytes().next_back()];
        ends.into_iter().all(|byte| byte.is_some_and(|byte| byte.is_ascii_alphanumeric()))
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    host.split('.').all(is_label) && port.is_none_or(is_port)
}

fn is_port(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Lower-case letters and digits, with `.`, `_`, `__` or dashes between them.
fn is_component(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_separator =
        |run: &str| matches!(run, "" | "." | "_" | "__") || run.bytes().all(|byte| byte == b'-');
    text.bytes().next().is_some_and(plain)
        && text.bytes().next_back().is_some_and(plain)
        && text.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit()).all(is_separator)
}

fn is_tag(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.len() <= 128
        && text.bytes().next().is_some_and(is_word)
        && text.bytes().all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
}

fn is_digest(text: &str) -> bool {
    let length = match text.split_once(':').map(|(algorithm, _)| algorithm) {
        Some("sha256") => 64,
        Some("sha384") => 96,
        Some("sha512") => 128,
        _ => return false,
    };
    text.split_once(':').is_some_and(|(_, hex)| hex.len() == length && hex.bytes().all(is_lower_hex))
}

fn is_lower_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'a'..=b'f')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(text: &str) -> String {
        ImageName::parse(text).unwrap().repository().to_owned()
    }

    #[test]
    fn a_name_without_a_registry_is_of_docker_hub() {
        let digest = format!("sha256:{}", "a".repeat(64));
        for (text, expected) in [
            ("busybox", "docker.io/library/busybox"),
            ("busybox:1.36", "docker.io/library/busybox"),
            ("team/app", "docker.io/team/app"),
            ("index.docker.io/busybox", "docker.io/library/busybox"),
            ("localhost/x:1", "localhost/x"),
            ("127.0.0.1:5002/a/b:1", "127.0.0.1:5002/a/b"),
            ("[::1]:5000/a", "[::1]:5000/a"),
            (&format!("quay.io/a/b:1@{digest}"), "quay.io/a/b"),
            ("sha256:aaaa", "docker.io/library/sha256"),
        ] {
            assert_eq!(repository(text), expected, "{text}");
        }
    }

    #[test]
    fn text_that_is_no_name_is_refused_in_the_words_of_a_kubelet() {
        let error = |text: &str| ImageName::parse(text).unwrap_err().to_string();
        assert_eq!(error("a b"), "couldn't parse image name \"a b\": invalid reference format");
        assert!(error("quay.io/Team/app").ends_with("repository name (Team/app) must be lowercase"));
        assert!(error(&"0".repeat(64)).ends_with("cannot specify 64-byte hexadecimal strings"));
        for text in ["", "/", "a/../b", "a:", "a:-x", "a@sha256:1", "a//b", "host.io/", "a?b", "h..io/a"] {
            assert!(ImageName::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_name_without_tag_and_digest_has_the_tag_latest() {
        let digest = format!("sha256:{}", "b".repeat(64));
        let by_digest = format!("quay.io/a@{digest}");
        for (text, expected) in
            [("busybox", "busybox:latest"), ("busybox:1", "busybox:1"), (&by_digest, &by_digest)]
        {
            assert_eq!(ImageName::parse(text).unwrap().with_default_tag(), expected);
        }
        let is_same = |a: &str, b: &str| ImageName::parse(a).unwrap().is_same(&ImageName::parse(b).unwrap());
        assert!(is_same("busybox", "docker.io/library/busybox:latest"));
        assert!(!is_same("busybox:1", "busybox:2") && !is_same("busybox", "quay.io/busybox"));
        assert!(is_same(&format!("quay.io/a:1@{digest}"), &by_digest));
        let canonical = |text: &str| ImageName::parse(text).unwrap().canonical();
        assert_eq!(canonical("busybox"), "docker.io/library/busybox:latest");
        assert_eq!(canonical(&format!("quay.io/a:1@{digest}")), by_digest);
    }
}
