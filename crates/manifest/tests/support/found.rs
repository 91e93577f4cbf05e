//! Differences from the API server that generated objects have shown, one small manifest for each class.

use super::cases::pod;
use super::{Case, Verdict};

/// The manifest of a part: `SPEC os: {}` is a pod with this in its spec, `JOB completions: -1` a job.
fn manifest(part: &str) -> String {
    let (kind, body) = part.split_once(' ').unwrap();
    let (version, kind, rest) = match kind {
        "DEPLOYMENT" => ("apps/v1", "Deployment", controller(body, "Always")),
        "STATEFULSET" => ("apps/v1", "StatefulSet", controller(body, "Always")),
        "DAEMONSET" => ("apps/v1", "DaemonSet", controller(body, "Always")),
        "REPLICASET" => ("apps/v1", "ReplicaSet", controller(body, "Always")),
        "JOB" => ("batch/v1", "Job", lines(body, &[("template:", &template("Never"))])),
        "CRONJOB" => {
            let job = format!("jobTemplate: {{spec: {{{}}}}}", template("Never"));
            (
                "batch/v1",
                "CronJob",
                lines(body, &[("schedule:", "schedule: 1 * * * *"), ("jobTemplate:", &job)]),
            )
        }
        "CLAIM" => {
            let storage = "resources: {requests: {storage: 1Gi}}";
            let defaults = [("accessModes:", "accessModes: [ReadWriteOnce]"), ("resources:", storage)];
            ("v1", "PersistentVolumeClaim", lines(body, &defaults))
        }
        "VOLUME" => {
            let defaults =
                [("accessModes:", "accessModes: [ReadWriteOnce]"), ("capacity:", "capacity: {storage: 1Gi}")];
            ("v1", "PersistentVolume", lines(body, &defaults))
        }
        "POD" => return format!("apiVersion: v1\nkind: Pod\n{}\n", body.replace(" ;; ", "\n")),
        _ => return pod(part),
    };
    format!("apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\nspec:\n{rest}")
}

fn template(policy: &str) -> String {
    format!(
        "template: {{metadata: {{labels: {{app: a}}}}, spec: {{restartPolicy: {policy}, containers: [{{name: c, image: i}}]}}}}"
    )
}

fn controller(body: &str, policy: &str) -> String {
    lines(body, &[("selector:", "selector: {matchLabels: {app: a}}"), ("template:", &template(policy))])
}

/// The lines of a part, and those that it needs and does not have.
fn lines(body: &str, defaults: &[(&str, &str)]) -> String {
    let own = body.split(" ;; ");
    let needed = defaults.iter().filter(|(start, _)| !body.contains(start)).map(|(_, line)| *line);
    own.chain(needed).map(|line| format!("  {line}\n")).collect()
}

/// Refused by the API server, with the field; each of these was accepted here.
const REFUSED: &[(&str, &str)] = &[
    (
        "operator",
        "SPEC affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Is}]}]}}}",
    ),
    (
        "nodeSelectorTerms",
        "SPEC affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {}}}",
    ),
    (
        "matchFields",
        "SPEC affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.uid, operator: In, values: [a]}]}]}}}",
    ),
    (
        "weight",
        "SPEC affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 101, preference: {}}]}}",
    ),
    (
        "topologyKey",
        "SPEC affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {}}]}}",
    ),
    (
        "matchLabelKeys",
        "SPEC affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a, matchLabelKeys: [b]}]}}",
    ),
    (
        "namespaces",
        "SPEC affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a, namespaces: [A]}]}}",
    ),
    ("operator", "SPEC tolerations: [{key: a, operator: Gt, value: '1'}]"),
    ("value", "SPEC tolerations: [{key: a, value: -a}]"),
    ("maxSkew", "SPEC topologySpreadConstraints: [{topologyKey: a, whenUnsatisfiable: DoNotSchedule}]"),
    ("whenUnsatisfiable", "SPEC topologySpreadConstraints: [{maxSkew: 1, topologyKey: a}]"),
    (
        "minDomains",
        "SPEC topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway, minDomains: 1}]",
    ),
    (
        "topologyKey",
        "SPEC topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 2, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]",
    ),
    (
        "nodeTaintsPolicy",
        "SPEC topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule, nodeTaintsPolicy: ''}]",
    ),
    ("schedulingGates", "SPEC schedulingGates: [{name: a}, {name: a}]"),
    ("nodeName", "SPEC schedulingGates: [{name: a}] ;; nodeName: node"),
    ("resizePolicy", "CONTAINER resizePolicy: [{resourceName: storage, restartPolicy: NotRequired}]"),
    (
        "resizePolicy",
        "SPEC restartPolicy: Never ;; containers: [{name: c, image: i, resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}]}]",
    ),
    ("spec.resources", "SPEC resources: {limits: {a.b/c: 1}}"),
    (
        "spec.resources",
        "SPEC resources: {requests: {cpu: 1}} ;; containers: [{name: c, image: i, resources: {requests: {cpu: 2}}}]",
    ),
    (
        "spec.resources",
        "SPEC resources: {limits: {cpu: 1}} ;; containers: [{name: c, image: i, resources: {requests: {cpu: 2}}}]",
    ),
    ("spec.resources", "SPEC resources: {claims: []}"),
    ("overhead", "SPEC overhead: {cpu: -1}"),
    ("overhead", "SPEC overhead: {pods: 1}"),
    ("resources", "CONTAINER resources: {limits: {hugepages-2Mi: 2Mi}}"),
    ("hugepages-2Mi", "CONTAINER resources: {limits: {hugepages-2Mi: 3Mi, cpu: 1}}"),
    ("limits", "CONTAINER resources: {limits: {requests.a/b: 1}}"),
    ("claims", "CONTAINER resources: {claims: [{name: a}]}"),
    ("resourceClaims", "SPEC resourceClaims: [{name: a}]"),
    ("restartPolicy", "CONTAINER restartPolicy: ''"),
    (
        "restartPolicyRules",
        "CONTAINER restartPolicy: Never, restartPolicyRules: [{exitCodes: {operator: In, values: [1]}}]",
    ),
    (
        "operator",
        "CONTAINER restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes: {values: [1]}}]",
    ),
    ("ephemeralContainers", "SPEC ephemeralContainers: [{name: e, image: i}]"),
    ("procMount", "CONTAINER securityContext: {procMount: ''}"),
    ("recursiveReadOnly", "CONTAINER volumeMounts: [{name: v, mountPath: /a, recursiveReadOnly: ''}]"),
    ("os.name", "SPEC os: {}"),
    ("searches", "SPEC dnsConfig: {searches: [A]}"),
    (
        "seccompProfile",
        "POD metadata: {name: a, annotations: {seccomp.security.alpha.kubernetes.io/pod: unconfined}} ;; spec: {securityContext: {seccompProfile: {type: RuntimeDefault}}, containers: [{name: c, image: i}]}",
    ),
    (
        "appArmorProfile",
        "POD metadata: {name: a, annotations: {container.apparmor.security.beta.kubernetes.io/c: unconfined}} ;; spec: {containers: [{name: c, image: i, securityContext: {appArmorProfile: {type: RuntimeDefault}}}]}",
    ),
    ("annotations", "META name: a, annotations: {seccomp.security.alpha.kubernetes.io/pod: none}"),
    ("annotations", "META name: a, annotations: {container.apparmor.security.beta.kubernetes.io/c: none}"),
    (
        "annotations",
        "META name: a, annotations: {container.apparmor.security.beta.kubernetes.io/x: unconfined}",
    ),
    ("annotations", "META name: a, annotations: {kubernetes.io/config.mirror: x}"),
    ("annotations", "META name: a, annotations: {controller.kubernetes.io/pod-deletion-cost: '+1'}"),
    ("annotations", "META name: a, annotations: {scheduler.alpha.kubernetes.io/tolerations: '{'}"),
    ("ownerReferences", "META name: a, ownerReferences: [{kind: Pod, name: o, uid: u}]"),
    ("finalizers", "META name: a, finalizers: [a b]"),
    ("finalizers", "META name: a, finalizers: [a]"),
    ("generateName", "META generateName: A"),
    ("fsGroupChangePolicy", "SPEC securityContext: {fsGroupChangePolicy: ''}"),
    ("supplementalGroupsPolicy", "SPEC securityContext: {supplementalGroupsPolicy: ''}"),
    ("preemptionPolicy", "SPEC preemptionPolicy: ''"),
    ("runtimeClassName", "SPEC runtimeClassName: ''"),
    ("serviceAccount", "SPEC serviceAccount: A"),
    ("sleep", "CONTAINER lifecycle: {preStop: {sleep: {seconds: 31}}}"),
    ("tcpSocket", "CONTAINER lifecycle: {preStop: {tcpSocket: {port: 0}}}"),
    ("lifecycle", "SPEC initContainers: [{name: x, image: i, lifecycle: {}}]"),
    (
        "divisor",
        "CONTAINER env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: '+1'}}}]",
    ),
    (
        "divisor",
        "CONTAINER env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: '1e0'}}}]",
    ),
    (
        "divisor",
        "CONTAINER env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1048576}}}]",
    ),
    (
        "divisor",
        "CONTAINER env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 2}}}]",
    ),
    ("name", "CONTAINER env: [{name: A, valueFrom: {secretKeyRef: {key: k}}}]"),
    (
        "sources",
        "SPEC serviceAccountName: s ;; volumes: [{name: v, projected: {sources: [{configMap: {name: m, items: [{key: k, path: p}]}}, {secret: {name: s, items: [{key: k, path: p}]}}]}}]",
    ),
    (
        "serviceAccountToken",
        "POD metadata: {name: a, annotations: {kubernetes.io/config.mirror: x}} ;; spec: {nodeName: node, containers: [{name: c, image: i}], volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t}}]}}]}",
    ),
    (
        "clusterTrustBundle",
        "SPEC volumes: [{name: v, projected: {sources: [{clusterTrustBundle: {path: t}}]}}]",
    ),
    (
        "podCertificate",
        "SPEC volumes: [{name: v, projected: {sources: [{podCertificate: {signerName: a.b/c, keyType: RSA1, keyPath: k}}]}}]",
    ),
    (
        "metadata",
        "SPEC volumes: [{name: v, ephemeral: {volumeClaimTemplate: {metadata: {name: x}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}]",
    ),
    ("nodePublishSecretRef", "SPEC volumes: [{name: v, csi: {driver: d, nodePublishSecretRef: {}}}]"),
    (
        "secretRef",
        "SPEC volumes: [{name: v, iscsi: {targetPortal: p, iqn: 'iqn.2020-01.a:b', lun: 1, chapAuthSession: true}}]",
    ),
    ("gitRepo", "SPEC volumes: [{name: v, gitRepo: {}}]"),
    ("azureDisk", "SPEC volumes: [{name: v, azureDisk: {diskName: a, diskURI: b}}]"),
    ("flexVolume", "SPEC volumes: [{name: v, flexVolume: {driver: a/b, options: {kubernetes.io/x: z}}}]"),
    ("quobyte", "SPEC volumes: [{name: v, quobyte: {registry: a, volume: b}}]"),
    ("runAsUserName", "SPEC securityContext: {windowsOptions: {runAsUserName: ''}}"),
    ("hostProcess", "SPEC securityContext: {windowsOptions: {hostProcess: true}}"),
    ("replicas", "DEPLOYMENT replicas: -1"),
    ("labels", "DEPLOYMENT selector: {matchLabels: {app: b}}"),
    ("selector", "DEPLOYMENT selector: {}"),
    ("rollingUpdate", "DEPLOYMENT strategy: {type: Recreate, rollingUpdate: {}}"),
    ("maxUnavailable", "DEPLOYMENT strategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 0}}"),
    ("maxUnavailable", "DEPLOYMENT strategy: {rollingUpdate: {maxUnavailable: 101%}}"),
    ("progressDeadlineSeconds", "DEPLOYMENT minReadySeconds: 600"),
    (
        "activeDeadlineSeconds",
        "REPLICASET template: {metadata: {labels: {app: a}}, spec: {activeDeadlineSeconds: 1, containers: [{name: c, image: i}]}}",
    ),
    ("maxSurge", "DAEMONSET updateStrategy: {rollingUpdate: {maxSurge: 1}}"),
    (
        "volumeClaimTemplates",
        "STATEFULSET volumeClaimTemplates: [{metadata: {name: t}, spec: {accessModes: [ReadWriteOnce]}}]",
    ),
    ("podManagementPolicy", "STATEFULSET podManagementPolicy: Any"),
    ("serviceName", "STATEFULSET serviceName: a.b"),
    ("whenScaled", "STATEFULSET persistentVolumeClaimRetentionPolicy: {whenScaled: Keep}"),
    ("rollingUpdate", "STATEFULSET updateStrategy: {type: OnDelete, rollingUpdate: {}}"),
    ("restartPolicy", "JOB template: {spec: {restartPolicy: '', containers: [{name: c, image: i}]}}"),
    ("completions", "JOB completions: -1"),
    ("completions", "JOB parallelism: 1 ;; completionMode: Indexed"),
    ("selector", "JOB selector: {matchLabels: {app: a}}"),
    ("selector", "JOB manualSelector: true"),
    ("backoffLimitPerIndex", "JOB backoffLimitPerIndex: 1"),
    ("podFailurePolicy", "JOB podFailurePolicy: {rules: [{action: Ignore}]}"),
    (
        "values",
        "JOB podFailurePolicy: {rules: [{action: Ignore, onExitCodes: {operator: In, values: [2, 1]}}]}",
    ),
    (
        "succeededIndexes",
        "JOB completions: 1 ;; completionMode: Indexed ;; successPolicy: {rules: [{succeededIndexes: '5'}]}",
    ),
    ("managedBy", "JOB managedBy: a"),
    ("podReplacementPolicy", "JOB podReplacementPolicy: Always"),
    ("schedule", "CRONJOB schedule: 60 * * * *"),
    ("schedule", "CRONJOB schedule: TZ=UTC 1 * * * *"),
    ("timeZone", "CRONJOB timeZone: Europe/Nowhere"),
    ("concurrencyPolicy", "CRONJOB concurrencyPolicy: Any"),
    (
        "selector",
        "CRONJOB jobTemplate: {spec: {selector: {}, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}",
    ),
    ("storage", "CLAIM resources: {requests: {storage: 0}}"),
    ("selector", "CLAIM selector: {matchExpressions: [{key: a, operator: Is}]}"),
    ("dataSourceRef", "CLAIM dataSourceRef: {kind: Pod, name: p}"),
    ("spec", "VOLUME volumeMode: Filesystem"),
    ("csi", "VOLUME csi: {driver: d, volumeHandle: h} ;; hostPath: {path: /a}"),
    ("capacity", "VOLUME hostPath: {path: /a} ;; capacity: {storage: 1, cpu: 1}"),
    ("volumeAttributesClassName", "VOLUME hostPath: {path: /a} ;; volumeAttributesClassName: c"),
    (
        "persistentVolumeReclaimPolicy",
        "VOLUME hostPath: {path: /.} ;; persistentVolumeReclaimPolicy: Recycle",
    ),
    ("nodeAffinity", "VOLUME hostPath: {path: /a} ;; nodeAffinity: {}"),
    ("nodePublishSecretRef", "VOLUME csi: {driver: d, volumeHandle: h, nodePublishSecretRef: {name: s}}"),
];

/// Accepted by the API server; each of these was refused here.
const ACCEPTED: &[&str] = &[
    "SPEC resources: {limits: {hugepages-2Mi: 2Mi}} ;; containers: [{name: c, image: i, resources: {requests: {memory: 1Gi}}}]",
    "SPEC volumes: [{name: v, emptyDir: {medium: other}}]",
    "SPEC hostNetwork: true ;; initContainers: [{name: x, image: i, ports: [{containerPort: 1, hostPort: 2}]}]",
    "SPEC os: {name: windows} ;; hostPID: false",
    "SPEC volumes: [{name: v, fc: {wwids: [a], lun: 256}}]",
];

pub fn found() -> Vec<Case> {
    let refused = REFUSED.iter().map(|(field, part)| (Verdict::Refused, *field, *part));
    let accepted = ACCEPTED.iter().map(|part| (Verdict::Accepted, "", *part));
    let case = |(verdict, field, part): (Verdict, &str, &str)| Case {
        name: part.to_owned(),
        text: manifest(part),
        verdict,
        field: field.to_owned(),
    };
    refused.chain(accepted).map(case).collect()
}
