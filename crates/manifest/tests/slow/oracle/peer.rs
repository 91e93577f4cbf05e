//! The API server's validation as a program: `testbed/peers/api-validation`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::Deserialize;

/// One thing that the server finds wrong.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Refusal {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) field: String,
    pub(super) detail: String,
}

/// What the server makes of an object.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Said {
    pub(super) accepted: bool,
    #[serde(default)]
    pub(super) errors: Vec<Refusal>,
}

/// The program, while it runs.
pub(super) struct Peer {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts it. What is written to the second, one object a line, is answered by the first.
    pub(super) fn start() -> (Self, ChildStdin) {
        let program = testbed::cache::program("api-validation", "api-validation").unwrap();
        let mut command = Command::new(program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let objects = child.stdin.take().unwrap();
        (Self { child, answers }, objects)
    }

    /// The answer to the next object.
    pub(super) fn answer(&mut self) -> Said {
        let mut line = String::new();
        assert!(self.answers.read_line(&mut line).unwrap() > 0, "the API server's validation ended early");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    /// Its verdicts on these objects.
    pub(super) fn judge(texts: &[String]) -> Vec<Said> {
        let (mut peer, mut objects) = Self::start();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for text in texts {
                    assert!(!text.contains('\n'), "one object a line");
                    objects.write_all(format!("{text}\n").as_bytes()).unwrap();
                }
            });
            texts.iter().map(|_| peer.answer()).collect()
        })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It ends by itself when its input does; a test that panics has not closed it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
