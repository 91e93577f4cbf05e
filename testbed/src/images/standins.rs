//! The stand-ins: images under upstream's names, made of Debian's busybox-static and bash-static, a pause of our own and
//! upstream's agnhost where it is installed. Nothing is fetched from anywhere.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::layer::{Entry, layer};
use super::oci::{Image, RunAs};
use super::{critest, specs};
use crate::install::debian::static_busybox;
use crate::{Error, Result, cache, program};

/// What sandboxes are made of.
pub const PAUSE: &str = "registry.k8s.io/pause:3.10.2";
/// A shell and tools.
pub const BUSYBOX: &str = "registry.k8s.io/e2e-test-images/busybox:1.37.0-2";
const BUSYBOX_NAMES: &[&str] =
    &[BUSYBOX, "registry.k8s.io/e2e-test-images/busybox:1.36.1-1", "localhost/busybox:1"];
/// Upstream's test program, if it is installed.
pub const AGNHOST: &str = "registry.k8s.io/e2e-test-images/agnhost:2.66.1";
const AGNHOST_NAMES: &[&str] = &[AGNHOST, "registry.k8s.io/e2e-test-images/agnhost:2.55"];

/// Repository and tag of the image in the registry that upstream's agnhost can be.
const PRIVATE: (&str, &str) = ("pause", "testing");

/// A web server, which specs have in a pod as another image.
const NGINX: &str = "registry.k8s.io/e2e-test-images/nginx:1.27.0-2";

/// An image of some size that only the registry has: what containerd already holds it would not pull.
pub const REGISTRY_ONLY: &str = "localhost/registry-only:1";

/// The programs that go into the images.
#[derive(Debug)]
pub(crate) struct Ingredients {
    busybox: PathBuf,
    bash: PathBuf,
    agnhost: Option<PathBuf>,
}

pub(super) const PAUSE_C: &str = include_str!("../../images/pause.c");
const SH_C: &str = include_str!("../../images/sh.c");

impl Ingredients {
    pub(crate) fn find() -> Result<Self> {
        let missing = |what: &str| Error::CannotBeHad {
            what: format!("a static {what}"),
            cause: format!("Debian's {what}-static is not installed: testbed install tools"),
        };
        let busybox = static_busybox().ok_or_else(|| missing("busybox"))?;
        let bash = program::find("bash-static").ok_or_else(|| missing("bash"))?;
        Ok(Self { busybox, bash, agnhost: cache::program("agnhost", "agnhost").ok() })
    }

    /// Changes with anything that goes into the images.
    pub(crate) fn fingerprint(&self) -> Result<String> {
        let (busybox, bash) = (read(&self.busybox)?, read(&self.bash)?);
        let agnhost = self.agnhost.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        let names = [PAUSE, REGISTRY_ONLY, PRIVATE.0, PRIVATE.1]
            .iter()
            .chain(BUSYBOX_NAMES)
            .chain(AGNHOST_NAMES)
            .chain([&NGINX])
            .copied()
            .collect::<String>();
        let pulled = [critest::fingerprint(), specs::fingerprint()].concat().into_bytes();
        let sources = [PAUSE_C, SH_C, CURL].concat().into_bytes();
        let all = [busybox, bash, sources, agnhost.into_bytes(), names.into_bytes(), pulled].concat();
        Ok(super::oci::sha256(&all).chars().skip(7).take(12).collect())
    }

    /// Makes all images in `work`: archives, and a registry's store.
    pub(crate) fn make(&self, work: &Path) -> Result<()> {
        let archives = work.join("archives");
        fs::create_dir_all(&archives).map_err(Error::file("make", &archives))?;
        let busybox = self.root(work)?;
        let pause = pause(work)?;
        let private = pause.for_agnhost(PRIVATE.0, PRIVATE.1);
        let pulled = [critest::images(work, &self.busybox)?, specs::images(work, &busybox)?];
        let mut images = vec![("pause", pause), ("busybox", image_of_busybox(&busybox)?)];
        if let Some(path) = &self.agnhost {
            images.push(("nginx", image_of_nginx(busybox.clone(), work)?));
            images.push(("agnhost", image_of_agnhost([busybox, private].concat(), path)?));
        }
        let only = image_of_noise()?;
        only.write_store(&work.join("registry"))?;
        for image in pulled.into_iter().flatten() {
            image.write_store(&work.join("registry"))?;
        }
        for (name, image) in images {
            image.write_archive(&archives.join(format!("{name}.tar")))?;
            image.write_store(&work.join("registry"))?;
        }
        Ok(())
    }
}

impl Ingredients {
    /// The root filesystem of a busybox with the shell of `sh.c`.
    fn root(&self, work: &Path) -> Result<Vec<Entry>> {
        let mut root = busybox_root(&self.busybox, Applets::SymbolicLinks)?;
        root.retain(|entry| !matches!(entry, Entry::Link { path, .. } if path == "bin/sh"));
        root.push(file("bin/bash", 0o755, read(&self.bash)?));
        root.push(file("bin/sh", 0o755, compile(work, "sh", SH_C)?));
        Ok(root)
    }
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(Error::file("read", path))
}

pub(super) fn file(path: &str, mode: u32, bytes: impl Into<Vec<u8>>) -> Entry {
    Entry::File { path: path.to_owned(), mode, bytes: bytes.into() }
}

fn pause(work: &Path) -> Result<Image> {
    let entries = [file("pause", 0o755, compile(work, "pause", PAUSE_C)?)];
    let run = RunAs { entrypoint: vec!["/pause"], user: "65535:65535", ..RunAs::default() };
    Ok(Image::new(&[PAUSE], layer(&entries)?, &run))
}

/// A static program from its source.
pub(super) fn compile(work: &Path, name: &str, text: &str) -> Result<Vec<u8>> {
    let (source, out) = (work.join(format!("{name}.c")), work.join(name));
    fs::write(&source, text).map_err(Error::file("write", &source))?;
    program::run(Command::new("gcc").args(["-Os", "-static", "-s", "-o"]).arg(&out).arg(&source))?;
    let bytes = read(&out)?;
    for file in [source, out] {
        fs::remove_file(&file).map_err(Error::file("remove", &file))?;
    }
    Ok(bytes)
}

/// How an applet of busybox is found under its own name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Applets {
    /// As on most systems.
    SymbolicLinks,
    /// So that one of them can be hidden without the others.
    HardLinks,
}

/// A root filesystem in which every applet has its usual path.
pub(super) fn busybox_root(busybox: &Path, applets: Applets) -> Result<Vec<Entry>> {
    let directories = [
        "bin", "dev", "etc", "home", "lib", "proc", "root", "sbin", "sys", "tmp", "usr", "usr/bin",
        "usr/sbin", "var", "var/run",
    ];
    let mut entries: Vec<Entry> = directories
        .iter()
        .map(|path| {
            let mode = if *path == "tmp" { 0o1777 } else { 0o755 };
            Entry::Directory { path: (*path).to_owned(), mode }
        })
        .collect();
    entries.push(file("bin/busybox", 0o755, read(busybox)?));
    entries.push(file(
        "etc/passwd",
        0o644,
        "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n",
    ));
    entries.push(file("etc/group", 0o644, "root:x:0:\nnobody:x:65534:\n"));
    let names = program::text(Command::new(busybox).arg("--list-full"))?;
    let usual =
        |path: &&str| directories.iter().any(|dir| path.rsplit_once('/').is_some_and(|(at, _)| at == *dir));
    let links = names.lines().filter(|path| *path != "bin/busybox").filter(usual);
    entries.extend(links.map(|path| match applets {
        Applets::SymbolicLinks => Entry::Link { path: path.to_owned(), target: "/bin/busybox".into() },
        Applets::HardLinks => Entry::HardLink { path: path.to_owned(), target: "bin/busybox".into() },
    }));
    Ok(entries)
}

fn image_of_busybox(root: &[Entry]) -> Result<Image> {
    let run = RunAs { command: vec!["sh"], ..RunAs::default() };
    Ok(Image::new(BUSYBOX_NAMES, layer(root)?, &run))
}

fn image_of_nginx(mut root: Vec<Entry>, work: &Path) -> Result<Image> {
    root.push(file("usr/sbin/nginx", 0o755, compile(work, "web", critest::WEB_C)?));
    let run = RunAs { entrypoint: vec!["/usr/sbin/nginx", "80"], ..RunAs::default() };
    Ok(Image::new(&[NGINX], layer(&root)?, &run))
}

/// Three megabytes that no compression makes smaller and that are the same every time.
fn image_of_noise() -> Result<Image> {
    let mut noise = Vec::new();
    let mut state = ring::digest::digest(&ring::digest::SHA256, b"wardlet's testbed");
    while noise.len() < 3 << 20 {
        noise.extend_from_slice(state.as_ref());
        state = ring::digest::digest(&ring::digest::SHA256, state.as_ref());
    }
    let entries = [file("noise", 0o644, noise)];
    Ok(Image::new(&[REGISTRY_ONLY], layer(&entries)?, &RunAs::default()))
}

/// Upstream's image has curl, with which specs of hooks fetch a page; ours has a script in its place.
const CURL: &str = "#!/bin/sh\nexec wget -q -O - \"$1\"\n";

/// Upstream's image has a second name for the program, and a certificate for its servers; so has ours.
fn image_of_agnhost(mut root: Vec<Entry>, agnhost: &Path) -> Result<Image> {
    root.push(file("agnhost", 0o755, read(agnhost)?));
    root.push(file("usr/bin/curl", 0o755, CURL));
    root.push(Entry::Link { path: "agnhost-2".into(), target: "/agnhost".into() });
    let key = rcgen::KeyPair::generate().map_err(Error::crypto("agnhost's key"))?;
    let params = crate::cluster::authority("localhost")?;
    let certificate = params.self_signed(&key).map_err(Error::crypto("agnhost's certificate"))?;
    root.push(file("localhost.crt", 0o644, certificate.pem()));
    root.push(file("localhost.key", 0o644, key.serialize_pem()));
    let run = RunAs { entrypoint: vec!["/agnhost"], command: vec!["pause"], ..RunAs::default() };
    Ok(Image::new(AGNHOST_NAMES, layer(&root)?, &run))
}
