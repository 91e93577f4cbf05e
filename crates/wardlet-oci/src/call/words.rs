//! The words of a command line, as the runtimes take them.
//!
//! A flag has one dash or two, and its value behind `=` or in the next word. Which flags take a value is
//! known for those of runc, crun, youki and runsc. A flag that nobody here knows is taken to have none
//! where a command or another flag follows, and to have one otherwise.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// One step of a command line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// A flag without its dashes, and its value if it has one.
    Flag(String, Option<OsString>),
    /// Anything else.
    Plain(OsString),
}

/// Which flags take a value, and what to do with those that are not known.
#[derive(Clone, Copy)]
pub(super) struct Flags {
    pub(super) with_value: &'static [&'static str],
    pub(super) without: &'static [&'static str],
    /// Words that end a run of flags: behind a flag that is not known they are not its value.
    pub(super) commands: &'static [&'static str],
}

/// Walks over words.
pub(super) struct Words<'a> {
    words: &'a [OsString],
    at: usize,
    only_plain: bool,
}

impl<'a> Words<'a> {
    pub(super) fn new(words: &'a [OsString]) -> Self {
        Self { words, at: 0, only_plain: false }
    }

    /// How many words are behind us.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    fn take(&mut self) -> Option<&'a OsString> {
        let word = self.words.get(self.at)?;
        self.at += 1;
        Some(word)
    }

    /// The next step.
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

/// A flag's name and the value behind its `=`.
fn flag(word: &OsStr) -> Option<(String, Option<OsString>)> {
    let bytes = word.as_bytes().strip_prefix(b"-").filter(|rest| !rest.is_empty())?;
    let bytes = bytes.strip_prefix(b"-").unwrap_or(bytes);
    let mut parts = bytes.splitn(2, |&b| b == b'=');
    let name = parts.next().map(String::from_utf8_lossy).unwrap_or_default().into_owned();
    Some((name, parts.next().map(|value| OsString::from_vec(value.to_vec()))))
}
