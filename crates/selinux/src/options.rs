use serde::{Deserialize, Serialize};

/// The four parts of a label as requested, each of them optional.
///
/// An empty part says as little as a missing one.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SelinuxOptions {
    /// The SELinux user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The type of the process.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The level: sensitivity and categories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
}

fn said(part: Option<&String>) -> Option<&str> {
    part.map(String::as_str).filter(|text| !text.is_empty())
}

impl SelinuxOptions {
    /// The user, if one is named.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        said(self.user.as_ref())
    }

    /// The role, if one is named.
    #[must_use]
    pub fn role(&self) -> Option<&str> {
        said(self.role.as_ref())
    }

    /// The type, if one is named.
    #[must_use]
    pub fn kind(&self) -> Option<&str> {
        said(self.kind.as_ref())
    }

    /// The level, if one is named.
    #[must_use]
    pub fn level(&self) -> Option<&str> {
        said(self.level.as_ref())
    }

    /// Whether nothing is asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        [self.user(), self.role(), self.kind(), self.level()].iter().all(Option::is_none)
    }
}

/// What holds for a container: its own options if it has any, else the pod's. The one replaces the
/// other as a whole; parts are never mixed.
#[must_use]
pub fn effective<'a>(
    pod: Option<&'a SelinuxOptions>,
    container: Option<&'a SelinuxOptions>,
) -> Option<&'a SelinuxOptions> {
    container.or(pod)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_containers_options_replace_the_pods_as_a_whole() {
        let level = |l: &str| SelinuxOptions { level: Some(l.into()), ..Default::default() };
        let pod = SelinuxOptions { kind: Some("container_t".into()), ..level("s0:c1,c2") };
        let container = level("s0:c3,c4");
        assert_eq!(effective(Some(&pod), Some(&container)), Some(&container));
        assert_eq!(effective(Some(&pod), None), Some(&pod));
        assert_eq!(effective(Some(&pod), Some(&SelinuxOptions::default())).unwrap().level(), None);
        assert_eq!(effective(None, None), None);
    }

    #[test]
    fn an_empty_part_is_no_part() {
        let empty = SelinuxOptions { user: Some(String::new()), ..Default::default() };
        assert!(empty.is_empty());
        assert!(SelinuxOptions::default().is_empty());
        assert!(!SelinuxOptions { kind: Some("spc_t".into()), ..Default::default() }.is_empty());
    }

    #[test]
    fn options_are_spelled_as_in_a_pod() {
        let read: SelinuxOptions = serde_json::from_str(r#"{"type":"t","level":"s0"}"#).unwrap();
        assert_eq!((read.kind(), read.level()), (Some("t"), Some("s0")));
        assert!(serde_json::from_str::<SelinuxOptions>(r#"{"kind":"t"}"#).is_err());
    }
}
