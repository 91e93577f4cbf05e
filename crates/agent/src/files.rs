//! Files that the node makes for a pod besides its volumes: /etc/hosts, and where a container leaves its last
//! words.
//!
//! ```text
//! <state>/pods/<uid>/etc-hosts
//! <state>/pods/<uid>/containers/<name>/<attempt>     the last words
//! ```

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use ids::IdKind;
use manifest::k8s_openapi::api::core::v1::Container;
use wire::cri::Mount;

use crate::error::{Error, Result};
use crate::names::Named;
use crate::ward::Ward;

const HOSTS: &str = "/etc/hosts";
/// As much as Kubernetes keeps of last words.
const LONGEST_WORDS: u64 = 4096;

/// The files of one pod.
pub(crate) struct Files<'a> {
    /// The pod's directory.
    pub(crate) dir: &'a Path,
    pub(crate) ward: &'a Ward,
}

impl Files<'_> {
    /// The mounts that a container gets besides its volumes.
    pub(crate) fn mounts(&self, container: &Container, attempt: u32, ips: &[String]) -> Result<Vec<Mount>> {
        let mut all = Vec::new();
        let has_own = container.volume_mounts.iter().flatten().any(|mount| mount.mount_path == HOSTS);
        if !has_own && (self.ward.is_host_network() || !ips.is_empty()) {
            all.push(self.mount(HOSTS, &self.hosts(ips)?));
        }
        let path = container.termination_message_path.as_deref().filter(|path| !path.is_empty());
        if let Some(path) = path {
            all.push(self.mount(path, &self.words(&container.name, attempt)?));
        }
        Ok(all)
    }

    fn mount(&self, container_path: &str, file: &Path) -> Mount {
        Mount {
            container_path: container_path.to_owned(),
            host_path: file.display().to_string(),
            uid_mappings: self.ward.mappings(IdKind::Uid),
            gid_mappings: self.ward.mappings(IdKind::Gid),
            ..Mount::default()
        }
    }

    fn hosts(&self, ips: &[String]) -> Result<PathBuf> {
        let file = self.dir.join("etc-hosts");
        let text = if self.ward.is_host_network() {
            fs::read_to_string(HOSTS).unwrap_or_default()
        } else {
            own_hosts(&Named::of(self.ward), ips)
        };
        let aliases = self.ward.spec.host_aliases.iter().flatten();
        let aliases: String = aliases
            .map(|a| {
                format!(
                    "{}\t{}\n",
                    a.ip,
                    a.hostnames.iter().flatten().cloned().collect::<Vec<_>>().join("\t")
                )
            })
            .collect();
        fs::write(&file, text + &aliases).map_err(Error::file("write", &file))?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644))
            .map_err(Error::file("change", &file))?;
        Ok(file)
    }

    /// An empty file that anybody in the container may write to.
    fn words(&self, container: &str, attempt: u32) -> Result<PathBuf> {
        let file = words_path(self.dir, container, attempt);
        let dir = file.parent().unwrap_or(self.dir);
        fs::DirBuilder::new().recursive(true).mode(0o750).create(dir).map_err(Error::file("make", dir))?;
        let made = File::options().create(true).write(true).truncate(true).mode(0o666).open(&file);
        made.map_err(Error::file("make", &file))?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666))
            .map_err(Error::file("change", &file))?;
        Ok(file)
    }
}

fn words_path(dir: &Path, container: &str, attempt: u32) -> PathBuf {
    dir.join("containers").join(container).join(attempt.to_string())
}

fn own_hosts(named: &Named, ips: &[String]) -> String {
    let mut text = "# Made for this pod.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n\
        fe00::\tip6-localnet\nff00::\tip6-mcastprefix\nff02::1\tip6-allnodes\nff02::2\tip6-allrouters\n"
        .to_owned();
    let full = if named.domain.is_some() { format!("{}\t", named.full()) } else { String::new() };
    ips.iter().for_each(|ip| text.push_str(&format!("{ip}\t{full}{}\n", named.host)));
    text
}

/// What a container has left as its last words.
pub(crate) fn last_words(dir: &Path, container: &str, attempt: u32) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(words_path(dir, container, attempt))?.take(LONGEST_WORDS).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Removes the last words of an instance of a container.
pub(crate) fn remove_words(dir: &Path, container: &str, attempt: u32) -> io::Result<()> {
    match fs::remove_file(words_path(dir, container, attempt)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
