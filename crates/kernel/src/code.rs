use std::fs::{File, read_dir};
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::ptr::without_provenance_mut;

/// What is read at a time: little, as this is for programs that want to be small.
const PART: usize = 1024;

/// Lets go of the pages of this program and its libraries that are as they are in their files, code above all. Each
/// comes back from there when it is used next, as it does when the kernel has taken it because memory was short.
///
/// # Errors
/// If there are other threads, which could change what is mapped meanwhile, or if it cannot be found out what is.
pub fn let_go_of_code() -> io::Result<()> {
    if read_dir("/proc/self/task")?.count() != 1 {
        return Err(ErrorKind::ResourceBusy.into());
    }
    let smaps = BufReader::with_capacity(PART, File::open("/proc/self/smaps")?);
    for Stretch { from, to, .. } in unchanged(smaps)? {
        // SAFETY: the stretch is mapped from a file, cannot be written to and has no page that differs from the file's,
        // so whoever reads there afterwards reads the same; that it is still mapped so holds with no other thread.
        let _ = unsafe { libc::madvise(without_provenance_mut(from), to - from, libc::MADV_DONTNEED) };
    }
    Ok(())
}

/// A part of memory, as the kernel lists it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Stretch {
    from: usize,
    to: usize,
    /// From a file, not shared, and not to be written to.
    constant: bool,
    /// It was said that no page of it is another than the file's: neither in memory nor swapped out.
    same: (bool, bool),
}

/// What is constant and was never changed: what was relocated before it became constant is left out.
fn unchanged(smaps: impl BufRead) -> io::Result<Vec<Stretch>> {
    let mut all: Vec<Stretch> = vec![];
    for line in smaps.lines() {
        let line = line?;
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match (words.as_slice(), all.last_mut()) {
            (["Anonymous:", size, ..], Some(last)) => last.same.0 = *size == "0",
            (["Swap:", size, ..], Some(last)) => last.same.1 = *size == "0",
            ([range, access, _, _, inode, ..], _) if !range.ends_with(':') => {
                all.retain(Stretch::is_unchanged);
                all.extend(Stretch::listed(range, access, inode));
            }
            _ => {}
        }
    }
    all.retain(Stretch::is_unchanged);
    Ok(all)
}

impl Stretch {
    fn listed(range: &str, access: &str, inode: &str) -> Option<Self> {
        let (from, to) = range.split_once('-')?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        let constant = matches!(access, "r--p" | "r-xp") && inode != "0";
        Some(Self { from: address(from)?, to: address(to)?, constant, same: (false, false) })
    }

    fn is_unchanged(&self) -> bool {
        self.constant && self.same == (true, true) && self.from < self.to
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(lines: &[&str]) -> Vec<usize> {
        unchanged(lines.join("\n").as_bytes()).unwrap().iter().map(|found| found.from).collect()
    }

    #[test]
    fn only_what_is_as_in_its_file_and_stays_so_is_let_go() {
        let as_it_was = "Anonymous: 0 kB\nSwap: 0 kB\nVmFlags: rd ex mr mw me";
        let stretches = [
            "1000-2000 r--p 00000000 fe:00 7 /bin/program",
            as_it_was,
            "2000-3000 r-xp 00001000 fe:00 7 /bin/program with a word",
            as_it_was,
            "3000-4000 rw-p 00002000 fe:00 7 /bin/program",
            as_it_was,
            "4000-5000 r--p 00000000 00:00 0",
            as_it_was,
            "5000-6000 r--s 00000000 fe:00 9 /var/shared",
            as_it_was,
            "7fff1000-7fff2000 r-xp 00000000 00:00 0 [vdso]",
            as_it_was,
        ];
        assert_eq!(listed(&stretches), [0x1000, 0x2000]);
    }

    /// To lose these would be to lose every address in them.
    #[test]
    fn constants_that_were_relocated_are_kept_also_when_swapped_out() {
        let header = "1000-2000 r--p 00000000 fe:00 7 /bin/program";
        assert_eq!(listed(&[header, "Anonymous: 4 kB", "Swap: 0 kB"]), [0; 0]);
        assert_eq!(listed(&[header, "Anonymous: 0 kB", "Swap: 4 kB"]), [0; 0]);
        assert_eq!(listed(&[header, "Anonymous: 0 kB"]), [0; 0], "where nothing is said of swap");
        assert_eq!(listed(&[header]), [0; 0]);
        assert_eq!(listed(&[header, "Anonymous: 0 kB", "Swap: 0 kB"]), [0x1000]);
    }

    #[test]
    fn nothing_is_let_go_beside_other_threads() {
        let (end, wait) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || wait.recv());
        assert_eq!(let_go_of_code().unwrap_err().kind(), ErrorKind::ResourceBusy);
        drop(end);
        let _ = other.join();
    }
}
