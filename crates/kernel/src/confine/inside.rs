//! What the process to be does to itself, once it is among the container's. The process that it comes from
//! has one thread, so that all here may be ordinary code.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, statat};
use rustix::io::Errno;
use rustix::process::{Gid, Signal, Uid, chdir, getcwd, set_parent_process_death_signal, setsid, umask};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    configure_capability_in_ambient_set, remove_capability_from_bounding_set, set_capabilities,
    set_keep_capabilities, set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use super::report::{self, Step};
use super::{Capabilities, Confined, Identity, Streams, filter, terminal};
use crate::userns::last_errno;

/// More than Linux has.
const CAPABILITIES: u32 = 63;

/// The process to be.
pub(super) struct Inside<'a> {
    pub(super) wanted: &'a Confined,
    /// Where it tells what becomes of it.
    pub(super) report: OwnedFd,
    /// The host's /proc: the container's own may be anything.
    pub(super) host_proc: OwnedFd,
    /// Whether it has come into another user namespace.
    pub(super) other_users: bool,
}

type Done = Result<(), (Step, Errno)>;

impl Inside<'_> {
    /// Becomes the program, or tells why not.
    pub(super) fn become_it(self) {
        let report = report_of(&self.report);
        let told = |(step, errno)| report::tell_failed(report, step, errno);
        if let Err(failed) = self.prepare() {
            return told(failed);
        }
        report::tell_ready(report);
        if !report::told_to_go(report) {
            return;
        }
        if let Err(failed) = self.confine() {
            return told(failed);
        }
        if let crate::Error::Program { errno, .. } = self.wanted.program.become_it() {
            told((Step::Program, errno));
        }
    }

    /// What is done as the container's root.
    fn prepare(&self) -> Done {
        close_but([self.report.as_raw_fd(), self.host_proc.as_raw_fd()]).map_err(at(Step::Close))?;
        setsid().map_err(at(Step::Session))?;
        if self.other_users {
            become_user(&Identity { uid: 0, gid: 0, groups: vec![], umask: 0 }).map_err(at(Step::Root))?;
        }
        self.label().map_err(at(Step::Label))?;
        match self.wanted.streams {
            Streams::Inherited => Ok(()),
            Streams::Terminal { size } => {
                terminal::take(report_of(&self.report), self.wanted.identity.uid, size)
                    .map_err(at(Step::Terminal))
            }
        }
    }

    fn label(&self) -> Result<(), Errno> {
        let labels = &self.wanted.labels;
        if let Some(label) = &labels.selinux {
            self.write("thread-self/attr/exec", label)?;
        }
        if let Some(profile) = &labels.apparmor {
            let words = format!("exec {profile}");
            match self.write("thread-self/attr/apparmor/exec", &words) {
                Err(Errno::NOENT) => self.write("thread-self/attr/exec", &words)?,
                answer => answer?,
            }
        }
        Ok(())
    }

    fn write(&self, path: &str, text: &str) -> Result<(), Errno> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.host_proc, path, flags, Mode::empty())?;
        rustix::io::write(&file, text.as_bytes()).map(drop)
    }

    /// What leaves it with no more than it is to have.
    fn confine(&self) -> Done {
        let wanted = self.wanted;
        // No descriptor of ours may be the way to the working directory.
        close(self.host_proc.as_raw_fd());
        let later = match chdir(&wanted.cwd) {
            // Not for root, whose power over foreign files is limited in a user namespace.
            Err(Errno::ACCESS | Errno::PERM) => true,
            answer => answer.map(|()| false).map_err(at(Step::Directory))?,
        };
        for limit in &wanted.limits.resources {
            limit.settle().map_err(at(Step::Limit))?;
        }
        umask(Mode::from_raw_mode(wanted.identity.umask));
        drop_from_bounding(wanted.capabilities.bounding).map_err(at(Step::Bounding))?;
        set_keep_capabilities(true).map_err(at(Step::User))?;
        become_user(&wanted.identity).map_err(at(Step::User))?;
        self.die_with_maker().map_err(at(Step::Parent))?;
        self.filtered_and_capable()?;
        if later {
            chdir(&wanted.cwd).map_err(at(Step::Directory))?;
        }
        is_inside().map_err(at(Step::Directory))?;
        match &wanted.limits.seccomp {
            Some(filter) if wanted.limits.no_new_privileges => {
                filter::load(filter).map_err(at(Step::Seccomp))
            }
            _ => Ok(()),
        }
    }

    /// Without `no_new_privileges` a filter takes a capability, so it comes before they go; with it, it
    /// comes last, when hardly a call of our own is left to be filtered.
    fn filtered_and_capable(&self) -> Done {
        let (limits, sets) = (&self.wanted.limits, self.wanted.capabilities);
        if limits.no_new_privileges {
            set_no_new_privs(true).map_err(at(Step::Capabilities))?;
        } else if let Some(filter) = &limits.seccomp {
            all_in_force().map_err(at(Step::Capabilities))?;
            filter::load(filter).map_err(at(Step::Seccomp))?;
        }
        all_in_force().map_err(at(Step::Capabilities))?;
        set_sets(sets).map_err(at(Step::Capabilities))
    }

    /// After it has become the user: that makes the kernel forget the signal. If its maker is gone by
    /// then, no signal will come.
    fn die_with_maker(&self) -> Result<(), Errno> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        let mut ends = [PollFd::new(&self.report, PollFlags::empty())];
        poll(&mut ends, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
        let gone = ends.iter().any(|end| end.revents().contains(PollFlags::HUP));
        if gone { Err(Errno::SRCH) } else { Ok(()) }
    }
}

fn report_of(report: &OwnedFd) -> BorrowedFd<'_> {
    report.as_fd()
}

fn at(step: Step) -> impl Fn(Errno) -> (Step, Errno) {
    move |errno| (step, errno)
}

fn become_user(identity: &Identity) -> Result<(), Errno> {
    let groups: Vec<Gid> = identity.groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
    set_thread_groups(&groups)?;
    let (uid, gid) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)
}

fn drop_from_bounding(kept: u64) -> Result<(), Errno> {
    for number in 0..CAPABILITIES {
        let one = 1u64 << number;
        if kept & one != 0 {
            continue;
        }
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(one)) {
            // Linux has no more of them.
            Err(Errno::INVAL) => return Ok(()),
            answer => answer?,
        }
    }
    Ok(())
}

/// Those that were kept when the user was taken on.
fn all_in_force() -> Result<(), Errno> {
    let held = capabilities(None)?;
    set_capabilities(None, CapabilitySets { effective: held.permitted, ..held })
}

fn set_sets(sets: Capabilities) -> Result<(), Errno> {
    let set = CapabilitySet::from_bits_retain;
    // What is ambient must be permitted and inheritable, so that both come first.
    set_capabilities(
        None,
        CapabilitySets {
            effective: set(sets.effective),
            permitted: set(sets.permitted),
            inheritable: set(sets.inheritable),
        },
    )?;
    clear_ambient_capability_set()?;
    for number in (0..CAPABILITIES).filter(|number| sets.ambient & (1u64 << number) != 0) {
        configure_capability_in_ambient_set(set(1u64 << number), true)?;
    }
    Ok(())
}

/// A directory that was held open from outside has no path inside.
fn is_inside() -> Result<(), Errno> {
    let path = getcwd(Vec::new())?;
    if !path.as_bytes().starts_with(b"/") {
        return Err(Errno::NOENT);
    }
    let (here, there) =
        (statat(CWD, ".", rustix::fs::AtFlags::empty())?, statat(CWD, &path, rustix::fs::AtFlags::empty()));
    match there {
        Ok(there) if (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino) => Err(Errno::NOENT),
        // Whoever may be in a directory need not be able to find the way to it.
        _ => Ok(()),
    }
}

/// Closes all descriptors but the standard ones and these.
fn close_but(kept: [RawFd; 2]) -> Result<(), Errno> {
    let mut kept = kept.map(|fd| libc::c_uint::try_from(fd).unwrap_or(0));
    kept.sort_unstable();
    let mut first: libc::c_uint = 3;
    for fd in kept {
        if fd > first {
            close_range(first, fd - 1)?;
        }
        first = fd.saturating_add(1).max(3);
    }
    close_range(first, libc::c_uint::MAX)
}

fn close_range(first: libc::c_uint, last: libc::c_uint) -> Result<(), Errno> {
    // SAFETY: this process uses none of these descriptors any more: it becomes the program or ends.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

fn close(fd: RawFd) {
    // SAFETY: as above; its owner is never dropped, since this process becomes the program or ends.
    unsafe { libc::close(fd) };
}
