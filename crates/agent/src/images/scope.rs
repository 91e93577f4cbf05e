//! What a credential is for: a registry and a path in it.

use std::str::Chars;

use types::{ImageName, registry_of};

/// A registry and a path in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scope {
    host: String,
    port: String,
    path: String,
}

impl Scope {
    /// Parses a registry address, as [`registry_of`] splits it.
    pub(crate) fn of_address(address: &str) -> Self {
        let (host, path) = registry_of(address);
        let (host, port) = host.rsplit_once(':').unwrap_or((host, ""));
        Self { host: host.to_owned(), port: port.to_owned(), path: path.to_owned() }
    }

    /// The repository of an image.
    pub(crate) fn of_image(image: &ImageName) -> Self {
        Self::of_address(image.repository())
    }

    /// The length of its path: the longer, the more it says.
    pub(crate) fn depth(&self) -> usize {
        self.path.len()
    }

    /// Whether credentials for this scope apply to `wanted`. A `*` matches one label of a host name, or a
    /// part of it.
    pub(crate) fn holds(&self, wanted: &Self) -> bool {
        let rest = wanted.path.strip_prefix(self.path.as_str());
        let is_below =
            rest.is_some_and(|rest| self.path.is_empty() || rest.is_empty() || rest.starts_with('/'));
        is_below && self.is_host_of(wanted)
    }

    /// Whether a credential provider for this scope is asked about `wanted`: a kubelet compares the paths by letters.
    pub(crate) fn is_asked_about(&self, wanted: &Self) -> bool {
        wanted.path.starts_with(self.path.as_str()) && self.is_host_of(wanted)
    }

    fn is_host_of(&self, wanted: &Self) -> bool {
        let parts = (self.host.split('.'), wanted.host.split('.'));
        parts.0.clone().count() == parts.1.clone().count()
            && parts.0.zip(parts.1).all(|(p, t)| fits(p, t))
            && self.port == wanted.port
    }
}

/// Whether a text fits a pattern of `*`, any characters, and `?`, one. In linear steps for each star: a tenant chooses both, and
/// a search that tries all ways of several stars does not end.
fn fits(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern.chars(), text.chars());
    // What to go on with if a later character does not fit: the last star takes one character more.
    let mut star: Option<(Chars<'_>, Chars<'_>)> = None;
    loop {
        let (mut next_pattern, mut next_text) = (pattern.clone(), text.clone());
        match (next_pattern.next(), next_text.next()) {
            (None, None) => return true,
            (Some('*'), _) => {
                star = Some((next_pattern.clone(), text.clone()));
                pattern = next_pattern;
                continue;
            }
            (Some(wanted), Some(found)) if wanted == '?' || wanted == found => {
                (pattern, text) = (next_pattern, next_text);
                continue;
            }
            _ => {}
        }
        let Some((after, taken)) = &mut star else { return false };
        if taken.next().is_none() {
            return false;
        }
        (pattern, text) = (after.clone(), taken.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matching_many_stars_ends() {
        assert!(!fits(&format!("{}*c", "*a".repeat(20)), &"a".repeat(60)));
        assert!(fits(&"*a".repeat(20), &"a".repeat(60)));
        for (pattern, text, is_fit) in [
            ("", "", true),
            ("*", "", true),
            ("?", "", false),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*c", "abcbc", true),
            ("a*b?", "aXbYbZ", true),
            ("a*d", "abc", false),
            ("ab", "abc", false),
            ("é?", "éß", true),
        ] {
            assert_eq!(fits(pattern, text), is_fit, "{pattern} {text}");
        }
    }

    fn image(text: &str) -> Scope {
        Scope::of_image(&ImageName::parse(text).unwrap())
    }

    #[test]
    fn a_star_is_a_part_of_one_label_of_the_host() {
        for (pattern, name, expected) in [
            ("*.dkr.ecr.*.amazonaws.com", "1.dkr.ecr.us-east-1.amazonaws.com/a", true),
            ("*.dkr.ecr.*.amazonaws.com", "dkr.ecr.us-east-1.amazonaws.com/a", false),
            ("*.example.com:5000", "reg.example.com:5000/a", true),
            ("*.example.com:5000", "reg.example.com/a", false),
            ("r?g.example.com", "reg.example.com/a", true),
            ("r?g.example.com", "rg.example.com/a", false),
            ("sub*.example.com", "subdomain.example.com/a", true),
            ("*.com", "a.example.com/a", false),
        ] {
            assert_eq!(Scope::of_address(pattern).is_asked_about(&image(name)), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_path_of_credentials_ends_with_a_name_and_one_of_a_provider_anywhere() {
        let scope = Scope::of_address("quay.io/team");
        let of = |name: &str| (scope.holds(&image(name)), scope.is_asked_about(&image(name)));
        assert_eq!(of("quay.io/team/app:1"), (true, true));
        assert_eq!(of("quay.io/teams/app"), (false, true));
        assert_eq!(of("quay.io/other"), (false, false));
    }
}
