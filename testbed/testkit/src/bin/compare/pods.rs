//! `wardlet run` on the built-in runtime, under strace: pods of many shapes, some that end by themselves and some that are stopped.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::Dice;

use crate::difference::Observed;
use crate::programs::{Build, Scratch, run};
use crate::shape::{self, Values};
use crate::{files, repository, trace};

const IMAGE: &str = "localhost/wardlet-busybox:1";
/// Stands for the build's own directory in a manifest.
const NODE: &str = "@NODE@";
/// The last line that a container prints before it waits or ends.
const READY: &str = "| ready";
/// How long a pod may take until it is ready, and half of the time that it may take until it has ended.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// What a container sees of itself: identity, capabilities, mounts, environment.
const LOOK: &str = "id; hostname; grep -E '^(Cap|NoNewPrivs|Seccomp:|Groups)' /proc/self/status; cat /proc/self/uid_map; \
                    cut -d' ' -f4- /proc/self/mountinfo; env | sort; echo ready";

/// A pod with its objects.
pub(crate) struct Pod {
    pub(crate) name: String,
    manifest: String,
    /// How many containers print that they are ready and then wait; 0 for a pod that ends by itself.
    waiting: usize,
}

/// So many pods from a seed, and an image for them.
pub(crate) fn generate(scratch: &Scratch, count: usize, seed: u64) -> anyhow::Result<Vec<Pod>> {
    let script = repository()?.join("scripts/busybox-image.sh");
    let made = run(Command::new(script).arg(IMAGE).arg(archive(scratch)))?;
    ensure!(made.status.success(), "cannot make an image: {}", String::from_utf8_lossy(&made.stderr));
    let mut dice = Dice::seeded(seed);
    Ok((0..count).map(|number| Pod::generate(&mut dice, number)).collect())
}

fn archive(scratch: &Scratch) -> PathBuf {
    scratch.path("busybox.tar")
}

impl Pod {
    fn generate(dice: &mut Dice, number: usize) -> Self {
        let stays = dice.coin();
        let volumes: Vec<Value> = (0..dice.below(5)).map(|index| volume(dice, index)).collect();
        let count = 1 + dice.below(2);
        let end = if stays {
            "trap 'exit 0' TERM; while :; do sleep 0.1; done".to_owned()
        } else {
            format!("exit {}", dice.pick(&[0, 0, 3]))
        };
        let containers: Vec<Value> =
            (0..count).map(|index| container(dice, &format!("c{index}"), &end, &volumes)).collect();
        let mut spec = json!({
            "hostUsers": dice.below(4) == 0, "restartPolicy": "Never", "terminationGracePeriodSeconds": 5,
            "containers": containers, "volumes": volumes,
        });
        let fields: [(&str, &[Value]); 5] = [
            ("hostNetwork", &[json!(true)]),
            ("shareProcessNamespace", &[json!(true)]),
            ("hostname", &[json!("here")]),
            (
                "securityContext",
                &[
                    json!({"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 2000}),
                    json!({"supplementalGroups": [7, 8]}),
                    json!({"seccompProfile": {"type": "RuntimeDefault"}}),
                    json!({"sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "80"}]}),
                ],
            ),
            (
                "initContainers",
                &[
                    json!([bare("first", "echo prepared")]),
                    json!([{"name": "sidecar", "image": IMAGE, "imagePullPolicy": "Never", "restartPolicy": "Always",
                    "command": ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done"]}]),
                ],
            ),
        ];
        for (name, values) in fields {
            if dice.below(4) == 0
                && let Some(spec) = spec.as_object_mut()
            {
                spec.insert(name.to_owned(), dice.pick(values));
            }
        }
        // A container that joins a PID namespace with processes of others was seen to fail at its start under load:
        // libcontainer does not find its own process in /proc.
        if let Some(spec) = spec.as_object_mut()
            && spec.contains_key("initContainers")
        {
            spec.remove("shareProcessNamespace");
        }
        let name = format!("pod-{number:02}");
        let objects = [
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"colour": "green"}}),
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"password": "x"}}),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "compare"}}, "spec": spec}),
        ];
        let manifest = objects.map(|object| format!("{object:#}\n")).join("---\n");
        Self { name, manifest, waiting: if stays { count } else { 0 } }
    }
}

fn bare(name: &str, script: &str) -> Value {
    json!({"name": name, "image": IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", script]})
}

fn volume(dice: &mut Dice, index: usize) -> Value {
    let name = format!("v{index}");
    dice.pick(&[
        json!({"name": name, "emptyDir": {}}),
        json!({"name": name, "emptyDir": {"medium": "Memory"}}),
        json!({"name": name, "configMap": {"name": "settings"}}),
        json!({"name": name, "secret": {"secretName": "key", "defaultMode": 256}}),
        json!({"name": name, "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}}),
        json!({"name": name, "projected": {"sources": [{"configMap": {"name": "settings"}}, {"secret": {"name": "key"}}]}}),
        json!({"name": name, "hostPath": {"path": format!("{NODE}/srv"), "type": "DirectoryOrCreate"}}),
    ])
}

fn container(dice: &mut Dice, name: &str, end: &str, volumes: &[Value]) -> Value {
    let mut container = bare(name, &format!("{LOOK}; {end}"));
    let mount = |(index, volume): (usize, &Value)| {
        let mut mount = json!({"name": volume["name"], "mountPath": format!("/v{index}")});
        let whole = volume.get("emptyDir").is_none() && volume.get("hostPath").is_none();
        let fields = match dice.below(5) {
            0 => json!({"readOnly": true}),
            1 if !whole => json!({"subPath": "part/deep"}),
            2 if !whole => json!({"mountPropagation": "HostToContainer"}),
            _ => json!({}),
        };
        if let (Some(mount), Value::Object(fields)) = (mount.as_object_mut(), fields) {
            mount.extend(fields);
        }
        mount
    };
    let mounts: Vec<Value> = volumes.iter().enumerate().map(mount).collect();
    let context = dice.pick(&[
        json!({}),
        json!({"readOnlyRootFilesystem": true}),
        json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}),
        json!({"runAsUser": 1001}),
        json!({"procMount": "Unmasked"}),
        json!({"privileged": true}),
    ]);
    if let Some(fields) = container.as_object_mut() {
        fields.insert("volumeMounts".to_owned(), mounts.into());
        fields.insert("securityContext".to_owned(), context);
    }
    container
}

/// Runs the pod on a node that has nothing but the image.
pub(crate) fn observe(build: &Build, pod: &Pod) -> anyhow::Result<Vec<Observed>> {
    let seen = Run::start(build, pod).and_then(Run::end);
    let seen = seen.with_context(|| format!("{} with {}", pod.name, build.programs.display()))?;
    for name in ["state", "run", "srv", "run-results"] {
        if build.path(name).exists() {
            fs::remove_dir_all(build.path(name)).with_context(|| build.path(name).display().to_string())?;
        }
    }
    Ok(seen)
}

/// A pod that runs under strace.
struct Run<'a> {
    build: &'a Build,
    pod: &'a Pod,
    child: Child,
    seen: Vec<Observed>,
}

impl<'a> Run<'a> {
    fn start(build: &'a Build, pod: &'a Pod) -> anyhow::Result<Self> {
        for name in ["run-results", "srv"] {
            fs::create_dir(build.path(name))?;
        }
        let tar = build.path("").join("../busybox.tar");
        let import = run(build.wardlet().args(["image", "import"]).arg(tar))?;
        ensure!(import.status.success(), "image import: {}", String::from_utf8_lossy(&import.stderr));
        let results = build.path("run-results");
        let manifest = results.join("pod.yaml");
        fs::write(&manifest, pod.manifest.replace(NODE, &build.path("").display().to_string()))?;
        // A network of its own, in which the host's links and packet filters stay as they are.
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"]);
        let strace = trace::strace(&results.join("trace"));
        command.arg(strace.get_program()).args(strace.get_args());
        let wardlet = build.wardlet();
        command.arg(wardlet.get_program()).args(wardlet.get_args());
        command.args(["run", "--run-dir"]).arg(build.path("run"));
        command.arg("--calls").arg(results.join("calls")).arg(&manifest);
        command.stdin(Stdio::null());
        command.stdout(File::create(results.join("stdout"))?).stderr(File::create(results.join("stderr"))?);
        let child = command.spawn().context("cannot run unshare")?;
        Ok(Self { build, pod, child, seen: vec![] })
    }

    fn end(mut self) -> anyhow::Result<Vec<Observed>> {
        let done = self.watch();
        if done.is_err() {
            // The pod goes with wardlet, and the tracer with the pod.
            let _ = self.stop();
            let _ = self.wait();
        }
        done?;
        Ok(self.seen)
    }

    fn watch(&mut self) -> anyhow::Result<()> {
        if self.pod.waiting > 0
            && let Some(state) = self.until_up()?
        {
            self.seen.push(Observed { subject: "run state", lines: vec![state.to_owned()] });
            self.files("run files while it runs")?;
            let ps = run(self.build.wardlet().args(["ps", "-o", "json"]))?;
            let pods: Value = serde_json::from_slice(&ps.stdout).context("ps -o json")?;
            let lines = shape::json(&pods, Values::WithoutNumbers, &self.build.mask);
            self.seen.push(Observed { subject: "ps", lines });
            self.stop()?;
        }
        let status = self.wait()?;
        if status.code() == Some(2) {
            eprintln!("{} with {}: {}", self.pod.name, self.build.programs.display(), self.text("stderr")?);
        }
        self.seen.push(Observed { subject: "run exit code", lines: vec![status.to_string()] });
        self.files("run files after its end")?;
        self.seen.push(Observed { subject: "run CRI requests and mounts", lines: self.calls()? });
        self.seen.push(Observed { subject: "run output", lines: self.output()? });
        let lines = trace::calls(&self.result("trace"), &self.build.mask)?;
        self.seen.push(Observed { subject: "run mount and namespace calls", lines });
        Ok(())
    }

    fn result(&self, name: &str) -> PathBuf {
        self.build.path("run-results").join(name)
    }

    fn text(&self, name: &str) -> anyhow::Result<String> {
        let path = self.result(name);
        match fs::read(&path) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }

    /// Waits until all containers are ready, or for so long; nothing if the pod was refused or has ended.
    fn until_up(&mut self) -> anyhow::Result<Option<&'static str>> {
        let began = Instant::now();
        while self.text("stdout")?.matches(READY).count() < self.pod.waiting {
            if self.child.try_wait()?.is_some() {
                return Ok(None);
            }
            if began.elapsed() > PATIENCE {
                return Ok(Some("not ready"));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(Some("ready"))
    }

    /// As Ctrl-C does. The program is the last of the chain of only children that starts with ours.
    fn stop(&self) -> anyhow::Result<()> {
        let mut pid = self.child.id();
        for _ in 0..2 {
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
            let child = children.split_whitespace().next().context("wardlet is not there")?;
            pid = child.parse()?;
        }
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).context("a process ID")?;
        kill_process(pid, Signal::TERM).context("cannot stop wardlet")
    }

    fn wait(&mut self) -> anyhow::Result<ExitStatus> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if began.elapsed() > 2 * PATIENCE {
                bail!("it does not end: {}", self.text("stderr")?);
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn files(&mut self, subject: &'static str) -> anyhow::Result<()> {
        let mut lines = Vec::new();
        for name in ["state", "run", "srv"] {
            let listed = files::listed(&self.build.path(name), &self.build.mask)?;
            lines.extend(listed.into_iter().map(|line| format!("{name}: {line}")));
        }
        self.seen.push(Observed { subject, lines });
        Ok(())
    }

    /// The journal of `--calls`, a line for each value; calls for several containers are made side by side.
    fn calls(&self) -> anyhow::Result<Vec<String>> {
        let text = self.text("calls")?;
        let calls = text.lines().map(|line| {
            let call: Value = serde_json::from_str(line).with_context(|| format!("--calls: {line}"))?;
            let name = call.get("call").and_then(Value::as_str).unwrap_or("kernel");
            let lines = shape::json(&call, Values::Compared, &self.build.mask);
            Ok(lines.into_iter().map(|line| format!("{name} {line}")).collect())
        });
        Ok(shape::sorted(calls.collect::<anyhow::Result<_>>()?))
    }

    /// What the containers print, sorted by container, since they print side by side.
    fn output(&self) -> anyhow::Result<Vec<String>> {
        let mut containers: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for line in self.text("stdout")?.lines() {
            let name = line.split(" | ").next().unwrap_or_default().to_owned();
            containers.entry(name).or_default().push(self.build.mask.apply(line));
        }
        Ok(containers.into_values().flatten().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_pods_and_both_kinds() {
        let pods = |seed| {
            let mut dice = Dice::seeded(seed);
            (0..30).map(|number| Pod::generate(&mut dice, number)).collect::<Vec<_>>()
        };
        let texts = |seed| pods(seed).into_iter().map(|pod| pod.manifest).collect::<Vec<_>>();
        assert_eq!(texts(1), texts(1));
        assert_ne!(texts(1), texts(2));
        let waiting = pods(1).iter().filter(|pod| pod.waiting > 0).count();
        assert!((5..25).contains(&waiting), "{waiting}");
    }
}
