//! Images of components, for nodes that run them as pods: the program, the shared libraries that it is linked with, and the
//! programs that it calls with theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::layer::{Entry, layer};
use super::oci::{Image, RunAs, sha256};
use super::standins::{file, read};
use super::{Making, begin};
use crate::{Error, Result, cache, program};

/// Where the program of an image is.
const PROGRAMS: &str = "/usr/local/bin";
/// What kube-proxy calls, by these names.
const OF_KUBE_PROXY: &[&str] =
    &["iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"];

/// The image of one component.
#[derive(Debug, Clone)]
pub struct ComponentImage {
    /// Its name.
    pub name: String,
    /// The path of the component's program in it.
    pub program: String,
    /// The archive to import.
    pub archive: PathBuf,
}

/// The image of an installed component whose program has the component's name. It is made once and kept.
///
/// # Errors
/// If the component, or a program that it calls, is not installed.
pub fn of_component(component: &str) -> Result<ComponentImage> {
    let mut root = Root::default();
    let binary = cache::program(component, component)?;
    root.add(&binary, &Path::new(PROGRAMS).join(component))?;
    for name in if component == "kube-proxy" { OF_KUBE_PROXY } else { &[] } {
        root.add_called(name)?;
    }
    let name = format!("localhost/{component}:testbed");
    let digest = root.fingerprint(&name)?;
    let archive = match begin(&format!("component-{component}-{digest}"))? {
        Making::Made(target) => target,
        Making::New(work) => {
            let image = Image::new(&[&name], layer(&root.entries()?)?, &RunAs::default());
            image.write_archive(&work.path().join("image.tar"))?;
            work.keep()?
        }
    };
    let program = format!("{PROGRAMS}/{component}");
    Ok(ComponentImage { name, program, archive: archive.join("image.tar") })
}

/// The files of an image.
#[derive(Debug, Default)]
struct Root {
    /// The host's file, by its path in the image.
    files: BTreeMap<PathBuf, PathBuf>,
    /// What symbolic links lead to, by their paths in the image.
    links: BTreeMap<PathBuf, PathBuf>,
}

impl Root {
    /// Adds a program of the host and its libraries.
    fn add(&mut self, host: &Path, path: &Path) -> Result<()> {
        if self.files.insert(path.to_path_buf(), host.to_path_buf()).is_some() {
            return Ok(());
        }
        for library in libraries(&[host.to_path_buf()])? {
            let is_new = self.files.insert(library.clone(), library.clone()).is_none();
            if is_new && library.to_string_lossy().contains("/libxtables.") {
                self.add_extensions(&library)?;
            }
        }
        Ok(())
    }

    /// Adds a program that is one of several names of a file.
    fn add_called(&mut self, name: &str) -> Result<()> {
        let found = program::find(name).ok_or_else(|| Error::CannotBeHad {
            what: name.to_owned(),
            cause: "it is not installed: testbed install tools".into(),
        })?;
        let host = fs::canonicalize(&found).map_err(Error::file("find", &found))?;
        self.add(&host, &host)?;
        self.links.insert(Path::new("/usr/sbin").join(name), host);
        Ok(())
    }

    /// Adds the plugins of iptables, which its library opens by name.
    fn add_extensions(&mut self, library: &Path) -> Result<()> {
        let real = fs::canonicalize(library).map_err(Error::file("find", library))?;
        let directory = real.parent().unwrap_or(&real).join("xtables");
        let entries = fs::read_dir(&directory).map_err(Error::file("read", &directory))?;
        let plugins: Vec<PathBuf> =
            entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
        let libraries = libraries(&plugins)?;
        self.files.extend(plugins.into_iter().chain(libraries).map(|path| (path.clone(), path)));
        Ok(())
    }

    /// Changes with what is in the image.
    fn fingerprint(&self, name: &str) -> Result<String> {
        let mut text = format!("{name}\n");
        for (path, host) in &self.files {
            let size = fs::metadata(host).map_err(Error::file("read", host))?.len();
            text.push_str(&format!("{} {} {size}\n", path.display(), host.display()));
        }
        for (path, target) in &self.links {
            text.push_str(&format!("{} {}\n", path.display(), target.display()));
        }
        Ok(sha256(text.as_bytes()).chars().skip(7).take(12).collect())
    }

    fn entries(&self) -> Result<Vec<Entry>> {
        let inside = |path: &Path| path.display().to_string().trim_start_matches('/').to_owned();
        let parents: BTreeSet<PathBuf> = ["/tmp", "/run"]
            .map(PathBuf::from)
            .into_iter()
            .chain(self.files.keys().chain(self.links.keys()).flat_map(|path| {
                path.ancestors().skip(1).filter(|parent| parent.parent().is_some()).map(Path::to_path_buf)
            }))
            .collect();
        let directory = |path: &PathBuf| Entry::Directory { path: inside(path), mode: 0o755 };
        let mut entries: Vec<Entry> = parents.iter().map(directory).collect();
        for (path, host) in &self.files {
            entries.push(file(&inside(path), 0o755, read(host)?));
        }
        entries.extend(
            self.links.iter().map(|(path, target)| Entry::Link {
                path: inside(path),
                target: target.display().to_string(),
            }),
        );
        Ok(entries)
    }
}

/// The shared libraries of programs or libraries, and the loader; none for a static program.
fn libraries(of: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd").args(of).output();
    let output = output.map_err(|source| Error::Spawn { program: "ldd".into(), source })?;
    Ok(named(&String::from_utf8_lossy(&output.stdout)))
}

/// The paths in the answer of ldd. A line that ends with a colon names what was asked about.
fn named(answer: &str) -> Vec<PathBuf> {
    let path = |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from);
    answer.lines().filter(|line| !line.ends_with(':')).filter_map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loader_and_every_library_are_read_and_a_static_program_has_none() {
        let answer = "/bin/of:\n\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/libc.so.6 (0x00007f)\n\t/lib64/ld.so.2 (0x00007f)\n";
        assert_eq!(named(answer), [Path::new("/lib/libc.so.6"), Path::new("/lib64/ld.so.2")]);
        assert!(named("\tnot a dynamic executable\n").is_empty());
    }

    #[test]
    fn parents_come_before_what_is_in_them() {
        let mut root = Root::default();
        root.links.insert("/usr/sbin/a".into(), "/usr/sbin/b".into());
        let entries = root.entries().expect("entries");
        let paths: Vec<&str> = entries
            .iter()
            .map(|entry| match entry {
                Entry::Directory { path, .. } | Entry::Link { path, .. } => path.as_str(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(paths, ["run", "tmp", "usr", "usr/sbin", "usr/sbin/a"]);
    }
}
