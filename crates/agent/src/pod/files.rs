//! Files that the node creates for a pod besides its volumes: /etc/hosts, and the termination message of each
//! container.
//!
//! ```text
//! <home>/pods/<uid>/etc-hosts
//! <home>/pods/<uid>/containers/<name>/<attempt>     the termination message
//! ```

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use cri::Mount;
use ids::IdKind;
use manifest::k8s_openapi::api::core::v1::Container;
use rustix::fs::OFlags;

use crate::error::{Error, Result};
use crate::pod::context::PodContext;
use crate::pod::hosts;

const HOSTS: &str = "/etc/hosts";
/// Maximum length of a termination message, as in Kubernetes.
const LONGEST_WORDS: u64 = 4096;

/// The files of one pod.
pub(crate) struct Files<'a> {
    /// The pod's directory.
    pub(crate) dir: &'a Path,
    pub(crate) context: &'a PodContext,
}

impl Files<'_> {
    /// The mounts that a container gets besides its volumes.
    pub(crate) fn mounts(&self, container: &Container, attempt: u32, ips: &[String]) -> Result<Vec<Mount>> {
        let mut all = Vec::new();
        let has_own = container.volume_mounts.iter().flatten().any(|mount| mount.mount_path == HOSTS);
        if !has_own && (self.context.is_host_network() || !ips.is_empty()) {
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
            selinux_relabel: self.context.is_selinux_on,
            uid_mappings: self.context.mappings(IdKind::Uid),
            gid_mappings: self.context.mappings(IdKind::Gid),
            ..Mount::default()
        }
    }

    fn hosts(&self, ips: &[String]) -> Result<PathBuf> {
        let file = self.dir.join("etc-hosts");
        let text = if self.context.is_host_network() {
            hosts::of_node(&fs::read_to_string(HOSTS).unwrap_or_default())
        } else {
            hosts::of_pod(&self.context.hostname(), ips)
        };
        let aliases = hosts::aliases(self.context.spec.host_aliases.iter().flatten());
        fs::write(&file, text + &aliases).map_err(Error::file("write", &file))?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644))
            .map_err(Error::file("change", &file))?;
        Ok(file)
    }

    /// Creates the empty file for the termination message. All users of the container can write to it (mode
    /// 0666).
    fn words(&self, container: &str, attempt: u32) -> Result<PathBuf> {
        let file = words_path(self.dir, container, attempt);
        let dir = file.parent().unwrap_or(self.dir);
        fs::DirBuilder::new().recursive(true).mode(0o750).create(dir).map_err(Error::file("make", dir))?;
        // The pod may have this directory as a volume, and put a link or a pipe in the file's place: open
        // neither follows nor blocks.
        let made =
            File::options().create(true).write(true).mode(0o666).custom_flags(unfollowed()).open(&file);
        let made = made.and_then(regular).map_err(Error::file("make", &file))?;
        let change = made.set_len(0).and_then(|()| made.set_permissions(fs::Permissions::from_mode(0o666)));
        change.map_err(Error::file("change", &file))?;
        Ok(file)
    }
}

/// Flags for open(2): do not follow symbolic links, do not block on a FIFO.
fn unfollowed() -> i32 {
    (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed()
}

fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no regular file")) }
}

fn words_path(dir: &Path, container: &str, attempt: u32) -> PathBuf {
    dir.join("containers").join(container).join(attempt.to_string())
}

/// The file with the termination message of a container instance: of the name that it is `mounted` by, if that is of the
/// container's own directory. A kubelet gives it a random name.
pub(crate) fn words_file(dir: &Path, container: &str, attempt: u32, mounted: Option<&Path>) -> PathBuf {
    let own = words_path(dir, container, attempt);
    // Below which root directory does not matter: a kubelet may write it with a link in it.
    let ends = dir.file_name().map(|uid| Path::new("pods").join(uid).join("containers").join(container));
    let is_containers =
        |file: &&Path| file.parent().zip(ends.as_ref()).is_some_and(|(parent, ends)| parent.ends_with(ends));
    match mounted.filter(is_containers).and_then(Path::file_name) {
        Some(name) => own.with_file_name(name),
        None => own,
    }
}

/// Reads a termination message.
pub(crate) fn last_words(file: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    let opened = File::options().read(true).custom_flags(unfollowed()).open(file);
    opened.and_then(regular)?.take(LONGEST_WORDS).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Removes the termination message of a container instance.
pub(crate) fn remove_words(dir: &Path, container: &str, attempt: u32) -> io::Result<()> {
    match fs::remove_file(words_path(dir, container, attempt)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    /// With SELinux enforcing, a container could neither read its /etc/hosts nor write its termination message.
    #[test]
    fn the_nodes_own_files_are_labelled_where_selinux_is_on() {
        let dir = tempfile::tempdir().unwrap();
        let text = r#"{"containers":[{"name":"a","terminationMessagePath":"/dev/termination-log"}]}"#;
        for is_on in [false, true] {
            let context = PodContext { is_selinux_on: is_on, ..PodContext::for_test(text) };
            let files = Files { dir: dir.path(), context: &context };
            let mounts = files.mounts(&context.spec.containers[0], 0, &["10.0.0.1".to_owned()]).unwrap();
            assert_eq!(mounts.iter().map(|m| m.selinux_relabel).collect::<Vec<_>>(), [is_on, is_on]);
        }
    }

    /// A pod that could write to the directory of its termination messages made the node block on a FIFO, or
    /// read a file of the host.
    #[test]
    fn what_stands_in_the_place_of_last_words_is_neither_followed_nor_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = |attempt| words_path(dir.path(), "main", attempt);
        fs::create_dir_all(path(0).parent().unwrap()).unwrap();
        fs::write(path(0), "words").unwrap();
        std::os::unix::fs::symlink(path(0), path(1)).unwrap();
        mknodat(CWD, path(2), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        assert_eq!(last_words(&path(0)).unwrap(), "words");
        assert!(last_words(&path(1)).is_err() && last_words(&path(2)).is_err());
    }

    /// Containers that a kubelet has started had no message.
    #[test]
    fn the_message_of_a_kubelets_container_has_the_name_that_it_is_mounted_by() {
        let dir = Path::new("/data/kubelet/pods/u-1");
        let file = |mounted: &str| words_file(dir, "main", 2, Some(Path::new(mounted)));
        let own = dir.join("containers/main/2");
        assert_eq!(
            file("/var/lib/kubelet/pods/u-1/containers/main/8f3a01bc"),
            own.with_file_name("8f3a01bc")
        );
        for other in [
            "/var/lib/kubelet/pods/u-2/containers/main/8f3a01bc",
            "/var/lib/kubelet/pods/u-1/containers/other/8f3a01bc",
            "/var/lib/kubelet/pods/u-1/containers/main/8f3a01bc/..",
            "/etc/shadow",
            "",
        ] {
            assert_eq!(file(other), own, "{other}");
        }
        assert_eq!(words_file(dir, "main", 2, None), own);
    }
}
