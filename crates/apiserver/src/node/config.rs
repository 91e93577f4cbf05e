//! The settings of a Node from the kubelet's configuration and flags.

use std::collections::BTreeMap;

use ::node::kubelet::{EvictionSignal, KubeletConfig, NodeFlags, TaintEffect, Threshold as Configured};
use k8s_openapi::api::core::v1::Taint;
use types::Quantity;

use super::settings::{HardEviction, NodeSettings, Reservation, Threshold};
use super::sync::NodeTiming;
use crate::lease::LeaseTiming;

/// Features whose gates the API server asks of a node before it uses them: WebSockets that come as they are, and not as SPDY;
/// resizes of pods as a whole, and of init containers that run to their end.
const DECLARED: [&str; 3] = [
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
];

impl NodeSettings {
    /// The settings of the node `name` that reports `kubelet_version`.
    #[must_use]
    pub fn of(config: &KubeletConfig, flags: &NodeFlags, name: &str, kubelet_version: &str) -> Self {
        let threshold = |signal| config.eviction_hard.get(&signal).map(Threshold::from);
        Self {
            register: config.register_node,
            labels: flags.node_labels.clone(),
            taints: config.register_with_taints.iter().map(taint).collect(),
            provider_id: config.provider_id.clone(),
            external_cloud_provider: flags.has_external_cloud_provider,
            node_ips: flags.node_ips.clone(),
            max_pods: config.max_pods,
            pods_per_core: config.pods_per_core,
            system_reserved: reservation(&config.system_reserved),
            kube_reserved: reservation(&config.kube_reserved),
            reserved_cpus: config.reserved_system_cpus.as_deref().map(count),
            hard_eviction: HardEviction {
                memory_available: threshold(EvictionSignal::MemoryAvailable),
                nodefs_available: threshold(EvictionSignal::NodeFsAvailable),
            },
            max_images: usize::try_from(config.node_status_max_images).ok(),
            port: config.port,
            declared_features: DECLARED
                .into_iter()
                .filter(|feature| config.is_gate_on(feature))
                .map(str::to_owned)
                .collect(),
            ..Self::new(name, kubelet_version)
        }
    }
}

impl From<&KubeletConfig> for NodeTiming {
    fn from(config: &KubeletConfig) -> Self {
        Self {
            update: config.node_status_update_frequency.to_std(),
            report: config.node_status_report_frequency.to_std(),
        }
    }
}

impl From<&KubeletConfig> for LeaseTiming {
    fn from(config: &KubeletConfig) -> Self {
        Self { duration_seconds: u16::try_from(config.node_lease_duration_seconds).unwrap_or(u16::MAX) }
    }
}

fn taint(taint: &::node::kubelet::Taint) -> Taint {
    let effect = match taint.effect {
        TaintEffect::NoSchedule => "NoSchedule",
        TaintEffect::PreferNoSchedule => "PreferNoSchedule",
        TaintEffect::NoExecute => "NoExecute",
    };
    Taint {
        key: taint.key.clone(),
        value: Some(taint.value.clone()).filter(|value| !value.is_empty()),
        effect: effect.to_owned(),
        time_added: None,
    }
}

fn reservation(of: &BTreeMap<String, Quantity>) -> Reservation {
    let amount = |name: &str| of.get(name).copied().unwrap_or(Quantity::ZERO);
    let positive = |amount: i64| u64::try_from(amount).unwrap_or(0);
    Reservation {
        cpu_millis: positive(amount("cpu").thousandths()),
        memory: positive(amount("memory").units()),
        ephemeral_storage: positive(amount("ephemeral-storage").units()),
    }
}

impl From<&Configured> for Threshold {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a percentage is from 0 to 100"
    )]
    fn from(configured: &Configured) -> Self {
        match configured {
            Configured::Percentage(percent) => Self::PerMillion((percent * 10_000.0).round() as u32),
            Configured::Quantity(amount) => Self::Bytes(u64::try_from(amount.units()).unwrap_or(0)),
        }
    }
}

/// The number of processors in a list such as `0-1,4`, which the configuration has checked.
fn count(list: &str) -> u32 {
    let parts = list.split(',').filter(|part| !part.trim().is_empty());
    let length = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<u32>().unwrap_or(0);
        number(last).saturating_sub(number(first)).saturating_add(1)
    };
    parts.map(length).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kubelet_is_configured_with_is_what_the_node_has() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.yaml");
        let text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 30\n\
                    systemReserved: {cpu: 500m, memory: 1Gi}\nreservedSystemCPUs: 0-1,4\n\
                    evictionHard: {memory.available: 200Mi, nodefs.available: 5%}\n\
                    registerWithTaints: [{key: a, effect: NoSchedule}]\nnodeLeaseDurationSeconds: 20\n";
        std::fs::write(&file, text).unwrap();
        let loaded =
            KubeletConfig::load(Some(&file), None, &::node::kubelet::KubeletFlags::default()).unwrap();
        let settings = NodeSettings::of(&loaded.config, &NodeFlags::default(), "worker", "v1.37.1");
        assert_eq!((settings.max_pods, settings.reserved_cpus), (30, Some(3)));
        let reserved = Reservation { cpu_millis: 500, memory: 1 << 30, ephemeral_storage: 0 };
        assert_eq!(settings.system_reserved, reserved);
        assert_eq!(settings.hard_eviction.memory_available, Some(Threshold::Bytes(200 << 20)));
        assert_eq!(settings.hard_eviction.nodefs_available, Some(Threshold::PerMillion(50_000)));
        assert_eq!(settings.declared_features, DECLARED);
        assert_eq!(settings.taints.first().map(|taint| taint.effect.as_str()), Some("NoSchedule"));
        assert_eq!(LeaseTiming::from(&loaded.config).duration_seconds, 20);
        std::fs::write(&file, format!("{text}featureGates: {{ExtendWebSocketsToKubelet: false}}\n")).unwrap();
        let loaded =
            KubeletConfig::load(Some(&file), None, &::node::kubelet::KubeletFlags::default()).unwrap();
        let settings = NodeSettings::of(&loaded.config, &NodeFlags::default(), "worker", "v1.37.1");
        assert_eq!(settings.declared_features, DECLARED[1..]);
    }
}
