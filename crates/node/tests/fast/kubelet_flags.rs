//! Flags of a kubelet, over what files say.

use std::path::Path;

use node::kubelet::{FIELDS, FLAGS, FlagTarget, Kind, KubeletFlags, ProblemKind, TaintEffect};

use crate::support::Files;

#[test]
fn flags_win_over_files_and_drop_ins() {
    let header = crate::support::HEADER;
    let config = Files::with("maxPods: 5\nport: 1\nkubeReserved: {cpu: 100m}\n")
        .drop_in("a.conf", &format!("{header}maxPods: 6\npodsPerCore: 6\n"))
        .flag("max-pods", "7")
        .flag("--kube_reserved", "memory=1Gi,pid=100")
        .flag("cluster-dns", "10.0.0.1")
        .flag("cluster-dns", "10.0.0.2,fd00::1")
        .flag("eviction-hard", "memory.available<200Mi,nodefs.available<5%")
        .flag("fail-swap-on", "false")
        .flag("runtime-request-timeout", "3m")
        .config();
    assert_eq!((config.max_pods, config.pods_per_core, config.port), (7, 6, 1));
    assert_eq!(config.kube_reserved.keys().collect::<Vec<_>>(), ["memory", "pid"], "a flag replaces a map");
    assert_eq!(config.cluster_dns.len(), 3, "a flag of a list adds up");
    assert_eq!(config.eviction_hard.len(), 2);
    assert!(!config.fail_swap_on);
    assert_eq!(config.runtime_request_timeout.to_string(), "3m0s");
}

#[test]
fn gates_of_files_and_flags_add_up_and_flags_win() {
    let config = Files::with("featureGates: {SELinuxMount: false, GracefulNodeShutdown: false}\n")
        .flag("feature-gates", "GracefulNodeShutdown=true,KubeletCrashLoopBackOffMax=true")
        .config();
    assert!(config.is_gate_on("GracefulNodeShutdown") && !config.is_gate_on("SELinuxMount"));
    assert_eq!(config.feature_gates.len(), 3);
}

#[test]
fn a_flag_sets_zero_where_a_file_means_the_default() {
    assert_eq!(Files::with("").flag("max-pods", "0").config().max_pods, 0);
    let problems = Files::with("").flag("port", "0").problems();
    assert_eq!(problems[0].1, "--port: port: 0 is out of range");
    assert_eq!(Files::none().flag("read-only-port", "0").config().read_only_port, 0);
    let config = Files::none().flag("anonymous-auth", "false").flag("authorization-mode", "Webhook").config();
    assert!(!config.authentication.anonymous.enabled);
    assert_eq!(config.authorization.mode, node::kubelet::AuthorizationMode::Webhook);
}

#[test]
fn the_flags_of_kubeadm_kubespray_and_node_e2e_are_taken() {
    let files = Files::with("")
        .flag("bootstrap-kubeconfig", "/etc/kubernetes/bootstrap-kubelet.conf")
        .flag("kubeconfig", "/etc/kubernetes/kubelet.conf")
        .flag("config", "/var/lib/kubelet/config.yaml")
        .flag("register-with-taints", "node-role.kubernetes.io/control-plane=:NoSchedule,a/b=c:NoExecute")
        .flag("hostname-override", "Node-1")
        .flag("node-ip", "10.0.0.5,fd00::5")
        .flag("node-labels", "node.kubernetes.io/pool=a,example.com/rack=7")
        .flag("cloud-provider", "external")
        .flag("runtime-cgroups", "/system.slice/containerd.service")
        .flag("pod-infra-container-image", "pause:3.10")
        .flag("root-dir", "/var/lib/kubelet")
        .flag("container-runtime-endpoint", "unix:///run/wardlet.sock")
        .flag("v", "2");
    let loaded = files.load().unwrap();
    let taints = &loaded.config.register_with_taints;
    assert_eq!(
        (taints[0].key.as_str(), taints[0].value.as_str()),
        ("node-role.kubernetes.io/control-plane", "")
    );
    assert_eq!((taints[1].value.as_str(), taints[1].effect), ("c", TaintEffect::NoExecute));
    assert_eq!(loaded.config.container_runtime_endpoint, "unix:///run/wardlet.sock");
    let node = &files.flags.node;
    assert_eq!(node.kubeconfig.as_deref(), Some(Path::new("/etc/kubernetes/kubelet.conf")));
    assert_eq!((node.hostname_override.as_deref(), node.node_ips.len()), (Some("node-1"), 2));
    assert!(node.has_external_cloud_provider && node.node_labels.len() == 2);
    let shown: Vec<String> = loaded.notices.iter().map(|notice| notice.at.to_string()).collect();
    assert_eq!(shown, ["--runtime-cgroups", "--pod-infra-container-image", "--v"]);
}

#[test]
fn wrong_flags_are_refused_by_name_with_what_to_do() {
    for (name, text, kind, shown) in [
        ("max-podz", "5", ProblemKind::Unknown, "--max-podz: a kubelet 1.37 has no such flag"),
        (
            "max-pods",
            "many",
            ProblemKind::WrongType,
            "--max-pods: maxPods: it is the text \"many\", not a whole number",
        ),
        (
            "max-pods",
            "9999999999",
            ProblemKind::Invalid,
            "--max-pods: maxPods: 9999999999 does not fit in 32 bits",
        ),
        (
            "fail-swap-on",
            "maybe",
            ProblemKind::WrongType,
            "--fail-swap-on: failSwapOn: it is the text \"maybe\", not true or false",
        ),
        (
            "sync-frequency",
            "10",
            ProblemKind::Invalid,
            "--sync-frequency: syncFrequency: \"10\" is not a duration",
        ),
        (
            "kube-reserved",
            "cpu",
            ProblemKind::WrongType,
            "--kube-reserved: kubeReserved: \"cpu\" is not KEY=VALUE",
        ),
        (
            "cloud-provider",
            "aws",
            ProblemKind::Invalid,
            "--cloud-provider: there is no cloud provider \"aws\"",
        ),
        (
            "node-ip",
            "10.0.0.1,10.0.0.2",
            ProblemKind::Invalid,
            "--node-ip: it is not one address of each family",
        ),
        (
            "node-labels",
            "kubernetes.io/role=x",
            ProblemKind::Invalid,
            "--node-labels: a node may not label itself",
        ),
        (
            "node-labels",
            "node-role.kubernetes.io/worker=",
            ProblemKind::Invalid,
            "--node-labels: a node may not label itself",
        ),
        (
            "lock-file",
            "/run/lock",
            ProblemKind::Refused,
            "--lock-file: the agent locks its own state directory",
        ),
    ] {
        let error = KubeletFlags::default().set(name, text).unwrap_err();
        assert!(error.to_string().starts_with(shown), "{error}");
        assert_eq!(error.problems()[0].kind, kind, "{name}");
        assert!(error.hint().is_some_and(|hint| !hint.is_empty()), "{name}");
    }
    let hint = KubeletFlags::default().set("max-podz", "5").unwrap_err().hint();
    assert_eq!(hint.as_deref(), Some("did you mean --max-pods?"));
    let problems = Files::with("").flag("register-with-taints", "a=b:Never").problems();
    assert_eq!(
        problems[0].1,
        "--register-with-taints: registerWithTaints[0].effect: it is no effect of a taint"
    );
}

#[test]
fn refused_fields_are_refused_by_their_flags() {
    for (name, text) in [
        ("reserved-memory", "0:memory=1Gi"),
        ("cpu-manager-policy", "static"),
        ("manifest-url-header", "a:b"),
        ("qos-reserved", "memory=50%"),
        ("system-cgroups", "/system"),
    ] {
        let problems = Files::with("").flag(name, text).problems();
        assert!(
            problems.iter().any(|(problem, _)| problem.kind == ProblemKind::Refused),
            "{name}: {problems:?}"
        );
    }
    assert!(Files::with("").flag("cpu-manager-policy", "none").load().is_ok());
    assert!(Files::with("").flag("lock-file", "").load().is_ok());
}

#[test]
fn every_flag_has_a_name_of_its_own_and_a_field_that_is_no_section() {
    let mut names: Vec<&str> = FLAGS.iter().map(|flag| flag.name).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
    for flag in FLAGS {
        if let FlagTarget::Field(path) = flag.target {
            let field = FIELDS.iter().find(|field| field.path == path);
            assert!(field.is_some_and(|field| field.kind != Kind::Object), "{}: {path}", flag.name);
        }
    }
}

#[test]
fn a_command_line_has_values_after_an_equals_sign_or_a_space() {
    let parse = |line: &str| {
        KubeletFlags::parse(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
            .map_err(|error| format!("{error}; {}", error.hint().unwrap_or_default()))
    };
    let spaced = parse(
        "--kubeconfig /etc/k.conf --fail-swap-on --pod-max-pids -1 --v 2 --hostname_override n1 --node-labels=a=b",
    );
    let joined = parse(
        "--kubeconfig=/etc/k.conf --fail-swap-on=true --pod-max-pids=-1 --v=2 --hostname-override=n1 --node-labels=a=b",
    );
    assert_eq!(spaced, joined);
    let flags = spaced.unwrap();
    assert_eq!(flags.node.kubeconfig.unwrap().to_str(), Some("/etc/k.conf"));
    assert_eq!(flags.node.hostname_override.as_deref(), Some("n1"));
    // A flag whose type does not matter takes no other flag as its value.
    let flags = parse("--runtime-cgroups --hostname-override=n2").unwrap();
    assert_eq!(flags.node.hostname_override.as_deref(), Some("n2"));
    assert!(parse("--kubeconfig=a run").unwrap_err().contains("no flag of a kubelet"));
    assert!(parse("--fail-swap-on false").unwrap_err().contains("no flag of a kubelet"));
    assert!(parse("--kubeconfig").unwrap_err().contains("it has no value"));
}
