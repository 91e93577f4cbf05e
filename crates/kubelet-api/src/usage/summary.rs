//! `/stats/summary` (`stats/v1alpha1` of the kubelet).

use cgroups::{Pressure, PressureResource, Stall};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    ContainerUsage, Filesystem, Interface, NodeUsage, POD_INTERFACE, PartUsage, PodUsage, TaskLimit, Used,
    VolumeUsage,
};

/// The summary; `only_cpu_and_memory` leaves out what else is known.
pub(crate) fn summary(node: &NodeUsage, only_cpu_and_memory: bool) -> Value {
    let of = Summary { is_short: only_cpu_and_memory };
    json!({"node": of.node(node), "pods": node.pods.iter().map(|pod| of.pod(pod)).collect::<Vec<_>>()})
}

struct Summary {
    is_short: bool,
}

impl Summary {
    fn node(&self, node: &NodeUsage) -> Value {
        let mut fields = self.used(&node.used, Some(node.memory));
        add(&mut fields, "nodeName", node.name.clone());
        add(&mut fields, "startTime", time(node.started));
        let parts = node.parts.iter().map(|part| self.part(part));
        add(&mut fields, "systemContainers", parts.collect::<Vec<_>>());
        if !self.is_short {
            add_some(&mut fields, "network", network(&node.interfaces, node.used.at));
            add_some(&mut fields, "fs", node.filesystem.as_ref().map(filesystem));
            let runtime = [("imageFs", &node.images), ("containerFs", &node.containers)];
            let known = runtime
                .into_iter()
                .filter_map(|(name, fs)| Some((name.to_owned(), filesystem(fs.as_ref()?))));
            add(&mut fields, "runtime", known.collect::<Map<_, _>>());
            let limit =
                |of: TaskLimit| json!({"time": time(node.used.at), "maxpid": of.limit, "curproc": of.count});
            add_some(&mut fields, "rlimit", node.tasks.map(limit));
        }
        Value::Object(fields)
    }

    fn part(&self, part: &PartUsage) -> Value {
        let mut fields = self.used(&part.used, None);
        add(&mut fields, "name", part.name);
        add(&mut fields, "startTime", time(part.started));
        Value::Object(fields)
    }

    fn pod(&self, pod: &PodUsage) -> Value {
        let mut fields = self.used(&pod.used, None);
        let PodUsage { namespace, name, uid, .. } = pod;
        add(&mut fields, "podRef", json!({"name": name, "namespace": namespace, "uid": uid}));
        add(&mut fields, "startTime", time(pod.started));
        let containers = pod.containers.iter().map(|container| self.container(container));
        add(&mut fields, "containers", containers.collect::<Vec<_>>());
        if !self.is_short {
            add_some(&mut fields, "network", network(&pod.interfaces, pod.used.at));
            let processes = |count| json!({"process_count": count});
            add_some(&mut fields, "process_stats", pod.processes.map(processes));
            let volumes: Vec<Value> = pod.volumes.iter().map(volume).collect();
            add_some(&mut fields, "volume", Some(volumes).filter(|volumes| !volumes.is_empty()));
            add_some(&mut fields, "ephemeral-storage", pod.ephemeral_storage().as_ref().map(filesystem));
        }
        Value::Object(fields)
    }

    fn container(&self, container: &ContainerUsage) -> Value {
        let mut fields = self.used(&container.used, None);
        add(&mut fields, "name", container.name.clone());
        add(&mut fields, "startTime", time(container.started));
        if !self.is_short {
            add_some(&mut fields, "rootfs", container.layer.as_ref().map(filesystem));
            add_some(&mut fields, "logs", container.logs.as_ref().map(filesystem));
        }
        Value::Object(fields)
    }

    /// CPU, memory and what comes with them. `memory` is what could be used, where no limit of the cgroup says so.
    fn used(&self, used: &Used, memory: Option<u64>) -> Map<String, Value> {
        let Used { at, cpu_rate, counters } = used;
        let mut fields = Map::new();
        let stalled = |resource| counters.pressure.get(&resource).map(pressure);
        let mut cpu = sampled(*at);
        add_some(&mut cpu, "usageNanoCores", *cpu_rate);
        add_some(&mut cpu, "usageCoreNanoSeconds", counters.cpu);
        add_some(&mut cpu, "psi", stalled(PressureResource::Cpu));
        add(&mut fields, "cpu", cpu);
        let of = &counters.memory;
        let mut known = sampled(*at);
        let left = |all: u64| Some(all.saturating_sub(of.working_set()?));
        add_some(&mut known, "availableBytes", of.available().or_else(|| left(memory?)));
        add_some(&mut known, "usageBytes", of.usage);
        add_some(&mut known, "workingSetBytes", of.working_set());
        add_some(&mut known, "rssBytes", of.rss);
        add_some(&mut known, "pageFaults", of.faults);
        add_some(&mut known, "majorPageFaults", of.major_faults);
        add_some(&mut known, "psi", stalled(PressureResource::Memory));
        add(&mut fields, "memory", known);
        if let Some(swap) = of.swap {
            let mut known = sampled(*at);
            add(&mut known, "swapUsageBytes", swap);
            add_some(&mut known, "swapAvailableBytes", of.swap_limit.map(|limit| limit.saturating_sub(swap)));
            add(&mut fields, "swap", known);
        }
        if self.is_short {
            return fields;
        }
        let mut io = sampled(*at);
        if let Some(stalled) = stalled(PressureResource::Io) {
            add(&mut io, "psi", stalled);
            add(&mut fields, "io", io);
        }
        fields
    }
}

fn add(fields: &mut Map<String, Value>, name: &str, value: impl Into<Value>) {
    fields.insert(name.to_owned(), value.into());
}

fn add_some(fields: &mut Map<String, Value>, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        add(fields, name, value);
    }
}

fn sampled(at: u64) -> Map<String, Value> {
    Map::from_iter([("time".to_owned(), time(at))])
}

/// The time in whole seconds, as Kubernetes writes it.
fn time(millis: u64) -> Value {
    let seconds = i64::try_from(millis / 1000).unwrap_or_default();
    Timestamp::from_second(seconds).map_or(Value::Null, |time| json!(time.to_string()))
}

fn filesystem(of: &Filesystem) -> Value {
    json!({
        "time": time(of.at),
        "availableBytes": of.available,
        "capacityBytes": of.capacity,
        "usedBytes": of.used,
        "inodesFree": of.inodes_free,
        "inodes": of.inodes,
        "inodesUsed": of.inodes_used,
    })
}

fn volume(of: &VolumeUsage) -> Value {
    let mut fields = filesystem(&of.filesystem);
    if let Value::Object(fields) = &mut fields {
        add(fields, "name", of.name.clone());
    }
    fields
}

fn network(interfaces: &[Interface], at: u64) -> Option<Map<String, Value>> {
    let counted = |of: &Interface| {
        json!({
            "name": of.name,
            "rxBytes": of.rx_bytes,
            "rxErrors": of.rx_errors,
            "txBytes": of.tx_bytes,
            "txErrors": of.tx_errors,
        })
    };
    if interfaces.is_empty() {
        return None;
    }
    // As with a kubelet, only this one stands for all of the pod or node.
    let main = interfaces.iter().find(|interface| interface.name == POD_INTERFACE);
    let Value::Object(mut fields) = main.map_or_else(|| json!({"name": ""}), counted) else { return None };
    add(&mut fields, "time", time(at));
    add(&mut fields, "interfaces", interfaces.iter().map(counted).collect::<Vec<_>>());
    Some(fields)
}

fn pressure(of: &Pressure) -> Value {
    let stalled = |stall: &Stall| {
        let [ten, sixty, more] = stall.averages;
        json!({"total": stall.total, "avg10": ten, "avg60": sixty, "avg300": more})
    };
    json!({"full": stalled(&of.full), "some": stalled(&of.some)})
}

#[cfg(test)]
mod tests {
    use cgroups::{Counters, Memory};

    use super::*;

    fn used(limit: Option<u64>) -> Used {
        let memory = Memory {
            usage: Some(1_000),
            inactive_file: Some(400),
            limit,
            swap: Some(3),
            ..Memory::default()
        };
        // Threads count, too, in a cgroup.
        let counters = Counters { cpu: Some(7), memory, tasks: Some(90), ..Counters::default() };
        Used { at: 1_700_000_000_500, cpu_rate: Some(9), counters }
    }

    fn node() -> NodeUsage {
        let layer =
            Some(Filesystem { at: 1_700_000_000_000, capacity: 100, used: 5, ..Filesystem::default() });
        let container = ContainerUsage {
            name: "app".to_owned(),
            used: used(Some(2_000)),
            layer,
            ..ContainerUsage::default()
        };
        let volume = |name: &str, is_ephemeral_storage| VolumeUsage {
            name: name.to_owned(),
            filesystem: Filesystem { capacity: 50, used: 20, inodes_used: 2, ..Filesystem::default() },
            is_ephemeral_storage,
            ..VolumeUsage::default()
        };
        let interface = |name: &str| Interface { name: name.to_owned(), rx_bytes: 8, ..Interface::default() };
        let pod = PodUsage {
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            uid: "u-1".to_owned(),
            used: used(None),
            interfaces: vec![interface("net1"), interface("eth0")],
            processes: Some(2),
            containers: vec![container],
            volumes: vec![volume("scratch", true), volume("secret", false)],
            files: Some(Filesystem { capacity: 100, used: 1, inodes_used: 1, ..Filesystem::default() }),
            ..PodUsage::default()
        };
        let part = |name, limit| PartUsage { name, used: used(limit), ..PartUsage::default() };
        NodeUsage {
            name: "node0".to_owned(),
            used: used(None),
            memory: 10_000,
            parts: vec![part("pods", Some(5_000)), part("kubelet", None)],
            interfaces: vec![interface("ens3")],
            tasks: Some(TaskLimit { count: 80, limit: 7000 }),
            pods: vec![pod],
            ..NodeUsage::default()
        }
    }

    #[test]
    fn each_part_has_the_fields_of_a_kubelet() {
        let all = summary(&node(), false);
        assert_eq!(all["node"]["nodeName"], "node0");
        assert_eq!(all["node"]["memory"]["availableBytes"], 10_000 - 600, "of the whole machine");
        assert_eq!(all["node"]["systemContainers"][0]["memory"]["availableBytes"], 5_000 - 600);
        assert_eq!(
            all["node"]["systemContainers"][1]["memory"].get("availableBytes"),
            None,
            "without a limit"
        );
        assert_eq!(
            (&all["node"]["rlimit"]["curproc"], &all["node"]["rlimit"]["maxpid"]),
            (&json!(80), &json!(7000))
        );
        let pod = &all["pods"][0];
        assert_eq!(pod["podRef"], json!({"name": "web", "namespace": "shop", "uid": "u-1"}));
        assert_eq!(pod["memory"].get("availableBytes"), None, "without a limit");
        assert_eq!(
            (&pod["memory"]["workingSetBytes"], &pod["process_stats"]["process_count"]),
            (&json!(600), &json!(2))
        );
        assert_eq!(
            (&pod["network"]["name"], &pod["network"]["rxBytes"], &pod["network"]["interfaces"][0]["name"]),
            (&json!("eth0"), &json!(8), &json!("net1"))
        );
        let container = &pod["containers"][0];
        assert_eq!(
            container["cpu"],
            json!({"time": "2023-11-14T22:13:20Z", "usageNanoCores": 9, "usageCoreNanoSeconds": 7})
        );
        assert_eq!(
            (&container["rootfs"]["usedBytes"], &container["swap"]["swapUsageBytes"]),
            (&json!(5), &json!(3))
        );
        assert_eq!(container["memory"]["availableBytes"], 2_000 - 600);
        let volume = &pod["volume"][1];
        assert_eq!(
            (&volume["name"], &volume["usedBytes"], &volume["capacityBytes"]),
            (&json!("secret"), &json!(20), &json!(50))
        );
        // The layer, the volume on the disk, and other files.
        let storage = &pod["ephemeral-storage"];
        assert_eq!(
            (&storage["usedBytes"], &storage["inodesUsed"], &storage["capacityBytes"]),
            (&json!(26), &json!(3), &json!(100))
        );
    }

    /// The counters of another interface, that of the default route, were those of the node.
    #[test]
    fn no_other_interface_stands_for_a_node_without_eth0() {
        let network = summary(&node(), false)["node"]["network"].clone();
        assert_eq!((&network["name"], network.get("rxBytes")), (&json!(""), None));
        assert_eq!(network["interfaces"][0]["name"], "ens3");
        let without = NodeUsage { interfaces: Vec::new(), ..node() };
        assert_eq!(summary(&without, false)["node"].get("network"), None);
    }

    #[test]
    fn the_short_form_has_cpu_memory_and_swap() {
        let few = summary(&node(), true);
        let names = |of: &Value| of.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let of_node = ["cpu", "memory", "nodeName", "startTime", "swap", "systemContainers"];
        assert_eq!(names(&few["node"]), of_node);
        let pod = &few["pods"][0];
        assert_eq!(names(pod), ["containers", "cpu", "memory", "podRef", "startTime", "swap"]);
        assert_eq!(names(&pod["containers"][0]), ["cpu", "memory", "name", "startTime", "swap"]);
        assert_eq!(pod["containers"][0]["swap"]["swapUsageBytes"], 3);
    }

    #[test]
    fn a_container_of_which_nothing_is_known_has_no_numbers() {
        let mut node = node();
        node.pods[0].containers[0].used = Used { at: 1_700_000_000_500, ..Used::default() };
        let all = summary(&node, false);
        let container = &all["pods"][0]["containers"][0];
        let only_time = json!({"time": "2023-11-14T22:13:20Z"});
        assert_eq!((&container["cpu"], &container["memory"]), (&only_time, &only_time));
        assert_eq!((container["name"].as_str(), container.get("swap")), (Some("app"), None));
    }
}
