use std::ffi::OsString;
use std::path::PathBuf;

use monitor::SharedPid;

pub(crate) const USAGE: &str = "\
Watches the containers of one pod: their streams, logs and exit codes. Started by `wardlet cri`.

Usage: wardlet-monitor DIR --container-program PATH [--shared-pid PATH|host]

  DIR                       the pod's own directory, where monitor.sock will be
  --container-program PATH  the program that starts a container
  --shared-pid PATH|host    keep a PID namespace for all containers, which belongs to the user
                            namespace at PATH or to the host's
  --help, --version

Example: wardlet-monitor /run/wardlet/sandboxes/0123456789abcdef --container-program /usr/bin/wardlet-container
";

/// The role of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    Usage,
    Version,
    /// Start the monitor of a pod, detached.
    Launch(Arguments),
    /// Be the monitor of a pod.
    Watch(Arguments),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arguments {
    pub(crate) dir: PathBuf,
    pub(crate) container_program: PathBuf,
    pub(crate) shared_pid: Option<SharedPid>,
}

/// The program passes it to itself.
pub(crate) const DETACHED: &str = "--detached";

pub(crate) fn parse(words: impl Iterator<Item = OsString>) -> Result<Wanted, String> {
    let (mut dir, mut program, mut shared_pid, mut detached) = (None, None, None, false);
    let mut words = words;
    while let Some(word) = words.next() {
        let mut value = |name: &str| words.next().ok_or_else(|| format!("{name} needs a value"));
        match word.to_str() {
            Some("--help" | "-h") => return Ok(Wanted::Usage),
            Some("--version" | "-V") => return Ok(Wanted::Version),
            Some(DETACHED) => detached = true,
            Some(name @ "--container-program") => program = Some(PathBuf::from(value(name)?)),
            Some(name @ "--shared-pid") => shared_pid = Some(shared(value(name)?)),
            Some(option) if option.starts_with('-') => return Err(format!("option {option} is not known")),
            _ if dir.is_none() => dir = Some(PathBuf::from(word)),
            _ => return Err(format!("{} is one argument too many", word.display())),
        }
    }
    let arguments = Arguments {
        dir: dir.ok_or("the pod's directory is missing")?,
        container_program: program.ok_or("--container-program is missing")?,
        shared_pid,
    };
    Ok(if detached { Wanted::Watch(arguments) } else { Wanted::Launch(arguments) })
}

fn shared(value: OsString) -> SharedPid {
    if value == "host" { SharedPid::Host } else { SharedPid::Userns(value.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Wanted, String> {
        parse(words.iter().map(OsString::from))
    }

    #[test]
    fn a_pod_is_a_directory_and_a_program() {
        let wanted = parsed(&["/d", "--container-program", "/c", "--shared-pid", "host"]).unwrap();
        let arguments =
            Arguments { dir: "/d".into(), container_program: "/c".into(), shared_pid: Some(SharedPid::Host) };
        assert_eq!(wanted, Wanted::Launch(arguments));
    }

    #[test]
    fn what_is_missing_or_unknown_is_named() {
        let error = |words: &[&str]| parsed(words).unwrap_err();
        assert_eq!(error(&["--container-program", "/c"]), "the pod's directory is missing");
        assert_eq!(error(&["/d"]), "--container-program is missing");
        assert_eq!(error(&["/d", "--container-program"]), "--container-program needs a value");
        assert_eq!(error(&["/d", "--container"]), "option --container is not known");
        assert_eq!(error(&["/d", "/e"]), "/e is one argument too many");
    }
}
