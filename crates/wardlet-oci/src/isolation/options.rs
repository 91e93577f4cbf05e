//! Parses the options of a mount in a configuration.

use std::path::{Path, PathBuf};

use container::{Bind, MountPropagation, ReadOnly};

use ids::IdMappings;
use kernel::Submounts;
use serde_json::Value;

use super::{Error, Result, json};

/// A bind mount of a file or directory of the host.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) bind: Bind,
    pub(super) submounts: Submounts,
    /// The options for the runtime. `rro` becomes `ro`: not every runtime supports it, and the mounts below are made
    /// read-only in the preparation.
    pub(super) options: Vec<String>,
}

/// The mount, if it is a bind mount. It is an error if a field is missing or has the wrong type, or if the mount asks
/// for propagation to the host.
pub(super) fn bind(mount: &Value, bundle: &Path, ids: &IdMappings) -> Result<Option<Asked>> {
    let options = json::texts(mount, "options")?;
    let has = |wanted: &[&str]| options.iter().any(|option| wanted.contains(&option.as_str()));
    let kind = mount.get("type").and_then(Value::as_str).unwrap_or_default();
    if kind != "bind" && !has(&["bind", "rbind"]) {
        return Ok(None);
    }
    let target = PathBuf::from(json::text(mount, "destination")?);
    if has(&["shared", "rshared"]) {
        return Err(Error::BothWays { target });
    }
    let read_only = if has(&["rro"]) {
        ReadOnly::Recursive
    } else if has(&["ro"]) {
        ReadOnly::Yes
    } else {
        ReadOnly::No
    };
    let propagation =
        if has(&["slave", "rslave"]) { MountPropagation::HostToContainer } else { MountPropagation::None };
    let submounts = if has(&["rbind"]) { Submounts::Included } else { Submounts::Without };
    // Relative sources start at the bundle, as OCI specifies.
    let source = bundle.join(json::text(mount, "source")?);
    let bind = Bind { source, target, ids: Some(ids.clone()), read_only, propagation, options: Vec::new() };
    let told = |option: String| if option == "rro" { "ro".to_owned() } else { option };
    Ok(Some(Asked { bind, submounts, options: options.into_iter().map(told).collect() }))
}

/// Whether the mount has ID mappings of its own.
pub(super) fn is_mapped(mount: &Value) -> bool {
    let maps = |name| mount.get(name).and_then(Value::as_array).is_some_and(|lines| !lines.is_empty());
    maps("uidMappings") || maps("gidMappings")
}

#[cfg(test)]
mod tests {
    use ids::IdMapping;
    use serde_json::json;

    use super::*;

    fn asked(mount: &Value) -> Result<Option<Asked>> {
        let line = IdMapping::new(0, 1 << 20, 10).unwrap();
        bind(mount, Path::new("/b"), &IdMappings { uids: vec![line], gids: vec![line] })
    }

    #[test]
    fn options_say_what_is_mounted_and_how() {
        let mount = json!({"destination": "/d", "source": "s", "type": "bind",
            "options": ["rbind", "rslave", "rro", "nosuid"]});
        let found = asked(&mount).unwrap().unwrap();
        assert_eq!(found.bind.source, Path::new("/b/s"));
        assert_eq!(
            (found.bind.read_only, found.bind.propagation),
            (ReadOnly::Recursive, MountPropagation::HostToContainer)
        );
        assert_eq!(found.submounts, Submounts::Included);
        assert_eq!(found.options, ["rbind", "rslave", "ro", "nosuid"]);
        let mount = json!({"destination": "/d", "source": "/s", "options": ["bind", "ro"]});
        let found = asked(&mount).unwrap().unwrap();
        assert_eq!((found.bind.read_only, found.bind.propagation), (ReadOnly::Yes, MountPropagation::None));
        assert_eq!(found.submounts, Submounts::Without);
    }

    #[test]
    fn what_is_no_bind_is_left_alone_and_one_that_lets_mounts_out_is_refused() {
        assert!(asked(&json!({"destination": "/proc", "type": "proc", "source": "proc"})).unwrap().is_none());
        let out = json!({"destination": "/d", "source": "/s", "options": ["rbind", "rshared"]});
        assert!(matches!(asked(&out).unwrap_err(), Error::BothWays { .. }));
        for wrong in [
            json!({"destination": "/d", "type": "bind"}),
            json!({"source": "/d", "type": "bind"}),
            json!({"destination": "/d", "source": "/s", "options": [1]}),
            json!({"destination": "/d", "source": "/s", "options": "rbind"}),
        ] {
            assert!(matches!(asked(&wrong).unwrap_err(), Error::Spec { .. }));
        }
    }
}
