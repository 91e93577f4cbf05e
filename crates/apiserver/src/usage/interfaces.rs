//! What went over network interfaces, from `/proc/…/net/dev`.

use std::path::Path;

use kubelet_api::Interface;
use procfs::Task;

/// The interface that pods have by convention.
const POD_INTERFACE: &str = "eth0";
/// Beginnings of the names of interfaces on a host that are those of pods, or lead nowhere.
const NOT_OF_HOST: [&str; 4] = ["lo", "veth", "docker", "cni"];

/// The interfaces of the host, that of the default route first.
pub(super) fn of_host(host_root: &Path) -> Vec<Interface> {
    let read =
        |file: &str| std::fs::read_to_string(host_root.join("proc/1/net").join(file)).unwrap_or_default();
    let mut all = parsed(&read("dev"));
    all.retain(|interface| !NOT_OF_HOST.iter().any(|prefix| interface.name.starts_with(prefix)));
    first(all, default_route(&read("route")).as_deref())
}

/// The interfaces of the network that a process is in.
pub(super) fn of_process(pid: u32) -> Vec<Interface> {
    let text = Task::open(pid).and_then(|task| task.read("net/dev")).unwrap_or_default();
    let mut all = parsed(&String::from_utf8_lossy(&text));
    all.retain(|interface| interface.name != "lo");
    first(all, Some(POD_INTERFACE))
}

/// Moves the interface of this name to the beginning.
fn first(mut all: Vec<Interface>, name: Option<&str>) -> Vec<Interface> {
    all.sort_by_key(|interface| Some(interface.name.as_str()) != name);
    all
}

/// Lines `NAME: RX-BYTES RX-PACKETS RX-ERRORS … TX-BYTES TX-PACKETS TX-ERRORS …`, after two lines of headings.
fn parsed(text: &str) -> Vec<Interface> {
    let line = |line: &str| {
        let (name, counters) = line.split_once(':')?;
        let counters: Vec<u64> =
            counters.split_whitespace().map_while(|number| number.parse().ok()).collect();
        let [rx_bytes, _, rx_errors, _, _, _, _, _, tx_bytes, _, tx_errors, ..] = counters[..] else {
            return None;
        };
        Some(Interface { name: name.trim().to_owned(), rx_bytes, rx_errors, tx_bytes, tx_errors })
    };
    text.lines().filter_map(line).collect()
}

/// The interface of the route to everywhere (IPv4).
fn default_route(text: &str) -> Option<String> {
    let route = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (name, destination, mask) = (words.first()?, words.get(1)?, words.get(7)?);
        (*destination == "00000000" && *mask == "00000000").then(|| (*name).to_owned())
    };
    text.lines().find_map(route)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEV: &str = "Inter-|   Receive                                                |  Transmit\n \
        face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n    \
        lo:     100       1    0    0    0     0          0         0      100       1    0    0    0     0       0          0\n  \
        net1:      70       1    0    0    0     0          0         0       80       1    0    0    0     0       0          0\n  \
        eth0: 1296000     900    3    0    0     0          0         0    99000     800    4    0    0     0       0          0\n";

    #[test]
    fn the_interface_of_the_pod_or_of_the_route_comes_first() {
        let all = first(parsed(DEV), Some("eth0"));
        assert_eq!(all.iter().map(|i| i.name.as_str()).collect::<Vec<_>>(), ["eth0", "lo", "net1"]);
        let Interface { rx_bytes, rx_errors, tx_bytes, tx_errors, .. } = all[0];
        assert_eq!((rx_bytes, rx_errors, tx_bytes, tx_errors), (1_296_000, 3, 99_000, 4));
        let routes = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\nnet1\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\n";
        assert_eq!(default_route(routes).as_deref(), Some("net1"));
        assert_eq!(default_route("Iface\tDestination\n"), None);
    }

    #[test]
    fn a_process_has_the_interfaces_of_its_network() {
        let own = of_process(std::process::id());
        assert!(own.iter().all(|interface| interface.name != "lo"), "{own:?}");
        // Above the greatest PID of Linux: no such process.
        assert!(of_process(1 << 30).is_empty());
    }
}
