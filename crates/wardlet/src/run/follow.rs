//! What pods print.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use agent::logs::{Line, Reader, Stream};
use tokio::sync::watch;

/// How often logs are read on.
const PAUSE: Duration = Duration::from_millis(100);

/// One container's log and how its lines begin.
pub(crate) struct Source {
    pub(crate) prefix: String,
    pub(crate) reader: Reader,
}

impl Source {
    pub(crate) fn new(prefix: String, dir: &Path) -> Self {
        Self { prefix, reader: Reader::new(dir) }
    }
}

/// Prints what was written since the last time.
pub(crate) fn print(sources: &mut [Source]) {
    for source in sources {
        // A log that cannot be read now may be later; the pod's status says why if not.
        for line in source.reader.read().unwrap_or_default() {
            write(&source.prefix, &line);
        }
    }
}

fn write(prefix: &str, line: &Line) {
    let end = if line.text.ends_with('\n') { "" } else { "\n" };
    let text = format!("{prefix}{}{end}", line.text);
    // A reader that has seen enough is no reason to fail.
    let _ = match line.stream {
        Stream::Stdout => std::io::stdout().lock().write_all(text.as_bytes()),
        Stream::Stderr => std::io::stderr().lock().write_all(text.as_bytes()),
    };
}

/// Prints until told that there will be no more, and then what is left.
pub(crate) async fn follow(mut sources: Vec<Source>, mut until: watch::Receiver<bool>) {
    loop {
        print(&mut sources);
        if *until.borrow() {
            return print(&mut sources);
        }
        let _ = tokio::time::timeout(PAUSE, until.changed()).await;
    }
}
