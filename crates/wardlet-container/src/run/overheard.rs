//! What libcontainer says to its log when something fails. Of an error that happens in a process of its own
//! it hands on the outermost words only; the cause is in the log and nowhere else.

use std::fmt::{Debug, Write as _};
use std::fs::File;
use std::io::{Read, Seek, Write};

use rustix::fs::{MemfdFlags, memfd_create};
use tracing_core::field::{Field, Visit};
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Dispatch, Event, Level, Metadata, Subscriber, dispatcher};

use crate::failure::Failure;

/// No single complaint needs more.
const LONGEST: usize = 1000;
/// Of all complaints, those that came first.
const LARGEST: u64 = 64 << 10;
/// More would hide the cause again.
const MOST: usize = 3;
/// What libcontainer puts in front of an error of another process.
const AROUND: &str = "error in executing process : ";

/// The complaints of this process and of all that it starts from now on.
pub(super) struct Overheard(File);

/// Listens. A process listens once.
pub(super) fn listen() -> Result<Overheard, Failure> {
    let failed = |cause: std::io::Error| Failure::during("cannot keep the engine's words", cause);
    // Processes have it by inheritance and write where the last one ended; the container's program has it
    // not.
    let file = File::from(memfd_create("words", MemfdFlags::CLOEXEC).map_err(|errno| failed(errno.into()))?);
    let listener = Listener(file.try_clone().map_err(failed)?);
    dispatcher::set_global_default(Dispatch::new(listener))
        .map_err(|_| Failure::of("the engine's words are listened to already"))?;
    Ok(Overheard(file))
}

impl Overheard {
    /// The error, with its cause from the engine's log where that says more.
    pub(super) fn explain(mut self, what: &str) -> String {
        let mut text = Vec::new();
        let read = self.0.rewind().and_then(|()| (&mut self.0).take(LARGEST).read_to_end(&mut text));
        match read {
            Ok(_) => with_cause(what, &String::from_utf8_lossy(&text)),
            Err(_) => what.to_owned(),
        }
    }
}

/// A function that passes an error on logs after the one that met it: the lines that came first have the cause.
fn with_cause(what: &str, complaints: &str) -> String {
    let what = what.rsplit(AROUND).next().unwrap_or(what);
    let innermost = what.rsplit(": ").next().unwrap_or(what);
    let mut further: Vec<&str> = Vec::new();
    for complaint in complaints.lines() {
        // What is known already need not be said again, nor what that was handed on as.
        let new = complaint.rsplit(innermost).next().unwrap_or(complaint);
        let new = new.trim_start_matches([':', ' ']).trim_start_matches("err=");
        if !new.is_empty() && further.len() < MOST && !further.contains(&new) {
            further.insert(0, new);
        }
    }
    [&[what], further.as_slice()].concat().join(": ")
}

struct Listener(File);

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() == Level::ERROR
    }

    fn event(&self, event: &Event<'_>) {
        let mut complaint = Complaint::default();
        event.record(&mut complaint);
        // A failure to write could not be reported.
        let _ = (&self.0).write_all(complaint.line().as_bytes());
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Complaint {
    message: String,
    fields: String,
}

impl Complaint {
    fn line(&self) -> String {
        let text = format!("{}{}", self.message, self.fields).replace('\n', " ");
        format!("{}\n", text.chars().take(LONGEST).collect::<String>())
    }
}

impl Visit for Complaint {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => write!(self.fields, " {name}={value:?}").unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHAT: &str = "failed to create container: exec process failed with error error in executing \
                        process : failed to prepare rootfs";

    #[test]
    fn the_cause_is_said_once_and_what_handed_it_on_is_not() {
        let complaints = "failed to mount /data: syscall\nfailed to prepare rootfs err=Mount(ENODEV)\n\
                          failed to wait for init: failed to prepare rootfs\n";
        let line = "failed to prepare rootfs: Mount(ENODEV): failed to mount /data: syscall";
        assert_eq!(with_cause(WHAT, complaints), line);
    }

    #[test]
    fn without_complaints_an_error_stays_as_it_is() {
        assert_eq!(with_cause("no such thing", ""), "no such thing");
        assert_eq!(with_cause("no such thing", "no such thing\n"), "no such thing");
    }

    #[test]
    fn many_complaints_do_not_hide_the_first_ones() {
        let many: String = (0..100).map(|number| format!("complaint {number}\n")).collect();
        assert_eq!(with_cause("a: b", &many), "a: b: complaint 2: complaint 1: complaint 0");
    }

    #[test]
    fn a_complaint_is_one_line_and_not_too_long() {
        let complaint = Complaint { message: "a\nb".repeat(LONGEST), fields: String::new() };
        let line = complaint.line();
        assert_eq!((line.lines().count(), line.len()), (1, LONGEST + 1));
    }
}
