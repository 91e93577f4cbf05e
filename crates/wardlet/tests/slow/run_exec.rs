//! Commands in containers: input, output of any length, terminals; on containerd and on the built-in runtime.

use crate::run_support;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use run_support::{LASTING, Node, Running, text};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use testkit::Terminal;

fn on(node: &Node) {
    let file = node.manifest("pod.yaml", LASTING);
    let _running = Running(Some(node.run(&[file.to_str().unwrap(), "--quiet"]).spawn().unwrap()));
    node.await_that("it runs", || node.json(&["ps"])[0]["phase"] == "Running");
    input_is_passed_on_to_its_end(node);
    output_is_whole_and_apart_and_the_code_is_the_commands(node);
    what_cannot_be_run_is_told(node);
    a_terminal_is_lent_and_given_back(node);
    let stop = node.command(&["stop", "lasting"]).output().unwrap();
    assert!(stop.status.success(), "{}", text(&stop));
    assert_eq!(node.leftovers(), Vec::<String>::new());
}

fn exec(node: &Node, words: &[&str]) -> Command {
    node.command(&[&["exec"], words].concat())
}

fn input_is_passed_on_to_its_end(node: &Node) {
    let sent: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    let mut command = exec(node, &["-i", "lasting", "--", "sh", "-c", "cat; echo end >&2"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let to_send = sent.clone();
    let sending = std::thread::spawn(move || stdin.write_all(&to_send).unwrap());
    let output = child.wait_with_output().unwrap();
    sending.join().unwrap();
    assert!(output.status.success() && output.stdout == sent, "{} of {}", output.stdout.len(), sent.len());
    assert_eq!(output.stderr, b"end\n");
}

fn output_is_whole_and_apart_and_the_code_is_the_commands(node: &Node) {
    let script = "i=0; while [ $i -lt 20000 ]; do echo line $i of some length that adds up; i=$((i+1)); done; echo bad >&2; exit 7";
    let output = exec(node, &["lasting", "--", "sh", "-c", script]).output().unwrap();
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), 20_000);
    assert_eq!(output.stderr, b"bad\n");
}

fn what_cannot_be_run_is_told(node: &Node) {
    for (program, code) in [("nope", 127), ("/no/such/program", 127), ("/etc/passwd", 126)] {
        let output = exec(node, &["lasting", "--", program]).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", text(&output));
        assert!(text(&output).contains(program), "{}", text(&output));
    }
    let container = text(&exec(node, &["lasting", "-c", "nobody", "--", "true"]).output().unwrap());
    assert!(
        container.contains("nobody: the pod has no such container") && container.contains("it has app"),
        "{container}"
    );
    let blind = exec(node, &["-it", "lasting", "--", "true"]).output().unwrap();
    assert_eq!(blind.status.code(), Some(2));
    assert!(text(&blind).contains("standard input is none"), "{}", text(&blind));
}

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Reads until the text has come.
fn until(near: &mut File, wanted: &str) -> String {
    let mut seen = Vec::new();
    let mut piece = [0; 4096];
    while !String::from_utf8_lossy(&seen).contains(wanted) {
        let read = near.read(&mut piece).unwrap_or(0);
        assert!(read > 0, "never {wanted:?}: {}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&piece[..read]);
    }
    String::from_utf8_lossy(&seen).into_owned()
}

fn a_terminal_is_lent_and_given_back(node: &Node) {
    let Terminal { mut near, far } = Terminal::open();
    tcsetwinsize(&far, size(33, 77)).unwrap();
    let before = tcgetattr(&far).unwrap();
    // setsid makes it the program's own terminal, so that the kernel tells it of another size.
    let inner = exec(node, &["-it", "lasting", "--", "sh"]);
    let mut command = Command::new("setsid");
    command.arg("--ctty").arg("--wait").arg(inner.get_program()).args(inner.get_args());
    command.envs(inner.get_envs().filter_map(|(k, v)| Some((k, v?))));
    command.stdin(far.try_clone().unwrap()).stdout(far.try_clone().unwrap()).stderr(far.try_clone().unwrap());
    let mut child = Running(Some(command.spawn().unwrap()));
    // What is typed is shown by the terminal inside, and said with other letters by the shell.
    // The size comes right after the start, as from any CRI client.
    near.write_all(b"while [ \"$(stty size)\" != '33 77' ]; do sleep 0.1; done; echo re''ady\r").unwrap();
    until(&mut near, "ready");
    assert!(
        !tcgetattr(&far).unwrap().local_modes.contains(LocalModes::ICANON),
        "keys are passed on as they are"
    );
    tcsetwinsize(far.as_fd(), size(44, 88)).unwrap();
    near.write_all(b"while [ \"$(stty size)\" != '44 88' ]; do sleep 0.1; done; echo re''sized\r").unwrap();
    until(&mut near, "resized");
    let waiting = b"(trap 'echo cau''ght; exit' INT; echo wait''ing; while :; do sleep 0.1; done)\r";
    near.write_all(waiting).unwrap();
    until(&mut near, "waiting");
    near.write_all(b"\x03").unwrap();
    until(&mut near, "caught");
    near.write_all(b"exit 5\r").unwrap();
    let status = child.0.take().unwrap().wait().unwrap();
    assert_eq!(status.code(), Some(5));
    let after = tcgetattr(&far).unwrap();
    assert_eq!((after.local_modes, after.input_modes), (before.local_modes, before.input_modes));
}

#[test]
fn commands_in_containers_have_streams_and_terminals_on_containerd() {
    on(&Node::new());
}

#[test]
fn commands_in_containers_have_streams_and_terminals_on_the_built_in_runtime() {
    on(&Node::built_in());
}
