/// What a registry wants to see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// A user and a password, on each request.
    Basic,
    /// A token from somewhere else.
    Bearer {
        /// Where.
        realm: String,
        /// The service that the token is for.
        service: Option<String>,
        /// For what.
        scope: Option<String>,
    },
}

impl Challenge {
    /// Understands one `WWW-Authenticate` field; nothing if it is of another kind.
    pub(super) fn parse(field: &str) -> Option<Self> {
        let (kind, rest) = field.trim().split_once(' ').unwrap_or((field.trim(), ""));
        if kind.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !kind.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let parameters = parameters(rest);
        let get = |name: &str| {
            let found = parameters.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.clone())
        };
        Some(Self::Bearer { realm: get("realm")?, service: get("service"), scope: get("scope") })
    }

    /// The best of all fields: a token before a password.
    pub(crate) fn best<'a>(fields: impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut all: Vec<Self> = fields.filter_map(Self::parse).collect();
        all.sort_by_key(|challenge| *challenge == Self::Basic);
        all.into_iter().next()
    }
}

/// `a="x,y",b=z`.
fn parameters(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text.trim_start_matches([' ', ',']);
    while let Some((name, after)) = rest.split_once('=') {
        let (value, left) = match after.strip_prefix('"') {
            Some(quoted) => quoted_value(quoted),
            None => {
                let end = after.find(',').unwrap_or(after.len());
                (after.get(..end).unwrap_or_default().trim().to_owned(), after.get(end..).unwrap_or_default())
            }
        };
        found.push((name.trim().to_owned(), value));
        rest = left.trim_start_matches([' ', ',']);
    }
    found
}

/// The value up to its closing quote, and what follows.
fn quoted_value(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, text.get(at + 1..).unwrap_or_default()),
            '\\' => value.extend(chars.next().map(|(_, escaped)| escaped)),
            c => value.push(c),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_read_with_its_commas() {
        let field =
            r#"Bearer realm="https://auth.example/token",service="reg",scope="repository:a/b:pull,push""#;
        let expected = Challenge::Bearer {
            realm: "https://auth.example/token".into(),
            service: Some("reg".into()),
            scope: Some("repository:a/b:pull,push".into()),
        };
        assert_eq!(Challenge::parse(field), Some(expected));
        assert_eq!(
            Challenge::parse("bearer realm=\"x\\\"y\", service=z").map(|c| format!("{c:?}")),
            Some(r#"Bearer { realm: "x\"y", service: Some("z"), scope: None }"#.to_owned())
        );
    }

    #[test]
    fn a_token_is_better_than_a_password_and_the_rest_is_nothing() {
        let fields = ["Basic realm=\"r\"", "Bearer realm=\"t\"", "Negotiate"];
        assert!(matches!(Challenge::best(fields.into_iter()), Some(Challenge::Bearer { .. })));
        assert_eq!(Challenge::best(["Negotiate", "Bearer", ""].into_iter()), None);
        assert_eq!(
            Challenge::parse("Bearer realm=\"unclosed"),
            Some(Challenge::Bearer { realm: "unclosed".into(), service: None, scope: None })
        );
    }
}
