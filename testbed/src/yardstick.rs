//! The yardstick: what a real kubelet does with `hostUsers: false` on a real runtime, one command each.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::cluster::parts::{Part, Parts};
use crate::{Error, Result, Testbed, images, program};

/// A pod in a user namespace of its own that shows its map and a volume's owner, then waits.
fn pod() -> String {
    let command = "cat /proc/self/uid_map; id; ls -lnd /data; sleep 1000";
    serde_json::json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "ward"},
        "spec": {
            "hostUsers": false,
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "c", "image": images::BUSYBOX, "imagePullPolicy": "Never",
                "command": ["sh", "-c", command],
                "volumeMounts": [{"name": "d", "mountPath": "/data"}],
            }],
            "volumes": [{"name": "d", "emptyDir": {}}],
        },
    })
    .to_string()
}

/// Runs the pod on a node that is up and returns what it printed.
///
/// # Errors
/// If the pod does not run within a minute.
pub fn show_userns(testbed: &Testbed) -> Result<String> {
    apply(testbed, &pod())?;
    let began = Instant::now();
    loop {
        let logs = program::text(testbed.command("kubectl").args(["logs", "ward"])).unwrap_or_default();
        if logs.lines().count() >= 3 {
            let _ = program::run(testbed.command("kubectl").args(["delete", "pod", "ward", "--now"]));
            return Ok(logs);
        }
        if began.elapsed() > Duration::from_secs(60) {
            let cause = program::text(testbed.command("kubectl").args(["describe", "pod", "ward"]));
            let cause = program::tail(&cause.unwrap_or_default());
            return Err(Error::NotReady { part: "the pod".into(), seconds: 60, cause });
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// `kubectl apply` of a text.
///
/// # Errors
/// If the API server refuses it.
pub fn apply(testbed: &Testbed, manifest: &str) -> Result<()> {
    let spawn = |source| Error::Spawn { program: "kubectl apply".into(), source };
    let mut command = testbed.command("kubectl");
    command.args(["apply", "-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(spawn)?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(manifest.as_bytes()).map_err(spawn)?;
    }
    let output = child.wait_with_output().map_err(spawn)?;
    if output.status.success() {
        return Ok(());
    }
    let said = program::tail(&String::from_utf8_lossy(&output.stderr));
    Err(Error::Program { program: "kubectl apply".into(), status: output.status.to_string(), said })
}

/// Assigns subnets for pods to a Node, as the controller manager does, where none runs. The Node must exist.
///
/// # Errors
/// If the API server refuses it.
pub fn assign_pod_cidrs(testbed: &Testbed, node: &str, cidrs: &[&str]) -> Result<()> {
    let patch = serde_json::json!({"spec": {"podCIDR": cidrs.first(), "podCIDRs": cidrs}}).to_string();
    let mut command = testbed.command("kubectl");
    program::run(command.args(["patch", "node", node, "--patch", &patch])).map(drop)
}

/// How many specs there were, and what became of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Specs {
    /// Were run.
    pub ran: u32,
    /// Did as they should.
    pub passed: u32,
    /// Did not.
    pub failed: u32,
    /// Of these, how many cannot do otherwise here: see [`KNOWN`].
    pub known: u32,
    /// The names of those that failed, as ginkgo's summary gives them.
    pub failures: Vec<String>,
}

/// Specs of critest that fail on every runtime here, by their names, and why.
pub const KNOWN: [(&str, &str); 2] = [
    (
        "public image with digest should be pulled and removed",
        "upstream's image has that digest, no stand-in",
    ),
    ("runtime should support MaskedPaths", "the stand-in's shell runs ls itself, without the masked program"),
];

/// Where critest is.
///
/// # Errors
/// If it is not there: it cannot be had from any registry.
pub fn find_critest() -> Result<PathBuf> {
    let named = std::env::var_os("CRITEST").map(PathBuf::from).or_else(|| program::find("critest"));
    named.ok_or_else(|| Error::CannotBeHad {
        what: "critest".into(),
        cause: "it is neither on PATH nor named by CRITEST, and no registry has it: nothing was run".into(),
    })
}

/// critest against the runtime alone: the specs that match `focus`.
///
/// # Errors
/// If it says nothing that can be counted.
pub fn critest(testbed: &Testbed, critest: &Path, focus: &str) -> Result<Specs> {
    let endpoint = format!("unix://{}", testbed.containerd_socket().display());
    let mut command = testbed.command(critest);
    command.arg(format!("--runtime-endpoint={endpoint}")).arg(format!("--image-endpoint={endpoint}"));
    if !focus.is_empty() {
        command.arg(format!("--ginkgo.focus={focus}"));
    }
    count(command.arg("--ginkgo.no-color"), &testbed.record().places.log("critest"))
}

/// What critest needs to be up.
#[must_use]
pub fn parts_for_critest() -> Parts {
    Parts::of(&[Part::Containerd, Part::Registry])
}

fn count(command: &mut Command, log: &Path) -> Result<Specs> {
    let file = fs::File::create(log).map_err(Error::file("make", log))?;
    let copy = file.try_clone().map_err(Error::file("open", log))?;
    let status = command
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(copy)
        .status()
        .map_err(|source| Error::Spawn { program: program::line(command), source })?;
    let text = fs::read_to_string(log).map_err(Error::file("read", log))?;
    for line in failures(&text) {
        let known = why_known(line).map(|why| format!(" (known: {why})")).unwrap_or_default();
        eprintln!("{line}{known}");
    }
    specs(&text).ok_or_else(|| Error::Program {
        program: program::line(command),
        status: status.to_string(),
        said: program::tail(&text),
    })
}

/// How ginkgo's summary marks a spec that did not do as it should.
const MARKS: [&str; 4] = ["[FAIL]", "[TIMEDOUT]", "[PANICKED!]", "[INTERRUPTED]"];

/// The lines of ginkgo's summary that name a spec which failed.
fn failures(text: &str) -> impl Iterator<Item = &str> {
    let summary = text.rfind("\nSummarizing ").and_then(|at| text.get(at..)).unwrap_or(text);
    summary.lines().map(str::trim).filter(|line| MARKS.iter().any(|mark| line.starts_with(mark)))
}

/// A spec's own name: without the mark and the kind of its last node.
fn spec_name(failure: &str) -> String {
    let name = failure.split_once("] ").map_or(failure, |(_, name)| name);
    name.replace("[It] ", "").trim().to_owned()
}

fn why_known(failure: &str) -> Option<&'static str> {
    KNOWN.into_iter().find(|(name, _)| failure.contains(name)).map(|(_, why)| why)
}

/// Reads ginkgo's summary: `Ran 7 of 3206 Specs` … `7 Passed | 0 Failed`.
fn specs(text: &str) -> Option<Specs> {
    let number_before = |word: &str| {
        let summary = text.lines().rev().find(|line| line.contains(" Passed") && line.contains(" Failed"))?;
        let before = summary.split(word).next()?;
        before.split_whitespace().last()?.parse().ok()
    };
    let ran =
        text.lines().find_map(|line| line.split_once("Ran ")?.1.split(" of ").next()?.trim().parse().ok())?;
    let known = failures(text).filter(|line| why_known(line).is_some()).count();
    Some(Specs {
        ran,
        passed: number_before(" Passed")?,
        failed: number_before(" Failed")?,
        known: u32::try_from(known).ok()?,
        failures: failures(text).map(spec_name).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_of_ginkgo_is_counted() {
        let text = "…\nRan 7 of 3206 Specs in 35.2 seconds\nFAIL! -- 5 Passed | 2 Failed | 0 Pending | 3199 Skipped\n";
        assert_eq!(specs(text), Some(Specs { ran: 7, passed: 5, failed: 2, ..Specs::default() }));
        assert_eq!(specs("panic: no cluster"), None);
    }

    #[test]
    fn only_the_failures_with_a_reason_are_known() {
        let text = "Ran 3 of 142 Specs in 1 seconds\n  [FAIL] [k8s.io] Security Context bucket [It] runtime should \
                    support MaskedPaths\n  [FAIL] [k8s.io] Security Context bucket [It] runtime should support \
                    dropping capability\nFAIL! -- 1 Passed | 2 Failed | 0 Pending | 139 Skipped\n";
        let found = specs(text).expect("a summary");
        assert_eq!((found.ran, found.passed, found.failed, found.known), (3, 1, 2, 1));
        assert_eq!(
            found.failures.last().map(String::as_str),
            Some("[k8s.io] Security Context bucket runtime should support dropping capability")
        );
    }

    #[test]
    fn each_failed_spec_is_named_once_also_one_that_was_interrupted() {
        let text = "  [FAIL] as it happens\nSummarizing 2 Failures:\n  [FAIL] [sig-node] Pods [It] should be updated \
                    [NodeConformance]\n  [TIMEDOUT] [sig-node] Pods [It] should get a host IP\nRan 2 of 9 Specs in 1 \
                    seconds\nFAIL! - Interrupted by Timeout -- 0 Passed | 2 Failed | 0 Pending | 7 Skipped\n";
        let names = specs(text).expect("a summary").failures;
        assert_eq!(
            names,
            ["[sig-node] Pods should be updated [NodeConformance]", "[sig-node] Pods should get a host IP"]
        );
    }
}
