//! Settings of the host's kernel that a kubelet wants: it sets them, or refuses a host that has others
//! (protectKernelDefaults).

use std::fs;
use std::io;
use std::path::Path;

use tracing::info;

/// A setting, by its file below /proc/sys, and its value.
struct Setting {
    file: &'static str,
    value: &'static str,
}

/// Memory may be overcommitted, and the OOM killer ends processes where it runs out. A kernel that panics is restarted, and
/// oopses are panics. Root may have many keys: each container has a keyring.
const SETTINGS: [Setting; 6] = [
    Setting { file: "vm/overcommit_memory", value: "1" },
    Setting { file: "vm/panic_on_oom", value: "0" },
    Setting { file: "kernel/panic", value: "10" },
    Setting { file: "kernel/panic_on_oops", value: "1" },
    Setting { file: "kernel/keys/root_maxkeys", value: "1000000" },
    Setting { file: "kernel/keys/root_maxbytes", value: "25000000" },
];

/// What the agent does with a setting that has another value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OtherValues {
    /// It sets it.
    Set,
    /// It refuses to start.
    Refuse,
}

/// A setting of the kernel that is not as the agent wants it.
#[derive(Debug, thiserror::Error)]
pub enum KernelSettingError {
    /// It cannot be read or set.
    #[error("cannot {action} the kernel's setting {setting}: {cause}")]
    File {
        /// `read` or `set`.
        action: &'static str,
        /// As sysctl(8) names it.
        setting: String,
        /// What the kernel said.
        cause: io::Error,
    },
    /// They have other values, and protectKernelDefaults is true.
    #[error("protectKernelDefaults is true, and the kernel's settings are others: {}", .0.join(", "))]
    Others(Vec<String>),
}

impl KernelSettingError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::File { .. } => {
                "set it with sysctl(8) before the agent is started; protectKernelDefaults: true does not change anything".to_owned()
            }
            Self::Others(_) => {
                let all = SETTINGS.map(|setting| format!("{}={}", name(setting.file), setting.value));
                format!("set them in /etc/sysctl.d: {}; or set protectKernelDefaults: false", all.join(" "))
            }
        }
    }
}

/// Brings the settings of the host to the values that a kubelet wants, or checks them. One that this kernel does not have is
/// ignored.
///
/// # Errors
/// If a setting cannot be read or set, or has another value and must not be changed.
pub(crate) fn apply(host_root: &Path, others: OtherValues) -> Result<(), KernelSettingError> {
    let mut refused = Vec::new();
    for Setting { file, value } in SETTINGS {
        let path = host_root.join("proc/sys").join(file);
        let error = |action| move |cause| KernelSettingError::File { action, setting: name(file), cause };
        let found = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            found => found.map_err(error("read"))?,
        };
        let found = found.trim();
        if found == value {
            continue;
        }
        let setting = name(file);
        match others {
            OtherValues::Refuse => refused.push(format!("{setting} is {found}, not {value}")),
            OtherValues::Set => {
                fs::write(&path, value).map_err(error("set"))?;
                info!("the kernel's setting {setting} was {found} and is {value} now");
            }
        }
    }
    if refused.is_empty() { Ok(()) } else { Err(KernelSettingError::Others(refused)) }
}

fn name(file: &str) -> String {
    file.replace('/', ".")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host whose settings are files: those of this machine must stay as they are.
    fn host(values: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (Setting { file, .. }, value) in SETTINGS.iter().zip(values) {
            let path = root.path().join("proc/sys").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{value}\n")).unwrap();
        }
        root
    }

    fn read(root: &tempfile::TempDir, file: &str) -> String {
        fs::read_to_string(root.path().join("proc/sys").join(file)).unwrap().trim().to_owned()
    }

    #[test]
    fn settings_are_set_unless_they_are_protected() {
        let root = host(&["0", "0", "0", "1", "200"]);
        let error = apply(root.path(), OtherValues::Refuse).unwrap_err();
        assert_eq!(
            error.to_string(),
            "protectKernelDefaults is true, and the kernel's settings are others: vm.overcommit_memory is 0, not 1, \
             kernel.panic is 0, not 10, kernel.keys.root_maxkeys is 200, not 1000000"
        );
        assert!(error.hint().contains("kernel.panic=10"), "{}", error.hint());
        assert_eq!(read(&root, "vm/overcommit_memory"), "0");
        apply(root.path(), OtherValues::Set).unwrap();
        let all = ["vm/overcommit_memory", "kernel/panic", "kernel/keys/root_maxkeys"]
            .map(|file| read(&root, file));
        assert_eq!(all, ["1", "10", "1000000"]);
        apply(root.path(), OtherValues::Refuse).unwrap();
    }

    #[test]
    fn a_setting_that_cannot_be_read_is_named() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/sys/vm/panic_on_oom")).unwrap();
        let error = apply(root.path(), OtherValues::Set).unwrap_err().to_string();
        assert!(error.starts_with("cannot read the kernel's setting vm.panic_on_oom: "), "{error}");
    }
}
