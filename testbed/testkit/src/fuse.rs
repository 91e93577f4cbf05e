//! A FUSE server with one empty directory.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::mount::{MountFlags, mount};

/// What the kernel asks for: the opcodes of `linux/fuse.h`.
const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const STATFS: u32 = 17;
const INIT: u32 = 26;
const OPENDIR: u32 = 27;
const READDIR: u32 = 28;
const BATCH_FORGET: u32 = 42;

const ENOENT: i32 = -2;
const ENOSYS: i32 = -38;

/// A filesystem that is not mounted yet.
#[derive(Debug)]
pub struct Fuse(File);

/// A server that answers. Once this is dropped, it takes no request any more; the kernel fails those that wait.
#[derive(Debug)]
pub struct Served {
    silence: Sender<()>,
    _end: Sender<()>,
}

impl Served {
    /// From now on no request is answered, as by a server that was stopped.
    ///
    /// # Panics
    /// Where the server has ended.
    pub fn stop_answering(&self) {
        self.silence.send(()).unwrap();
    }
}

impl Fuse {
    /// # Panics
    /// Without `/dev/fuse`.
    #[must_use]
    pub fn open() -> Self {
        Self(File::options().read(true).write(true).open("/dev/fuse").unwrap())
    }

    /// Mounts it in the mount namespace of the calling thread. `options` beside those that every FUSE mount has.
    ///
    /// # Panics
    /// Where the kernel refuses.
    pub fn mount(&self, at: &Path, options: &str) {
        let fd = self.0.as_raw_fd();
        let options = format!("fd={fd},rootmode=40000,user_id=0,group_id=0{options}");
        let options = std::ffi::CString::new(options).unwrap();
        mount("none", at, "fuse", MountFlags::empty(), Some(options.as_c_str())).unwrap();
    }

    /// Answers from a thread of its own, until the filesystem is unmounted. To be called once it is mounted.
    ///
    /// # Panics
    /// Where no descriptor is left.
    #[must_use]
    pub fn serve(&self) -> Served {
        let device = self.0.try_clone().unwrap();
        let (silence, silenced) = channel();
        let (end, ended) = channel();
        std::thread::spawn(move || answer(device, &silenced, &ended));
        Served { silence, _end: end }
    }
}

fn answer(mut device: File, silenced: &Receiver<()>, ended: &Receiver<()>) {
    let mut request = vec![0u8; 1 << 20];
    while let Ok(length) = device.read(&mut request) {
        if silenced.try_recv().is_ok() {
            let _ = ended.recv();
            return;
        }
        assert!(length >= 40, "a request has a header of 40 bytes");
        let opcode = u32::from_ne_bytes(request[4..8].try_into().unwrap());
        if [FORGET, BATCH_FORGET].contains(&opcode) {
            continue;
        }
        let (error, body) = match opcode {
            INIT => (0, init()),
            GETATTR => (0, attributes()),
            LOOKUP => (ENOENT, vec![]),
            STATFS => (0, vec![0; 80]),
            OPENDIR => (0, vec![0; 16]),
            READDIR => (0, vec![]),
            _ => (ENOSYS, vec![]),
        };
        let mut reply = u32::try_from(16 + body.len()).unwrap().to_ne_bytes().to_vec();
        reply.extend(i32::to_ne_bytes(error));
        reply.extend(&request[8..16]);
        reply.extend(body);
        let _ = device.write(&reply);
    }
}

/// Version 7.31, without any option: such a filesystem cannot be idmapped.
fn init() -> Vec<u8> {
    let mut body = vec![0u8; 64];
    body[..4].copy_from_slice(&7u32.to_ne_bytes());
    body[4..8].copy_from_slice(&31u32.to_ne_bytes());
    body[20..24].copy_from_slice(&65_536u32.to_ne_bytes());
    body
}

/// A directory of root, to be asked about anew each time.
fn attributes() -> Vec<u8> {
    let mut body = vec![0u8; 16 + 88];
    body[16..24].copy_from_slice(&1u64.to_ne_bytes());
    body[16 + 60..16 + 64].copy_from_slice(&0o040_755u32.to_ne_bytes());
    body[16 + 64..16 + 68].copy_from_slice(&2u32.to_ne_bytes());
    body
}
