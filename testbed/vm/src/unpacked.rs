use std::fs;
use std::path::{Path, PathBuf};

use crate::cache::Installed;
use crate::error::{Error, Result};
use crate::host;

/// What the guest's first stage needs: the port to the host, the disk with all other modules. Loop
/// devices come along because nothing loads their module by name.
const EARLY_MODULES: [&str; 4] = ["virtio_pci", "virtio_console", "virtio_blk", "loop"];

const VAR_SIZE: &str = "4G";

/// An unpacked kernel package.
#[derive(Debug)]
pub(crate) struct Unpacked {
    root: PathBuf,
    release: String,
}

impl Unpacked {
    pub(crate) fn at(root: &Path) -> Result<Self> {
        let boot = root.join("boot");
        let entries = fs::read_dir(&boot).map_err(Error::file("read", &boot))?;
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let release = names.into_iter().find_map(|name| name.strip_prefix("vmlinuz-").map(str::to_owned));
        let release =
            release.ok_or_else(|| Error::Incomplete { what: "the kernel".into(), place: boot.clone() })?;
        Ok(Self { root: root.to_owned(), release })
    }

    /// Makes from it what a guest boots from, in a directory that is there.
    pub(crate) fn build(&self, into: &Installed) -> Result<()> {
        let kernel = self.root.join("boot").join(format!("vmlinuz-{}", self.release));
        fs::copy(&kernel, into.kernel()).map_err(Error::file("copy", &kernel))?;
        self.prepare_modules()?;
        self.copy_early_modules(into)?;
        self.module_disk(&into.modules())?;
        empty_disk(&into.var())
    }

    fn modules(&self) -> PathBuf {
        self.root.join("lib/modules").join(&self.release)
    }

    /// busybox reads no compressed modules.
    fn prepare_modules(&self) -> Result<()> {
        let mut files = files_below(&self.modules())?;
        files.retain(|path| path.extension().is_some_and(|extension| extension == "xz"));
        if !files.is_empty() {
            host::run(host::command("xz").arg("-d").args(&files))?;
        }
        host::run(host::command("depmod").arg("-b").arg(&self.root).arg(&self.release)).map(drop)
    }

    /// With what each of them depends on before it, numbered in the order of loading.
    fn copy_early_modules(&self, into: &Installed) -> Result<()> {
        let mut order: Vec<PathBuf> = vec![];
        for module in EARLY_MODULES {
            let mut modprobe = host::command("modprobe");
            modprobe.arg("-d").arg(&self.root).args(["-S", &self.release, "--show-depends", module]);
            let needed = host::read(&mut modprobe)?;
            let paths =
                needed.lines().filter_map(|line| line.strip_prefix("insmod ")).map(|path| path.trim().into());
            paths.for_each(|path| {
                if !order.contains(&path) {
                    order.push(path)
                }
            });
        }
        fs::create_dir(into.early_modules()).map_err(Error::file("make", &into.early_modules()))?;
        for (number, path) in order.iter().enumerate() {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let copy = into.early_modules().join(format!("{number:02}-{name}"));
            fs::copy(path, copy).map_err(Error::file("copy", path))?;
        }
        Ok(())
    }

    fn module_disk(&self, image: &Path) -> Result<()> {
        // A block lost per file, and a quarter for what the filesystem itself needs.
        let files = files_below(&self.modules())?;
        let sizes = files.iter().filter_map(|path| path.metadata().ok()).map(|m| m.len() + 4096);
        let mib = sizes.sum::<u64>() * 5 / 4 / (1 << 20) + 8;
        let mut mkfs = host::command("mkfs.ext4");
        mkfs.args(["-q", "-F", "-m", "0", "-O", "^has_journal", "-d"]).arg(self.root.join("lib/modules"));
        host::run(mkfs.arg(image).arg(format!("{mib}M"))).map(drop)
    }
}

/// Large and sparse, with everything initialised now: a guest would do it in its background.
fn empty_disk(image: &Path) -> Result<()> {
    let mut mkfs = host::command("mkfs.ext4");
    mkfs.args(["-q", "-F", "-m", "0", "-N", "65536", "-J", "size=16"]);
    mkfs.args(["-E", "lazy_itable_init=0,lazy_journal_init=0"]);
    host::run(mkfs.arg(image).arg(VAR_SIZE)).map(drop)
}

fn files_below(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = vec![];
    for entry in fs::read_dir(directory).map_err(Error::file("read", directory))?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            files.extend(files_below(&entry.path())?);
        } else {
            files.push(entry.path());
        }
    }
    Ok(files)
}
