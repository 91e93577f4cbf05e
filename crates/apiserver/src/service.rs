//! The service manager of this process (systemd): when the node is ready, and that it still works.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use kubelet_api::SyncLoop;
use tracing::{error, warn};

/// A watchdog that fires earlier cannot be served reliably; a kubelet refuses it, too.
const SHORTEST: Duration = Duration::from_secs(1);

/// Why the service manager's settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The watchdog fires too early.
    #[error("the watchdog of the service manager fires after {}, which is too early", humantime(.0))]
    Watchdog(Duration),
}

impl ServiceError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        "set WatchdogSec= of the unit to 10s or more, or remove it"
    }
}

fn humantime(time: &Duration) -> String {
    format!("{} ms", time.as_millis())
}

/// What the service manager wants of this process.
#[derive(Debug, Default)]
pub(crate) struct Service {
    socket: Option<SocketAddr>,
    watchdog: Option<Duration>,
}

impl Service {
    /// Reads `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`.
    ///
    /// # Errors
    /// If the watchdog cannot be served.
    pub(crate) fn from_environment() -> Result<Self, ServiceError> {
        let number = |name: &str| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let is_of_other = number("WATCHDOG_PID").is_some_and(|pid| pid != u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|_| !is_of_other).map(Duration::from_micros);
        let socket = env::var_os("NOTIFY_SOCKET");
        Self::new(socket.as_deref(), watchdog)
    }

    fn new(socket: Option<&OsStr>, watchdog: Option<Duration>) -> Result<Self, ServiceError> {
        if let Some(time) = watchdog.filter(|time| *time <= SHORTEST) {
            return Err(ServiceError::Watchdog(time));
        }
        let socket = socket.and_then(|name| {
            let found = match name.as_bytes().strip_prefix(b"@") {
                Some(name) => SocketAddr::from_abstract_name(name),
                None => SocketAddr::from_pathname(name),
            };
            found.inspect_err(|cause| warn!("NOTIFY_SOCKET cannot be used: {cause}")).ok()
        });
        Ok(Self { socket, watchdog })
    }

    /// Says that the node is ready, then twice in each interval of the watchdog that it works, as long as it does. Ends
    /// never.
    pub(crate) async fn run(&self, sync_loop: &SyncLoop) {
        self.say("READY=1\n");
        let Some(watchdog) = self.watchdog else { return std::future::pending().await };
        let mut is_said = false;
        loop {
            if sync_loop.is_healthy() {
                self.say("WATCHDOG=1\n");
                is_said = false;
            } else if !std::mem::replace(&mut is_said, true) {
                error!(
                    "the loop that drives all pods does not turn; the service manager is to restart this process"
                );
            }
            tokio::time::sleep(watchdog / 2).await;
        }
    }

    /// Says that this process stops.
    pub(crate) fn stopping(&self) {
        self.say("STOPPING=1\n");
    }

    fn say(&self, state: &str) {
        let Some(socket) = &self.socket else { return };
        let send = || -> io::Result<usize> {
            let from = UnixDatagram::unbound()?;
            from.set_nonblocking(true)?;
            from.send_to_addr(state.as_bytes(), socket)
        };
        if let Err(cause) = send() {
            warn!("the service manager cannot be notified ({}): {cause}", state.trim_end());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_service_manager_hears_that_the_node_is_ready_and_works() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        manager.set_nonblocking(true).unwrap();
        let heard = || {
            let mut text = [0; 64];
            manager.recv(&mut text).ok().map(|count| String::from_utf8_lossy(&text[..count]).into_owned())
        };
        let service = Service::new(Some(path.as_os_str()), Some(Duration::from_secs(10))).unwrap();
        let sync_loop = SyncLoop::default();
        let _ = tokio::time::timeout(Duration::from_secs(11), service.run(&sync_loop)).await;
        let said: Vec<String> = std::iter::from_fn(heard).collect();
        assert_eq!(said, ["READY=1\n", "WATCHDOG=1\n", "WATCHDOG=1\n", "WATCHDOG=1\n"]);
        service.stopping();
        assert_eq!(heard().as_deref(), Some("STOPPING=1\n"));
    }

    #[test]
    fn a_watchdog_of_a_second_is_refused_and_no_manager_is_no_error() {
        let error = Service::new(None, Some(Duration::from_secs(1))).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the watchdog of the service manager fires after 1000 ms, which is too early"
        );
        Service::new(None, None).unwrap().stopping();
        Service::new(Some(OsStr::new("/no/such/socket")), None).unwrap().stopping();
    }
}
