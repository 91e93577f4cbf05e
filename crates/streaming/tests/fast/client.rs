//! Our client against our server: what it is given arrives, and it ends as the command did.

use crate::support;

use streaming::client::{Output, Session, run};
use streaming::{Error, ExecRequest, Size};
use support::{exec, exec_tty, serve};
use tokio::sync::mpsc;

#[tokio::test]
async fn a_command_has_its_input_to_the_end_and_its_outputs_apart() {
    let (server, _) = serve().await;
    let url = server.exec(exec(&["sh", "-c", "cat; echo err >&2; exit 3"])).unwrap();
    let (sender, stdin) = mpsc::channel(1);
    let sent: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
    let pieces: Vec<Vec<u8>> = sent.chunks(5000).map(<[u8]>::to_vec).collect();
    let sending = async move {
        for piece in pieces {
            sender.send(piece).await.unwrap();
        }
    };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let output = |output: Output, bytes: &[u8]| match output {
        Output::Stdout => out.extend_from_slice(bytes),
        Output::Stderr => err.extend_from_slice(bytes),
    };
    let session = Session { stdin: Some(stdin), sizes: None, output };
    let ((), code) = tokio::join!(sending, run(&url, session));
    assert_eq!((code.unwrap(), err.as_slice()), (3, b"err\n".as_slice()));
    assert!(out == sent, "{} of {}", out.len(), sent.len());
}

#[tokio::test]
async fn a_terminals_sizes_arrive_one_after_the_other() {
    let (server, _) = serve().await;
    let url = server.exec(exec_tty(&["sizes", "2"])).unwrap();
    let (sender, sizes) = mpsc::channel(1);
    let (_keys, stdin) = mpsc::channel(1);
    let (told, mut heard) = mpsc::unbounded_channel();
    let output =
        move |_: Output, bytes: &[u8]| told.send(String::from_utf8_lossy(bytes).into_owned()).unwrap();
    let session = Session { stdin: Some(stdin), sizes: Some(sizes), output };
    let sending = async {
        sender.send(Size { rows: 24, columns: 80 }).await.unwrap();
        assert_eq!(heard.recv().await.unwrap(), "80x24\n");
        sender.send(Size { rows: 50, columns: 90 }).await.unwrap();
        assert_eq!(heard.recv().await.unwrap(), "90x50\n");
    };
    let ((), code) = tokio::join!(sending, run(&url, session));
    assert_eq!(code.unwrap(), 0);
}

#[tokio::test]
async fn a_url_that_is_used_up_is_refused_in_the_servers_words() {
    let (server, _) = serve().await;
    let url = server.exec(ExecRequest { stdin: false, ..exec(&["true"]) }).unwrap();
    let session = || Session { stdin: None, sizes: None, output: |_: Output, _: &[u8]| {} };
    assert_eq!(run(&url, session()).await.unwrap(), 0);
    let again = run(&url, session()).await.unwrap_err();
    assert!(
        matches!(&again, Error::Broken { cause, .. } if cause.contains("the runtime answers 4")),
        "{again}"
    );
}
