use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use images::{Progress, Step};
use report::images::step_text;
use report::printable;

use crate::words;

/// How often a terminal's line is written anew.
const BEAT: Duration = Duration::from_millis(200);

/// Tells on stderr what is being done: on a terminal as it goes on, else a line for each layer. Ctrl-C ends
/// the work.
pub(crate) struct Teller {
    terminal: bool,
    state: Mutex<State>,
}

struct State {
    /// The last thing that was begun.
    subject: String,
    written: Option<Instant>,
}

impl Teller {
    pub(crate) fn new() -> Self {
        let state = State { subject: String::new(), written: None };
        Self { terminal: std::io::stderr().is_terminal(), state: Mutex::new(state) }
    }

    /// Leaves the terminal's line.
    pub(crate) fn end(&self) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if self.terminal && state.written.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }

    fn on_terminal(&self, state: &mut State, text: &str) {
        if state.written.is_none_or(|written| written.elapsed() >= BEAT) {
            state.written = Some(Instant::now());
            let _ = write!(std::io::stderr(), "\r\x1b[K{}", printable(text));
        }
    }
}

impl Progress for Teller {
    fn step(&self, step: Step<'_>) -> ControlFlow<()> {
        if kernel::interrupt::asked() {
            return ControlFlow::Break(());
        }
        let (subject, detail) = step_text(step);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if self.terminal {
            self.on_terminal(&mut state, &format!("{subject}{detail}"));
        } else if state.subject != subject {
            words::say(&subject);
        }
        state.subject = subject;
        ControlFlow::Continue(())
    }
}
