//! Pods and volumes in the few words that the cases need.
#![allow(dead_code, unreachable_pub, reason = "each suite needs other words")]

use conflicts::*;
use selinux::SelinuxOptions;

pub const DRIVER: &str = "csi.example.com";

pub fn pod(name: &str) -> Pod {
    let key = match name.split_once('/') {
        Some((namespace, name)) => PodKey::new(namespace, name),
        None => PodKey::new("shop", name),
    };
    Pod { uid: Some(format!("uid-{name}")), ..Pod::new(key) }
}

pub fn level(level: &str) -> Option<SelinuxOptions> {
    Some(SelinuxOptions { level: Some(level.to_owned()), ..Default::default() })
}

/// A pod with one container that mounts the claim "data".
pub fn labelled(name: &str, of: &str) -> Pod {
    using(pod(name), vec![Mount { options: level(of), ..Mount::default() }])
}

pub fn unlabelled(name: &str) -> Pod {
    using(pod(name), vec![Mount::default()])
}

pub fn privileged(name: &str) -> Pod {
    using(pod(name), vec![Mount { privileged: true, ..Mount::default() }])
}

/// With these mounts of the claim "data".
pub fn using(mut pod: Pod, mounts: Vec<Mount>) -> Pod {
    let source = PodVolumeSource::Claim("data".to_owned());
    pod.volumes.push(PodVolume { name: "vol".to_owned(), source, mounts });
    pod
}

pub fn with_policy(pod: Pod, policy: ChangePolicy) -> Pod {
    Pod { change_policy: Some(policy), ..pod }
}

pub fn recursive(pod: Pod) -> Pod {
    with_policy(pod, ChangePolicy::Recursive)
}

pub fn on(mut pod: Pod, node: &str) -> Pod {
    pod.placement.node = Node::Bound(node.to_owned());
    pod
}

pub fn sub_path(mut pod: Pod) -> Pod {
    pod.volumes.iter_mut().flat_map(|v| &mut v.mounts).for_each(|m| m.sub_path = true);
    pod
}

pub fn claim(namespace: &str) -> Claim {
    Claim { key: ClaimKey::new(namespace, "data"), uid: None, volume: Some(format!("pv-{namespace}")) }
}

/// The volume behind the claim "data" of a namespace: the same storage for all of them.
pub fn volume(namespace: &str, modes: &[AccessMode]) -> PersistentVolume {
    PersistentVolume {
        name: format!("pv-{namespace}"),
        id: VolumeId::csi(DRIVER, "vol-1"),
        source: VolumeSource::Csi { driver: DRIVER.to_owned() },
        access_modes: modes.to_vec(),
        claim: Some(ClaimReference { key: ClaimKey::new(namespace, "data"), uid: None }),
    }
}

pub fn driver(selinux_mount: bool) -> CsiDriver {
    CsiDriver { name: DRIVER.to_owned(), selinux_mount }
}

/// A cluster where these pods share a volume that can be mounted with a label.
pub fn cluster(pods: &[Pod]) -> Engine {
    cluster_with(Rules::default(), &[AccessMode::ReadWriteMany], pods)
}

pub fn cluster_with(rules: Rules, modes: &[AccessMode], pods: &[Pod]) -> Engine {
    let mut engine = Engine::new(rules);
    engine.put_driver(&driver(true));
    for namespace in ["shop", "bank"] {
        engine.put_claim(&claim(namespace));
        engine.put_volume(&volume(namespace, modes));
    }
    for pod in pods {
        engine.put_pod(pod);
    }
    engine
}

/// Every conflict in a line: property, pod, value, pod, value.
pub fn lines(engine: &Engine) -> Vec<String> {
    let line = |c: Conflict<'_>| {
        format!(
            "{} {} {:?} {} {:?}",
            c.property,
            c.a.pod,
            c.a.value.to_string(),
            c.b.pod,
            c.b.value.to_string()
        )
    };
    engine.conflicts().map(line).collect()
}

/// The meeting of the first conflict.
pub fn meeting(engine: &Engine) -> Meeting {
    engine.conflicts().next().expect("there is a conflict").meeting()
}
