//! Another agent of this node that still runs: a kubelet that was not stopped, or a second `wardlet agent`. Two of them
//! would end each other's pods and give out the same host IDs, so the second one ends before it touches anything.

mod process;

use std::fs::Metadata;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::node::kubelet::KubeletConfig;
use durable::{Guard, Lock};
use process::{kubelet_on, pods_cgroups};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// Sockets that a kubelet serves in its root directory.
const SOCKETS: [&str; 2] = ["pod-resources/kubelet.sock", "device-plugins/kubelet.sock"];
/// The directory of the locks of all agents of this machine, whatever their state and run directories are.
const LOCKS: &str = "/run/wardlet-agent";
const LOCKS_MODE: u32 = 0o700;
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
            Self::Lock(error) => error.hint().unwrap_or("--root-dir must be a directory of root"),
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
        if let Some(pid) = kubelet_on(&found, &pods_cgroups(config)) {
            return Err(OtherAgent::Kubelet { pid, root: root.to_owned() });
        }
        let mut sockets = SOCKETS.iter().map(|name| root.join(name));
        if let Some(socket) = sockets.find(|socket| is_served(socket)) {
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

/// Locks the root directory for as long as the returned value lives. Nothing is written into it.
///
/// # Errors
/// If another `wardlet agent` has it.
pub fn lock(root: &Path) -> Result<Guard, OtherAgent> {
    lock_in(Path::new(LOCKS), root)
}

/// The same with the lock in another directory. Only root can open the lock file: every user that can read the root directory
/// could hold a lock of that.
fn lock_in(locks: &Path, root: &Path) -> Result<Guard, OtherAgent> {
    let io = |cause| durable::Error::Io { action: "read", path: root.to_owned(), cause };
    let found = root.metadata().map_err(io)?;
    let locks = durable::make_owned_dirs(locks, LOCKS_MODE)?;
    match Lock::at(locks.join(lock_name(&found))).acquire(PATIENCE) {
        Err(durable::Error::Locked { .. }) => Err(OtherAgent::Agent { root: root.to_owned() }),
        locked => Ok(locked?),
    }
}

/// The lock file of a root directory, whatever path leads there.
fn lock_name(root: &Metadata) -> String {
    format!("root-{:x}-{:x}.lock", root.dev(), root.ino())
}

/// Whether a process listens on a socket, also one that accepts no connections. This does not wait.
fn is_served(path: &Path) -> bool {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let connected = || -> rustix::io::Result<()> {
        let address = SocketAddrUnix::new(path)?;
        connect(socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?, &address)
    };
    // Its queue is full.
    matches!(connected(), Ok(()) | Err(Errno::AGAIN))
}

/// Other failures are reported when the port is served.
fn is_taken(address: SocketAddr) -> bool {
    TcpListener::bind(address).is_err_and(|error| error.kind() == std::io::ErrorKind::AddrInUse)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;

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
        // It has accepted nothing: with a queue for one client alone, connecting waits.
        rustix::net::listen(&served, 0).unwrap();
        assert!(matches!(refuse(&config(0, 0), root.path(), true), Err(OtherAgent::Socket { .. })));
        // What a kubelet that was killed leaves.
        drop(served);
        assert!(socket.exists());
        refuse(&config(0, 0), root.path(), true).unwrap();
        refuse(&config(0, 0), Path::new("/nonexistent"), true).unwrap();
    }

    #[test]
    fn a_root_directory_has_one_agent() {
        let (locks, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let locks = locks.path().join("locks");
        let held = lock_in(&locks, root.path()).unwrap();
        // What is in it says nothing of the lock.
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
        let file = locks.join(lock_name(&root.path().metadata().unwrap()));
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let link = locks.join("link");
        symlink(root.path(), &link).unwrap();
        let again = locks.join(lock_name(&link.metadata().unwrap()));
        assert!(Lock::at(again).try_acquire().unwrap().is_none(), "by another path");
        drop(held);
        lock_in(&locks, root.path()).unwrap();
    }

    /// Any user that could read the root directory kept the agent from starting.
    #[test]
    fn a_lock_of_the_directory_itself_is_no_agents() {
        let (locks, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let dir = File::open(root.path()).unwrap();
        let _held = Guard::try_lock(dir, root.path()).unwrap().unwrap();
        lock_in(locks.path(), root.path()).unwrap();
    }
}
