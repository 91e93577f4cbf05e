//! Disks that are full or slow.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cluster::parts::Part;
use crate::{Error, Result, Testbed, program};

/// A small filesystem over one directory inside the testbed. It stays until the testbed ends: open files keep it busy.
#[derive(Debug)]
pub struct SmallDisk<'a> {
    testbed: &'a Testbed,
    directory: PathBuf,
}

/// Puts a filesystem of so many bytes over `directory`, which must exist inside. What was there is hidden: do
/// it while the part that uses the directory is not running.
///
/// # Errors
/// If it cannot be mounted.
pub fn small<'a>(testbed: &'a Testbed, directory: &Path, bytes: u64) -> Result<SmallDisk<'a>> {
    let options = format!("size={bytes},mode=755");
    let mut mount = testbed.command("mount");
    program::run(mount.args(["-t", "tmpfs", "-o", &options, "small-disk"]).arg(directory))?;
    Ok(SmallDisk { testbed, directory: directory.to_path_buf() })
}

/// Puts an ext4 of so many bytes, on a loop device, over `directory`, which must exist inside. What was there is hidden. It goes
/// with the testbed.
///
/// # Errors
/// If it cannot be made or mounted.
pub fn separate(testbed: &Testbed, directory: &Path, bytes: u64) -> Result<()> {
    let name = format!("disk-{bytes}.img");
    let file = testbed.record().places.data.join(name);
    let image = fs::File::create_new(&file).map_err(Error::file("make", &file))?;
    image.set_len(bytes).map_err(Error::file("extend", &file))?;
    program::run(testbed.command("mkfs.ext4").arg("-q").arg(&file))?;
    program::run(testbed.command("mount").args(["-o", "loop"]).arg(&file).arg(directory)).map(drop)
}

impl SmallDisk<'_> {
    fn filler(&self) -> PathBuf {
        self.directory.join(".full")
    }

    fn run(&self, command: &mut Command) -> Result<()> {
        program::run(command).map(|_| ())
    }

    /// Takes every byte that is left.
    ///
    /// # Errors
    /// If the filler cannot be written.
    pub fn fill(&self) -> Result<()> {
        let script = "cat /dev/zero > \"$1\" 2>/dev/null; test -s \"$1\"";
        self.run(self.testbed.command("sh").args(["-c", script, "fill"]).arg(self.filler()))
    }

    /// Gives them back.
    ///
    /// # Errors
    /// If the filler cannot be removed.
    pub fn free(&self) -> Result<()> {
        self.run(self.testbed.command("rm").arg("-f").arg(self.filler()))
    }
}

/// Every synchronisation of the part takes so much longer from now on. The part is killed and started again.
///
/// # Errors
/// If it does not become ready.
pub fn slow_sync(testbed: &mut Testbed, part: Part, microseconds: u64) -> Result<()> {
    let calls = "fsync,fdatasync,sync_file_range,msync";
    super::kill(testbed, part)?;
    testbed.restart_under(part, &super::tracer(calls, &format!("inject={calls}:delay_enter={microseconds}")))
}

/// Limits what all daemons of the testbed together read and write per second on the disk that holds their
/// data, commands run inside included, containers not. Version 1 of cgroups counts what a process itself
/// submits, so writes are slowed when they are synced.
///
/// # Errors
/// If this kernel has no throttling for that disk.
pub fn throttle(testbed: &Testbed, bytes_per_second: u64) -> Result<()> {
    let record = testbed.record();
    let (major, minor) = device(&record.places.data)?;
    let (files, value) = match record.cgroups.iter().find(|path| path.starts_with("/sys/fs/cgroup/blkio")) {
        Some(directory) => {
            let files = ["read", "write"]
                .map(|way| directory.join(format!("daemons/blkio.throttle.{way}_bps_device")));
            (files.to_vec(), format!("{major}:{minor} {bytes_per_second}"))
        }
        None => {
            let files = record.cgroups.iter().map(|directory| directory.join("daemons/io.max")).collect();
            (files, format!("{major}:{minor} rbps={bytes_per_second} wbps={bytes_per_second}"))
        }
    };
    for file in files {
        fs::write(&file, &value).map_err(|error| Error::CannotBeHad {
            what: format!("a slow disk {major}:{minor}"),
            cause: format!("{}: {error}", file.display()),
        })?;
    }
    Ok(())
}

/// The whole disk under a directory: a partition cannot be throttled by itself.
fn device(path: &Path) -> Result<(u32, u32)> {
    let number = fs::metadata(path).map_err(Error::file("look at", path))?.dev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let sys = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}"));
    let parent = sys.ok().and_then(|dir| fs::read_to_string(dir.parent()?.join("dev")).ok());
    let numbers = parent.as_deref().and_then(|text| text.trim().split_once(':'));
    let whole = numbers.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    Ok(whole.unwrap_or((major, minor)))
}
