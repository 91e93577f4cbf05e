//! User namespaces of processes. Needs root.

use crate::common;

use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Child, Command, Stdio};

use common::{BASE, map_from};
use kernel::{Error, IdMaps, UsernsFd};

fn namespace_of(userns: &UsernsFd) -> String {
    let link = format!("/proc/self/fd/{}", userns.as_fd().as_raw_fd());
    fs::read_link(link).unwrap().display().to_string()
}

/// A process in this user namespace; it ends with the test.
struct Inside(Child);

impl Inside {
    fn of(userns: &UsernsFd) -> Self {
        let path = format!("--user=/proc/{}/fd/{}", std::process::id(), userns.as_fd().as_raw_fd());
        let mut command = Command::new("nsenter");
        command.args([&path, "sh", "-c", "echo; read line"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut inside = Self(command.spawn().unwrap());
        std::io::Read::read_exact(inside.0.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        inside
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_user_namespace_of_a_process_is_held_if_it_has_the_maps_that_are_wanted() {
    let (uids, gids) = (map_from(BASE), map_from(BASE + 65_536));
    let made = UsernsFd::create(&uids, &gids).unwrap();
    let inside = Inside::of(&made);
    let wanted = IdMaps::new(&uids, &gids);
    let held = UsernsFd::of_process(inside.0.id(), &wanted).unwrap();
    assert_eq!(namespace_of(&held), namespace_of(&made));
    for (pid, wanted) in [(inside.0.id(), IdMaps::new(&gids, &uids)), (std::process::id(), wanted.clone())] {
        let error = UsernsFd::of_process(pid, &wanted).unwrap_err();
        assert!(matches!(error, Error::OtherPin { .. }), "{error}");
        assert!(error.to_string().contains(" and not "), "{error}");
    }
    let pid = inside.0.id();
    drop(inside);
    assert!(matches!(UsernsFd::of_process(pid, &wanted), Err(Error::Open { .. })));
    assert_eq!(namespace_of(&held), namespace_of(&made), "it is held, whatever became of the process");
}
