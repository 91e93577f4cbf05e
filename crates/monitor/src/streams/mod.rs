//! What flows between a container, its log and attached clients.

mod attached;
mod input;
mod output;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Instant, SystemTime};

use rustix::event::PollFlags;

pub(crate) use attached::Attached;
pub(crate) use input::Input;
pub(crate) use output::Output;

use crate::log::{Log, Stream};

/// The most that is read of one stream before the others have their turn.
const TURN: usize = 64 * 1024;
/// The most that is read of a stream whose container has ended: more than any pipe holds by default.
const REST: usize = 1024 * 1024;

/// One descriptor of a container's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Output(Stream),
    Input,
    /// The input of the client with this number.
    From(u64),
    /// A stream of the client with this number.
    To(u64, Stream),
}

/// A descriptor, and what is waited for on it.
pub(crate) type Interest<'a, T> = (T, BorrowedFd<'a>, PollFlags);

/// A container's streams. An attached client can neither stop nor slow the log down.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    pub(crate) log: Option<Log>,
    pub(crate) input: Option<Input>,
    pub(crate) outputs: Vec<Output>,
    clients: Vec<(u64, Attached)>,
    last: u64,
}

impl Streams {
    pub(crate) fn attach(&mut self, client: Attached) {
        self.last += 1;
        self.clients.push((self.last, client));
        // Where there is no input, that of a client is closed at once.
        self.sweep();
    }

    /// What is to be waited for.
    pub(crate) fn interests(&self, now: Instant) -> Vec<Interest<'_, Place>> {
        let mut all = Vec::new();
        for output in self.outputs.iter().filter(|output| output.is_due(now)) {
            all.push((Place::Output(output.stream()), output.as_fd(), PollFlags::IN));
        }
        // Poll also reports that the reader of a pipe is gone. For a terminal that no process has open it would report
        // that without end.
        let awake = self.outputs.iter().all(|output| output.rests_until().is_none());
        if let Some(input) =
            self.input.as_ref().filter(|input| !input.is_terminal() || (input.is_full() && awake))
        {
            let wanted = if input.is_full() { PollFlags::OUT } else { PollFlags::empty() };
            all.push((Place::Input, input.as_fd(), wanted));
        }
        let hungry = self.input.as_ref().is_some_and(|input| !input.is_full());
        for (number, client) in &self.clients {
            if let Some(from) = client.input().filter(|_| hungry) {
                all.push((Place::From(*number), from, PollFlags::IN));
            }
            for (stream, to, wanted) in client.outputs() {
                all.push((Place::To(*number, stream), to, wanted));
            }
        }
        all
    }

    /// When something is due without any descriptor saying so.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.outputs.iter().filter_map(Output::rests_until).min()
    }

    pub(crate) fn ready(&mut self, place: Place, flags: PollFlags) {
        match place {
            Place::Output(stream) => self.pump(stream, TURN),
            Place::Input => self.feed_input(flags),
            Place::From(number) => self.take_input(number),
            Place::To(number, stream) => self.serve(number, stream, flags),
        }
        self.sweep();
    }

    /// Moves at most this much of a stream on.
    fn pump(&mut self, stream: Stream, most: usize) {
        let Some(place) = self.outputs.iter().position(|output| output.stream() == stream) else { return };
        let Some(output) = self.outputs.get_mut(place) else { return };
        let mut moved = 0;
        while moved < most {
            let Some(bytes) = output.read() else { break };
            moved += bytes.len();
            let lines = output.lines.feed(&bytes, SystemTime::now());
            if let Some(log) = &mut self.log {
                log.append(&lines);
            }
            for (_, client) in &mut self.clients {
                client.offer(stream, &bytes);
            }
        }
        if output.has_ended() {
            self.close_output(place);
        }
    }

    fn close_output(&mut self, place: usize) {
        let mut output = self.outputs.swap_remove(place);
        let rest = output.lines.finish(SystemTime::now());
        if let Some(log) = &mut self.log {
            log.append(&rest);
        }
        for (_, client) in &mut self.clients {
            client.finish(output.stream());
        }
    }

    /// The container has ended: what is there is moved on.
    pub(crate) fn drain(&mut self) {
        for output in &mut self.outputs {
            output.is_last();
        }
        for stream in [Stream::Stdout, Stream::Stderr] {
            self.pump(stream, REST);
        }
        self.sweep();
    }

    /// Whether nothing more can come from the container.
    pub(crate) fn is_drained(&self) -> bool {
        self.outputs.is_empty()
    }

    /// Nothing more is read from the container, nor written to it. Clients may still take what waits for
    /// them.
    pub(crate) fn close(&mut self) {
        while !self.outputs.is_empty() {
            self.close_output(0);
        }
        self.input = None;
        for (_, client) in &mut self.clients {
            client.drop_input();
            // Also of a stream that the container never had, or had closed before the client came.
            client.finish(Stream::Stdout);
            client.finish(Stream::Stderr);
        }
        self.sweep();
    }

    /// Disconnects all attached clients.
    pub(crate) fn drop_clients(&mut self) {
        self.clients.clear();
    }

    pub(crate) fn has_clients(&self) -> bool {
        !self.clients.is_empty()
    }

    /// No more input will come, from any client.
    pub(crate) fn close_input(&mut self) {
        if let Some(input) = &mut self.input {
            input.close();
        }
        self.sweep();
    }

    /// The terminal, if there is one.
    pub(crate) fn terminal(&self) -> Option<BorrowedFd<'_>> {
        self.outputs.iter().find(|output| output.is_terminal()).map(AsFd::as_fd)
    }

    /// The terminal has come, which is input and output at once.
    pub(crate) fn set_terminal(&mut self, terminal: OwnedFd, input: Option<Input>) {
        self.outputs.push(Output::terminal(terminal));
        self.input = input;
    }

    fn feed_input(&mut self, flags: PollFlags) {
        let Some(input) = &mut self.input else { return };
        input.flush();
        if flags.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) && !input.is_terminal() {
            input.give_up();
        }
    }

    fn take_input(&mut self, number: u64) {
        let Some((_, client)) = self.clients.iter_mut().find(|(found, _)| *found == number) else { return };
        let Some(input) = &mut self.input else { return client.drop_input() };
        match client.read_input() {
            attached::Taken::Bytes(bytes) => input.write(bytes),
            attached::Taken::Nothing => {}
            attached::Taken::End => {
                client.drop_input();
                input.client_left();
            }
        }
    }

    fn serve(&mut self, number: u64, stream: Stream, flags: PollFlags) {
        let found = self.clients.iter_mut().find(|(found, _)| *found == number);
        if let Some((_, client)) = found {
            client.flush(stream, flags);
        }
    }

    /// Removes streams and clients that have ended.
    fn sweep(&mut self) {
        if self.input.as_ref().is_some_and(Input::is_done) {
            self.input = None;
        }
        let Self { clients, input, .. } = self;
        clients.retain_mut(|(_, client)| {
            if input.is_none() {
                client.drop_input();
            }
            if let Some(input) = input.as_mut().filter(|_| client.is_gone() && client.had_input()) {
                input.client_left();
            }
            !client.is_gone()
        });
        if self.input.as_ref().is_some_and(Input::is_done) {
            self.input = None;
        }
    }
}
