//! Reading, validating and planning manifests: ours alone, on one core.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use manifest::Cluster;
use plan::{Facts, Gates, Policy, Rules};

use crate::dice::Dice;
use crate::measure::{Goal, Measure, Side, Sides};
use crate::report::{Report, say};
use crate::subject::Answer;

const MANIFESTS: usize = 10_000;
const TIMES: usize = 20;
const GOAL: Duration = Duration::from_secs(2);

/// A node that can do all that the pods ask for.
const FACTS: &str = r#"{
    "kernel": {"userNamespaces": "yes", "maxUserNamespaces": 100000, "idmappedMounts": "yes"},
    "filesystems": {"idmap": {"ext4": "yes"}, "kinds": {"emptyDir": "ext4", "configMap": "ext4"}, "paths": {"/": "ext4"}},
    "runtime": {
        "handlers": {"": {"userNamespaces": true, "recursiveReadOnlyMounts": true}},
        "userNamespacesHostNetwork": false
    },
    "selinux": {"state": "disabled", "defaults": null},
    "pool": {"length": 65536, "longest": 65536, "blocks": 65534, "origin": "default"}
}"#;

/// A pod as people write them, none like the other.
pub(crate) fn text(number: usize) -> String {
    format!(
        "apiVersion: v1
kind: Pod
metadata:
  name: web-{number}
  namespace: team-{}
  labels: {{app: web, tier: front}}
spec:
  hostUsers: false
  securityContext:
    runAsUser: {}
    fsGroup: 2000
    seLinuxOptions: {{level: \"s0:c{},c1023\"}}
  initContainers:
  - name: prepare
    image: registry.example/tool:1
    command: [/bin/prepare, --all]
    volumeMounts: [{{name: data, mountPath: /data}}]
  containers:
  - name: app
    image: registry.example/web:{number}
    ports: [{{containerPort: 8080, name: http}}]
    env:
    - {{name: PORT, value: \"8080\"}}
    - name: POD
      valueFrom: {{fieldRef: {{fieldPath: metadata.name}}}}
    resources:
      requests: {{cpu: 100m, memory: 64Mi}}
      limits: {{memory: 128Mi}}
    readinessProbe:
      httpGet: {{path: /ready, port: http}}
    volumeMounts:
    - {{name: data, mountPath: /data}}
    - {{name: settings, mountPath: /etc/web, readOnly: true}}
  volumes:
  - name: data
    emptyDir: {{sizeLimit: 1Gi}}
  - name: settings
    configMap: {{name: web, defaultMode: 0440}}
",
        number % 50,
        number % 60_000,
        number % 1023,
    )
}

pub(crate) fn run(dice: &mut Dice, report: &mut Report) -> anyhow::Result<()> {
    say(&format!("reading, validating and planning {MANIFESTS} manifests"));
    let texts: Vec<String> = (0..MANIFESTS).map(text).collect();
    let policy = Policy { gates: Gates::default(), rules: Rules::default() };
    let facts: Facts = serde_json::from_str(FACTS)?;
    let before = peak()?;
    let mut ours = Side::default();
    for _ in 0..TIMES {
        let began = Instant::now();
        for text in &texts {
            explain(text, &facts, &policy)?;
        }
        let ns = u64::try_from(began.elapsed().as_nanos())?;
        ours.add(&Answer { wall_ns: ns, ns: vec![ns], ..Answer::default() });
    }
    let what = format!("{MANIFESTS} manifests to plans");
    report.measures.push(Measure::new(&what, Sides::only_ours(ours), Some(Goal::P99(GOAL)), dice));
    let memory = peak()?.saturating_sub(before);
    report
        .notes
        .push(format!("{MANIFESTS} manifests, one after the other, took {memory} kB beyond their text"));
    Ok(())
}

/// All the way, for pods that run.
fn explain(text: &str, facts: &Facts, policy: &Policy) -> anyhow::Result<()> {
    let reading = manifest::read("pod.yaml", text.as_bytes());
    if let Some(finding) = reading.findings.first() {
        bail!("{finding}");
    }
    let cluster = Cluster::of(&reading.objects);
    for object in &reading.objects {
        if let Some(finding) = manifest::validate(object, &policy.gates).first() {
            bail!("{finding}");
        }
        let pod = object.pod().context("a pod was written")?;
        let intent = manifest::lower(&pod, &cluster).map_err(|f| anyhow::anyhow!("{f:?}"))?;
        let planned = plan::plan(&intent, facts, policy).map_err(|r| anyhow::anyhow!("{r:?}"))?;
        std::hint::black_box(planned);
    }
    Ok(())
}

/// The most memory this process ever had, in kB.
fn peak() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).context("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
