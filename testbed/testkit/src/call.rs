//! The calls of a recorded run, and the words that kill another run at one of them.

use std::collections::HashMap;
use std::path::Path;

/// The n-th call of this name that a thread makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// As strace has it.
    pub name: String,
    /// The first is 1.
    pub nth: usize,
}

impl Call {
    /// strace's options that kill the process at this call, before it does anything.
    #[must_use]
    pub fn kill(&self) -> Vec<String> {
        let Self { name, nth } = self;
        let (trace, inject) = (format!("trace={name}"), format!("inject={name}:signal=KILL:when={nth}"));
        ["-o", "/dev/null", "-e", &trace, "-e", &inject].map(str::to_owned).to_vec()
    }
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} number {}", self.name, self.nth)
    }
}

/// Every call of the recorded run from the first that names the path on.
#[must_use]
pub fn calls_since(trace: &str, path: &Path) -> Vec<Call> {
    // The end of a process cannot be interrupted by its end.
    changes_since(trace, path, |name| !name.starts_with("exit"))
}

/// Every call of the recorded run that changes something.
pub fn changes(trace: &str, change: impl Fn(&str) -> bool) -> Vec<Call> {
    distinct(lines(trace).filter(|(name, _)| change(name)))
}

/// Every call that changes something, from the first that names the path on.
pub fn changes_since(trace: &str, path: &Path, change: impl Fn(&str) -> bool) -> Vec<Call> {
    let path = path.to_str().expect("tests choose readable paths").to_owned();
    let mut touched = false;
    distinct(numbered(trace).filter_map(|(name, nth, rest)| {
        touched |= name != "execve" && rest.contains(&path);
        (touched && change(name)).then_some((name, nth))
    }))
}

fn lines(trace: &str) -> impl Iterator<Item = (&str, usize)> {
    numbered(trace).map(|(name, nth, _)| (name, nth))
}

/// Name, number and the rest of each line. strace counts the calls of each thread on its own, also those to
/// kill at.
fn numbered(trace: &str) -> impl Iterator<Item = (&str, usize, &str)> {
    let mut seen: HashMap<(&str, &str), usize> = HashMap::new();
    trace.lines().filter_map(move |line| {
        // Without -f there is no number of a thread before the call.
        let (thread, call) = match line.split_once(' ') {
            Some((thread, call)) if thread.parse::<u32>().is_ok() => (thread, call),
            _ => ("", line),
        };
        let (name, rest) = call.trim_start().split_once('(')?;
        if name.contains(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_') {
            return None;
        }
        let nth = seen.entry((thread, name)).or_default();
        *nth += 1;
        Some((name, *nth, rest))
    })
}

/// Each once, in the order of their first.
fn distinct<'a>(calls: impl Iterator<Item = (&'a str, usize)>) -> Vec<Call> {
    let mut found = Vec::new();
    for (name, nth) in calls {
        let call = Call { name: name.to_owned(), nth };
        if !found.contains(&call) {
            found.push(call);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "\
10 execve(\"/x/actor\", [\"/state\"]) = 0
10 openat(AT_FDCWD, \"/etc/ld.so.cache\", O_RDONLY) = 3
10 openat(AT_FDCWD, \"/state/db\", O_RDWR) = 3
11 openat(AT_FDCWD, \"/state/other\", O_RDWR) = 4
11 write(4, \"x\", 1 <unfinished ...>
10 write(3, \"x\", 1) = 1
11 <... write resumed>) = 1
10 exit_group(0) = ?
10 +++ exited with 0 +++
";

    fn named(calls: &[Call]) -> Vec<String> {
        calls.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn calls_count_by_thread_from_the_first_that_names_the_path() {
        let calls = calls_since(TRACE, Path::new("/state"));
        assert_eq!(named(&calls), ["openat number 2", "openat number 1", "write number 1"]);
    }

    #[test]
    fn only_what_changes_something_is_kept() {
        let calls = changes(TRACE, |name| name == "write");
        assert_eq!(named(&calls), ["write number 1"]);
        let calls = changes("write(1, \"\", 0) = 0\nread(0) = 0\nwrite(1) = 0\n", |name| name != "read");
        assert_eq!(named(&calls), ["write number 1", "write number 2"]);
    }

    #[test]
    fn the_kill_comes_at_the_calls_entry() {
        let call = Call { name: "write".to_owned(), nth: 3 };
        let words = call.kill().join(" ");
        assert_eq!(words, "-o /dev/null -e trace=write -e inject=write:signal=KILL:when=3");
    }
}
