//! Processes that the kernel has killed because the machine is out of memory, by the kernel's log.
//!
//! A container that exceeds its own limit is no matter of the node: the runtime tells why it has ended.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use rustix::io::Errno;
use tokio::sync::mpsc;
use tracing::warn;

use crate::node::NodeRecorder;

const LOG: &str = "dev/kmsg";
/// The kernel's longest record.
const LONGEST: usize = 8192;
/// Records of the kernel itself have a priority below this: it gives those that programs write another facility.
const FIRST_OF_PROGRAMS: u32 = 8;
/// The constraint of a process that is killed because its cgroup is out of memory.
const MEMCG: &str = "CONSTRAINT_MEMCG";
/// The event of the node.
const SYSTEM_OOM: &str = "SystemOOM";

/// A process that the kernel has killed because the machine was out of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Victim {
    name: String,
    pid: u32,
}

impl Victim {
    /// Reads a record of the kernel's log; `None` if it is about something else.
    fn of(record: &str) -> Option<Self> {
        let (head, message) = record.split_once(';')?;
        let priority: u32 = head.split(',').next()?.parse().ok()?;
        if priority >= FIRST_OF_PROGRAMS {
            return None;
        }
        let message = message.lines().next()?.strip_prefix("oom-kill:constraint=")?;
        // The kernel names the constraint first, before anything that a user chooses, such as the name of a cpuset.
        if message.split(',').next() == Some(MEMCG) {
            return None;
        }
        // One that is out of the memory of its cgroup has `oom_memcg=` in this place. Names of cgroups and of processes, which
        // their users choose, come later.
        let (before, after) = message.split_once(",task_memcg=")?;
        if !before.ends_with(",global_oom") {
            return None;
        }
        let (rest, pid) = after.rsplit_once(",uid=")?.0.rsplit_once(",pid=")?;
        let (_, name) = rest.rsplit_once(",task=")?;
        Some(Self { name: name.to_owned(), pid: pid.parse().ok()? })
    }
}

/// Records an event of the node for each process that is killed from now on, for as long as this is polled.
pub(crate) async fn watch(host_root: &Path, recorder: NodeRecorder) {
    let log = host_root.join(LOG);
    let opened = open(&log);
    let mut file = match opened {
        Ok(file) => file,
        Err(cause) => {
            return warn!(
                "{} cannot be read: {cause}; the node has no events when it is out of memory: give the agent CAP_SYSLOG",
                log.display()
            );
        }
    };
    let (sender, mut victims) = mpsc::channel(16);
    // It ends with the process, or with the first victim that no task waits for.
    std::thread::spawn(move || {
        if let Err(cause) = follow(&mut file, |victim| sender.blocking_send(victim).is_ok()) {
            warn!(
                "the kernel's log can be read no more: {cause}; the node has no events when it is out of memory"
            );
        }
    });
    while let Some(Victim { name, pid }) = victims.recv().await {
        recorder.warn(SYSTEM_OOM, format!("System OOM encountered, victim process: {name}, pid: {pid}"));
    }
}

/// Opens the log at its end: what is in it was reported before.
fn open(log: &Path) -> io::Result<File> {
    let mut file = OpenOptions::new().read(true).open(log)?;
    file.seek(SeekFrom::End(0))?;
    Ok(file)
}

/// Reads record after record, until `tell` wants no more.
fn follow(log: &mut impl Read, tell: impl Fn(Victim) -> bool) -> io::Result<()> {
    let mut record = vec![0; LONGEST];
    loop {
        let length = match log.read(&mut record) {
            Ok(0) => return Ok(()),
            Ok(length) => length,
            // Records were overwritten before they were read; or one is too long, and skipped.
            Err(cause) if is_lost(&cause) => continue,
            Err(cause) => return Err(cause),
        };
        let text = String::from_utf8_lossy(record.get(..length).unwrap_or_default());
        if let Some(victim) = Victim::of(&text)
            && !tell(victim)
        {
            return Ok(());
        }
    }
}

fn is_lost(cause: &io::Error) -> bool {
    let lost = [Errno::PIPE, Errno::INVAL, Errno::INTR].map(Errno::raw_os_error);
    cause.raw_os_error().is_some_and(|errno| lost.contains(&errno))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::VecDeque;

    use super::*;

    const GLOBAL: &str = "6,1234,98765,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,\
        task_memcg=/kubepods/burstable/pod1/abc,task=stress,pid=4711,uid=0\n SUBSYSTEM=x\n";
    const OF_CGROUP: &str = "6,1235,98766,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=abc,mems_allowed=0,\
        oom_memcg=/kubepods/pod1,task_memcg=/kubepods/pod1/abc,task=stress,pid=4712,uid=0\n";

    fn victim(name: &str, pid: u32) -> Option<Victim> {
        Some(Victim { name: name.to_owned(), pid })
    }

    #[test]
    fn only_the_kernels_word_on_the_whole_machine_counts() {
        assert_eq!(Victim::of(GLOBAL), victim("stress", 4711));
        assert_eq!(Victim::of(OF_CGROUP), None);
        // A program that may write to the log cannot give itself the kernel's facility.
        assert_eq!(Victim::of(&GLOBAL.replacen("6,", "14,", 1)), None);
        for other in ["", "6,1;hello", "oom-kill:constraint=", "x,1,2,-;oom-kill:constraint=CONSTRAINT_NONE"]
        {
            assert_eq!(Victim::of(other), None, "{other}");
        }
    }

    #[test]
    fn names_that_look_like_fields_do_not_change_what_is_read() {
        let tricky = GLOBAL.replace("task=stress", "task=a,pid=1,uid=2");
        assert_eq!(Victim::of(&tricky).unwrap().pid, 4711);
        let forged = OF_CGROUP.replace("task=stress", "task=x,global_oom,task_memcg=/");
        assert_eq!(Victim::of(&forged), None);
        // The name of the cpuset comes before the field that tells the two apart.
        let forged = OF_CGROUP.replace("cpuset=abc", "cpuset=x,global_oom,task_memcg=/,task=y,pid=1,uid=0");
        assert_eq!(Victim::of(&forged), None);
    }

    /// Records, one for each read, and errors in between.
    struct Records(VecDeque<Result<&'static str, Errno>>);

    impl Read for Records {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.pop_front() {
                None => Ok(0),
                Some(Err(errno)) => Err(errno.into()),
                Some(Ok(text)) => {
                    buffer[..text.len()].copy_from_slice(text.as_bytes());
                    Ok(text.len())
                }
            }
        }
    }

    #[test]
    fn lost_records_are_passed_over_and_other_errors_end_it() {
        let heard = RefCell::new(Vec::new());
        let mut log =
            Records([Ok(GLOBAL), Err(Errno::PIPE), Ok(OF_CGROUP), Ok(GLOBAL), Err(Errno::IO)].into());
        let ended = follow(&mut log, |victim| {
            heard.borrow_mut().push(victim.pid);
            true
        });
        assert_eq!((heard.into_inner(), ended.unwrap_err().raw_os_error()), (vec![4711, 4711], Some(5)));
        let mut log = Records([Ok(GLOBAL), Ok(GLOBAL)].into());
        follow(&mut log, |_| false).unwrap();
        assert_eq!(log.0.len(), 1);
    }
}
