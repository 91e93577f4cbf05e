//! What a pod may ask for and is not run here: said before anything is made, never left out in silence.
//! docs/podspec.md lists all of it as not run.

use manifest::k8s_openapi::api::core::v1::{Container, PodSpec, Volume, VolumeProjection};
use types::is_extended_resource;

use crate::error::{Error, Result};
use crate::origin::PodOrigin;

/// Something that is not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotRun {
    /// The field, from the top of a pod.
    pub(crate) field: String,
    /// What it asks for.
    pub(crate) what: &'static str,
    /// What to do instead.
    pub(crate) hint: &'static str,
}

/// What to do about a source that only an API server has.
const NO_API_SERVER: &str =
    "leave it out: there is no API server that could give it; `wardlet agent` runs pods of an API server";

/// What to do about devices that only a plugin has.
const NO_PLUGINS: &str =
    "leave the resource out: there are no device plugins here; `wardlet agent` runs pods with their devices";

/// # Errors
/// At the first field that is not run.
pub(crate) fn check(spec: &PodSpec, origin: PodOrigin) -> Result<()> {
    match all(spec, origin).into_iter().next() {
        Some(NotRun { field, what, hint }) => Err(Error::NotRun { field, what: what.to_owned(), hint }),
        None => Ok(()),
    }
}

/// Every field that is not run in a pod of this origin.
pub(crate) fn all(spec: &PodSpec, origin: PodOrigin) -> Vec<NotRun> {
    let mut found: Vec<NotRun> = of_pod(spec, origin).collect();
    let init = spec.init_containers.as_deref().unwrap_or_default();
    let added: Vec<Container> =
        spec.ephemeral_containers.iter().flatten().map(manifest::as_container).collect();
    let lists = [("initContainers", init), ("containers", &spec.containers), ("ephemeralContainers", &added)];
    for (list, containers) in lists {
        let at = |index: usize| format!("spec.{list}[{index}]");
        found.extend(
            containers.iter().enumerate().flat_map(|(i, container)| of_container(&at(i), container, origin)),
        );
    }
    let volumes = spec.volumes.iter().flatten().enumerate();
    found.extend(volumes.flat_map(|(i, volume)| of_volume(&format!("spec.volumes[{i}]"), volume, origin)));
    found
}

/// Fields of the pod as a whole.
fn of_pod(spec: &PodSpec, origin: PodOrigin) -> impl Iterator<Item = NotRun> {
    let resources = spec.resources.as_ref();
    let limits = resources.is_some_and(|r| r.limits.iter().chain(&r.requests).flatten().next().is_some());
    let field = |is_set: bool, name: &str, what, hint| {
        is_set.then(|| NotRun { field: format!("spec.{name}"), what, hint })
    };
    let all = [
        field(
            // An API server adds them to a pod that runs.
            origin == PodOrigin::Manifests && spec.ephemeral_containers.iter().flatten().next().is_some(),
            "ephemeralContainers",
            "an ephemeral container",
            "use `wardlet exec` to look into a pod",
        ),
        field(
            // Only a node of a cluster makes a cgroup around a pod.
            origin == PodOrigin::Manifests && limits,
            "resources",
            "a limit for the pod as a whole",
            "give each container its own resources",
        ),
        field(
            // An API server puts that of the RuntimeClass there.
            origin == PodOrigin::Manifests && spec.overhead.iter().flatten().next().is_some(),
            "overhead",
            "the cost of a sandbox",
            "leave it out: the runtime's own group is not limited",
        ),
        field(
            spec.scheduling_gates.iter().flatten().next().is_some(),
            "schedulingGates",
            "a pod that waits for its gates",
            "take the gates away when it may run",
        ),
    ];
    all.into_iter().flatten()
}

fn of_container(at: &str, container: &Container, origin: PodOrigin) -> Vec<NotRun> {
    let mut found = Vec::new();
    if container.volume_devices.iter().flatten().next().is_some() {
        let field = format!("{at}.volumeDevices");
        found.push(NotRun { field, what: "a block device", hint: "mount the volume's filesystem" });
    }
    let limits = container.resources.iter().flat_map(|resources| resources.limits.iter().flatten());
    let mut names = limits.map(|(name, _)| name);
    if origin == PodOrigin::Manifests && names.any(|name| is_extended_resource(name)) {
        let field = format!("{at}.resources.limits");
        found.push(NotRun { field, what: "a container with devices of a plugin", hint: NO_PLUGINS });
    }
    found
}

fn of_volume(at: &str, volume: &Volume, origin: PodOrigin) -> Vec<NotRun> {
    let kinds = [
        ("persistentVolumeClaim", volume.persistent_volume_claim.is_some()),
        ("ephemeral", volume.ephemeral.is_some()),
        ("csi", volume.csi.is_some()),
        ("nfs", volume.nfs.is_some()),
        ("iscsi", volume.iscsi.is_some()),
        ("fc", volume.fc.is_some()),
    ];
    let kept_elsewhere = |(kind, _): (&str, bool)| NotRun {
        field: format!("{at}.{kind}"),
        what: "a volume that is kept elsewhere",
        hint: "use emptyDir, hostPath, configMap, secret, downwardAPI, projected or image volumes",
    };
    let mut found: Vec<NotRun> =
        kinds.into_iter().filter(|(_, is_set)| *is_set).map(kept_elsewhere).collect();
    let sources = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
    found.extend(
        sources
            .enumerate()
            .flat_map(|(i, source)| of_source(&format!("{at}.projected.sources[{i}]"), source, origin)),
    );
    found
}

fn of_source(at: &str, source: &VolumeProjection, origin: PodOrigin) -> Vec<NotRun> {
    let is_alone = origin != PodOrigin::ApiServer;
    let kinds = [
        ("serviceAccountToken", "a service account's token", source.service_account_token.is_some()),
        ("clusterTrustBundle", "a bundle of the cluster's", source.cluster_trust_bundle.is_some()),
        ("podCertificate", "a certificate of a signer of the cluster", source.pod_certificate.is_some()),
    ];
    let not_run = |(kind, what, _): (&str, &'static str, bool)| NotRun {
        field: format!("{at}.{kind}"),
        what,
        hint: match origin {
            PodOrigin::Manifests => NO_API_SERVER,
            PodOrigin::Static | PodOrigin::ApiServer => {
                "leave it out: a static pod may not use objects of the API"
            }
        },
    };
    kinds.into_iter().filter(|(.., is_set)| is_alone && *is_set).map(not_run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(spec: &str) -> Option<String> {
        let pod = serde_json::from_str(&format!(r#"{{"metadata":{{"name":"p"}},"spec":{spec}}}"#)).unwrap();
        crate::runnable(&pod, "node-1", PodOrigin::Manifests).err().map(|e| e.to_string())
    }

    fn of_pod(more: &str) -> Option<String> {
        refusal(&format!(r#"{{"containers":[{{"name":"a"}}]{more}}}"#))
    }

    fn of_container(more: &str) -> Option<String> {
        refusal(&format!(r#"{{"containers":[{{"name":"a"{more}}}]}}"#))
    }

    /// Every line of docs/podspec.md that is not run, as a pod has it.
    const NOT_RUN: &[(&str, &str, &str)] = &[
        ("PodSpec", "ephemeralContainers", r#","ephemeralContainers":[{"name":"e"}]"#),
        ("PodSpec", "resources", r#","resources":{"limits":{"cpu":"1"}}"#),
        ("PodSpec", "overhead", r#","overhead":{"cpu":"1"}"#),
        ("PodSpec", "schedulingGates", r#","schedulingGates":[{"name":"g"}]"#),
        (
            "Volume",
            "persistentVolumeClaim",
            r#","volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"c"}}]"#,
        ),
        ("Volume", "ephemeral", r#","volumes":[{"name":"v","ephemeral":{}}]"#),
        ("Volume", "csi", r#","volumes":[{"name":"v","csi":{"driver":"d"}}]"#),
        ("Volume", "nfs", r#","volumes":[{"name":"v","nfs":{"server":"s","path":"/"}}]"#),
        ("Volume", "iscsi", r#","volumes":[{"name":"v","iscsi":{"iqn":"i","lun":0,"targetPortal":"t"}}]"#),
        ("Volume", "fc", r#","volumes":[{"name":"v","fc":{}}]"#),
        (
            "VolumeProjection",
            "serviceAccountToken",
            r#","volumes":[{"name":"v","projected":{"sources":[{"serviceAccountToken":{"path":"t"}}]}}]"#,
        ),
        (
            "VolumeProjection",
            "clusterTrustBundle",
            r#","volumes":[{"name":"v","projected":{"sources":[{"clusterTrustBundle":{"path":"t"}}]}}]"#,
        ),
        (
            "VolumeProjection",
            "podCertificate",
            r#","volumes":[{"name":"v","projected":{"sources":[{"podCertificate":{"signerName":"a.b/c","keyType":"ED25519"}}]}}]"#,
        ),
    ];
    const NOT_RUN_IN_CONTAINERS: &[(&str, &str, &str)] =
        &[("Container", "volumeDevices", r#","volumeDevices":[{"name":"d","devicePath":"/dev/x"}]"#)];

    #[test]
    fn what_is_not_run_is_refused_by_name() {
        assert_eq!(of_pod(""), None);
        assert_eq!(of_container(r#","readinessProbe":{"httpGet":{"port":443,"scheme":"HTTPS"}}"#), None);
        for (kind, field, text) in NOT_RUN {
            let error = of_pod(text).unwrap_or_else(|| panic!("{kind}.{field} is run"));
            assert!(error.contains(field) && error.ends_with("is not run here"), "{error}");
        }
        for (kind, field, text) in NOT_RUN_IN_CONTAINERS {
            let error = of_container(text).unwrap_or_else(|| panic!("{kind}.{field} is run"));
            assert!(error.contains(field), "{error}");
        }
    }

    #[test]
    fn what_an_api_server_gives_is_run_for_its_pods_and_refused_in_manifests_and_static_pods() {
        let source = |kind: &str| {
            let text = format!(
                r#"{{"containers":[],"volumes":[{{"name":"v","projected":{{"sources":[{{"{kind}":{{"path":"t","signerName":"a.b/c","keyType":"ED25519"}}}}]}}}}]}}"#
            );
            let spec: PodSpec = serde_json::from_str(&text).unwrap();
            [PodOrigin::Manifests, PodOrigin::ApiServer, PodOrigin::Static]
                .map(|origin| all(&spec, origin).len())
        };
        for kind in ["serviceAccountToken", "clusterTrustBundle", "podCertificate"] {
            assert_eq!(source(kind), [1, 0, 1], "{kind}");
        }
    }

    #[test]
    fn limits_of_a_pod_as_a_whole_are_enforced_on_a_node_of_a_cluster() {
        let spec: PodSpec =
            serde_json::from_str(r#"{"containers":[],"resources":{"limits":{"cpu":"1"}}}"#).unwrap();
        let found = [PodOrigin::Manifests, PodOrigin::ApiServer, PodOrigin::Static]
            .map(|origin| all(&spec, origin).len());
        assert_eq!(found, [1, 0, 0]);
    }

    #[test]
    fn devices_of_plugins_are_those_of_a_node() {
        let found = |name: &str| {
            let text = format!(
                r#"{{"containers":[],"initContainers":[{{"name":"a","resources":{{"limits":{{"{name}":"1"}}}}}}]}}"#
            );
            let spec: PodSpec = serde_json::from_str(&text).unwrap();
            [PodOrigin::Manifests, PodOrigin::ApiServer, PodOrigin::Static]
                .map(|origin| all(&spec, origin).into_iter().map(|one| one.field).collect::<Vec<_>>())
        };
        let [alone, api, of_node] = found("example.com/gpu");
        assert_eq!(alone, ["spec.initContainers[0].resources.limits"]);
        assert!(api.is_empty() && of_node.is_empty());
        assert!(found("hugepages-2Mi").concat().is_empty());
    }

    #[test]
    fn an_ephemeral_container_is_run_for_pods_of_an_api_server_as_far_as_a_regular_one_is() {
        let found = |more: &str| {
            let text = format!(r#"{{"containers":[],"ephemeralContainers":[{{"name":"e"{more}}}]}}"#);
            let spec: PodSpec = serde_json::from_str(&text).unwrap();
            [PodOrigin::Manifests, PodOrigin::ApiServer].map(|origin| all(&spec, origin).len())
        };
        assert_eq!(found(""), [1, 0]);
        assert_eq!(found(r#","volumeDevices":[{"name":"d","devicePath":"/dev/x"}]"#), [2, 1]);
    }

    /// What a type has that only fields have which are not run.
    const BELOW: [&str; 10] = [
        "EphemeralContainer",
        "PodSchedulingGate",
        "CSIVolumeSource",
        "NFSVolumeSource",
        "ISCSIVolumeSource",
        "FCVolumeSource",
        "PersistentVolumeClaimVolumeSource",
        "ServiceAccountTokenProjection",
        "ClusterTrustBundleProjection",
        "PodCertificateProjection",
    ];

    #[test]
    fn the_document_lists_as_not_run_what_is_refused_and_nothing_else() {
        let document = include_str!("../../../docs/podspec.md");
        let rows = document.lines().filter(|line| line.starts_with("| `"));
        let cells = rows.map(|line| line.split('|').map(|c| c.trim().replace('`', "")).collect::<Vec<_>>());
        let also = ["EphemeralVolumeSource", "VolumeDevice"];
        let is_below = |kind: &str| BELOW.contains(&kind) || also.contains(&kind);
        let mut listed: Vec<(String, String)> = cells
            .filter(|c| c[3] == "not run" && !is_below(&c[1]))
            .flat_map(|c| c[2].split_whitespace().map(|f| (c[1].clone(), f.to_owned())).collect::<Vec<_>>())
            .collect();
        let code = NOT_RUN.iter().chain(NOT_RUN_IN_CONTAINERS);
        let mut refused: Vec<_> =
            code.map(|(kind, field, _)| ((*kind).to_owned(), (*field).to_owned())).collect();
        listed.sort();
        refused.sort();
        assert_eq!(listed, refused);
    }
}
