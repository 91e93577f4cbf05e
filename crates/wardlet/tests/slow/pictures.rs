//! The pictures of terminals in docs/images show what is shown today. `WARDLET_PICTURES=draw` draws them anew.

use crate::terminal;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use terminal::{drawn, read, shape};
use testbed::{Part, Parts, Testbed};

/// Both instances have the default pool: started at the same moment, neither sees the other's block in use yet.
static DEFAULT_POOL: Mutex<()> = Mutex::new(());

fn default_pool() -> MutexGuard<'static, ()> {
    DEFAULT_POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn programs() -> PathBuf {
    testbed::own::program("wardlet-monitor").unwrap().parent().unwrap().to_owned()
}

/// A command and what it answers. Words about this very machine go elsewhere.
fn shown(mut command: Command, typed: &str) -> Vec<String> {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{typed}: {text}{}", String::from_utf8_lossy(&output.stderr));
    std::iter::once(format!("$ {typed}")).chain(text.lines().map(|l| l.trim_end().to_owned())).collect()
}

/// The picture has these lines, but for numbers.
fn is_shown(name: &str, title: &str, lines: &[String]) {
    let path = top().join("docs/images").join(name);
    if std::env::var_os("WARDLET_PICTURES").is_some_and(|word| word == "draw") {
        std::fs::write(&path, drawn(title, lines)).unwrap();
    }
    let picture = std::fs::read_to_string(&path).unwrap();
    let hint = "WARDLET_PICTURES=draw cargo test -p wardlet --test slow pictures:: draws it anew";
    assert_eq!(shape(&read(&picture)), shape(lines), "{name} is not what is shown now; {hint}");
}

#[test]
fn make_run_shows_what_its_picture_shows() {
    let _pool = default_pool();
    let mut command = Command::new(top().join("scripts/run.sh"));
    command.arg(programs());
    let lines = shown(command, "make run");
    is_shown("make-run.svg", "make run: a pod in its own block of host IDs, and the proof", &lines);
}

#[test]
fn a_pod_and_its_proof_show_what_their_picture_shows() {
    let _pool = default_pool();
    let testbed = Testbed::start(Parts::of(&[Part::Containerd])).expect("a machine");
    let typed = |words: &str| {
        let mut shell: Command = testbed.command("sh");
        let script = format!("cd {}; PATH={}:$PATH; {words}", top().display(), programs().display());
        shell.arg("-c").arg(script);
        shown(shell, words)
    };
    let archive = testbed.record().places.data.join("busybox.tar");
    let image = format!(
        "scripts/busybox-image.sh localhost/wardlet-busybox:1 {0} && wardlet image import {0}",
        archive.display()
    );
    typed(&image);
    let mut lines = Vec::new();
    for words in [
        "wardlet run --detach --quiet examples/web-server.yaml",
        "wardlet exec web-server -- id",
        "wardlet exec web-server -- cat /proc/self/uid_map",
        "wardlet verify web-server",
    ] {
        lines.extend(typed(words));
    }
    typed("wardlet stop web-server");
    is_shown("verify.svg", "wardlet verify: a pod's isolation, proven from outside", &lines);
}

#[test]
fn a_picture_is_read_as_it_was_drawn_and_another_text_has_another_shape() {
    let lines = ["$ wardlet ps".to_owned(), "POD  <1m & \"12\"".to_owned(), String::new()];
    assert_eq!(read(&drawn("a", &lines)), lines);
    let one = |text: &str| shape(&[text.to_owned()]);
    assert_eq!(one("web  65536-131071  a"), one("web 1-2   a"));
    assert_ne!(one("web isolated"), one("web exposed"));
    assert_ne!(one("web 1"), one("web"));
}
