//! The effective configuration beside that of a real kubelet: the same file, drop-ins and flags, defaults and merging
//! included.
//!
//! A kubelet logs its configuration before it validates it. A hairpin mode that does not exist makes it stop there, before
//! it touches the node.

use std::fs;
use std::path::Path;
use std::process::Command;

use node::kubelet::{KubeletConfig, KubeletFlags};
use serde_json::{Map, Value};

const HEADER: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

/// What a kubelet starts with.
#[derive(Default)]
struct Case {
    file: Option<&'static str>,
    drop_ins: &'static [(&'static str, &'static str)],
    flags: &'static [(&'static str, &'static str)],
}

const ZEROES: &str = "syncFrequency: 0s\nport: 0\nmaxPods: 0\nhealthzPort: 0\nregistryPullQPS: 0\nregistryBurst: 0\n\
                      podPidsLimit: -7\nresolvConf: \"\"\naddress: \"\"\nlogging: {flushFrequency: 0, verbosity: 0}\n\
                      authorization: {mode: \"\"}\ncrashLoopBackOff: {}\nmemorySwap: {}\nimageMinimumGCAge: 0s\n";

const CASES: &[Case] = &[
    Case { file: None, drop_ins: &[], flags: &[] },
    Case { file: Some(""), drop_ins: &[], flags: &[] },
    Case { file: Some(ZEROES), drop_ins: &[], flags: &[] },
    Case { file: Some(ZEROES), drop_ins: &[("a.conf", "")], flags: &[] },
    Case {
        file: Some(
            "nodeStatusUpdateFrequency: 20s\nmaxParallelImagePulls: 4\nstaticPodPath: manifests\ntlsMinVersion: VersionTLS13\n",
        ),
        drop_ins: &[],
        flags: &[],
    },
    Case {
        file: Some(
            "evictionHard: {memory.available: 5%}\nmergeDefaultEvictionSettings: true\nenforceNodeAllocatable: []\n",
        ),
        drop_ins: &[],
        flags: &[],
    },
    Case {
        file: Some("evictionHard: {}\nenforceNodeAllocatable: []\nkubeReserved: {cpu: 100m, memory: 1Gi}\n"),
        drop_ins: &[
            ("20-b.conf", "maxPods: 20\nclusterDNS: [10.0.0.3]\n"),
            (
                "10-a.conf",
                "maxPods: 10\nclusterDNS: [10.0.0.1, 10.0.0.2]\nkubeReserved: {memory: null, pid: \"5\"}\n",
            ),
            ("15/z.conf", "maxPods: 15\nnodeStatusUpdateFrequency: 20s\nevictionHard: {pid.available: 5%}\n"),
            ("30.yaml", "maxPods: 30\n"),
        ],
        flags: &[],
    },
    Case {
        file: None,
        drop_ins: &[(
            "a.conf",
            "evictionHard: {imagefs.available: 5%}\nserializeImagePulls: false\nfailSwapOn: false\n",
        )],
        flags: &[("cluster-domain", "example.org")],
    },
    Case {
        file: Some(
            "maxPods: 5\nkubeReserved: {cpu: 100m}\nfeatureGates: {SELinuxMount: false, EnvFiles: false}\n",
        ),
        drop_ins: &[("a.conf", "featureGates: {PodsAPI: false}\nreadOnlyPort: 10255\n")],
        flags: &[
            ("max-pods", "0"),
            ("kube-reserved", "memory=1Gi,pid=100"),
            ("cluster-dns", "10.0.0.1"),
            ("cluster-dns", "10.0.0.2,fd00::1"),
            ("eviction-hard", "memory.available<200Mi,nodefs.available<5%"),
            ("eviction-soft", "memory.available<1Gi"),
            ("eviction-soft-grace-period", "memory.available=1m30s"),
            ("feature-gates", "EnvFiles=true,ContainerCheckpoint=false"),
            ("register-with-taints", "node-role.kubernetes.io/control-plane=:NoSchedule,a/b=c:NoExecute"),
            ("runtime-request-timeout", "90s"),
            ("node-status-update-frequency", "15s"),
            ("read-only-port", "0"),
            ("v", "2"),
        ],
    },
    Case {
        file: None,
        drop_ins: &[],
        flags: &[
            ("read-only-port", "0"),
            ("anonymous-auth", "true"),
            ("authorization-mode", "AlwaysAllow"),
            ("port", "10999"),
        ],
    },
];

/// A kubelet without a file allows every request; we have the defaults of an empty file then, and so it gets one.
fn kubelet(directory: &Path, case: &Case) -> Value {
    let program = testbed::cache::program("kubelet", "kubelet").unwrap_or_else(|error| {
        panic!("{error}\n\nhint: {}", error.hint().unwrap_or_else(|| "make components".to_owned()))
    });
    let mut command = Command::new(program);
    command.current_dir(directory).arg("--hairpin-mode=of-no-kind");
    command.arg(format!("--config={}", directory.join("config.yaml").display()));
    if !case.drop_ins.is_empty() {
        command.arg(format!("--config-dir={}", directory.join("conf.d").display()));
    }
    command.args(case.flags.iter().map(|(name, text)| format!("--{name}={text}")));
    let output = command.output().unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && log.contains("of-no-kind"), "{log}");
    let begin =
        log.split_once("\"Effective KubeletConfiguration\" config=<\n").unwrap_or_else(|| panic!("{log}")).1;
    let text: String =
        begin.lines().map_while(|line| line.strip_prefix('\t')).map(|line| format!("{line}\n")).collect();
    serde_saphyr::from_str(&text).unwrap()
}

fn ours(directory: &Path, case: &Case) -> Value {
    let mut flags = KubeletFlags::default();
    case.flags.iter().for_each(|(name, text)| flags.set(name, text).unwrap());
    let file = case.file.map(|_| directory.join("config.yaml"));
    let drop_ins = (!case.drop_ins.is_empty()).then(|| directory.join("conf.d"));
    match KubeletConfig::load(file.as_deref(), drop_ins.as_deref(), &flags) {
        Ok(loaded) => loaded.effective,
        Err(error) => panic!("{error}"),
    }
}

/// Without what Go's JSON encoder omits, and without what the comparison is not about.
fn comparable(mut tree: Value) -> Value {
    for name in ["apiVersion", "kind", "hairpinMode"] {
        tree.as_object_mut().unwrap().remove(name);
    }
    // A kubelet does not write these defaults out.
    for (section, name, default) in [
        ("memorySwap", "swapBehavior", Value::from("NoSwap")),
        ("userNamespaces", "idsPerPod", Value::from(65_536)),
    ] {
        if tree[section][name] == default {
            tree[section].as_object_mut().unwrap().remove(name);
        }
    }
    without_zeroes(tree).unwrap_or(Value::Null)
}

fn without_zeroes(tree: Value) -> Option<Value> {
    match tree {
        Value::Null | Value::Bool(false) => None,
        Value::Number(number) if number.as_f64() == Some(0.0) => None,
        Value::String(text) if text.is_empty() => None,
        Value::Array(items) if items.is_empty() => None,
        Value::Array(items) => Some(items.into_iter().filter_map(without_zeroes).collect()),
        Value::Object(map) => {
            let kept: Map<String, Value> = map
                .into_iter()
                // A gate that is off is set, too.
                .filter_map(|(name, value)| match (name.as_str(), value) {
                    ("featureGates", gates) => Some((name, Value::from(gates.to_string()))),
                    (_, value) => without_zeroes(value).map(|value| (name, value)),
                })
                .collect();
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        value => Some(value),
    }
}

#[test]
fn every_field_is_in_effect_as_a_kubelet_has_it() {
    for (index, case) in CASES.iter().enumerate() {
        let directory = tempfile::tempdir().unwrap();
        let fields = case.file.unwrap_or_default();
        fs::write(directory.path().join("config.yaml"), format!("{HEADER}{fields}")).unwrap();
        for (name, fields) in case.drop_ins {
            let path = directory.path().join("conf.d").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{HEADER}{fields}")).unwrap();
        }
        let theirs = comparable(kubelet(directory.path(), case));
        let ours = comparable(ours(directory.path(), case));
        assert!(theirs.as_object().unwrap().len() > 50, "{theirs}");
        let names: std::collections::BTreeSet<&String> =
            theirs.as_object().unwrap().keys().chain(ours.as_object().unwrap().keys()).collect();
        let different: Vec<String> = names
            .into_iter()
            .filter(|name| theirs.get(*name) != ours.get(*name))
            .map(|name| format!("{name}: a kubelet has {:?}, we {:?}", theirs.get(name), ours.get(name)))
            .collect();
        assert!(different.is_empty(), "case {index}: {different:#?}");
    }
}
