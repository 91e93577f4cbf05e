//! Go's gRPC clients that dial a socket by its path name that path as the server, percent-encoded: our HTTP library would
//! reset each of their requests.

use std::path::Path;
use std::time::Duration;

use devices::api::VERSION;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::node::{GPU, Node, devices};
use crate::support::{FakePlugin, ready};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let [.., high, middle, low] = payload.len().to_be_bytes();
    [&[high, middle, low, kind, flags, 0, 0, 0, stream][..], payload].concat()
}

/// A string without Huffman's code.
fn text(value: &str) -> Vec<u8> {
    [&[u8::try_from(value.len()).unwrap()][..], value.as_bytes()].concat()
}

/// The headers of a request as Go's client writes them. The server's name goes into the table with the first request, and is
/// an entry of the table in the second.
fn headers(request: u8, socket: &Path) -> Vec<u8> {
    let encoded = socket.display().to_string().replace('/', "%2F");
    let name = match request {
        0 => [&[0x41][..], &text(&encoded)].concat(),
        _ => vec![0xbe],
    };
    let path = [&[0x04][..], &text("/v1beta1.Registration/Register")].concat();
    // content-type is entry 31, with a prefix of four bits.
    let kind = [&[0x0f, 0x10][..], &text("application/grpc")].concat();
    let trailers = [&[0x00][..], &text("te"), &text("trailers")].concat();
    [vec![0x83, 0x86], path, name, kind, trailers].concat()
}

/// A `RegisterRequest`.
fn message() -> Vec<u8> {
    let field = |number: u8, value: &str| [&[number << 3 | 2][..], &text(value)].concat();
    let request = [field(1, VERSION), field(2, "fake.sock"), field(3, GPU)].concat();
    let length = u32::try_from(request.len()).unwrap().to_be_bytes();
    [&[0][..], &length, &request].concat()
}

/// The kinds of the frames of a stream, until it ends.
async fn answer(connection: &mut UnixStream, stream: u8) -> Vec<u8> {
    let mut kinds = Vec::new();
    loop {
        let mut header = [0; 9];
        connection.read_exact(&mut header).await.unwrap();
        let [high, middle, low, kind, flags, _, _, _, of] = header;
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        let mut payload = vec![0; length];
        connection.read_exact(&mut payload).await.unwrap();
        if of == stream {
            kinds.push(kind);
            if kind == RST_STREAM || flags & END_STREAM != 0 {
                return kinds;
            }
        }
    }
}

#[tokio::test]
async fn a_client_that_names_the_sockets_path_as_the_server_is_served() {
    let node = Node::start().await;
    let plugin = FakePlugin::new(devices(&["a"]));
    let endpoint = node.path().join("fake.sock");
    let _process = plugin.serve(&endpoint);
    ready(&endpoint).await;

    let socket = node.path().join("kubelet.sock");
    let mut connection = UnixStream::connect(&socket).await.unwrap();
    connection.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    connection.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
    for (request, stream) in [(0, 1), (1, 3)] {
        let sent = [
            frame(HEADERS, END_HEADERS, stream, &headers(request, &socket)),
            frame(DATA, END_STREAM, stream, &message()),
        ];
        connection.write_all(&sent.concat()).await.unwrap();
        let answer = answer(&mut connection, stream);
        let kinds = tokio::time::timeout(Duration::from_secs(60), answer).await.unwrap();
        assert_eq!(kinds, [HEADERS, DATA, HEADERS], "request {request}");
        node.has(1, 1).await;
    }
    let registrations = "kubelet_device_plugin_registration_total{resource_name=\"example.com/gpu\"} 2\n";
    assert!(node.metrics.text().contains(registrations));
}
