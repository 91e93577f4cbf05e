//! What went over network interfaces, from `/proc/…/net/dev`.

use std::path::Path;

use kubelet_api::{Interface, POD_INTERFACE};
use procfs::{NamespaceLink, Proc, Task};

/// Beginnings of the names of interfaces that are left out, as with a kubelet: those that lead nowhere, and the host's ends of
/// those of pods.
const IGNORED: [&str; 4] = ["lo", "veth", "docker", "nerdctl"];

/// How much of a network namespace is read.
#[derive(Debug, Clone, Copy)]
struct Most {
    bytes: usize,
    interfaces: usize,
}

/// A container with `NET_ADMIN` can make any number of interfaces. A line has about 130 bytes.
const OF_POD: Most = Most { bytes: 64 << 10, interfaces: 64 };
/// Some networks have an interface of the host for each pod.
const OF_HOST: Most = Most { bytes: 1 << 20, interfaces: 1024 };

/// The network namespaces of this machine.
#[derive(Debug)]
pub(super) struct Networks {
    /// Where processes have the numbers that cgroups list.
    own: Proc,
    /// The first process of the host.
    first: Option<Task>,
    /// Its network namespace.
    host: Option<NamespaceLink>,
}

impl Networks {
    pub(super) fn open(host_root: &Path) -> procfs::Result<Self> {
        Ok(Self::of(Proc::own()?, &Proc::at(&host_root.join("proc"))?))
    }

    fn of(own: Proc, host: &Proc) -> Self {
        let first = host.process(1).ok();
        let host = first.as_ref().and_then(|first| first.namespace("net").ok());
        Self { own, first, host }
    }

    /// The interfaces of the host.
    pub(super) fn of_host(&self) -> Vec<Interface> {
        self.first.as_ref().map(|first| read(first, OF_HOST)).unwrap_or_default()
    }

    /// The interfaces of the network that a process of a pod is in; none if that is the host's: a privileged process may go there.
    pub(super) fn of_process(&self, process: u32) -> Vec<Interface> {
        let Ok(task) = self.own.process(process) else { return Vec::new() };
        let is_of_pod =
            task.namespace("net").is_ok_and(|own| self.host.as_ref().is_some_and(|host| *host != own));
        if is_of_pod { read(&task, OF_POD) } else { Vec::new() }
    }
}

fn read(task: &Task, most: Most) -> Vec<Interface> {
    let text = task.read_up_to("net/dev", most.bytes).unwrap_or_default();
    // The last line is cut if not all was read.
    let whole =
        text.iter().rposition(|byte| *byte == b'\n').and_then(|end| text.get(..end)).unwrap_or_default();
    let mut all = parsed(&String::from_utf8_lossy(whole));
    let ignored = |name: &str| IGNORED.iter().any(|prefix| name.to_ascii_lowercase().starts_with(prefix));
    all.retain(|interface| !ignored(&interface.name));
    // The one that every pod has is kept in any case.
    all.sort_by_key(|interface| interface.name != POD_INTERFACE);
    all.truncate(most.interfaces);
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    const HEAD: &str = "Inter-|   Receive                                                |  Transmit\n \
        face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n";

    /// A proc filesystem with these processes: number, inode of the network namespace, interfaces.
    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn put(&self, process: u32, namespace: u32, interfaces: &[&str]) {
            let dir = self.0.path().join(process.to_string());
            fs::create_dir_all(dir.join("ns")).unwrap();
            fs::create_dir_all(dir.join("net")).unwrap();
            symlink(format!("net:[{namespace}]"), dir.join("ns/net")).unwrap();
            let lines = interfaces
                .iter()
                .map(|name| format!("{name:>6}: 129600 900 3 0 0 0 0 0 99000 800 4 0 0 0 0 0\n"));
            fs::write(dir.join("net/dev"), lines.fold(HEAD.to_owned(), |all, line| all + &line)).unwrap();
        }

        fn networks(&self) -> Networks {
            Networks::of(Proc::at(self.0.path()).unwrap(), &Proc::at(self.0.path()).unwrap())
        }
    }

    fn names(all: &[Interface]) -> Vec<&str> {
        all.iter().map(|interface| interface.name.as_str()).collect()
    }

    #[test]
    fn interfaces_are_read_without_those_of_others() {
        let machine = Machine::new();
        machine.put(1, 7, &["lo", "ens3", "vethab12", "docker0", "nerdctl0", "Docker1", "cni0", "eth0"]);
        machine.put(40, 8, &["lo", "net1", "eth0"]);
        let networks = machine.networks();
        assert_eq!(names(&networks.of_host()), ["eth0", "ens3", "cni0"]);
        let pod = networks.of_process(40);
        assert_eq!(names(&pod), ["eth0", "net1"]);
        let Interface { rx_bytes, rx_errors, tx_bytes, tx_errors, .. } = pod[0];
        assert_eq!((rx_bytes, rx_errors, tx_bytes, tx_errors), (129_600, 3, 99_000, 4));
        assert!(networks.of_process(41).is_empty(), "there is no such process");
    }

    /// A process in the host's network showed the host's traffic as that of its pod.
    #[test]
    fn a_process_in_the_hosts_network_shows_nothing() {
        let machine = Machine::new();
        machine.put(1, 7, &["eth0"]);
        machine.put(40, 7, &["eth0"]);
        assert!(machine.networks().of_process(40).is_empty());
        fs::remove_file(machine.0.path().join("1/ns/net")).unwrap();
        assert!(machine.networks().of_process(40).is_empty(), "the host's is not known");
    }

    /// A pod with `NET_ADMIN` made 20 000 interfaces.
    #[test]
    fn of_a_pod_with_many_interfaces_a_few_are_read() {
        let machine = Machine::new();
        machine.put(1, 7, &["eth0"]);
        let many: Vec<String> = (0..20_000).map(|number| format!("d{number}")).collect();
        let mut all: Vec<&str> = many.iter().map(String::as_str).collect();
        all.insert(100, "eth0");
        machine.put(40, 8, &all);
        let found = machine.networks().of_process(40);
        assert_eq!((found.len(), found[0].name.as_str(), found[1].name.as_str()), (64, "eth0", "d0"));
        let task = machine.networks().own.process(40).unwrap();
        // No line is cut, as the counters of the last one would be.
        let most = Most { bytes: HEAD.len() + 100, interfaces: 64 };
        let cut = read(&task, most);
        assert!(cut.len() == 1 && cut[0].tx_errors == 4, "{cut:?}");
    }
}
