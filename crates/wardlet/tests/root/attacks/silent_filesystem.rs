//! A pod mounts a FUSE filesystem whose server stops to answer, and an overlay on it. The overlay looks like any other, so
//! that `verify` asked it for the owners of its files, and waited for ever: no pod of the node could be checked any more.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, mount};

use crate::wards::{Site, Wanted, Ward};

/// Far from the blocks of all other tests.
const FIRST: u64 = 4_000_317_440;

#[test]
fn a_filesystem_that_does_not_answer_keeps_verify_from_nothing_but_its_own_pod() {
    let site = Site::new(FIRST, 16);
    let good = Ward::start(&Wanted::new("good", site.lease("good")));
    let silent = Ward::start(&Wanted::new("silent", site.lease("silent")));
    let device = File::options().read(true).write(true).open("/dev/fuse").unwrap();
    let serving = device.try_clone().unwrap();
    let (silence, silenced) = channel::<()>();
    let (end, ended) = channel::<()>();
    let process = kernel::Process::open(silent.pid()).unwrap();
    kernel::in_mount_namespace_of(&process, move |_| {
        for dir in ["/f", "/lower", "/overlay"] {
            fs::create_dir(dir).unwrap();
        }
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        let options = std::ffi::CString::new(options).unwrap();
        mount("none", "/f", "fuse", MountFlags::empty(), Some(options.as_c_str())).unwrap();
        std::thread::spawn(move || serve(serving, &silenced, &ended));
        let layers = c"lowerdir=/f:/lower";
        mount("overlay", "/overlay", "overlay", MountFlags::empty(), Some(layers)).unwrap();
    })
    .unwrap();
    silence.send(()).unwrap();

    for (uid, wanted, verdict) in [("good", Some(0), "isolated"), ("silent", Some(2), "unseen")] {
        let since = Instant::now();
        let (code, report) = site.json(&format!("verify {uid}"));
        assert!(since.elapsed() < Duration::from_secs(60), "{:?}", since.elapsed());
        assert_eq!((code, &report["pods"][0]["verdict"]), (wanted, &verdict.into()), "{report:#}");
    }
    drop(end);
    drop((good, silent));
}

/// Answers until it is told to be silent. The kernel gives up on all requests when this ends.
fn serve(mut device: File, silenced: &Receiver<()>, ended: &Receiver<()>) {
    const LOOKUP: u32 = 1;
    const GETATTR: u32 = 3;
    const STATFS: u32 = 17;
    const INIT: u32 = 26;
    const OPENDIR: u32 = 27;
    const READDIR: u32 = 28;
    const NO_ANSWER: [u32; 2] = [2, 42];
    let mut request = vec![0u8; 1 << 17];
    while device.read(&mut request).is_ok() {
        if silenced.try_recv().is_ok() {
            let _ = ended.recv();
            return;
        }
        let opcode = u32::from_ne_bytes(request[4..8].try_into().unwrap());
        if NO_ANSWER.contains(&opcode) {
            continue;
        }
        let (error, body) = match opcode {
            INIT => (0, init()),
            GETATTR => (0, attributes()),
            LOOKUP => (-2, vec![]),
            STATFS => (0, vec![0; 80]),
            OPENDIR => (0, vec![0; 16]),
            READDIR => (0, vec![]),
            _ => (-38, vec![]),
        };
        let mut reply = u32::try_from(16 + body.len()).unwrap().to_ne_bytes().to_vec();
        reply.extend(i32::to_ne_bytes(error));
        reply.extend(&request[8..16]);
        reply.extend(body);
        let _ = device.write(&reply);
    }
}

/// Version 7.31, no options.
fn init() -> Vec<u8> {
    let mut body = vec![0u8; 64];
    body[..4].copy_from_slice(&7u32.to_ne_bytes());
    body[4..8].copy_from_slice(&31u32.to_ne_bytes());
    body[20..24].copy_from_slice(&65_536u32.to_ne_bytes());
    body
}

/// A directory, to be asked about anew each time.
fn attributes() -> Vec<u8> {
    let mut body = vec![0u8; 16 + 88];
    body[16..24].copy_from_slice(&1u64.to_ne_bytes());
    body[16 + 60..16 + 64].copy_from_slice(&0o040_755u32.to_ne_bytes());
    body[16 + 64..16 + 68].copy_from_slice(&2u32.to_ne_bytes());
    body
}
