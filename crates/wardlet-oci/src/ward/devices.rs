//! Devices that were given to a container by name.

use bundle::ready::Parts;
use bundle::spec::DeviceNumber;
use serde_json::{Map, Value, json};

use super::{Order, Result, RuntimeKind, json};

/// Those that every runtime gives to every container by itself.
const USUAL: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// Permissions of a node that nothing is said of.
const MODE: u32 = 0o666;

/// Makes the nodes of a container's devices, where no runtime can make them in a user namespace, and binds
/// them. (runc would bind what is at the same path on the host, which may be another device, and whose owner
/// is nobody in the pod.) gVisor has devices of its own.
pub(super) fn put(order: &Order, parts: &mut Parts<'_>, spec: &mut Map<String, Value>) -> Result<()> {
    if order.runtime.kind == RuntimeKind::Runsc {
        return Ok(());
    }
    let mut binds = Vec::new();
    let devices = json::list(json::object(spec, "linux")?, "devices")?;
    let mut left = Vec::new();
    for device in devices.drain(..) {
        let path = json::text(&device, "path")?.to_owned();
        match number(&device)? {
            Some(number) if !USUAL.contains(&path.as_str()) => {
                let source = parts.node(number)?;
                binds.push(json!({
                    "destination": path, "type": "bind", "source": source,
                    "options": ["bind", "rprivate", "rw", "nosuid", "noexec"],
                }));
            }
            _ => left.push(device),
        }
    }
    *devices = left;
    json::list(spec, "mounts")?.append(&mut binds);
    Ok(())
}

/// What the device is, if it is one.
fn number(device: &Value) -> Result<Option<DeviceNumber>> {
    let kind = match json::text(device, "type")? {
        "c" | "u" => 'c',
        "b" => 'b',
        _ => return Ok(None),
    };
    let given = |name| json::number(device, name);
    let numbered = |name| given(name).map(Option::unwrap_or_default);
    Ok(Some(DeviceNumber {
        kind,
        major: numbered("major")?,
        minor: numbered("minor")?,
        mode: given("fileMode")?.map_or(MODE, |mode| mode & 0o777),
        uid: numbered("uid")?,
        gid: numbered("gid")?,
    }))
}
