//! The proxy: passes requests on to the anonymous registry, and goes wrong as the rules say.

use std::fs;
use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use super::faults::{self, Fault, Rule};
use super::http::{self, Head};
use crate::cluster::addresses::{FAULT_PROXY, REGISTRY};
use crate::cluster::record::Record;
use crate::{Error, Result};

const CHUNK: usize = 16 * 1024;

/// The rules as far as they are used up.
struct Rules {
    path: PathBuf,
    /// Of the file that the counts are about.
    written: Option<SystemTime>,
    left: Vec<Rule>,
}

impl Rules {
    /// The fault that this request meets, now used up once more.
    fn take(&mut self, target: &str) -> Option<Fault> {
        let written = fs::metadata(&self.path).and_then(|meta| meta.modified()).ok();
        if written != self.written {
            let text = fs::read_to_string(&self.path).unwrap_or_default();
            self.left = serde_json::from_str(&text).unwrap_or_default();
            self.written = written;
        }
        let rule = self.left.iter_mut().find(|rule| rule.times > 0 && target.contains(&rule.target))?;
        rule.times -= 1;
        Some(rule.fault.clone())
    }
}

/// Serves the testbed `name` until killed.
///
/// # Errors
/// If the address is taken.
pub fn serve(name: &str) -> Result<()> {
    let path = faults::path(&Record::read(name)?);
    let rules = Mutex::new(Rules { path, written: None, left: Vec::new() });
    http::serve(FAULT_PROXY, move |stream| handle(stream, &rules))
        .map_err(Error::file("listen on", FAULT_PROXY))
}

fn handle(mut client: BufReader<TcpStream>, rules: &Mutex<Rules>) -> io::Result<()> {
    let mut request = Head::read(&mut client)?;
    let fault = rules.lock().unwrap_or_else(PoisonError::into_inner).take(request.target());
    let range = request.field("range").unwrap_or("-").to_owned();
    let said = format!("{} {} {range}", request.method(), request.target());
    if let Some(Fault::Status { status, challenge }) = &fault {
        println!("{said} -> {status} (fault)");
        let fields: Vec<_> = challenge.iter().map(|value| ("WWW-Authenticate", value.as_str())).collect();
        return http::answer(client.get_mut(), status, &fields, r#"{"errors":[]}"#);
    }
    if let Some(Fault::Late { milliseconds }) = &fault {
        std::thread::sleep(Duration::from_millis(*milliseconds));
    }
    if fault == Some(Fault::IgnoreRange) {
        request.remove("range");
    }
    let mut registry = BufReader::new(forward(&mut client, request.clone())?);
    let mut answer = Head::read(&mut registry)?;
    answer.set("Connection", "close");
    let mark = fault.as_ref().map_or("", |_| " (fault)");
    println!("{said} -> {}{mark}", answer.target());
    answer.write(client.get_mut())?;
    if request.method() == "HEAD" {
        return Ok(());
    }
    copy(&mut registry, client.get_mut(), fault.as_ref())
}

/// Sends the request on, with its body, and returns the connection on which the answer comes.
fn forward(client: &mut BufReader<TcpStream>, mut request: Head) -> io::Result<TcpStream> {
    let mut registry = TcpStream::connect(REGISTRY)?;
    request.set("Connection", "close");
    let length = request.length();
    request.write(&mut registry)?;
    io::copy(&mut client.take(length), &mut registry)?;
    Ok(registry)
}

/// The body, as it is or not.
fn copy(from: &mut impl Read, to: &mut impl Write, fault: Option<&Fault>) -> io::Result<()> {
    let mut left = match fault {
        Some(Fault::Cut { after }) => *after,
        _ => u64::MAX,
    };
    let mut corrupt = fault == Some(&Fault::Corrupt);
    let mut buffer = vec![0; CHUNK];
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        let count = from.read(buffer.get_mut(..most).unwrap_or_default())?;
        if count == 0 {
            break;
        }
        if let (true, Some(byte)) = (corrupt, buffer.first_mut()) {
            *byte ^= 1;
            corrupt = false;
        }
        if let Some(Fault::Slow { milliseconds }) = fault {
            std::thread::sleep(Duration::from_millis(*milliseconds));
        }
        to.write_all(buffer.get(..count).unwrap_or_default())?;
        left = left.saturating_sub(u64::try_from(count).unwrap_or(u64::MAX));
    }
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(fault: &Fault) -> Vec<u8> {
        let mut out = Vec::new();
        copy(&mut [7_u8; 100_000].as_slice(), &mut out, Some(fault)).expect("copied");
        out
    }

    #[test]
    fn a_cut_body_ends_at_the_byte() {
        assert_eq!(copied(&Fault::Cut { after: 20_001 }).len(), 20_001);
    }

    #[test]
    fn a_corrupt_body_has_its_length_and_one_other_byte() {
        let body = copied(&Fault::Corrupt);
        assert_eq!(body.len(), 100_000);
        assert_eq!(body.iter().filter(|&&byte| byte != 7).count(), 1);
    }

    #[test]
    fn a_rule_is_used_up() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("rules");
        let rule = Rule { target: "/blobs/".into(), times: 1, fault: Fault::Corrupt };
        fs::write(&path, serde_json::to_string(&[rule]).expect("json")).expect("written");
        let mut rules = Rules { path, written: None, left: Vec::new() };
        assert_eq!(rules.take("/v2/a/manifests/1"), None);
        assert_eq!(rules.take("/v2/a/blobs/x"), Some(Fault::Corrupt));
        assert_eq!(rules.take("/v2/a/blobs/x"), None);
    }
}
