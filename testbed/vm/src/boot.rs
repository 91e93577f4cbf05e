//! QEMU's arguments, and the initramfs that it boots.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;

use rustix::fs::{MemfdFlags, memfd_create};

use crate::base;
use crate::binaries::static_binary;
use crate::cache::{Cache, Installed};
use crate::cpio::Archive;
use crate::error::{Error, Result};
use crate::host;
use crate::payload::Payload;
use crate::systemd;
use crate::vm::{Init, Options};

/// `lsm=`: Debian's own list lets AppArmor win. `oops=panic panic=-1`: a fault ends the machine at once.
const CMDLINE: &str = "console=ttyS0 quiet loglevel=5 lsm=selinux cgroup_no_v1=all oops=panic panic=-1 \
                       mitigations=off nokaslr no_timer_check cryptomgr.notests";

/// What takes long when it is emulated is left out: copies byte by byte, and a fifth level of page tables.
const CPU: &str = "max,-erms,-la57";

/// For a guest whose process 1 is systemd: without SELinux, whose policy here knows none of its files, and with nothing
/// started but the guest's agent.
const WITH_SYSTEMD: &str = "lsm=capability vm.init=systemd systemd.unit=guest.target systemd.show_status=false \
                            systemd.log_target=console systemd.log_level=warning";

/// The base and this boot's own files, in memory: nothing to clean up, however we end.
pub(crate) fn initrd(installed: &Installed, options: &Options) -> Result<File> {
    let mut archive = Archive::default();
    Payload::new(&static_binary("vm", "vm-agent")?, "/bin/vm-agent").add_to(&mut archive)?;
    for payload in &options.payloads {
        payload.add_to(&mut archive)?;
    }
    let base = base::of(installed)?;
    let mut parts = vec![base];
    if options.init == Init::Systemd {
        parts.push(systemd::of(&Cache::of_user()?)?);
    }
    let memory = Path::new("the initramfs in memory");
    let mut file = memfd_create("initrd", MemfdFlags::CLOEXEC)
        .map(File::from)
        .map_err(|errno| Error::file("make", memory)(errno.into()))?;
    for path in parts {
        let mut part = File::open(&path).map_err(Error::file("open", &path))?;
        io::copy(&mut part, &mut file).map_err(Error::file("write", memory))?;
    }
    file.write_all(&archive.finish()).map_err(Error::file("write", memory))?;
    Ok(file)
}

/// QEMU, emulating: a `/dev/kvm` is no promise that a guest kernel runs on it.
pub(crate) fn command(installed: &Installed, options: &Options, initrd: &File) -> Command {
    let mut qemu = host::command("setpriv");
    qemu.args(["--pdeathsig", "KILL", "--"]);
    if let Some(namespace) = &options.network {
        qemu.arg(host::find("nsenter").unwrap_or_else(|| "nsenter".into()));
        qemu.arg(format!("--net={}", namespace.display())).arg("--");
    }
    qemu.arg(host::find("qemu-system-x86_64").unwrap_or_else(|| "qemu-system-x86_64".into()));
    qemu.args(["-M", "pc", "-accel", "tcg,thread=multi", "-cpu", CPU, "-m"]);
    qemu.arg(options.memory_mib.to_string());
    qemu.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
    qemu.args(["-chardev", "file,id=console,path=/dev/stderr,append=on", "-serial", "chardev:console"]);
    qemu.args(["-chardev", "stdio,id=agent,signal=off", "-device", "virtio-serial-pci"]);
    qemu.args(["-device", "virtserialport,chardev=agent,name=agent"]);
    // The order makes the names: /dev/vda, /dev/vdb. What is written to a snapshot goes to a file that
    // has no name, and ends with QEMU.
    qemu.arg("-drive").arg(drive(&installed.modules(), "readonly=on"));
    // No write has to reach the host's disk: a kept one outlives QEMU, not the host.
    qemu.arg("-drive").arg(match &options.disk {
        Some(kept) => drive(kept, "cache=unsafe"),
        None => drive(&installed.var(), "snapshot=on,cache=unsafe"),
    });
    if options.network.is_some() {
        qemu.args(["-netdev", "user,id=network", "-device", "virtio-net-pci,netdev=network,romfile="]);
    }
    qemu.arg("-kernel").arg(installed.kernel()).arg("-initrd");
    // Opened by QEMU itself, so that no descriptor has to survive into it.
    qemu.arg(format!("/proc/{}/fd/{}", std::process::id(), initrd.as_raw_fd()));
    let more = match options.init {
        Init::Script => String::new(),
        Init::Systemd => format!(" {WITH_SYSTEMD}"),
    };
    qemu.arg("-append").arg(format!("{CMDLINE} vm.mode={}{more}", options.mode));
    qemu
}

/// In QEMU's options a comma ends a value, and two are one.
fn drive(image: &Path, how: &str) -> String {
    format!("file={},format=raw,if=virtio,{how}", image.to_string_lossy().replace(',', ",,"))
}
