//! What is refused, with file, line, field and the way out.

use node::kubelet::{KubeletConfigError, ProblemKind};

use crate::support::{Files, HEADER};

fn only(fields: &str) -> (ProblemKind, String, String) {
    let problems = Files::with(fields).problems();
    assert_eq!(problems.len(), 1, "{problems:?}");
    let (problem, shown) = &problems[0];
    (problem.kind, shown.clone(), problem.hint.clone())
}

#[test]
fn an_unknown_key_is_refused_with_its_line_and_the_nearest_name() {
    let unknown = "KubeletConfiguration of Kubernetes 1.37 has no such field";
    for (fields, place, hint) in [
        ("maxPod: 5\n", "3:1: maxPod", "did you mean maxPods?"),
        ("MaxPods: 5\n", "3:1: MaxPods", "did you mean maxPods?"),
        (
            "authentication:\n  anonymus: {enabled: true}\n",
            "4:3: authentication.anonymus",
            "did you mean authentication.anonymous?",
        ),
        (
            "registerWithTaints:\n- {key: a, efect: NoSchedule}\n",
            "4:12: registerWithTaints[0].efect",
            "did you mean registerWithTaints[].effect?",
        ),
        ("zzzzz: 1\n", "3:1: zzzzz", "remove it"),
    ] {
        let problems = Files::with(fields).problems();
        assert_eq!(problems[0].1, format!("config.yaml:{place}: {unknown}"));
        assert_eq!((problems[0].0.kind, problems[0].0.hint.as_str()), (ProblemKind::Unknown, hint));
    }
}

#[test]
fn a_wrong_type_names_its_field() {
    for (fields, shown, hint) in [
        ("maxPods: many\n", "maxPods: it is the text \"many\", not a whole number", "write a whole number"),
        ("maxPods: 1.5\n", "maxPods: it is the number 1.5, not a whole number", "write a whole number"),
        ("failSwapOn: 1\n", "failSwapOn: it is the number 1, not true or false", "write true or false"),
        (
            "clusterDNS: 10.0.0.1\n",
            "clusterDNS: it is the text \"10.0.0.1\", not a list of text",
            "write a list of text",
        ),
        ("clusterDomain: 5\n", "clusterDomain: it is the number 5, not text", "write it in quotes"),
        (
            "syncFrequency: 10\n",
            "syncFrequency: it is the number 10, not a duration such as 1m30s",
            "add a unit, such as 10s, and quotes in JSON",
        ),
        ("authentication: yes\n", "authentication: it is true, not a map of fields", "write a map of fields"),
        ("kubeReserved: {cpu: 1}\n", "kubeReserved: cpu: it is the number 1, not text", "write it in quotes"),
        (
            "registerWithTaints: [a]\n",
            "registerWithTaints[0]: it is the text \"a\", not a map of fields",
            "write a map of fields",
        ),
        (
            "featureGates: {SELinuxMount: \"on\"}\n",
            "featureGates: SELinuxMount: it is the text \"on\", not true or false",
            "write true or false",
        ),
    ] {
        let (kind, message, way_out) = only(fields);
        assert_eq!(kind, ProblemKind::WrongType, "{message}");
        assert!(
            message.ends_with(&format!(": {shown}")) && message.starts_with("config.yaml:3:"),
            "{message}"
        );
        assert_eq!(way_out, hint, "{fields}");
    }
}

#[test]
fn an_invalid_value_is_refused_as_a_kubelet_does() {
    for (fields, field) in [
        ("maxPods: -1\n", "maxPods"),
        ("port: 65536\n", "port"),
        ("port: -1\n", "port"),
        ("healthzPort: 70000\n", "healthzPort"),
        ("address: localhost\n", "address"),
        ("oomScoreAdj: 1001\n", "oomScoreAdj"),
        ("nodeLeaseDurationSeconds: -1\n", "nodeLeaseDurationSeconds"),
        ("nodeStatusMaxImages: -2\n", "nodeStatusMaxImages"),
        ("imageGCHighThresholdPercent: 80\n", "imageGCHighThresholdPercent"),
        ("imageGCLowThresholdPercent: 85\n", "imageGCLowThresholdPercent"),
        ("imageMaximumGCAge: 1m\n", "imageMaximumGCAge"),
        ("maxParallelImagePulls: 0\n", "maxParallelImagePulls"),
        ("maxParallelImagePulls: 2\nserializeImagePulls: true\n", "maxParallelImagePulls"),
        ("containerLogMaxFiles: 1\n", "containerLogMaxFiles"),
        ("containerLogMonitorInterval: 2s\n", "containerLogMonitorInterval"),
        ("containerLogMaxSize: big\n", "containerLogMaxSize"),
        ("cpuCFSQuotaPeriod: 2s\n", "cpuCFSQuotaPeriod"),
        (
            "crashLoopBackOff: {maxContainerRestartPeriod: 500ms}\n",
            "crashLoopBackOff.maxContainerRestartPeriod",
        ),
        (
            "crashLoopBackOff: {maxContainerRestartPeriod: 301s}\n",
            "crashLoopBackOff.maxContainerRestartPeriod",
        ),
        ("shutdownGracePeriod: 500ms\n", "shutdownGracePeriod"),
        (
            "shutdownGracePeriod: 10s\nshutdownGracePeriodCriticalPods: 20s\n",
            "shutdownGracePeriodCriticalPods",
        ),
        (
            "shutdownGracePeriod: 10s\nshutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: 5}]\n",
            "shutdownGracePeriodByPodPriority",
        ),
        ("shutdownGracePeriod: 10s\nfeatureGates: {GracefulNodeShutdown: false}\n", "shutdownGracePeriod"),
        (
            "crashLoopBackOff: {maxContainerRestartPeriod: 10s}\nfeatureGates: {KubeletCrashLoopBackOffMax: false}\n",
            "crashLoopBackOff.maxContainerRestartPeriod",
        ),
        (
            "serverTLSBootstrap: true\nfeatureGates: {RotateKubeletServerCertificate: false}\n",
            "serverTLSBootstrap",
        ),
        ("syncFrequency: -1s\n", "syncFrequency"),
        ("syncFrequency: 10x\n", "syncFrequency"),
        ("tlsCertFile: /a\n", "tlsCertFile"),
        ("tlsMinVersion: TLS1.2\n", "tlsMinVersion"),
        ("cgroupDriver: cgroup\n", "cgroupDriver"),
        ("cgroupRoot: kube\n", "cgroupRoot"),
        ("podLogsDir: /var/log/../pods\n", "podLogsDir"),
        ("podLogsDir: /var/log/pods/\n", "podLogsDir"),
        ("reservedSystemCPUs: 3-1\n", "reservedSystemCPUs"),
        ("reservedSystemCPUs: 0-1\nkubeReservedCgroup: /kube\n", "reservedSystemCPUs"),
        ("clusterDNS: [kube-dns]\n", "clusterDNS"),
        ("evictionHard: {memory: 5%}\n", "evictionHard.memory"),
        ("evictionHard: {memory.available: 101%}\n", "evictionHard.memory.available"),
        ("evictionHard: {memory.available: \"0\"}\n", "evictionHard.memory.available"),
        ("evictionSoft: {memory.available: 5%}\n", "evictionSoft.memory.available"),
        ("evictionSoftGracePeriod: {memory.available: 5}\n", "evictionSoftGracePeriod"),
        ("evictionSoftGracePeriod: {memory.available: soon}\n", "evictionSoftGracePeriod.memory.available"),
        ("kubeReserved: {gpu: \"1\"}\n", "kubeReserved.gpu"),
        ("systemReserved: {cpu: -1m}\n", "systemReserved.cpu"),
        ("enforceNodeAllocatable: [pods, pods]\n", "enforceNodeAllocatable"),
        ("enforceNodeAllocatable: [none, pods]\n", "enforceNodeAllocatable"),
        ("registerWithTaints: [{key: a}]\n", "registerWithTaints[0].effect"),
        ("registerWithTaints: [{key: \"a b\", effect: NoSchedule}]\n", "registerWithTaints[0].key"),
        ("allowedUnsafeSysctls: [\"kernel.*.x\"]\n", "allowedUnsafeSysctls"),
        ("userNamespaces: {idsPerPod: 100000}\n", "userNamespaces.idsPerPod"),
        ("userNamespaces: {idsPerPod: 0}\n", "userNamespaces.idsPerPod"),
        ("hairpinMode: veth\n", "hairpinMode"),
        ("featureGates: {UserNamespacesSupport: false}\n", "featureGates.UserNamespacesSupport"),
    ] {
        let problems = Files::with(fields).problems();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(problems[0].0.field, field, "{fields}");
        assert_ne!(problems[0].0.kind, ProblemKind::Refused, "{fields}");
        assert!(problems[0].1.starts_with("config.yaml:"), "{}", problems[0].1);
        assert!(!problems[0].0.hint.is_empty(), "{fields}");
    }
    let (_, message, hint) = only("userNamespaces: {idsPerPod: 100000}\n");
    assert_eq!(
        message,
        "config.yaml:3:18: userNamespaces.idsPerPod: 100000 is no multiple of 65536 from 65536 on"
    );
    assert_eq!(hint, "use 65536 or 131072");
}

#[test]
fn what_the_agent_does_not_have_is_refused_with_what_to_do() {
    for (fields, field) in [
        ("cpuManagerPolicy: static\n", "cpuManagerPolicy"),
        ("memoryManagerPolicy: Static\n", "memoryManagerPolicy"),
        ("topologyManagerPolicy: single-numa-node\n", "topologyManagerPolicy"),
        ("memorySwap: {swapBehavior: LimitedSwap}\n", "memorySwap.swapBehavior"),
        ("staticPodURL: http://a/b\n", "staticPodURL"),
        ("cgroupsPerQOS: false\n", "cgroupsPerQOS"),
        ("enableControllerAttachDetach: false\n", "enableControllerAttachDetach"),
        ("enforceNodeAllocatable: [pods, kube-reserved]\nkubeReservedCgroup: /k\n", "enforceNodeAllocatable"),
        ("enableSystemLogQuery: true\n", "enableSystemLogQuery"),
        ("memoryThrottlingFactor: 0.9\n", "memoryThrottlingFactor"),
        ("tlsCipherSuites: [TLS_RSA_WITH_AES_128_CBC_SHA]\n", "tlsCipherSuites"),
        (
            "registerWithTaints: [{key: a, effect: NoSchedule, timeAdded: \"2026-01-01T00:00:00Z\"}]\n",
            "registerWithTaints[0].timeAdded",
        ),
        ("featureGates: {EventedPLEG: true}\n", "featureGates.EventedPLEG"),
        ("featureGates: {AllAlpha: true}\n", "featureGates.AllAlpha"),
    ] {
        let problems = Files::with(fields).problems();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!((problems[0].0.kind, problems[0].0.field.as_str()), (ProblemKind::Refused, field));
        assert!(!problems[0].0.hint.is_empty(), "{fields}");
    }
    for fields in [
        "cpuManagerPolicy: none\ncgroupsPerQOS: true\nmemoryManagerPolicy: None\nenableSystemLogQuery: false\n",
        "imagePullCredentialsVerificationPolicy: AlwaysVerify\nreservedMemory: []\nqosReserved: {}\n",
        "featureGates: {EventedPLEG: false, AllAlpha: false, UserNamespacesSupport: true}\n",
    ] {
        assert_eq!(Files::with(fields).load().unwrap().notices, [], "{fields}");
    }
}

#[test]
fn an_unknown_gate_is_refused_and_gates_of_others_have_no_effect() {
    let (kind, message, hint) = only("featureGates: {GracefulNodeShutdwn: true}\n");
    assert_eq!(kind, ProblemKind::Unknown);
    assert!(
        message.contains("featureGates.GracefulNodeShutdwn: Kubernetes 1.37 has no such feature gate"),
        "{message}"
    );
    assert_eq!(hint, "did you mean GracefulNodeShutdown?");
    let loaded = Files::with("featureGates: {PodDeletionCost: false, EnvFiles: false}\n").load().unwrap();
    let fields: Vec<&str> = loaded.notices.iter().map(|notice| notice.field.as_str()).collect();
    assert_eq!(fields, ["featureGates.PodDeletionCost", "featureGates.EnvFiles"]);
}

#[test]
fn all_problems_of_a_stage_are_reported_together() {
    let problems = Files::with("maxPods: -1\nport: 70000\ncpuManagerPolicy: static\n").problems();
    assert_eq!(problems.len(), 3, "{problems:?}");
    assert_eq!(Files::with("maxPodz: 1\nports: 5\nfailSwapOn: 7\n").problems().len(), 3);
}

#[test]
fn what_is_no_kubelet_configuration_is_refused() {
    for (text, field) in [
        ("maxPods: 5\n", "apiVersion"),
        ("apiVersion: v1\nkind: KubeletConfiguration\n", "apiVersion"),
        ("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: Pod\n", "kind"),
        ("- 1\n", ""),
        ("", ""),
    ] {
        assert_eq!(Files::whole(text).problems()[0].0.field, field, "{text}");
    }
    for text in [
        format!("{HEADER}maxPods: 1\nmaxPods: 2\n"),
        format!("{HEADER}a: [\n"),
        format!("{HEADER}---\n{HEADER}"),
    ] {
        let error = Files::whole(&text).load().unwrap_err();
        assert!(matches!(error, KubeletConfigError::Syntax { .. }), "{error}");
        assert!(error.hint().is_some());
    }
}
