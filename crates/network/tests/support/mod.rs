//! A host with an outside and pods, each in a network namespace of its own, none of them the machine's.
#![allow(dead_code, clippy::unwrap_used, clippy::panic, clippy::expect_used)]

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use ids::{IdBlock, IdMapping};
use kernel::{Namespace, NamespaceKind, UsernsFd};
use network::{Addresses, HostPort, Kind, Network, Pod, Protocol, Settings};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// For tests that change the limit of open descriptors, which is the whole process's.
pub(crate) static NOFILE_LIMIT: Mutex<()> = Mutex::new(());

pub(crate) const HOST: &str = "192.0.2.1";
pub(crate) const OUTSIDE: &str = "192.0.2.2";
pub(crate) const HOST6: &str = "2001:db8::1";
pub(crate) const OUTSIDE6: &str = "2001:db8::2";
/// Long enough for what works, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);
/// Long enough to say that what does not work does not.
const DOUBT: Duration = Duration::from_millis(400);

pub(crate) struct Lab {
    pub(crate) host: Namespace,
    pub(crate) outside: Namespace,
    pub(crate) dir: TempDir,
    pub(crate) runtime: Runtime,
}

impl Lab {
    /// A host with one device, at whose other end is the outside, which knows nothing of pods.
    pub(crate) fn new() -> Self {
        let lab = Self {
            host: namespace(None),
            outside: namespace(None),
            dir: tempfile::tempdir().unwrap(),
            runtime: Runtime::new().unwrap(),
        };
        // A new namespace takes these over from the machine.
        for setting in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            sysctl(&lab.host, setting, "0");
        }
        let far = path(&lab.outside).display().to_string();
        lab.at_host(|| {
            ip("link set lo up");
            ip(&format!("link add up0 type veth peer name eth0 netns {far}"));
            ip(&format!("addr add {HOST}/24 dev up0"));
            ip(&format!("addr add {HOST6}/64 dev up0 nodad"));
            ip("link set up0 up");
        });
        at(&lab.outside, || {
            ip("link set lo up");
            ip(&format!("addr add {OUTSIDE}/24 dev eth0"));
            ip(&format!("addr add {OUTSIDE6}/64 dev eth0 nodad"));
            ip("link set eth0 up");
        });
        lab
    }

    pub(crate) fn at_host<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        at(&self.host, work)
    }

    /// Opens the network as a runtime that has just started would.
    pub(crate) fn try_open(&self, kind: Kind) -> network::Result<Network> {
        let state = self.dir.path().to_owned();
        self.at_host(|| self.runtime.block_on(Network::open(Settings { state, kind })))
    }

    pub(crate) fn open(&self, kind: Kind) -> Network {
        self.try_open(kind).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn try_set_up(&self, network: &Network, pod: &Ward) -> network::Result<Addresses> {
        self.runtime.block_on(network.set_up(&pod.pod))
    }

    /// The pod's first address.
    pub(crate) fn set_up(&self, network: &Network, pod: &Ward) -> IpAddr {
        let made = self.try_set_up(network, pod).unwrap_or_else(|error| panic!("{error}"));
        made.ips[0]
    }

    pub(crate) fn tear_down(&self, network: &Network, pod: &Ward) {
        self.runtime.block_on(network.tear_down(&pod.pod.id, Some(&pod.pod.netns))).unwrap();
    }

    pub(crate) fn leases(&self, network: &Network) -> Vec<String> {
        self.runtime.block_on(network.leases()).unwrap()
    }

    /// The names of the host's devices.
    pub(crate) fn devices(&self) -> Vec<String> {
        devices(&self.host)
    }

    pub(crate) fn lease_files(&self) -> usize {
        std::fs::read_dir(self.dir.path().join("network/leases")).unwrap().count()
    }
}

pub(crate) fn bridge() -> Kind {
    Kind::default()
}

pub(crate) fn bridge_with(subnets: &str) -> Kind {
    Kind::Bridge { name: "wardlet0".into(), subnets: Some(subnets.parse().unwrap()), mtu: None }
}

/// A pod with a user namespace of its own, which its network namespace belongs to.
pub(crate) struct Ward {
    pub(crate) ns: Namespace,
    pub(crate) pod: Pod,
    userns: UsernsFd,
}

impl Ward {
    pub(crate) fn new(name: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let base = 1_073_741_824 + number % 1000 * 65_536;
        let map = [IdMapping::of_block(IdBlock::new(base, 65_536).unwrap())];
        let userns = UsernsFd::create(&map, &map).unwrap();
        let ns = namespace(Some(&userns));
        let pod = Pod {
            id: format!("{number:08x}{:024x}", std::process::id()),
            name: name.into(),
            namespace: "default".into(),
            uid: format!("uid-{number}"),
            netns: path(&ns),
            host_ports: vec![],
            annotations: BTreeMap::new(),
        };
        Self { ns, pod, userns }
    }

    pub(crate) fn with_port(mut self, port: HostPort) -> Self {
        self.pod.host_ports.push(port);
        self
    }

    /// Gives it a new network namespace, as a sandbox that is made again has.
    pub(crate) fn renew(&mut self) {
        self.ns = namespace(Some(&self.userns));
        self.pod.netns = path(&self.ns);
    }
}

pub(crate) fn port(protocol: Protocol, host_port: u16, container_port: u16) -> HostPort {
    HostPort { protocol, host_ip: None, host_port, container_port }
}

pub(crate) fn namespace(userns: Option<&UsernsFd>) -> Namespace {
    kernel::namespace::make(userns, &[NamespaceKind::Net], None).unwrap().remove(0)
}

pub(crate) fn path(ns: &Namespace) -> PathBuf {
    format!("/proc/{}/fd/{}", std::process::id(), ns.as_fd().as_raw_fd()).into()
}

/// Does the work in a namespace, on a thread of its own.
pub(crate) fn at<T: Send>(ns: &Namespace, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let inside = || {
            move_into_link_name_space(ns.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            work()
        };
        scope.spawn(inside).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Runs `ip` for what is not ours to make.
pub(crate) fn ip(words: &str) -> String {
    let done = Command::new("ip").args(words.split_whitespace()).output();
    let done = done.unwrap_or_else(|e| panic!("this test needs ip, apt-get install iproute2: {e}"));
    assert!(done.status.success(), "ip {words}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

pub(crate) fn devices(ns: &Namespace) -> Vec<String> {
    let listed = at(ns, || ip("-o link show"));
    let name = |line: &str| line.split([':', '@']).nth(1).unwrap().trim().to_owned();
    listed.lines().map(name).collect()
}

/// Sets one of /proc/sys/net in a namespace.
pub(crate) fn sysctl(ns: &Namespace, name: &str, value: &str) {
    let file = format!("/proc/sys/net/{name}");
    at(ns, || std::fs::write(&file, value)).unwrap_or_else(|error| panic!("{file}: {error}"));
}

pub(crate) fn listen(ns: &Namespace, address: &str) -> TcpListener {
    at(ns, || TcpListener::bind(address)).unwrap_or_else(|error| panic!("{address}: {error}"))
}

/// A connection from `ns`, through which words go both ways; the client as the server sees it.
pub(crate) fn talk(ns: &Namespace, server: &TcpListener, target: &str) -> IpAddr {
    let target: SocketAddr = target.parse().unwrap();
    let connected = at(ns, || TcpStream::connect_timeout(&target, PATIENCE));
    let mut client = connected.unwrap_or_else(|error| panic!("to {target}: {error}"));
    let (mut accepted, peer) = server.accept().unwrap();
    for stream in [&client, &accepted] {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    client.write_all(b"question").unwrap();
    let mut heard = [0; 8];
    accepted.read_exact(&mut heard).unwrap();
    accepted.write_all(&heard).unwrap();
    client.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"question");
    peer.ip()
}

/// What becomes of a connection that should not come about.
pub(crate) fn cannot_connect(ns: &Namespace, target: &str) -> io::Error {
    let target: SocketAddr = target.parse().unwrap();
    at(ns, || TcpStream::connect_timeout(&target, DOUBT))
        .map(|_| panic!("connected to {target}"))
        .unwrap_err()
}

pub(crate) fn listen_udp(ns: &Namespace, address: &str) -> UdpSocket {
    let socket = at(ns, || UdpSocket::bind(address)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// A question and its answer; the client as the server sees it.
pub(crate) fn talk_udp(ns: &Namespace, server: &UdpSocket, target: &str) -> IpAddr {
    let any = if target.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
    let client = listen_udp(ns, any);
    client.connect(target).unwrap();
    client.send(b"question").unwrap();
    let mut heard = [0; 16];
    let (length, peer) =
        again(|| server.recv_from(&mut heard)).unwrap_or_else(|error| panic!("to {target}: {error}"));
    server.send_to(&heard[..length], peer).unwrap();
    assert_eq!(again(|| client.recv(&mut heard)).unwrap_or_else(|error| panic!("from {target}: {error}")), 8);
    peer.ip()
}

/// Reads again where the kernel broke off waiting, as it does when a process is stopped for a moment.
pub(crate) fn again<T>(mut read: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match read() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Removes the firewall's rules as `nft delete table ip wardlet0` does.
pub(crate) fn lose_rules(host: &Namespace) {
    let message = |kind: u16, flags: u16, body: &[u8]| {
        let length = u32::try_from(16 + body.len()).unwrap();
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend([kind, flags].iter().flat_map(|number| number.to_ne_bytes()));
        bytes.extend([0; 8]);
        bytes.extend(body);
        bytes
    };
    let name = [&[2, 0, 0, 0, 13, 0, 1, 0][..], b"wardlet0\0", &[0; 3]].concat();
    let batch =
        [message(16, 1, &[0, 0, 0, 10]), message(10 << 8 | 2, 1 | 4, &name), message(17, 1, &[0, 0, 0, 10])]
            .concat();
    let answer = at(host, || {
        let mut socket = netlink_sys::Socket::new(netlink_sys::constants::NETLINK_NETFILTER)?;
        socket.bind_auto()?;
        socket.send_to(&batch, &netlink_sys::SocketAddr::new(0, 0), 0)?;
        socket.recv_from_full()
    });
    assert_eq!(answer.unwrap().0.get(16..20), Some(&[0; 4][..]), "the rules were there, and are gone");
}
