use std::collections::{BTreeMap, BTreeSet};

use cgroups::{Counters, Disk, Memory, PressureResource};
use container::Resources;
use cri::{ContainerMetadata, PodSandboxMetadata};
use kernel::disk_usage::DiskUsage;

use super::super::{Filesystem, Flow, Link, Processes, Written};
use super::*;

const AT: i64 = 5_000_000_000;

fn counters() -> Counters {
    let all = Some(3_000_000_000);
    Counters {
        cpu: all,
        cpu_user: all,
        cpu_system: all,
        periods: all,
        throttled_periods: all,
        throttled: all,
        memory: Memory {
            usage: Some(1000),
            inactive_file: Some(400),
            peak: all,
            rss: all,
            cache: all,
            mapped: all,
            active_file: all,
            kernel: all,
            swap: all,
            limit_hits: all,
            faults: all,
            major_faults: all,
            oom_kills: all,
            ..Memory::default()
        },
        tasks: Some(3),
        tasks_limit: None,
        disks: vec![Disk { major: 8, minor: 1, read_bytes: 7, ..Disk::default() }],
        pressure: [PressureResource::Cpu, PressureResource::Memory, PressureResource::Io]
            .map(|kind| (kind, Default::default()))
            .into(),
    }
}

fn looked_at() -> Sandbox {
    let flow = Flow { bytes: 10, packets: 2, errors: 0, dropped: 1 };
    let written = Written {
        path: "/rw".into(),
        usage: DiskUsage { bytes: 11, inodes: 12, at_least: false },
        filesystem: Some(Filesystem { bytes: 13, inodes: 14, inodes_free: 15 }),
    };
    let container = Container {
        id: "c1".into(),
        metadata: ContainerMetadata { name: "web".into(), attempt: 0 },
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        image: "busybox".into(),
        cgroup: "/pod/c1".into(),
        started_at: 2_000_000_000,
        limits: Resources { cpu_quota: Some(20_000), memory: Some(64), ..Default::default() },
        counters: counters(),
        processes: Processes { count: 1, files: 9, sockets: 2, open_files_limit: Some(1024) },
        written: Some(written),
    };
    Sandbox {
        id: "s1".into(),
        metadata: PodSandboxMetadata { name: "pod".into(), namespace: "ns".into(), ..Default::default() },
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        cgroup: "/pod".into(),
        counters: counters(),
        links: vec![Link { name: "eth0".into(), received: flow, sent: flow }],
        containers: vec![container],
    }
}

#[test]
fn every_metric_has_as_many_labels_as_its_descriptor_says_and_each_has_a_value() {
    let told = sandbox(&looked_at(), AT);
    let all: Vec<&Metric> =
        told.metrics.iter().chain(told.container_metrics.iter().flat_map(|of| &of.metrics)).collect();
    let descriptors = descriptors();
    let names: BTreeSet<&str> = descriptors.iter().map(|known| known.name.as_str()).collect();
    assert_eq!(names.len(), descriptors.len(), "a name is there twice");
    for known in &descriptors {
        assert!(!known.help.is_empty() && !known.label_keys.is_empty(), "{}", known.name);
        let found: Vec<_> = all.iter().filter(|metric| metric.name == known.name).collect();
        assert!(!found.is_empty(), "{} has no value", known.name);
        for metric in found {
            assert_eq!(metric.label_values.len(), known.label_keys.len(), "{}", known.name);
            assert_eq!(metric.timestamp, AT);
        }
    }
    assert!(all.iter().all(|metric| names.contains(metric.name.as_str())));
}

#[test]
fn values_and_labels_are_those_that_cadvisor_gives() {
    let told = sandbox(&looked_at(), AT);
    let find = |name: &str| {
        let metrics = told.container_metrics[0].metrics.iter().chain(&told.metrics);
        let metric = metrics.into_iter().find(|metric| metric.name == name).unwrap();
        (metric.label_values.join(","), metric.value.unwrap().value)
    };
    let container = "web,/pod/c1,busybox,c1,ns,pod";
    assert_eq!(find("container_cpu_usage_seconds_total"), (format!("{container},total"), 3));
    assert_eq!(find("container_memory_working_set_bytes"), (container.to_owned(), 600));
    assert_eq!(find("container_last_seen").1, 5);
    assert_eq!(find("container_start_time_seconds").1, 2);
    assert_eq!(find("container_spec_memory_limit_bytes").1, 64);
    assert_eq!(find("container_fs_usage_bytes"), (format!("{container},/rw"), 11));
    assert_eq!(find("container_blkio_device_usage_total"), (format!("{container},8:1,8,1,Read"), 7));
    assert_eq!(find("container_network_receive_bytes_total"), (",/pod,,s1,ns,pod,eth0".to_owned(), 10));
}

/// The metrics that cAdvisor provided before runtimes did.
#[test]
fn the_metrics_that_dashboards_use_are_all_there() {
    let names: BTreeSet<String> = descriptors().into_iter().map(|known| known.name).collect();
    for name in [
        "container_cpu_usage_seconds_total",
        "container_cpu_cfs_throttled_seconds_total",
        "container_memory_working_set_bytes",
        "container_memory_rss",
        "container_fs_writes_bytes_total",
        "container_network_transmit_packets_dropped_total",
        "container_oom_events_total",
        "container_threads_max",
        "container_ulimits_soft",
    ] {
        assert!(names.contains(name), "{name}");
    }
}
