//! What host and agent say to each other: a byte for the kind, four for the length (little endian), the
//! content. One command runs at a time.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Longer ones are not sent; a length beyond it means that the two have lost step.
pub const LONGEST: usize = 1 << 20;
/// How much of a stream goes into one frame: what the port takes in one go.
pub const CHUNK: usize = 32 << 10;

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// Agent: I am here.
    Hello(Hello),
    /// Host: run this.
    Run(Run),
    /// Host: the next bytes of the command's standard input.
    Input(Vec<u8>),
    /// Host: its standard input ends here.
    InputEnd,
    /// Host: kill it and what it started.
    Kill,
    /// Agent: the next bytes of its standard output.
    Stdout(Vec<u8>),
    /// Agent: the next bytes of its standard error.
    Stderr(Vec<u8>),
    /// Agent: it has ended.
    Ended(Ended),
    /// Host: switch off.
    PowerOff,
}

/// What the guest is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The kernel's release, as `uname -r` has it.
    pub release: String,
    /// The label that commands run with.
    pub label: String,
}

/// A command for the guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The program, then its arguments.
    pub argv: Vec<String>,
    /// Variables added to the agent's own environment.
    pub env: Vec<(String, String)>,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ended {
    /// By itself.
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// It never began, for this reason.
    NotStarted(String),
}

impl Frame {
    /// Writes the whole frame.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let (kind, content) = match self {
            Self::Hello(hello) => (b'H', serde_json::to_vec(hello)?),
            Self::Run(run) => (b'R', serde_json::to_vec(run)?),
            Self::Input(bytes) => (b'I', bytes.clone()),
            Self::InputEnd => (b'Z', vec![]),
            Self::Kill => (b'K', vec![]),
            Self::Stdout(bytes) => (b'1', bytes.clone()),
            Self::Stderr(bytes) => (b'2', bytes.clone()),
            Self::Ended(ended) => (b'E', serde_json::to_vec(ended)?),
            Self::PowerOff => (b'P', vec![]),
        };
        let length = u32::try_from(content.len())
            .ok()
            .filter(|_| content.len() <= LONGEST)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the frame is too long"))?;
        let mut bytes = vec![kind];
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&content);
        to.write_all(&bytes)?;
        to.flush()
    }

    /// Reads the next frame.
    pub fn read(from: &mut impl Read) -> io::Result<Self> {
        let (mut kind, mut length) = ([0u8; 1], [0u8; 4]);
        from.read_exact(&mut kind)?;
        from.read_exact(&mut length)?;
        let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
        if length > LONGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame of impossible length"));
        }
        let mut content = vec![0; length];
        from.read_exact(&mut content)?;
        Ok(match kind {
            [b'H'] => Self::Hello(parse(&content)?),
            [b'R'] => Self::Run(parse(&content)?),
            [b'I'] => Self::Input(content),
            [b'Z'] => Self::InputEnd,
            [b'K'] => Self::Kill,
            [b'1'] => Self::Stdout(content),
            [b'2'] => Self::Stderr(content),
            [b'E'] => Self::Ended(parse(&content)?),
            [b'P'] => Self::PowerOff,
            _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame of unknown kind")),
        })
    }
}

fn parse<T: DeserializeOwned>(content: &[u8]) -> io::Result<T> {
    serde_json::from_slice(content).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(frame: &Frame) -> Frame {
        let mut bytes = vec![];
        frame.write(&mut bytes).unwrap();
        Frame::read(&mut bytes.as_slice()).unwrap()
    }

    #[test]
    fn every_frame_survives_the_wire() {
        let frames = [
            Frame::Hello(Hello { release: "6.1".into(), label: "a:b:c:s0".into() }),
            Frame::Run(Run { argv: vec!["sh".into(), "-c".into()], env: vec![("A".into(), "ü\n".into())] }),
            Frame::Input(vec![0, 255, 10]),
            Frame::InputEnd,
            Frame::Kill,
            Frame::Stdout(vec![]),
            Frame::Stderr(b"e".to_vec()),
            Frame::Ended(Ended::Code(3)),
            Frame::Ended(Ended::Signal(9)),
            Frame::Ended(Ended::NotStarted("no such file".into())),
            Frame::PowerOff,
        ];
        for frame in frames {
            assert_eq!(round_trip(&frame), frame);
        }
    }

    #[test]
    fn lost_step_is_noticed_by_kind_and_by_length() {
        assert!(Frame::read(&mut b"?\0\0\0\0".as_slice()).is_err());
        assert!(Frame::read(&mut b"I\xff\xff\xff\xff".as_slice()).is_err());
        assert!(Frame::Input(vec![0; LONGEST + 1]).write(&mut vec![]).is_err());
    }
}
