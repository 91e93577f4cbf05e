//! Splits a command line into flags and positional arguments, as the runtimes do.
//!
//! A flag has one dash or two, and its value after `=` or in the next argument. The flags of runc, crun, youki and
//! runsc that take a value are known. An unknown flag before the command has no value if a command or another flag
//! follows it, and has one otherwise.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// A flag or a positional argument.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// A flag without its dashes, and its value if it has one.
    Flag(String, Option<OsString>),
    /// A positional argument.
    Plain(OsString),
}

/// Which flags take a value, and how to parse unknown flags.
#[derive(Clone, Copy)]
pub(super) struct Flags {
    pub(super) with_value: &'static [&'static str],
    pub(super) without: &'static [&'static str],
    /// The names of commands. After an unknown flag they are not its value. Empty: an unknown flag has no value.
    pub(super) commands: &'static [&'static str],
}

/// Iterates over the arguments.
pub(super) struct Words<'a> {
    words: &'a [OsString],
    at: usize,
    only_plain: bool,
}

impl<'a> Words<'a> {
    pub(super) fn new(words: &'a [OsString]) -> Self {
        Self { words, at: 0, only_plain: false }
    }

    /// The number of arguments that were consumed.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    fn take(&mut self) -> Option<&'a OsString> {
        let word = self.words.get(self.at)?;
        self.at += 1;
        Some(word)
    }

    /// The next flag or positional argument.
    pub(super) fn next(&mut self, flags: Flags) -> Option<Word> {
        let word = self.take()?;
        if self.only_plain {
            return Some(Word::Plain(word.clone()));
        }
        if word == "--" {
            self.only_plain = true;
            return self.next(flags);
        }
        let Some((name, value)) = flag(word) else { return Some(Word::Plain(word.clone())) };
        let value = value.or_else(|| self.takes_next(&name, flags).then(|| self.take().cloned()).flatten());
        Some(Word::Flag(name, value))
    }

    fn takes_next(&self, name: &str, flags: Flags) -> bool {
        let Some(next) = self.words.get(self.at) else { return false };
        if flags.with_value.contains(&name) {
            return true;
        }
        let ends = next.to_str().is_some_and(|next| flags.commands.contains(&next));
        !flags.without.contains(&name) && !flags.commands.is_empty() && !ends && flag(next).is_none()
    }
}

/// The name of a flag, and the value after its `=`.
fn flag(word: &OsStr) -> Option<(String, Option<OsString>)> {
    let bytes = word.as_bytes().strip_prefix(b"-").filter(|rest| !rest.is_empty())?;
    let bytes = bytes.strip_prefix(b"-").unwrap_or(bytes);
    let mut parts = bytes.splitn(2, |&b| b == b'=');
    let name = parts.next().map(String::from_utf8_lossy).unwrap_or_default().into_owned();
    Some((name, parts.next().map(|value| OsString::from_vec(value.to_vec()))))
}
