//! The text of a checkpoint's content that a kubelet computes its checksum from: Go values as a library for debugging
//! prints them, with the names of their types.

use std::fmt::{self, Write};

use crate::checkpoint::{Content, Entry};

/// Offset basis and prime of FNV-1a with 32 bits.
const BASIS: u32 = 0x811c_9dc5;
const PRIME: u32 = 0x0100_0193;

/// What Go prints for a slice or map that was never made.
const NIL: &str = "<nil>";

/// The checksum of a content.
pub(crate) fn checksum(content: &Content) -> u64 {
    let mut hash = Hash(BASIS);
    // Hashing does not fail.
    let _ = print(&mut hash, content);
    u64::from(hash.0)
}

/// FNV-1a of what is written to it.
struct Hash(u32);

impl Write for Hash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = text.bytes().fold(self.0, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(PRIME));
        Ok(())
    }
}

fn print(out: &mut dyn Write, content: &Content) -> fmt::Result {
    out.write_str("(checkpoint.checkpointData){PodDeviceEntries:([]checkpoint.PodDevicesEntry)")?;
    list(out, content.pod_device_entries.as_deref(), entry)?;
    out.write_str(" RegisteredDevices:(map[string][]string)")?;
    match &content.registered_devices {
        None => out.write_str(NIL)?,
        Some(all) => map(out, all.iter())?,
    }
    out.write_char('}')
}

fn entry(out: &mut dyn Write, entry: &Entry) -> fmt::Result {
    let Entry { pod_uid, container_name, resource_name, .. } = entry;
    write!(out, "{{PodUID:(string){pod_uid} ContainerName:(string){container_name} ")?;
    write!(out, "ResourceName:(string){resource_name} DeviceIDs:(checkpoint.DevicesPerNUMA)")?;
    match &entry.device_ids {
        None => out.write_str(NIL)?,
        Some(all) => map(out, all.iter())?,
    }
    out.write_str(" AllocResp:([]uint8)")?;
    list(out, entry.alloc_resp.as_ref().map(|bytes| bytes.0.as_slice()), |out, byte| write!(out, "{byte}"))?;
    out.write_char('}')
}

fn map<'a, K: fmt::Display>(
    out: &mut dyn Write,
    all: impl Iterator<Item = (K, &'a Option<Vec<String>>)>,
) -> fmt::Result {
    out.write_str("map[")?;
    for (index, (key, values)) in all.enumerate() {
        let space = if index == 0 { "" } else { " " };
        write!(out, "{space}{key}:")?;
        list(out, values.as_deref(), |out, value: &String| out.write_str(value))?;
    }
    out.write_char(']')
}

fn list<T>(
    out: &mut dyn Write,
    all: Option<&[T]>,
    one: impl Fn(&mut dyn Write, &T) -> fmt::Result,
) -> fmt::Result {
    let Some(all) = all else { return out.write_str(NIL) };
    out.write_char('[')?;
    for (index, value) in all.iter().enumerate() {
        if index > 0 {
            out.write_char(' ')?;
        }
        one(out, value)?;
    }
    out.write_char(']')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text and the checksum that a kubelet's own packages of 1.37.1 give for this file.
    #[test]
    fn a_content_is_printed_as_go_prints_it() {
        let json = r#"{"PodDeviceEntries":[
            {"PodUID":"pod-1","ContainerName":"con \u003c1\u003e","ResourceName":"example.com/a",
             "DeviceIDs":{"-1":["dev-2"],"0":["z"],"1":["dev 1","déux"],"10":[]},
             "AllocResp":"CgYKAUESATEaFwoGL2Rldi9jEgkvZGV2L251bGwaAnJ3"},
            {"PodUID":"pod-2","ContainerName":"c","ResourceName":"b.example/b","DeviceIDs":{},"AllocResp":""}],
            "RegisteredDevices":{"b.example/b":[],"example.com/a":["dev-2","\"q\""],"example.com/b":["x","y"]}}"#;
        let content: Content = serde_json::from_str(json).unwrap();
        let mut text = String::new();
        print(&mut text, &content).unwrap();
        let expected = "(checkpoint.checkpointData){PodDeviceEntries:([]checkpoint.PodDevicesEntry)[{PodUID:(string)pod-1 \
            ContainerName:(string)con <1> ResourceName:(string)example.com/a DeviceIDs:(checkpoint.DevicesPerNUMA)map[-1:[dev-2] \
            0:[z] 1:[dev 1 déux] 10:[]] AllocResp:([]uint8)[10 6 10 1 65 18 1 49 26 23 10 6 47 100 101 118 47 99 18 9 47 100 101 \
            118 47 110 117 108 108 26 2 114 119]} {PodUID:(string)pod-2 ContainerName:(string)c ResourceName:(string)b.example/b \
            DeviceIDs:(checkpoint.DevicesPerNUMA)map[] AllocResp:([]uint8)[]}] RegisteredDevices:(map[string][]string)map[b.example/b:[] \
            example.com/a:[dev-2 \"q\"] example.com/b:[x y]]}";
        assert_eq!(text, expected);
        assert_eq!(checksum(&content), 91_668_791);
    }

    #[test]
    fn what_is_empty_and_what_is_missing_have_checksums_of_their_own() {
        for (json, expected) in [
            (r#"{"PodDeviceEntries":[],"RegisteredDevices":{}}"#, 2_932_075_448),
            (r#"{"PodDeviceEntries":null,"RegisteredDevices":{"example.com/a":[]}}"#, 4_218_149_908),
            (
                r#"{"PodDeviceEntries":[{"PodUID":"p","ContainerName":"","ResourceName":"","DeviceIDs":null,"AllocResp":null}],"RegisteredDevices":null}"#,
                2_793_234_165,
            ),
        ] {
            assert_eq!(checksum(&serde_json::from_str(json).unwrap()), expected, "{json}");
        }
    }
}
