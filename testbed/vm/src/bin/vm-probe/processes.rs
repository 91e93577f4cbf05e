//! Labels of processes, and what they may do with the labels of files.

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::Errno;

use crate::lab::{
    Disk, OURS, Outcome, SHARED, THEIRS, UNKNOWN, context, enforcing, label, mounted, set_label, tool, want,
    write,
};
use crate::layers::idmapped_clone;

const OUR_PROCESS: &str = "system_u:system_r:container_t:s0:c1,c2";
const THEIR_PROCESS: &str = "system_u:system_r:container_t:s0:c8,c9";
const PRIVILEGED: &str = "system_u:system_r:spc_t:s0";
const EXEC_LABEL: &str = "/proc/thread-self/attr/exec";
const CURRENT: [&str; 2] = ["cat", "/proc/self/attr/current"];

/// Becomes the program, with that label.
pub(crate) fn become_labelled(label: &str, program: &[&str]) -> Outcome {
    let (name, arguments) = program.split_first().ok_or("no program")?;
    fs::write(EXEC_LABEL, label).map_err(|error| format!("{EXEC_LABEL}: {error}"))?;
    Err(format!("{name}: {}", Command::new(name).args(arguments).exec()))
}

/// Does it, and returns the number of the error, or 0.
pub(crate) fn try_on(what: &str, path: &str) -> u8 {
    let result = match what {
        "read" => fs::read(path).map(drop),
        "append" => fs::OpenOptions::new().append(true).open(path).and_then(|mut f| f.write_all(b"x")),
        "create" => fs::File::create_new(path).map(drop),
        "list" => fs::read_dir(path).map(drop),
        "relabel" => set_label(path, OURS).map_err(std::io::Error::from),
        _ => return u8::MAX,
    };
    let number = result.err().map_or(Some(0), |error| error.raw_os_error());
    number.and_then(|number| u8::try_from(number).ok()).unwrap_or(u8::MAX)
}

/// The number of the error that a process with this label meets.
fn met(label: &str, what: &str, path: &str) -> Result<i32, String> {
    status(&["vm-probe", "as", label, "vm-probe", "try", what, path])
}

fn status(words: &[&str]) -> Result<i32, String> {
    let (program, arguments) = words.split_first().ok_or("no program")?;
    let status = Command::new(program).args(arguments).status().map_err(|e| format!("{program}: {e}"))?;
    status.code().ok_or_else(|| format!("{} ended by {status}", words.join(" ")))
}

/// What the policy forbids is refused where it is enforced, and only noted where it is not.
fn forbidden() -> i32 {
    if enforcing() { Errno::ACCESS.raw_os_error() } else { 0 }
}

/// The label is checked when it is written, taken at the next exec of the writer or of a child, and used
/// once.
pub(crate) fn exec_label() -> Outcome {
    let with = |program: &[&'static str]| [&["vm-probe", "as", OUR_PROCESS], program].concat();
    want("label after exec", output(&with(&CURRENT))?, OUR_PROCESS.to_owned())?;
    want("exec label after exec", output(&with(&["cat", "/proc/self/attr/exec"]))?, String::new())?;
    let own = output(&CURRENT)?;
    set_exec_label(OUR_PROCESS).map_err(|errno| format!("{EXEC_LABEL}: {errno}"))?;
    want("label of the writer's child", output(&CURRENT)?, OUR_PROCESS.to_owned())?;
    // An empty line takes it back.
    set_exec_label("\n").map_err(|errno| format!("{EXEC_LABEL}: {errno}"))?;
    want("label of a later child", output(&CURRENT)?, own)?;
    want("an unknown label", set_exec_label("system_u:system_r:nosuch_t:s0"), Err(Errno::INVAL))?;
    file_label_for_a_process()
}

/// A file's label is a label, so it can be written; it is the exec that is refused.
fn file_label_for_a_process() -> Outcome {
    want("a file's label", set_exec_label(OURS), Ok(()))?;
    let child = Command::new("true").status().map(|status| status.success());
    set_exec_label("\n").map_err(|errno| format!("{EXEC_LABEL}: {errno}"))?;
    let wanted = if enforcing() { Err(Some(forbidden())) } else { Ok(true) };
    want("exec with a file's label", child.map_err(|error| error.raw_os_error()), wanted)
}

fn set_exec_label(label: &str) -> Result<(), Errno> {
    fs::write(EXEC_LABEL, label).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

fn output(words: &[&str]) -> Result<String, String> {
    tool(words).map(|text| text.trim_end_matches('\0').to_owned())
}

/// Also through an idmapped clone and for a process in a user namespace.
pub(crate) fn categories() -> Outcome {
    let (disk, other) = (Disk::new()?, Disk::new()?);
    let (ours, theirs) = (disk.mounted(&context(OURS))?, other.mounted(&context(THEIRS))?);
    let shared = mounted("tmpfs", &context(SHARED))?;
    let host = mounted("tmpfs", &context("system_u:object_r:var_lib_t:s0"))?;
    for place in [&shared, &host] {
        write(&format!("{place}/f"))?;
    }
    let clone = idmapped_clone(&ours)?;
    let cases = [
        (OUR_PROCESS, "read", format!("{ours}/f"), 0),
        (OUR_PROCESS, "append", format!("{ours}/f"), 0),
        (OUR_PROCESS, "create", format!("{ours}/new"), 0),
        (OUR_PROCESS, "append", format!("{shared}/f"), 0),
        (OUR_PROCESS, "read", format!("{clone}/f"), 0),
        (OUR_PROCESS, "read", format!("{theirs}/f"), forbidden()),
        (OUR_PROCESS, "append", format!("{theirs}/f"), forbidden()),
        (OUR_PROCESS, "list", theirs.clone(), forbidden()),
        (OUR_PROCESS, "read", format!("{host}/f"), forbidden()),
        (THEIR_PROCESS, "read", format!("{ours}/f"), forbidden()),
        (THEIR_PROCESS, "read", format!("{clone}/f"), forbidden()),
        (PRIVILEGED, "append", format!("{theirs}/f"), 0),
        (PRIVILEGED, "read", format!("{host}/f"), 0),
    ];
    for (process, what, path, wanted) in cases {
        want(&format!("{process}: {what} {path}"), met(process, what, &path)?, wanted)?;
    }
    for (process, wanted) in [(OUR_PROCESS, 0), (THEIR_PROCESS, forbidden())] {
        let path = format!("{clone}/f");
        let found = status(&["unshare", "-U", "vm-probe", "as", process, "vm-probe", "try", "read", &path])?;
        want(&format!("{process}, in a user namespace"), found, wanted)?;
    }
    Ok(())
}

/// Without the permission to do so (mac_admin) not even root writes a label that the policy lacks.
pub(crate) fn relabel() -> Outcome {
    let disk = Disk::new()?;
    let plain = disk.mounted("")?;
    let file = format!("{plain}/f");
    want("a known label", set_label(&file, SHARED), Ok(()))?;
    want("it is there", label(&file)?, SHARED.to_owned())?;
    let unknown = if enforcing() { Err(Errno::INVAL) } else { Ok(()) };
    want("an unknown label", set_label(&file, UNKNOWN), unknown)?;
    want("a known label again", set_label(&file, SHARED), Ok(()))?;
    set_label(&plain, SHARED).map_err(|errno| format!("relabel {plain}: {errno}"))?;
    want("a container's relabel", met(OUR_PROCESS, "relabel", &file)?, forbidden())?;
    write(&format!("{plain}/new"))?;
    want("a new file has its directory's label", label(&format!("{plain}/new"))?, SHARED.to_owned())
}
