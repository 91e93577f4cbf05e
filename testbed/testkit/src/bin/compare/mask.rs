//! What differs from run to run, replaced by a name: directories of the run, UUIDs, IDs in hexadecimal, times, numbers of
//! processes and of namespaces.

use std::collections::BTreeSet;

/// Replaces directories of this run by a name each, in the order given.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mask {
    names: Vec<(String, &'static str)>,
    pids: BTreeSet<u32>,
}

/// An ID in hexadecimal has at least so many digits.
const ID_DIGITS: usize = 12;

impl Mask {
    pub(crate) fn replacing(mut self, path: &std::path::Path, name: &'static str) -> Self {
        let path = path.display().to_string();
        // As the wrapper has it in names of its directories.
        self.names.push((path.replace('/', "@2f"), name));
        self.names.push((path, name));
        self
    }

    /// Knows these numbers as process IDs wherever they stand.
    pub(crate) fn with_pids(mut self, pids: BTreeSet<u32>) -> Self {
        self.pids = pids;
        self
    }

    pub(crate) fn apply(&self, text: &str) -> String {
        let named = self.names.iter().fold(text.to_owned(), |text, (path, name)| text.replace(path, name));
        self.without_random_parts(&named)
    }

    fn without_random_parts(&self, text: &str) -> String {
        let (mut done, mut rest) = (String::new(), text);
        while let Some(first) = rest.chars().next() {
            let inside_word = done.ends_with(|c: char| c.is_ascii_alphanumeric());
            let found = if inside_word { None } else { self.random_part(&done, rest) };
            let (length, name) = found.unwrap_or((first.len_utf8(), ""));
            let (taken, left) = rest.split_at(length);
            done.push_str(if name.is_empty() { taken } else { name });
            rest = left;
        }
        done
    }

    /// The length of the random part that `rest` starts with, and its name.
    fn random_part(&self, before: &str, rest: &str) -> Option<(usize, &'static str)> {
        let span = |wanted: &dyn Fn(char) -> bool| rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        let ends_there = |length: usize| !rest[length..].starts_with(|c: char| c.is_ascii_alphanumeric());
        if let Some(digits) = rest.strip_prefix("0x") {
            let length = 2 + digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
            return (length > 2 + 4).then_some((length, "ADDRESS"));
        }
        let uuid = span(&|c| c.is_ascii_hexdigit() || c == '-');
        if uuid >= 36 && is_uuid(&rest[..36]) && ends_there(36) {
            return Some((36, "UUID"));
        }
        if is_date(rest) {
            return Some((span(&|c| c.is_ascii_digit() || "-:.TZ+".contains(c)), "TIME"));
        }
        // The directory of a volume's content, named by the time of its update.
        if before.ends_with("..") && rest.starts_with("20") {
            return Some((span(&|c| c.is_ascii_digit() || "_.".contains(c)), "TIME"));
        }
        // A file that runc makes for itself.
        if before.ends_with("/runc.") && span(&|c| c.is_ascii_alphanumeric()) == 6 {
            return Some((6, "RANDOM"));
        }
        let hex = span(&|c| c.is_ascii_hexdigit());
        if hex >= ID_DIGITS && ends_there(hex) && rest[..hex].contains(|c: char| c.is_ascii_digit()) {
            return Some((hex, "ID"));
        }
        let digits = span(&|c| c.is_ascii_digit());
        let number = (digits > 0 && ends_there(digits)).then_some(digits)?;
        let is_pid = rest[..number].parse().is_ok_and(|number| self.pids.contains(&number));
        if is_pid || before.ends_with("/proc/") || before.ends_with("/task/") {
            return Some((number, "PID"));
        }
        if before.ends_with("master:") || before.ends_with("shared:") {
            return Some((number, "PEER"));
        }
        if before.ends_with("ThreadId(") {
            return Some((number, "TID"));
        }
        if before.ends_with("/fd/") {
            return Some((number, "FD"));
        }
        before.ends_with(":[").then_some((number, "INODE"))
    }
}

fn is_uuid(text: &str) -> bool {
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12]
}

/// `2026-01-31T…`
fn is_date(text: &str) -> bool {
    let pattern = "dddd-dd-ddT";
    text.len() > pattern.len()
        && text.chars().zip(pattern.chars()).all(|(c, wanted)| match wanted {
            'd' => c.is_ascii_digit(),
            other => c == other,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_run_to_run_gets_a_name_and_nothing_else_does() {
        let mask = Mask::default().replacing(std::path::Path::new("/var/tmp/x/old"), "$NODE");
        let mask = mask.with_pids([4712].into());
        for (text, masked) in [
            ("/var/tmp/x/old/state", "$NODE/state"),
            ("containers/@2fvar@2ftmp@2fx@2fold@2froot", "containers/$NODE@2froot"),
            ("pods/0a1b2c3d-0001-0002-0003-0123456789ab/etc-hosts", "pods/UUID/etc-hosts"),
            ("sandboxes/3f2a91c0d4e5.json", "sandboxes/ID.json"),
            ("since 2026-11-17T10:12:13.5Z, again", "since TIME, again"),
            ("v0/..2026_11_17_10_48_02.488611/colour", "v0/..TIME/colour"),
            ("root/compare-sandbox/runc.068NHO", "root/compare-sandbox/runc.RANDOM"),
            ("rw,master:12 - ext4", "rw,master:PEER - ext4"),
            ("/proc/4711/ns/user, /proc/self/fd/12", "/proc/PID/ns/user, /proc/self/fd/FD"),
            ("user:[4026532321]", "user:[INODE]"),
            (".probe-4712-ThreadId(10)/lower", ".probe-PID-ThreadId(TID)/lower"),
            ("child_tid=0x7f0012345678", "child_tid=ADDRESS"),
            ("65536 131072 /data/1000 v1.37 deadbeefcafe", "65536 131072 /data/1000 v1.37 deadbeefcafe"),
        ] {
            assert_eq!(mask.apply(text), masked);
        }
    }
}
