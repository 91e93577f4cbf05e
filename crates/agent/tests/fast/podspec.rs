//! Every field that docs/podspec.md calls honoured is held to what it says by a test that is there and speaks of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const DOCUMENT: &str = include_str!("../../../../docs/podspec.md");

/// A pod with most fields prints what has come of each, on containerd and on the built-in runtime.
const INSIDE: &str = "wardlet/tests/slow/run_fields.rs a_pod_has_inside_what_its_fields_say_on_containerd";
const OTHERS: &str = "wardlet/tests/slow/run_fields.rs a_deadline_ends_a_pod_a_gate_keeps_it_unready_and_last_words_can_be_its_logs";
const ISOLATED: &str = "wardlet/tests/slow/run.rs an_isolated_pod_with_ephemeral_volumes_runs_ends_with_its_code_and_leaves_nothing";
const ORDERED: &str =
    "wardlet/tests/slow/run.rs pods_with_init_sidecar_probes_and_updates_end_cleanly_on_ctrl_c";
const POWERS: &str = "agent/src/cri/security.rs what_a_pod_may_do_is_what_the_runtime_is_asked_for";
const MOUNTED: &str = "agent/src/pod/mounts.rs a_mount_is_carried_on_and_closed_as_it_says";
const PORTS: &str = "agent/src/cri/sandbox.rs all_ports_of_regular_containers_are_asked_for_and_host_ports_of_init_containers";
const HOOKS: &str = "wardlet/tests/slow/run_fields.rs probes_and_hooks_ask_a_server_that_the_pod_has";
const SPACES: &str = "agent/src/cri/security.rs namespaces_are_asked_for_as_the_pod_has_them";
const STREAMS: &str =
    "agent/src/cri/container.rs streams_and_the_stop_signal_are_asked_for_as_the_container_has_them";
const NODES: &str = "admission/src/placement.rs every_operator_of_node_affinity_is_kept";
const NUMBERS: &str = "agent/src/cri/resources.rs limits_and_requests_become_the_kernels_numbers";
/// The API's fields as lifecycle has them.
const LOWERED: &str = "agent/src/pod/spec.rs the_numbers_of_probes_and_the_rules_of_restarts_are_taken_over";
const TIMES: &str =
    "lifecycle/tests/fast/rules/probing.rs a_probe_is_first_run_after_its_delay_and_then_every_period";
const RULES: &str =
    "lifecycle/tests/fast/rules/restarts.rs a_containers_own_policy_and_rules_come_before_the_pods";
const STATUS: &str = "agent/src/probe/http.rs a_status_from_200_to_399_is_well";
const HOST: &str = "agent/src/probe/mod.rs whoever_is_named_is_asked_and_not_the_pod";
const SERVED: &str =
    "wardlet/tests/slow/run_https.rs probes_over_https_follow_what_the_server_says_on_containerd";
const HTTPS: &str = "agent/src/probe/tls.rs a_probe_over_https_takes_any_certificate_and_minds_the_status";
const FILES: &str = "volumes/tests/fast/payload.rs items_choose_keys_paths_and_modes";
const OPTIONAL: &str = "volumes/tests/fast/payload.rs what_is_missing_is_named_unless_it_is_optional";

/// Type, fields, and who holds them: the first what they do, others that they are read.
const HELD: &[(&str, &str, &[&str])] = &[
    ("PodSpec", "hostUsers", &[ISOLATED]),
    ("PodSpec", "hostIPC hostNetwork hostPID", &[SPACES]),
    ("PodSpec", "containers initContainers restartPolicy terminationGracePeriodSeconds", &[ORDERED]),
    ("PodSpec", "activeDeadlineSeconds readinessGates", &[OTHERS]),
    ("PodSpec", "shareProcessNamespace securityContext volumes serviceAccountName", &[INSIDE]),
    ("PodSpec", "hostname subdomain setHostnameAsFQDN hostAliases dnsConfig dnsPolicy", &[INSIDE]),
    ("PodSpec", "hostnameOverride", &["admission/src/hostname.rs a_pod_is_called_as_kubernetes_calls_it"]),
    (
        "PodSpec",
        "runtimeClassName",
        &["manifest/tests/fast/lowering.rs a_pod_and_the_objects_it_names_become_an_intent"],
    ),
    (
        "PodSpec",
        "imagePullSecrets",
        &["wardlet/tests/slow/run_pull.rs a_pod_pulls_with_the_secret_that_it_names"],
    ),
    ("PodSpec", "nodeName", &["admission/src/placement.rs a_pod_that_names_another_node_is_refused"]),
    (
        "PodSpec",
        "nodeSelector",
        &["admission/src/placement.rs labels_that_every_node_has_are_matched_and_others_are_not_there"],
    ),
    (
        "PodSpec",
        "enableServiceLinks",
        &["agent/src/pod/env.rs variables_of_services_come_first_and_are_overridden_and_referred_to"],
    ),
    ("PodSpec", "affinity", &[NODES]),
    ("PodSpec", "os", &["manifest/src/unsupported/tests.rs windows_is_refused_and_linux_is_not"]),
    ("PodOS", "name", &["manifest/src/unsupported/tests.rs windows_is_refused_and_linux_is_not"]),
    ("PodReadinessGate", "conditionType", &[OTHERS]),
    ("PodDNSConfig", "nameservers options searches", &[INSIDE]),
    ("PodDNSConfigOption", "name value", &[INSIDE]),
    ("HostAlias", "hostnames ip", &[INSIDE]),
    (
        "LocalObjectReference",
        "name",
        &["wardlet/tests/slow/run_pull.rs a_pod_pulls_with_the_secret_that_it_names"],
    ),
    ("PodSecurityContext", "runAsUser runAsGroup runAsNonRoot fsGroup fsGroupChangePolicy", &[INSIDE]),
    ("PodSecurityContext", "supplementalGroups supplementalGroupsPolicy sysctls", &[INSIDE]),
    ("PodSecurityContext", "seLinuxOptions seccompProfile appArmorProfile", &[POWERS]),
    (
        "PodSecurityContext",
        "seLinuxChangePolicy",
        &[
            "plan/tests/fast/selinux_table.rs a_change_policy_behind_a_closed_gate_is_ignored_aloud_or_refused",
        ],
    ),
    (
        "SecurityContext",
        "runAsUser runAsGroup seLinuxOptions appArmorProfile privileged procMount",
        &[POWERS],
    ),
    (
        "SecurityContext",
        "runAsNonRoot",
        &["agent/src/pod/images.rs a_container_that_must_not_be_root_is_not"],
    ),
    (
        "SecurityContext",
        "seccompProfile allowPrivilegeEscalation capabilities readOnlyRootFilesystem",
        &[INSIDE],
    ),
    ("SELinuxOptions", "level role type user", &[POWERS]),
    ("Capabilities", "add drop", &[INSIDE]),
    ("SeccompProfile", "localhostProfile type", &[POWERS]),
    ("AppArmorProfile", "localhostProfile type", &[POWERS]),
    ("Sysctl", "name value", &[INSIDE]),
    (
        "Container",
        "args command workingDir image imagePullPolicy name env envFrom volumeMounts securityContext",
        &[INSIDE],
    ),
    ("Container", "stdin stdinOnce tty", &[STREAMS]),
    ("Container", "ports", &[PORTS]),
    ("Container", "resources", &[NUMBERS]),
    (
        "Container",
        "lifecycle",
        &[
            "lifecycle/tests/fast/rules/starting.rs a_sidecar_with_a_post_start_hook_lets_the_next_start_when_it_is_done",
        ],
    ),
    ("Container", "livenessProbe readinessProbe startupProbe restartPolicy", &[ORDERED]),
    ("Container", "restartPolicyRules", &[RULES, LOWERED]),
    ("Container", "terminationMessagePath", &[INSIDE]),
    ("Container", "terminationMessagePolicy", &[OTHERS]),
    ("ContainerPort", "containerPort hostIP hostPort name protocol", &[PORTS]),
    ("ContainerRestartRule", "action exitCodes", &[RULES, LOWERED]),
    ("ContainerRestartRuleOnExitCodes", "operator values", &[RULES, LOWERED]),
    ("ResourceRequirements", "limits requests", &[NUMBERS]),
    ("EnvVar", "name value valueFrom", &[INSIDE]),
    ("EnvVarSource", "configMapKeyRef fieldRef resourceFieldRef secretKeyRef", &[INSIDE]),
    (
        "EnvVarSource",
        "fileKeyRef",
        &["agent/src/pod/env.rs a_missing_object_or_key_is_named_as_the_kubelet_names_it"],
    ),
    (
        "FileKeySelector",
        "key optional path volumeName",
        &["agent/src/pod/env_file.rs what_is_missing_is_an_error_unless_it_is_optional"],
    ),
    ("ConfigMapKeySelector", "key name", &[INSIDE]),
    (
        "ConfigMapKeySelector",
        "optional",
        &["agent/src/pod/env.rs what_is_optional_and_missing_is_no_variable"],
    ),
    ("SecretKeySelector", "key name", &[INSIDE]),
    ("SecretKeySelector", "optional", &["agent/src/pod/env.rs what_is_optional_and_missing_is_no_variable"]),
    ("ObjectFieldSelector", "apiVersion fieldPath", &[INSIDE]),
    ("ResourceFieldSelector", "containerName divisor resource", &[INSIDE]),
    ("EnvFromSource", "configMapRef prefix secretRef", &[INSIDE]),
    ("ConfigMapEnvSource", "name", &[INSIDE]),
    ("ConfigMapEnvSource", "optional", &["agent/src/pod/env.rs what_is_optional_and_missing_is_no_variable"]),
    ("SecretEnvSource", "name optional", &[INSIDE]),
    (
        "Lifecycle",
        "postStart preStop",
        &["lifecycle/tests/fast/rules/endings.rs the_time_of_a_pre_stop_hook_is_taken_from_the_grace", HOOKS],
    ),
    ("Lifecycle", "stopSignal", &[STREAMS]),
    ("LifecycleHandler", "exec httpGet sleep", &[HOOKS]),
    ("SleepAction", "seconds", &[HOOKS]),
    ("Probe", "exec", &[ORDERED]),
    ("Probe", "httpGet", &[STATUS, HOOKS]),
    ("Probe", "tcpSocket", &[HOOKS]),
    ("Probe", "grpc", &["agent/src/probe/grpc.rs a_service_is_well_when_it_says_that_it_serves"]),
    ("Probe", "initialDelaySeconds periodSeconds timeoutSeconds", &[TIMES, LOWERED]),
    (
        "Probe",
        "failureThreshold",
        &[
            "lifecycle/tests/fast/rules/probing.rs a_ready_container_is_unready_after_so_many_failures_in_a_row",
        ],
    ),
    (
        "Probe",
        "successThreshold",
        &["lifecycle/tests/fast/rules/probing.rs a_container_is_not_ready_before_its_probe_says_so"],
    ),
    (
        "Probe",
        "terminationGracePeriodSeconds",
        &[
            "lifecycle/tests/fast/rules/probing.rs liveness_that_fails_restarts_the_container_with_the_probes_own_grace",
            LOWERED,
        ],
    ),
    ("ExecAction", "command", &[ORDERED]),
    ("HTTPGetAction", "httpHeaders path port", &[STATUS, HOOKS]),
    ("HTTPGetAction", "host", &[HOST]),
    ("HTTPGetAction", "scheme", &[HTTPS, SERVED]),
    ("HTTPHeader", "name value", &[STATUS, HOOKS]),
    ("TCPSocketAction", "host", &[HOST]),
    ("TCPSocketAction", "port", &[HOOKS]),
    (
        "GRPCAction",
        "port service",
        &["agent/src/probe/grpc.rs a_service_is_well_when_it_says_that_it_serves"],
    ),
    ("VolumeMount", "mountPath name readOnly subPath subPathExpr", &[INSIDE]),
    ("VolumeMount", "mountPropagation recursiveReadOnly", &[MOUNTED]),
    ("Volume", "name configMap secret projected emptyDir", &[INSIDE]),
    ("Volume", "downwardAPI", &[ISOLATED]),
    ("Volume", "hostPath image", &[INSIDE]),
    ("ConfigMapVolumeSource", "defaultMode items name", &[INSIDE]),
    ("ConfigMapVolumeSource", "optional", &[OPTIONAL]),
    ("SecretVolumeSource", "optional secretName", &[INSIDE]),
    ("SecretVolumeSource", "defaultMode items", &[FILES]),
    ("DownwardAPIVolumeSource", "items", &[ISOLATED]),
    ("DownwardAPIVolumeSource", "defaultMode", &[FILES]),
    ("ProjectedVolumeSource", "defaultMode sources", &[INSIDE]),
    ("KeyToPath", "key mode path", &[INSIDE]),
    ("DownwardAPIVolumeFile", "fieldRef path resourceFieldRef", &[INSIDE]),
    ("DownwardAPIVolumeFile", "mode", &[FILES]),
    ("VolumeProjection", "configMap downwardAPI secret", &[INSIDE]),
    ("ConfigMapProjection", "items name", &[INSIDE]),
    ("ConfigMapProjection", "optional", &[OPTIONAL]),
    ("SecretProjection", "items name", &[INSIDE]),
    ("SecretProjection", "optional", &[OPTIONAL]),
    ("DownwardAPIProjection", "items", &[INSIDE]),
    ("EmptyDirVolumeSource", "medium sizeLimit", &[INSIDE]),
    (
        "EmptyDirVolumeSource",
        "mode",
        &["volumes/tests/root/volumes.rs scratch_space_is_the_pods_in_every_medium"],
    ),
    (
        "HostPathVolumeSource",
        "path type",
        &[
            "volumes/tests/root/volumes_host_path.rs every_type_takes_what_it_names_and_says_what_else_it_found",
            INSIDE,
        ],
    ),
    ("ImageVolumeSource", "pullPolicy reference", &[INSIDE]),
    ("Affinity", "nodeAffinity", &[NODES]),
    ("NodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", &[NODES]),
    ("NodeSelector", "nodeSelectorTerms", &[NODES]),
    ("NodeSelectorTerm", "matchExpressions matchFields", &[NODES]),
    ("NodeSelectorRequirement", "key operator values", &[NODES]),
];

type Field = (String, String);

fn honoured() -> BTreeSet<Field> {
    let rows = DOCUMENT.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.map(|line| line.split('|').map(|c| c.trim().replace('`', "")).collect::<Vec<_>>());
    let of_row =
        |c: Vec<String>| c[2].split_whitespace().map(|f| (c[1].clone(), f.to_owned())).collect::<Vec<_>>();
    cells.filter(|c| c[3] == "honoured").flat_map(of_row).collect()
}

#[test]
fn every_honoured_field_is_held_by_a_test_that_is_there() {
    let mut held: BTreeSet<Field> = BTreeSet::new();
    for (kind, fields, _) in HELD {
        for field in fields.split_whitespace() {
            let field = ((*kind).to_owned(), field.to_owned());
            assert!(held.insert(field.clone()), "{field:?} is listed twice");
        }
    }
    let honoured = honoured();
    let (unheld, stale): (Vec<_>, Vec<_>) =
        (honoured.difference(&held).collect(), held.difference(&honoured).collect());
    assert!(unheld.is_empty() && stale.is_empty(), "held by nobody: {unheld:?}, not honoured: {stale:?}");
}

/// A test that a field is said to be held by names it: in its own source, or in what that leads to in its file.
#[test]
fn every_test_that_is_named_speaks_of_its_fields() {
    let mut silent = Vec::new();
    let mut known: BTreeMap<&str, String> = BTreeMap::new();
    for (kind, fields, tests) in HELD {
        let mut told = String::new();
        for test in *tests {
            told.push_str(known.entry(test).or_insert_with(|| told_by(test)));
        }
        let is_silent = |field: &&str| !words_for(field).iter().any(|word| has_word(&told, word));
        let silent_here = fields.split_whitespace().filter(is_silent);
        silent.extend(silent_here.map(|field| format!("{kind}.{field}: {}", tests.join(", "))));
    }
    assert!(silent.is_empty(), "tests that do not speak of what they hold:\n{}", silent.join("\n"));
}

#[test]
fn a_field_that_only_another_test_speaks_of_is_not_held() {
    let text = "const POD: &str = \"\nhostname: a\n\";\n#[test]\nfn one() {\n    two(POD);\n}\nfn two(_: &str) {\n    host_ip();\n}\nfn three() {\n    subdomain();\n}\n";
    let told = Source::of(text).told_by("one");
    assert!(has_word(&told, "hostname") && has_word(&told, "host_ip"), "{told}");
    assert!(!has_word(&told, "subdomain") && !has_word(&told, "host"), "{told}");
}

/// All that a test says.
fn told_by(test: &str) -> String {
    let (file, name) = test.split_once(' ').unwrap();
    let source = Source::read(file);
    assert!(source.items.contains_key(name), "there is no test {name} in {file}");
    source.told_by(name)
}

/// A file of Rust: its functions and constants by name.
struct Source {
    items: BTreeMap<String, String>,
}

impl Source {
    fn read(file: &str) -> Self {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let text = std::fs::read_to_string(crates.join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        let support = text.contains("use crate::run_support;").then_some("wardlet/tests/run_support/mod.rs");
        let beside = Path::new(file).with_file_name("stage.rs");
        let stage = text.contains("use super::stage::").then(|| crates.join(beside));
        let more = support.map(|file| crates.join(file)).into_iter().chain(stage);
        let more = more.map(|path| std::fs::read_to_string(path).unwrap_or_default());
        Self::of(&std::iter::once(text.clone()).chain(more).collect::<Vec<_>>().join("\n"))
    }

    /// An item ends before the next one begins: what lies between is its doc comment, which says no field by chance.
    fn of(text: &str) -> Self {
        let mut items: BTreeMap<String, String> = BTreeMap::new();
        let mut current = String::new();
        for line in text.lines() {
            current = name_of(line).unwrap_or(current);
            let item = items.entry(current.clone()).or_default();
            item.push_str(line);
            item.push('\n');
        }
        items.remove("");
        Self { items }
    }

    /// The text of an item and of all that it leads to by name.
    fn told_by(&self, name: &str) -> String {
        let (mut told, mut next, mut seen) = (String::new(), vec![name], BTreeSet::from([name]));
        while let Some(text) = next.pop().and_then(|name| self.items.get(name)) {
            told.push_str(text);
            let named = self.items.keys().filter(|other| has_word(text, other));
            next.extend(named.map(String::as_str).filter(|other| seen.insert(other)));
        }
        told
    }
}

/// The function or constant that begins in this line.
fn name_of(line: &str) -> Option<String> {
    let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub") || *word == "async");
    let rest = match words.next()? {
        "fn" | "const" | "static" => words.next()?,
        _ => return None,
    };
    Some(rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?.to_owned())
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

/// The field as manifests and as Rust has it.
fn words_for(field: &str) -> [String; 2] {
    let snake = field.chars().fold(String::new(), |mut text, c| {
        if c.is_uppercase() && !text.ends_with(|last: char| last == '_' || last.is_uppercase()) {
            text.push('_');
        }
        text.extend(c.to_lowercase());
        text
    });
    [field.to_owned(), snake]
}
