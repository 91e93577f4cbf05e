//! A container prints escape sequences, and an operator looks at its log: the terminal obeyed them. They can rewrite
//! what was printed before, set the title and the clipboard, and have some terminals type a command. The same came
//! with last words, reasons and image names in other commands.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};
use testkit::Terminal;

use super::left_pod::LeftPod;

/// ESC, OSC with BEL, CSI as C1 in UTF-8 and as a byte, DEL, a carriage return that hides the line, and text that
/// runs the other way.
const HOSTILE: &[u8] = b"\x1b[2J\x1b]0;pwned\x07 \xc2\x9b31m \x9b31m \x7f\x08 hidden\rshown \xe2\x80\xae end";

/// All that a command writes to a terminal, which is its stdout and its stderr.
fn on_terminal(mut command: Command) -> Vec<u8> {
    let Terminal { mut near, far } = Terminal::open();
    command.stdout(Stdio::from(far.try_clone().unwrap())).stderr(Stdio::from(far.try_clone().unwrap()));
    let mut child = command.spawn().unwrap();
    drop((command, far));
    let mut seen = Vec::new();
    // When the last process that has it closes it, the terminal answers EIO.
    let _ = near.read_to_end(&mut seen);
    child.wait().unwrap();
    seen
}

/// Nothing but text, tabs and ends of lines, as the terminal writes them.
fn is_harmless(seen: &[u8]) {
    let text = String::from_utf8(seen.to_vec()).expect("a byte that is no UTF-8 reached the terminal");
    let text = text.replace("\r\n", "\n");
    let hostile =
        |c: &char| (c.is_control() && *c != '\n' && *c != '\t') || ('\u{202a}'..='\u{202e}').contains(c);
    assert_eq!(text.chars().find(hostile), None, "{text:?}");
}

fn log(pod: &LeftPod) -> Vec<u8> {
    let mut bytes = Vec::new();
    for stream in ["stdout", "stderr"] {
        bytes.extend(format!("2026-11-17T03:00:00Z {stream} F ").bytes());
        bytes.extend(HOSTILE);
        bytes.push(b'\n');
    }
    std::fs::write(pod.logs().join("0.log"), bytes).unwrap();
    [HOSTILE, b"\n"].concat()
}

#[test]
fn a_log_does_not_command_the_terminal_that_shows_it() {
    let pod = LeftPod::new();
    log(&pod);
    let seen = on_terminal(pod.wardlet(&["logs", "evil"]));
    is_harmless(&seen);
    let text = String::from_utf8(seen).unwrap();
    assert_eq!(text.matches("^[]0;pwned^G").count(), 2, "stdout and stderr, to be read: {text:?}");
    assert_eq!(text.matches("end").count(), 2, "{text:?}");
}

#[test]
fn a_log_that_goes_to_a_file_is_as_it_was_written() {
    let pod = LeftPod::new();
    let line = log(&pod);
    let output = pod.wardlet(&["logs", "evil"]).output().unwrap();
    assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (line.as_slice(), line.as_slice()));
}

/// Each stream for itself: stdout to a file, stderr to the terminal.
#[test]
fn only_the_stream_that_goes_to_a_terminal_is_changed() {
    let pod = LeftPod::new();
    let line = log(&pod);
    let file = pod.logs().join("copy");
    let Terminal { mut near, far } = Terminal::open();
    let mut command = pod.wardlet(&["logs", "evil"]);
    command.stdout(File::create(&file).unwrap()).stderr(Stdio::from(far));
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut seen = Vec::new();
    let _ = near.read_to_end(&mut seen);
    child.wait().unwrap();
    is_harmless(&seen);
    assert_eq!(std::fs::read(&file).unwrap(), line);
}

#[test]
fn reasons_and_last_words_do_not_command_the_terminal() {
    let hostile = String::from_utf8_lossy(HOSTILE).into_owned();
    let pod = LeftPod::new().with_status(&hostile, &hostile);
    for words in [&["ps"][..], &["-o", "json", "ps"], &["-o", "yaml", "ps"]] {
        let seen = on_terminal(pod.wardlet(words));
        is_harmless(&seen);
        assert!(
            String::from_utf8_lossy(&seen).contains("pwned"),
            "{words:?}: {}",
            String::from_utf8_lossy(&seen)
        );
    }
}

#[test]
fn names_of_images_and_files_do_not_command_the_terminal() {
    let pod = LeftPod::new();
    let manifest = pod.logs().join("pod.yaml");
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, annotations: {note: \"\\e]0;pwned\\a\"}}\nspec:\n  containers:\n  - {name: app, image: \"\\e]0;pwned\\a\", imagePullPolicy: \"\\e[2J\"}\n";
    std::fs::write(&manifest, text).unwrap();
    for words in [&["explain", manifest.to_str().unwrap()][..], &["logs", "\x1b]0;pwned\x07"]] {
        let seen = on_terminal(pod.wardlet(words));
        assert!(!seen.is_empty(), "{words:?}");
        is_harmless(&seen);
    }
}
