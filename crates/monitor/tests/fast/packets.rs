//! What nobody should send, sent; and more at once than usual.

use crate::support;

use std::os::fd::{AsFd, OwnedFd};

use monitor::message::{Asked, Told};
use monitor::packet::{self, Received, Sent};
use monitor::{Attach, Reply, Request, Stdin};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, socketpair};
use support::*;

/// Random numbers that come again with the same seed (Marsaglia's xorshift).
struct Dice(u64);

impl Dice {
    fn new() -> Self {
        let seed = std::env::var("WARDLET_SEED").ok().and_then(|text| text.parse().ok());
        let seed =
            seed.unwrap_or_else(|| u64::from(std::process::id()).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        println!("WARDLET_SEED={seed}");
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(limit).unwrap()).unwrap()
    }
}

fn raw(pod: &Pod) -> OwnedFd {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    connect(&socket, &SocketAddrUnix::new(socket_path(pod)).unwrap()).unwrap();
    socket
}

fn socket_path(pod: &Pod) -> std::path::PathBuf {
    support::socket(pod.dir())
}

/// Their container is not the one that runs: a request that is right by chance may do what it says.
fn requests() -> Vec<Request> {
    let container = || "somebody".to_owned();
    vec![
        Request::List,
        Request::PidNamespace,
        Request::End,
        Request::Reopen { container: container() },
        Request::CloseStdin { container: container() },
        Request::Signal { container: container(), signal: 0 },
        Request::Resize { container: container(), rows: 1, cols: 2 },
        Request::Attach(Attach { container: container(), stdin: true, stdout: true, stderr: true }),
        Request::Adopt { container: container(), dir: "/proc/self".into(), log: None },
        Request::Forget { container: container() },
    ]
}

/// A packet that is a request with something wrong, or nothing at all.
fn broken(dice: &mut Dice) -> Vec<u8> {
    let requests = requests();
    let request = requests[dice.below(requests.len())].clone();
    let mut bytes = serde_json::to_vec(&Asked { id: dice.next(), request }).unwrap();
    match dice.below(6) {
        0 => bytes.truncate(1 + dice.below(bytes.len() - 1)),
        1 => {
            let place = dice.below(bytes.len());
            bytes[place] = dice.next().to_le_bytes()[0];
        }
        2 => {
            let place = dice.below(bytes.len());
            bytes.splice(place..place, [b'['; 300]);
        }
        3 => bytes = (0..1 + dice.below(2000)).map(|_| dice.next().to_le_bytes()[0]).collect(),
        4 => bytes = vec![b'"'; 1 + dice.below(packet::LARGEST)],
        _ => {}
    }
    bytes
}

#[test]
fn no_packet_ends_the_monitor_or_harms_its_container() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    pod.container("one", "read line; exit 11");
    start(&mut client, monitor::StartRequest { stdin: Stdin::Open, ..pod.request("one") });
    let mut dice = Dice::new();
    let (reading, writing) = rustix::pipe::pipe().unwrap();
    for _ in 0..20 {
        let socket = raw(&pod);
        for _ in 0..100 * testkit::rounds() {
            let descriptors: Vec<_> =
                (0..dice.below(4)).map(|n| if n == 0 { reading.as_fd() } else { writing.as_fd() }).collect();
            let bytes = broken(&mut dice);
            while packet::send(&socket, &bytes, &descriptors).unwrap() == Sent::Not {
                std::thread::yield_now();
            }
            // Half of the clients never take an answer.
            if dice.below(2) == 0 {
                let _ = packet::receive(&socket).unwrap();
            }
        }
    }
    let listed = list(&mut pod.connect());
    assert!(listed.iter().any(|listed| listed.container == "one" && listed.running), "{listed:?}");
    let open = std::fs::read_dir(format!("/proc/{}/fd", pod.monitor().pid)).unwrap().count();
    assert!(open < 64, "{open} descriptors are open");
    done(&mut pod.connect(), &Request::Signal { container: "one".to_owned(), signal: 9 });
    wait_until("the end is recorded", || pod.exit("one").is_some());
}

#[test]
fn what_is_no_request_is_refused_and_the_next_one_answered() {
    let pod = Pod::new();
    drop(pod.spawn());
    let socket = raw(&pod);
    let answer = |bytes: &[u8]| {
        assert_eq!(packet::send(&socket, bytes, &[]).unwrap(), Sent::All);
        loop {
            match packet::receive(&socket).unwrap() {
                Received::Packet(packet) => break serde_json::from_slice::<Told>(&packet.bytes).unwrap(),
                Received::Nothing => std::thread::yield_now(),
                other => panic!("{other:?}"),
            }
        }
    };
    for wrong in
        ["x", "{}", r#"{"id":1}"#, r#"{"id":1,"request":"Nothing"}"#, r#"{"id":1,"request":"list","x":1}"#]
    {
        let Told::Reply { id: 0, reply: Reply::Refused { what } } = answer(wrong.as_bytes()) else {
            panic!()
        };
        assert!(what.starts_with("the packet is not a valid request"), "{what}");
    }
    let told = answer(br#"{"id":77,"request":"list"}"#);
    assert_eq!(told, Told::Reply { id: 77, reply: Reply::Listed(vec![]) });
}

/// Larger than any message: sent by hand, since nothing here would send it.
#[test]
fn a_packet_that_is_too_large_is_refused() {
    let pod = Pod::new();
    drop(pod.spawn());
    let socket = raw(&pod);
    rustix::net::send(&socket, &vec![b' '; packet::LARGEST + 1], rustix::net::SendFlags::empty()).unwrap();
    wait_until("an answer came", || match packet::receive(&socket).unwrap() {
        Received::Packet(packet) => {
            assert!(String::from_utf8(packet.bytes).unwrap().contains("too large"));
            true
        }
        _ => false,
    });
}

#[test]
fn a_client_that_takes_no_answer_is_let_go_and_others_are_served() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    let socket = raw(&pod);
    let question = serde_json::to_vec(&Asked { id: 1, request: Request::List }).unwrap();
    wait_until("the client is let go", || {
        !matches!(packet::send(&socket, &question, &[]), Ok(Sent::All | Sent::Not))
    });
    assert_eq!(list(&mut client), []);
}

/// It was cut to nothing once: its size was asked for right before it came.
#[test]
fn a_packet_that_comes_while_one_looks_for_it_is_whole() {
    let (reading, writing) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    let count = 20_000;
    let sender = std::thread::spawn(move || {
        let mut sent = 0;
        while sent < count {
            match packet::send(&writing, b"a packet", &[]).unwrap() {
                Sent::All => sent += 1,
                Sent::Not => std::thread::yield_now(),
            }
            // So that the other side often finds nothing.
            std::thread::yield_now();
        }
    });
    let mut received = 0;
    while received < count {
        match packet::receive(&reading).unwrap() {
            Received::Packet(packet) => {
                assert_eq!(packet.bytes, b"a packet");
                received += 1;
            }
            Received::Nothing => {}
            Received::End => panic!("the end after {received}"),
            Received::Oversized => panic!("packet {received} was cut"),
        }
    }
    sender.join().unwrap();
}
