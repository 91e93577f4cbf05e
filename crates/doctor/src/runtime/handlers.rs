//! Whether each handler gives pods user namespaces: what it claims, and what its binary knows.

use std::path::{Path, PathBuf};

use cri::RuntimeHandler;

use super::ask::RuntimeInfo;
use super::config::Config;
use super::features::{self, Features};
use super::{DESK, restart};
use crate::check::{Check, Fault};
use crate::wrapper::is_ours;

/// What is known of the program behind a handler.
enum Binary {
    Says(PathBuf, Features),
    Silent(String),
}

pub(super) fn checks(info: &RuntimeInfo, config: Option<&Config>, reach: Reach) -> Vec<Check> {
    let handlers = &info.status.runtime_handlers;
    if handlers.is_empty() {
        let names: Vec<&str> = config.into_iter().flat_map(Config::handlers).collect();
        let wrapped = names.iter().filter_map(|name| config?.binary(name)).any(|path| is_ours(&path));
        let check = without_handlers(info);
        // Pods have theirs by annotation there.
        let mut checks = vec![if wrapped { check.useful() } else { check }];
        checks.extend(names.into_iter().filter_map(|name| binary_alone(name, config, reach)));
        return checks;
    }
    let named = |handler: &&RuntimeHandler| !handler.name.is_empty() || handlers.len() == 1;
    handlers.iter().filter(named).map(|handler| check(handler, info, config, reach)).collect()
}

/// Whether the runtime's programs can be run from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    OwnRoot,
    OtherRoot,
}

/// A runtime that is older than handlers' features.
fn without_handlers(info: &RuntimeInfo) -> Check {
    let name = &info.version.runtime_name;
    let cause = format!(
        "{name} {} reports no features of handlers: it is too old for user namespaces, ignores requests for \
         them, and the pod would be root on the host",
        info.version.runtime_version
    );
    let fix = match name.as_str() {
        "containerd" => {
            format!("install containerd 2.0 or newer with runc 1.2 or newer, then: {}", restart(name))
        }
        _ => format!("install a newer {name}, then: {}", restart(name)),
    };
    DESK.fails("the runtime gives pods user namespaces", "no", Fault::new(cause, fix))
}

fn check(handler: &RuntimeHandler, info: &RuntimeInfo, config: Option<&Config>, reach: Reach) -> Check {
    let need = format!("handler {:?} gives pods user namespaces", handler.name);
    let claims = handler.features.as_ref().is_some_and(|features| features.user_namespaces);
    let runtime = &info.version.runtime_name;
    let check = match (claims, binary(&handler.name, config, reach)) {
        (true, Binary::Says(path, features)) if features.idmapped_mounts && features.user_namespaces => {
            DESK.holds(need, format!("claimed, and {} idmaps mounts", path.display()))
        }
        (true, Binary::Says(path, features)) => {
            let found = format!("claimed, but {} {}", path.display(), lack(features));
            let fix = format!("{}, then: {}", newer(&path), restart(runtime));
            let cause = format!("{runtime} made the claim of another program when it started; {IGNORED}");
            DESK.fails(need, found, Fault::new(cause, fix))
        }
        (true, Binary::Silent(why)) => DESK.holds(need, format!("claimed; {why}")),
        (false, Binary::Says(path, features)) if !features.idmapped_mounts || !features.user_namespaces => {
            let cause = format!("{} {}; {IGNORED}", path.display(), lack(features));
            let fix = format!("{}, then: {}", newer(&path), restart(runtime));
            DESK.fails(need, "no", Fault::new(cause, fix))
        }
        (false, Binary::Says(path, _)) => {
            let cause =
                format!("{runtime} did not learn of it when it started, though {} can do it", path.display());
            DESK.fails(need, "no", Fault::new(cause, restart(runtime)))
        }
        (false, Binary::Silent(why)) => {
            let cause = format!("the handler does not claim it; {why}");
            let fix = "let pods with spec.hostUsers: false use another handler, or upgrade this one";
            DESK.fails(need, "no", Fault::new(cause, fix))
        }
    };
    // A runtime class for other pods may do without, and behind our wrapper pods have theirs by annotation.
    let by_default = config.is_none_or(|config| config.default_handler() == handler.name);
    let wrapped = config.and_then(|config| config.binary(&handler.name)).is_some_and(|path| is_ours(&path));
    if by_default && !wrapped { check } else { check.useful() }
}

/// Where a newer runtime has to be put: not in the place of what stands before it.
fn newer(program: &Path) -> String {
    if is_ours(program) {
        format!(
            "let {} hand over to runc 1.2 or newer (wrapper.runtime in {})",
            program.display(),
            node::FILE
        )
    } else {
        format!("put runc 1.2 or newer at {}", program.display())
    }
}

const IGNORED: &str = "a runtime without support for ID-mapped mounts ignores the mappings: the files of the pod's volumes would have the overflow ID 65534 inside the pod";

pub(super) fn lack(features: Features) -> &'static str {
    match features {
        Features { user_namespaces: false, .. } => "knows no user namespaces",
        _ => "cannot idmap mounts, as runc before 1.2",
    }
}

fn binary_alone(handler: &str, config: Option<&Config>, reach: Reach) -> Option<Check> {
    let Binary::Says(path, features) = binary(handler, config, reach) else { return None };
    let need = format!("{} idmaps mounts (handler {handler:?})", path.display());
    Some(if features.idmapped_mounts {
        DESK.holds(need, "yes")
    } else {
        let fault = Fault::new(format!("it {}; {IGNORED}", lack(features)), newer(&path));
        let check = DESK.fails(need, "no", fault);
        if is_ours(&path) { check.useful() } else { check }
    })
}

fn binary(handler: &str, config: Option<&Config>, reach: Reach) -> Binary {
    let Some(path) = config.and_then(|config| config.binary(handler)) else {
        return Binary::Silent("which program is behind it is not known".to_owned());
    };
    if reach == Reach::OtherRoot {
        return Binary::Silent(format!("{} cannot be run under --host-root", path.display()));
    }
    asked(&path)
}

fn asked(path: &Path) -> Binary {
    match features::of(path) {
        Ok(features) => Binary::Says(path.to_owned(), features),
        Err(why) => Binary::Silent(why),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use cri::{RuntimeHandlerFeatures, StatusResponse, VersionResponse};

    use super::*;
    use crate::check::{Severity, Verdict};

    /// A program that answers `features` so; a stand-in, because both halves of the contradiction are never
    /// installed together.
    fn program(dir: &Path, name: &str, idmap: &str) -> PathBuf {
        let path = dir.join(name);
        let text = format!(
            "#!/bin/sh\necho '{{\"linux\":{{\"namespaces\":[\"user\"],\"mountExtensions\":{{\"idmap\":{{\"enabled\":{idmap}}}}}}}}}'\n"
        );
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn info(claims: bool) -> RuntimeInfo {
        let features = RuntimeHandlerFeatures { user_namespaces: claims, ..Default::default() };
        let handler = |name: &str| RuntimeHandler { name: name.into(), features: Some(features) };
        RuntimeInfo {
            version: VersionResponse { runtime_name: "containerd".into(), ..Default::default() },
            status: StatusResponse {
                runtime_handlers: vec![handler(""), handler("runc"), handler("other")],
                ..Default::default()
            },
            images: None,
        }
    }

    fn config(binary: &Path) -> Config {
        let text = format!(
            r#"{{"containerdRootDir":"/c","containerd":{{"defaultRuntimeName":"runc","runtimes":{{"runc":{{"options":{{"BinaryName":{binary:?}}}}}}}}}}}"#
        );
        Config::parse(&text).unwrap()
    }

    fn first(claims: bool, idmap: &str) -> Check {
        first_of("runc", claims, idmap)
    }

    fn first_of(name: &str, claims: bool, idmap: &str) -> Check {
        let dir = tempfile::tempdir().unwrap();
        let config = config(&program(dir.path(), name, idmap));
        let checks = checks(&info(claims), Some(&config), Reach::OwnRoot);
        assert_eq!(checks.len(), 2, "the default is listed once");
        assert_eq!(checks[1].severity, Severity::Useful);
        checks[0].clone()
    }

    #[test]
    fn nobody_is_told_to_put_a_runtime_in_the_place_of_our_wrapper() {
        let dir = tempfile::tempdir().unwrap();
        let config = config(&program(dir.path(), "wardlet-oci", "false"));
        let mut old = info(false);
        old.status.runtime_handlers.clear();
        let mut all = checks(&old, Some(&config), Reach::OwnRoot);
        assert_eq!(all.len(), 2, "{all:?}");
        all.extend([first_of("wardlet-oci", true, "false"), first_of("wardlet-oci", false, "false")]);
        for check in all {
            assert_eq!((check.verdict, check.severity), (Verdict::Fails, Severity::Useful), "{check:?}");
            let fix = check.fix.unwrap();
            assert!(!fix.contains("newer at") && !fix.contains("newer runc at"), "{fix}");
        }
        assert_eq!(checks(&old, None, Reach::OwnRoot)[0].severity, Severity::Needed);
    }

    #[test]
    fn a_claim_that_the_binary_does_not_bear_out_is_a_failure() {
        let check = first(true, "false");
        assert_eq!((check.verdict, check.severity), (Verdict::Fails, Severity::Needed));
        assert!(check.cause.unwrap().contains("ignores the mappings"));
        assert!(check.fix.unwrap().ends_with("then: systemctl restart containerd"));
        assert_eq!(first(true, "true").verdict, Verdict::Holds);
    }

    #[test]
    fn a_runtime_that_was_upgraded_and_not_restarted_is_told_apart_from_an_old_one() {
        assert_eq!(first(false, "true").fix.as_deref(), Some("systemctl restart containerd"));
        assert!(first(false, "false").fix.unwrap().starts_with("put runc 1.2 or newer at "));
    }
}
