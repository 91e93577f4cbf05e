//! The intermediate process: enters the container's namespaces, drops privileges, and forks the process of the
//! program.
//!
//! It is in the container's namespaces except the PID namespace, so that no process of the container sees it. It does
//! everything that takes a privilege which the program will not have, and closes everything that belongs to the host:
//! from its first moment the child has hardly more than its program.

use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, statat};
use rustix::io::Errno;
use rustix::process::{Gid, Uid, chdir, getcwd, umask};
use rustix::thread::{
    set_keep_capabilities, set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use super::report::Step;
use super::{Confined, Identity, Streams, capable, descriptors, terminal};
use crate::userns::last_errno;

/// The intermediate process.
pub(super) struct Between<'a> {
    pub(super) wanted: &'a Confined,
    /// The socket for its report.
    pub(super) report: OwnedFd,
    /// The namespaces to join, as flags.
    pub(super) mask: c_int,
}

pub(super) type Done = Result<(), (Step, Errno)>;

pub(super) fn at(step: Step) -> impl Fn(Errno) -> (Step, Errno) {
    move |errno| (step, errno)
}

impl Between<'_> {
    /// Takes every step before exec that does not need the process of the program itself.
    pub(super) fn prepare(&self) -> Done {
        hide()?;
        // As the host's root, whose number of keyrings is hardly limited.
        crate::keyring::leave().map_err(at(Step::Keyring))?;
        self.join()?;
        self.open_streams()?;
        descriptors::close_but(self.report.as_raw_fd()).map_err(at(Step::Close))?;
        self.confine()
    }

    fn join(&self) -> Done {
        let wanted = self.wanted;
        for group in &wanted.cgroups {
            rustix::io::write(group, b"0").map_err(at(Step::Cgroup))?;
        }
        crate::oom_score::set(wanted.limits.oom_score_adj).map_err(at(Step::OomScore))?;
        // These last until a program is run, also in the child.
        self.label().map_err(at(Step::Label))?;
        for limit in &wanted.limits.resources {
            limit.make_room().map_err(at(Step::Limit))?;
        }
        if self.mask == 0 {
            return Ok(());
        }
        // SAFETY: the descriptor is borrowed for the whole call; the rest are plain numbers.
        if unsafe { libc::setns(wanted.beside.as_fd().as_raw_fd(), self.mask) } != 0 {
            return Err((Step::Join, last_errno()));
        }
        if self.mask & libc::CLONE_NEWUSER == 0 {
            return Ok(());
        }
        become_user(&Identity { uid: 0, gid: 0, groups: vec![], umask: 0 }).map_err(at(Step::Root))?;
        hide()
    }

    fn label(&self) -> Result<(), Errno> {
        let labels = &self.wanted.labels;
        if let Some(label) = &labels.selinux {
            write("/proc/thread-self/attr/exec", label)?;
        }
        if let Some(profile) = &labels.apparmor {
            let words = format!("exec {profile}");
            match write("/proc/thread-self/attr/apparmor/exec", &words) {
                Err(Errno::NOENT) => write("/proc/thread-self/attr/exec", &words)?,
                answer => answer?,
            }
        }
        Ok(())
    }

    /// A terminal replaces all streams; otherwise none of them may be the host's own /dev/null.
    fn open_streams(&self) -> Done {
        match self.wanted.streams {
            Streams::Inherited => descriptors::own_nothing().map_err(at(Step::Streams)),
            Streams::Terminal { size } => terminal::open(self.report.as_fd(), self.wanted.identity.uid, size)
                .map_err(at(Step::Terminal)),
        }
    }

    /// Drops privileges; keeps only what setting a seccomp filter takes, where it takes any.
    fn confine(&self) -> Done {
        let wanted = self.wanted;
        let later = match chdir(&wanted.cwd) {
            // Not for root, whose power over foreign files is limited in a user namespace.
            Err(Errno::ACCESS | Errno::PERM) => true,
            answer => answer.map(|()| false).map_err(at(Step::Directory))?,
        };
        for limit in &wanted.limits.resources {
            limit.settle().map_err(at(Step::Limit))?;
        }
        umask(Mode::from_raw_mode(wanted.identity.umask));
        capable::bound(wanted.capabilities.bounding).map_err(at(Step::Bounding))?;
        set_keep_capabilities(true).map_err(at(Step::User))?;
        become_user(&wanted.identity).map_err(at(Step::User))?;
        // The kernel takes that back when the user changes.
        hide()?;
        if wanted.limits.no_new_privileges {
            set_no_new_privs(true).map_err(at(Step::Capabilities))?;
        }
        if wanted.limits.filter_takes_power() {
            capable::keep_for_filter(wanted.capabilities).map_err(at(Step::Capabilities))?;
        } else {
            capable::all_in_force().map_err(at(Step::Capabilities))?;
            capable::set(wanted.capabilities).map_err(at(Step::Capabilities))?;
        }
        if later {
            chdir(&wanted.cwd).map_err(at(Step::Directory))?;
        }
        is_inside().map_err(at(Step::Directory))
    }
}

/// Until the program runs this is our memory, and its program ours: none of the container's processes may
/// look into it, whatever they may do to others. Running the program ends that.
fn hide() -> Done {
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .map_err(at(Step::Hide))
}

fn become_user(identity: &Identity) -> Result<(), Errno> {
    let groups: Vec<Gid> = identity.groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
    set_thread_groups(&groups)?;
    let (uid, gid) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)
}

/// A directory that was held open from outside has no path inside.
fn is_inside() -> Result<(), Errno> {
    let path = getcwd(Vec::new())?;
    if !path.as_bytes().starts_with(b"/") {
        return Err(Errno::NOENT);
    }
    let (here, there) = (statat(CWD, ".", AtFlags::empty())?, statat(CWD, &path, AtFlags::empty()));
    match there {
        Ok(there) if (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino) => Err(Errno::NOENT),
        // A user that may be in a directory need not have search permission on the path to it.
        _ => Ok(()),
    }
}

fn write(path: &str, text: &str) -> Result<(), Errno> {
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, text.as_bytes()).map(drop)
}
