//! Imports or pulls an image and says so when it is done: what the crash tests kill.
#![allow(missing_docs, clippy::print_stdout, clippy::print_stderr)]

use std::path::Path;
use std::process::ExitCode;

use images::{Image, Images, Limits, Quiet, Reference, Registry, Remote, Result, Scheme};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        [root, "import", file] => open(root).and_then(|images| images.import(Path::new(file), None, &Quiet)),
        [root, "pull", name] => open(root).and_then(|images| Ok(vec![pull(&images, name)?])),
        _ => {
            eprintln!("usage: actor STORE import FILE | actor STORE pull NAME");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(all) => {
            all.iter().for_each(|image| println!("ack {}", image.id));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn open(root: &str) -> Result<Images> {
    Images::open(Path::new(root), Limits::default())
}

/// From a registry of a testbed, which speaks plain HTTP.
fn pull(images: &Images, name: &str) -> Result<Image> {
    let reference: Reference = name.parse()?;
    let plain = Registry { scheme: Scheme::PlainHttp, ..Registry::default() };
    let remote = Remote { registries: [(reference.registry().to_owned(), plain)].into_iter().collect() };
    images.pull(&reference, &remote, &Quiet)
}
