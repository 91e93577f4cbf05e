use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::base;
use crate::cache::{Cache, Installed};
use crate::debian::{self, Package};
use crate::error::{Error, Result};
use crate::series::Series;
use crate::systemd;
use crate::unpacked::Unpacked;

/// Unpacked package, image and result at once, for the largest kernel so far, and some.
const NEEDED_MIB: u64 = 600;

/// Gets the newest kernel of the series that Debian has into the cache, unless it is there. Says on
/// standard error what it does and what that took. Returns the kernel's directory.
pub fn install(series: Series) -> Result<PathBuf> {
    debian::ensure_programs()?;
    let cache = Cache::of_user()?;
    let _lock = cache.lock()?;
    let package = debian::kernel(series)?;
    let place = cache.place(&package.version);
    if let Some(installed) = Installed::at(place.clone()) {
        base::of(&installed)?;
        eprintln!("vm: kernel {series}: {} is there", package.version);
        return Ok(place);
    }
    let began = Instant::now();
    build(&cache, &package, &place)?;
    let size = size_mib(&place);
    eprintln!(
        "vm: kernel {series}: done in {:.1} s, {size} MiB in {}",
        began.elapsed().as_secs_f64(),
        place.display()
    );
    Ok(place)
}

/// Gets Debian's systemd and its libraries into the cache, unless they are there. Returns their archive.
pub fn install_systemd() -> Result<PathBuf> {
    let cache = Cache::of_user()?;
    fs::create_dir_all(cache.path()).map_err(Error::file("make", cache.path()))?;
    systemd::of(&cache)
}

/// Makes sure that some kernel of the series is installed: asks no archive when one is.
pub fn ensure(series: Series) -> Result<()> {
    debian::ensure_programs()?;
    if Cache::of_user()?.newest(series).is_none() {
        install(series)?;
    }
    Ok(())
}

/// Builds beside the place and moves there: a kernel is installed whole or not at all.
fn build(cache: &Cache, package: &Package, place: &Path) -> Result<()> {
    check_space(cache)?;
    let scratch = scratch(cache)?;
    let (unpacked, result) = (scratch.path().join("package"), scratch.path().join("result"));
    for directory in [&unpacked, &result] {
        fs::create_dir(directory).map_err(Error::file("make", directory))?;
    }
    let result = Installed::new(result);
    eprintln!("vm: fetching {} {}", package.name, package.version);
    debian::unpack(package, &unpacked)?;
    eprintln!("vm: making modules, policy and initramfs");
    Unpacked::at(&unpacked)?.build(&result)?;
    base::of(&result)?;
    fs::rename(result.path(), place).map_err(Error::file("make", place))
}

/// Named so that what an interrupted installation left is known, and gone with the next one.
fn scratch(cache: &Cache) -> Result<tempfile::TempDir> {
    const PREFIX: &str = ".unfinished-";
    let entries = fs::read_dir(cache.path()).map_err(Error::file("read", cache.path()))?;
    for entry in entries.flatten().filter(|e| e.file_name().to_string_lossy().starts_with(PREFIX)) {
        fs::remove_dir_all(entry.path()).map_err(Error::file("remove", &entry.path()))?;
    }
    tempfile::Builder::new()
        .prefix(PREFIX)
        .tempdir_in(cache.path())
        .map_err(Error::file("write to", cache.path()))
}

fn check_space(cache: &Cache) -> Result<()> {
    let stat = rustix::fs::statvfs(cache.path())
        .map_err(|errno| Error::file("look at", cache.path())(errno.into()))?;
    let free_mib = stat.f_bavail.saturating_mul(stat.f_frsize) >> 20;
    if free_mib < NEEDED_MIB {
        return Err(Error::Space { cache: cache.path().to_owned(), free_mib, needed_mib: NEEDED_MIB });
    }
    Ok(())
}

fn size_mib(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|m| m.blocks() * 512).sum::<u64>() >> 20
}
