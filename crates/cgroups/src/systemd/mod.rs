//! Slices and scopes of systemd, made by its own D-Bus interface.
//!
//! On a host whose process 1 is systemd, every cgroup belongs to it but those below a unit with `Delegate=yes`. So pods are
//! in transient slices, and each container is in a cgroup below a transient scope that is delegated: what systemd does not
//! know (`memory.oom.group`) it would reset in the scope's own. systemd gets each limit of a slice that it knows
//! ([`properties`]), so that it writes the same values as [`Group::apply`](crate::Group::apply), which writes all of them; and
//! the shares of a scope, which count among the containers of a pod.
//!
//! - [`names`]: units and the paths of their cgroups.
//! - [`connection`]: systemd's socket: calls, replies, and the end of jobs.

mod connection;
mod names;
mod properties;

use std::path::{Path, PathBuf};

use connection::Connection;
use dbus::{Body, Property};

use crate::error::{Error, Result};
use crate::resources::Resources;

pub(crate) use names::scope_id;
pub use names::{Unit, container_path, slice_path};

/// There if process 1 is systemd.
const BOOTED: &str = "/run/systemd/system";
/// Where systemd answers root without a message bus.
const SOCKET: &str = "/run/systemd/private";
/// systemd's errors for a unit that is loaded already, and for one that is not.
const EXISTS: &str = "org.freedesktop.systemd1.UnitExists";
const MISSING: &str = "org.freedesktop.systemd1.NoSuchUnit";
/// A job takes the place of another one that is queued for the unit.
const REPLACE: &str = "replace";
/// How often a call is made anew after a lost connection: systemd closes all of them when it executes itself anew.
const TRIES: u32 = 3;
const PAUSE: std::time::Duration = std::time::Duration::from_millis(200);

/// systemd, as process 1 of this host.
#[derive(Debug, Clone)]
pub struct Systemd {
    socket: PathBuf,
}

impl Systemd {
    /// `None` if process 1 of this host is another program.
    #[must_use]
    pub fn of_host() -> Option<Self> {
        Path::new(BOOTED).is_dir().then(|| Self { socket: SOCKET.into() })
    }

    /// Starts a slice, and those that it is in. One that runs is no error.
    ///
    /// # Errors
    /// [`Error::Systemd`] if systemd does not answer or the slice does not start.
    pub fn start_slice(&self, unit: &Unit) -> Result<()> {
        let properties = properties::of_slice(unit);
        self.on(unit, "start", |bus| {
            let started = bus.job("StartTransientUnit", &transient(unit, &properties));
            match started {
                Err(error) if error.is_named(EXISTS) => {
                    bus.job("StartUnit", &Body::default().text(unit.name()).text(REPLACE))
                }
                started => started,
            }
        })
    }

    /// Makes a scope of a process, below a slice and with the shares of these limits. It ends with its last process. A unit of this name
    /// that is left of an earlier run gives way: the caller has seen that its cgroup has no process.
    ///
    /// # Errors
    /// [`Error::Systemd`] if systemd does not answer, or does not make it.
    pub fn start_scope(&self, unit: &Unit, pid: u32, limits: &Resources) -> Result<()> {
        let mut properties = properties::of_scope(unit, pid);
        properties.extend(properties::of_limits(unit, limits));
        let body = transient(unit, &properties);
        self.on(unit, "start", |bus| match bus.job("StartTransientUnit", &body) {
            // Made by a try whose connection was lost.
            Err(error) if error.is_named(EXISTS) && unit.has(pid) => Ok(()),
            Err(error) if error.is_named(EXISTS) => {
                stop(bus, unit)?;
                bus.job("StartTransientUnit", &body)
            }
            started => started,
        })
    }

    /// Gives a unit other limits. What is `None` stays.
    ///
    /// # Errors
    /// [`Error::Systemd`] if systemd does not answer or has no such unit.
    pub fn limit(&self, unit: &Unit, limits: &Resources) -> Result<()> {
        let properties = properties::of_limits(unit, limits);
        if properties.is_empty() {
            return Ok(());
        }
        // Until the next boot.
        let body = Body::default().text(unit.name()).flag(true).properties(&properties);
        self.on(unit, "limit", |bus| bus.call("SetUnitProperties", &body).map(drop))
    }

    /// Stops a unit with all units in it, and forgets that it failed. One that is not loaded is no error.
    ///
    /// # Errors
    /// [`Error::Systemd`] if systemd does not answer, or the unit does not stop.
    pub fn stop(&self, unit: &Unit) -> Result<()> {
        self.on(unit, "stop", |bus| stop(bus, unit))
    }

    fn on(
        &self,
        unit: &Unit,
        what: &'static str,
        work: impl Fn(&mut Connection) -> Result<(), connection::Error>,
    ) -> Result<()> {
        let mut tried = 0;
        loop {
            let done = Connection::open(&self.socket).and_then(|mut bus| work(&mut bus));
            tried += 1;
            match done {
                Err(error) if error.is_lost_connection() && tried < TRIES => std::thread::sleep(PAUSE),
                done => {
                    return done.map_err(|cause| Error::Systemd {
                        what,
                        unit: unit.name().to_owned(),
                        cause,
                    });
                }
            }
        }
    }
}

fn stop(bus: &mut Connection, unit: &Unit) -> Result<(), connection::Error> {
    let name = || Body::default().text(unit.name());
    let missing_is_fine = |done: Result<(), connection::Error>| match done {
        Err(error) if error.is_named(MISSING) => Ok(()),
        done => done,
    };
    missing_is_fine(bus.job("StopUnit", &name().text(REPLACE)))?;
    missing_is_fine(bus.call("ResetFailedUnit", &name()).map(drop))
}

/// The body of `StartTransientUnit`: name, mode, properties, and no further units.
fn transient(unit: &Unit, properties: &[Property]) -> Body {
    Body::default().text(unit.name()).text(REPLACE).properties(properties).no_units()
}

pub use connection::Error as SystemdError;
