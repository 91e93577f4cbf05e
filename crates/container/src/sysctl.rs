//! Sysctls of a pod's namespaces.

use std::collections::BTreeMap;

use ids::{IdMapping, IdMappings};

const PORTS: &str = "net.ipv4.ip_unprivileged_port_start";
const PING: &str = "net.ipv4.ping_group_range";
/// Every group that the kernel accepts in a range.
const EVERYBODY: &str = "0\t2147483647";
/// An empty range.
const NOBODY: &str = "1\t0";

/// The sysctls of a pod with a network of its own: those that were given, and two that let users other than root
/// listen on every port and use ping. (For a pod with the host's network none is added: it has those that were given,
/// and the host's.)
///
/// The kernel refuses a range of groups whose ends are not mapped, so that such a range is cut.
#[must_use]
pub fn for_pod(given: &BTreeMap<String, String>, ids: Option<&IdMappings>) -> BTreeMap<String, String> {
    let mut settings = given.clone();
    let mut default = |name: &str, value: &str| {
        if ![".", "/"].iter().any(|dot| settings.contains_key(&name.replace('.', dot))) {
            settings.insert(name.to_owned(), value.to_owned());
        }
    };
    default(PORTS, "0");
    default(PING, EVERYBODY);
    if let Some(ids) = ids {
        for (name, value) in &mut settings {
            if name.replace('/', ".") == PING {
                *value = cut(value, &ids.gids);
            }
        }
    }
    settings
}

/// The mapped part of a range. A range over several lines of the map would contain host IDs between them that belong
/// to others, so it ends with the first line that has any of it. A value that is not a range stays as it is, for the
/// kernel to refuse.
fn cut(range: &str, lines: &[IdMapping]) -> String {
    let ends: Option<Vec<u64>> = range.split_whitespace().map(|end| end.parse().ok()).collect();
    let Some(&[low, high]) = ends.as_deref() else { return range.to_owned() };
    let part = |line: &IdMapping| {
        let first = u64::from(line.container());
        let (low, high) = (low.max(first), high.min(first + line.length() - 1));
        (low <= high).then_some((low, high))
    };
    match lines.iter().filter_map(part).min() {
        Some((low, high)) => format!("{low}\t{high}"),
        None => NOBODY.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn both_ends_of_what_is_left_are_mapped(
            (low, high) in (0_u64..300, 0_u64..300), (first, length) in (0_u64..200, 1_u64..100)
        ) {
            let ids = gids(&[(first, 1 << 20, length)]);
            let left = ping(Some(&format!("{low} {high}")), Some(&ids));
            if left != NOBODY {
                let ends: Vec<u64> = left.split_whitespace().map(|end| end.parse().unwrap()).collect();
                let mapped = first..first + length;
                prop_assert!(ends.iter().all(|end| mapped.contains(end) && (low..=high).contains(end)));
            }
        }
    }

    fn gids(lines: &[(u64, u64, u64)]) -> IdMappings {
        let line =
            |(inside, host, length): &(u64, u64, u64)| IdMapping::new(*inside, *host, *length).unwrap();
        let lines: Vec<_> = lines.iter().map(line).collect();
        IdMappings { uids: lines.clone(), gids: lines }
    }

    fn ping(range: Option<&str>, ids: Option<&IdMappings>) -> String {
        let given = range.map(|range| (PING.to_owned(), range.to_owned())).into_iter().collect();
        for_pod(&given, ids)[PING].clone()
    }

    #[test]
    fn a_pod_that_said_nothing_may_ping_and_listen_everywhere() {
        let settings = for_pod(&BTreeMap::new(), None);
        assert_eq!(settings[PORTS], "0");
        assert_eq!(settings[PING], EVERYBODY);
    }

    #[test]
    fn what_was_given_stays_also_if_it_is_written_with_slashes() {
        let given = BTreeMap::from([(PORTS.replace('.', "/"), "80".to_owned())]);
        let settings = for_pod(&given, None);
        assert_eq!(settings.get(&PORTS.replace('.', "/")).map(String::as_str), Some("80"));
        assert!(!settings.contains_key(PORTS));
    }

    #[test]
    fn a_range_of_groups_ends_where_the_maps_end() {
        let ids = gids(&[(0, 1 << 20, 65_536)]);
        assert_eq!(ping(None, Some(&ids)), "0\t65535");
        assert_eq!(ping(Some("100 200"), Some(&ids)), "100\t200");
        assert_eq!(ping(Some("70000 80000"), Some(&ids)), NOBODY);
        assert_eq!(ping(Some("nonsense"), Some(&ids)), "nonsense");
    }

    #[test]
    fn a_range_never_spans_host_ids_between_two_lines() {
        let ids = gids(&[(100, 5000, 10), (0, 1 << 20, 10)]);
        assert_eq!(ping(None, Some(&ids)), "0\t9");
        assert_eq!(ping(Some("50 200"), Some(&ids)), "100\t109");
    }
}
