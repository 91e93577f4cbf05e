//! Parses the command line of an OCI runtime: what the caller (containerd, CRI-O) asks the runtime to do.

mod flags;
#[cfg(test)]
mod tests;
mod words;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use words::{Word, Words};

/// The internal command that runs the cleanup watcher. No OCI runtime has a command of this name.
const CLEANUP_WATCHER: &str = "wardlet-look-after";

/// One call of an OCI runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// All arguments after the program's name.
    pub words: Vec<OsString>,
    /// The global flags, which apply to any command.
    pub globals: Globals,
    /// The command.
    pub command: Command,
}

/// The global flags, which apply to any command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Globals {
    /// `--root`: the directory of the runtime's state.
    pub root: Option<PathBuf>,
    /// `--log`: the file that the caller reads errors from.
    pub log: Option<PathBuf>,
    /// `--log-format`.
    pub log_format: LogFormat,
}

/// The format of a log line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Text, for people.
    #[default]
    Text,
    /// One JSON object per line, as containerd reads it.
    Json,
}

/// The command of a call. Commands that `wardlet-oci` does not handle itself are [`Command::Other`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// `create`: creates a container.
    Create(Create),
    /// `run`: creates and starts a container, and deletes it when it ends.
    Run(Create),
    /// `restore`: creates a container from a checkpoint.
    Restore(Create),
    /// `exec`: runs one more process in a container.
    Exec(Exec),
    /// `start`: starts a created container.
    Start(String),
    /// `delete`: deletes a container.
    Delete(String),
    /// Waits for the end of a container's creator and cleans up. Only `wardlet-oci` itself makes this call.
    CleanupWatcher(CleanupWatcher),
    /// Any other command: the runtime gets it unchanged.
    Other,
}

/// The arguments of `create`, `run` and `restore`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Create {
    /// The container's ID.
    pub id: String,
    /// `--bundle`, as an absolute path.
    pub bundle: PathBuf,
    /// The path of `config.json`.
    pub config: PathBuf,
    /// `--pid-file`: the file that the runtime writes the PID of the init process to.
    pub pid_file: Option<PathBuf>,
    /// The number of arguments up to and including the command: the command's own flags begin here.
    pub flags_at: usize,
}

/// The arguments of `exec`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exec {
    /// The container's ID.
    pub id: String,
    /// `--process`: the file with the OCI process.
    pub process: Option<PathBuf>,
    /// `--user`, which applies if there is no file.
    pub user: Option<String>,
}

/// The arguments of the cleanup watcher: a container, and the process that creates it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CleanupWatcher {
    /// The container's ID.
    pub id: String,
    /// The PID of the creator.
    pub pid: u32,
    /// The start time of the creator, in clock ticks since boot.
    pub began: u64,
}

impl Call {
    /// Parses the arguments after the program's name. Relative paths are resolved against `here`. Parsing does not
    /// fail: a call that is not understood becomes [`Command::Other`], and the runtime reports what is wrong with it.
    #[must_use]
    pub fn read(words: Vec<OsString>, here: &Path) -> Self {
        let (globals, command) = read(&words, here);
        Self { words, globals, command }
    }

    /// The same arguments with `more` inserted at `at`, as the first flags of the command.
    #[must_use]
    pub fn words_with(&self, more: &[OsString], at: usize) -> Vec<OsString> {
        let (before, after) = self.words.split_at(at.min(self.words.len()));
        [before, more, after].concat()
    }
}

fn read(words: &[OsString], here: &Path) -> (Globals, Command) {
    let mut globals = Globals::default();
    let mut steps = Words::new(words);
    let name = loop {
        match steps.next(flags::GLOBAL) {
            None => return (globals, Command::Other),
            Some(Word::Flag(name, value)) => globals.take(&name, value, here),
            Some(Word::Plain(word)) => break word,
        }
    };
    let at = steps.at();
    let rest = words.get(at..).unwrap_or_default();
    let create = || Create::read(rest, at, here);
    let command = match name.to_str() {
        Some("create") => create().map(Command::Create),
        Some("run") => create().map(Command::Run),
        Some("restore") => create().map(Command::Restore),
        Some("exec") => Exec::read(rest, here).map(Command::Exec),
        Some("start") => last_plain(rest, flags::DELETE).map(Command::Start),
        Some(CLEANUP_WATCHER) => CleanupWatcher::read(rest).map(Command::CleanupWatcher),
        Some("delete") => last_plain(rest, flags::DELETE).map(Command::Delete),
        _ => None,
    };
    (globals, command.unwrap_or(Command::Other))
}

impl Globals {
    fn take(&mut self, name: &str, value: Option<OsString>, here: &Path) {
        match (name, value) {
            ("root" | "r", Some(value)) => self.root = Some(here.join(value)),
            ("log" | "l", Some(value)) => self.log = Some(here.join(value)),
            ("log-format", Some(value)) if value == "json" => self.log_format = LogFormat::Json,
            _ => {}
        }
    }
}

impl Create {
    fn read(rest: &[OsString], flags_at: usize, here: &Path) -> Option<Self> {
        let (mut bundle, mut pid_file, mut config) = (here.to_owned(), None, None);
        let mut steps = Words::new(rest);
        while let Some(word) = steps.next(flags::CREATE) {
            match word {
                Word::Flag(name, Some(value)) => match name.as_str() {
                    "bundle" | "b" => bundle = here.join(value),
                    "pid-file" => pid_file = Some(here.join(value)),
                    "config" | "f" => config = Some(PathBuf::from(value)),
                    _ => {}
                },
                Word::Flag(..) | Word::Plain(_) => {}
            }
        }
        // crun has a flag for another file name, relative to the bundle.
        let config = bundle.join(config.unwrap_or_else(|| PathBuf::from("config.json")));
        Some(Self { id: last_plain(rest, flags::CREATE)?, bundle, config, pid_file, flags_at })
    }
}

impl Exec {
    fn read(rest: &[OsString], here: &Path) -> Option<Self> {
        let (mut process, mut user) = (None, None);
        let mut steps = Words::new(rest);
        while let Some(word) = steps.next(flags::EXEC) {
            match word {
                Word::Flag(name, Some(value)) => match name.as_str() {
                    "process" | "p" => process = Some(here.join(value)),
                    "user" | "u" => user = value.into_string().ok(),
                    _ => {}
                },
                Word::Flag(_, None) => {}
                // The arguments after the container's ID are the command to run.
                Word::Plain(id) => return Some(Self { id: id.into_string().ok()?, process, user }),
            }
        }
        None
    }
}

impl CleanupWatcher {
    /// The command line that is parsed as [`Command::CleanupWatcher`] of this watcher.
    #[must_use]
    pub fn command_line(&self, globals: &Globals) -> Vec<OsString> {
        let mut words = Vec::new();
        for (flag, path) in [("--root", &globals.root), ("--log", &globals.log)] {
            words.extend(path.iter().flat_map(|path| [flag.into(), path.clone().into()]));
        }
        if globals.log_format == LogFormat::Json {
            words.extend(["--log-format", "json"].map(OsString::from));
        }
        let Self { id, pid, began } = self;
        words.extend([CLEANUP_WATCHER, &pid.to_string(), &began.to_string(), id].map(OsString::from));
        words
    }

    fn read(rest: &[OsString]) -> Option<Self> {
        let [pid, began, id] = rest else { return None };
        let id = id.to_str()?.to_owned();
        Some(Self { id, pid: pid.to_str()?.parse().ok()?, began: began.to_str()?.parse().ok()? })
    }
}

/// The last argument that is neither a flag nor the value of a flag. The runtimes accept one such argument here, so the
/// last one is the ID even if the value of an unknown flag was taken for a positional argument.
fn last_plain(rest: &[OsString], flags: words::Flags) -> Option<String> {
    let mut steps = Words::new(rest);
    let mut last = None;
    while let Some(word) = steps.next(flags) {
        if let Word::Plain(word) = word {
            last = Some(word);
        }
    }
    last?.into_string().ok()
}
