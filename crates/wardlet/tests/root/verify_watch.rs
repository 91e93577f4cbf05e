//! `wardlet verify --watch` shows the node once and then only what changed.

use crate::test_pods;

use std::io::{BufRead, BufReader};
use std::os::unix::fs::chown;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use test_pods::Site;

struct Watch(Child);

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_watch_shows_changes_and_ends_with_the_answer_of_its_last_look() {
    let site = Site::new(3_650_000_000 / 65_536 * 65_536, 16);
    let isolated = site.isolated_pod("watched");
    let mut command = site.command("verify watched --watch=1 -o json");
    let mut watch = Watch(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let mut lines = BufReader::new(watch.0.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    let first = next();
    assert_eq!((&first["holds"], &first["pods"][0]["uid"]), (&true.into(), &"watched".into()), "{first:#}");

    chown(isolated.path("/etc/motd"), Some(0), Some(0)).unwrap();
    let second = next();
    assert_eq!(second["violations"][0]["what"], "fileOwner", "{second:#}");
    assert_eq!(second["changed"][0]["verdict"], "violated");
    assert_eq!((&second["appeared"], &second["ended"]), (&Value::Array(vec![]), &Value::Array(vec![])));

    let base = u32::try_from(isolated.base).unwrap();
    chown(isolated.path("/etc/motd"), Some(base), Some(base)).unwrap();
    let third = next();
    assert_eq!(third["ended"][0]["what"], "fileOwner", "{third:#}");
    assert_eq!(third["holds"], true);

    let pid = watch.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(watch.0.wait().unwrap().code(), Some(0));
}
