//! How `wardlet-oci` is wired: who calls it, which annotations reach it, its gate, and the runtime behind it.
//!
//! Nothing is said on a node where nobody calls it.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use census::HostRoot;
use wardlet_oci::gate::{GVISOR_KEY, KEY};

use super::check::{Check, Desk, Evidence, Fault, Group};
use super::runtime::Behind;
use crate::node::Node;

const DESK: Desk = Desk::new(Group::Wrapper, Evidence::Files);
const PROGRAM: &str = "wardlet-oci";

/// Where CRI-O is configured.
const CRIO_FILE: &str = "/etc/crio/crio.conf";
const CRIO_DIR: &str = "/etc/crio/crio.conf.d";

pub(super) fn checks(node: &Node, behind: &[Behind]) -> Vec<Check> {
    let containerd: Vec<&Behind> = behind.iter().filter(|behind| is_ours(&behind.program)).collect();
    let crio = crio(node.host_root());
    let enabled = node.config.settings.wrapper.enabled;
    if containerd.is_empty() && crio.is_empty() {
        let idle = enabled.then(|| {
            let cause = "wrapper.enable_user_namespace_annotation is true, and no handler of containerd or CRI-O runs wardlet-oci";
            let fix = "set BinaryName of a containerd handler, or runtime_path of a CRI-O one, to wardlet-oci";
            DESK.fails("somebody calls wardlet-oci", "nobody", Fault::new(cause, fix)).useful()
        });
        return idle.into_iter().collect();
    }
    let mut checks: Vec<Check> = containerd.iter().map(|behind| annotations(behind)).collect();
    checks.extend(crio.iter().map(|file| {
        DESK.holds("CRI-O calls wardlet-oci, with all annotations of a pod", file.display().to_string())
    }));
    let programs = containerd.iter().map(|behind| behind.program.as_path());
    checks.push(gate(node, enabled));
    checks.extend(runtimes(node, programs));
    checks
}

fn is_ours(program: &Path) -> bool {
    let name = program.file_name().and_then(OsStr::to_str).unwrap_or_default();
    name == PROGRAM || name.strip_prefix(PROGRAM).is_some_and(|rest| rest.starts_with('-'))
}

/// containerd keeps from its runtimes every annotation that it was not told to pass on; a pod whose
/// annotation does not arrive asks for nothing.
fn annotations(behind: &Behind) -> Check {
    let need = format!("annotations of pods reach wardlet-oci (handler {:?})", behind.handler);
    let passes = |key: &str| behind.annotations.iter().any(|pattern| matches(pattern, key));
    let found = if behind.annotations.is_empty() { "none".to_owned() } else { behind.annotations.join(", ") };
    if passes(KEY) {
        return DESK.holds(need, found);
    }
    let cause = if passes(GVISOR_KEY) {
        format!(
            "only {GVISOR_KEY} arrives; a pod with {KEY} runs without a user namespace, and nobody says so"
        )
    } else {
        format!(
            "containerd keeps {KEY} to itself: such a pod runs without a user namespace, and nobody says so"
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

fn gate(node: &Node, enabled: bool) -> Check {
    let need = "the operator's gate is open";
    let file = node
        .config
        .file
        .as_ref()
        .map_or_else(|| settings::FILE.to_owned(), |file| file.display().to_string());
    if enabled {
        return DESK.holds(need, format!("wrapper.enable_user_namespace_annotation is true in {file}"));
    }
    let cause = "wardlet-oci hands every pod over as it is, and only notes which of them asked";
    let fix = format!("set wrapper.enable_user_namespace_annotation: true in {file}");
    DESK.fails(need, "closed", Fault::new(cause, fix)).useful()
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
        match wardlet_oci::call::find(&node.config.settings.wrapper, program.as_os_str(), &search) {
            Ok(runtime) if node.host_root().path(&runtime.path).is_file() => {
                DESK.holds(need, runtime.path.display().to_string())
            }
            Ok(runtime) => {
                let cause = format!("{} is not there", runtime.path.display());
                DESK.fails(
                    need,
                    "no",
                    Fault::new(cause, "set wrapper.runtime to the real runtime's absolute path"),
                )
            }
            Err(e) => DESK.fails(need, "no", Fault::new(e.to_string(), e.hint().unwrap_or_default())),
        }
    })
}

/// The files in which CRI-O is told to run us. It passes all annotations on.
fn crio(host_root: &HostRoot) -> Vec<PathBuf> {
    let listed = fs::read_dir(host_root.path(CRIO_DIR)).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = listed.map(|entry| entry.path()).collect();
    files.push(host_root.path(CRIO_FILE));
    files.sort();
    files.retain(|file| fs::read_to_string(file).is_ok_and(|text| text.lines().any(runs_us)));
    files
}

/// A line such as `runtime_path = "/usr/bin/wardlet-oci"`.
fn runs_us(line: &str) -> bool {
    let Some((key, value)) = line.split_once('=') else { return false };
    key.trim() == "runtime_path" && is_ours(Path::new(value.trim().trim_matches(['"', '\''])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::check::Verdict;

    fn behind(annotations: &[&str]) -> Behind {
        Behind {
            handler: "ward".into(),
            program: "/usr/bin/wardlet-oci".into(),
            annotations: annotations.iter().map(|pattern| (*pattern).to_owned()).collect(),
        }
    }

    #[test]
    fn an_annotation_that_does_not_arrive_is_a_fault_that_names_the_setting() {
        assert_eq!(annotations(&behind(&["wardlet.dev/*"])).verdict, Verdict::Holds);
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
    fn our_program_is_known_by_its_name_and_in_cri_os_files() {
        for (program, ours) in
            [("wardlet-oci", true), ("/x/wardlet-oci-crun", true), ("runc", false), ("wardlet-ocix", false)]
        {
            assert_eq!(is_ours(Path::new(program)), ours, "{program}");
        }
        assert!(runs_us("runtime_path = \"/usr/bin/wardlet-oci\""));
        assert!(
            !runs_us("# runtime_path = \"/usr/bin/wardlet-oci\"")
                && !runs_us("runtime_path = \"/usr/bin/crun\"")
        );
    }
}
