//! Attacks of pods by means of their logs.

use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use agent::logs::{Reader, tail};
use rustix::fs::{CWD, FileType, Mode, mknodat};

const SIZE: usize = 100 << 20;
/// In kilobytes.
const MOST_MORE: usize = 8 << 10;

/// The most memory that this process has had, in kilobytes.
fn most_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// A container with `terminationMessagePolicy: FallbackToLogsOnError` fills its log and fails: the node read all of the
/// log into memory to find its last lines, 408 MB for a log of 100 MB, and again with every look at the pod.
#[test]
fn a_large_log_takes_bounded_memory_to_find_its_end_and_to_read_it() {
    let dir = tempfile::tempdir().unwrap();
    let line = [b"2026-11-17T03:00:00.123456789Z stdout F ".as_slice(), &[b'x'; 60], b"\n"].concat();
    let block = line.repeat(1000);
    let mut file = std::fs::File::create(dir.path().join("0.log")).unwrap();
    (0..SIZE / block.len()).for_each(|_| file.write_all(&block).unwrap());
    file.write_all(b"2026-11-17T03:00:01Z stderr F the end\n").unwrap();
    let before = most_memory();
    let text = tail(dir.path(), 0);
    assert!(text.len() <= 2048 && text.ends_with("xx\nthe end\n"), "{text}");
    let mut reader = Reader::new(dir.path());
    let mut lines = 0;
    loop {
        let read = reader.read().unwrap();
        if read.is_empty() {
            break;
        }
        lines += read.len();
    }
    assert_eq!(lines, SIZE / block.len() * 1000 + 1);
    let more = most_memory() - before;
    assert!(more < MOST_MORE, "{more} kB more");
}

/// All that can be read now, by each of the ways to read a container's logs.
fn all_read(dir: &Path) -> Vec<String> {
    let texts = |mut reader: Reader| {
        let read = reader.read().unwrap_or_default();
        read.into_iter().map(|line| String::from_utf8(line.text).unwrap()).collect()
    };
    vec![tail(dir, 0), texts(Reader::new(dir)), texts(Reader::up_to_now(dir))]
}

/// A pod has its log directory as a volume that it can write to, and puts a pipe in the place of its log. The node waited
/// for a writer in open(2), and no pod was managed any more.
#[test]
fn a_pipe_in_the_place_of_a_log_is_not_waited_for() {
    for name in ["0.log", "0.log.1", "0.log.3"] {
        let dir = tempfile::tempdir().unwrap();
        let line = "2026-11-17T03:00:01Z stdout F text\n";
        std::fs::write(dir.path().join("0.log.2"), line).unwrap();
        let pipe = dir.path().join(name);
        mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let (sender, receiver) = mpsc::channel();
        let logs = dir.path().to_owned();
        std::thread::spawn(move || sender.send(all_read(&logs)));
        let read = receiver.recv_timeout(Duration::from_secs(10));
        assert_eq!(read.unwrap_or_else(|_| panic!("the node waits for {name}")), ["text\n"; 3], "{name}");
    }
}

/// The pod puts a link in the place of its log, of its log directory, or of the directory above that, and the node
/// showed the pod's owner what is in a file of the host.
#[test]
fn a_link_in_the_place_of_a_log_or_its_directory_is_not_followed() {
    let host = tempfile::tempdir().unwrap();
    let victim = host.path().join("victim/main");
    std::fs::create_dir_all(&victim).unwrap();
    std::fs::write(victim.join("0.log"), "2026-11-17T03:00:01Z stdout F secret\n").unwrap();
    assert_eq!(all_read(&victim), ["secret\n"; 3]);
    for (link, target) in [("main/0.log", "main/0.log"), ("main", "main"), ("", "")] {
        let logs = tempfile::tempdir().unwrap();
        let place = logs.path().join("pod").join(link);
        let place = place.components().collect::<std::path::PathBuf>();
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        symlink(host.path().join("victim").join(target), &place).unwrap();
        assert_eq!(all_read(&logs.path().join("pod/main")), [""; 3], "{link}");
    }
}
