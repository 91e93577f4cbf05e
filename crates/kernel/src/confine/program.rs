use std::ffi::{CStr, CString, OsStr, c_char, c_long};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr;

use rustix::io::Errno;

use crate::userns::last_errno;
use crate::{Error, Result};

/// The default `PATH`.
const USUAL_PATH: &[u8] = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The exit code of a process that could not exec its program.
const NOT_RUN: i32 = 127;

/// The length of the kernel's set of signals, in bytes.
const SIGNAL_SET: usize = 8;

/// A program with its arguments and its environment.
#[derive(Debug, Clone)]
pub struct Program {
    args: Vec<CString>,
    env: Vec<CString>,
}

impl Program {
    /// The program that the first argument names: a path if there is a slash in it, else a name that is
    /// looked for in the `PATH` of `env`.
    pub fn new<A: AsRef<OsStr>, E: AsRef<OsStr>>(args: &[A], env: &[E]) -> Result<Self> {
        let args = args.iter().map(|text| word(text.as_ref())).collect::<Result<Vec<_>>>()?;
        let env = env.iter().map(|text| word(text.as_ref())).collect::<Result<Vec<_>>>()?;
        if args.first().is_none_or(|name| name.is_empty()) {
            return Err(Error::Program { name: String::new(), errno: Errno::NOENT });
        }
        Ok(Self { args, env })
    }

    /// The name that was given.
    #[must_use]
    pub fn name(&self) -> String {
        self.args.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Execs the program, with default signal dispositions and no blocked signal. Returns only on failure. A script
    /// without a `#!` line is not run by a shell.
    #[must_use]
    pub fn become_it(&self) -> Error {
        default_signals();
        let (args, env) = (pointers(&self.args), pointers(&self.env));
        let mut answer = Errno::NOENT;
        for path in self.candidates() {
            // SAFETY: both arrays end with a null pointer, and they and all that they point to outlive
            // the call.
            unsafe { libc::execve(path.as_ptr(), args.as_ptr(), env.as_ptr()) };
            match last_errno() {
                // The search continues; EACCES is a better error than ENOENT.
                Errno::ACCESS => answer = Errno::ACCESS,
                Errno::NOENT | Errno::NOTDIR => {}
                errno => {
                    answer = errno;
                    break;
                }
            }
        }
        Error::Program { name: self.name(), errno: answer }
    }

    /// Execs the program with no descriptor open except the standard streams; on failure writes the text of `explain`
    /// to `report` and ends this process.
    ///
    /// Close-on-exec is not enough: execve resolves the program's path first, and `/proc/self/fd/N/...` leads through
    /// whatever is still open. `report` is a pipe, through which no path leads. It should be close-on-exec, so that
    /// its reader learns of the program's start.
    ///
    /// Descriptors are closed up to `highest`, one by one: a seccomp filter that is in force already may not know
    /// close_range(2).
    pub fn become_alone(&self, report: &OwnedFd, highest: RawFd, explain: impl FnOnce(Error) -> String) -> ! {
        let close = |number: RawFd| {
            // SAFETY: this process uses none of these descriptors any more: it becomes the program or ends below, and
            // whatever owns them is never dropped.
            unsafe { libc::close(number) == 0 || last_errno() == Errno::BADF }
        };
        let closed = (3..=highest).filter(|number| *number != report.as_raw_fd()).all(close);
        // A seccomp filter can answer in the kernel's place, and leave them open.
        let words = if closed {
            explain(self.become_it())
        } else {
            "cannot close descriptors of the host".to_owned()
        };
        let _ = rustix::io::write(report, words.as_bytes());
        // SAFETY: ends this process without running destructors, whose descriptors are closed already.
        unsafe { libc::_exit(NOT_RUN) }
    }

    fn candidates(&self) -> Vec<CString> {
        let Some(name) = self.args.first() else { return vec![] };
        if name.as_bytes().contains(&b'/') {
            return vec![name.clone()];
        }
        // An empty entry of PATH would mean the working directory: it is ignored.
        let absolute = self.path().split(|byte| *byte == b':').filter(|dir| dir.starts_with(b"/"));
        let joined = absolute.map(|dir| [dir, b"/", name.as_bytes()].concat());
        joined.filter_map(|path| CString::new(path).ok()).collect()
    }

    fn path(&self) -> &[u8] {
        let of = |entry: &'_ CString| entry.as_bytes().starts_with(b"PATH=");
        let entry = self.env.iter().find(|entry| of(entry)).map(|entry| entry.as_bytes());
        entry.and_then(|entry| entry.strip_prefix(b"PATH=")).unwrap_or(USUAL_PATH)
    }
}

fn word(text: &OsStr) -> Result<CString> {
    let refused = |_| Error::Program { name: text.to_string_lossy().into_owned(), errno: Errno::INVAL };
    CString::new(text.as_bytes()).map_err(refused)
}

fn pointers(words: &[CString]) -> Vec<*const c_char> {
    words.iter().map(|word| CStr::as_ptr(word)).chain([ptr::null()]).collect()
}

/// Rust ignores SIGPIPE, and what is ignored or blocked would stay so in the program.
fn default_signals() {
    const LAST: c_long = 64;
    // The kernel's own form of "as it begins": all zero, and long enough on any architecture.
    let default = [0u64; 8];
    for signal in 1..=LAST {
        // SAFETY: the kernel reads its structure from `default`; signals that cannot be set are refused,
        // which is fine. The bare call: libc's own leaves two signals out that may be ignored, too.
        unsafe {
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), ptr::null::<u64>(), SIGNAL_SET)
        };
    }
    // SAFETY: all zero is an empty set of signals.
    let none: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is complete; the old one is not asked for.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(name: &str, env: &[&str]) -> Vec<String> {
        let program = Program::new(&[name], env).unwrap();
        program.candidates().iter().map(|path| path.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_name_is_looked_for_in_the_programs_own_path_and_never_in_the_working_directory() {
        assert_eq!(candidates("x", &["A=b", "PATH=/a::.:b:/c/"]), ["/a/x", "/c//x"]);
        assert_eq!(candidates("x", &[]).len(), 6);
    }

    #[test]
    fn a_path_is_taken_as_it_is() {
        assert_eq!(candidates("./x", &["PATH=/a"]), ["./x"]);
    }

    #[test]
    fn what_cannot_be_a_program_is_refused() {
        assert!(Program::new::<&str, &str>(&[], &[]).is_err());
        assert!(Program::new::<&str, &str>(&[""], &[]).is_err());
        assert!(Program::new::<&str, &str>(&["a\0b"], &[]).is_err());
    }
}
