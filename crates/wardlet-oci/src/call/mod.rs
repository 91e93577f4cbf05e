//! What the caller wants of a runtime, read off its command line.

mod flags;
mod runtime;
#[cfg(test)]
mod tests;
mod words;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub use runtime::{Runtime, find};

use words::{Word, Words};

/// A command that no runtime has.
const LOOK_AFTER: &str = "wardlet-look-after";

/// One call of a runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Every word behind the program's name.
    pub words: Vec<OsString>,
    /// What holds for any command.
    pub globals: Globals,
    /// What is to be done.
    pub command: Command,
}

/// What holds for any command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Globals {
    /// Where the runtime keeps its containers.
    pub root: Option<PathBuf>,
    /// Where errors are to be written.
    pub log: Option<PathBuf>,
    /// How.
    pub log_format: LogFormat,
}

/// How a line of the log is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One object a line, as containerd reads it.
    Json,
}

/// What is to be done, as far as it concerns us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// A container is to be made.
    Create(Create),
    /// A container is to be made and started, and deleted when it ends.
    Run(Create),
    /// A container is to be made from a checkpoint.
    Restore(Create),
    /// One more process in a container.
    Exec(Exec),
    /// A container that was made is to be started.
    Start(String),
    /// What is left of a container is to be taken away.
    Delete(String),
    /// Whoever made a container has ended. Nobody else calls this.
    LookAfter(LookAfter),
    /// Anything else.
    Other,
}

/// A container to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Create {
    /// Its name.
    pub id: String,
    /// Its bundle, as an absolute path.
    pub bundle: PathBuf,
    /// Its configuration.
    pub config: PathBuf,
    /// Where the number of its first process is to be written.
    pub pid_file: Option<PathBuf>,
    /// Behind which word the command's own flags begin.
    pub flags_at: usize,
}

/// One more process in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exec {
    /// The container.
    pub id: String,
    /// The process, in a file.
    pub process: Option<PathBuf>,
    /// Its user, where no file says it.
    pub user: Option<String>,
}

/// A container whose maker has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookAfter {
    /// Its name.
    pub id: String,
    /// The number of its maker.
    pub pid: u32,
    /// When that began, in the kernel's ticks since the boot.
    pub began: u64,
}

impl Call {
    /// Reads the words behind a program's name. Relative paths start at `here`.
    #[must_use]
    pub fn read(words: Vec<OsString>, here: &Path) -> Self {
        let (globals, command) = read(&words, here);
        Self { words, globals, command }
    }

    /// The same words with `more` as the first flags of the command.
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
        Some(LOOK_AFTER) => LookAfter::read(rest).map(Command::LookAfter),
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
        // crun takes another name for the file, from the bundle on.
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
                // What follows is the command that is to be run.
                Word::Plain(id) => return Some(Self { id: id.into_string().ok()?, process, user }),
            }
        }
        None
    }
}

/// The words behind the program's name that say [`Command::LookAfter`].
#[must_use]
pub fn words_to_look_after(globals: &Globals, (pid, began): (u32, u64), id: &str) -> Vec<OsString> {
    let mut words = Vec::new();
    for (flag, path) in [("--root", &globals.root), ("--log", &globals.log)] {
        words.extend(path.iter().flat_map(|path| [flag.into(), path.clone().into()]));
    }
    if globals.log_format == LogFormat::Json {
        words.extend(["--log-format", "json"].map(OsString::from));
    }
    words.extend([LOOK_AFTER, &pid.to_string(), &began.to_string(), id].map(OsString::from));
    words
}

impl LookAfter {
    fn read(rest: &[OsString]) -> Option<Self> {
        let [pid, began, id] = rest else { return None };
        let id = id.to_str()?.to_owned();
        Some(Self { id, pid: pid.to_str()?.parse().ok()?, began: began.to_str()?.parse().ok()? })
    }
}

/// The last word that is neither a flag nor a flag's value: runtimes take one such word here, so that the value
/// of a flag that is not known does not pass for it.
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
