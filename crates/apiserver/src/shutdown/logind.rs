//! systemd-logind: it delays the shutdown of the machine while a program holds a lock, and says when it begins.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dbus::{Body, Call, Connection, Error};
use tokio::sync::mpsc;
use tracing::info;

/// The system's message bus.
const BUS: &str = "run/dbus/system_bus_socket";
const NAME: &str = "org.freedesktop.login1";
const OBJECT: &str = "/org/freedesktop/login1";
const MANAGER: &str = "org.freedesktop.login1.Manager";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
const SIGNAL: &str = "PrepareForShutdown";
const MATCH: &str = "type='signal',sender='org.freedesktop.login1',path='/org/freedesktop/login1',\
                     interface='org.freedesktop.login1.Manager',member='PrepareForShutdown'";
/// Raises the longest delay that logind grants; a kubelet writes the same file.
const OVERRIDE: &str = "etc/systemd/logind.conf.d/99-kubelet.conf";
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often the receiver is looked at while nothing happens.
const PAUSE: Duration = Duration::from_secs(1);
/// How often the delay is read after it was raised; the pause between doubles.
const READS: u32 = 6;
const READ_PAUSE: Duration = Duration::from_millis(100);

/// What logind says.
#[derive(Debug)]
pub(crate) enum Event {
    /// The shutdown is delayed until this is closed.
    Locked(OwnedFd),
    /// The machine shuts down.
    Begins,
    /// It does not, after all.
    Cancelled,
}

/// Why logind cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogindError {
    /// The bus or logind does not do what it was asked for.
    #[error("systemd-logind: {0}")]
    Bus(#[from] Error),
    /// The file that raises the delay cannot be written.
    #[error("{0}")]
    File(#[from] durable::Error),
    /// The directory of that file cannot be made.
    #[error("cannot make {}: {cause}", dir.display())]
    Dir { dir: PathBuf, cause: io::Error },
    /// logind keeps its delay.
    #[error("systemd-logind delays a shutdown for at most {} s, and pods need {} s", .has.as_secs(), .wanted.as_secs())]
    Delay { has: Duration, wanted: Duration },
    /// What it answers is not what it should be.
    #[error("systemd-logind has answered something else than {0}")]
    Answer(&'static str),
}

/// What was reported of shutdowns, also over a connection that was lost.
#[derive(Debug, Default)]
pub(crate) struct Reported {
    is_under_way: bool,
}

/// A change of what was reported.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Begins,
    Cancelled,
}

impl Reported {
    /// Notes what logind says now; `None` if that is not new.
    fn note(&mut self, is_under_way: bool) -> Option<Change> {
        let was_under_way = std::mem::replace(&mut self.is_under_way, is_under_way);
        match (was_under_way, is_under_way) {
            (false, true) => Some(Change::Begins),
            (true, false) => Some(Change::Cancelled),
            _ => None,
        }
    }
}

/// Watches for shutdowns that may take `wanted`, until there is no receiver any more or the connection is lost. Blocks.
///
/// # Errors
/// If logind cannot be used, or no longer.
pub(crate) fn watch(
    host_root: &Path,
    wanted: Duration,
    reported: &mut Reported,
    events: &mpsc::Sender<Event>,
) -> Result<(), LogindError> {
    let mut logind = Logind { bus: Connection::bus(&host_root.join(BUS), PATIENCE)? };
    logind.bus.receive_only_from(NAME)?;
    logind.bus.add_match(MATCH)?;
    // Without a receiver an event is dropped.
    let send = |event: Event| drop(events.blocking_send(event));
    // A shutdown may have begun, or was cancelled, before anything was received.
    let is_under_way = logind.is_shutting_down()?;
    match reported.note(is_under_way) {
        Some(Change::Begins) => send(Event::Begins),
        Some(Change::Cancelled) => send(Event::Cancelled),
        None => {}
    }
    // logind grants no lock during a shutdown.
    if !is_under_way {
        logind.raise_delay(host_root, wanted)?;
        send(Event::Locked(logind.inhibit()?));
    }
    while !events.is_closed() {
        let Some(signal) = logind.bus.next_signal(PAUSE)? else { continue };
        if signal.member != SIGNAL || signal.interface != MANAGER {
            continue;
        }
        match reported.note(logind.is_shutting_down()?) {
            Some(Change::Begins) => send(Event::Begins),
            Some(Change::Cancelled) => {
                send(Event::Cancelled);
                send(Event::Locked(logind.inhibit()?));
            }
            None => {}
        }
    }
    Ok(())
}

struct Logind {
    bus: Connection,
}

impl Logind {
    fn call(&mut self, interface: &str, method: &str, body: &Body) -> Result<dbus::Reply, Error> {
        self.bus.call(&Call { path: OBJECT, destination: NAME, interface, method, body })
    }

    fn property(&mut self, name: &str) -> Result<dbus::Reply, Error> {
        self.call(PROPERTIES, "Get", &Body::default().text(MANAGER).text(name))
    }

    fn is_shutting_down(&mut self) -> Result<bool, LogindError> {
        let found = self.property("PreparingForShutdown")?.property_flag();
        found.ok_or(LogindError::Answer("whether the machine shuts down"))
    }

    /// The longest delay that logind grants.
    fn delay(&mut self) -> Result<Duration, LogindError> {
        let found = self.property("InhibitDelayMaxUSec")?.property_number();
        found.map(Duration::from_micros).ok_or(LogindError::Answer("its longest delay"))
    }

    /// A lock that delays a shutdown until it is closed.
    fn inhibit(&mut self) -> Result<OwnedFd, LogindError> {
        let why = "Kubelet needs time to handle node shutdown";
        let body = Body::default().text("shutdown").text("kubelet").text(why).text("delay");
        let mut answer = self.call(MANAGER, "Inhibit", &body)?;
        answer.files.pop().ok_or(LogindError::Answer("a lock"))
    }

    /// Has logind grant this delay, if it grants less.
    fn raise_delay(&mut self, host_root: &Path, wanted: Duration) -> Result<(), LogindError> {
        let before = self.delay()?;
        if wanted <= before {
            return Ok(());
        }
        let file = host_root.join(OVERRIDE);
        if let Some(dir) = file.parent() {
            let made = std::fs::create_dir_all(dir);
            made.map_err(|cause| LogindError::Dir { dir: dir.to_owned(), cause })?;
        }
        durable::write(&file, conf(wanted).as_bytes())?;
        self.reload()?;
        let (mut has, mut pause) = (before, READ_PAUSE);
        for _ in 0..READS {
            has = self.delay()?;
            if wanted <= has {
                info!(
                    "systemd-logind delays a shutdown for {} s for pods: {}",
                    has.as_secs(),
                    file.display()
                );
                return Ok(());
            }
            std::thread::sleep(pause);
            pause *= 2;
        }
        Err(LogindError::Delay { has, wanted })
    }

    /// Has logind read its configuration again.
    fn reload(&mut self) -> Result<(), Error> {
        const SIGHUP: i32 = 1;
        let body = Body::default().text("systemd-logind.service").text("all").signed(SIGHUP);
        let call = Call {
            path: "/org/freedesktop/systemd1",
            destination: "org.freedesktop.systemd1",
            interface: "org.freedesktop.systemd1.Manager",
            method: "KillUnit",
            body: &body,
        };
        self.bus.call(&call).map(drop)
    }
}

/// The configuration that raises the delay.
fn conf(wanted: Duration) -> String {
    let seconds = wanted.as_secs() + u64::from(wanted.subsec_nanos() > 0);
    format!(
        "# Written by the node agent, so that pods have time to end when the machine shuts down.\n[Login]\nInhibitDelayMaxSec={seconds}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A signal without a shutdown started static pods again and took another lock.
    #[test]
    fn only_a_change_is_reported() {
        let mut reported = Reported::default();
        let changes = [false, true, true, false, false].map(|is_under_way| reported.note(is_under_way));
        assert_eq!(changes, [None, Some(Change::Begins), None, Some(Change::Cancelled), None]);
    }

    #[test]
    fn the_delay_is_rounded_up_to_whole_seconds() {
        assert!(conf(Duration::from_millis(30_500)).ends_with("[Login]\nInhibitDelayMaxSec=31\n"));
        assert!(conf(Duration::from_secs(30)).ends_with("=30\n"));
    }
}
