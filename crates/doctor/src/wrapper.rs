//! How `wardlet-oci` is configured: the handlers that call it, the annotations that reach it, its gate, and the runtime behind it.
//!
//! There are no checks on a node without such a handler.

use std::ffi::OsStr;
use std::path::Path;

use node::{Node, find_runtime};
use types::keys::ASKING;
use types::keys::{GVISOR_USER_NAMESPACE, USER_NAMESPACE};

use crate::check::{Check, Desk, Evidence, Fault, Group};
use crate::crio::{self, CrioRuntime, Infra};
use crate::runtime::Behind;

const DESK: Desk = Desk::new(Group::Wrapper, Evidence::Files);
const PROGRAM: &str = "wardlet-oci";

pub(crate) fn checks(node: &Node, behind: &[Behind]) -> Vec<Check> {
    let containerd: Vec<&Behind> = behind.iter().filter(|behind| is_ours(&behind.program)).collect();
    let (crio, infra) = crio::runtimes(node.host_root());
    let crio: Vec<CrioRuntime> = crio.into_iter().filter(|runtime| is_ours(&runtime.program)).collect();
    let enabled = node.config.settings.wrapper.enabled;
    if containerd.is_empty() && crio.is_empty() {
        let idle = enabled.then(|| {
            let cause = "wrapper.enable_user_namespace_annotation is true, and no handler of containerd or CRI-O runs wardlet-oci";
            let fix = "set BinaryName of a containerd handler, or runtime_path of a CRI-O one, to wardlet-oci";
            DESK.fails("a runtime handler uses wardlet-oci", "none configured", Fault::new(cause, fix)).useful()
        });
        return idle.into_iter().collect();
    }
    let mut checks: Vec<Check> = containerd.iter().map(|behind| annotations(behind)).collect();
    checks.extend(crio.iter().map(|runtime| {
        DESK.holds(
            "CRI-O calls wardlet-oci, with all annotations of a pod",
            runtime.file.display().to_string(),
        )
    }));
    checks.extend(crio.first().map(|_| first_container(infra)));
    let crios = crio.iter().map(|runtime| runtime.program.as_path());
    let programs = containerd.iter().map(|behind| behind.program.as_path()).chain(crios);
    checks.push(gate(node, enabled));
    checks.push(ledger(node));
    checks.extend(runtimes(node, programs));
    checks
}

pub(crate) fn is_ours(program: &Path) -> bool {
    let name = program.file_name().and_then(OsStr::to_str).unwrap_or_default();
    name == PROGRAM || name.strip_prefix(PROGRAM).is_some_and(|rest| rest.starts_with('-'))
}

/// containerd passes on only the annotations that `pod_annotations` names; a pod whose
/// annotation does not arrive asks for nothing.
fn annotations(behind: &Behind) -> Check {
    let need = format!("annotations of pods reach wardlet-oci (handler {:?})", behind.handler);
    let passes = |key: &str| behind.annotations.iter().any(|pattern| matches(pattern, key));
    let found = if behind.annotations.is_empty() { "none".to_owned() } else { behind.annotations.join(", ") };
    if passes(USER_NAMESPACE) {
        let mut others = ASKING.into_iter().filter(|key| !passes(key)).peekable();
        let missing = others.peek().is_some().then(|| others.collect::<Vec<_>>().join(" and "));
        return DESK
            .holds(need, missing.map_or(found.clone(), |keys| format!("{found}; not passed on: {keys}")));
    }
    let cause = if passes(GVISOR_USER_NAMESPACE) {
        format!(
            "only {GVISOR_USER_NAMESPACE} arrives; a pod with {USER_NAMESPACE} runs without a user namespace, and no component reports it"
        )
    } else {
        format!(
            "containerd does not pass on {USER_NAMESPACE}: such a pod runs without a user namespace, and no component reports it"
        )
    };
    let fix = format!(
        "add pod_annotations = [\"wardlet.dev/*\", \"dev.gvisor.*\"] to the handler {:?} in \
         /etc/containerd/config.toml, then: systemctl restart containerd",
        behind.handler
    );
    DESK.fails(need, found, Fault::new(cause, fix))
}

/// As containerd matches: a star is anything but a slash.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == text };
    let Some(rest) = text.strip_prefix(before) else { return false };
    let most = rest.find('/').unwrap_or(rest.len());
    let mut ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]).filter(|at| *at <= most);
    ends.any(|at| rest.get(at..).is_some_and(|rest| matches(after, rest)))
}

/// wardlet-oci decides at a pod's first container, the sandbox container, which CRI-O can be configured to drop.
fn first_container(infra: Infra) -> Check {
    let need = "CRI-O makes a first container for every pod";
    if infra == Infra::Kept {
        return DESK.holds(need, "drop_infra_ctr is false");
    }
    let cause = "drop_infra_ctr is true, which is the default: wardlet-oci sees no sandbox container, and pods that ask for a user namespace are refused";
    let fix = "set drop_infra_ctr = false under [crio.runtime] in /etc/crio/crio.conf.d, then: systemctl restart crio";
    DESK.fails(need, "no", Fault::new(cause, fix))
}

fn gate(node: &Node, enabled: bool) -> Check {
    let need = "the operator's gate is open";
    let file =
        node.config.file.as_ref().map_or_else(|| node::FILE.to_owned(), |file| file.display().to_string());
    if enabled {
        return DESK.holds(need, format!("wrapper.enable_user_namespace_annotation is true in {file}"));
    }
    let cause = "wardlet-oci passes every pod to the runtime unchanged, and only logs which pods ask for a user namespace";
    let fix = format!("set wrapper.enable_user_namespace_annotation: true in {file}");
    DESK.fails(need, "closed", Fault::new(cause, fix)).useful()
}

/// Other commands would not see the leases of another directory, and could lease the same blocks.
fn ledger(node: &Node) -> Check {
    let need = "leases of wardlet-oci are in the ledger that is shown here";
    let (theirs, here) = (&node.config.settings.wrapper.state_dir, node.state_dir());
    if theirs == here {
        return DESK.holds(need, here.display().to_string());
    }
    let (theirs, here) = (theirs.display(), here.display());
    let cause =
        format!("wardlet-oci keeps them in {theirs}; `wardlet ids`, `verify` and `run` look into {here}");
    let fix = format!(
        "set wrapper.user_namespace_state_dir: {here} in {}, or call wardlet with --state-dir {theirs}",
        node::FILE
    );
    DESK.fails(need, "elsewhere", Fault::new(cause, fix))
}

/// The runtime that each of our names stands for.
fn runtimes<'a>(
    node: &'a Node,
    programs: impl Iterator<Item = &'a Path> + 'a,
) -> impl Iterator<Item = Check> + 'a {
    let mut programs: Vec<&Path> = programs.collect();
    programs.sort_unstable();
    programs.dedup();
    programs.into_iter().map(|program| {
        let need = format!("{} finds the runtime that it hands over to", program.display());
        let search = std::env::var_os("PATH").unwrap_or_default();
        match find_runtime(&node.config.settings.wrapper, program.as_os_str(), &search) {
            Ok(runtime) if node.host_root().path(&runtime).is_file() => {
                DESK.holds(need, runtime.display().to_string())
            }
            Ok(runtime) => {
                let cause = format!("{} is not there", runtime.display());
                DESK.fails(
                    need,
                    "no",
                    Fault::new(cause, "set wrapper.runtime to the real runtime's absolute path"),
                )
            }
            Err(e) => DESK.fails(need, "no", Fault::new(e.to_string(), e.hint())),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Verdict;

    fn behind(annotations: &[&str]) -> Behind {
        Behind {
            handler: "ward".into(),
            program: "/usr/bin/wardlet-oci".into(),
            annotations: annotations.iter().map(|pattern| (*pattern).to_owned()).collect(),
        }
    }

    #[test]
    fn an_annotation_that_does_not_arrive_is_a_fault_that_names_the_setting() {
        let ours = annotations(&behind(&["wardlet.dev/*", "dev.gvisor.*"]));
        assert_eq!(ours.verdict, Verdict::Holds);
        let missing = "not passed on: io.kubernetes.cri-o.userns-mode and userns-mode.crio.io";
        assert!(ours.found.ends_with(missing), "{}", ours.found);
        let all = ["wardlet.dev/*", "dev.gvisor.*", "io.kubernetes.cri-o.userns-mode", "userns-mode.crio.io"];
        assert_eq!(annotations(&behind(&all)).found, all.join(", "));
        assert_eq!(annotations(&behind(&["x", "wardlet.dev/user-namespace"])).verdict, Verdict::Holds);
        for patterns in [&[][..], &["*"], &["wardlet.*"], &["wardlet.dev/user"]] {
            let check = annotations(&behind(patterns));
            assert_eq!(check.verdict, Verdict::Fails, "{patterns:?}");
            assert!(check.fix.unwrap().contains("pod_annotations"));
        }
        let gvisors = annotations(&behind(&["dev.gvisor.*"]));
        assert!(gvisors.cause.unwrap().contains("only dev.gvisor.spec.user-namespace arrives"));
    }

    #[test]
    fn our_program_is_known_by_its_name() {
        for (program, ours) in
            [("wardlet-oci", true), ("/x/wardlet-oci-crun", true), ("runc", false), ("wardlet-ocix", false)]
        {
            assert_eq!(is_ours(Path::new(program)), ours, "{program}");
        }
    }
}
