//! The request for a user namespace in a pod's annotations.

use std::collections::BTreeMap;

use ids::BlockLength;

use types::keys::{CRIO_USER_NAMESPACE, GVISOR_USER_NAMESPACE, IDS, USER_NAMESPACE};

use crate::error::{Error, Result};

/// The annotation by which a pod accepts that the network capabilities it asks for have no effect.
pub const ACCEPT_NETWORK: &str = "wardlet.dev/network-capabilities";
/// The annotation in which CRI-O keeps all annotations of a pod, as JSON.
const CRIO_ALL: &str = "io.kubernetes.cri-o.Annotations";

/// The request for a user namespace in a pod's annotations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// No user namespace.
    No,
    /// A user namespace.
    UserNamespace {
        /// The key of the annotation.
        by: &'static str,
        /// The number of IDs; `None` for the node's default.
        length: Option<AskedLength>,
    },
}

/// The number of IDs that a pod asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AskedLength {
    /// The key of the annotation.
    pub by: &'static str,
    /// The number.
    pub ids: BlockLength,
}

/// All annotations of a container, including those in CRI-O's collection.
fn all(annotations: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>> {
    let Some(collected) = annotations.get(CRIO_ALL) else { return Ok(annotations.clone()) };
    let parsed: Option<BTreeMap<String, String>> =
        serde_json::from_str(collected).map_err(|e| Error::Annotation {
            key: CRIO_ALL,
            value: shortened(collected),
            cause: format!("is no map of annotations: {e}"),
            way_out: "leave this annotation to CRI-O, which writes a JSON object of strings".to_owned(),
        })?;
    // CRI-O writes `null` for a container without annotations.
    let mut all = parsed.unwrap_or_default();
    // The annotations in the configuration itself take precedence.
    all.extend(annotations.iter().map(|(key, value)| (key.clone(), value.clone())));
    Ok(all)
}

/// Parses the request for a user namespace. It is an error if an annotation of wardlet or CRI-O has a value that is not
/// valid, or if two of them contradict each other.
pub fn asked(annotations: &BTreeMap<String, String>) -> Result<Asked> {
    let annotations = &all(annotations)?;
    let ours = ours(annotations)?;
    let gvisor = annotations.get(GVISOR_USER_NAMESPACE).is_some_and(|value| value == "true");
    let crio = crio(annotations)?;
    let by = match (ours, gvisor, &crio) {
        (Some(true), ..) => USER_NAMESPACE,
        (Some(false), true, _) => return Err(contradiction(GVISOR_USER_NAMESPACE, "true")),
        (Some(false), _, Some((key, _))) => return Err(contradiction(key, "auto")),
        (Some(false), false, None) => return Ok(Asked::No),
        (None, true, _) => GVISOR_USER_NAMESPACE,
        (None, false, Some((key, _))) => key,
        (None, false, None) => return Ok(Asked::No),
    };
    let length = match annotations.get(IDS) {
        Some(value) => Some(AskedLength { by: IDS, ids: length(IDS, value)? }),
        None => crio.and_then(|(by, length)| Some(AskedLength { by, ids: length? })),
    };
    Ok(Asked::UserNamespace { by, length })
}

/// Whether the pod accepts that its network capabilities have no effect.
pub(super) fn accepts_unreal_network(annotations: &BTreeMap<String, String>) -> Result<bool> {
    match all(annotations)?.get(ACCEPT_NETWORK).map(String::as_str) {
        None => Ok(false),
        Some("ignored") => Ok(true),
        Some(value) => Err(Error::Annotation {
            key: ACCEPT_NETWORK,
            value: shortened(value),
            cause: "is not \"ignored\"".to_owned(),
            way_out: "write \"ignored\", or leave it out".to_owned(),
        }),
    }
}

fn ours(annotations: &BTreeMap<String, String>) -> Result<Option<bool>> {
    match annotations.get(USER_NAMESPACE).map(String::as_str) {
        None => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(value) => Err(Error::Annotation {
            key: USER_NAMESPACE,
            value: shortened(value),
            cause: "is neither \"true\" nor \"false\"".to_owned(),
            way_out: "write \"true\" or \"false\", or leave it out".to_owned(),
        }),
    }
}

/// CRI-O's annotation, and the number of IDs that it asks for.
fn crio(annotations: &BTreeMap<String, String>) -> Result<Option<(&'static str, Option<BlockLength>)>> {
    let Some((key, value)) =
        CRIO_USER_NAMESPACE.into_iter().find_map(|key| Some((key, annotations.get(key)?)))
    else {
        return Ok(None);
    };
    let options = match value.split_once(':').unwrap_or((value, "")) {
        ("" | "host", _) => return Ok(None),
        ("auto", options) => options,
        _ => return Err(other_mode(key, value)),
    };
    match options.split_once('=') {
        None if options.is_empty() => Ok(Some((key, None))),
        Some(("size", size)) => Ok(Some((key, Some(length(key, size)?)))),
        _ => Err(other_mode(key, value)),
    }
}

fn length(key: &'static str, value: &str) -> Result<BlockLength> {
    let wrong =
        |cause: String, way_out: String| Error::Annotation { key, value: shortened(value), cause, way_out };
    let number: u64 = value
        .parse()
        .map_err(|_| wrong("is no number of IDs".to_owned(), "write a multiple of 65536".to_owned()))?;
    BlockLength::try_from(number).map_err(|e| {
        let nearest =
            if e.below == e.above { e.below.to_string() } else { format!("{} or {}", e.below, e.above) };
        wrong("is no length that a block can have".to_owned(), format!("write {nearest}"))
    })
}

fn other_mode(key: &'static str, value: &str) -> Error {
    Error::Annotation {
        key,
        value: shortened(value),
        cause: "is a mode that only CRI-O knows".to_owned(),
        way_out: "write \"auto\" or \"auto:size=65536\"".to_owned(),
    }
}

fn contradiction(key: &'static str, value: &str) -> Error {
    Error::Annotation {
        key,
        value: value.to_owned(),
        cause: format!("contradicts {USER_NAMESPACE}: \"false\""),
        way_out: "remove one of them".to_owned(),
    }
}

/// The first 80 characters of a value, so that a message stays short whatever a pod's author wrote.
pub(super) fn shortened(value: &str) -> String {
    let short: String = value.chars().take(80).collect();
    if short.len() < value.len() { format!("{short}…") } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(pairs: &[(&str, &str)]) -> std::result::Result<Asked, String> {
        let map = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        asked(&map).map_err(|e| format!("{e}; {}", e.hint().unwrap_or_default()))
    }

    fn yes(by: &'static str, length: Option<u64>) -> std::result::Result<Asked, String> {
        let key = if by == USER_NAMESPACE { IDS } else { by };
        let length = length.map(|n| AskedLength { by: key, ids: BlockLength::try_from(n).unwrap() });
        Ok(Asked::UserNamespace { by, length })
    }

    #[test]
    fn the_gvisor_key_counts_only_as_exactly_true() {
        assert_eq!(ask(&[]), Ok(Asked::No));
        for value in ["false", "1", "True", " true", "yes", ""] {
            assert_eq!(ask(&[(GVISOR_USER_NAMESPACE, value)]), Ok(Asked::No), "{value:?}");
        }
        assert_eq!(ask(&[(GVISOR_USER_NAMESPACE, "true")]), yes(GVISOR_USER_NAMESPACE, None));
    }

    #[test]
    fn our_key_is_true_or_false_and_nothing_else() {
        assert_eq!(ask(&[(USER_NAMESPACE, "true")]), yes(USER_NAMESPACE, None));
        assert_eq!(ask(&[(USER_NAMESPACE, "false")]), Ok(Asked::No));
        for value in ["True", "1", "", "on", "true "] {
            assert!(ask(&[(USER_NAMESPACE, value)]).unwrap_err().contains("neither"), "{value:?}");
        }
        assert!(
            ask(&[(USER_NAMESPACE, "false"), (GVISOR_USER_NAMESPACE, "true")])
                .unwrap_err()
                .contains("contradicts")
        );
    }

    #[test]
    fn cri_os_key_asks_for_a_size_and_is_found_in_its_collection_too() {
        assert_eq!(ask(&[("io.kubernetes.cri-o.userns-mode", "auto")]), yes(CRIO_USER_NAMESPACE[0], None));
        assert_eq!(
            ask(&[("userns-mode.crio.io", "auto:size=131072")]),
            yes(CRIO_USER_NAMESPACE[1], Some(131_072))
        );
        assert!(ask(&[("userns-mode.crio.io", "auto:size=100000")]).unwrap_err().contains("65536 or 131072"));
        assert!(ask(&[("userns-mode.crio.io", "auto:keep-id=true")]).unwrap_err().contains("only CRI-O"));
        assert!(ask(&[("userns-mode.crio.io", "private:uidmapping=0:1:2")]).is_err());
        assert_eq!(ask(&[("userns-mode.crio.io", "host")]), Ok(Asked::No));
        assert_eq!(ask(&[(CRIO_ALL, r#"{"wardlet.dev/user-namespace":"true"}"#)]), yes(USER_NAMESPACE, None));
        assert_eq!(ask(&[(CRIO_ALL, "null")]), Ok(Asked::No));
        assert!(ask(&[(CRIO_ALL, "[")]).unwrap_err().contains("no map"));
    }

    #[test]
    fn a_length_is_one_that_a_block_can_have() {
        assert_eq!(ask(&[(USER_NAMESPACE, "true"), (IDS, "131072")]), yes(USER_NAMESPACE, Some(131_072)));
        assert!(ask(&[(USER_NAMESPACE, "true"), (IDS, "65535")]).unwrap_err().contains("write 65536"));
        assert!(ask(&[(USER_NAMESPACE, "true"), (IDS, "-1")]).is_err());
        assert!(ask(&[(USER_NAMESPACE, "x".repeat(1000).as_str())]).unwrap_err().len() < 400);
    }
}
