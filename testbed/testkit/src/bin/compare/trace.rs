//! strace's output as lines: mount and namespace calls, without numbers of descriptors, processes and addresses.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::mask::Mask;

/// The calls that make, move and change mounts and namespaces.
pub(crate) const CALLS: &str = "trace=mount,umount2,move_mount,open_tree,fsopen,fsconfig,fsmount,fspick,mount_setattr,\
                     unshare,setns,clone,clone3,pivot_root,chroot";

/// strace over the program that is added, its threads and children: one file for each thread, named by `prefix`.
pub(crate) fn strace(prefix: &Path) -> Command {
    let mut command = Command::new("strace");
    command.args(["-ff", "-qq", "-y", "-s", "4096", "--seccomp-bpf", "-e", CALLS, "-e", "signal=none", "-o"]);
    command.arg(prefix);
    command
}

/// The calls of all threads, sorted: which thread of a server makes a call is chance. The order of a container's mounts is seen
/// in its own mount table.
pub(crate) fn calls(prefix: &Path, mask: &Mask) -> anyhow::Result<Vec<String>> {
    let files = files(prefix)?;
    let pids = files.iter().filter_map(|file| file.extension()?.to_str()?.parse().ok()).collect();
    let mask = mask.clone().with_pids(pids);
    let mut lines = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        lines.extend(text.lines().filter_map(|line| normal(line, &mask)));
    }
    lines.sort();
    Ok(lines)
}

fn files(prefix: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let directory = prefix.parent().unwrap_or(Path::new("/"));
    let name = format!("{}.", prefix.file_name().unwrap_or_default().display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(&name) {
            files.push(entry.path());
        }
    }
    Ok(files)
}

/// A call with its arguments and whether it succeeded. Threads and plain children are none of what is compared.
fn normal(line: &str, mask: &Mask) -> Option<String> {
    let (call, result) = line.rsplit_once(" = ")?;
    let (name, _) = call.split_once('(')?;
    let outcome = match result.strip_prefix("-1 ") {
        Some(error) => error.split(' ').next().unwrap_or_default(),
        None => "ok",
    };
    let call = if name.starts_with("clone") {
        let flags: Vec<&str> = call.split(|c: char| !c.is_ascii_uppercase() && c != '_').collect();
        let flags: Vec<&str> = flags.into_iter().filter(|flag| flag.starts_with("CLONE_NEW")).collect();
        if flags.is_empty() {
            return None;
        }
        format!("clone({})", flags.join("|"))
    } else {
        mask.apply(&without_descriptors(call.trim_end()))
    };
    Some(format!("{call} {outcome}"))
}

/// `5</path>` becomes `</path>`: the number depends on what else is open.
fn without_descriptors(call: &str) -> String {
    let mut done = String::new();
    for part in call.split_inclusive('<') {
        let Some(before) = part.strip_suffix('<') else {
            done.push_str(part);
            continue;
        };
        let text = before.trim_end_matches(|c: char| c.is_ascii_digit());
        let is_descriptor = text.len() < before.len() && text.ends_with(['(', ' ', '=']);
        done.push_str(if is_descriptor { text } else { before });
        done.push('<');
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(line: &str) -> Option<String> {
        normal(line, &Mask::default().replacing(Path::new("/tmp/run"), "$NODE"))
    }

    #[test]
    fn a_call_is_its_name_arguments_and_outcome() {
        let line = r#"mount("tmpfs", "/tmp/run/pods/0123456789ab/dev", "tmpfs", MS_NOSUID, "mode=755") = 0"#;
        assert_eq!(
            seen(line).unwrap(),
            r#"mount("tmpfs", "$NODE/pods/ID/dev", "tmpfs", MS_NOSUID, "mode=755") ok"#
        );
        let line = "setns(7<user:[4026532321]>, CLONE_NEWUSER) = -1 EINVAL (Invalid argument)";
        assert_eq!(seen(line).unwrap(), "setns(<user:[INODE]>, CLONE_NEWUSER) EINVAL");
        let line = "move_mount(9</tmp/run/x>, \"\", AT_FDCWD</>, \"/proc/self/fd/12\", 0x4) = 0";
        assert_eq!(
            seen(line).unwrap(),
            "move_mount(</tmp/run/x>, \"\", AT_FDCWD</>, \"/proc/self/fd/FD\", 0x4) ok"
                .replace("/tmp/run", "$NODE")
        );
    }

    #[test]
    fn only_a_clone_that_makes_a_namespace_counts() {
        let thread = "clone3({flags=CLONE_VM|CLONE_THREAD, child_tid=0x7f00}, 88) = 4711";
        assert_eq!(seen(thread), None);
        let child =
            "clone3({flags=CLONE_PIDFD|CLONE_NEWUSER|CLONE_NEWNET, pidfd=0x7f00} => {pidfd=[5]}, 88) = 4711";
        assert_eq!(seen(child).unwrap(), "clone(CLONE_NEWUSER|CLONE_NEWNET) ok");
    }
}
