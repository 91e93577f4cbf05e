//! Reading the facts of the machine from its kernel and its files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::facts::MachineFacts;

/// Where the machine is read.
#[derive(Debug, Clone, Copy)]
pub struct MachinePaths<'a> {
    /// Where the root directory of the host is seen: `/` on the host itself.
    pub host_root: &'a Path,
    /// The directory whose file system is the node's ephemeral storage.
    pub storage: &'a Path,
}

/// Where the ID of the hardware is, in the kubelet's order: of a PC, of POWER and its guests; else the ID of the installation.
const SYSTEM_UUID: [&str; 4] = [
    "sys/class/dmi/id/product_uuid",
    "proc/device-tree/system-id",
    "proc/device-tree/vm,uuid",
    "etc/machine-id",
];

/// Why a machine's facts cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {what} from {}: {cause}", path.display())]
pub struct MachineError {
    what: &'static str,
    path: PathBuf,
    cause: String,
}

impl MachineError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        "mount the host's /proc and /sys there, or choose another host root"
    }
}

/// Reads the machine. What a machine may lack, such as a machine ID, is empty then.
///
/// # Errors
/// If the number of processors or the size of the memory cannot be read.
pub fn read_machine(paths: MachinePaths<'_>) -> Result<MachineFacts, MachineError> {
    let host = Host(paths.host_root);
    let memory = host.required("the size of the memory", "proc/meminfo", |text| meminfo(text, "MemTotal"))?;
    let swap = host.text("proc/meminfo").and_then(|text| meminfo(&text, "SwapTotal")).unwrap_or(0);
    let first = |files: &[&str]| files.iter().find_map(|file| host.text(file)).unwrap_or_default();
    let release = first(&["etc/os-release", "usr/lib/os-release"]);
    Ok(MachineFacts {
        cpus: host.required("the online processors", "sys/devices/system/cpu/online", cpu_list)?,
        memory,
        swap,
        huge_pages: host.huge_pages(),
        ephemeral_storage: filesystem_size(paths.storage),
        machine_id: first(&["etc/machine-id", "var/lib/dbus/machine-id"]),
        system_uuid: first(&SYSTEM_UUID),
        boot_id: first(&["proc/sys/kernel/random/boot_id"]),
        kernel_version: first(&["proc/sys/kernel/osrelease"]),
        os_image: pretty_name(&release).unwrap_or_else(|| "Linux".to_owned()),
        architecture: go_architecture(std::env::consts::ARCH).to_owned(),
        in_user_namespace: host.text("proc/self/uid_map").is_some_and(|map| !maps_all(&map)),
    })
}

struct Host<'a>(&'a Path);

impl Host<'_> {
    /// The text of a file without blanks around it; `None` if there is none.
    fn text(&self, file: &str) -> Option<String> {
        let text = fs::read_to_string(self.0.join(file)).ok()?;
        // What the device tree has ends with a zero.
        Some(text.trim_end_matches('\0').trim().to_owned()).filter(|text| !text.is_empty())
    }

    fn required<T>(
        &self,
        what: &'static str,
        file: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T, MachineError> {
        let path = self.0.join(file);
        let fail = |cause: String| MachineError { what, path: path.clone(), cause };
        let text = fs::read_to_string(&path).map_err(|error| fail(error.to_string()))?;
        parse(text.trim()).ok_or_else(|| fail("its content has an unknown form".to_owned()))
    }

    fn huge_pages(&self) -> BTreeMap<u64, u64> {
        let entries = fs::read_dir(self.0.join("sys/kernel/mm/hugepages")).into_iter().flatten().flatten();
        let pages = entries.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let kibibytes: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            let number = fs::read_to_string(entry.path().join("nr_hugepages")).ok()?.trim().parse().ok()?;
            Some((kibibytes << 10, number))
        });
        pages.collect()
    }
}

/// Bytes of a line of `/proc/meminfo`.
fn meminfo(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The number of processors in a list such as `0-3,8`.
fn cpu_list(text: &str) -> Option<u32> {
    let count = |part: &str| -> Option<u32> {
        match part.split_once('-') {
            Some((first, last)) => {
                let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
                last.checked_sub(first)?.checked_add(1)
            }
            None => part.parse::<u32>().ok().map(|_| 1),
        }
    };
    text.split(',').map(count).sum()
}

fn filesystem_size(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    stat.f_blocks.checked_mul(stat.f_frsize)
}

/// `PRETTY_NAME` of an os-release file, without its quotes.
fn pretty_name(text: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.trim().strip_prefix("PRETTY_NAME="))?;
    Some(value.trim_matches(['"', '\'']).to_owned())
}

/// Whether a `uid_map` is that of the initial user namespace.
fn maps_all(map: &str) -> bool {
    map.split_whitespace().collect::<Vec<_>>() == ["0", "0", "4294967295"]
}

/// The label `kubernetes.io/arch` has Go's names.
fn go_architecture(rust: &'static str) -> &'static str {
    match rust {
        "x86_64" => "amd64",
        "x86" => "386",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64le",
        "loongarch64" => "loong64",
        same => same,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_facts_of_a_machine_are_read_below_the_host_root() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/meminfo", "MemTotal:       24056364 kB\nMemFree: 1 kB\nSwapTotal:  1024 kB\n");
        write("sys/devices/system/cpu/online", "0-3,8\n");
        write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "3\n");
        write("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "0\n");
        write("var/lib/dbus/machine-id", "abc\n");
        write("proc/sys/kernel/osrelease", "6.18.0\n");
        write("etc/os-release", "NAME=Debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n");
        write("proc/self/uid_map", "         0          0 4294967295\n");
        let paths = MachinePaths { host_root: root.path(), storage: root.path() };
        let facts = read_machine(paths).unwrap();
        assert_eq!((facts.cpus, facts.memory, facts.swap), (5, 24_056_364 << 10, 1 << 20));
        assert_eq!(facts.huge_pages, BTreeMap::from([(2 << 20, 3), (1 << 30, 0)]));
        assert_eq!((facts.machine_id.as_str(), facts.kernel_version.as_str()), ("abc", "6.18.0"));
        assert_eq!((facts.os_image.as_str(), facts.boot_id.as_str()), ("Debian GNU/Linux 12 (bookworm)", ""));
        assert!(facts.ephemeral_storage.unwrap() > 0);
        assert!(!facts.in_user_namespace);
        assert_eq!(
            facts.system_uuid, "",
            "of a machine without firmware tables and without an ID of its own"
        );
        write("etc/machine-id", "def\n");
        assert_eq!(read_machine(paths).unwrap().system_uuid, "def");
        write("proc/device-tree/vm,uuid", "e81f\0");
        assert_eq!(read_machine(paths).unwrap().system_uuid, "e81f");
        write("proc/self/uid_map", "0 100000 65536\n");
        assert!(read_machine(paths).unwrap().in_user_namespace);
    }

    #[test]
    fn a_machine_without_readable_memory_is_an_error_that_names_the_file() {
        let root = tempfile::tempdir().unwrap();
        let paths = MachinePaths { host_root: root.path(), storage: root.path() };
        let error = read_machine(paths).unwrap_err();
        assert!(error.path.ends_with("proc/meminfo"), "{error}");
    }

    #[test]
    fn this_machine_has_processors_memory_and_a_boot() {
        let root = Path::new("/");
        let facts = read_machine(MachinePaths { host_root: root, storage: root }).unwrap();
        assert!(
            facts.cpus > 0 && facts.memory > 0 && !facts.boot_id.is_empty() && !facts.os_image.is_empty()
        );
    }
}
