//! A FUSE filesystem with one empty directory and no wish to be idmapped, mounted where only the test sees it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    Answers,
    /// It takes no request, as one that was stopped.
    Hangs,
}

/// Does `work` while the filesystem is mounted at `fuse` in `dir`; children of this thread see it.
pub(crate) fn mounted<T>(dir: &Path, server: Server, work: impl FnOnce() -> T + Send) -> T
where
    T: Send,
{
    let point = dir.join("fuse");
    std::fs::create_dir(&point).unwrap();
    let device = File::options().read(true).write(true).open("/dev/fuse").unwrap();
    let serving = device.try_clone().unwrap();
    kernel::in_private_mount_namespace(|_| {
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
        let options = std::ffi::CString::new(options).unwrap();
        mount("none", &point, "fuse", MountFlags::empty(), Some(options.as_c_str())).unwrap();
        // The device has requests only once it is mounted.
        if server == Server::Answers {
            std::thread::spawn(move || serve(serving));
        }
        let done = work();
        unmount(&point, UnmountFlags::DETACH).unwrap();
        done
    })
    .unwrap()
}

const INIT: u32 = 26;
const GETATTR: u32 = 3;
const NO_ANSWER: [u32; 2] = [2, 42]; // FORGET, BATCH_FORGET

/// Until the filesystem is unmounted.
fn serve(mut device: File) {
    let mut request = vec![0u8; 1 << 20];
    while let Ok(length) = device.read(&mut request) {
        let number = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().unwrap());
        let (opcode, unique) = (number(4), &request[8..16]);
        assert!(length >= 40);
        if NO_ANSWER.contains(&opcode) {
            continue;
        }
        let (error, body) = match opcode {
            INIT => (0, init()),
            GETATTR => (0, attributes()),
            _ => (-38, vec![]), // ENOSYS
        };
        let mut reply = u32::try_from(16 + body.len()).unwrap().to_ne_bytes().to_vec();
        reply.extend(i32::to_ne_bytes(error));
        reply.extend(unique);
        reply.extend(body);
        let _ = device.write(&reply);
    }
}

/// Version 7.31, no options.
fn init() -> Vec<u8> {
    let mut body = vec![0u8; 64];
    body[..4].copy_from_slice(&7u32.to_ne_bytes());
    body[4..8].copy_from_slice(&31u32.to_ne_bytes());
    body[20..24].copy_from_slice(&4096u32.to_ne_bytes());
    body
}

/// An empty directory of root, true for ever.
fn attributes() -> Vec<u8> {
    let mut body = vec![0u8; 16 + 88];
    body[..8].copy_from_slice(&3600u64.to_ne_bytes());
    body[16..24].copy_from_slice(&1u64.to_ne_bytes());
    body[16 + 60..16 + 64].copy_from_slice(&0o040_755u32.to_ne_bytes());
    body[16 + 64..16 + 68].copy_from_slice(&2u32.to_ne_bytes());
    body
}
