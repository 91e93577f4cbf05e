//! Logs, attached clients, input and terminals, through the program and its socket.

use crate::support;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};

use monitor::{Attach, Client, LogLimits, Reply, Request, StartRequest, Stdin};
use rustix::pipe::{PipeFlags, pipe_with};
use support::*;

fn pipe() -> (OwnedFd, OwnedFd) {
    pipe_with(PipeFlags::CLOEXEC).unwrap()
}

fn name(container: &str) -> String {
    container.to_owned()
}

/// Attaches to the output; what can be read of it.
fn attach_output(client: &mut Client, container: &str) -> File {
    let (ours, theirs) = pipe();
    let attach = Attach { container: name(container), stdin: false, stdout: true, stderr: false };
    let reply = client.call(&Request::Attach(attach), &[theirs.as_fd()]).unwrap();
    assert_eq!(reply, Reply::Done);
    ours.into()
}

/// Attaches to the input; what can be written to it.
fn attach_input(client: &mut Client, container: &str) -> File {
    let (theirs, ours) = pipe();
    let attach = Attach { container: name(container), stdin: true, stdout: false, stderr: false };
    let reply = client.call(&Request::Attach(attach), &[theirs.as_fd()]).unwrap();
    assert_eq!(reply, Reply::Done);
    ours.into()
}

fn read_all(mut file: File) -> String {
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    text
}

fn with_input(pod: &Pod, container: &str, mode: Stdin) -> StartRequest {
    StartRequest { stdin: mode, ..pod.request(container) }
}

#[test]
fn several_clients_see_the_same_from_when_they_came() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    pod.container("one", "read line; echo $line; echo err >&2; exec >&-; sleep 0.1");
    start(&mut client, with_input(&pod, "one", Stdin::Open));
    let outputs = [attach_output(&mut client, "one"), attach_output(&mut client, "one")];
    let (err, theirs) = pipe();
    let attach = Attach { container: name("one"), stdin: false, stdout: false, stderr: true };
    client.call(&Request::Attach(attach), &[theirs.as_fd()]).unwrap();
    drop(theirs);
    attach_input(&mut client, "one").write_all(b"hello\n").unwrap();
    for output in outputs {
        assert_eq!(read_all(output), "hello\n");
    }
    assert_eq!(read_all(err.into()), "err\n");
    next_exit(&mut client);
    let mut lines = pod.lines("one");
    lines.sort();
    assert_eq!(lines, ["stderr F err", "stdout F hello"]);
}

#[test]
fn input_that_is_open_once_ends_with_the_first_client() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    pod.container("one", "cat; echo end");
    start(&mut client, with_input(&pod, "one", Stdin::Once));
    let output = attach_output(&mut client, "one");
    let mut input = attach_input(&mut client, "one");
    input.write_all(b"some ").unwrap();
    drop(input);
    assert_eq!(read_all(output), "some end\n");
    next_exit(&mut client);
}

#[test]
fn input_that_stays_open_ends_when_it_is_closed() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    pod.container("one", "cat; echo end");
    start(&mut client, with_input(&pod, "one", Stdin::Open));
    for text in ["one ", "two "] {
        let mut output = attach_output(&mut client, "one");
        attach_input(&mut client, "one").write_all(text.as_bytes()).unwrap();
        let mut seen = [0; 4];
        output.read_exact(&mut seen).unwrap();
        assert_eq!(seen, text.as_bytes());
    }
    done(&mut client, &Request::CloseStdin { container: name("one") });
    next_exit(&mut client);
    assert_eq!(pod.lines("one"), ["stdout F one two end"]);
}

#[test]
fn without_input_there_is_nothing_to_read() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    pod.start(&mut client, "one", "cat; echo end; sleep 1000");
    wait_until("it has read all", || pod.log("one").exists() && pod.lines("one") == ["stdout F end"]);
    let input = attach_input(&mut client, "one");
    // Nobody takes it: sooner or later that is said.
    wait_until("the input is closed", move || (&input).write_all(b"x").is_err());
}

/// More than any pipe holds goes in, slowly taken, and comes out again.
#[test]
fn a_mebibyte_of_input_arrives_whole() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    pod.container("one", "sleep 0.3; sha256sum; exit 0");
    start(&mut client, with_input(&pod, "one", Stdin::Once));
    let mut input = attach_input(&mut client, "one");
    let bytes: Vec<u8> = (0..1 << 20).map(|n: u32| n.to_le_bytes()[(n % 3) as usize]).collect();
    input.write_all(&bytes).unwrap();
    drop(input);
    next_exit(&mut client);
    std::fs::write(pod.path("same"), &bytes).unwrap();
    let sum = std::process::Command::new("sha256sum").arg(pod.path("same")).output().unwrap().stdout;
    let sum = String::from_utf8(sum).unwrap();
    assert_eq!(pod.lines("one"), [format!("stdout F {}  -", sum.split(' ').next().unwrap())]);
}

/// It takes nothing at all, and the container writes much more than is kept for it.
#[test]
fn a_client_that_takes_nothing_is_let_go_and_holds_nobody_up() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    pod.container("one", "read line; head -c 8000000 /dev/zero | tr '\\0' x | fold -w 100; echo; echo end");
    start(&mut client, with_input(&pod, "one", Stdin::Open));
    let stuck = attach_output(&mut client, "one");
    attach_input(&mut client, "one").write_all(b"go\n").unwrap();
    assert_eq!(next_exit(&mut client).exit.code(), 0);
    let lines = pod.lines("one");
    assert_eq!(lines.last().unwrap(), "stdout F end");
    let bytes: usize = lines.iter().map(|line| line.len() - "stdout F ".len() + 1).sum();
    assert_eq!(bytes, 8_080_000 + "end\n".len());
    let got = read_all(stuck).len();
    assert!(got <= 1 << 20, "{got} bytes were kept for a client that takes nothing");
}

#[test]
fn a_client_that_leaves_is_not_missed() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    pod.container("one", "read line; echo a; read line; echo b");
    start(&mut client, with_input(&pod, "one", Stdin::Open));
    drop(attach_output(&mut client, "one"));
    let mut input = attach_input(&mut client, "one");
    input.write_all(b"\n\n").unwrap();
    assert_eq!(next_exit(&mut client).exit.code(), 0);
    assert_eq!(pod.lines("one"), ["stdout F a", "stdout F b"]);
}

#[test]
fn clients_with_too_few_or_too_many_descriptors_are_refused() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    pod.start(&mut client, "one", "sleep 1000");
    let attach =
        |stdout, stderr| Request::Attach(Attach { container: name("one"), stdin: false, stdout, stderr });
    let (_reading, end) = pipe();
    for (request, given) in [(attach(true, true), 1), (attach(true, false), 2), (attach(false, false), 0)] {
        let descriptors = vec![end.as_fd(); given];
        let Reply::Refused { what } = client.call(&request, &descriptors).unwrap() else { panic!() };
        assert!(what.contains("descriptors came along"), "{what}");
    }
    let other = Request::Attach(Attach { container: name("two"), stdin: false, stdout: true, stderr: false });
    let Reply::Refused { what } = client.call(&other, &[end.as_fd()]).unwrap() else { panic!() };
    assert_eq!(what, "there is no container two");
}

#[test]
fn a_log_that_was_moved_away_begins_anew_when_asked() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    pod.container("one", "echo one; read line; echo two");
    start(&mut client, with_input(&pod, "one", Stdin::Open));
    wait_until("a line is there", || pod.log("one").exists() && pod.lines("one").len() == 1);
    std::fs::rename(pod.log("one"), pod.path("moved")).unwrap();
    done(&mut client, &Request::Reopen { container: name("one") });
    assert_eq!(pod.lines("one"), Vec::<String>::new());
    attach_input(&mut client, "one").write_all(b"\n").unwrap();
    next_exit(&mut client);
    assert_eq!(pod.lines("one"), ["stdout F two"]);
    let moved = std::fs::read_to_string(pod.path("moved")).unwrap();
    assert!(moved.ends_with(" stdout F one\n"), "{moved}");
    assert_eq!(refused(&mut client, &Request::Reopen { container: name("one") }), "container one has ended");
}

#[test]
fn a_log_with_limits_is_rotated_and_no_line_is_cut() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    pod.container("one", "i=0; while [ $i -lt 4000 ]; do echo line $i; i=$((i+1)); done");
    let limits = Some(LogLimits { max_size: 40_000, max_files: 3 });
    start(&mut client, StartRequest { limits, ..pod.request("one") });
    next_exit(&mut client);
    let path = |number: u32| pod.log("one").with_extension(format!("log.{number}"));
    let files = [path(3), path(2), path(1), pod.log("one")];
    let text: String = files.iter().map(|file| std::fs::read_to_string(file).unwrap_or_default()).collect();
    let lines: Vec<u32> =
        text.lines().map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
    let expected: Vec<u32> = (4000 - u32::try_from(lines.len()).unwrap()..4000).collect();
    assert_eq!(lines, expected, "the youngest lines, all of them");
    assert!(lines.len() > 1000 && !path(4).exists());
    for file in &files {
        assert!(file.metadata().unwrap().len() <= 40_000);
    }
}

/// Kubelets name a file; whatever else is there was put there by somebody else.
#[test]
fn a_log_that_is_no_file_is_refused() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    pod.container("one", "exit 6");
    let wanted = StartRequest { log: Some("/dev/full".into()), ..pod.request("one") };
    match client.call(&Request::Start(wanted), &[]).unwrap() {
        Reply::Failed(failed) => assert!(failed.what.contains("it is not a regular file"), "{}", failed.what),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_terminal_is_logged_attached_to_and_resized() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    pod.container("one", "read line; stty size; echo got $line >&2; exit 2");
    start(&mut client, StartRequest { terminal: true, ..with_input(&pod, "one", Stdin::Open) });
    let output = attach_output(&mut client, "one");
    done(&mut client, &Request::Resize { container: name("one"), rows: 24, cols: 132 });
    attach_input(&mut client, "one").write_all(b"word\n").unwrap();
    assert_eq!(next_exit(&mut client).exit.code(), 2);
    // A terminal shows what is typed, and ends lines in its own way.
    assert_eq!(read_all(output), "word\r\n24 132\r\ngot word\r\n");
    assert_eq!(pod.lines("one"), ["stdout F word\r", "stdout F 24 132\r", "stdout F got word\r"]);
    assert!(!pod.path("run/one/console.sock").exists());
}

#[test]
fn what_has_no_terminal_has_no_size() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    pod.start(&mut client, "one", "sleep 1000");
    let resize = Request::Resize { container: name("one"), rows: 1, cols: 1 };
    assert_eq!(refused(&mut client, &resize), "container one has no terminal");
}

/// Something like a getty closes its terminal and opens it again.
#[test]
fn a_terminal_that_nobody_has_open_for_a_while_is_not_given_up() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    let script = "t=$(tty); echo a; exec <&- >&- 2>&-; sleep 0.5; exec >$t; echo b";
    pod.container("one", script);
    start(&mut client, StartRequest { terminal: true, ..with_input(&pod, "one", Stdin::Open) });
    assert_eq!(next_exit(&mut client).exit.code(), 0);
    assert_eq!(pod.lines("one"), ["stdout F a\r", "stdout F b\r"]);
}

/// How often it was given a processor.
fn turns(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let numbers = status.lines().filter(|line| line.contains("ctxt_switches"));
    numbers.map(|line| line.rsplit('\t').next().unwrap().parse::<u64>().unwrap()).sum()
}

/// Whatever hangs up says so without end to whoever asks.
#[test]
fn where_nothing_happens_nothing_is_done() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    pod.container("closed", "exec <&- >&- 2>&-; sleep 1000");
    start(&mut client, with_input(&pod, "closed", Stdin::Open));
    pod.container("terminal", "sleep 1000");
    start(&mut client, StartRequest { terminal: true, ..with_input(&pod, "terminal", Stdin::Open) });
    pod.container("open", "sleep 1000");
    start(&mut client, with_input(&pod, "open", Stdin::Open));
    pod.start(&mut client, "ended", "sleep 1000 & exit 0");
    next_exit(&mut client);
    let clients = (attach_output(&mut client, "open"), attach_input(&mut client, "open"));
    drop(attach_output(&mut client, "open"));
    drop(attach_input(&mut client, "open"));
    drop(pod.connect());
    let pid = pod.monitor().pid;
    wait_until("it rests", || {
        let before = turns(pid);
        std::thread::sleep(std::time::Duration::from_millis(700));
        turns(pid) == before
    });
    drop(clients);
}
