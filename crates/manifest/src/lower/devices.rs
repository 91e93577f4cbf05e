//! Devices of the node that a pod names by annotation: a pod's specification has no field for them.

use std::collections::BTreeMap;

/// The devices of the node that a pod's containers are to have, separated by commas.
pub const DEVICES: &str = "wardlet.dev/devices";

/// What these create belongs to the namespaces of the process that opens them, and takes a capability over those; any
/// other device reaches the host itself.
pub(super) const GIVEN: [&str; 2] = ["/dev/fuse", "/dev/net/tun"];

/// The devices that these annotations name.
///
/// # Errors
/// The first word that is no device which pods are given.
pub fn devices(annotations: Option<&BTreeMap<String, String>>) -> Result<Vec<&'static str>, String> {
    let Some(text) = annotations.and_then(|all| all.get(DEVICES)) else { return Ok(Vec::new()) };
    let known = |word: &str| GIVEN.into_iter().find(|given| *given == word).ok_or_else(|| word.to_owned());
    text.split(',').map(|word| known(word.trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Vec<&'static str>, String> {
        devices(Some(&BTreeMap::from([(DEVICES.to_owned(), text.to_owned())])))
    }

    #[test]
    fn only_devices_of_a_pods_own_namespaces_are_given() {
        assert_eq!(devices(None), Ok(vec![]));
        assert_eq!(of("/dev/fuse"), Ok(vec!["/dev/fuse"]));
        assert_eq!(of("/dev/net/tun, /dev/fuse"), Ok(vec!["/dev/net/tun", "/dev/fuse"]));
        assert_eq!(of("/dev/fuse,/dev/sda"), Err("/dev/sda".to_owned()));
        assert_eq!(of("/dev/../dev/fuse"), Err("/dev/../dev/fuse".to_owned()));
        assert_eq!(of(""), Err(String::new()));
    }
}
