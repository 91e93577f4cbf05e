//! CRI-O's files, as far as they say what it runs.

use std::fs;
use std::path::{Path, PathBuf};

use census::HostRoot;

/// Read first; those of the directory then, by their names, each over what was said before.
const FILE: &str = "/etc/crio/crio.conf";
const DIR: &str = "/etc/crio/crio.conf.d";

/// A runtime of CRI-O's configuration.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CrioRuntime {
    pub(crate) file: PathBuf,
    pub(crate) program: PathBuf,
}

/// Whether a pod has a first container that does nothing but be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Infra {
    Kept,
    Dropped,
}

/// What CRI-O's files say. Without a word about it, it drops the first container where it can.
pub(crate) fn runtimes(host_root: &HostRoot) -> (Vec<CrioRuntime>, Infra) {
    let (mut all, mut infra) = (Vec::new(), Infra::Dropped);
    for file in files(host_root) {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        for (key, value) in text.lines().filter_map(setting) {
            match key {
                "runtime_path" => {
                    all.push(CrioRuntime { file: file.clone(), program: unquoted(value).into() })
                }
                "drop_infra_ctr" if value.starts_with("false") => infra = Infra::Kept,
                "drop_infra_ctr" => infra = Infra::Dropped,
                _ => {}
            }
        }
    }
    (all, infra)
}

fn files(host_root: &HostRoot) -> Vec<PathBuf> {
    let listed = fs::read_dir(host_root.path(DIR)).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = listed.map(|entry| entry.path()).collect();
    files.sort();
    files.insert(0, host_root.path(FILE));
    files
}

/// A line such as `runtime_path = "/usr/bin/wardlet-oci"`.
fn setting(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once('=')?;
    Some((key.trim(), value.trim()))
}

fn unquoted(value: &str) -> &Path {
    let quote = value.chars().next().filter(|letter| matches!(letter, '"' | '\''));
    let inner = quote.and_then(|quote| value.strip_prefix(quote)?.split_once(quote));
    Path::new(inner.map_or(value, |(inner, _)| inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_files_have_the_last_word_and_what_is_commented_out_says_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let host = HostRoot::new(dir.path());
        assert_eq!(runtimes(&host), (Vec::new(), Infra::Dropped));
        let write = |name: &str, text: &str| {
            let path = dir.path().join("etc/crio").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "crio.conf",
            "drop_infra_ctr = true\n# runtime_path = \"/x\"\nruntime_path = \"/usr/bin/crun\" # c\n",
        );
        write("crio.conf.d/20.conf", "drop_infra_ctr = false\n");
        write("crio.conf.d/10.conf", "drop_infra_ctr = true\nruntime_path = '/usr/bin/wardlet-oci'\n");
        let (all, infra) = runtimes(&host);
        let programs: Vec<&Path> = all.iter().map(|runtime| runtime.program.as_path()).collect();
        assert_eq!(programs, [Path::new("/usr/bin/crun"), Path::new("/usr/bin/wardlet-oci")]);
        assert_eq!(infra, Infra::Kept);
    }
}
