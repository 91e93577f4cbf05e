//! Settings of the kernel, as files under the host root.

use std::io;

use census::HostRoot;

use crate::check::{Check, Desk, Fault};

/// What a setting is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Setting {
    /// This many.
    Is(u64),
    /// The kernel has no such setting.
    Absent,
    /// It could not be read, and why.
    Unknown(String),
}

pub(crate) fn read(host_root: &HostRoot, name: &str) -> Setting {
    let path = host_root.path(format!("/proc/sys/{}", name.replace('.', "/")));
    match std::fs::read_to_string(&path) {
        Ok(text) => match text.trim().parse() {
            Ok(number) => Setting::Is(number),
            Err(_) => {
                Setting::Unknown(format!("{} says {:?}, which is no number", path.display(), text.trim()))
            }
        },
        Err(e)
            if e.kind() == io::ErrorKind::NotFound
                && host_root.path("/proc/sys/kernel/osrelease").exists() =>
        {
            Setting::Absent
        }
        Err(e) => Setting::Unknown(format!("{} cannot be read: {e}", path.display())),
    }
}

/// A setting that must be at least so much.
pub(crate) struct AtLeast<'a> {
    pub(crate) name: &'a str,
    pub(crate) least: u64,
    /// What is short of it when it is less.
    pub(crate) because: &'a str,
}

impl AtLeast<'_> {
    /// A kernel without the setting sets no such limit.
    pub(crate) fn check(&self, desk: Desk, host_root: &HostRoot) -> Check {
        let Self { name, least, because } = self;
        let need = format!("{name} is at least {least}");
        match read(host_root, name) {
            Setting::Is(found) if found < *least => {
                desk.fails(need, found.to_string(), Fault::new(*because, set(name, *least)))
            }
            Setting::Is(found) => desk.holds(need, found.to_string()),
            Setting::Absent => desk.holds(need, "no such limit"),
            Setting::Unknown(cause) => desk.open(need, Fault::new(cause, MOUNT_PROC)),
        }
    }
}

/// What to do where a setting cannot be read.
pub(crate) const MOUNT_PROC: &str =
    "run this on the node itself as root, or mount the node's proc filesystem under --host-root";

/// The command that sets it now and at every boot.
pub(crate) fn set(name: &str, value: u64) -> String {
    format!("sysctl -w {name}={value} && echo {name}={value} > /etc/sysctl.d/90-wardlet-{}.conf", file(name))
}

fn file(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}
