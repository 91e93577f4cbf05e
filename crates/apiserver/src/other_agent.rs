//! Another agent of this node that still runs: a kubelet that was not stopped, or a second `wardlet agent`. Two of them
//! would end each other's pods and give out the same host IDs, so the second one ends before it touches anything.

use std::fs::{File, Metadata};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::node::kubelet::KubeletConfig;
use durable::Guard;
use procfs::{Proc, Task};

/// What a kubelet is called.
const KUBELET: &[u8] = b"kubelet";
/// The kubelet's flag for its root directory.
const ROOT_FLAG: &[u8] = b"--root-dir";
/// Where that is without the flag.
const DEFAULT_ROOT: &str = "/var/lib/kubelet";
/// Sockets that a kubelet serves in its root directory.
const SOCKETS: [&str; 2] = ["pod-resources/kubelet.sock", "device-plugins/kubelet.sock"];
/// How long an agent that is ending may hold its lock.
const PATIENCE: Duration = Duration::from_secs(10);

/// Another agent of the node, or what it has.
#[derive(Debug, thiserror::Error)]
pub enum OtherAgent {
    /// A kubelet runs on the same root directory.
    #[error("a kubelet (process {pid}) runs with the root directory {}", root.display())]
    Kubelet {
        /// Its process.
        pid: u32,
        /// The root directory.
        root: PathBuf,
    },
    /// A process serves a socket of a kubelet in the root directory.
    #[error("a process serves {}, as a kubelet does", socket.display())]
    Socket {
        /// The socket.
        socket: PathBuf,
    },
    /// A process listens on a port of the kubelet.
    #[error("a process listens on {address}, {what}")]
    Port {
        /// The address with the port.
        address: SocketAddr,
        /// What the port is.
        what: &'static str,
    },
    /// Another `wardlet agent` runs on the same root directory.
    #[error("another wardlet agent runs with the root directory {}", root.display())]
    Agent {
        /// The root directory.
        root: PathBuf,
    },
    /// The root directory cannot be locked.
    #[error(transparent)]
    Lock(#[from] durable::Error),
}

impl OtherAgent {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        let text = match self {
            Self::Kubelet { .. } | Self::Socket { .. } => {
                "stop it and keep it from being started again: `systemctl disable --now kubelet`; its pods run on"
            }
            Self::Port { .. } => {
                "`ss -ltnp` names the process: stop a kubelet with `systemctl disable --now kubelet`, or set another port in the configuration"
            }
            Self::Agent { .. } => "stop it, or give this one another --root-dir and --state-dir",
            Self::Lock(_) => "--root-dir must be a directory of root",
        };
        text.to_owned()
    }
}

/// Looks for another agent of this node, and changes nothing. `serves_api` is whether this one is to serve the kubelet's API.
///
/// # Errors
/// If there is one.
pub fn refuse(config: &KubeletConfig, root: &Path, serves_api: bool) -> Result<(), OtherAgent> {
    if let Ok(found) = root.metadata() {
        if let Some(pid) = kubelet(&found) {
            return Err(OtherAgent::Kubelet { pid, root: root.to_owned() });
        }
        let mut sockets = SOCKETS.iter().map(|name| root.join(name));
        if let Some(socket) = sockets.find(|socket| UnixStream::connect(socket).is_ok()) {
            return Err(OtherAgent::Socket { socket });
        }
    }
    let api = (SocketAddr::new(config.address, config.port), "the port of the kubelet's API");
    let health = (
        SocketAddr::new(config.healthz_bind_address, config.healthz_port),
        "the port of the kubelet's health",
    );
    for (address, what) in serves_api.then_some(api).into_iter().chain([health]) {
        if address.port() != 0 && is_taken(address) {
            return Err(OtherAgent::Port { address, what });
        }
    }
    Ok(())
}

/// Locks the root directory for as long as the returned value lives. Nothing is written for it.
///
/// # Errors
/// If another `wardlet agent` has it.
pub fn lock(root: &Path) -> Result<Guard, OtherAgent> {
    let io = |cause| durable::Error::Io { action: "open", path: root.to_owned(), cause };
    let dir = File::open(root).map_err(io)?;
    match Guard::lock(dir, root, PATIENCE) {
        Err(durable::Error::Locked { .. }) => Err(OtherAgent::Agent { root: root.to_owned() }),
        locked => Ok(locked?),
    }
}

/// Other failures are reported when the port is served.
fn is_taken(address: SocketAddr) -> bool {
    TcpListener::bind(address).is_err_and(|error| error.kind() == std::io::ErrorKind::AddrInUse)
}

/// The process of a kubelet on this root directory, also in another mount namespace: the path says nothing there.
fn kubelet(root: &Metadata) -> Option<u32> {
    let proc = Proc::own().ok()?;
    let runs = |task: &Task| {
        // One that ends meanwhile is none.
        let arguments = task.arguments().ok()?;
        let below = Path::new("/proc").join(task.id().to_string()).join("root");
        let dir = root_dir(&arguments)?;
        let found = below.join(dir.strip_prefix("/").unwrap_or(&dir)).metadata().ok()?;
        ((found.dev(), found.ino()) == (root.dev(), root.ino())).then_some(())
    };
    let found = proc.processes().ok()?.flatten().find(|task| runs(task).is_some());
    found.map(|task| task.id())
}

/// The root directory of a kubelet with these arguments; `None` for another program.
fn root_dir(arguments: &[Vec<u8>]) -> Option<PathBuf> {
    let (program, flags) = arguments.split_first()?;
    if program.rsplit(|byte| *byte == b'/').next() != Some(KUBELET) {
        return None;
    }
    let mut value = None;
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        match flag.strip_prefix(ROOT_FLAG) {
            Some([]) => value = flags.next().map(Vec::as_slice),
            Some([b'=', rest @ ..]) => value = Some(rest),
            _ => {}
        }
    }
    Some(
        value.map_or_else(
            || PathBuf::from(DEFAULT_ROOT),
            |text| PathBuf::from(std::ffi::OsStr::from_bytes(text)),
        ),
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    fn of(arguments: &[&str]) -> Option<PathBuf> {
        let arguments: Vec<Vec<u8>> = arguments.iter().map(|text| text.as_bytes().to_vec()).collect();
        root_dir(&arguments)
    }

    fn config(port: u16, healthz: u16) -> KubeletConfig {
        let text = format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\naddress: 127.0.0.1\nport: {port}\n\
             healthzPort: {healthz}\n"
        );
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.yaml");
        std::fs::write(&file, text).unwrap();
        let flags = ::node::kubelet::KubeletFlags::parse(&[]).unwrap();
        KubeletConfig::load(Some(&file), None, &flags).unwrap().config
    }

    #[test]
    fn the_root_directory_of_a_kubelet_is_read_in_its_arguments() {
        let default = Some(PathBuf::from(DEFAULT_ROOT));
        assert_eq!(of(&["/usr/bin/kubelet", "--v=2"]), default);
        assert_eq!(of(&["kubelet", "--root-dir=/data/k"]), Some("/data/k".into()));
        assert_eq!(of(&["kubelet", "--root-dir", "/data/k", "--v=2"]), Some("/data/k".into()));
        assert_eq!(of(&["kubelet", "--root-directory=/other"]), default);
        for other in [&["/usr/bin/kubelet-wrapper"][..], &["wardlet", "agent"], &["sh", "-c", "kubelet"], &[]]
        {
            assert_eq!(of(other), None);
        }
    }

    #[test]
    fn a_port_or_a_socket_that_is_served_refuses_the_agent() {
        let root = tempfile::tempdir().unwrap();
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        refuse(&config(free(), 0), root.path(), true).unwrap();
        for (config, serves_api) in [(config(port, 0), true), (config(free(), port), false)] {
            let error = refuse(&config, root.path(), serves_api).unwrap_err();
            assert!(matches!(&error, OtherAgent::Port { address, .. } if address.port() == port), "{error}");
            assert!(error.hint().contains("ss -ltnp"));
        }
        // A node of static pods alone does not serve the API.
        refuse(&config(port, 0), root.path(), false).unwrap();

        std::fs::create_dir(root.path().join("pod-resources")).unwrap();
        let socket = root.path().join("pod-resources/kubelet.sock");
        let served = UnixListener::bind(&socket).unwrap();
        assert!(matches!(refuse(&config(0, 0), root.path(), true), Err(OtherAgent::Socket { .. })));
        // What a kubelet that was killed leaves.
        drop(served);
        assert!(socket.exists());
        refuse(&config(0, 0), root.path(), true).unwrap();
        refuse(&config(0, 0), Path::new("/nonexistent"), true).unwrap();
    }

    #[test]
    fn a_root_directory_has_one_agent() {
        let root = tempfile::tempdir().unwrap();
        let held = lock(root.path()).unwrap();
        // What is in it says nothing of the lock.
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
        let dir = File::open(root.path()).unwrap();
        assert!(Guard::try_lock(dir, root.path()).unwrap().is_none());
        drop(held);
        lock(root.path()).unwrap();
    }
}
