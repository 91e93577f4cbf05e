//! What deploy/ has: manifests that parse, agree with each other and pass our own check; rules and dashboards that name metrics
//! there are, and alerts with a page each.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::support::Host;
use crate::words::{files, root};

/// The metrics of the controller, and those of kubelets that it goes by. The agent's are in docs/reference/metrics.md.
const OTHER_METRICS: [&str; 23] = [
    "kube_csidriver_info",
    "kube_persistentvolume_info",
    "kube_persistentvolume_unique_volume_id",
    "kube_persistentvolumeclaim_info",
    "kube_pod_container_security_context",
    "kube_pod_container_volume_mount",
    "kube_pod_security_context",
    "kube_pod_spec_volumes_persistentvolumeclaims_info",
    "leader_election_master_status",
    "selinux_warning_controller_selinux_volume_conflict",
    "volume_manager_selinux_volume_context_mismatch_errors_total",
    "volume_manager_selinux_volume_context_mismatch_warnings_total",
    "wardlet_controller_conflict_pods",
    "wardlet_controller_conflict_volumes",
    "wardlet_controller_conflicts",
    "wardlet_controller_conflicts_left_out",
    "wardlet_controller_event_duration_seconds",
    "wardlet_controller_events_total",
    "wardlet_controller_multiple_label_pods",
    "wardlet_controller_nodes",
    "wardlet_controller_pods",
    "wardlet_controller_resource_readable",
    "wardlet_controller_watch_failures_total",
];
/// How names of metrics begin.
const PREFIXES: [&str; 8] = [
    "kube_",
    "kubelet_",
    "leader_",
    "process_",
    "rest_client_",
    "selinux_warning_",
    "volume_manager_",
    "wardlet_",
];

fn deploy(path: &str) -> PathBuf {
    root().join("deploy").join(path)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn yaml(text: &str, path: &Path) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn of_file(path: &str) -> Value {
    yaml(&read(&deploy(path)), &deploy(path))
}

#[test]
fn the_base_has_every_manifest_of_its_directory_and_all_agree_on_names() {
    let listed = of_file("controller/base/kustomization.yaml")["resources"].clone();
    let listed: BTreeSet<String> = serde_json::from_value(listed).unwrap();
    let dir = deploy("controller/base");
    let there: BTreeSet<String> = files(&dir, "yaml")
        .iter()
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .filter(|name| name != "kustomization.yaml")
        .collect();
    assert_eq!(listed, there);
    for name in &there {
        let manifest = of_file(&format!("controller/base/{name}"));
        let is_named = ["apiVersion", "kind"].iter().all(|field| manifest[*field].is_string());
        assert!(is_named && manifest["metadata"]["name"].is_string(), "{name}");
        let namespace = manifest["metadata"]["namespace"].as_str().unwrap_or("wardlet-system");
        assert_eq!(namespace, "wardlet-system", "{name}");
    }
    let deployment = of_file("controller/base/deployment.yaml");
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    for (file, selector) in [
        ("deployment", "/spec/selector/matchLabels"),
        ("service", "/spec/selector"),
        ("network-policy", "/spec/podSelector/matchLabels"),
        ("pod-disruption-budget", "/spec/selector/matchLabels"),
    ] {
        assert_eq!(
            of_file(&format!("controller/base/{file}.yaml")).pointer(selector),
            Some(labels),
            "{file}"
        );
    }
    let account = &deployment["spec"]["template"]["spec"]["serviceAccountName"];
    for file in ["role-binding", "cluster-role-binding"] {
        assert_eq!(
            &of_file(&format!("controller/base/{file}.yaml"))["subjects"][0]["name"],
            account,
            "{file}"
        );
    }
    let component = of_file("controller/monitoring/kustomization.yaml");
    for name in component["resources"].as_array().unwrap() {
        of_file(&format!("controller/monitoring/{}", name.as_str().unwrap()));
    }
}

#[test]
fn the_controller_passes_our_own_check() {
    let host = Host::new();
    let words = format!("check {} --to 1.37", deploy("controller/base").display());
    let ran = host.run(&format!("{words} --gate"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let report = host.json(&words);
    assert_eq!((&report["problems"], &report["breaks"]), (&json!([]), &json!([])));
    let [workload] = report["workloads"].as_array().unwrap().as_slice() else { panic!("{report:#}") };
    assert_eq!(workload["name"], "wardlet-controller");
    assert_eq!(workload["userNamespace"], json!({"verdict": "ready", "now": "own", "reasons": []}));
    assert_eq!((&workload["podSecurity"]["now"], &workload["patch"]), (&json!("restricted"), &Value::Null));
}

/// Every rule of a role as `verb resource`, the names of objects behind it.
fn rights(role: &Value) -> BTreeSet<String> {
    let strings =
        |value: &Value| -> Vec<String> { serde_json::from_value(value.clone()).unwrap_or_default() };
    let mut found = BTreeSet::new();
    for rule in role["rules"].as_array().unwrap() {
        let names = strings(&rule["resourceNames"]);
        let suffix = if names.is_empty() { String::new() } else { format!(" {}", names.join(" ")) };
        for verb in strings(&rule["verbs"]) {
            let urls = strings(&rule["nonResourceURLs"]);
            found.extend(urls.iter().map(|url| format!("{verb} {url}")));
            found.extend(
                strings(&rule["resources"]).iter().map(|resource| format!("{verb} {resource}{suffix}")),
            );
        }
    }
    found
}

fn set(items: &[&str]) -> BTreeSet<String> {
    items.iter().map(|item| (*item).to_owned()).collect()
}

/// Least privilege is a list: what is added to it is added here.
#[test]
fn the_controller_may_do_this_and_no_more() {
    let watched = ["pods", "persistentvolumeclaims", "persistentvolumes", "nodes", "csidrivers"];
    let mut cluster: BTreeSet<String> = watched
        .iter()
        .flat_map(|resource| [format!("list {resource}"), format!("watch {resource}")])
        .collect();
    cluster.extend(set(&["create events", "create tokenreviews", "create subjectaccessreviews"]));
    assert_eq!(rights(&of_file("controller/base/cluster-role.yaml")), cluster);
    let own = [
        "create leases",
        "get leases wardlet-controller",
        "update leases wardlet-controller",
        "create configmaps",
        "patch configmaps wardlet-controller",
    ];
    assert_eq!(rights(&of_file("controller/base/role.yaml")), set(&own));
    for (file, right) in [("metrics", "get /metrics"), ("page", "get /wardlet/*")] {
        let reader = of_file(&format!("controller/base/{file}-reader-cluster-role.yaml"));
        assert_eq!(rights(&reader), set(&[right]), "{file}");
    }
}

/// The rules of the chart's roles are those of the base.
#[test]
fn the_chart_and_the_base_are_one_deployment() {
    let documents = rendered("rbac.yaml");
    let of_chart = |kind: &str, name: &str| {
        let is_it = |one: &&Value| one["kind"] == kind && one["metadata"]["name"] == name;
        documents.iter().find(is_it).unwrap_or_else(|| panic!("{kind} {name}")).clone()
    };
    for (file, kind, name) in [
        ("cluster-role", "ClusterRole", "wardlet-controller"),
        ("metrics-reader-cluster-role", "ClusterRole", "wardlet-controller-metrics-reader"),
        ("page-reader-cluster-role", "ClusterRole", "wardlet-controller-page-reader"),
        ("role", "Role", "wardlet-controller"),
    ] {
        let base = of_file(&format!("controller/base/{file}.yaml"));
        assert_eq!(rights(&of_chart(kind, name)), rights(&base), "{file}");
    }
    let of_chart = &rendered("deployment.yaml")[0]["spec"]["template"]["spec"];
    let base = of_file("controller/base/deployment.yaml")["spec"]["template"]["spec"].clone();
    assert_eq!(base["hostUsers"], false);
    assert_eq!(yaml(&read(&chart().join("values.yaml")), &chart())["hostUsers"], false);
    for field in ["serviceAccountName", "enableServiceLinks", "topologySpreadConstraints"] {
        assert_eq!(of_chart[field].is_null(), base[field].is_null(), "{field}");
    }
    let mut security = of_chart["securityContext"].clone();
    // For the files of a serving certificate, which the base does not mount.
    security.as_object_mut().unwrap().remove("fsGroup");
    assert_eq!(security, base["securityContext"]);
    let containers = [of_chart, &base].map(|spec| spec["containers"][0].clone());
    for field in ["securityContext", "livenessProbe", "readinessProbe"] {
        assert_eq!(containers[0][field], containers[1][field], "{field}");
    }
}

fn chart() -> PathBuf {
    deploy("controller/chart")
}

/// A template as far as its structure goes: conditions hold, loops turn once, `include` and `toYaml` give one key, and any other
/// action gives a word.
fn rendered(name: &str) -> Vec<Value> {
    let path = chart().join("templates").join(name);
    let template = read(&path);
    let mut text = String::new();
    // How deep in branches that are not taken.
    let (mut open, mut skipped): (Vec<&str>, usize) = (Vec::new(), 0);
    for line in template.lines() {
        let bare = line.trim();
        let action = bare.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
        let action = action.map(|action| action.trim_matches(['-', ' ']));
        match action.and_then(|action| action.split_whitespace().next()) {
            Some(word @ ("if" | "with" | "range")) => open.push(word),
            Some("else") => skipped = open.len(),
            Some("end") => {
                assert!(open.pop().is_some(), "{name}: an end too many");
                if open.len() < skipped {
                    skipped = 0;
                }
            }
            _ if skipped > 0 => {}
            Some("include" | "toYaml" | "$.Files.Get") => {
                let action = action.unwrap_or_default();
                let indent: usize =
                    action.rsplit("nindent ").next().and_then(|n| n.parse().ok()).unwrap_or(0);
                text.push_str(&format!("{:indent$}key-of-{}: value\n", "", text.len()));
            }
            _ => text.push_str(&format!("{}\n", words_for_actions(line))),
        }
    }
    assert!(open.is_empty(), "{name}: {open:?} without an end");
    let documents = text.split("\n---\n").map(|one| one.strip_prefix("---\n").unwrap_or(one));
    documents.filter(|one| !one.trim().is_empty()).map(|one| yaml(one, &path)).collect()
}

fn words_for_actions(line: &str) -> String {
    let mut rest = line;
    let mut text = String::new();
    while let Some((before, after)) = rest.split_once("{{") {
        let (_, after) = after.split_once("}}").unwrap_or_else(|| panic!("an action is not closed: {line}"));
        text.push_str(before);
        text.push_str("word");
        rest = after;
    }
    text + rest
}

#[test]
fn every_template_of_the_chart_is_yaml_and_uses_values_that_there_are() {
    let values = yaml(&read(&chart().join("values.yaml")), &chart());
    let about = yaml(&read(&chart().join("Chart.yaml")), &chart());
    assert_eq!(about["appVersion"], env!("CARGO_PKG_VERSION"));
    let templates = files(&chart().join("templates"), "yaml");
    assert!(templates.len() >= 7, "{templates:?}");
    let mut used = BTreeSet::new();
    for path in &templates {
        let name = path.file_name().unwrap().to_str().unwrap();
        for document in rendered(name) {
            let is_named = ["apiVersion", "kind"].iter().all(|field| document[*field].is_string());
            assert!(is_named && document["metadata"]["name"].is_string(), "{name}: {document}");
        }
        let text = read(path);
        for (at, found) in text.match_indices(".Values.") {
            let end = |c: char| !c.is_ascii_alphanumeric() && c != '.';
            used.insert(text[at + found.len()..].split(end).next().unwrap().to_owned());
        }
    }
    for path in &used {
        let found = path.split('.').try_fold(&values, |value, key| value.get(key));
        assert!(found.is_some(), "values.yaml has no {path}");
    }
    for name in top_and_below(&values) {
        let is_used = used.iter().any(|used| used.starts_with(&name) || name.starts_with(used.as_str()));
        assert!(is_used, "no template uses {name}");
    }
}

/// The paths of all values but those of maps that users fill.
fn top_and_below(values: &Value) -> Vec<String> {
    let empty = Map::new();
    let below = |value: &Value| value.as_object().unwrap_or(&empty).keys().cloned().collect::<Vec<_>>();
    let paths = |name: String| {
        let keys = below(&values[&name]);
        if keys.is_empty() {
            vec![name]
        } else {
            keys.into_iter().map(|key| format!("{name}.{key}")).collect()
        }
    };
    below(values).into_iter().filter(|name| name != "resources").flat_map(paths).collect()
}

/// The groups of both files of rules.
fn groups() -> Vec<Value> {
    ["wardlet", "selinux-mounts"]
        .iter()
        .flat_map(|name| {
            let file = of_file(&format!("monitoring/rules/{name}.rules.yaml"));
            file["groups"].as_array().unwrap().clone()
        })
        .collect()
}

fn rules() -> Vec<Value> {
    groups().iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

#[test]
fn copies_of_the_rules_are_the_rules() {
    let object = of_file("controller/monitoring/prometheus-rule.yaml");
    assert_eq!(object["spec"]["groups"], json!(groups()));
    for path in files(&deploy("monitoring/rules"), "yaml") {
        let copy = chart().join("files").join(path.file_name().unwrap());
        assert_eq!(read(&path), read(&copy), "cp {} {}", path.display(), copy.display());
    }
}

#[test]
fn every_alert_has_its_page_and_every_page_its_alert() {
    let alerts: BTreeSet<String> =
        rules().iter().filter_map(|rule| rule["alert"].as_str()).map(str::to_owned).collect();
    assert!(alerts.len() > 10, "{alerts:?}");
    let pages = files(&root().join("docs/runbooks"), "md");
    let pages: BTreeSet<String> = pages
        .iter()
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .filter(|name| name != "README")
        .collect();
    assert_eq!(pages, alerts);
    let index = read(&root().join("docs/runbooks/README.md"));
    for rule in rules().iter().filter(|rule| rule["alert"].is_string()) {
        let name = rule["alert"].as_str().unwrap();
        assert_eq!(rule["annotations"]["runbook_url"], format!("docs/runbooks/{name}.md"));
        assert!(index.contains(&format!("[{name}]({name}.md)")), "{name} is not in the index");
        let texts =
            ["summary", "description"].map(|key| rule["annotations"][key].as_str().unwrap_or_default());
        assert!(texts.iter().all(|text| !text.is_empty()), "{name}");
        let severity = rule["labels"]["severity"].as_str().unwrap();
        assert!(["info", "warning", "critical"].contains(&severity), "{name}: {severity}");
    }
}

/// Names of metrics in an expression; those that our rules record are left out.
fn metrics_in(expression: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let names = expression.split(|c| !is_name(c)).filter(|word| PREFIXES.iter().any(|p| word.starts_with(p)));
    names.filter(|name| !name.contains(':')).map(str::to_owned).collect()
}

fn is_known(metric: &str, page: &str) -> bool {
    let base = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| metric.strip_suffix(suffix));
    [Some(metric), base]
        .into_iter()
        .flatten()
        .any(|name| OTHER_METRICS.contains(&name) || page.contains(&format!("`{name}`")))
}

#[test]
fn rules_and_dashboards_name_metrics_that_there_are() {
    let page = read(&root().join("docs/reference/metrics.md"));
    let recorded: BTreeSet<String> =
        rules().iter().filter_map(|rule| rule["record"].as_str()).map(str::to_owned).collect();
    let mut expressions: Vec<String> =
        rules().iter().map(|rule| rule["expr"].as_str().unwrap().to_owned()).collect();
    for name in ["cluster", "node"] {
        let board: Value =
            serde_json::from_str(&read(&deploy(&format!("monitoring/dashboards/{name}.json")))).unwrap();
        let panels = board["panels"].as_array().unwrap();
        let ids: BTreeSet<u64> = panels.iter().filter_map(|panel| panel["id"].as_u64()).collect();
        assert_eq!(ids.len(), panels.len(), "{name}: two panels have one number");
        for panel in panels.iter().filter(|panel| panel["type"] != "row") {
            assert!(!panel["description"].as_str().unwrap().is_empty(), "{name}: {}", panel["title"]);
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{name}: {}", panel["title"]);
            let targets = panel["targets"].as_array().unwrap();
            expressions.extend(targets.iter().map(|target| target["expr"].as_str().unwrap().to_owned()));
        }
    }
    for expression in &expressions {
        for metric in metrics_in(expression) {
            assert!(is_known(&metric, &page), "{metric}: {expression}");
        }
        let words = expression.split(|c: char| c.is_whitespace() || "(){},".contains(c));
        for record in words.filter(|word| word.contains(':') && PREFIXES.iter().any(|p| word.starts_with(p)))
        {
            assert!(recorded.contains(record), "no rule records {record}");
        }
    }
}

/// The names that the appendix of KEP-1710 gives to its records.
#[test]
fn the_records_of_the_keps_appendix_are_there_under_their_names() {
    let recorded: BTreeSet<String> =
        rules().iter().filter_map(|rule| rule["record"].as_str()).map(str::to_owned).collect();
    for name in [
        "kube_persistentvolume_info:unique_volume_id",
        "kube_pod_container_security_context:pod_selinux",
        "kube_pod_container_security_context:final_selinux_label",
        "kube_pod_container_volume_mount:selinux_label",
    ] {
        assert!(recorded.contains(name), "{name}");
    }
    for path in files(&deploy("monitoring/tests"), "yaml") {
        let test = yaml(&read(&path), &path);
        for rules in test["rule_files"].as_array().unwrap() {
            assert!(path.parent().unwrap().join(rules.as_str().unwrap()).exists(), "{}", path.display());
        }
    }
}
