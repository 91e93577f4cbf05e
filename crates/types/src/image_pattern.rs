use crate::ImageName;

/// An entry of preloadedImagesVerificationAllowlist: a repository, or all repositories below a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImagePattern {
    /// This repository.
    Repository(String),
    /// Those whose name begins so; it ends with `/`.
    Below(String),
}

/// Why an entry of the list cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{pattern:?} is no pattern of images: {cause}")]
pub struct NotAPattern {
    pattern: String,
    cause: String,
}

impl ImagePattern {
    /// Parses an entry.
    ///
    /// # Errors
    /// If it is neither the full name of a repository nor one that ends with `/*`.
    pub fn parse(pattern: &str) -> Result<Self, NotAPattern> {
        let wrong = |cause: &str| NotAPattern { pattern: pattern.to_owned(), cause: cause.to_owned() };
        if pattern != pattern.trim() {
            return Err(wrong("it begins or ends with a space"));
        }
        if let Some(path) = pattern.strip_suffix('*').filter(|path| path.ends_with('/')) {
            return match path {
                "/" => Err(wrong("it has no registry")),
                path if path.contains('*') => Err(wrong("only its end may be /*")),
                path => Ok(Self::Below(path.to_owned())),
            };
        }
        if pattern.contains('*') {
            return Err(wrong("only its end may be /*"));
        }
        let name = ImageName::parse(pattern).map_err(|error| wrong(&error.to_string()))?;
        match name.repository() {
            repository if repository == pattern => Ok(Self::Repository(pattern.to_owned())),
            repository => Err(wrong(&format!("it is not the full name of a repository, {repository}"))),
        }
    }

    /// Whether it stands for this repository.
    #[must_use]
    pub fn holds(&self, repository: &str) -> bool {
        match self {
            Self::Repository(name) => name == repository,
            Self::Below(path) => repository.starts_with(path.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_of_the_list_is_a_repository_or_a_path() {
        let parse = |text: &str| ImagePattern::parse(text).map_err(|error| error.to_string());
        assert_eq!(parse("quay.io/a/b"), Ok(ImagePattern::Repository("quay.io/a/b".into())));
        assert_eq!(parse("quay.io/a/*"), Ok(ImagePattern::Below("quay.io/a/".into())));
        for (text, cause) in [
            (" quay.io/a", "space"),
            ("quay.io/a:1", "not the full name of a repository, quay.io/a"),
            ("busybox", "not the full name of a repository, docker.io/library/busybox"),
            ("/*", "no registry"),
            ("*", "only its end may be /*"),
            ("quay.io/*/a", "only its end may be /*"),
            ("quay.io/*/*", "only its end may be /*"),
            ("", "invalid reference format"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(cause), "{text}: {error}");
        }
    }
}
