//! `/logs/`: files below the node's log directory, for clients that may read them.
//!
//! Users of the host and pods write into this directory. A path is resolved below it without following any link, and only regular
//! files and directories are opened: a link would show other files of the host, and a FIFO or a device would block or act.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use kernel::{Dir, Entry, Kind, LastLink, Within};
use rustix::fs::OFlags;
use rustix::io::Errno;

/// The most names of a directory that are listed.
const MOST: usize = 10_000;
/// What is read of a file at once.
const PIECE: u64 = 64 << 10;

/// The directory of the node's logs.
#[derive(Debug, Clone)]
pub(crate) struct NodeLogs {
    dir: PathBuf,
}

/// What is at a path.
#[derive(Debug)]
pub(crate) enum Found {
    /// The names in a directory, as HTML.
    Listing(String),
    File(Rest),
}

/// Why a path is not shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NodeLogError {
    #[error("404 page not found")]
    Missing,
    #[error("only regular files and directories of the log directory are served, and no links are followed")]
    NotALog,
    #[error("cannot read the log directory of the node: {0}")]
    Unreadable(String),
}

/// The rest of a file, of the length that it had when it was opened.
#[derive(Debug)]
pub(crate) struct Rest(io::Take<File>);

impl Rest {
    /// The next piece; empty at the end.
    pub(crate) fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut piece = Vec::new();
        self.0.by_ref().take(PIECE).read_to_end(&mut piece)?;
        Ok(piece)
    }
}

impl NodeLogs {
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// What is at a path below the directory; an empty one is the directory itself.
    pub(crate) fn open(&self, path: &str) -> Result<Found, NodeLogError> {
        let top = Dir::open(&self.dir).map_err(cause)?;
        let node = top.node(Path::new(path), Within::NoLinks, LastLink::Keep).map_err(cause)?;
        match node.stat().map_err(cause)?.kind {
            Kind::Directory => {
                let entries = node.open_dir().and_then(|dir| dir.entries()).map_err(cause)?;
                Ok(Found::Listing(listing(entries)))
            }
            Kind::File => {
                let file = node.reopen(OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK).map_err(cause)?;
                let length =
                    file.metadata().map_err(|error| NodeLogError::Unreadable(error.to_string()))?.len();
                Ok(Found::File(Rest(file.take(length))))
            }
            _ => Err(NodeLogError::NotALog),
        }
    }
}

fn cause(error: kernel::Error) -> NodeLogError {
    match error {
        kernel::Error::Open { errno, .. } | kernel::Error::Below { errno, .. } => match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG => NodeLogError::Missing,
            Errno::LOOP | Errno::XDEV => NodeLogError::NotALog,
            errno => NodeLogError::Unreadable(errno.to_string()),
        },
        error => NodeLogError::Unreadable(error.to_string()),
    }
}

/// Names of files and directories as links, in the form that Go's file server gives them.
fn listing(entries: Vec<Entry>) -> String {
    let mut names: Vec<String> = entries
        .into_iter()
        .filter_map(|entry| match (entry.name.to_str()?, entry.kind) {
            (name, Kind::File) => Some(name.to_owned()),
            (name, Kind::Directory) => Some(format!("{name}/")),
            _ => None,
        })
        .collect();
    names.sort_unstable();
    let mut html =
        "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n".to_owned();
    for name in names.iter().take(MOST) {
        // Relative, and not a scheme: a name may have a colon.
        let _ = writeln!(html, "<a href=\"./{}\">{}</a>", in_url(name), in_html(name));
    }
    if let Some(more) = names.len().checked_sub(MOST).filter(|more| *more > 0) {
        let _ = writeln!(html, "and {more} more, which are not listed");
    }
    html.push_str("</pre>\n");
    html
}

fn in_html(name: &str) -> String {
    let escaped = |letter: char| match letter {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&#34;".to_owned(),
        '\'' => "&#39;".to_owned(),
        letter => letter.to_string(),
    };
    name.chars().map(escaped).collect()
}

fn in_url(name: &str) -> String {
    let escaped = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    name.bytes().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    struct Place {
        dir: tempfile::TempDir,
        logs: NodeLogs,
    }

    fn place() -> Place {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("log/pods/a")).unwrap();
        fs::write(dir.path().join("shadow"), "secret").unwrap();
        fs::write(dir.path().join("log/syslog"), vec![b'x'; 100_000]).unwrap();
        let logs = NodeLogs::new(dir.path().join("log"));
        Place { dir, logs }
    }

    #[test]
    fn files_and_directories_are_shown() {
        let Place { dir, logs } = place();
        fs::write(dir.path().join("log/a <b>&\"c"), "").unwrap();
        let Ok(Found::Listing(html)) = logs.open("") else { panic!("no listing") };
        let lines: Vec<&str> = html.lines().filter(|line| line.starts_with("<a ")).collect();
        assert_eq!(
            lines,
            [
                "<a href=\"./a%20%3Cb%3E%26%22c\">a &lt;b&gt;&amp;&#34;c</a>",
                "<a href=\"./pods/\">pods/</a>",
                "<a href=\"./syslog\">syslog</a>",
            ]
        );
        assert!(matches!(logs.open("pods/a"), Ok(Found::Listing(_))));
        let Ok(Found::File(mut rest)) = logs.open("syslog") else { panic!("no file") };
        fs::File::options()
            .append(true)
            .open(dir.path().join("log/syslog"))
            .and_then(|mut file| std::io::Write::write_all(&mut file, b"more"))
            .unwrap();
        let pieces = std::iter::from_fn(|| Some(rest.read().unwrap().len()).filter(|length| *length > 0));
        assert_eq!(pieces.collect::<Vec<_>>(), [65_536, 34_464]);
        assert!(matches!(logs.open("none"), Err(NodeLogError::Missing)));
        assert!(matches!(logs.open("syslog/x"), Err(NodeLogError::Missing)));
    }

    #[test]
    fn nothing_outside_of_the_directory_is_shown_and_nothing_special_is_opened() {
        let Place { dir, logs } = place();
        let log = dir.path().join("log");
        symlink(dir.path().join("shadow"), log.join("link")).unwrap();
        symlink("syslog", log.join("inside")).unwrap();
        symlink(dir.path(), log.join("up")).unwrap();
        symlink("/proc/self/root", log.join("root")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            log.join("fifo"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(log.join("socket")).unwrap();
        for path in ["link", "inside", "up", "up/shadow", "root", "root/etc/passwd", "fifo", "socket"] {
            assert!(matches!(logs.open(path), Err(NodeLogError::NotALog)), "{path}");
        }
        for path in ["../shadow", "pods/../../shadow", "/etc/passwd", "..", "pods/../syslog"] {
            assert!(!matches!(logs.open(path), Ok(Found::File(_))) || path == "pods/../syslog", "{path}");
        }
        assert!(!matches!(logs.open(".."), Ok(Found::Listing(_))));
        let Ok(Found::Listing(html)) = logs.open("") else { panic!("no listing") };
        for hidden in ["link", "inside", "up", "root", "fifo", "socket"] {
            assert!(!html.contains(&format!(">{hidden}")), "{html}");
        }
    }
}
