//! Creates the devices that a configuration names.

use container::prepare::Parts;
use container::spec::DeviceNumber;
use serde_json::{Map, Value, json};

use super::{Order, Result, RuntimeKind, json};

/// Devices that every runtime creates in every container.
const USUAL: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// The mode of a device node without `fileMode`.
const MODE: u32 = 0o666;

/// Creates the device nodes of a container, which no runtime can do in a user namespace, and adds bind mounts of them.
/// (runc would bind-mount the node at the same path on the host, which may be another device, and whose owner is not in
/// the pod's ID mappings.) gVisor emulates devices itself.
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

/// The type, number, mode and owner of a device; `None` for a FIFO.
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
