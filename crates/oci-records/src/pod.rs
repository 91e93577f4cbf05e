use std::fmt;

use serde::{Deserialize, Serialize};

/// The pod of a container, as far as the container runtime names it; a field that it does not name is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// `namespace/name` on one line: control characters from annotations are escaped, for logs and terminals.
impl fmt::Display for Pod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.namespace.escape_debug(), self.name.escape_debug()) {
            _ if self.namespace.is_empty() && self.name.is_empty() => f.write_str("(unnamed)"),
            (_, name) if self.namespace.is_empty() => write!(f, "{name}"),
            (namespace, name) => write!(f, "{namespace}/{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_on_its_line_and_commands_no_terminal() {
        let shown = |namespace: &str, name: &str| {
            Pod { namespace: namespace.into(), name: name.into(), uid: String::new() }.to_string()
        };
        assert_eq!(shown("default", "web-0.a"), "default/web-0.a");
        assert_eq!((shown("", "web"), shown("", "")), ("web".into(), "(unnamed)".into()));
        assert_eq!(shown("a\nb", "\u{1b}]0;x\u{7}\r\u{202e}"), "a\\nb/\\u{1b}]0;x\\u{7}\\r\\u{202e}");
    }
}
