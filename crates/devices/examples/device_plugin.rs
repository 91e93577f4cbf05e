//! A device plugin for tests of whole nodes. Its devices are device nodes of the host; those that are named in its file of
//! unhealthy ones cannot be used. A container gets its devices at `/dev/ID`, and their IDs in `FAKE_DEVICES`. It registers
//! again whenever the node's socket is a new one.
//!
//!     device_plugin DIRECTORY RESOURCE UNHEALTHY ID=NODE...
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, dead_code, missing_docs)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use support::{FakeDevice, FakePlugin, ready, register};

/// The plugin's socket.
const ENDPOINT: &str = "fake.sock";
const PERIOD: Duration = Duration::from_millis(100);

fn device(argument: &str) -> FakeDevice {
    let (id, node) = argument.split_once('=').unwrap();
    FakeDevice::new(id, node)
}

/// Tells the node's socket from another one that was made in its place.
fn stamp(socket: &Path) -> Option<(u64, i64, i64)> {
    socket.symlink_metadata().ok().map(|found| (found.ino(), found.ctime(), found.ctime_nsec()))
}

fn with_health(devices: &[FakeDevice], unhealthy: &Path) -> Vec<FakeDevice> {
    let text = std::fs::read_to_string(unhealthy).unwrap_or_default();
    let is_healthy = |id: &str| !text.split_whitespace().any(|word| word == id);
    devices.iter().map(|device| FakeDevice { is_healthy: is_healthy(&device.id), ..device.clone() }).collect()
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [dir, resource, unhealthy, devices @ ..] = arguments.as_slice() else {
        panic!("device_plugin DIRECTORY RESOURCE UNHEALTHY ID=NODE...")
    };
    let (dir, unhealthy) = (PathBuf::from(dir), PathBuf::from(unhealthy));
    let devices: Vec<FakeDevice> = devices.iter().map(|argument| device(argument)).collect();
    let plugin = FakePlugin::new(with_health(&devices, &unhealthy));
    let socket = dir.join(ENDPOINT);
    let (mut registered, mut process) = (None, None);
    loop {
        let now = stamp(&dir.join("kubelet.sock"));
        if now.is_some() && now != registered {
            // The node has removed the plugin's socket.
            drop(process.take());
            process = Some(plugin.serve(&socket));
            ready(&socket).await;
            match register(&dir, ENDPOINT, resource).await {
                Ok(()) => registered = now,
                Err(cause) => eprintln!("not registered: {cause}"),
            }
        }
        plugin.devices.send_if_modified(|known| {
            let next = with_health(&devices, &unhealthy);
            let is_other = known.iter().zip(&next).any(|(one, other)| one.is_healthy != other.is_healthy);
            *known = next;
            is_other
        });
        tokio::time::sleep(PERIOD).await;
    }
}
