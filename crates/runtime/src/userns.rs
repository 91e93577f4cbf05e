//! Which user namespace a caller asks for, and what of it is refused.
//!
//! The maps that come over CRI are the caller's own choice: they may be unaligned or lie on the host's IDs. They
//! are used as they are, with a warning, and no lease can be made from them ([`ids::CallerMapping`]).

use cri::{NamespaceMode, NamespaceOption, UserNamespace};
use ids::{CallerMapping, ContainerId, IdMapping, IdMappings, UNIT};

use types::Refusal;

/// Where the options are, seen from a sandbox's and from a container's configuration alike.
const FIELD: &str = "linux.security_context.namespace_options.userns_options";

/// The maps that were asked for; `None` is the host's user namespace.
///
/// # Errors
/// A [`Refusal`] names the field of the request that is invalid or not supported.
pub fn decide(options: Option<&NamespaceOption>) -> Result<Option<IdMappings>, Refusal> {
    let asked = mapping(options)?;
    Ok(asked.map(|mapping| IdMappings { uids: mapping.uids().to_vec(), gids: mapping.gids().to_vec() }))
}

/// As [`decide`], with the type that checks a mapping that a caller brings.
///
/// # Errors
/// A [`Refusal`] names the field of the request that is invalid or not supported.
pub fn mapping(options: Option<&NamespaceOption>) -> Result<Option<CallerMapping>, Refusal> {
    // A kubelet that knows nothing of user namespaces says nothing, and means the host's.
    let Some(asked) = options.and_then(|options| options.userns_options.as_ref()) else { return Ok(None) };
    match NamespaceMode::try_from(asked.mode) {
        Ok(NamespaceMode::Node) => host(asked),
        Ok(NamespaceMode::Pod) => own(asked).map(Some),
        Ok(other) => Err(mode(format!("{} is no user namespace of a pod", other.as_str_name()))),
        Err(_) => Err(mode(format!("{} is no mode", asked.mode))),
    }
}

/// Whether a container asks for its sandbox's user namespace; saying nothing asks for it, too.
///
/// # Errors
/// A [`Refusal`] names the field in which they differ.
pub fn same(sandbox: Option<&NamespaceOption>, container: Option<&NamespaceOption>) -> Result<(), Refusal> {
    let Some(options) = container else { return Ok(()) };
    let (theirs, ours) = (decide(Some(options))?, decide(sandbox)?);
    let (theirs, ours) = match (theirs, ours) {
        (None, None) => return Ok(()),
        (Some(theirs), Some(ours)) => (theirs, ours),
        (Some(_), None) => return Err(mode("the sandbox is in the host's user namespace")),
        (None, Some(_)) => return Err(mode("the sandbox has a user namespace of its own")),
    };
    let differ = |kind: &str| {
        Refusal::new(format!("{FIELD}.{kind}"), "is not what the sandbox was made with")
            .with_hint("give every container of a pod the sandbox's own mapping")
    };
    if theirs.uids != ours.uids {
        return Err(differ("uids"));
    }
    if theirs.gids != ours.gids {
        return Err(differ("gids"));
    }
    Ok(())
}

/// Warnings about ID mappings that are accepted: those that include IDs of the host or parts of a block.
#[must_use]
pub fn warnings(lines: &IdMappings) -> Vec<String> {
    let about = |kind: &str, maps: &[IdMapping]| {
        maps.iter().filter_map(|line| odd(*line).map(|what| format!("{FIELD}.{kind}: {what}"))).collect()
    };
    let mut all: Vec<String> = about("uids", &lines.uids);
    all.extend(about("gids", &lines.gids));
    all
}

fn odd(line: IdMapping) -> Option<String> {
    let (host, first) = (line.host(), u64::from(line.host().first()));
    if first < UNIT {
        return Some(format!("host IDs {host} include the host's own: what they own is the pod's, too"));
    }
    let aligned = first.is_multiple_of(UNIT) && line.length().is_multiple_of(UNIT);
    (!aligned)
        .then(|| format!("host IDs {host} are no whole blocks of {UNIT}: other pods may have some of them"))
}

fn host(asked: &UserNamespace) -> Result<Option<CallerMapping>, Refusal> {
    for (kind, lines) in [("uids", &asked.uids), ("gids", &asked.gids)] {
        if !lines.is_empty() {
            let cause = "the host's user namespace (NODE) takes no mapping";
            return Err(Refusal::new(format!("{FIELD}.{kind}"), cause).with_hint("ask for mode POD"));
        }
    }
    Ok(None)
}

fn own(asked: &UserNamespace) -> Result<CallerMapping, Refusal> {
    let (uids, gids) = (line("uids", &asked.uids)?, line("gids", &asked.gids)?);
    CallerMapping::new(vec![uids], vec![gids]).map_err(|error| Refusal::new(FIELD, error.to_string()))
}

fn line(kind: &str, lines: &[cri::IdMapping]) -> Result<IdMapping, Refusal> {
    let refused = |cause: String| Refusal::new(format!("{FIELD}.{kind}"), cause);
    let [line] = lines else {
        let cause = format!("has {} lines, and a pod's user namespace takes exactly one", lines.len());
        return Err(refused(cause));
    };
    let read = IdMapping::new(line.container_id.into(), line.host_id.into(), line.length.into());
    let read = read.map_err(|error| refused(error.to_string()))?;
    if read.container() != ContainerId::ROOT {
        let cause = format!("container ID 0 is not mapped: the line begins at {}", read.container());
        return Err(refused(cause).with_hint("map from container ID 0 up"));
    }
    Ok(read)
}

fn mode(cause: impl Into<String>) -> Refusal {
    Refusal::new(format!("{FIELD}.mode"), cause).with_hint("ask for POD with one mapping, or for NODE")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(container_id: u32, host_id: u32, length: u32) -> cri::IdMapping {
        cri::IdMapping { host_id, container_id, length }
    }

    fn asked(mode: NamespaceMode, uids: &[cri::IdMapping], gids: &[cri::IdMapping]) -> NamespaceOption {
        let users = UserNamespace { mode: mode.into(), uids: uids.to_vec(), gids: gids.to_vec() };
        NamespaceOption { userns_options: Some(users), ..Default::default() }
    }

    fn pod(uids: &[cri::IdMapping], gids: &[cri::IdMapping]) -> NamespaceOption {
        asked(NamespaceMode::Pod, uids, gids)
    }

    fn lines(options: &NamespaceOption) -> IdMappings {
        decide(Some(options)).unwrap().unwrap()
    }

    #[test]
    fn nothing_said_and_node_without_maps_are_the_hosts() {
        assert_eq!(decide(None), Ok(None));
        assert_eq!(decide(Some(&NamespaceOption::default())), Ok(None));
        assert_eq!(decide(Some(&asked(NamespaceMode::Node, &[], &[]))), Ok(None));
    }

    #[test]
    fn one_line_each_is_taken_as_it_is_and_the_two_may_differ() {
        let found = lines(&pod(&[id(0, 65_536, 65_536)], &[id(0, 131_072, 65_536)]));
        assert_eq!(found.uids, [IdMapping::new(0, 65_536, 65_536).unwrap()]);
        assert_eq!(found.gids, [IdMapping::new(0, 131_072, 65_536).unwrap()]);
        assert_eq!(warnings(&found), Vec::<String>::new());
    }

    #[test]
    fn maps_that_no_lease_would_have_are_taken_with_a_warning() {
        let table = [
            (id(0, 1000, 100_000), "host IDs 1000-100999 include the host's own"),
            (id(0, 0, 4_294_967_295), "host IDs 0-4294967294 include the host's own"),
            (id(0, 65_537, 65_536), "host IDs 65537-131072 are no whole blocks of 65536"),
            (id(0, 65_536, 1), "host IDs 65536-65536 are no whole blocks of 65536"),
        ];
        for (odd, expected) in table {
            let found = warnings(&lines(&pod(&[odd], &[id(0, 65_536, 65_536)])));
            assert_eq!(found.len(), 1, "{odd:?}");
            assert!(found[0].starts_with(&format!("{FIELD}.uids: {expected}")), "{}", found[0]);
        }
    }

    #[test]
    fn what_is_refused_is_refused_by_its_field() {
        let good = id(0, 65_536, 65_536);
        let table = [
            (asked(NamespaceMode::Node, &[good], &[]), "uids", "takes no mapping"),
            (asked(NamespaceMode::Node, &[], &[good]), "gids", "takes no mapping"),
            (pod(&[], &[good]), "uids", "has 0 lines"),
            (pod(&[good], &[]), "gids", "has 0 lines"),
            (pod(&[id(0, 65_536, 1), id(1, 70_000, 1)], &[good]), "uids", "has 2 lines"),
            (pod(&[good], &[good, good, good]), "gids", "has 3 lines"),
            (pod(&[id(1, 65_536, 65_536)], &[good]), "uids", "container ID 0 is not mapped"),
            (pod(&[good], &[id(1000, 65_536, 65_536)]), "gids", "container ID 0 is not mapped"),
            (pod(&[id(0, 65_536, 0)], &[good]), "uids", "0 IDs"),
            (pod(&[good], &[id(0, u32::MAX, 1)]), "gids", "4294967294"),
            (pod(&[id(0, u32::MAX - 1, 65_536)], &[good]), "uids", "4294967294"),
            (asked(NamespaceMode::Container, &[good], &[good]), "mode", "CONTAINER"),
            (asked(NamespaceMode::Target, &[good], &[good]), "mode", "TARGET"),
        ];
        for (options, field, cause) in table {
            let refusal = decide(Some(&options)).unwrap_err();
            assert_eq!(refusal.field, format!("{FIELD}.{field}"));
            assert!(refusal.cause.contains(cause), "{refusal}");
        }
        let mut unknown = pod(&[good], &[good]);
        unknown.userns_options.as_mut().unwrap().mode = 17;
        assert_eq!(decide(Some(&unknown)).unwrap_err().to_string(), format!("{FIELD}.mode: 17 is no mode"));
    }

    #[test]
    fn a_container_is_in_its_sandboxs_user_namespace_or_refused() {
        let (a, b) = (id(0, 65_536, 65_536), id(0, 131_072, 65_536));
        let (host, own) = (NamespaceOption::default(), pod(&[a], &[a]));
        let node = asked(NamespaceMode::Node, &[], &[]);
        for (sandbox, container) in
            [(&host, &host), (&host, &node), (&node, &host), (&own, &own)].map(|(s, c)| (Some(s), Some(c)))
        {
            assert_eq!(same(sandbox, container), Ok(()));
        }
        assert_eq!(same(Some(&own), None), Ok(()), "saying nothing is no difference");
        for (sandbox, container, field) in [
            (&own, &host, "mode"),
            (&host, &own, "mode"),
            (&own, &pod(&[b], &[a]), "uids"),
            (&own, &pod(&[a], &[b]), "gids"),
        ] {
            assert_eq!(same(Some(sandbox), Some(container)).unwrap_err().field, format!("{FIELD}.{field}"));
        }
    }

    #[test]
    fn a_refusal_reaches_the_caller_as_an_invalid_argument_with_its_hint() {
        let refusal = decide(Some(&asked(NamespaceMode::Target, &[], &[]))).unwrap_err();
        let status = cri::Status::from(crate::Error::from(refusal));
        assert_eq!(status.code(), cri::Code::InvalidArgument);
        assert!(status.message().starts_with(&format!("{FIELD}.mode: TARGET")), "{}", status.message());
        assert!(status.message().contains("(hint: ask for POD"), "{}", status.message());
    }
}
