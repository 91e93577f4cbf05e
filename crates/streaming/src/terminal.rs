//! The terminal of `exec --tty`: raw mode, so that each key goes to the command in the container, until the
//! command has ended.

use std::io::{self, Read, Stdin, stdin, stdout};
use std::os::fd::AsFd;

use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::Size;

/// The terminal in raw mode. Its previous settings are restored on drop.
pub struct Raw {
    terminal: Stdin,
    before: Termios,
}

impl Raw {
    /// Sets the terminal of standard input to raw mode.
    ///
    /// # Errors
    /// If standard input is not a terminal.
    pub fn take() -> io::Result<Self> {
        let terminal = stdin();
        let before = tcgetattr(&terminal)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&terminal, OptionalActions::Now, &raw)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

/// Whether standard input is a terminal.
#[must_use]
pub fn is_interactive() -> bool {
    isatty(stdin())
}

/// Reads standard input in pieces, on a thread of its own. The thread ends with the process, because its
/// blocking read returns only with the next key.
///
/// # Errors
/// If the thread cannot be spawned.
pub fn input() -> io::Result<mpsc::Receiver<Vec<u8>>> {
    let (sender, pieces) = mpsc::channel(4);
    let read = move || {
        let mut buffer = vec![0; 16 << 10];
        loop {
            let read = match stdin().lock().read(&mut buffer) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                read => read.unwrap_or(0),
            };
            let piece = buffer.get(..read).unwrap_or_default();
            if piece.is_empty() || sender.blocking_send(piece.to_vec()).is_err() {
                return;
            }
        }
    };
    let started = std::thread::Builder::new().name("input".to_owned()).spawn(read);
    started.map(|_| pieces)
}

fn size_of(terminal: impl AsFd) -> Option<Size> {
    let size = tcgetwinsize(terminal).ok()?;
    Some(Size { rows: size.ws_row, columns: size.ws_col })
}

fn size() -> Option<Size> {
    size_of(stdout()).or_else(|| size_of(stdin())).filter(|size| size.rows > 0 && size.columns > 0)
}

/// The terminal's size now, and after each SIGWINCH. Must be called within a tokio runtime.
///
/// # Errors
/// If the signal cannot be caught.
pub fn sizes() -> io::Result<mpsc::Receiver<Size>> {
    let mut changed = signal(SignalKind::window_change())?;
    let (sender, sizes) = mpsc::channel(1);
    tokio::spawn(async move {
        loop {
            if let Some(size) = size()
                && sender.send(size).await.is_err()
            {
                return;
            }
            if changed.recv().await.is_none() {
                return;
            }
        }
    });
    Ok(sizes)
}
