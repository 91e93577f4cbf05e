//! A stand-in for `wardlet-container`, for the monitor's tests: it starts no container, only the shell
//! script in its directory, as an orphan and with nothing around it. `run DIR [--console SOCKET]` and the
//! result on descriptor 3 are as the real one's.
//!
//! Other files in the directory change what it does: `fail` (the result is what the file says), `silent`
//! (it ends without a result), `hang` (it never ends, and gives no result).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs)]
// The script is left to be an orphan.
#![allow(clippy::zombie_processes)]

use std::fs::File;
use std::io::Write;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

fn main() {
    let words: Vec<_> = std::env::args_os().collect();
    assert_eq!(words[1], "run");
    let dir = PathBuf::from(&words[2]);
    let mut result = File::from(kernel::inherited(3).unwrap());
    only_the_streams_are_inherited(&result);
    if let Ok(line) = std::fs::read_to_string(dir.join("fail")) {
        eprintln!("the helper's last words");
        writeln!(result, "{line}").unwrap();
        std::process::exit(1);
    }
    if dir.join("silent").exists() {
        std::process::exit(3);
    }
    if dir.join("hang").exists() {
        loop {
            std::thread::park();
        }
    }
    let mut command = Command::new("/bin/sh");
    command.arg(dir.join("script")).current_dir(&dir);
    // By this all that the script starts is found again.
    command.env("WARDLET_TEST_CONTAINER", &dir);
    if words.get(3).is_some_and(|word| word == "--console") {
        let slave = terminal(Path::new(&words[4]));
        let stream = || Stdio::from(slave.try_clone().unwrap());
        command.stdin(stream()).stdout(stream()).stderr(stream());
    }
    let child = command.spawn().unwrap();
    writeln!(result, r#"{{"started":{{"pid":{},"user":{{"uid":0,"gid":0,"groups":[]}}}}}}"#, child.id())
        .unwrap();
}

/// The real one would hand on to the container whatever it is given.
fn only_the_streams_are_inherited(result: &File) {
    use std::os::fd::AsRawFd;
    let open: Vec<i32> = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap())
        .collect();
    let list = open.iter().copied().max().unwrap();
    let strange = open.iter().filter(|fd| ![0, 1, 2, 3, result.as_raw_fd(), list].contains(fd)).count();
    assert_eq!(strange, 0, "{open:?}");
}

fn terminal(socket: &Path) -> OwnedFd {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let stream = UnixStream::connect(socket).unwrap();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [master.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
    let name = std::io::IoSlice::new(b"/dev/ptmx");
    sendmsg(&stream, &[name], &mut control, SendFlags::empty()).unwrap();
    slave.into()
}
