//! Reads the parts of a configuration that every create needs: annotations, network namespaces, and whether the caller
//! gives a user namespace. Everything else is skipped.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserializer as _;
use serde::de::{Deserialize, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::fold::folded;

/// The parts of a configuration that decide whether the pod gets a user namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartialSpec {
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Whether it has a user namespace, new or to be joined, or ID mappings.
    pub users: Users,
    /// The paths of its network namespaces, empty for one that the runtime creates. The list is empty for a container
    /// in the host's network namespace.
    pub networks: Vec<String>,
}

/// Whether a configuration has a user namespace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Users {
    /// It has none: the container is in its caller's.
    #[default]
    Unsaid,
    /// The caller gives one, or ID mappings for one.
    Given,
}

/// Parses the text of a configuration. It is an error if it is not JSON, or if one of the keys that are read exists
/// twice or in another case, which a runtime would read in another way.
pub fn parse_partial(text: &[u8]) -> Result<PartialSpec, String> {
    let mut parser = serde_json::Deserializer::from_slice(text);
    let seen = parser.deserialize_map(Top).map_err(|e| e.to_string())?;
    parser.end().map_err(|e| e.to_string())?;
    Ok(seen)
}

struct Top;

impl<'de> Visitor<'de> for Top {
    type Value = PartialSpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an OCI configuration")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PartialSpec, A::Error> {
        let (mut annotations, mut linux) = (None, None);
        while let Some(key) = map.next_key::<String>()? {
            match folded(&key).as_str() {
                "annotations" => {
                    once(&key, "annotations", &mut annotations, map.next_value::<Option<Annotations>>()?)?
                }
                "linux" => once(&key, "linux", &mut linux, map.next_value::<Option<Linux>>()?)?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let annotations = annotations.flatten().unwrap_or_default().0;
        let Linux { users, networks } = linux.flatten().unwrap_or_default();
        Ok(PartialSpec { annotations, users, networks })
    }
}

/// Stores the value of a key that must exist once, in exactly this case.
fn once<T, E: serde::de::Error>(key: &str, name: &str, slot: &mut Option<T>, value: T) -> Result<(), E> {
    if key != name {
        return Err(E::custom(format!("key {key:?} is {name:?} in other letters")));
    }
    if slot.replace(value).is_some() {
        return Err(E::custom(format!("key {key:?} is there twice")));
    }
    Ok(())
}

#[derive(Default)]
struct Annotations(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Annotations {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Map;
        impl<'de> Visitor<'de> for Map {
            type Value = Annotations;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("annotations")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Annotations, A::Error> {
                let mut found = BTreeMap::new();
                while let Some((key, value)) = map.next_entry::<String, String>()? {
                    if found.contains_key(&key) {
                        return Err(A::Error::custom(format!("annotation {key:?} is there twice")));
                    }
                    found.insert(key, value);
                }
                Ok(Annotations(found))
            }
        }
        d.deserialize_map(Map)
    }
}

#[derive(Default)]
struct Linux {
    users: Users,
    networks: Vec<String>,
}

impl<'de> Deserialize<'de> for Linux {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Map;
        impl<'de> Visitor<'de> for Map {
            type Value = Linux;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("settings of a Linux container")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Linux, A::Error> {
                let (mut spaces, mut uids, mut gids) = (None, None, None);
                while let Some(key) = map.next_key::<String>()? {
                    match folded(&key).as_str() {
                        "namespaces" => {
                            once(&key, "namespaces", &mut spaces, map.next_value::<Option<Spaces>>()?)?
                        }
                        "uidmappings" => {
                            once(&key, "uidMappings", &mut uids, map.next_value::<Option<Lines>>()?)?
                        }
                        "gidmappings" => {
                            once(&key, "gidMappings", &mut gids, map.next_value::<Option<Lines>>()?)?
                        }
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                let any = |lines: Option<Option<Lines>>| lines.flatten().is_some_and(|lines| lines.0 > 0);
                let Spaces { users, networks } = spaces.flatten().unwrap_or_default();
                let given = users || any(uids) || any(gids);
                Ok(Linux { users: if given { Users::Given } else { Users::Unsaid }, networks })
            }
        }
        d.deserialize_map(Map)
    }
}

/// The number of ID mappings. Their values are not read here.
struct Lines(usize);

impl<'de> Deserialize<'de> for Lines {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Seq;
        impl<'de> Visitor<'de> for Seq {
            type Value = Lines;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of mappings")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Lines, A::Error> {
                let mut count = 0;
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Lines(count))
            }
        }
        d.deserialize_seq(Seq)
    }
}

/// Whether one of the namespaces is a user namespace, and the paths of the network namespaces.
#[derive(Default)]
struct Spaces {
    users: bool,
    networks: Vec<String>,
}

impl<'de> Deserialize<'de> for Spaces {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Seq;
        impl<'de> Visitor<'de> for Seq {
            type Value = Spaces;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of namespaces")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Spaces, A::Error> {
                let mut found = Spaces::default();
                while let Some(space) = seq.next_element::<BTreeMap<String, serde_json::Value>>()? {
                    for name in ["type", "path"] {
                        if let Some(key) = space.keys().find(|key| folded(key) == name && *key != name) {
                            return Err(A::Error::custom(format!(
                                "key {key:?} is {name:?} in other letters"
                            )));
                        }
                    }
                    let text = |name: &str| space.get(name).and_then(|value| value.as_str());
                    match text("type") {
                        Some("user") => found.users = true,
                        Some("network") => found.networks.push(text("path").unwrap_or_default().to_owned()),
                        _ => {}
                    }
                }
                Ok(found)
            }
        }
        d.deserialize_seq(Seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(text: &str) -> Result<PartialSpec, String> {
        parse_partial(text.as_bytes())
    }

    #[test]
    fn annotations_and_the_callers_user_namespace_are_seen() {
        let text =
            r#"{"ociVersion":"1.0.2","annotations":{"a":"b"},"linux":{"namespaces":[{"type":"pid"}]}}"#;
        let partial = seen(text).unwrap();
        assert_eq!((partial.annotations["a"].as_str(), partial.users), ("b", Users::Unsaid));
        assert!(partial.networks.is_empty());
        let networks = r#"{"linux":{"namespaces":[{"type":"network","path":"/n"},{"type":"network"}]}}"#;
        assert_eq!(seen(networks).unwrap().networks, ["/n", ""]);
        for given in [
            r#"{"linux":{"namespaces":[{"type":"user"}]}}"#,
            r#"{"linux":{"namespaces":[{"type":"user","path":"/proc/1/ns/user"}]}}"#,
            r#"{"linux":{"uidMappings":[{}]}}"#,
            r#"{"linux":{"gidMappings":[{}]}}"#,
        ] {
            assert_eq!(seen(given).unwrap().users, Users::Given, "{given}");
        }
        for unsaid in ["{}", r#"{"linux":null}"#, r#"{"linux":{"uidMappings":[],"namespaces":null}}"#] {
            assert_eq!(seen(unsaid).unwrap(), PartialSpec::default(), "{unsaid}");
        }
    }

    #[test]
    fn what_a_runtime_would_read_otherwise_is_no_configuration() {
        for odd in [
            r#"{"Annotations":{}}"#,
            "{\"annotation\u{17f}\":{}}",
            r#"{"annotations":{},"annotations":{}}"#,
            r#"{"annotations":{"a":"1","a":"2"}}"#,
            r#"{"LINUX":{}}"#,
            r#"{"linux":{"Namespaces":[]}}"#,
            r#"{"linux":{"namespaces":[{"Type":"user"}]}}"#,
            r#"{"linux":{"namespaces":[{"type":"network","Path":"/n"}]}}"#,
            r#"{"annotations":{"a":1}}"#,
            "{} {}",
            "[]",
            "",
        ] {
            assert!(seen(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn depth_and_length_of_what_is_skipped_do_not_matter() {
        let deep = format!(
            "{{\"hooks\":{}{},\"annotations\":{{\"a\":\"b\"}}}}",
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        assert_eq!(seen(&deep).unwrap().annotations["a"], "b");
        let long = format!("{{\"process\":{{\"env\":[\"{}\"]}}}}", "x".repeat(10 << 20));
        assert_eq!(seen(&long).unwrap(), PartialSpec::default());
    }
}
